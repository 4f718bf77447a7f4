"""``llguidance.gbnf_to_lark``: grammars in GBNF where one in Lark is expected.

A GBNF grammar is about characters, a Lark grammar about the lexemes that its lexer cuts. As Lark, a GBNF grammar would
match other texts: ``[a-z]+ "end"`` none at all. So the functions here return GBNF in a form that everything here reads
where it reads Lark: ``LLMatcher``, ``LLInterpreter``, ``LarkCompiler``, ``lark_grammar``.
"""

from __future__ import annotations

import json
import re

from guiderail.compat._errors import CompatTypeError, CompatValueError
from guiderail.errors import GuiderailError

__all__ = ["GbnfToLarkError", "any_to_lark", "gbnf_to_lark", "is_lark_syntax"]

_LARK = re.compile(r"(?m)^\s*(?:%llguidance\b|start\s*:(?!:=))")


class GbnfToLarkError(CompatValueError):
    """A grammar in GBNF that cannot be read."""


def is_lark_syntax(text: str) -> bool:
    """Whether a grammar is in Lark: it has a rule ``start:`` or the line ``%llguidance``."""
    return isinstance(text, str) and _LARK.search(text) is not None


def gbnf_to_lark(text: str) -> str:
    """Returns a grammar in GBNF in a form that is read wherever a Lark grammar is.

    Raises:
        GbnfToLarkError: the grammar cannot be read; it says where and why.
    """
    from guiderail.frontends.grammar import grammar

    if not isinstance(text, str):
        raise CompatTypeError(f"the grammar must be a text, not {type(text).__name__}")
    try:
        grammar(text, syntax="gbnf")
    except GuiderailError as error:
        raise GbnfToLarkError(
            f"Failed to convert the grammar from GBNF: {error.message}",
            code=error.code, source=error.source, span=error.span,
        ) from error  # fmt: skip
    return json.dumps({"grammars": [{"name": "gbnf", "gbnf": text}]})


def any_to_lark(text: str) -> str:
    """Returns a Lark grammar as it is, and one in GBNF as :func:`gbnf_to_lark` does.

    Raises:
        GbnfToLarkError: it is in GBNF, and cannot be read.
    """
    return text if is_lark_syntax(text) else gbnf_to_lark(text)
