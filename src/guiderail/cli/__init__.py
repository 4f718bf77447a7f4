"""The ``guiderail`` command: one module for each of its own commands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from guiderail.cli import _batch, _bench, _check, _demo, _explain, _export, _generate, _match, _serve
from guiderail.cli._words import in_words_of
from guiderail.errors import GuiderailError

__all__ = ["app", "main"]

app = typer.Typer(
    name="guiderail",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Make a language model write text that provably fits a constraint.",
    epilog="Exit status: 0 success; 1 if `match` finds a string that does not match, `check` a schema that cannot be "
    "used, or `batch` leaves rows without an answer; 2 an error, explained on stderr.",
)
app.command("demo")(_demo.demo_command)
app.command("generate")(_generate.generate_command)
app.command("batch")(_batch.batch_command)
app.command("check")(_check.check_command)
app.command("match")(_match.match_command)
app.command("explain")(_explain.explain_command)
app.command("export")(_export.export_command)
app.command("bench")(_bench.bench_command)
app.command("serve")(_serve.serve_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from guiderail import __version__

        print(f"guiderail {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    return


def main() -> None:
    """Runs the command line. What a user can get wrong ends as one paragraph on stderr, with exit status 2."""
    for stream in (sys.stdout, sys.stderr):  # replace a character that the terminal cannot show instead of failing
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except GuiderailError as error:
        sys.stdout.flush()
        error.message = in_words_of(typer.main.get_command(app), error.message, error.code)
        print(f"error: {error.render()}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as `head`, has exited: there is nobody to write to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
