"""The constraint that a schema stands for."""

from __future__ import annotations

import json
import marshal
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.places import placing
from guiderail.errors import LimitError
from guiderail.frontends.json_schema.closed import closed
from guiderail.frontends.json_schema.documents.dialects import held_schema
from guiderail.frontends.json_schema.documents.references import Document, Node, dialect_of
from guiderail.frontends.json_schema.errors import SchemaError, SchemaLimitError, at_pointer
from guiderail.frontends.json_schema.keywords.evaluate import evaluate
from guiderail.frontends.json_schema.lowering.layout import JsonNotation
from guiderail.frontends.json_schema.lowering.lower import Lowering
from guiderail.frontends.json_schema.normal_form.shape import Term
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.frontends.json_schema.reading import SchemaReading
from guiderail.support.arguments import checked
from guiderail.support.caches import cached
from guiderail.support.callers import outside
from guiderail.support.files import text_of
from guiderail.support.json_objects import document
from guiderail.support.locks import free_after_fork
from guiderail.support.nesting import is_plain_json, too_large
from guiderail.support.pointers import extended
from guiderail.support.texts import clipped, shown
from guiderail.support.work import reading, spend

if TYPE_CHECKING:
    from guiderail.constraints.reading import Reading
    from guiderail.frontends.json_schema.report import Report

__all__ = ["JsonSchema", "json_schema"]

_WEIGHT = 20  # approximate bytes per byte of a schema's text, with everything built from it
_accepting = free_after_fork(threading.Lock())


class JsonSchema(Constraint):
    """Matches the JSON values that a schema allows. Made by :func:`json_schema`; immutable and hashable.

    Attributes:
        options: how the schema is read and how its values are written.
    """

    __slots__ = ("_checked", "_hash", "_root", "_text", "options")

    options: SchemaOptions

    def __init__(self, text: bytes, options: SchemaOptions) -> None:
        """For :func:`json_schema` only: ``text`` is the marshalled schema."""
        self._text = text
        self.options = options
        self._hash = hash((text, options))
        self._root: tuple[Document, Term] | None = None
        self._checked: list[Document] = []  # one for the first compilation

    @property
    def schema(self) -> Any:
        """A copy of the schema."""
        return marshal.loads(self._text)

    def document(self) -> Document:
        """Returns a new document with the schema, ready to be evaluated into terms and shapes."""
        spend(len(self._text))
        contents = marshal.loads(self._text)
        if self.options.closed:
            contents = closed(contents, _dialect(contents, self.options))
        return Document(contents, self.options, evaluate)

    def check(self) -> None:
        """Checks the root of the schema. Sub-schemas are checked when the constraint is compiled.

        Raises:
            SchemaError: see :func:`json_schema`.
        """
        with placing(self), reading():
            document = self.document()
            with document.evaluating():
                document.term()
        self._checked.append(document)

    def accepts(self, value: Any) -> bool:
        """Whether a decoded JSON value satisfies the schema. Decided on the schema's normal form, without any text."""
        with _accepting:  # a document is for one thread at a time
            if self._root is None:
                document = self.document()
                self._root = document, document.term()
            document, term = self._root
            with document.evaluating():
                return term.shape().accepts(value)

    def reading(self) -> Reading:
        """Returns the reader that parses a string in the schema's notation."""
        return SchemaReading(self.options.notation)

    def report(self) -> Report:
        """Lists which keywords are enforced, approximated or ignored, and which are only annotations."""
        from guiderail.frontends.json_schema.report import report

        return report(self)

    def as_written(self) -> JsonSchema:
        options = self.options.as_written()
        return self if options is self.options else self._with_options(options)

    def _with_options(self, options: SchemaOptions) -> JsonSchema:
        return _made(self._text, options, id(options.registry))

    def _placed(self, error: LimitError) -> LimitError:
        return at_pointer(error, lambda: "#")

    def _lower(self, b: _core.Builder) -> int:
        try:
            document = self._checked.pop()  # a compilation consumes its document
            spend(len(self._text))  # counts the same as reading it here
        except IndexError:
            document = self.document()
        with document.evaluating():
            term = document.term()
            lowering = self.lowering(b, document)
            handle = lowering.term(term)
            if handle == b.EMPTY:
                raise self._unsatisfiable(document, _blame(document, term))
        lowering.close()
        if self.options.outer_whitespace:
            blank = b.repeat(b.byte_class(b" \t\r\n"), 0, self.options.max_whitespace)
            handle = b.concat([blank, handle, blank])
        return handle

    def _unsatisfiable(self, document: Document, pointer: str) -> SchemaError:
        """The error for a schema that no value satisfies, with the keywords that exclude each other."""
        from guiderail.frontends.json_schema.conflict import conflict_of, option_at_fault, sentence

        conflict = conflict_of(document.contents, self.options, document.dialect, pointer, _is_empty)
        why = sentence(conflict, pointer)
        option = option_at_fault(document.contents, self.options, document.dialect, _is_empty)
        return SchemaError(
            "no value satisfies this schema"
            + (f" with {option}" if option else "")
            + ", so nothing could be generated"
            + (f": {why}" if why else ""),
            code="unsatisfiable-schema",
            pointer=pointer,
            conflict=conflict,
        )

    def lowering(self, b: _core.Builder, document: Document) -> Lowering:
        """Returns what lowers the values of this schema, in its notation, into expressions of a builder."""
        if self.options.notation == "json":
            return Lowering(b, document, JsonNotation(b, self.options))
        from guiderail.frontends.json_schema.notations import lowering_of

        return lowering_of(b, document)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, JsonSchema):
            return NotImplemented
        mine, theirs = self.options, other.options
        return self._text == other._text and mine == theirs and mine.registry is theirs.registry

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return JsonSchema, (self._text, self.options)

    def __repr__(self) -> str:
        try:
            text = json.dumps(self.schema, ensure_ascii=False)
        except (RecursionError, ValueError):  # deeper, or with a longer number, than Python writes
            text = shown(self.schema)
        return f"json_schema({clipped(text, 80)})"


