"""Finds the constraint in a request.

| where | what |
|---|---|
| ``response_format``, ``text.format`` | ``text``, ``json_object``, ``json_schema``, ``structural_tag`` |
| ``structured_outputs`` | ``json``, ``regex``, ``choice``, ``grammar``, ``json_object``, ``structural_tag`` |
| ``guided_json``, ``guided_regex``, ``guided_choice``, ``guided_grammar`` | the same, from older clients |
| ``regex``, ``ebnf`` | the same, from SGLang's clients |

A request may use only one of these. The result is an :class:`Ask`: plain data, so that equal requests share a compiled
constraint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail.constraints.constraint import Constraint, choice
from guiderail.errors import GuiderailError
from guiderail.server.errors import ApiError, from_guiderail
from guiderail.server.validation import unknown_member

if TYPE_CHECKING:
    from guiderail.server.schemas import ResponsesRequest, Sampled, StructuredOutputs
    from guiderail.vocabulary import Vocabulary

__all__ = ["Ask", "ask_of", "ask_of_format", "ask_of_response", "ask_of_structured", "grammar_of"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One constraint, as requested.

    Attributes:
        kind: ``json``, ``regex``, ``choice``, ``grammar``, ``structural_tag``.
        value: JSON of the schema, the tag or the choices; the pattern; the grammar.
        param: the parameter of the request that contains it.
        compact: write JSON without whitespace, instead of like ``json.dumps``.
        whitespace: a pattern of the whitespace between the parts of JSON, instead.
    """

    kind: str
    value: str
    param: str
    compact: bool = False
    whitespace: str | None = None

    def constraint(self, vocabulary: Vocabulary) -> Constraint:
        """Builds the constraint. May take long.

        Args:
            vocabulary: the model's vocabulary, whose special tokens a structural tag may name.

        Raises:
            ApiError: 400 with the code and the location of the fault.
        """
        try:
            return self._build(vocabulary).as_written()
        except GuiderailError as error:
            raise from_guiderail(error, self.param) from error

    def _build(self, vocabulary: Vocabulary) -> Constraint:
        if self.kind == "json":
            from guiderail.frontends.json_schema import json_schema
            from guiderail.frontends.json_schema.lowering.layout import layout_of

            return json_schema(self.value, **layout_of(self.compact, self.whitespace))
        if self.kind == "regex":
            from guiderail.frontends.regex import regex

            return regex(self.value)
        if self.kind == "choice":
            return choice(json.loads(self.value))
        if self.kind == "grammar":
            return grammar_of(self.value, None)
        from guiderail.frontends.tools import structural_tag

        return structural_tag(self.value, vocabulary=vocabulary)


