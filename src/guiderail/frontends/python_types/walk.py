"""From a Python type to its nodes."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, NoReturn, TypeVar

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.python_types import nodes, number_nodes
from guiderail.frontends.python_types.bounds import Bounds, gather
from guiderail.frontends.python_types.containers import Array, Mapping as MappingNode, Named, Object, Tuple
from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.fields import (
    annotated_type,
    annotation_of,
    filled,
    is_hidden,
    is_of_pydantic_1,
    is_pydantic,
    is_struct,
    origin_of,
    variable,
)
from guiderail.frontends.python_types.pydantic_types import (
    ModelRules,
    described_anew,
    encoded,
    generic_of,
    leaf,
    nested_as,
    tag_key,
    validator_of,
)
from guiderail.frontends.python_types.scalars import scalar, uuid_node
from guiderail.frontends.python_types.sizes import Sizes
from guiderail.frontends.python_types.urls import url
from guiderail.support.texts import shown

__all__ = ["Walker", "type_words"]

_LISTS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Reversible: list,
    collections.deque: collections.deque,
}
_SETS: dict[Any, Callable[[list[Any]], Any]] = {
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}


def _default_dict(made: dict[Any, Any]) -> Any:
    return collections.defaultdict(None, made)


_MAPPINGS: dict[Any, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.defaultdict: _default_dict,
}
_REFUSED = {
    complex: "JSON has no complex numbers; use a tuple of two floats",
    range: "use a tuple of start, stop and step",
    slice: "use a tuple of start, stop and step",
    type: "a class cannot be read from a text; use a Literal of class names",
    re.Pattern: "the patterns that `re` accepts are not a regular language; use str",
    memoryview: "use bytes",
    types.FunctionType: "a function cannot be read from a text",
    collections.abc.Callable: "a function cannot be read from a text",
    collections.abc.Iterator: "use Sequence",
    collections.abc.Generator: "use Sequence",
    typing.NoReturn: "it has no value",
    typing.ClassVar: "it is used outside a class",
    typing.Generic: "it is not a type of values",
    typing.Annotated: "it needs a type and what to say about it: Annotated[int, Gt(0)]",
}
_WRITTEN: dict[type[Any], str] = {
    list: "list[…]",
    tuple: "tuple[…]",
    set: "set[…]",
    dict: "dict[…, …], a TypedDict for given keys, or gr.json_schema(…) for a schema",
}
_RUN_BY_PYDANTIC = ModelRules()
_EXTRA_REFUSED = ("Never", "Self", "TypeGuard", "TypeIs", "Concatenate", "Unpack")


def type_words(kind: Any) -> str:
    """A type as one would write it, for messages."""
    if isinstance(kind, type) and typing.get_origin(kind) is None:
        return kind.__qualname__.rpartition("<locals>.")[2]
    try:
        text = str(kind)
    except (ValueError, RecursionError):  # it has an integer of more digits than Python writes, or nests deeper
        text = f"{getattr(kind, '__name__', type(kind).__name__)}[…]"
    return text.replace("typing.", "").replace("typing_extensions.", "")


def _of_pydantic(
    inner: Any, metadata: Sequence[Any], in_model: ModelRules | None
) -> tuple[nodes.Node | None, list[Any], bool]:
    """The node that metadata of pydantic's own make of a type, the other metadata, and whether pydantic has to read."""
    made: nodes.Node | None = None
    rest: list[Any] = []
    by_pydantic = False
    for item in metadata:
        word = type(item).__name__ if type(item).__module__.startswith("pydantic") else ""
        if word == "Json":
            raise unsupported(
                "Json",
                "JSON inside a string is not read back; use the type of the value itself, or a string of its JSON: "
                "Annotated[str, gr.python_type(…)]",
            )
        if word == "UuidVersion":
            made = uuid_node(item.uuid_version)
        elif word in ("EncodedBytes", "EncodedStr"):
            made, by_pydantic = encoded(inner, item.encoder), True
            if in_model is not None and inner is str:
                made = in_model.of_string(made)
        elif word == "UrlConstraints" and (hasattr(inner, "host") or hasattr(inner, "hosts")):
            made, by_pydantic = url(inner, inner.__name__, item), True
        else:
            rest.append(item)
    return made, rest, by_pydantic


