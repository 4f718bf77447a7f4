"""Nodes with parts: arrays, mappings, objects with named members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import Any

from guiderail.frontends.python_types.bounds import Bounds
from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.nodes import (
    CALL,
    DATA,
    READ,
    How,
    Node,
    Root,
    Schemas,
    call_user,
    nested_in,
    only,
    read_in,
    validated,
)
from guiderail.support.pointers import extended
from guiderail.support.trees import Called, Mismatch, Tree

__all__ = ["Array", "Field", "Mapping", "Named", "Object", "Tuple"]


def _count(what: str, count: int, bounds: Bounds) -> None:
    low, high = bounds.min_length or 0, bounds.max_length
    if count < low or (high is not None and count > high):
        raise Mismatch(f"has {count} {what}, not {low} to {'any number' if high is None else high}")


@dataclass
class Array(Node):
    """A list, set, frozenset or deque."""

    name: str
    item: Node
    make: Callable[[list[Any]], Any]
    unique: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    hashable: bool = False
    kinds = frozenset({"array"})

    @property
    def injective(self) -> bool:  # type: ignore[override]
        return not self.unique and self.item.injective

    @property
    def nested(self) -> str:  # type: ignore[override]
        return "" if self.unique else self.item.nested

    def constrained(self, bounds: Bounds) -> Node:
        if not only(bounds, "min_length", "max_length"):
            return super().constrained(bounds)
        made = replace(self, bounds=self.bounds & bounds)
        if self.unique and (made.bounds.min_length or 0) > 1 and not self.item.injective:
            raise unsupported(
                f"{self.name} with at least {made.bounds.min_length} elements",
                f"different spellings can be equal values of {self.item.name}, so a set of them may have fewer "
                "elements; use a list, or elements with one spelling each",
                "type-set-length",
            )
        return made

    def schema(self, out: Schemas) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "array", "items": self.item.schema(out)}
        if self.bounds.min_length:
            made["minItems"] = self.bounds.min_length
        if self.bounds.max_length is not None:
            made["maxItems"] = self.bounds.max_length
        # Equal elements merge, which matters only for a minimum. Without one, some comparisons are too expensive.
        cheap = out.one_spelling and not self.item.kinds & {"array", "object"}
        if self.unique and (cheap or (self.bounds.min_length or 0) > 1):
            made["uniqueItems"] = True
        return made

    def read(self, tree: Tree) -> Any:
        return self._items(tree, READ)

    def data(self, tree: Tree) -> Any:
        return self._items(tree, READ if self.unique else DATA)  # a dict cannot be hashed

    def _items(self, tree: Tree, how: How) -> Any:
        if not isinstance(tree, list):
            raise self.fail(tree)
        _count("items", len(tree), self.bounds)
        read = how(self.item)
        made = call_user(self.make, [read_in(read, part, index) for index, part in enumerate(tree)])
        if self.unique:
            _count("different elements", len(made), self.bounds)
        return made


@dataclass
class Tuple(Node):
    """A tuple of fixed length, or with a rest of any length."""

    name: str
    items: tuple[Node, ...]
    rest: Node | None = None
    bounds: Bounds = field(default_factory=Bounds)
    kinds = frozenset({"array"})

    @property
    def hashable(self) -> bool:  # type: ignore[override]
        return all(node.hashable for node in self._parts())

    @property
    def injective(self) -> bool:  # type: ignore[override]
        return all(node.injective for node in self._parts())

    @property
    def nested(self) -> str:  # type: ignore[override]
        return nested_in(*self._parts())

    def _parts(self) -> tuple[Node, ...]:
        return self.items if self.rest is None else (*self.items, self.rest)

    def constrained(self, bounds: Bounds) -> Node:
        if self.rest is None or not only(bounds, "min_length", "max_length"):
            return super().constrained(bounds)
        return replace(self, bounds=self.bounds & bounds)

    def schema(self, out: Schemas) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "array"}
        if self.items:
            made["prefixItems"] = [item.schema(out) for item in self.items]
        low = max(len(self.items), self.bounds.min_length or 0)
        if low:
            made["minItems"] = low
        if self.rest is None:
            made["items"] = False
        else:
            made["items"] = self.rest.schema(out)
            if self.bounds.max_length is not None:
                made["maxItems"] = self.bounds.max_length
        return made

    def read(self, tree: Tree) -> Any:
        return self._items(tree, READ)

    def data(self, tree: Tree) -> Any:
        return self._items(tree, DATA)

    def _items(self, tree: Tree, how: How) -> Any:
        if not isinstance(tree, list):
            raise self.fail(tree)
        count = len(self.items)
        if len(tree) < count or (self.rest is None and len(tree) > count):
            raise Mismatch(f"has {len(tree)} items, not {count}")
        _count("items", len(tree), self.bounds)
        nodes = [*self.items, *[self.rest] * (len(tree) - count)]
        return tuple(
            read_in(how(node), part, i) for i, (node, part) in enumerate(zip(nodes, tree, strict=True)) if node
        )


@dataclass
class Mapping(Node):
    """A dict of any keys of one type."""

    name: str
    keys: Node
    values: Node
    make: Callable[[dict[Any, Any]], Any]
    bounds: Bounds = field(default_factory=Bounds)
    hashable: bool = False
    kinds = frozenset({"object"})

    @property
    def injective(self) -> bool:  # type: ignore[override]
        return self.keys.injective and self.values.injective

    @property
    def nested(self) -> str:  # type: ignore[override]
        return self.values.nested

    def constrained(self, bounds: Bounds) -> Node:
        if not only(bounds, "min_length", "max_length"):
            return super().constrained(bounds)
        made = replace(self, bounds=self.bounds & bounds)
        if (made.bounds.min_length or 0) > 1 and not self.keys.injective:
            raise unsupported(
                f"{self.name} with at least {made.bounds.min_length} keys",
                f"different spellings can be equal keys of {self.keys.name}, so the dict may have fewer keys",
                "type-set-length",
            )
        return made

    def schema(self, out: Schemas) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object"}
        names, _ = self.keys.key(out)
        values = self.values.schema(out)
        if set(names) == {"enum"}:  # in the order of the enumeration
            made["properties"] = dict.fromkeys(names["enum"], values)
            made["additionalProperties"] = False
        else:
            if names:
                made["propertyNames"] = names
            made["additionalProperties"] = values
        if self.bounds.min_length:
            made["minProperties"] = self.bounds.min_length
        if self.bounds.max_length is not None:
            made["maxProperties"] = self.bounds.max_length
        return made

    def read(self, tree: Tree) -> Any:
        return self._members(tree, READ)

    def data(self, tree: Tree) -> Any:
        return self._members(tree, DATA)

    def _members(self, tree: Tree, how: How) -> Any:
        if not isinstance(tree, dict):
            raise self.fail(tree)
        if isinstance(tree, Called):
            raise Mismatch(f"is a call of {tree.function}, not {self.name}")
        _count("members", len(tree), self.bounds)
        _, read = self.keys.key(Schemas())
        pairs = [(read_in(read, name, name), read_in(how(self.values), value, name)) for name, value in tree.items()]
        made = call_user(dict, pairs)
        if len(made) != len(tree):
            _count("different keys", len(made), self.bounds)
        return self.make(made)


@dataclass
class Field:
    """A named member of an object.

    Attributes:
        name: the attribute or parameter.
        key: the member's name in the text.
        node: its type.
        required: whether the type has no default for it.
        description: its description.
        attribute: the attribute of the value, if that is not ``name``.
    """

    name: str
    key: str
    node: Node
    required: bool
    description: str | None = None
    attribute: str | None = None


@dataclass
class Object(Node):
    """Named members: classes, typed dicts, parameters.

    ``make`` gets the given members by ``Field.name``, then the additional ones. If it is that of a ``model``, pydantic
    can make one of its data, too.
    """

    name: str
    fields: tuple[Field, ...]
    make: Callable[[dict[str, Any], dict[str, Any]], Any]
    others: Node | None = None
    hidden: frozenset[str] = frozenset()  # members that are neither written nor among the others
    description: str | None = None
    call: bool = False  # whether `name` is what Python calls to make one
    model: bool = False
    of_data: bool = False  # whether pydantic can make one of its data, though it need not
    hashable: bool = False
    injective: bool = False
    kinds = frozenset({"object"})

    def parts_nested(self) -> str:
        """``nested`` of its parts."""
        return nested_in(*self._parts())

    def _is_called(self) -> bool:
        """Whether it can be written as a call: every member a keyword argument."""
        keys = [*self.name.split("."), *(one.key for one in self.fields)]
        return self.call and self.others is None and all(k.isidentifier() and not iskeyword(k) for k in keys)

    def schema(self, out: Schemas) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object"}
        if self.description:
            made["description"] = self.description
        properties: dict[str, Any] = {}
        called = out.calls and self._is_called()
        if called:
            properties[CALL] = {"const": self.name}
        for one in self.fields:
            schema = one.node.schema(out)
            properties[one.key] = {**schema, "description": one.description} if one.description else schema
        if self.others is not None:
            properties |= dict.fromkeys(sorted(self.hidden), False)
        made["properties"] = properties
        required = [one.key for one in self.fields if one.required or out.write_defaults]
        if called:
            required.insert(0, CALL)
        if required:
            made["required"] = required
        made["additionalProperties"] = False if self.others is None else self.others.schema(out)
        return made

    def read(self, tree: Tree) -> Any:
        nested = self.parts_nested() if self.model else ""
        given = self._members(tree, DATA if nested == "remade" else READ)
        return validated(self.make, given, lambda: self._members(tree, DATA), nested)

    def data(self, tree: Tree) -> Any:
        if not self.model and not self.of_data:
            return self.read(tree)
        given, others = self._members(tree, DATA)
        return {**given, **others}

    def _parts(self) -> list[Node]:
        parts = [one.node for one in self.fields]
        return parts if self.others is None else [*parts, self.others]

    def _members(self, tree: Tree, how: How) -> tuple[dict[str, Any], dict[str, Any]]:
        if not isinstance(tree, dict):
            raise self.fail(tree)
        if isinstance(tree, Called) and tree.function != self.name:
            raise Mismatch(f"is a call of {tree.function}, not of {self.name}")
        members: dict[str, Any] = {}
        known: set[str] = set()
        for one in self.fields:
            known.add(one.key)
            if one.key in tree:
                members[one.name] = read_in(how(one.node), tree[one.key], one.key)
            elif one.required:
                raise Mismatch(f"has no member {one.key!r}, which {self.name} needs")
        others: dict[str, Any] = {}
        for name, value in tree.items():
            if name in known:
                continue
            if self.others is None or name in self.hidden:
                raise Mismatch(f"has a member {name[:60]!r}, which {self.name} does not have")
            others[name] = read_in(how(self.others), value, name)
        return members, others


@dataclass
class Named(Node):
    """A type with a name, which may contain itself: a definition of the schema."""

    name: str
    label: str  # its key in $defs
    body: Node | None = None  # set once the parts have been walked
    hashable: bool = False
    injective: bool = False
    nested: str = ""

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        # while the body is being walked nothing is known; only objects and aliases are named
        return frozenset({"object"}) if self.body is None else self.body.kinds

    def schema(self, out: Schemas) -> dict[str, Any]:
        assert self.body is not None
        if self.label not in out.definitions:
            out.definitions[self.label] = {}
            out.definitions[self.label] = self.body.schema(out)
        return {"$ref": extended("#/$defs", self.label)}

    def read(self, tree: Tree) -> Any:
        assert self.body is not None
        return self.body.read(tree)

    def data(self, tree: Tree) -> Any:
        assert self.body is not None
        return self.body.data(tree)

    def constrained(self, bounds: Bounds) -> Node:
        if self.body is None or isinstance(self.body, Object | Root):
            return super().constrained(bounds)
        return self.body.constrained(bounds)

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        if self.body is None:
            return super().key(out)
        return self.body.key(out)