def grammar_of(text: str, syntax: str | None) -> Constraint:
    """Returns the constraint of a grammar. Without a syntax it is GBNF if it contains ``::=``, otherwise Lark.

    Raises:
        GuiderailError: the grammar is malformed.
    """
    from guiderail.frontends.grammar import grammar

    return grammar(text, syntax=syntax or ("gbnf" if "::=" in text else "lark"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _wrong(message: str, param: str, code: str = "invalid-request") -> ApiError:
    return ApiError(400, f"{param}: {message}", code=code, param=param)


def _schema_ask(schema: Any, param: str, compact: bool = False, whitespace: str | None = None) -> Ask:
    if isinstance(schema, str):
        text = schema.strip()
    elif isinstance(schema, dict | bool):
        text = _json(schema)
    else:
        raise _wrong("a JSON Schema must be an object", param)
    return Ask("json", text, param, compact, whitespace)


_BESIDE_SCHEMA = {"name": (str, "a string"), "description": (str, "a string"), "strict": (bool, "true or false")}
_ANY_OBJECT = _json({"type": "object"})


def ask_of_format(given: Any, param: str) -> Ask | None:
    """Returns the constraint in ``response_format`` or ``text.format``; None for plain text.

    The Responses interface has the members of ``json_schema`` next to ``type``; both forms are accepted everywhere.
    """
    if given is None:
        return None
    if not isinstance(given, dict):
        raise _wrong("expected an object with a type", param)
    kind = given.get("type")
    known = {"type"}
    result: Ask | None
    if kind == "text":
        result = None
    elif kind == "json_object":  # clients of before json_schema put a schema here
        known |= {"schema"}
        schema = given.get("schema")
        result = Ask("json", _ANY_OBJECT, param) if schema is None else _schema_ask(schema, f"{param}.schema")
    elif kind == "json_schema":
        known |= {"json_schema"}
        inner, place = given.get("json_schema"), f"{param}.json_schema"
        if inner is None:
            known |= {"name", "schema", "strict", "description"}
            inner, place = given, param
        elif not isinstance(inner, dict):
            raise _wrong("expected an object with a schema", place)
        else:
            _refuse_others(inner, {"name", "schema", "strict", "description"}, place)
        if "schema" not in inner or inner["schema"] is None:
            raise _wrong("the schema is missing; give one", f"{place}.schema")
        for name, (type_, what) in _BESIDE_SCHEMA.items():
            if not isinstance(inner.get(name), type_ | None):
                raise _wrong(f"this must be {what}", f"{place}.{name}")
        result = _schema_ask(inner["schema"], f"{place}.schema")
    elif kind == "structural_tag":
        return Ask("structural_tag", _json(given), param)
    else:
        raise _wrong(
            f"type must be one of text, json_object, json_schema and structural_tag, not {kind!r}", f"{param}.type"
        )
    _refuse_others(given, known, param)
    return result


def _refuse_others(given: dict[str, Any], known: set[str], param: str) -> None:
    for name in given:
        if name not in known:
            raise _wrong(unknown_member(name, known), param, "unknown-parameter")


def ask_of_structured(given: StructuredOutputs | None) -> Ask | None:
    """Returns the constraint in ``structured_outputs``."""
    if given is None:
        return None
    fields = {
        "json": given.json_,
        "regex": given.regex,
        "choice": given.choice,
        "grammar": given.grammar,
        "json_object": given.json_object or None,
        "structural_tag": given.structural_tag,
    }
    asked = [name for name, value in fields.items() if value is not None]
    if len(asked) != 1:
        raise _wrong(
            f"exactly one of {', '.join(fields)} is expected, not {' and '.join(asked) or 'none'}",
            "structured_outputs",
            "several-constraints" if asked else "invalid-request",
        )
    (kind,) = asked
    value, param = fields[kind], f"structured_outputs.{kind}"
    compact, whitespace = given.disable_any_whitespace, given.whitespace_pattern
    if kind == "json":
        return _schema_ask(value, param, compact, whitespace)
    if kind == "json_object":
        return Ask("json", _ANY_OBJECT, param, compact, whitespace)
    for name, stated in (("disable_any_whitespace", compact), ("whitespace_pattern", whitespace)):
        if stated:
            raise _wrong(f"{name} applies to json and json_object only", param)
    if kind == "choice":
        return Ask("choice", _json(value), param)
    if kind == "structural_tag":
        return Ask("structural_tag", value if isinstance(value, str) else _json(value), param)
    return Ask(kind, str(value), param)


def ask_of(request: Sampled) -> Ask | None:
    """Returns the constraint on the text of a request, or None.

    Raises:
        ApiError: 400: there are several, or one is malformed.
    """
    asks = [ask_of_format(request.response_format, "response_format"), ask_of_structured(request.structured_outputs)]
    if request.guided_json is not None:
        asks.append(_schema_ask(request.guided_json, "guided_json"))
    if request.guided_choice is not None:
        asks.append(Ask("choice", _json(request.guided_choice), "guided_choice"))
    for name, kind in {
        "guided_regex": "regex", "guided_grammar": "grammar", "regex": "regex", "ebnf": "grammar"
    }.items():  # fmt: skip
        value = getattr(request, name)
        if value is not None:
            asks.append(Ask(kind, value, name))
    given = [ask for ask in asks if ask is not None]
    if len(given) > 1:
        names = " and ".join(ask.param for ask in given)
        raise ApiError(
            400,
            f"{names} both constrain the text; keep one of them",
            code="several-constraints",
            param=given[1].param,
        )
    return given[0] if given else None


def ask_of_response(request: ResponsesRequest) -> Ask | None:
    """Like :func:`ask_of`, for the Responses interface."""
    text = request.text or {}
    _refuse_others(text, {"format", "verbosity"}, "text")
    if text.get("verbosity") not in (None, "medium"):
        raise _wrong(
            'this must be "medium", or left out: this server makes no text longer or shorter', "text.verbosity"
        )
    asks = [
        ask
        for ask in (ask_of_format(text.get("format"), "text.format"), ask_of_structured(request.structured_outputs))
        if ask is not None
    ]
    if len(asks) > 1:
        raise ApiError(
            400, "text.format and structured_outputs both constrain the text; keep one of them",
            code="several-constraints", param="structured_outputs",
        )  # fmt: skip
    return asks[0] if asks else None