def _dialect(contents: Any, options: SchemaOptions) -> str:
    declared = contents.get("$schema") if isinstance(contents, dict) else None
    return dialect_of(options.dialect) or dialect_of(declared) or "2020-12"


def _is_empty(contents: Any, options: SchemaOptions, schema: Any, written: bool) -> bool:
    """Whether no value satisfies a schema of a document, or (``written``) none can be written."""
    text = marshal.dumps(contents, 2)
    spend(len(text))
    document = Document(contents, options, evaluate)
    with document.evaluating():
        term = document.root.child(schema)
        if not written:
            return document.algebra.emptiness.term(term)
        builder = _core.Builder()
        return JsonSchema(text, options).lowering(builder, document).term(term) == builder.EMPTY


def _blame(document: Document, term: Term) -> str:
    """The innermost schema that explains why a term has no value, if one is found."""
    emptiness = document.algebra.emptiness
    pointer = "#"
    seen: set[Term] = set()
    while term not in seen:
        seen.add(term)
        if isinstance(term, Node):
            pointer = document.pointer(term.schema)
        shape = term.shape()
        inner: list[Term] = []
        if len(shape.objects) == 1 and not shape.arrays:
            cell = shape.objects[0]
            inner = [cell.named[name] for name in sorted(cell.required)]
        elif len(shape.arrays) == 1 and not shape.objects:
            array = shape.arrays[0]
            inner = [array.item(i) for i in range(min(array.min, len(array.prefix) + 1))]
        empty = [t for t in inner if isinstance(t, Node) and emptiness.term(t)]
        if not empty:
            return pointer
        term = empty[0]
    return pointer


@checked
def json_schema(schema: Any, **options: Any) -> JsonSchema:
    """Matches the JSON values that a schema allows.

        >>> import guiderail as gr
        >>> person = gr.json_schema({
        ...     "type": "object",
        ...     "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        ...     "required": ["name"],
        ...     "additionalProperties": False,
        ... })
        >>> person.matches('{"age": 36, "name": "Ada"}'), person.matches('{"age": -1, "name": "Ada"}')
        (True, False)

    It reads drafts 2020-12, 2019-09, 7, 6 and 4 and the schema objects of OpenAPI 3.0. Every keyword means what its
    specification says. Nothing is fetched from a network: other documents come from ``registry``.

    Args:
        schema: a dict or a boolean, JSON text, a ``pathlib.Path`` of a JSON file, or a pydantic model class.
        **options: see :class:`SchemaOptions`: ``dialect``, ``registry``, ``base_uri``, ``on_unsupported``, ``format``,
            ``escapes``, ``layout``, ``indent``, ``separators``, ``max_whitespace``, ``property_order``, ``integers``,
            ``max_integer_digits``, ``max_fraction_digits``, ``max_string_length``, ``max_items``, ``max_depth``,
            ``max_branches``, ``notation``, ``block_depth``, ``excludes``, ``closed``, ``outer_whitespace``,
            ``whitespace``.

    Raises:
        SchemaError: the schema is malformed, refers to something that does not exist, or uses a keyword that cannot be
            enforced; ``pointer`` says where. Sub-schemas are read when the constraint is compiled, and raise then.
        CompileError: an option is wrong.
    """
    checked = SchemaOptions.of(options)
    if type(schema) is not dict and type(schema) is not bool:
        schema = read_schema(schema)
    if isinstance(schema, Mapping) and (held := held_schema(schema)) is not None:
        warnings.warn(
            f"the schema has no keyword of JSON Schema, so it allows any value; pass the value of {held!r}",
            stacklevel=outside(),
        )
    plain = is_plain_json(schema)
    if not plain and (problem := too_large(schema)):
        raise SchemaError(
            f"the schema {problem}; define what is repeated once in $defs, and refer to it", code="schema-size"
        )
    try:
        text = marshal.dumps(schema, 2)
    except ValueError:
        text = _marshalled(schema)
    if not plain and not _is_json(schema):
        text = _marshalled(schema)
    return _checked(text, checked, id(checked.registry))


