"""``guiderail explain``: what may come next, with and without the constraint, by the model's own probabilities; or a
whole text, token by token, as a page or as JSON."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from guiderail.cli._options import Given, ModelOption, VocabularyOption, load_vocabulary, takes_options
from guiderail.errors import CompileError
from guiderail.support.files import reason

if TYPE_CHECKING:
    from guiderail.constraints.constraint import Constraint
    from guiderail.inspect import Record

_LOOK = "A whole text, token by token"


@takes_options()
def explain_command(
    *,
    given: Given,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="The text so far.")] = "",
    prompt: Annotated[str, typer.Option("--prompt", "-P", metavar="TEXT", help="Prompt.")] = "",
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Use the model's chat template, or continue the prompt.")
    ] = True,
    model: ModelOption = None,
    no_model: Annotated[
        bool,
        typer.Option("--no-model", help="Describe what may come next in words and examples, without probabilities."),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Rows of the table (15), or of each table in an HTML page (8)."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_LOOK, help="Write an HTML page that shows why each token was written."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_LOOK, help="Write the same content as JSON; - is stdout."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", rich_help_panel=_LOOK, help="Text to examine; by default the model generates one."
        ),
    ] = None,
    vocabulary: VocabularyOption = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", rich_help_panel=_LOOK, help="System message.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=_LOOK, help="Maximum number of tokens to write (256).")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            rich_help_panel=_LOOK,
            help="Sampling temperature; 0, the default, takes the most likely token.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=_LOOK, help="Seed that makes sampling repeatable.")
    ] = None,
) -> None:
    r"""Show the next tokens with and without a constraint, or a whole text token by token.

    For each token: its probability in the model alone, whether the constraint allows it, and its probability under
    the constraint. The last line is the total probability that the constraint removed.

    With `--html` or `--json`, a whole text: at each token, what was allowed, what the model would have preferred, the
    probability removed, and the location in the schema, the pattern or the grammar.

    **Examples**

    - `guiderail explain --pattern date --prompt "When did Apollo 11 land?" --prefix 19`
    - `guiderail explain --regex "(yes|no)( \w+)?" --prefix y --no-model`
    - `guiderail explain --schema person.json --prompt "Describe Ada Lovelace." --html why.html`
    - `guiderail explain --schema person.json --text '{"name": 1}' --no-model --html why.html`
    """
    constraint = given.constraint()
    if html is not None or json is not None:
        if prefix:
            raise CompileError("--prefix shows the next tokens; to examine a whole text, use --text", code="bad-option")
        writing = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        asking = {"prompt": prompt, "chat": chat, "system": system}
        record = _record(constraint, text, model, no_model, vocabulary, top or 8, asking, writing)
        _write(record, html, json)
        return
    whole = {"--text": text, "--vocabulary": vocabulary, "--system": system, "--max-tokens": max_tokens,
             "--temperature": temperature, "--seed": seed}  # fmt: skip
    for name, value in whole.items():
        if value is not None:
            raise CompileError(f"{name} needs --html or --json", code="bad-option")
    explanation = constraint.explain(prefix)
    if no_model or not explanation.valid:
        if no_model and (model is not None or prompt):
            raise CompileError("--no-model cannot be combined with --model or --prompt", code="bad-option")
        print(explanation)
        raise typer.Exit(0 if explanation.valid else 1)
    _table(constraint, prefix, prompt, chat, model, top or 15)


def _record(
    constraint: Constraint,
    text: str | None,
    model: str | None,
    no_model: bool,
    vocabulary: str | None,
    top: int,
    asking: dict[str, Any],
    writing: dict[str, Any],
) -> Record:
    """What the model writes, or the analysis of a given text."""
    from guiderail.generation.models import opened
    from guiderail.inspect import record, replay

    used = [f"--{name.replace('_', '-')}" for name, value in writing.items() if value is not None]
    if no_model:
        if text is None:
            raise CompileError("--no-model needs --text: there is no model to write one", code="bad-option")
        if model is not None or asking["prompt"] or asking["system"] is not None:
            raise CompileError("--no-model cannot be combined with --model, --prompt or --system", code="bad-option")
    elif vocabulary is not None:
        raise CompileError("--vocabulary needs --no-model: a model has its own vocabulary", code="bad-option")
    if text is not None and used:
        raise CompileError(f"{used[0]} applies to a text that the model writes; leave out --text", code="bad-option")
    if no_model and text is not None:
        return replay(constraint, text, vocabulary=load_vocabulary(vocabulary), top=top)
    with opened(model) as runner:
        if text is not None:
            return replay(constraint, text, model=runner, top=top, **asking)
        prompt = asking.pop("prompt")
        given = {name: value for name, value in writing.items() if value is not None}
        return record(runner, prompt, constraint, top=top, **asking, **given)


def _write(record: Record, html: Path | None, json: Path | None) -> None:
    try:
        if html is not None:
            record.to_html(html)
        if json is not None and str(json) == "-":
            print(record.to_json())
        elif json is not None:
            record.to_json(json)
    except OSError as error:
        raise CompileError(f"{error.filename} cannot be written: {reason(error)}", code="bad-option") from None
    if json is None or str(json) != "-":
        print(record.summary())
    for path in (html, json):
        if path is not None and str(path) != "-":
            print(f"written to {path}", file=sys.stderr)


def _table(constraint: object, prefix: str, prompt: str, chat: bool, model: str | None, top: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from guiderail.generation.models import opened
    from guiderail.generation.sampling import largest, probabilities
    from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool
    from guiderail.matching.guide import compile

    with opened(model) as runner:
        vocabulary = runner.vocabulary
        matcher = compile(constraint, vocabulary).matcher()
        written = vocabulary.encode(prefix) if prefix else []
        if not all(map(matcher.accept_token, written)):
            raise CompileError(f"the tokenizer's spelling of the prefix {prefix!r} is not allowed", code="bad-prefix")
        asked = runner.encode(prompt, chat=chat)
        with closing(runner.new_session(1, len(asked) + len(written))) as session:
            logits = session.feed([asked + written])[0, : vocabulary.size].copy()
    if matcher.is_complete():
        print(f"After {prefix!r} the text is complete: nothing may follow.")
        return
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    allowed = bitmask_to_bool(bitmask, vocabulary.size)[0][: len(logits)]
    before = probabilities(logits)
    after = probabilities(np.where(allowed, logits, -np.inf).astype(np.float32))
    shown = largest(np.maximum(before, after), top)

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("token", "left"), ("id", "right"), ("model alone", "right"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("constrained", justify="right", no_wrap=True)
    for token in map(int, shown):
        end = token in vocabulary.stop_token_ids
        spelled = "end of text" if end else _spelled(vocabulary.token_bytes(token))
        table.add_row(
            Text(spelled, style="italic" if end else ""),
            str(token),
            _percent(before[token]),
            Text("allowed", style="green") if allowed[token] else Text("-", style="red"),
            _percent(after[token]) if allowed[token] else "",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{int(allowed.sum()):,} of {len(allowed):,} tokens are allowed; the constraint removed "
        f"{_percent(float(before[~allowed].sum()))} of the probability.",
        markup=False,
    )


def _spelled(data: bytes) -> str:
    """A token as a quoted string, or its bytes where it is not UTF-8."""
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return "bytes " + data.hex(" ")


def _percent(value: float) -> str:
    return f"{value:.2%}" if value >= 0.0001 or value == 0 else "<0.01%"
