"""``guiderail generate``: text from a model, streamed, with a progress line where someone is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from guiderail.cli._options import (
    ChoiceOption,
    DialectOption,
    FlagsOption,
    MaxLengthOption,
    ModelOption,
    PatternOption,
    RegexOption,
    SearchOption,
    build_constraint,
)
from guiderail.errors import ModelError

if TYPE_CHECKING:
    from rich.live import Live


def generate_command(
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-P", metavar="TEXT", help="What to ask; by default stdin is read.")
    ] = None,
    regex: RegexOption = None,
    choice: ChoiceOption = None,
    pattern: PatternOption = None,
    dialect: DialectOption = "python",
    flags: FlagsOption = "",
    search: SearchOption = False,
    max_length: MaxLengthOption = None,
    model: ModelOption = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system message.")] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Ask by the model's chat template, or continue the prompt.")
    ] = True,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="The most tokens to write.")] = 256,
    temperature: Annotated[float, typer.Option(metavar="T", help="0: the most likely token.")] = 0.0,
    top_p: Annotated[float, typer.Option(metavar="P", help="Sample among the likeliest tokens up to P.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Sample among the K likeliest.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Makes sampling repeatable.")] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="By default 1 for the embedded model, else the idle cores.")
    ] = None,
) -> None:
    r"""Write a text that fits a constraint.

    The text goes to stdout as it is written. Where stderr is a terminal, a line there tells tokens, speed and the
    share of the time that the constraint took.

    **Examples**

    - `guiderail generate --pattern date --prompt "When did Apollo 11 land on the Moon?"`
    - `guiderail generate --choice yes --choice no --prompt "Is water wet?"`
    - `guiderail generate --regex "[A-Z][a-z]+ [A-Z][a-z]+" --prompt "Who wrote Hamlet?" --temperature 0.7 --seed 1`
    """
    # Everything that can be wrong with the options is found before a model is loaded.
    constraint = build_constraint(
        regex, choice, pattern, dialect=dialect, flags=flags, search=search, max_length=max_length
    )
    if prompt is None:
        if sys.stdin.isatty():
            raise ModelError('give a --prompt "…", or pipe one in', code="bad-option")
        prompt = sys.stdin.read().strip()
    constraint.program()

    from guiderail.generation import stream
    from guiderail.models import load_model

    show = _Display()
    show.note("loading the model …")
    runner = load_model(model, threads=threads)
    with stream(
        runner,
        prompt,
        constraint,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        system=system,
        chat=chat,
        on_incomplete="return",
    ) as run:
        show.note("reading the prompt …")
        started = time.perf_counter()

        def status() -> str:
            done = run.result
            spent = time.perf_counter() - started
            forced = f" ({done.forced_tokens} forced)" if done.forced_tokens else ""
            share = done.constraint_seconds / spent if spent > 0 else 0.0
            return (
                f"{len(done.tokens)} tokens{forced}  {len(done.tokens) / max(spent, 1e-9):.0f} tokens/s  "
                f"constraint {share:.1%} of the time"
            )

        with show:
            for piece in run:
                show.add(piece, status)
        result = run.result
    show.end(f"{status()}  {result.finish_reason}")
    runner.close()
    if not result.matched:
        raise ModelError(
            f"the text is not complete after {len(result.tokens)} tokens; raise --max-tokens, or bound the "
            "constraint (--max-length)",
            code="incomplete",
        )


class _Display:
    """Text on stdout and a progress line on stderr, which may be one and the same terminal.

    If it is, text and line are redrawn together while the text grows, and the text is printed for good at the end.
    """

    def __init__(self) -> None:
        self._out, self._line = sys.stdout.isatty(), sys.stderr.isatty()
        self._text = ""
        self._live: Live | None = None
        if self._line:
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False)

    def note(self, text: str) -> None:
        if self._line:
            self._overwrite(text)

    def __enter__(self) -> _Display:
        if self._out and self._line:
            from rich.live import Live

            self._overwrite("")
            self._live = Live(console=self._console, transient=True, refresh_per_second=20)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            sys.stdout.write(self._text)
        if self._text or self._out:
            sys.stdout.write("\n")
        sys.stdout.flush()

    def add(self, piece: str, status: Callable[[], str]) -> None:
        self._text += piece
        if self._live is not None:
            from rich.console import Group
            from rich.text import Text

            shown = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in self._text)
            room = max(1, self._console.height - 3)
            lines = Text(shown).wrap(self._console, self._console.width)[-room:]
            self._live.update(Group(*lines, Text(status(), style="dim", no_wrap=True, overflow="ellipsis")))
            return
        sys.stdout.write(piece)
        sys.stdout.flush()
        if self._line:
            self._overwrite(status())

    def end(self, status: str) -> None:
        if self._line:
            self._overwrite("")
            self._console.print(status, style="dim", markup=False)

    def _overwrite(self, text: str) -> None:
        sys.stderr.write("\r\x1b[K" + text[: max(1, self._console.width - 1)])
        sys.stderr.flush()