class Walker:
    """Makes nodes, each named type once.

    Args:
        names: further names for forward references.
    """

    def __init__(self, names: Mapping[str, Any] | None) -> None:
        self.names = dict(names or {})
        self._named: dict[Any, Named] = {}
        self._sizes = Sizes()
        self._labels: set[str] = set()
        self._scope: dict[str, Any] = {}
        self._owner: tuple[Any, ModelRules | None] | None = None  # the class whose members are walked

    # -- types ---------------------------------------------------------------------------------------------------
    def node(self, kind: Any, *, in_model: ModelRules | None = None) -> nodes.Node:
        """The node of a type.

        Args:
            kind: the type.
            in_model: rules of the pydantic model around it, which will run the validators of the annotation itself.

        Raises:
            CompileError: the type, or a constraint on it, cannot be kept to.
        """
        self._sizes.pay(kind)
        kind, _ = annotation_of(kind)
        if kind is None or kind is type(None):
            return nodes.Simple("None", "null", (None,))
        if kind is Any or kind is object:
            return nodes.AnyNode()
        if getattr(kind, "_name", None) == "LiteralString":  # any string: only type checkers tell them apart
            kind = str
        if getattr(kind, "_name", None) == "Self" and self._owner is not None:
            kind, in_model = self._owner
        if isinstance(kind, TypeVar):
            return self.node(variable(kind), in_model=in_model)
        if type(kind).__name__ == "PydanticRecursiveRef":  # in a generic model, the model itself
            kind = generic_of(kind, (key[0] for key in self._named)) or kind
        if isinstance(kind, str | typing.ForwardRef):
            return self.node(self._forward(kind), in_model=in_model)
        if isinstance(kind, typing.NewType) or (hasattr(kind, "__supertype__") and callable(kind)):
            return self.node(kind.__supertype__, in_model=in_model)
        origin, args = origin_of(kind)
        if type(origin).__name__ == "TypeAliasType":
            return self._alias(origin, args, in_model)
        if origin is typing.Annotated and args:
            return self.annotated(kind.__origin__, kind.__metadata__, in_model=in_model)
        if args and (origin is typing.Union or origin is types.UnionType):
            return self._union(kind, args, in_model)
        if origin is typing.Literal or getattr(origin, "_name", None) == "Literal":
            return self._literal(kind, args)
        made = self._container(kind, origin, args, in_model)
        if made is not None:
            return made
        if isinstance(origin, type):
            return self._class(kind, origin, args, in_model)
        self._refuse(kind, origin)

    def _refuse(self, kind: Any, origin: Any) -> NoReturn:
        name = getattr(origin, "__name__", None) or getattr(origin, "_name", None)
        try:
            why = _REFUSED.get(origin)
        except TypeError:  # unhashable: not a type at all
            why = None
        if why is None and name in _EXTRA_REFUSED:
            why = "it has no value here; write out the type"
        if why is None:
            why = "is not a type whose values can be written; use a class, a typing construct or a function"
            if isinstance(kind, Constraint):
                why = "this is a constraint, not a type; for a string that follows it write Annotated[str, …]"
            elif type(kind) in _WRITTEN:
                why = f"this is a value of {type(kind).__name__}, not a type; write {_WRITTEN[type(kind)]}"
            elif type(kind).__module__ not in ("typing", "types", "typing_extensions"):
                why = (
                    f"this is a value of {type(kind).__name__}, not a type; pass the class {type(kind).__name__} itself"
                )
        raise unsupported(type_words(kind), why)

    def _forward(self, kind: str | typing.ForwardRef) -> Any:
        text = kind if isinstance(kind, str) else kind.__forward_arg__
        try:
            return eval(text, self._scope, self.names)  # an annotation, as typing.get_type_hints reads it
        except NameError as error:
            raise unsupported(
                f"the forward reference {text!r}",
                f"it uses the name {error.name!r}, which is not known here; pass namespace={{{error.name!r}: …}}",
                "type-forward-reference",
            ) from error
        except (SyntaxError, TypeError, AttributeError) as error:
            raise unsupported(
                f"the forward reference {text!r}", f"cannot be read ({error})", "type-forward-reference"
            ) from error

    def _alias(self, alias: Any, args: tuple[Any, ...], in_model: ModelRules | None) -> nodes.Node:
        key = ("alias", id(alias), args, in_model)
        if key in self._named:
            return self._named[key]
        named = self._named[key] = Named(alias.__name__, self._label(alias.__name__, args))
        scope, names = self._scope, self.names
        self._scope = dict(vars(sys.modules.get(getattr(alias, "__module__", None) or "", typing)))
        known = dict(zip(alias.__type_params__, args, strict=False))
        self.names = {alias.__name__: alias, **{one.__name__: known.get(one, one) for one in known}, **names}
        try:
            value = alias.__value__
            if isinstance(value, str | typing.ForwardRef):
                value = self._forward(value)
            body = self.node(filled(value, known), in_model=in_model)
        except BaseException:
            del self._named[key]
            raise
        finally:
            self._scope, self.names = scope, names
        inner: nodes.Node | None = body
        seen: list[nodes.Node | None] = []
        while isinstance(inner, Named):  # type A = A
            if inner in seen or inner.body is None:
                raise unsupported(alias.__name__, "stands for itself and nothing else")
            seen.append(inner)
            inner = inner.body
        named.body = body
        named.hashable, named.injective, named.nested = body.hashable, body.injective, body.nested
        return named

    def annotated(self, inner: Any, metadata: Sequence[Any], *, in_model: ModelRules | None = None) -> nodes.Node:
        """The node of ``Annotated[inner, *metadata]``."""
        if not metadata:
            return self.node(inner, in_model=in_model)
        names = {**self._scope, **self.names}
        anew = described_anew(inner, metadata, type_words(inner), names, in_model)
        if anew is not None:
            return anew
        made, rest, by_pydantic = _of_pydantic(inner, metadata, in_model)
        bounds = gather(rest, engine=(in_model or _RUN_BY_PYDANTIC).engine)
        if in_model is not None and bounds.multiple_of is not None:
            bounds = bounds.but(by_pydantic=True)
        if bounds.tag is not None:
            bounds = bounds.but(tag=tag_key(inner, bounds.tag))
        by_pydantic |= bool(bounds.validators) or bounds.strip or bounds.case or bounds.tag is not None
        alone = in_model is None and by_pydantic
        if made is None:
            made = self.node(inner, in_model=_RUN_BY_PYDANTIC if alone else in_model)
        node = self.constrained(made, bounds)
        if not alone:
            return node
        validate = validator_of(annotated_type(inner, metadata), type_words(inner), names)
        return nodes.Checked(node, validate=validate)

    def constrained(self, node: nodes.Node, bounds: Bounds) -> nodes.Node:
        """A node with bounds, wrapped in its checks and description."""
        case = bounds.case and isinstance(node, nodes.Text)
        restrictions = dataclasses.replace(bounds, checks=(), validators=(), description=None, tag=None, case=case)
        if restrictions != Bounds():
            node = node.constrained(restrictions)
        if bounds.checks or bounds.description or bounds.tag is not None:
            node = nodes.Checked(node, checks=bounds.checks, description=bounds.description, tag=bounds.tag)
        return node

    def _union(self, kind: Any, args: tuple[Any, ...], in_model: ModelRules | None) -> nodes.Node:
        written = [arg for arg in args if not _says_left_out(arg)]
        written = [arg for arg in written if not is_hidden(getattr(arg, "__metadata__", ()))] or written
        branches = tuple(self.node(arg, in_model=in_model) for arg in written or args)
        return branches[0] if len(branches) == 1 else nodes.Union(type_words(kind), branches)

    def _literal(self, kind: Any, args: tuple[Any, ...]) -> nodes.Node:
        values: list[tuple[Any, Any]] = []
        for value in args:
            if isinstance(value, Enum):
                pair = next(pair for pair in enum_values(type(value)) if pair[1] is value)
            elif nodes.is_scalar(value):
                pair = (value, value)
            else:
                raise unsupported(type_words(kind), f"JSON cannot write {shown(value)}; use strings or numbers")
            values.append(pair)
        return nodes.Literals(type_words(kind), tuple(values))

    # -- containers ------------------------------------------------------------------------------------------------
    def _container(
        self, kind: Any, origin: Any, args: tuple[Any, ...], in_model: ModelRules | None
    ) -> nodes.Node | None:
        try:
            is_list, is_set, is_mapping = origin in _LISTS, origin in _SETS, origin in _MAPPINGS
        except TypeError:
            return None
        if is_list:
            item = self.node(args[0] if args else Any, in_model=in_model)
            return Array(type_words(kind), item, _LISTS[origin])
        if is_set:
            return Array(
                type_words(kind),
                self._hashable(args[0] if args else Any, kind, in_model),
                _SETS[origin],
                unique=True,
                hashable=origin is frozenset,
            )
        if origin is collections.Counter:
            key = self._hashable(args[0] if args else str, kind, in_model)
            return MappingNode(type_words(kind), key, number_nodes.Integers(), collections.Counter)
        if is_mapping:
            key_type, value_type = args if args else (str, Any)
            key = self._hashable(key_type, kind, in_model)
            key.key(nodes.Schemas())  # raises for a type that cannot be a key
            return MappingNode(type_words(kind), key, self.node(value_type, in_model=in_model), _MAPPINGS[origin])
        if origin is tuple:
            return self._tuple(kind, args, in_model)
        return None

    def _hashable(self, item: Any, kind: Any, in_model: ModelRules | None) -> nodes.Node:
        if item is Any or item is object:
            return nodes.AnyNode(scalar=True)
        node = self.node(item, in_model=in_model)
        if not node.hashable:
            raise unsupported(
                type_words(kind), f"values of {type_words(item)} cannot be hashed; use a list or a frozen class"
            )
        return node

    def _tuple(self, kind: Any, args: tuple[Any, ...], in_model: ModelRules | None) -> nodes.Node:
        name = type_words(kind)
        if kind is tuple or kind is typing.Tuple:  # noqa: UP006
            return Tuple(name, (), nodes.AnyNode())
        if args == ((),):  # tuple[()] before Python 3.11
            args = ()
        if len(args) == 2 and args[1] is ...:
            return Tuple(name, (), self.node(args[0], in_model=in_model))
        items: list[nodes.Node] = []
        rest: nodes.Node | None = None
        for index, arg in enumerate(args):
            unpacked = _unpacked(arg)
            if unpacked is None:
                items.append(self.node(arg, in_model=in_model))
                continue
            inner = self._tuple(unpacked, origin_of(unpacked)[1], in_model)
            assert isinstance(inner, Tuple)
            if inner.rest is not None and index != len(args) - 1:
                raise unsupported(name, "items after an unbounded part cannot be written; put them first")
            items += inner.items
            rest = inner.rest
        return Tuple(name, tuple(items), rest)

    # -- classes -----------------------------------------------------------------------------------------------------
    def _class(self, kind: Any, origin: type[Any], args: tuple[Any, ...], in_model: ModelRules | None) -> nodes.Node:
        if origin is bool:
            return nodes.Simple("bool", "boolean", (True, False))
        if issubclass(origin, Enum):
            return self._enum(origin)
        if origin in _REFUSED:
            self._refuse(kind, origin)
        if is_of_pydantic_1(origin):
            raise unsupported(origin.__name__, "is of pydantic 1; use what pydantic 2 has for it")
        if is_pydantic(origin) is not None:
            return self._object(kind, origin, args, in_model=None)
        made = scalar(origin)
        if made is not None:
            return made
        if origin.__module__.partition(".")[0].startswith("pydantic"):
            return leaf(kind, in_model=in_model)
        describes_itself = hasattr(origin, "__get_pydantic_core_schema__") and not dataclasses.is_dataclass(origin)
        if describes_itself:
            try:
                return leaf(kind, in_model=in_model)
            except CompileError:
                if not issubclass(origin, int | float | Decimal | str):  # whose texts are known
                    raise
        for base, node in (
            (int, number_nodes.Integers),
            (float, number_nodes.Floats),
            (Decimal, number_nodes.Decimals),
        ):
            if issubclass(origin, base):
                return node(name=origin.__name__, make=None if origin is base else origin)
        if issubclass(origin, str):
            text = nodes.Text(name=origin.__name__, parse=None if origin is str else origin, sized=True)
            return text if in_model is None else in_model.of_string(text)
        return self._object(kind, origin, args, in_model)

    def _object(self, kind: Any, origin: type[Any], args: tuple[Any, ...], in_model: ModelRules | None) -> nodes.Node:
        from guiderail.frontends.python_types.objects import object_of

        key: Any = (origin, args, in_model)
        try:
            if key in self._named:
                return self._named[key]
        except TypeError:  # metadata of an argument is not hashable
            key = (origin, repr(args), in_model)
        named = self._named[key] = Named(type_words(kind), self._label(origin.__name__, args))
        named.hashable = origin.__hash__ is not None and not issubclass(origin, dict)
        named.nested = nested_as(origin)
        if is_struct(origin):  # the others raise an error when they are hashed
            named.hashable = origin.__struct_config__.frozen
        owner, self._owner = self._owner, (kind, in_model)
        try:
            body = named.body = object_of(self, origin, args, in_model)
        except BaseException:
            del self._named[key]
            raise
        finally:
            self._owner = owner
        if isinstance(body, Object):
            if body.of_data:
                named.nested = body.parts_nested()
            elif in_model is not None and "revalidate_instances" in in_model.config and body.model:
                named.nested = named.nested or "remade"
            keys = [one.key for one in body.fields]
            if len(set(keys)) != len(keys):
                again = next(name for name in keys if keys.count(name) > 1)
                raise unsupported(named.name, f"two of its fields are named {again!r}", "type-alias")
            made_up = dataclasses.is_dataclass(origin) or issubclass(origin, tuple) or is_pydantic(origin) is not None
            if made_up or is_struct(origin) or hasattr(origin, "__attrs_attrs__"):  # hashed by their fields
                named.hashable = named.hashable and all(one.node.hashable for one in body.fields)
        return named

    def _label(self, name: str, args: tuple[Any, ...]) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_.-]+", "_", "_".join([name, *map(type_words, args)])).strip("_") or "T"
        label, number = wanted, 2
        while label in self._labels or label == "Any":
            label, number = f"{wanted}_{number}", number + 1
        self._labels.add(label)
        return label

    def _enum(self, kind: type[Enum]) -> nodes.Node:
        return nodes.Literals(kind.__name__, enum_values(kind))


