"""The parts of a type: each has a JSON Schema and reads its values back.

Both come from one node, so ``read`` accepts what the schema allows. ``read`` still checks everything that the schema
says: a union needs this to find its branch, and strings may come from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import attrgetter
from typing import Any

from guiderail.constraints.constraint import AllOf, Constraint
from guiderail.frontends.python_types.bounds import Bounds, exact
from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.rust_patterns import ASCII
from guiderail.support.numerals import digits
from guiderail.support.texts import has_surrogate, shown
from guiderail.support.trees import Called, Mismatch, Number, Tree, plain, type_name

__all__ = ["DATA", "READ", "AnyNode", "Checked", "Literals", "Node", "Root", "Schemas", "Simple", "Text", "Union"]

TEXT = "x-guiderail-text"
"""The keyword whose value is the index of a constraint of the decoded string; see ``schema``."""

_STATED = {"texts": "pattern", "strip": "strip_whitespace", "case": "to_upper or to_lower"}

LARGEST = 1.7976931348623157e308


CALL = "x-guiderail-call"
"""The property that names the class of an object in the notation of Python; see ``json_schema.notations.python``."""


class Schemas:
    """Collects definitions while nodes produce their schemas."""

    def __init__(
        self, *, write_defaults: bool = False, calls: bool = False, one_spelling: bool = True, exponents: bool = False
    ) -> None:
        self.write_defaults = write_defaults
        self.calls = calls  # whether objects name their class, for the notation of Python
        self.one_spelling = one_spelling  # of each scalar, more or less
        self.exponents = exponents  # whether whole numbers may have them
        self.definitions: dict[str, Any] = {}
        self.texts: list[Constraint] = []

    def text(self, constraint: Constraint) -> int:
        """The index of a constraint of strings."""
        if constraint not in self.texts:
            self.texts.append(constraint)
        return self.texts.index(constraint)


class Node:
    """A part of a type.

    Attributes:
        name: the type in words, for messages.
        kinds: the JSON types of its values (``"null"``, ``"boolean"``, ``"number"``, ``"string"``, ``"array"``,
            ``"object"``).
        hashable: whether its Python values can be hashed.
        fractional: whether an integer would rather be of another branch of a union.
        injective: whether different JSON values always read as different Python values.
        nested: whether models of pydantic are among its values: "" (none), "model", or "remade", if pydantic makes them
            anew wherever they are part of another model.
    """

    name: str
    kinds: frozenset[str] = frozenset()
    hashable: bool = True
    injective: bool = True
    fractional: bool = False
    nested: str = ""

    def schema(self, out: Schemas) -> dict[str, Any]:
        raise NotImplementedError

    def read(self, tree: Tree) -> Any:
        """The value; raises Mismatch."""
        raise NotImplementedError

    def data(self, tree: Tree) -> Any:
        """What pydantic makes the value of: like ``read``, but a model is a dict of its members, not validated yet."""
        return self.read(tree)

    def constrained(self, bounds: Bounds) -> Node:
        """This node with further bounds, none of which is a check, a validator or a description."""
        names = [f.name for f in bounds.__dataclass_fields__.values() if getattr(bounds, f.name) != f.default]
        names = [_STATED.get(name, name) for name in names if name != "by_pydantic"]
        raise unsupported(
            f"{', '.join(names)} of {self.name}", "this constraint does not apply to the type", "type-metadata"
        )

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        """For a key of a dict: the schema of the member's name, and what reads it."""
        raise unsupported(
            f"a dict with keys of {self.name}",
            "keys in JSON are strings; use str, int, bool, an Enum, a Literal or a type written as a string",
            "type-key",
        )

    def fail(self, tree: Tree) -> Mismatch:
        return Mismatch(f"is {type_name(tree)}, not {self.name}")


def only(bounds: Bounds, *allowed: str) -> bool:
    """Whether a bound uses no other fields than these."""
    return all(getattr(bounds, f.name) == f.default or f.name in allowed for f in bounds.__dataclass_fields__.values())


def read_in(read: Callable[[Tree], Any], tree: Tree, step: str | int) -> Any:
    """Reads a part, naming the step to it in any mismatch."""
    try:
        return read(tree)
    except Mismatch as error:
        error.path.append(step)
        raise


