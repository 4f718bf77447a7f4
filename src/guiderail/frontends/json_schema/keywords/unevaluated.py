"""``unevaluatedProperties`` and ``unevaluatedItems``.

Which members and items count as evaluated depends on which in-place sub-schemas hold. A *way* is a set of sub-schemas
that hold together, with what they evaluate. A value is valid if it satisfies everything else and, for some way that
holds, each member that the way does not evaluate satisfies the schema of ``unevaluatedProperties``. If more sub-schemas
hold, more is evaluated, so a way need not say which sub-schemas fail.

Sub-schemas that may hold in many combinations are not combined for objects. Instead, for each kind of key, one of those
that evaluate it holds, or its value satisfies the schema of ``unevaluatedProperties``. That is a vote (see `votes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guiderail.frontends.json_schema.documents.references import Node
from guiderail.frontends.json_schema.errors import TooMany
from guiderail.frontends.json_schema.keywords.branches import dependencies_of, terms_of
from guiderail.frontends.json_schema.normal_form.array_cells import array_cell
from guiderail.frontends.json_schema.normal_form.shape import (
    FALSE,
    TRUE,
    ArrayCell,
    Fixed,
    KeyRules,
    ObjectCell,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.normal_form.votes import all_of, any_of, formula_of, vote
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.votes import Formula

__all__ = ["apply_unevaluated"]


class Way:
    """Sub-schemas that hold, and what they evaluate.

    Attributes:
        holds: terms that are assumed, in the order in which they were found.
        names: evaluated member names.
        patterns: languages of evaluated member names.
        members: whether all members are evaluated.
        prefix: how many first items are evaluated.
        items: whether all items are evaluated.
        matching: items that satisfy one of these are evaluated (``contains``), in order, too.
    """

    __slots__ = ("holds", "items", "matching", "members", "names", "patterns", "prefix")

    def __init__(
        self,
        holds: tuple[Term, ...] = (),
        names: frozenset[str] = frozenset(),
        patterns: frozenset[Strings] = frozenset(),
        members: bool = False,
        prefix: int = 0,
        items: bool = False,
        matching: tuple[Term, ...] = (),
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
            _joined(self.holds, other.holds),
            self.names | other.names,
            self.patterns | other.patterns,
            self.members or other.members,
            max(self.prefix, other.prefix),
            self.items or other.items,
            _joined(self.matching, other.matching),
        )

    def assuming(self, term: Term) -> Way:
        return self.with_(Way((term,))) if term is not TRUE else self

    def evaluates(self) -> bool:
        return bool(self.names or self.patterns or self.members or self.prefix or self.items or self.matching)

    def covers(self, other: Way) -> bool:
        """Whether this evaluates all that ``other`` does, and assumes no more."""
        return (
            _among(self.holds, other.holds)
            and (self.members or (not other.members and self.names >= other.names and self.patterns >= other.patterns))
            and (
                self.items
                or (not other.items and self.prefix >= other.prefix and _among(other.matching, self.matching))
            )
        )


def _joined(some: tuple[Term, ...], more: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(some + more)) if some and more else some or more


def _among(some: tuple[Term, ...], others: tuple[Term, ...]) -> bool:
    return not some or set(some).issubset(others)


_NONE: Final = Way()
_WAYS: Final = 20  # steps for the ways of one schema


def apply_unevaluated(node: Node, shape: Shape) -> Shape:
    """A shape narrowed by the unevaluated keywords of a schema object."""
    schema, scope = node.schema, node.scope
    algebra = scope.document.algebra
    members = "unevaluatedProperties" in schema and shape.objects
    items = "unevaluatedItems" in schema and shape.arrays
    if members:
        term = scope.child(schema["unevaluatedProperties"])
        if term is not TRUE:
            shape = algebra.and_shapes(shape, _members(node, term))
    if items:
        term = scope.child(schema["unevaluatedItems"])
        if term is not TRUE:
            ways = _reduced(node, _ways(node, _Only(False, algebra.max_branches), {node}, own_unevaluated=False))
            branches = [_narrow(node, way, _items_shape(node, way, term)) for way in ways]
            shape = algebra.and_shapes(shape, algebra.union(branches))
    return shape


def _members(node: Node, term: Term) -> Shape:
    """Objects whose unevaluated members satisfy a term."""
    algebra = node.scope.document.algebra
    only = _Only(members=True, most=max(algebra.most_cells, 1))
    try:
        ways = _reduced(node, _ways(node, only, {node}, own_unevaluated=False))
    except TooMany:
        if algebra.eager:
            raise
        only.most = None
        return _members_late(node, _ways(node, only, {node}, own_unevaluated=False), term)
    return algebra.union([_narrow(node, way, _members_shape(way, term)) for way in ways])


def _members_late(node: Node, sources: list[Way], term: Term) -> Shape:
    """Decides evaluated members by key: for each kind of key, one alternative evaluates it, or its value is valid
    anyway.

    Args:
        node: the schema object.
        sources: sub-schemas, each with what it evaluates itself, and the terms under which it holds.
        term: the term of the values of unevaluated members.
    """
    algebra = node.scope.document.algebra
    conditions = [
        all_of(algebra, [any_of(map(formula_of, held.shape().objects)) for held in way.holds]) for way in sources
    ]
    names = sorted({name for way in sources for name in way.names})
    patterns = sorted({pattern for way in sources for pattern in way.patterns}, key=repr)
    # keys by the sources that evaluate them
    kinds: dict[frozenset[int], tuple[list[str], list[Strings]]] = {}
    for name in names:
        able = [
            i
            for i, w in enumerate(sources)
            if w.members or name in w.names or any(p.contains(name) for p in w.patterns)
        ]
        kinds.setdefault(frozenset(able), ([], []))[0].append(name)
    regions: list[tuple[Strings, frozenset[Strings]]] = [(Strings.ALL, frozenset())]
    for pattern in patterns:
        split = []
        for keys, within in regions:
            inside = pattern if keys.is_all() else keys & pattern
            outside = ~pattern if keys.is_all() else keys & ~pattern
            split += [(inside, within | {pattern})] if not inside.is_empty() else []
            split += [(outside, within)] if not outside.is_empty() else []
        regions = split
        algebra._limit(len(regions))
    for keys, within in regions:
        able = [i for i, w in enumerate(sources) if w.members or not within.isdisjoint(w.patterns)]
        kinds.setdefault(frozenset(able), ([], []))[1].append(keys)
    parts: list[Formula] = []
    for able_to, (some, languages) in kinds.items():
        named = {name: term if name in some else TRUE for name in (names if languages else some)}
        rules = () if not languages else (KeyRules(tuple((keys, term) for keys in languages), TRUE),)
        parts.append(any_of([*[conditions[i] for i in sorted(able_to)], ObjectCell(named, TRUE, rules=rules)]))
    anything = TRUE.shape()
    cells = vote(algebra, all_of(algebra, parts))
    return Shape(True, 3, anything.numbers, anything.strings, anything.arrays, cells)


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
    rest = algebra.or_terms((term, *way.matching))
    cell = array_cell(algebra, (TRUE,) * way.prefix, rest, 0, None, ())
    arrays: tuple[ArrayCell, ...] = () if cell is None else (cell,)
    return Shape(True, 3, anything.numbers, anything.strings, arrays, anything.objects)


class _Only:
    """Which of the two kinds to collect.

    Attributes:
        members: members of objects, not items of arrays.
        most: maximum number of ways; None: ways are not multiplied, and each is what one sub-schema evaluates alone.
    """

    __slots__ = ("members", "most")

    def __init__(self, members: bool, most: int | None) -> None:
        self.members = members
        self.most = most


def _ways(node: Node, only: _Only, path: set[Node], own_unevaluated: bool = True) -> list[Way]:
    """The ways in which a schema that holds may evaluate members or items."""
    spend(_WAYS)
    schema, scope = node.schema, node.scope
    own = _own_members(node, own_unevaluated) if only.members else _own_items(node, own_unevaluated)
    ways = [own]
    if own.members if only.members else own.items:
        return ways

    if "$ref" in schema:
        ways = _together(node, only, ways, _inside(scope.reference(schema["$ref"], schema), only, path))
        if scope.old:
            return ways
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in schema and (keyword == "$recursiveRef") == (scope.dialect == "2019-09"):
            ways = _together(node, only, ways, _inside(scope.dynamic(schema[keyword], schema), only, path))
    if "allOf" in schema:
        for term in terms_of(node, "allOf"):
            ways = _together(node, only, ways, _inside(term, only, path))
    if "anyOf" in schema:
        for term in terms_of(node, "anyOf"):
            options = [way.assuming(term) for way in _inside(term, only, path) if way.evaluates()]
            if options:
                ways = _together(node, only, ways, [_NONE, *options])
    if "oneOf" in schema:
        options = [way.assuming(term) for term in terms_of(node, "oneOf") for way in _inside(term, only, path)]
        ways = _together(node, only, ways, [_NONE, *[way for way in options if way.evaluates()]])
    if "if" in schema:
        test = scope.child(schema["if"])
        passed = _inside(test, only, path)
        if "then" in schema:
            passed = _together(node, only, passed, _inside(scope.child(schema["then"]), only, path))
        options = [_NONE, *[way.assuming(test) for way in passed if way.evaluates()]]
        if "else" in schema:
            failed = scope.document.algebra.not_term(test)
            options += [
                way.assuming(failed) for way in _inside(scope.child(schema["else"]), only, path) if way.evaluates()
            ]
        ways = _together(node, only, ways, options)
    if "dependentSchemas" in schema or "dependencies" in schema:
        for name, _, term in dependencies_of(node):
            options = [way for way in _inside(term, only, path) if way.evaluates()]
            if options:
                present = Fixed(_present(name))
                ways = _together(node, only, ways, [_NONE, *[way.assuming(present) for way in options]])
    return ways


def _inside(term: Term, only: _Only, path: set[Node]) -> list[Way]:
    if not isinstance(term, Node) or term in path:  # what is being read already evaluates nothing new
        return [_NONE]
    path.add(term)
    try:
        return _ways(term, only, path)
    finally:
        path.discard(term)


def _together(node: Node, only: _Only, some: list[Way], options: list[Way]) -> list[Way]:
    if only.most is None:
        return [way for way in (*some, *options) if way.evaluates()]
    found = _reduced(node, [a.with_(b) for a in some for b in options])
    if len(found) > only.most:
        raise TooMany
    return found


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
    matching: tuple[Term, ...] = ()
    if "contains" in schema and scope.dialect == "2020-12":
        matching = (scope.child(schema["contains"]),)
        if matching[0] is TRUE:
            return Way(items=True)
    return Way(prefix=prefix, matching=matching)


def _reduced(node: Node, ways: list[Way]) -> list[Way]:
    """Without the ways that another way covers."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda w: len(w.holds)):
        if not any(other.covers(way) for other in kept):
            kept.append(way)
    node.scope.document.algebra._limit(len(kept))
    return kept
