"""``unevaluatedProperties`` and ``unevaluatedItems``.

Which members and items count as evaluated depends on which sub-schemas in place hold. Let a *way* be a set of
sub-schemas that hold together with what they evaluate. A value is valid if it satisfies everything else, and for some
way that holds, each member that the way does not evaluate satisfies the schema of ``unevaluatedProperties``: more
sub-schemas holding only evaluates more, so that no way has to say which sub-schemas fail.
"""

from __future__ import annotations

from guiderail.frontends.json_schema.branches import dependencies_of, terms_of
from guiderail.frontends.json_schema.references import Node
from guiderail.frontends.json_schema.shape import (
    FALSE,
    TRUE,
    ArrayCell,
    Fixed,
    KeyRules,
    ObjectCell,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.strings import Strings

__all__ = ["apply_unevaluated"]


class Way:
    """Sub-schemas that hold, and what they evaluate.

    Attributes:
        holds: terms that are assumed.
        names: evaluated member names.
        patterns: languages of evaluated member names.
        members: whether all members are evaluated.
        prefix: how many first items are evaluated.
        items: whether all items are.
        matching: items that satisfy one of these are evaluated (``contains``).
    """

    __slots__ = ("holds", "items", "matching", "members", "names", "patterns", "prefix")

    def __init__(
        self,
        holds: frozenset[Term] = frozenset(),
        names: frozenset[str] = frozenset(),
        patterns: frozenset[Strings] = frozenset(),
        members: bool = False,
        prefix: int = 0,
        items: bool = False,
        matching: frozenset[Term] = frozenset(),
    ) -> None:
        self.holds = holds
        self.names = names
        self.patterns = patterns
        self.members = members
        self.prefix = prefix
        self.items = items
        self.matching = matching

    def with_(self, other: Way) -> Way:
        return Way(
            self.holds | other.holds,
            self.names | other.names,
            self.patterns | other.patterns,
            self.members or other.members,
            max(self.prefix, other.prefix),
            self.items or other.items,
            self.matching | other.matching,
        )

    def assuming(self, term: Term) -> Way:
        return self.with_(Way(frozenset((term,)))) if term is not TRUE else self

    def evaluates(self) -> bool:
        return bool(self.names or self.patterns or self.members or self.prefix or self.items or self.matching)

    def covers(self, other: Way) -> bool:
        """Whether this evaluates all that ``other`` does, and assumes no more."""
        return (
            self.holds <= other.holds
            and (self.members or (not other.members and self.names >= other.names and self.patterns >= other.patterns))
            and (self.items or (not other.items and self.prefix >= other.prefix and self.matching >= other.matching))
        )


_NONE = Way()


def apply_unevaluated(node: Node, shape: Shape) -> Shape:
    """A shape narrowed by the unevaluated keywords of a schema object."""
    schema, scope = node.schema, node.scope
    algebra = scope.document.algebra
    members = "unevaluatedProperties" in schema and shape.objects
    items = "unevaluatedItems" in schema and shape.arrays
    if members:
        term = scope.child(schema["unevaluatedProperties"])
        if term is not TRUE:
            ways = _reduced(node, _ways(node, _Only(members=True), {node}, own_unevaluated=False))
            branches = [_narrow(node, way, _members_shape(way, term)) for way in ways]
            shape = algebra.and_shapes(shape, algebra.union(branches))
    if items:
        term = scope.child(schema["unevaluatedItems"])
        if term is not TRUE:
            ways = _reduced(node, _ways(node, _Only(members=False), {node}, own_unevaluated=False))
            branches = [_narrow(node, way, _items_shape(node, way, term)) for way in ways]
            shape = algebra.and_shapes(shape, algebra.union(branches))
    return shape


def _narrow(node: Node, way: Way, shape: Shape) -> Shape:
    algebra = node.scope.document.algebra
    for term in way.holds:
        shape = algebra.and_shapes(shape, term.shape())
    return algebra.pruned(shape)


def _members_shape(way: Way, term: Term) -> Shape:
    anything = TRUE.shape()
    if way.members:
        return anything
    named = dict.fromkeys(sorted(way.names), TRUE)
    if way.patterns:
        rules = KeyRules(tuple((p, TRUE) for p in sorted(way.patterns, key=repr)), term)
        cell = ObjectCell(named, TRUE, rules=(rules,))
    else:
        cell = ObjectCell(named, term)
    return Shape(True, 3, anything.numbers, anything.strings, anything.arrays, (cell,))


def _items_shape(node: Node, way: Way, term: Term) -> Shape:
    anything = TRUE.shape()
    if way.items:
        return anything
    algebra = node.scope.document.algebra
    rest = algebra.or_terms((term, *sorted(way.matching, key=id)))
    cell = algebra.array_cell((TRUE,) * way.prefix, rest, 0, None, ())
    arrays: tuple[ArrayCell, ...] = () if cell is None else (cell,)
    return Shape(True, 3, anything.numbers, anything.strings, arrays, anything.objects)


class _Only:
    """Which of the two kinds is asked for; the other is not collected."""

    __slots__ = ("members",)

    def __init__(self, members: bool) -> None:
        self.members = members


def _ways(node: Node, only: _Only, path: set[Node], own_unevaluated: bool = True) -> list[Way]:
    """The ways in which a schema that holds may evaluate members or items."""
    schema, scope = node.schema, node.scope
    ways = [_own_members(node, own_unevaluated) if only.members else _own_items(node, own_unevaluated)]

    def both(options: list[Way]) -> None:
        nonlocal ways
        ways = _reduced(node, [a.with_(b) for a in ways for b in options])

    def inside(term: Term) -> list[Way]:
        if not isinstance(term, Node):
            return [_NONE]
        if term in path:
            raise scope.document.infinite_reference(term.schema)
        return _ways(term, only, path | {term})

    if "$ref" in schema:
        both(inside(scope.reference(schema["$ref"], schema)))
        if scope.old:
            return ways
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in schema and (keyword == "$recursiveRef") == (scope.dialect == "2019-09"):
            both(inside(scope.dynamic(schema[keyword], schema)))
    if "allOf" in schema:
        for term in terms_of(node, "allOf"):
            both(inside(term))
    if "anyOf" in schema:
        for term in terms_of(node, "anyOf"):
            options = [way.assuming(term) for way in inside(term) if way.evaluates()]
            if options:
                both([_NONE, *options])
    if "oneOf" in schema:
        options = [way.assuming(term) for term in terms_of(node, "oneOf") for way in inside(term)]
        both([_NONE, *(way for way in options if way.evaluates())])
    if "if" in schema:
        test = scope.child(schema["if"])
        passed = inside(test)
        if "then" in schema:
            passed = [a.with_(b) for a in passed for b in inside(scope.child(schema["then"]))]
        options = [_NONE, *(way.assuming(test) for way in passed if way.evaluates())]
        if "else" in schema:
            failed = scope.document.algebra.not_term(test)
            options += [way.assuming(failed) for way in inside(scope.child(schema["else"])) if way.evaluates()]
        both(options)
    if "dependentSchemas" in schema or "dependencies" in schema:
        for name, _, term in dependencies_of(node):
            options = [way for way in inside(term) if way.evaluates()]
            if options:
                present = Fixed(_present(name))
                both([_NONE, *(way.assuming(present) for way in options)])
    return ways


def _present(name: str) -> Shape:
    nothing = FALSE.shape()
    cell = ObjectCell({name: TRUE}, TRUE, frozenset((name,)))
    return Shape(False, 0, nothing.numbers, nothing.strings, (), (cell,))


def _own_members(node: Node, own_unevaluated: bool) -> Way:
    schema = node.schema
    names: frozenset[str] = frozenset()
    patterns: frozenset[Strings] = frozenset()
    if node.scope.old and "$ref" in schema:
        return _NONE
    if "additionalProperties" in schema or (own_unevaluated and "unevaluatedProperties" in schema):
        return Way(members=True)
    if isinstance(schema.get("properties"), dict):
        names = frozenset(schema["properties"])
    if isinstance(schema.get("patternProperties"), dict):
        patterns = frozenset(Strings.pattern(p) for p in schema["patternProperties"])
        if any(p.is_all() for p in patterns):
            return Way(members=True)
    return Way(names=names, patterns=patterns)


def _own_items(node: Node, own_unevaluated: bool) -> Way:
    schema, scope = node.schema, node.scope
    if scope.old and "$ref" in schema:
        return _NONE
    if own_unevaluated and "unevaluatedItems" in schema:
        return Way(items=True)
    items = schema.get("items")
    prefix = 0
    if "prefixItems" in schema and scope.dialect == "2020-12":
        if "items" in schema:
            return Way(items=True)
        prefix = len(schema["prefixItems"])
    elif isinstance(items, list):
        if "additionalItems" in schema:
            return Way(items=True)
        prefix = len(items)
    elif "items" in schema:
        return Way(items=True)
    matching: frozenset[Term] = frozenset()
    if "contains" in schema and scope.dialect == "2020-12":
        matching = frozenset((scope.child(schema["contains"]),))
        if TRUE in matching:
            return Way(items=True)
    return Way(prefix=prefix, matching=matching)


def _reduced(node: Node, ways: list[Way]) -> list[Way]:
    """Without ways that another covers."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda w: len(w.holds)):
        if not any(other.covers(way) for other in kept):
            kept.append(way)
    node.scope.document.algebra._limit(len(kept))
    return kept
