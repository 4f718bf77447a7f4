"""Describes a schema or a type to a model in words: :func:`prompt_of`.

A mask keeps a model from writing what a schema forbids. It does not tell the model what the schema wants. The text made
here does: it shows the form of the value, with names, types, choices, bounds and descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from guiderail.constraints.constraint import Choice, Constraint
from guiderail.errors import CompileError, GuiderailError
from guiderail.frontends import patterns
from guiderail.frontends.given import are_texts
from guiderail.frontends.json_schema.values.patterns import read_pattern
from guiderail.support.arguments import checked
from guiderail.support.numerals import json_text
from guiderail.support.pointers import followed

__all__ = ["prompt_of"]

_MOST_CHOICES = 30
_MOST_TEXT = 300  # characters of one description
_DEEPEST = 12
_MOST_LINES = 400
_STEP = "  "


@checked
def prompt_of(target: Any, *, heading: str | None = None) -> str:
    """Describes a JSON Schema or a Python type in a short text that tells a model what to write.

        >>> import guiderail as gr
        >>> print(gr.prompt_of({
        ...     "type": "object",
        ...     "properties": {
        ...         "name": {"type": "string", "description": "first and last name"},
        ...         "age": {"type": "integer", "minimum": 0},
        ...         "mood": {"enum": ["good", "bad"]},
        ...     },
        ...     "required": ["name"],
        ... }))
        Write JSON of this form, and nothing else (members marked ? may be left out):
        <BLANKLINE>
        {
          "name": string,  // first and last name
          "age"?: integer,  // at least 0
          "mood"?: "good" | "bad"
        }

    A model does not see the schema: it only finds that some tokens are masked. Put this text into the prompt, or let
    ``gr.generate(…, describe=True)`` do so.

    Args:
        target: a JSON Schema (a dict, or the result of :func:`json_schema`), a Python type (or the result of
            :func:`python_type`), or a list of strings to choose from.
        heading: the first sentence, in place of the one above.

    Raises:
        CompileError: ``not-a-schema``: the target is none of these; or the schema or type cannot be read.
    """
    if are_texts(target) or isinstance(target, Choice):
        texts = target.options if isinstance(target, Choice) else target
        return f"{heading or 'Write one of these texts, and nothing else:'}\n\n" + "\n".join(texts)
    schema, notation = _schema_of(target)
    writer = _Writer(schema)
    body = writer.document()
    if heading is None:
        optional = " (members marked ? may be left out)" if writer.optional else ""
        heading = f"Write {_NOTATIONS[notation]} of this form, and nothing else{optional}:"
    return f"{heading}\n\n{body}"


_NOTATIONS = {"json": "JSON", "yaml": "YAML", "python": "a Python literal"}


def _schema_of(target: Any) -> tuple[Any, str]:
    from guiderail.frontends.json_schema import JsonSchema, json_schema
    from guiderail.frontends.python_types import PythonType, python_type

    if isinstance(target, Mapping):
        target = json_schema(target)
    elif target is not None and not isinstance(target, Constraint | str | bytes):
        target = python_type(target)
    if not isinstance(target, JsonSchema | PythonType):
        raise CompileError(
            f"prompt_of takes a JSON Schema or a Python type, not {type(target).__name__}: other constraints have no "
            "form to describe; say in the prompt what is wanted",
            code="not-a-schema",
        )
    return target.schema, target.options.notation if isinstance(target, JsonSchema) else target.notation


class _Writer:
    """Writes one document."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.optional = False
        self.names: dict[str, str] = {}  # references, by the names that they have in the text
        self.waiting: list[str] = []
        self.lines = 0

    def document(self) -> str:
        text, notes = self.form(self.root, "", 0)
        lines = [*self._above(notes), text]
        done = 0
        while done < len(self.waiting):
            reference = self.waiting[done]
            done += 1
            text, notes = self.form(self.target(reference), "", 0)
            lines += ["", *self._above(notes), f"{self.names[reference]} = {text}"]
        return "\n".join(lines)

    @staticmethod
    def _above(notes: str) -> list[str]:
        return [f"// {notes}"] if notes else []

    def form(self, schema: Any, indent: str, depth: int) -> tuple[str, str]:
        """Returns the form of a schema's values and, separately, everything else that describes them."""
        self.lines += 1
        if schema is False:
            return "nothing", ""
        if not isinstance(schema, dict) or not schema or depth > _DEEPEST or self.lines > _MOST_LINES:
            return "any value", ""
        notes = [_one_line(schema[key]) for key in ("title", "description") if isinstance(schema.get(key), str)][-1:]
        shape = self._shape(schema, indent, depth, notes)
        notes += _bounds(schema)
        return shape, "; ".join(notes)

    def _shape(self, schema: dict[str, Any], indent: str, depth: int, notes: list[str]) -> str:
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            some = schema["enum"][:_MOST_CHOICES]
            return " | ".join(map(_literal, some)) + (" | …" if len(schema["enum"]) > len(some) else "")
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema["$ref"], indent, depth, notes)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and schema[key] and "properties" not in schema:
                return self._alternatives(schema[key], indent, depth, notes)
        if isinstance(schema.get("allOf"), list) and schema["allOf"] and "properties" not in schema:
            merged = self._merged(schema["allOf"])
            return self._shape({**merged, **{k: v for k, v in schema.items() if k != "allOf"}}, indent, depth, notes)
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds] if isinstance(kinds, str) else _guessed(schema)
        shapes = [self._typed(kind, schema, indent, depth) for kind in kinds if isinstance(kind, str)]
        return " | ".join(dict.fromkeys(shapes)) or "any value"

    def _merged(self, schemas: list[Any]) -> dict[str, Any]:
        """The keywords of all these schemas, and of those that they name in ``allOf``, each once."""
        merged: dict[str, Any] = {}
        seen: set[int] = set()
        waiting = [(one, False) for one in reversed(schemas)]
        while waiting and self.lines <= _MOST_LINES:
            part, ready = waiting.pop()
            part = self._resolved(part)
            if not isinstance(part, dict) or (id(part) in seen and not ready):
                continue
            seen.add(id(part))
            inner = part.get("allOf")
            if isinstance(inner, list) and not ready:
                waiting += [(part, True), *((one, False) for one in reversed(inner))]
                continue
            self.lines += 1
            for key, value in part.items():
                if key == "allOf":
                    continue
                both = isinstance(value, dict) and isinstance(merged.get(key), dict)
                lists = isinstance(value, list) and isinstance(merged.get(key), list)
                merged[key] = {**merged[key], **value} if both else [*merged[key], *value] if lists else value
        return merged

    def _typed(self, kind: str, schema: dict[str, Any], indent: str, depth: int) -> str:
        if kind == "object":
            return self._object(schema, indent, depth)
        if kind == "array":
            return self._array(schema, indent, depth)
        return {"boolean": "true | false"}.get(kind, kind)

    def _object(self, schema: dict[str, Any], indent: str, depth: int) -> str:
        inner = indent + _STEP
        properties = schema.get("properties")
        named = properties.items() if isinstance(properties, dict) else ()
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        members: list[tuple[str, str]] = []
        for name, value in named:
            if value is False:
                continue
            shape, notes = self.form(value, inner, depth + 1)
            mark = "" if name in required else "?"
            self.optional |= mark == "?"
            members.append((f"{_literal(name)}{mark}: {shape}", notes))
        rest = schema.get("additionalProperties")
        if isinstance(rest, dict):
            shape, notes = self.form(rest, inner, depth + 1)
            members.append((f"…: {shape}", notes or "further members, with names of your choice" * bool(members)))
        if not members:
            return "{}" if rest is False else "{ … }"
        lines = []
        for i, (text, notes) in enumerate(members):
            comma = "," if i + 1 < len(members) else ""
            lines.append(f"{inner}{text}{comma}" + (f"  // {notes}" if notes else ""))
        return "\n".join(["{", *lines, indent + "}"])

    def _array(self, schema: dict[str, Any], indent: str, depth: int) -> str:
        first = schema.get("prefixItems", schema["items"] if isinstance(schema.get("items"), list) else [])
        parts = [self._item(one, indent, depth) for one in first] if isinstance(first, list) else []
        rest = schema.get("items") if not isinstance(schema.get("items"), list) else schema.get("additionalItems")
        if rest is not False and (not parts or rest is not None):
            parts += [self._item(True if rest is None else rest, indent, depth), "…"]
        return f"[{', '.join(parts)}]"

    def _item(self, schema: Any, indent: str, depth: int) -> str:
        shape, notes = self.form(schema, indent, depth + 1)
        return f"{shape} ({notes})" if notes else shape

    def _alternatives(self, some: list[Any], indent: str, depth: int, notes: list[str]) -> str:
        shapes: dict[str, None] = {}
        for one in some:
            shape, note = self.form(one, indent, depth + 1)
            shapes[shape + (f" ({note})" if note and len(some) > 1 else "")] = None
            if note and len(some) == 1:
                notes.append(note)
        return " | ".join(shapes)

    # -- references
    def _reference(self, reference: str, indent: str, depth: int, notes: list[str]) -> str:
        target = self.target(reference)
        if target is None:
            return "any value"
        if not isinstance(target, dict) or _is_small(target):
            shape, note = self.form(target, indent, depth + 1)
            if note and not notes:
                notes.append(note)
            return shape
        if reference not in self.names:
            name = reference.rpartition("/")[2] or "Document"
            while name in self.names.values():
                name += "_"
            self.names[reference] = name
            self.waiting.append(reference)
        return self.names[reference]

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_DEEPEST):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                break
            schema = self.target(schema["$ref"])
        return schema

    def target(self, reference: str) -> Any:
        """What a reference within the document names; None for any other."""
        if not (reference == "#" or reference.startswith("#/")):
            return None
        try:
            return followed(self.root, reference[1:])
        except LookupError:
            return None