@dataclass
class AnyNode(Node):
    """Any JSON value, read as ``json.loads`` does. Among hashable values: scalars only."""

    name: str = "Any"
    scalar: bool = False
    injective: bool = False
    kinds = frozenset({"null", "boolean", "number", "string", "array", "object"})

    @property
    def hashable(self) -> bool:  # type: ignore[override]
        return self.scalar

    def schema(self, out: Schemas) -> dict[str, Any]:
        # Only numbers that a float can represent and int() can read.
        scalars = ["null", "boolean", "string", "number"]
        bounds = {"minimum": -LARGEST, "maximum": LARGEST}
        if self.scalar:
            return {"type": scalars, **bounds}
        out.definitions.setdefault(
            "Any",
            {
                "type": [*scalars, "array", "object"],
                **bounds,
                "items": {"$ref": "#/$defs/Any"},
                "additionalProperties": {"$ref": "#/$defs/Any"},
            },
        )
        return {"$ref": "#/$defs/Any"}

    def read(self, tree: Tree) -> Any:
        if self.scalar and isinstance(tree, list | dict):
            raise self.fail(tree)
        made = plain(tree)
        if not _is_finite(made):
            raise Mismatch("contains a number beyond the largest float")
        return made

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        return {}, str


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | dict):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return True


@dataclass
class Simple(Node):
    """None, bool."""

    name: str
    json_type: str
    values: tuple[Any, ...]

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({self.json_type})

    def schema(self, out: Schemas) -> dict[str, Any]:
        return {"type": self.json_type}

    def read(self, tree: Tree) -> Any:
        for value in self.values:
            if tree is value:
                return value
        raise self.fail(tree)

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        if self.json_type == "null":
            return super().key(out)
        return Literals(self.name, tuple((str(value).lower(), value) for value in self.values)).key(out)


def call_user(make: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """A call of the user's code: any exception is a mismatch with that cause."""
    try:
        return make(*args, **named)
    except (Mismatch, RecursionError):
        raise
    except Exception as error:
        raise Mismatch("is rejected", error) from error


How = Callable[[Node], Callable[[Tree], Any]]
READ: How = attrgetter("read")
DATA: How = attrgetter("data")


def validated(validate: Callable[..., Any], given: Any, data: Callable[[], Any], nested: str) -> Any:
    """What pydantic makes of what is given or, where models in it must not or do not pass, of the data of these.

    A validator that runs before pydantic's own may expect data, and so may a function that discriminates.
    """
    if nested != "remade":
        try:
            return call_user(validate, *given)
        except Mismatch:
            if not nested:
                raise
    return call_user(validate, *data())


def nested_in(*parts: Node) -> str:
    """``nested`` of a node with these parts."""
    return max(("", *(part.nested for part in parts)))  # in this order: "", "model", "remade"


# -- strings
@dataclass
class Text(Node):
    """A string, or a value that is written as one.

    ``pattern`` (ECMA-262, anchored) is all that ``parse`` reads; None: any text.
    """

    name: str = "str"
    pattern: str | None = None
    parse: Callable[[str], Any] | None = None
    bounds: Bounds = field(default_factory=Bounds)
    sized: bool = False  # the lengths of bounds are those of the text
    injective: bool = True
    hashable: bool = True
    order: Callable[[Text, Bounds], Text] | None = None  # narrows the pattern to bounds of order
    shown: Callable[[str], Any] | None = field(default=None, compare=False)  # the value, if a model will make it
    kinds = frozenset({"string"})

    def __post_init__(self) -> None:
        if self.bounds.case or self.bounds == Bounds(strip=True):
            self.injective = False

    def constrained(self, bounds: Bounds) -> Node:
        node: Text = self
        if self.order is not None and not only(bounds, "texts"):
            node = self.order(self, replace(bounds, texts=()))
            bounds = Bounds(texts=bounds.texts)
        sizes = ("min_length", "max_length", "strip", "case") if self.sized else ()
        patterned = any(isinstance(one, str) for one in bounds.texts)  # of the value, which is no string
        if (patterned and not self.sized) or not only(bounds, "texts", *sizes, "ascii"):
            return super().constrained(bounds)
        return replace(node, bounds=node.bounds & bounds)

    def texts(self) -> tuple[str | Constraint, ...]:
        """All conditions on the string: patterns (searches of ECMA-262) and constraints."""
        made = [*self.bounds.texts]
        if self.pattern is not None:
            made.insert(0, self.pattern)
        if self.bounds.ascii:
            made.append(ASCII)
        if self.bounds.strip and self.bounds != Bounds(strip=True):
            made.append(STRIPPED)
        return tuple(made)

    def schema(self, out: Schemas) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "string"}
        if self.bounds.min_length:
            made["minLength"] = self.bounds.min_length
        if self.bounds.max_length is not None:
            made["maxLength"] = self.bounds.max_length
        texts = self.texts()
        patterns = [{"pattern": one} for one in texts if isinstance(one, str)]
        if len(patterns) == 1:
            made |= patterns[0]
        elif patterns:
            made["allOf"] = patterns
        constraints = tuple(one for one in texts if isinstance(one, Constraint))
        if constraints:
            made.setdefault("minLength", 0)  # a schema that only has the type "string" needs no further check
            made[TEXT] = out.text(constraints[0] if len(constraints) == 1 else AllOf(constraints))
        return made

    def read(self, tree: Tree) -> Any:
        if not isinstance(tree, str):
            raise self.fail(tree)
        low, high = self.bounds.min_length, self.bounds.max_length
        if (low is not None and len(tree) < low) or (high is not None and len(tree) > high):
            raise Mismatch(f"has {len(tree)} characters, not {low or 0} to {'any number' if high is None else high}")
        for one in self.texts():
            if not (matcher(one) if isinstance(one, str) else one).matches(tree):
                raise Mismatch(f"is {tree[:60]!r}, not {self.name if one == self.pattern else f'in {one!r}'}")
        return tree if self.parse is None else call_user(self.parse, tree)

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        return {name: value for name, value in self.schema(out).items() if name != "type"}, self.read


