"""``guiderail export``: a constraint, compiled, as a file for programs in any language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guiderail.cli._options import Given, load_vocabulary, takes_options


@takes_options()
def export_command(
    *,
    given: Given,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, e.g. schema.rail.")
    ],
    vocabulary: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Mark tool calls by this vocabulary's special tokens: a GGUF file, or a "
                     "tokenizer.json or its folder."),
    ] = None,
    save_vocabulary: Annotated[
        Path | None, typer.Option("--save-vocabulary", metavar="FILE", help="Also write the vocabulary to this file.")
    ] = None,
) -> None:  # fmt: skip
    r"""Compile a constraint into a file that `gr.load` and programs in C, Rust or JavaScript can read.

    Reading it needs neither Python nor the front ends.

    **Examples**

    - `guiderail export --schema invoice.json -o invoice.rail`
    - `guiderail export --regex "\d{4}-\d{2}" -o month.rail`
    - `guiderail export --grammar sql -o sql.rail --vocabulary tokenizer.json --save-vocabulary model.rail`
    """
    constraint = given.constraint().as_written()
    tokens = load_vocabulary(vocabulary) if vocabulary is not None or save_vocabulary is not None else None
    constraint.save(output, vocabulary=tokens if vocabulary is not None else None)
    print(f"{output}: {output.stat().st_size:,} bytes")
    if tokens is not None and save_vocabulary is not None:
        tokens.save(save_vocabulary)
        print(f"{save_vocabulary}: {tokens.token_count:,} tokens, {save_vocabulary.stat().st_size:,} bytes")