def _is_small(schema: dict[str, Any]) -> bool:
    """Whether a schema is written where it is used, and gets no name."""
    return not any(key in schema for key in ("properties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref"))


def _guessed(schema: dict[str, Any]) -> list[str]:
    """The types that the keywords suggest, if none is declared."""
    if "properties" in schema or "required" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    if "pattern" in schema or "minLength" in schema or "maxLength" in schema or "format" in schema:
        return ["string"]
    return ["number"] if "minimum" in schema or "maximum" in schema else []


def _literal(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST_TEXT else words[:_MOST_TEXT].rstrip() + "…"


_PLAIN = (
    ("format", "format {}"),
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("exclusiveMinimum", "more than {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
)
_HUGE = 1e15  # a larger bound comes from a type and tells the model nothing
_LONG = 60  # maximum characters of a pattern that a model may understand
_COUNTS = (("Length", "character"), ("Items", "item"), ("Properties", "member"))


def _bounds(schema: dict[str, Any]) -> list[str]:
    """The bounds of a schema, in words."""
    parts = _pattern(schema["pattern"]) if isinstance(schema.get("pattern"), str) else []
    for key, words in _PLAIN:
        value = schema.get(key)
        if isinstance(value, str) or (isinstance(value, int | float) and value is not True and abs(value) < _HUGE):
            parts.append(words.format(value))
    for key, unit in _COUNTS:
        parts += _count(schema.get("min" + key), schema.get("max" + key), unit)
    if schema.get("uniqueItems") is True:
        parts.append("no two alike")
    if "default" in schema and _is_short(schema["default"]):
        parts.append(f"by default {_literal(schema['default'])}")
    parts += list(_examples(schema.get("examples")))
    return parts


def _pattern(pattern: str) -> list[str]:
    """A pattern or, if it is long, what it stands for or a string that it matches."""
    if len(pattern) <= _LONG:
        return [f"matches /{pattern}/"]
    date = str(getattr(patterns.date(), "pattern", pattern))
    if date in pattern:
        return ["a date and time, as 2024-05-17T08:30:00" if "T" in pattern.replace(date, "") else "a date, YYYY-MM-DD"]
    try:
        program = read_pattern(pattern).program()
        text = (program.core.shortest(program.start, _LONG) or b"").decode()
    except (GuiderailError, UnicodeDecodeError):  # the schema is not checked here
        return []
    return [f"for example {_literal(text)}"] if text else []


def _count(least: Any, most: Any, unit: str) -> list[str]:
    def units(number: int) -> str:
        return f"{number:,} {unit}{'' if number == 1 else 's'}"

    least = least if isinstance(least, int) and least > 0 else None
    most = most if isinstance(most, int) else None
    if least is not None and least == most:
        return [f"exactly {units(least)}"]
    if least is not None and most is not None:
        return [f"{least:,} to {units(most)}"]
    return [f"at least {units(least)}"] if least is not None else [f"at most {units(most)}"] if most is not None else []


def _is_short(value: Any) -> bool:
    return value is not None and not isinstance(value, dict | list) and len(_literal(value)) <= 40


def _examples(given: Any) -> Iterator[str]:
    some = [_literal(one) for one in given if _is_short(one)][:3] if isinstance(given, list) else []
    if some:
        yield f"for example {', '.join(some)}"
