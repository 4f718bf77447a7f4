"""The constraint of a Python type, and the reader that turns matching strings into its values."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.reading import Reading
from guiderail.errors import CompileError, LimitError, ReadError
from guiderail.frontends.python_types.containers import Named
from guiderail.frontends.python_types.nodes import Node, Schemas
from guiderail.frontends.python_types.objects import function_of
from guiderail.frontends.python_types.reading import TypeReading
from guiderail.frontends.python_types.sizes import Sizes, TooLarge, leaves
from guiderail.frontends.python_types.walk import Walker, type_words
from guiderail.support.arguments import checked
from guiderail.support.caches import cached
from guiderail.support.options import check_choice, check_names
from guiderail.support.places import in_text
from guiderail.support.pointers import unescaped
from guiderail.support.texts import shown
from guiderail.support.trees import Mismatch, Tree, parse_json
from guiderail.support.work import reading

if TYPE_CHECKING:
    from guiderail.frontends.json_schema import JsonSchema

__all__ = ["PythonType", "call", "python_type", "read"]

T = TypeVar("T")


class PythonType(Constraint, Generic[T]):
    """Matches the strings of the values of a Python type. Made by :func:`python_type`.

    Attributes:
        type: the type, or the function whose parameters are described.
        schema: its JSON Schema. If the type puts a constraint on a string, the keyword ``x-guiderail-text`` is the
            index of that constraint in ``constraint.texts``.
        constraint: the constraint of that schema.
    """

    constraint: JsonSchema

    __slots__ = ("_key", "_node", "_options", "constraint", "schema", "type")

    def __init__(self, kind: Any, node: Node, schema: dict[str, Any], constraint: JsonSchema, options: dict[str, Any]):
        self.type = kind
        self.schema = schema
        self.constraint = constraint
        self._node = node
        self._options = options
        self._key = (kind, constraint)

    def _placed(self, error: LimitError) -> LimitError:
        return self.constraint._placed(error)

    def _lower(self, b: _core.Builder) -> int:
        return self.constraint._lower(b)

    def as_written(self) -> PythonType[T]:
        written = self.constraint.as_written()
        if written is self.constraint:
            return self
        decided = {name: getattr(written.options, name) for name in ("layout", "property_order")}
        changed = {name: value for name, value in decided.items() if value != getattr(self.constraint.options, name)}
        return PythonType(self.type, self._node, self.schema, written, {**self._options, **changed})

    def reading(self) -> Reading:
        """Returns the reader that turns a string into a value of the type."""
        return TypeReading(self)

    @checked
    def read(self, text: str | bytes) -> T:
        """Reads a string as a value of the type.

        For a function, the value is an ``inspect.BoundArguments`` with defaults applied; see :func:`call`.

        Raises:
            ReadError: the text is not a value of the type, or the type's own code rejects it.
        """
        return self.read_tree(_tree(text, self.notation))

    @property
    def notation(self) -> str:
        """How values are written: ``"json"``, ``"yaml"`` or ``"python"``."""
        notation: str = self._options.get("notation", "json")
        return notation

    def read_tree(self, tree: Tree) -> T:
        """Like :meth:`read`, for a string that is already parsed (see :mod:`guiderail.support.trees`)."""
        value: T = _read(self.type, self._node, tree)
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PythonType):
            return NotImplemented
        if self.constraint != other.constraint:
            return False
        return self.type is other.type or (bool(self.type == other.type) and leaves(self.type) == leaves(other.type))

    def __hash__(self) -> int:
        return hash(self.constraint)

    def __repr__(self) -> str:
        options = "".join(f", {name}={shown(value)}" for name, value in self._options.items())
        return f"python_type({type_words(self.type)}{options})"

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (self.type, self._options)


def _read(kind: Any, node: Node, tree: Tree) -> Any:
    try:
        return node.read(tree)
    except Mismatch as error:
        raise error.error() from error.cause
    except RecursionError:
        raise ReadError(
            f"the value is nested too deeply to be made into a {type_words(kind)}; cap it with max_depth",
            code="read-depth",
        ) from None


def _remade(kind: Any, options: dict[str, Any]) -> PythonType[Any]:
    return python_type(kind, **options)


def _tree(text: str | bytes, notation: str) -> Tree:
    if notation == "json":
        return parse_json(text)
    from guiderail.support.notations import parse

    return parse(text, notation)


@overload
def python_type(
    kind: type[T], *, defaults: str = ..., namespace: Mapping[str, Any] | None = ..., **options: Any
) -> PythonType[T]: ...
@overload
def python_type(
    kind: Any, *, defaults: str = ..., namespace: Mapping[str, Any] | None = ..., **options: Any
) -> PythonType[Any]: ...
@checked
def python_type(
    kind: Any, *, defaults: str = "may-omit", namespace: Mapping[str, Any] | None = None, **options: Any
) -> PythonType[Any]:
    """Matches the strings of the values of a Python type, by default as JSON.

        >>> import guiderail as gr
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> point = gr.python_type(Point)
        >>> point.read('{"x": 1}')
        Point(x=1, y=0)

    It supports pydantic models, dataclasses, typed dicts, named tuples and other classes (by the parameters of their
    ``__init__``); enumerations and ``Literal``; unions; lists, tuples, sets, dicts and their abstract forms;
    ``Annotated`` with the bounds of annotated-types, pydantic's ``Field``, or any constraint on a string; numbers,
    ``Decimal`` and ``Fraction``, dates and times, UUIDs, paths, IP addresses, bytes (as base 64); ``Any``; generics,
    aliases and recursive types; functions, by their parameters. A type is rejected if guiderail cannot guarantee that
    every string of it can be read back.

    Args:
        kind: the type, or a function.
        defaults: how a member with a default is written: ``"may-omit"`` lets the model leave it out, ``"write"`` does
            not.
        namespace: names for forward references that cannot be resolved otherwise, such as local classes.
        **options: options of :func:`json_schema`. The defaults differ: ``property_order="declared"``, ``max_depth=64``.

    Raises:
        CompileError: the type, or a constraint on it, is not supported; the message says why (codes ``type-…``).
        SchemaError: no value of the type can be written.
    """
    from guiderail.frontends.json_schema import SchemaOptions
    from guiderail.frontends.python_types.schema import type_schema

    for name in ("dialect", "registry", "base_uri", "on_unsupported"):
        if name in options:
            raise CompileError(
                f"{name} applies to schemas that you write; python_type makes its own", code="bad-schema-option"
            )
    SchemaOptions.of(options, python_type)
    check_choice("defaults", defaults, ("may-omit", "write"), code="bad-schema-option")
    node = _node(kind, namespace)
    out = Schemas(
        write_defaults=defaults == "write",
        calls=options.get("notation") == "python",
        one_spelling=options.get("escapes") != "all" and options.get("integers") != "any",
        exponents=options.get("integers") == "any",
    )
    schema = node.schema(out)
    if isinstance(node, Named) and node.body is not None and node.label in out.definitions:
        used = _references(out.definitions)
        if node.label not in used:
            schema = out.definitions.pop(node.label)
    if out.definitions:
        schema = {**schema, "$defs": out.definitions}
    schema_options = {
        "property_order": "declared",
        "max_depth": 64,
        **options,
    }
    given = dict(options)
    if defaults != "may-omit":
        given["defaults"] = defaults
    if namespace:
        given["namespace"] = namespace
    return PythonType(kind, node, schema, type_schema(schema, tuple(out.texts), schema_options), given)


def _references(part: Any) -> set[str]:
    """The labels that a part of a schema refers to."""
    if isinstance(part, list):
        return set().union(*map(_references, part))
    if not isinstance(part, dict):
        return set()
    found: set[str] = set().union(*map(_references, part.values()))
    if isinstance(part.get("$ref"), str):
        found.add(unescaped(part["$ref"].removeprefix("#/$defs/")))
    return found


def _node(kind: Any, namespace: Mapping[str, Any] | None) -> Node:
    try:
        with reading():
            Sizes().pay(kind)
            if namespace:
                return _walked(kind, namespace)
            try:
                return _remembered(kind, leaves(kind))
            except TypeError:  # not hashable
                return _walked(kind, None)
    except TooLarge:  # to be written
        raise
    except LimitError as error:
        raise in_text(error, type_words(kind)) from None


@cached(8 << 20)
def _remembered(kind: Any, leaves: tuple[Any, ...]) -> Node:
    return _walked(kind, None)


def _walked(kind: Any, namespace: Mapping[str, Any] | None) -> Node:
    walker = Walker(namespace)
    try:
        if isinstance(kind, type) or not callable(kind) or _is_typing(kind):
            return walker.node(kind)
        return function_of(walker, kind)
    except RecursionError:
        raise CompileError(
            f"{type_words(kind)} is nested too deeply; a recursive type needs a name (a class or TypeAliasType)",
            code="type-depth",
        ) from None


def _is_typing(kind: Any) -> bool:
    """Whether a callable is nevertheless a type: ``list[int]``, ``NewType``, ``Optional`` …"""
    known = type(kind).__module__ in ("typing", "typing_extensions", "types") or typing.get_origin(kind) is not None
    return known and not inspect.isroutine(kind)


@overload
def read(kind: type[T] | PythonType[T], text: str | bytes, **options: Any) -> T: ...
@overload
def read(kind: Any, text: str | bytes, **options: Any) -> Any: ...
@checked
def read(kind: Any, text: str | bytes, **options: Any) -> Any:
    """Reads a string as a value of a Python type.

        >>> import guiderail as gr
        >>> gr.read(dict[int, set[str]], '{"1": ["a", "b"]}') == {1: {"a", "b"}}
        True

    Args:
        kind: the type, as for :func:`python_type`, or the result of that function.
        text: the text.
        **options: ``notation`` (``"json"``, ``"yaml"`` or ``"python"``) and ``namespace``, as for :func:`python_type`.

    Raises:
        ReadError: the text is not a value of the type, or the type's own code rejects it.
        CompileError: the type is not supported.
    """
    if isinstance(kind, PythonType):
        if options:
            raise CompileError(
                "options do not apply to the result of python_type, which has its own; leave them out",
                code="bad-schema-option",
            )
        return kind.read(text)
    if isinstance(kind, Constraint | Mapping):
        raise CompileError(
            f"read takes a Python type, not {'a JSON Schema' if isinstance(kind, Mapping) else type(kind).__name__}; "
            "matches(text) of a constraint checks a text, and json.loads(text) reads JSON",
            code="type-unsupported",
        )
    check_names("read", options, ("notation", "namespace"), code="bad-schema-option")
    node = _node(kind, options.get("namespace"))
    return _read(kind, node, _tree(text, options.get("notation", "json")))


@checked
def call(function: Callable[..., T], text: str | bytes, **options: Any) -> T:
    """Calls a function with the arguments in a string.

        >>> import guiderail as gr
        >>> def area(width: float, height: float = 1.0) -> float:
        ...     return width * height
        >>> gr.call(area, '{"width": 2.5}')
        2.5

    Args:
        function: the function, as for :func:`python_type`.
        text: the arguments, as an object whose keys are the parameter names.
        **options: as for :func:`read`.

    Raises:
        ReadError: the text does not hold arguments of the function.
        Exception: whatever the function raises.
    """
    if isinstance(function, type) or not callable(function):
        raise CompileError("call takes a function; use gr.read for a class", code="type-not-function")
    bound = read(function, text, **options)
    return function(*bound.args, **bound.kwargs)