def matcher(pattern: str) -> Constraint:
    """A pattern as JSON Schema means it."""
    from guiderail.frontends.regex import regex

    return regex(pattern, dialect="ecma", flags="u", mode="search")


_INK = r"[^\s\u0085\u001c-\u001f\ufeff]"
STRIPPED = f"^(?:{_INK}(?:[^]*{_INK})?)?$"  # no whitespace at either end, by any definition


_KEY_WORDS: dict[Any, str] = {None: "null", True: "true", False: "false"}


# -- values given one by one
@dataclass
class Literals(Node):
    """Given values, by their JSON form."""

    name: str
    values: tuple[tuple[Any, Any], ...]  # (scalar of JSON, value of Python)

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(_scalar_kind(scalar) for scalar, _ in self.values)

    @property
    def injective(self) -> bool:  # type: ignore[override]
        seen: list[Any] = []
        for _, value in self.values:
            if value in seen:
                return False
            seen.append(value)
        return True

    def schema(self, out: Schemas) -> dict[str, Any]:
        scalars = [scalar for scalar, _ in self.values]
        return {"const": scalars[0]} if len(scalars) == 1 else {"enum": scalars}

    def read(self, tree: Tree) -> Any:
        kind = "number" if isinstance(tree, Number) else _scalar_kind(tree)
        for scalar, value in self.values:
            if _scalar_kind(scalar) == kind and (
                exact(scalar) == tree.decimal() if isinstance(tree, Number) else scalar == tree
            ):
                return value
        raise Mismatch(f"is {shown(plain(tree))}, which is none of the values of {self.name}")

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        names: dict[str, Any] = {}
        for scalar, value in self.values:
            name = _key(scalar)
            if name in names:
                raise unsupported(
                    f"a dict with keys of {self.name}", f"two of them are written {shown(name)}", "type-key"
                )
            names[name] = value

        def read(name: str) -> Any:
            if name not in names:
                raise Mismatch(f"has the key {name[:40]!r}, which is none of {self.name}")
            return names[name]

        return {"enum": list(names)}, read


def _key(scalar: Any) -> str:
    if scalar is None or isinstance(scalar, bool):
        return _KEY_WORDS[scalar]
    return digits(scalar) if type(scalar) is int else str(scalar)


def _scalar_kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "container"


def is_scalar(value: Any) -> bool:
    """Whether JSON can write the value of an enumeration member as it is."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return not has_surrogate(value)
    return value is None or isinstance(value, bool | int)


def scalar_of(value: Any) -> Any:
    """The bare scalar of a value that may be of a subclass (``StrEnum``, ``IntEnum`` …)."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value.value if isinstance(value, Enum) else value)
    return value


