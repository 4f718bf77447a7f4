"""llguidance's grammars, which are texts: how they are made and how they become constraints."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from guiderail.compat._errors import CompatError, CompatValueError, json_of
from guiderail.compat._schema import spelled_schema
from guiderail.constraints.constraint import Constraint, sequence
from guiderail.support.json_objects import loads
from guiderail.support.numerals import read_integer
from guiderail.support.texts import shown

__all__ = ["OPTIONS", "grammar_from_json_schema", "grammar_from_lark", "grammar_from_regex", "read_grammar"]

NO_BOUND = 2**31 - 1
"""Maximum characters of whitespace at one position, where llguidance sets no bound."""

OPTIONS = (
    "item_separator", "key_separator", "whitespace_flexible", "whitespace_pattern", "coerce_one_of", "lenient",
    "json_allowed_escapes", "json_allow_general_unicode_escapes",
)  # fmt: skip
_SWITCHES = ("whitespace_flexible", "coerce_one_of", "lenient", "json_allow_general_unicode_escapes")
_REFERENCE = re.compile(r"@([A-Za-z_][\w-]*)")
_ANY_SPACE = r"[ \t\r\n]*"


def grammar_from_json_schema(
    schema: str | Mapping[str, Any] | bool,
    defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> str:
    """Returns the grammar of a JSON Schema.

    Options come from ``defaults``, then the schema's ``x-guidance``, then ``overrides``; later ones win.

    Raises:
        CompatValueError: the schema or the options are not JSON, or the options are no object.
    """
    for name, given in (("defaults", defaults), ("overrides", overrides)):
        if given is not None and not isinstance(given, Mapping):
            raise CompatValueError(f"{name} must be an object of options, not {shown(given)}")
    if isinstance(schema, str):
        if not defaults and not overrides:
            return f'{{ "grammars": [{{ "json_schema": {schema} }}] }}'
        try:
            schema = loads(schema, parse_int=read_integer)
        except ValueError as error:
            raise CompatValueError(f"the schema is not JSON: {error}", code="compat-json") from None
    if defaults or overrides:
        if not isinstance(schema, Mapping | bool):
            raise CompatValueError(f"only a schema that is an object takes options, not {shown(schema)}")
        own = _own_options(schema)
        plain = dict(schema) if isinstance(schema, Mapping) else {} if schema else {"not": {}}
        schema = {**plain, "x-guidance": {**(defaults or {}), **own, **(overrides or {})}}
    return json_of("the schema", {"grammars": [{"name": "json_schema", "json_schema": schema}]})


def _own_options(schema: Any) -> dict[str, Any]:
    """The ``x-guidance`` of a schema.

    Raises:
        CompatValueError: it is no object.
    """
    given = schema.get("x-guidance") if isinstance(schema, Mapping) else None
    if given is not None and not isinstance(given, Mapping):
        raise CompatValueError(f"x-guidance must be an object of options, not {shown(given)}")
    return dict(given or {})


def grammar_from_lark(lark: str) -> str:
    """Returns the grammar of a Lark text: the text itself."""
    return lark


def grammar_from_regex(regex: str) -> str:
    """Returns the grammar of a regular expression that must match the whole text."""
    return json.dumps({"grammars": [{"name": "regex", "regex": regex}]})


def read_grammar(grammar: Any) -> tuple[Constraint, list[str]]:
    """Returns the constraint of a grammar, and warnings about it.

    Args:
        grammar: a Lark text, or ``{"grammars": [...]}`` as JSON text or parsed.

    Raises:
        GuiderailError: the grammar cannot be read.
    """
    if isinstance(grammar, str) and not grammar.lstrip().startswith("{"):
        if not grammar.strip():
            raise CompatError("the grammar is empty", code="compat-grammar")
        return _lark(grammar, {}), []
    if isinstance(grammar, str):
        try:
            grammar = loads(grammar, parse_int=read_integer)
        except ValueError as error:
            raise CompatError(f"the grammar is not JSON: {error}", code="compat-json") from None
    if not isinstance(grammar, Mapping) or not isinstance(grammar.get("grammars"), list) or not grammar["grammars"]:
        raise CompatError('the grammar must have a list "grammars" with at least one grammar', code="compat-grammar")
    if grammar.get("max_tokens") is not None:
        raise CompatError(
            "max_tokens of a grammar is not supported; bound the generation itself, or the text in the grammar",
            code="compat-option",
        )
    return _Grammars(grammar["grammars"]).read()


class _Grammars:
    """A list of grammars. The first is the start; ``@name`` refers to another."""

    def __init__(self, grammars: list[Any]) -> None:
        self.grammars = grammars
        self.named = {one["name"]: one for one in grammars if isinstance(one, Mapping) and one.get("name")}
        self.made: dict[str, Constraint] = {}
        self.warnings: list[str] = []

    def read(self) -> tuple[Constraint, list[str]]:
        return self.one(self.grammars[0], ()), self.warnings

    def one(self, given: Any, around: tuple[str, ...]) -> Constraint:
        parts = given if isinstance(given, Mapping) else {}
        kinds = [key for key in ("json_schema", "lark_grammar", "regex", "gbnf") if parts.get(key) is not None]
        if len(kinds) != 1:
            raise CompatError(
                f"a grammar must have exactly one of json_schema and lark_grammar; {shown(given)} does not",
                code="compat-grammar",
            )
        body = parts[kinds[0]]
        if kinds[0] == "json_schema":
            return _schema(body, self.warnings)
        if kinds[0] == "regex":
            from guiderail.frontends.regex import regex

            return regex(body)
        if kinds[0] == "gbnf":
            from guiderail.frontends.grammar import grammar

            return grammar(body, syntax="gbnf")
        if isinstance(body, str) and body.lstrip().startswith("{"):  # as gbnf_to_lark writes it
            constraint, warned = read_grammar(body)
            self.warnings += warned
            return constraint
        if not isinstance(body, str):
            raise CompatError(f"lark_grammar must be a string, not {shown(body)}", code="compat-grammar")
        wanted = dict.fromkeys(name for name in _REFERENCE.findall(body) if name in self.named)
        return _lark(body, {name: self.reference(name, around) for name in wanted})

    def reference(self, name: str, around: tuple[str, ...]) -> Constraint:
        if name in around:
            path = " -> ".join(f"@{step}" for step in (*around, name))
            raise CompatError(
                f"grammars refer to themselves: {path}; make them rules of one grammar", code="compat-named"
            )
        if name not in self.made:
            self.made[name] = self.one(self.named[name], (*around, name))
        return self.made[name]


def _lark(text: str, named: dict[str, Constraint]) -> Constraint:
    from guiderail.frontends.grammar import grammar

    options = {"layout": "free", "max_whitespace": NO_BOUND, "property_order": "declared"}
    return grammar(text, syntax="lark", constraints=named, schema_options=options)


def _schema(schema: Any, messages: list[str]) -> Constraint:
    """A JSON Schema with its ``x-guidance``."""
    options = _own_options(schema)
    if isinstance(schema, Mapping) and "x-guidance" in schema:
        schema = {key: value for key, value in schema.items() if key != "x-guidance"}
    for name, given in options.items():
        if name not in OPTIONS:
            raise CompatError(
                f"unknown field {name!r} in x-guidance, expected one of {', '.join(OPTIONS)}", code="compat-option"
            )
        if given is not None and not isinstance(given, bool if name in _SWITCHES else str):
            wanted = "true or false" if name in _SWITCHES else "a string"
            raise CompatError(f"{name} in x-guidance must be {wanted}, not {shown(given)}", code="compat-option")
    if options.get("coerce_one_of"):
        schema = _any_of(schema)
    lenient = bool(options.get("lenient"))
    made = {**_layout(options), **_escapes(options), "property_order": "declared"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        constraint = spelled_schema(schema, on_unsupported="warn" if lenient else "error", **made)
        if lenient:
            constraint.program()
    messages += [str(one.message) for one in caught]
    return constraint


def _any_of(part: Any) -> Any:
    """A schema whose ``oneOf`` is ``anyOf``, as ``coerce_one_of`` asks for."""
    if isinstance(part, list):
        return [_any_of(one) for one in part]
    if not isinstance(part, Mapping):
        return part
    made = {}
    for keyword, held in part.items():
        if keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
            named = isinstance(held, Mapping)
            made[keyword] = {name: _any_of(one) for name, one in held.items()} if named else held
        elif keyword == "oneOf":
            made["allOf"] = [*made.get("allOf", ()), {"anyOf": _any_of(held)}]
        elif keyword == "allOf" and isinstance(held, list):
            made["allOf"] = [*made.get("allOf", ()), *_any_of(held)]
        else:
            made[keyword] = held if keyword in ("const", "enum", "default", "examples") else _any_of(held)
    return made


def _layout(options: Mapping[str, Any]) -> dict[str, Any]:
    """Whitespace and separators as options of ``json_schema``; separators and whitespace are patterns."""
    from guiderail.frontends.regex import regex

    comma, colon = options.get("item_separator") or ",", options.get("key_separator") or ":"
    pattern, flexible = options.get("whitespace_pattern"), options.get("whitespace_flexible", True)
    plain = (comma, colon) == (",", ":")
    if pattern is None and not flexible:
        return {"layout": "compact"} if plain else {"layout": "compact", "separators": (regex(comma), regex(colon))}
    if pattern is None and plain:
        return {"layout": "free", "max_whitespace": NO_BOUND}
    space = regex(_ANY_SPACE if pattern is None else pattern).optional()
    around = tuple(sequence(space, regex(mark), space) for mark in (comma, colon))
    return {"layout": "free", "separators": around, "whitespace": space}


def _escapes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Spellings of strings: one for each, unless general escapes are allowed."""
    letters = options.get("json_allowed_escapes")
    if letters is not None and not set('"\\bfnrtu') <= set(letters):
        raise CompatError(
            f"json_allowed_escapes {shown(letters)} leaves out an escape that some text needs; leave it out",
            code="compat-option",
        )
    return {"escapes": "all" if options.get("json_allow_general_unicode_escapes") else "canonical"}