def _weight(_: JsonSchema, text: bytes, *options: Any) -> int:
    return _WEIGHT * len(text)


@cached(32 << 20, _weight)
def _made(text: bytes, options: SchemaOptions, registry: int) -> JsonSchema:
    return JsonSchema(text, options)


@cached(32 << 20, _weight)
def _checked(text: bytes, options: SchemaOptions, registry: int) -> JsonSchema:
    made = JsonSchema(text, options)
    made.check()
    return made


_SCALARS = frozenset((str, int, float, bool, type(None)))


def _is_json(schema: Any) -> bool:
    """Whether a value has only the types that ``json.loads`` returns. The value must have no cycles."""
    stack = [schema]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is dict:
            if any(type(key) is not str for key in value):
                return False
            stack += value.values()
        elif kind is list:
            stack += value
        elif kind not in _SCALARS:
            return False
    return True


def _marshalled(schema: Any) -> bytes:
    plain = _plain(schema)
    try:
        return marshal.dumps(plain, 2)
    except ValueError:
        raise _too_deep(schema) from None


def _plain(schema: Any) -> Any:
    """A schema in the types that ``json.loads`` returns."""
    try:
        return _copied(schema, "#")
    except RecursionError:
        raise _too_deep(schema) from None


_FAR = 50
"""Most steps to the place that the error about a schema too deep to be copied names."""


def _too_deep(schema: Any) -> SchemaLimitError:
    """The error for a schema that is too deep to be copied. Its place is found level by level."""
    level: list[tuple[Any, Any]] = [(schema, None)]  # with the way to each part: the way before and a step
    for _ in range(_FAR):
        below = [
            (part, (way, step))
            for value, way in level
            if isinstance(value, Mapping | list | tuple)
            for step, part in (value.items() if isinstance(value, Mapping) else enumerate(value))
        ]
        if not below:
            break
        level = below
    steps, way = [], level[0][1]
    while way is not None:
        way, step = way
        steps.append(str(step))
    place = extended("#", *reversed(steps))
    return SchemaLimitError("the schema is nested too deeply; flatten it", code="depth", pointer=place)


def _copied(value: Any, pointer: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise SchemaError(f"a key must be a string, not {shown(key)}", code="invalid-schema", pointer=pointer)
        return {str.__str__(key): _copied(one, extended(pointer, str.__str__(key))) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(one, f"{pointer}/{i}") for i, one in enumerate(value)]
    for kind, convert in _CONVERSIONS:  # of members of an Enum, the values
        if isinstance(value, kind):
            return convert(value)
    raise SchemaError(
        f"a schema may contain only JSON values, not {type(value).__name__}", code="invalid-schema", pointer=pointer
    )


_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)


def read_schema(schema: Any) -> Any:
    """A schema from whatever describes one: a mapping, JSON, a file, a class of pydantic.

    Raises:
        SchemaError: there is none.
    """
    what, hint = "the schema", "; pass a file as pathlib.Path(…)"
    if isinstance(schema, Path):
        what, hint = f"the schema {schema}", ""
        schema = text_of(schema, f"{what} cannot be read", SchemaError, "schema-file")
    if isinstance(schema, str | bytes):
        schema = document(schema, what, SchemaError, "invalid-schema", "" if schema[:1] in ("{", b"{") else hint)
    elif isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        try:
            schema = schema.model_json_schema()
        except Exception as error:  # any exception of the model's own code
            raise SchemaError(
                f"the model {schema.__name__} has no JSON Schema: {error}", code="invalid-schema"
            ) from error
    elif isinstance(schema, Mapping):
        schema = _plain(dict(schema))
    if not isinstance(schema, dict | bool):
        if isinstance(schema, type):
            found = f"the class {schema.__name__}; gr.python_type takes other types"
        elif hasattr(type(schema), "model_json_schema"):
            found = f"an instance of {type(schema).__name__}; pass the class"
        else:
            found = type(schema).__name__
        raise SchemaError(
            "a schema must be a dict, a boolean, a JSON string, a pathlib.Path or the class of a pydantic model, not "
            + found,
            code="invalid-schema",
        )
    return schema
