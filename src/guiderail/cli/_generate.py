"""``guiderail generate``: text from a model, streamed, with a progress line where someone is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from guiderail.cli._options import ContextOption, DeviceOption, Given, GpuLayersOption, ModelOption, takes_constraint
from guiderail.errors import ModelError

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from guiderail.constraints.constraint import Constraint
    from guiderail.generation.generate import Generation


@takes_constraint()
def generate_command(
    *,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-P", metavar="TEXT", help="What to ask; by default stdin is read.")
    ] = None,
    given: Given,
    model: ModelOption = None,
    device: DeviceOption = None,
    gpu_layers: GpuLayersOption = None,
    context_length: ContextOption = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system message.")] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Ask by the model's chat template, or continue the prompt.")
    ] = True,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="The most tokens to write; by default 256, 1024 for --schema, --type, --xsd and --tools."
        ),
    ] = None,
    finish: Annotated[
        bool,
        typer.Option(
            "--finish/--no-finish",
            help="Complete the text within --max-tokens, or say at once that they are too few; or let the model write "
            "on, and fail where they run out.",
        ),
    ] = True,
    on_shortened: Annotated[
        str | None,
        typer.Option(
            metavar="error|warn",
            help="What to do if the text is complete only because it was steered to its end: by default an error for "
            "--schema, --type, --xsd and --tools, else a warning.",
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(metavar="T", help="0: the most likely token.")] = 0.0,
    top_p: Annotated[float, typer.Option(metavar="P", help="Sample among the likeliest tokens up to P.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Sample among the K likeliest.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Makes sampling repeatable.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Ends the text, and is no part of it; may be repeated.")
    ] = None,
    presence_penalty: Annotated[
        float, typer.Option(metavar="X", help="Subtracted from the logits of tokens that the text has, -2 to 2.")
    ] = 0.0,
    frequency_penalty: Annotated[
        float, typer.Option(metavar="X", help="Subtracted for each time that the text has the token, -2 to 2.")
    ] = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(metavar="X", help="Makes tokens of the prompt and the text less likely; 1 does not.")
    ] = 1.0,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="By default 1 for the embedded model, else the idle cores.")
    ] = None,
) -> None:
    r"""Write a text, a JSON value or a value of a Python type.

    The text goes to stdout as it is written. Where stderr is a terminal, a line there tells tokens, speed and the
    share of the time that the constraint took. JSON is indented and has its members in the order of the schema unless
    --layout and --property-order say otherwise; at the end it is read back and validated.

    **Examples**

    - `guiderail generate --regex "(19|20)[0-9]{2}" --prompt "In which year did Apollo 11 land on the Moon?"`
    - `guiderail generate --choice red --choice green --choice blue --prompt "What colour is grass?"`
    - `guiderail generate --regex "[A-Z][a-z]+(,? [a-z]+){4,12}[.]" --prompt "Write one sentence about the sea."`
    - `guiderail generate --schema person.json --prompt "Invent a character: a musician from Brazil."`
    - `guiderail generate --type models.py:Book --prompt "Moby Dick is a novel by Herman Melville."`
    - `guiderail generate --xsd order.xsd --prompt "Order two books."`
    - `guiderail generate --tools tools.json --tool-format hermes --tool-choice required --prompt "Will it rain?"`
    - `guiderail generate --grammar sql --prompt "Write an SQL query that selects the names of people older than 30."`
    """
    # Everything that can be wrong with the options is found before a model is loaded.
    if on_shortened not in (None, "error", "warn"):
        raise ModelError(f"--on-shortened is error or warn, not {on_shortened!r}", code="bad-option")
    constraint = given.constraint("indented")
    if prompt is None:
        if sys.stdin.isatty():
            raise ModelError('give a --prompt "…", or pipe one in', code="bad-option")
        prompt = sys.stdin.read().strip()
    constraint.program()
    structured = given.is_value
    long = structured or given.xsd is not None or given.tools is not None

    from guiderail.generation.generate import ValueStream, stream
    from guiderail.generation.models import load_model

    show = _Display(json=structured)
    show.note("loading the model …")
    runner = load_model(model, threads=threads, context_length=context_length, gpu_layers=gpu_layers, device=device)
    with stream(
        runner,
        prompt,
        constraint,
        max_tokens=(1024 if long else 256) if max_tokens is None else max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        stop=stop,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        repetition_penalty=repetition_penalty,
        system=system,
        chat=chat,
        on_incomplete="finish" if finish else "return",
        on_shortened="return" if finish else None,
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
            for piece in run.pieces() if isinstance(run, ValueStream) else run:
                show.add(piece, status)
        result = run.result
    verdict = _validate(constraint, result) if long and result.matched else ""
    show.end(f"{status()}  {result.finish_reason}{verdict}")
    runner.close()
    bounds = "the schema (maxLength, maxItems)" if structured else "the constraint (--max-length)"
    how = on_shortened or ("error" if long else "warn")
    _check_end(result, bounds=bounds, is_text=not long, finish=finish, on_shortened=how)


def _check_end(result: Generation, *, bounds: str, is_text: bool, finish: bool, on_shortened: str) -> None:
    """Tells of a text that was cut, or steered to its end.

    Raises:
        ModelError: ``incomplete``, ``shortened``.
    """
    from guiderail.generation.result import shortened_message, was_shortened

    shortened = was_shortened(result)
    if result.stop_text is not None and not result.matched:
        if is_text:
            return
        raise ModelError(
            f"the value was ended by --stop {result.stop_text!r} before it was complete", code="incomplete"
        )
    if not result.matched or (shortened and not finish):
        raise ModelError(
            f"the text is not complete after {len(result.tokens)} tokens; raise --max-tokens, or bound {bounds}",
            code="incomplete",
        )
    if not shortened:
        return
    way_out = f"raise --max-tokens, or bound {bounds}"
    if on_shortened == "error":
        message = shortened_message(result, "", f"{way_out}; --on-shortened warn takes it as it is")
        raise ModelError(message, code="shortened")
    print(f"warning: {shortened_message(result, '', way_out)}", file=sys.stderr)


def _validate(constraint: Constraint, result: Generation) -> str:
    """Reads the value back, which validates XML; for a JSON Schema, the parsed JSON alone decides."""
    from guiderail.frontends.json_schema import JsonSchema

    value = result.value
    if not isinstance(constraint, JsonSchema):
        return f"  read as {type(value).__name__}"
    if not constraint.accepts(value):
        raise ModelError(
            "the text was written under the schema, but its value is not valid: please report this, with the schema "
            "and the text",
            code="invalid-value",
        )
    return "  valid"


_REDRAW_SECONDS = 0.05


class _Display:
    """Text on stdout and a progress line on stderr, which may be one and the same terminal.

    If it is, text and line are redrawn together while the text grows, and the text is printed for good at the end.

    Args:
        json: colour the text as JSON, on terminals.
    """

    def __init__(self, *, json: bool = False) -> None:
        self._json = json
        self._out, self._line = sys.stdout.isatty(), sys.stderr.isatty()
        self._text = ""
        self._next = 0.0
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
            if self._json:
                from rich.console import Console

                Console(highlight=False).print(self._styled(self._text), soft_wrap=True, end="")
            else:
                sys.stdout.write(self._text)
        if self._text or self._out:
            sys.stdout.write("\n")
        sys.stdout.flush()

    def add(self, piece: str, status: Callable[[], str]) -> None:
        self._text += piece
        if self._line and time.monotonic() < self._next:  # drawing takes longer than many a token
            if self._live is None:
                sys.stdout.write(piece)
                sys.stdout.flush()
            return
        self._next = time.monotonic() + _REDRAW_SECONDS
        if self._live is not None:
            from rich.console import Group
            from rich.text import Text

            shown = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in self._text)
            room = max(1, self._console.height - 3)
            lines = self._styled(shown).wrap(self._console, self._console.width)[-room:]
            self._live.update(Group(*lines, Text(status(), style="dim", no_wrap=True, overflow="ellipsis")))
            return
        sys.stdout.write(piece)
        sys.stdout.flush()
        if self._line:
            self._overwrite(status())

    def _styled(self, text: str) -> Text:
        from rich.highlighter import JSONHighlighter
        from rich.text import Text

        styled = Text(text)
        if self._json:
            JSONHighlighter().highlight(styled)
        return styled

    def end(self, status: str) -> None:
        if self._line:
            self._overwrite("")
            self._console.print(status, style="dim", markup=False)

    def _overwrite(self, text: str) -> None:
        sys.stderr.write("\r\x1b[K" + text[: max(1, self._console.width - 1)])
        sys.stderr.flush()
