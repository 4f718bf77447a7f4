"""The ``guiderail`` command: one module for each of its own commands."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from guiderail.cli import _batch, _bench, _check, _demo, _explain, _export, _generate, _match, _serve
from guiderail.cli._words import in_words_of
from guiderail.errors import GuiderailError

__all__ = ["app", "main"]


class _Command(TyperCommand):
    """A command whose ``--help`` shows what can be typed, and no types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    """Likewise, for the options before a command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    for one in params:
        if getattr(one, "is_flag", False):  # it takes no value
            one.metavar = ""
        if one.param_type_name == "argument":  # its name says enough
            one.display_type_rich = lambda ctx: None
    return params


app = typer.Typer(
    name="guiderail",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Make a language model write text that provably fits a constraint.",
    epilog="Exit status: 0 success; 1 if `match` finds a string that does not match, `check` a schema that cannot be "
    "used, or `batch` leaves rows without an answer; 2 an error, explained on stderr.",
)
app.command("demo", cls=_Command)(_demo.demo_command)
app.command("generate", cls=_Command)(_generate.generate_command)
app.command("batch", cls=_Command)(_batch.batch_command)
app.command("check", cls=_Command)(_check.check_command)
app.command("match", cls=_Command)(_match.match_command)
app.command("explain", cls=_Command)(_explain.explain_command)
app.command("export", cls=_Command)(_export.export_command)
app.command("bench", cls=_Command)(_bench.bench_command)
app.command("serve", cls=_Command)(_serve.serve_command)


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
