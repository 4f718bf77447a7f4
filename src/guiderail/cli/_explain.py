"""``guiderail explain``: what may come next, with and without the constraint, by the model's own probabilities."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from guiderail.cli._options import (
    ChoiceOption,
    DialectOption,
    FlagsOption,
    GrammarOption,
    LayoutOption,
    MaxLengthOption,
    ModelOption,
    OrderOption,
    PatternOption,
    RegexOption,
    SchemaOption,
    SearchOption,
    TypeOption,
    build_constraint,
)
from guiderail.errors import CompileError


def explain_command(
    regex: RegexOption = None,
    choice: ChoiceOption = None,
    pattern: PatternOption = None,
    schema: SchemaOption = None,
    type_: TypeOption = None,
    grammar: GrammarOption = None,
    dialect: DialectOption = "python",
    flags: FlagsOption = "",
    search: SearchOption = False,
    max_length: MaxLengthOption = None,
    layout: LayoutOption = None,
    property_order: OrderOption = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What has been written so far.")] = "",
    prompt: Annotated[str, typer.Option("--prompt", "-P", metavar="TEXT", help="What the model was asked.")] = "",
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Ask by the model's chat template, or continue the prompt.")
    ] = True,
    model: ModelOption = None,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="No probabilities: what may come next in words and examples.")
    ] = False,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Rows of the table.")] = 15,
) -> None:
    r"""Show the next tokens with and without a constraint.

    For each token: its probability by the model alone, whether the constraint allows it, and its probability after
    the others are removed. Below stands the probability that the constraint removed in all.

    **Examples**

    - `guiderail explain --pattern date --prompt "When did Apollo 11 land?" --prefix 19`
    - `guiderail explain --regex "(yes|no)( \w+)?" --prefix y --no-model`
    """
    constraint = build_constraint(
        regex,
        choice,
        pattern,
        schema,
        type_,
        grammar=grammar,
        dialect=dialect,
        flags=flags,
        search=search,
        max_length=max_length,
        layout=layout,
        property_order=property_order,
    )
    explanation = constraint.explain(prefix)
    if no_model or not explanation.valid:
        if no_model and (model is not None or prompt):
            raise CompileError("--no-model does not go with --model or --prompt", code="bad-option")
        print(explanation)
        raise typer.Exit(0 if explanation.valid else 1)
    _table(constraint, prefix, prompt, chat, model, top)


def _table(constraint: object, prefix: str, prompt: str, chat: bool, model: str | None, top: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from guiderail.bitmask import allocate_token_bitmask, bitmask_to_bool
    from guiderail.guide import compile
    from guiderail.models import load_model
    from guiderail.sampling import probabilities

    runner = load_model(model)
    vocabulary = runner.vocabulary
    matcher = compile(constraint, vocabulary).matcher()  # type: ignore[arg-type]
    written = vocabulary.encode(prefix) if prefix else []
    for token in written:
        if not matcher.accept_token(token):
            raise CompileError(f"the tokenizer's spelling of the prefix {prefix!r} is not allowed", code="bad-prefix")
    asked = runner.encode(prompt, chat=chat)
    session = runner.new_session(1, len(asked) + len(written))
    logits = session.feed([asked + written])[0, : vocabulary.size].copy()
    session.close()
    if matcher.is_complete():
        print(f"After {prefix!r} the text is complete: nothing may follow.")
        return
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    allowed = bitmask_to_bool(bitmask, vocabulary.size)[0][: len(logits)]
    before = probabilities(logits)
    after = probabilities(np.where(allowed, logits, -np.inf).astype(np.float32))
    shown = np.argsort(-np.maximum(before, after), kind="stable")[:top]

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
