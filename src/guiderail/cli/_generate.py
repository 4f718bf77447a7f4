"""``guiderail generate``: text from a model, streamed, with a progress line where someone is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated

import typer

from guiderail.cli._options import Given, ModelOptions, SamplingOptions, takes_options
from guiderail.errors import ModelError

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from guiderail.constraints.constraint import Constraint
    from guiderail.generation.models import Model
    from guiderail.generation.options import Options
    from guiderail.generation.result import Generation


@takes_options()
def generate_command(
    *,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-P", metavar="TEXT", help="Prompt; by default it is read from stdin.")
    ] = None,
    given: Given,
    loading: ModelOptions,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system message.")] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Use the model's chat template, or continue the prompt.")
    ] = True,
    describe: Annotated[
        bool, typer.Option("--describe", help="Describe in the prompt what --schema or --type requires.")
    ] = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum number of tokens to write; by default 256, or 1024 for --schema, --type, --xsd and --tools.",
        ),
    ] = None,
    finish: Annotated[
        bool,
        typer.Option(
            "--finish/--no-finish",
            help="Complete the text within --max-tokens, or fail at once if that is impossible. With --no-finish, fail "
            "only when the tokens run out.",
        ),
    ] = True,
    on_shortened: Annotated[
        str | None,
        typer.Option(
            metavar="error|warn",
            help="What to do if guiderail had to shorten the text in order to complete it: by default an error for "
            "--schema, --type, --xsd and --tools, otherwise a warning.",
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("-n", metavar="N", help="Generate N texts, one per line; needs a --temperature above 0."),
    ] = None,
    sampling: SamplingOptions,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads; by default 1 for the embedded model, else the idle cores.")
    ] = None,
) -> None:
    r"""Generate text, JSON or a value of a Python type.

    The output is streamed to stdout. If stderr is a terminal, a status line there shows the tokens, the speed and the
    share of the time that the constraint took. JSON is indented, with its members in the order of the schema, unless
    --layout and --property-order say otherwise; at the end it is parsed and validated. With -n, the texts are printed
    one per line, once all are complete.

    **Examples**

    - `guiderail generate --regex "(19|20)[0-9]{2}" --prompt "In which year did Apollo 11 land on the Moon?"`
    - `guiderail generate --choice red --choice green --choice blue --prompt "What colour is grass?"`
    - `guiderail generate --regex "[A-Z][a-z]+(,? [a-z]+){4,12}[.]" --prompt "Write one sentence about the sea."`
    - `guiderail generate --schema person.json --prompt "Invent a character: a musician from Brazil."`
    - `guiderail generate --type models.py:Book --prompt "Moby Dick is a novel by Herman Melville."`
    - `guiderail generate --schema person.json --prompt "Invent a character." -n 3 --temperature 0.8 > people.jsonl`
    - `guiderail generate --xsd order.xsd --prompt "Order two books."`
    - `guiderail generate --tools tools.json --tool-format hermes --tool-choice weather --prompt "Will it rain?"`
    - `guiderail generate --grammar sql --prompt "Write an SQL query that selects the names of people older than 30."`
    """
    # Check all options before loading a model.
    if on_shortened not in (None, "error", "warn"):
        raise ModelError(f"--on-shortened must be error or warn, not {on_shortened!r}", code="bad-option")
    several = n is not None and n > 1
    constraint = given.constraint("spaced" if several else "indented")
    long = given.is_value or given.xsd is not None or given.tools is not None
    from guiderail.generation.options import Options

    options = Options(
        max_tokens=(1024 if long else 256) if max_tokens is None else max_tokens,
        **asdict(sampling),
        n=n,
        system=system,
        chat=chat,
        describe=describe,
        on_incomplete="finish" if finish else "return",
        on_shortened="return" if finish else None,
    )
    if prompt is None:
        if sys.stdin.isatty():
            raise ModelError('give a --prompt "…", or pipe one in', code="bad-option")
        prompt = _piped(sys.stdin.read(), chat)
    constraint.program()

    show = _Display(json=given.is_value)
    show.note("loading the model …")
    runner = loading.load(threads)
    results, status = (_several if several else _streamed)(runner, prompt, constraint, options, show)
    verdicts = {_validate(constraint, result) for result in results if long and result.matched}
    reasons = ", ".join(dict.fromkeys(result.finish_reason for result in results))
    show.end(f"{status}  {reasons}{''.join(sorted(verdicts))}")
    runner.close()
    how = on_shortened or ("error" if long else "warn")
    for i, result in enumerate(results):
        which = f" {i + 1} of {len(results)}" if several else ""
        _check_end(result, which, bounds=given.bounds, is_text=not long, finish=finish, on_shortened=how)


def _piped(text: str, chat: bool) -> str:
    """The prompt in a piped text. One that the model continues keeps its spaces, without the line break of ``echo``."""
    if not text.strip():
        raise ModelError('stdin is empty; give a --prompt "…", or pipe one in', code="bad-option")
    return text.strip() if chat else text.removesuffix("\n").removesuffix("\r")


def _streamed(
    runner: Model, prompt: str, constraint: Constraint, options: Options, show: _Display
) -> tuple[list[Generation], str]:
    """One text, shown while it is written; and the remarks about it."""
    from guiderail.generation.generate import ValueStream, stream

    given = {one.name: getattr(options, one.name) for one in fields(options) if one.name != "n"}
    with stream(runner, prompt, constraint, **given) as run:
        show.note("reading the prompt …")
        started = time.perf_counter()

        def status() -> str:
            return _status([run.result], time.perf_counter() - started)

        with show:
            for piece in run.pieces() if isinstance(run, ValueStream) else run:
                show.add(piece, status)
        return [run.result], status()


def _several(
    runner: Model, prompt: str, constraint: Constraint, options: Options, show: _Display
) -> tuple[list[Generation], str]:
    """Several texts, one per line once all are complete; and the remarks about them."""
    from guiderail.generation.generate import run

    show.note(f"writing {options.n} texts …")
    started = time.perf_counter()
    results, _ = run(runner, [prompt], constraint, options, single=False)
    status = _status(results, time.perf_counter() - started)
    show.note("")
    for result in results:
        print(result.text)
    return results, status


def _status(results: Sequence[Generation], seconds: float) -> str:
    tokens, forced = sum(len(one.tokens) for one in results), sum(one.forced_tokens for one in results)
    share = sum(one.constraint_seconds for one in results) / seconds if seconds > 0 else 0.0
    note = f" ({forced} forced)" if forced else ""
    return f"{tokens} tokens{note}  {tokens / max(seconds, 1e-9):.0f} tokens/s  constraint {share:.1%} of the time"


def _check_end(result: Generation, which: str, *, bounds: str, is_text: bool, finish: bool, on_shortened: str) -> None:
    """Reports a text that was cut or shortened.

    Args:
        which: which of several texts it is, for messages.

    Raises:
        ModelError: ``incomplete``, ``shortened``.
    """
    from guiderail.generation.result import shortened_message, was_shortened

    shortened = was_shortened(result)
    if result.stop_string is not None and not result.matched:
        if is_text:
            return
        raise ModelError(
            f"--stop {result.stop_string!r} ended the value{which} before it was complete; leave that stop string out",
            code="incomplete",
        )
    if not result.matched or (shortened and not finish):
        raise ModelError(
            f"the text{which} is not complete after {len(result.tokens)} tokens; raise --max-tokens, or bound {bounds}",
            code="incomplete",
        )
    if not shortened:
        return
    way_out = f"raise --max-tokens, or bound {bounds}"
    if on_shortened == "error":
        message = shortened_message(result, which, f"{way_out}; --on-shortened warn accepts it as it is")
        raise ModelError(message, code="shortened")
    print(f"warning: {shortened_message(result, which, way_out)}", file=sys.stderr)


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

    def __init__(self, *, json: bool) -> None:
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
        if self._line and time.monotonic() < self._next:  # drawing takes longer than many tokens
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
