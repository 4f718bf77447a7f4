"""What a model is asked to write: a constraint, a JSON Schema or a Python type, each with its way to be read.

:func:`resolve` turns what a user gives into a :class:`Target`: the constraint to write under, and the
:class:`Reading` that makes a value of the text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.matching.guide import Guide
from guiderail.support.partial_json import PartialJson

if TYPE_CHECKING:
    from guiderail.frontends.python_types import PythonType
    from guiderail.frontends.tools.reader import ToolText
    from guiderail.frontends.tools.tool_calls import ToolCalls
    from guiderail.frontends.xml_schema import XmlSchema

__all__ = ["TEXT", "Partial", "Reading", "Target", "resolve"]


class Partial(Protocol):
    """A value that grows with its text."""

    def feed(self, chunk: str) -> None: ...
    def snapshot(self) -> Any: ...  # the value so far, None where there is none
    @property
    def finished(self) -> list[str]: ...  # JSON pointers of what the last feed finished
    @property
    def path(self) -> str | None: ...  # JSON pointer of what is being written
    @property
    def is_complete(self) -> bool: ...


class Reading(Protocol):
    """How a text is read."""

    @property
    def is_text(self) -> bool: ...  # the value is the text itself
    def read(self, text: str) -> Any: ...  # the value of a finished text
    def partial(self, *, growing_strings: bool) -> Partial: ...


class _Held:
    """Nothing is shown before the text is finished, or (``as_text``) the text itself."""

    finished: list[str] = []  # noqa: RUF012 - never filled
    path: str | None = ""
    is_complete = False

    def __init__(self, as_text: bool) -> None:
        self._as_text = as_text
        self._parts: list[str] = []

    def feed(self, chunk: str) -> None:
        self._parts.append(chunk)

    def snapshot(self) -> str | None:
        return "".join(self._parts) if self._as_text else None


@dataclass(frozen=True, slots=True)
class _TextReading:
    """A text is its own value."""

    is_text = True

    def read(self, text: str) -> str:
        return text

    def partial(self, *, growing_strings: bool) -> Partial:
        return _Held(as_text=True)


@dataclass(frozen=True, slots=True)
class _SchemaReading:
    """Parsed JSON, or what another notation says in terms of JSON."""

    notation: str = "json"
    is_text = False

    def read(self, text: str) -> Any:
        if self.notation != "json":
            from guiderail.frontends.python_types.decode import plain
            from guiderail.frontends.python_types.notations import parse

            return plain(parse(text, self.notation))
        try:
            return json.loads(text)
        except (RecursionError, ValueError):  # nested deeper, or a number longer, than json.loads can take
            reader = PartialJson()
            reader.feed(text)
            return reader.close()

    def partial(self, *, growing_strings: bool) -> Partial:
        return PartialJson(growing_strings=growing_strings) if self.notation == "json" else _Held(as_text=False)


@dataclass(frozen=True, slots=True)
class _TypeReading:
    """A value of a Python type."""

    type: PythonType[Any]
    is_text = False

    def read(self, text: str) -> Any:
        return self.type.read(text)

    def partial(self, *, growing_strings: bool) -> Partial:
        from guiderail.generation.typed_partial import partial_of

        return partial_of(self.type, growing_strings=growing_strings) or _Held(as_text=False)


@dataclass(frozen=True, slots=True)
class _XmlReading:
    """What a document holds, as dicts, lists and values of Python."""

    schema: XmlSchema
    is_text = False

    def read(self, text: str) -> Any:
        return self.schema.read(text)

    def partial(self, *, growing_strings: bool) -> Partial:
        return _Held(as_text=False)


class _GrowingCalls:
    """The content and the calls so far; without growing strings, calls when they are complete."""

    finished: list[str] = []  # noqa: RUF012 - calls have no place in a document
    path: str | None = None
    is_complete = True  # what ends the text ends with its pieces

    def __init__(self, calls: ToolCalls, growing: bool) -> None:
        self._reader, self._growing = calls.reader(), growing

    def feed(self, chunk: str) -> None:
        self._reader.feed(chunk)

    def snapshot(self) -> ToolText:
        found = self._reader.snapshot()
        # The reader goes on writing into the last one.
        found.calls = [replace(call) for call in found.calls if call.complete or self._growing]
        return found


@dataclass(frozen=True, slots=True)
class _CallsReading:
    """Reasoning, content and calls of tools."""

    calls: ToolCalls
    is_text = False

    def read(self, text: str) -> ToolText:
        return self.calls.parse(text)

    def partial(self, *, growing_strings: bool) -> Partial:
        return _GrowingCalls(self.calls, growing_strings)


TEXT: Reading = _TextReading()


@dataclass(frozen=True, slots=True)
class Target:
    """What to write under, and how to read what was written."""

    source: Constraint | Guide
    reading: Reading


def resolve(target: Any) -> Target:
    """What a user asks a model to write.

    - A :class:`Constraint` or a compiled :class:`Guide` is taken as it is.
    - A dict is a JSON Schema, if one of its keys is a keyword of JSON Schema; properties are written in the order in
      which they are declared. (``{}``, which allows anything, has to be said: ``gr.json_schema({})``.)
    - A class or another annotation (``list[int]``, ``int | None``, ``Literal[...]``) is a Python type, and a function
      stands for its parameters.

    Raises:
        CompileError: ``not-a-constraint``: it is none of these; or the schema or the type is refused.
    """
    if isinstance(target, Guide):
        return Target(target, _reading(target.constraint))
    if isinstance(target, Constraint):
        return Target(target, _reading(target))
    if isinstance(target, Mapping):
        return _schema(target)
    if target is None or isinstance(target, _VALUES):
        hint = "; gr.regex(...) or gr.literal(...) make one of a string" if isinstance(target, str) else ""
        raise CompileError(
            f"expected a constraint, a JSON Schema (a dict) or a Python type, not {type(target).__name__}{hint}",
            code="not-a-constraint",
        )
    from guiderail.frontends.python_types import python_type

    made = python_type(target)
    return Target(made, _TypeReading(made))


_VALUES = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset)


def _reading(constraint: Constraint) -> Reading:
    # Whoever made such a constraint has loaded its module; whoever did not should not have to.
    schemas = sys.modules.get("guiderail.frontends.json_schema")
    if schemas is not None and isinstance(constraint, schemas.JsonSchema):
        return _SchemaReading(constraint.options.notation)
    types = sys.modules.get("guiderail.frontends.python_types")
    if types is not None and isinstance(constraint, types.PythonType):
        return _TypeReading(constraint)
    documents = sys.modules.get("guiderail.frontends.xml_schema")
    if documents is not None and isinstance(constraint, documents.XmlSchema):
        return _XmlReading(constraint)
    tools = sys.modules.get("guiderail.frontends.tools.tool_calls")
    if tools is not None and isinstance(constraint, tools.ToolCalls):
        return _CallsReading(constraint)
    return TEXT


def _schema(schema: Mapping[str, Any]) -> Target:
    from guiderail.frontends.json_schema import json_schema
    from guiderail.frontends.json_schema.options import DIALECTS
    from guiderail.frontends.json_schema.vocabulary import keywords_of

    if not any(key == "$schema" or any(key in keywords_of(dialect) for dialect in DIALECTS) for key in schema):
        if not schema:
            problem = "an empty dict, as a JSON Schema, allows any value; say gr.json_schema({}) if that is meant"
        else:
            shown = ", ".join(repr(key) for key in list(schema)[:5])
            problem = f"a dict is taken for a JSON Schema, and none of its keys ({shown}) is a keyword of JSON Schema"
            if all(isinstance(value, Mapping) for value in schema.values()):
                problem += '; did you mean {"type": "object", "properties": {…}}?'
        raise CompileError(problem, code="not-a-constraint")
    made = json_schema(schema, property_order="declared")
    return Target(made, _reading(made))