# -- around other nodes
@dataclass
class Union(Node):
    """One of several; the first that reads wins, whole numbers before fractions."""

    name: str
    branches: tuple[Node, ...]

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset().union(*(branch.kinds for branch in self.branches))

    @property
    def hashable(self) -> bool:  # type: ignore[override]
        return all(branch.hashable for branch in self.branches)

    @property
    def injective(self) -> bool:  # type: ignore[override]
        # 1 == True and 0 == False in Python, the same date may be written in two branches, and so on
        seen: list[frozenset[str]] = []
        for branch in self.branches:
            kinds = branch.kinds | ({"boolean", "number"} if branch.kinds & {"boolean", "number"} else set())
            if not branch.injective or any(kinds & other for other in seen):
                return False
            seen.append(kinds)
        return True

    @property
    def nested(self) -> str:  # type: ignore[override]
        return nested_in(*self.branches)

    def schema(self, out: Schemas) -> dict[str, Any]:
        made = [branch.schema(out) for branch in self.branches]
        bare = [s["type"] for s in made if set(s) == {"type"} and isinstance(s["type"], str)]
        if len(bare) == len(made):
            return {"type": list(dict.fromkeys(bare))}
        return {"anyOf": made}

    def read(self, tree: Tree) -> Any:
        return self._first(tree, READ)

    def data(self, tree: Tree) -> Any:
        return self._first(tree, DATA)

    def _first(self, tree: Tree, how: How) -> Any:
        order = self.branches
        if isinstance(tree, Number):
            order = tuple(sorted(order, key=lambda branch: branch.fractional))
        best: Mismatch | None = None
        for branch in order:
            try:
                return how(branch)(tree)
            except Mismatch as error:
                if best is None or len(error.path) > len(best.path) or (error.cause and not best.cause):
                    best = error
        if best is None or (not best.path and best.cause is None):
            raise Mismatch(f"is {type_name(tree)}, which fits no branch of {self.name}")
        raise best

    def constrained(self, bounds: Bounds) -> Node:
        # as pydantic does for Optional: None is left alone, the rest must take the constraint
        return replace(
            self,
            branches=tuple(
                branch if branch.kinds == {"null"} else branch.constrained(bounds) for branch in self.branches
            ),
        )

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        keys = [branch.key(out) for branch in self.branches]

        def read(name: str) -> Any:
            for _, one in keys:
                try:
                    return one(name)
                except Mismatch:
                    continue
            raise Mismatch(f"has the key {name[:40]!r}, which is none of {self.name}")

        return {"anyOf": [schema for schema, _ in keys]}, read


@dataclass
class Checked(Node):
    """A node with user code that may reject its values, a description, a member that must not be left out.

    Attributes:
        tag: the member by which pydantic tells alternatives apart, even if they have a default for it.
    """

    inner: Node
    checks: tuple[Callable[[Any], Any], ...] = ()
    validate: Callable[[Any], Any] | None = None
    description: str | None = None
    tag: str | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        return self.inner.kinds

    @property
    def hashable(self) -> bool:  # type: ignore[override]
        return self.inner.hashable

    @property
    def injective(self) -> bool:  # type: ignore[override]
        return self.inner.injective and self.validate is None

    @property
    def nested(self) -> str:  # type: ignore[override]
        return self.inner.nested

    def schema(self, out: Schemas) -> dict[str, Any]:
        made = self.inner.schema(out)
        if self.tag is not None and not out.calls:  # the name of a call is enough
            made = {"allOf": [made], "required": [self.tag]} if "required" in made else {**made, "required": [self.tag]}
        return {**made, "description": self.description} if self.description else made

    def read(self, tree: Tree) -> Any:
        if self.tag is not None and isinstance(tree, dict) and not isinstance(tree, Called) and self.tag not in tree:
            raise Mismatch(f"has no member {self.tag!r}, which tells the alternatives of {self.name} apart")
        return self._checked(self.inner.read(tree), lambda: (self.data(tree),))

    def _checked(self, value: Any, data: Callable[[], Any]) -> Any:
        for check in self.checks:
            if not call_user(check, value):
                raise Mismatch("is rejected", ValueError(f"{value!r} does not satisfy {check!r}"))
        return value if self.validate is None else validated(self.validate, (value,), data, self.nested)

    def data(self, tree: Tree) -> Any:
        return self.inner.data(tree)

    def constrained(self, bounds: Bounds) -> Node:
        return replace(self, inner=self.inner.constrained(bounds))

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        if self.tag is not None:
            return super().key(out)
        names, read = self.inner.key(out)

        def checked(name: str) -> Any:
            value = read(name)
            return self._checked(value, lambda: (value,))

        return names, checked if self.checks or self.validate is not None else read


class Root(Checked):
    """A ``RootModel`` of pydantic, which takes no bounds but those of its root."""


def described_apart(node: Node) -> tuple[Node, str | None]:
    """A node without the description that is its only wrapper, and the description."""
    if isinstance(node, Checked) and node.description and not node.checks and node.validate is None and not node.tag:
        return node.inner, node.description
    return node, None
