"""``%json`` with what llguidance has under ``x-guidance``, as options of ``gr.json_schema``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from guiderail.constraints.constraint import Constraint, Repetition, Sequence
from guiderail.errors import CompileError
from guiderail.frontends.json_schema import json_schema
from guiderail.frontends.regex import regex
from guiderail.support.texts import shown

__all__ = ["schema_with_options"]

_KINDS: dict[str, tuple[type, ...]] = {
    "item_separator": (str,),
    "key_separator": (str,),
    "whitespace_flexible": (bool,),
    "whitespace_pattern": (str, type(None)),
    "coerce_one_of": (bool,),
    "lenient": (bool,),
    "json_allow_general_unicode_escapes": (bool,),
    "json_allowed_escapes": (str, type(None)),
}
_WHITE_SPACE = r"[ \t\n\r]{0,40}"


def schema_with_options(value: Any, general: Iterable[tuple[str, Any]] = ()) -> tuple[Constraint, list[str]]:
    """A schema as ``%json`` has it, and notes on options without effect.

    ``whitespace_flexible`` asks for the layout "free", its opposite for fixed separators; without either a value is
    written as ``gr.json_schema`` writes it.

    Args:
        value: the schema.
        general: options of ``json_schema`` where ``x-guidance`` says nothing.

    Raises:
        CompileError: an option is not known, or cannot be enforced.
        SchemaError: the schema is malformed.
    """
    if not isinstance(value, dict) or "x-guidance" not in value:
        return json_schema(value, **dict(general)), []
    given = value["x-guidance"]
    schema = {key: part for key, part in value.items() if key != "x-guidance"}
    if not isinstance(given, dict):
        raise CompileError(f"x-guidance must be an object with options, not {shown(given)}", code="lark-unsupported")
    for name, chosen in given.items():
        if name not in _KINDS:
            raise CompileError(
                f"x-guidance has no option {name!r}; there are {', '.join(sorted(_KINDS))}", code="lark-unsupported"
            )
        if not isinstance(chosen, _KINDS[name]):
            raise CompileError(f"{name} of x-guidance cannot be {shown(chosen)}", code="lark-unsupported")
    if given.get("json_allowed_escapes") is not None:
        raise CompileError(
            "json_allowed_escapes cannot be enforced; exclude the characters with a pattern, e.g. "
            r'{"pattern": "^[^\\u0000-\\u001f]*$"}',
            code="lark-unsupported",
        )
    options = dict(general)
    notes = []
    if given.get("json_allow_general_unicode_escapes"):
        options["escapes"] = "all"
    if given.get("lenient"):
        options["on_unsupported"] = "ignore"
    if given.get("coerce_one_of"):
        notes.append("x-guidance: 'coerce_one_of' has no effect: oneOf is enforced exactly")
    if not given.keys().isdisjoint(("item_separator", "key_separator", "whitespace_flexible", "whitespace_pattern")):
        for name in ("layout", "separators", "whitespace"):
            options.pop(name, None)
        options |= _layout(given)
    return json_schema(schema, **options), notes


def _layout(given: dict[str, Any]) -> dict[str, Any]:
    """The layout; each value of ``given`` has the right type."""
    comma, colon = (
        regex(given.get(name, default)) for name, default in (("item_separator", ","), ("key_separator", ":"))
    )
    pattern = given.get("whitespace_pattern")
    if pattern is None and not given.get("whitespace_flexible", True):
        return {"layout": "compact", "separators": (comma, colon)}
    space: Constraint = Repetition(regex(_WHITE_SPACE if pattern is None else pattern), 0, 1)
    around = (Sequence((space, comma, space)), Sequence((space, colon, space)))
    return {"layout": "free", "separators": around, "whitespace": space}