def enum_values(kind: type[Enum]) -> tuple[tuple[Any, Enum], ...]:
    """What is written for each member: its value or, if one of the values is not JSON, its name."""
    if issubclass(kind, Flag):
        raise unsupported(kind.__name__, "a Flag is any combination of its members; use a set of an Enum", "type-flag")
    members = list(kind)
    if not members:
        raise unsupported(kind.__name__, "has no members")
    if all(nodes.is_scalar(nodes.scalar_of(member.value)) for member in members):
        pairs = [(nodes.scalar_of(member.value), member) for member in members]
    else:
        pairs = [(member.name, member) for member in members]
    return tuple(pairs)


def _says_left_out(arg: Any) -> bool:
    """Whether it stands for a member that is left out: msgspec's ``UnsetType``, pydantic's ``MISSING``."""
    core, msgspec = sys.modules.get("pydantic_core"), sys.modules.get("msgspec")
    marks = (getattr(msgspec, "UnsetType", None), getattr(core, "MISSING", None))
    return arg is not None and any(arg is mark for mark in marks)


def _unpacked(arg: Any) -> Any:
    """The tuple in ``*tuple[…]`` or ``Unpack[tuple[…]]``, or None."""
    if getattr(arg, "__unpacked__", False) is True:
        return typing.get_origin(arg)[typing.get_args(arg)]
    origin, args = origin_of(arg)
    if (getattr(origin, "__name__", None) or getattr(origin, "_name", None)) == "Unpack" and args:
        return args[0]
    return None
