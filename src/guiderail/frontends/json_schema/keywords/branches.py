"""Applicators in place: ``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if`` and the dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from guiderail.errors import LimitError
from guiderail.frontends.json_schema.documents.references import Node
from guiderail.frontends.json_schema.errors import SchemaError, TooMany
from guiderail.frontends.json_schema.normal_form.algebra import Algebra
from guiderail.frontends.json_schema.normal_form.disjoint import plainly_disjoint, tags
from guiderail.frontends.json_schema.normal_form.satisfiable import is_empty_object, is_empty_shape
from guiderail.frontends.json_schema.normal_form.shape import (
    ANY_OBJECT,
    FALSE,
    NOTHING,
    TRUE,
    ObjectCell,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.normal_form.votes import IMPOSSIBLE, Vote, any_of, formula_of, one_of, vote
from guiderail.frontends.json_schema.values.exactly_one import one_number, one_string
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import out_of_work, spend

Restrict = Callable[[Node, Shape, Term], Shape]

__all__ = ["apply_branches", "dependencies_of", "terms_of"]


def terms_of(node: Node, keyword: str) -> list[Term]:
    """The terms of a keyword whose value is a list of schemas."""
    schemas = node.schema[keyword]
    if type(schemas) is not list or not schemas:
        raise SchemaError(
            f"{keyword} must be a list of at least one schema", pointer=f"{node.scope.document.where()}/{keyword}"
        )
    return [node.scope.child(schema) for schema in schemas]


def apply_branches(node: Node, shape: Shape, restrict: Restrict) -> Shape:
    """A shape narrowed by the applicators of a schema object, except ``allOf``.

    Args:
        node: the schema object.
        shape: what is known of the value otherwise.
        restrict: intersects a shape and a term of a node.
    """
    schema, scope = node.schema, node.scope
    algebra = scope.document.algebra
    if "dependentRequired" in schema or "dependentSchemas" in schema or "dependencies" in schema:
        for name, names, term in dependencies_of(node):
            shape = algebra.pruned(algebra.and_shapes(shape, _dependency(algebra, name, names, term)))
    if "anyOf" in schema:
        terms = terms_of(node, "anyOf")
        if all(term is not TRUE for term in terms):
            around = _around(algebra, shape, terms)
            found = algebra.union([restrict(node, around, term) for term in terms])
            shape = found if around is shape else algebra.and_shapes(shape, found)
    if "oneOf" in schema:
        terms = terms_of(node, "oneOf")
        around = _around(algebra, shape, terms)
        found = _one_of(algebra, around, terms, [restrict(node, around, term) for term in terms])
        shape = found if around is shape else algebra.and_shapes(shape, found)
    if "not" in schema:
        term = scope.child(schema["not"])
        shape = algebra.and_shapes(shape, algebra.not_shape(_narrowed(algebra, shape, term.shape())))
    if "if" in schema and scope.dialect in ("draft-07", "2019-09", "2020-12"):
        shape = _conditional(node, algebra, shape, restrict)
    return shape


def _around(algebra: Algebra, shape: Shape, terms: list[Term]) -> Shape:
    """The shape within which alternatives are read: all that is known, unless its alternatives would be multiplied."""
    count = len(shape.objects)
    if count < 2 or count * len(terms) <= algebra.most_cells:
        return shape
    return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, shape.arrays, (ANY_OBJECT,))


def _narrowed(algebra: Algebra, outer: Shape, inner: Shape) -> Shape:
    """``inner`` without the types that ``outer`` lacks, so that what is negated or multiplied stays small."""
    return Shape(
        inner.null and outer.null,
        inner.booleans & outer.booleans,
        inner.numbers if outer.numbers is not Numbers.NONE else Numbers.NONE,
        inner.strings if outer.strings is not Strings.NONE else Strings.NONE,
        inner.arrays if outer.arrays else (),
        inner.objects if outer.objects else (),
    )


def _one_of(algebra: Algebra, outer: Shape, terms: list[Term], shapes: list[Shape]) -> Shape:
    """Exactly one of the branches (each a term, and its shape within ``outer``).

    Of arrays and objects, each branch without the others that it overlaps; the two are compared separately.
    """
    some = several = 0
    for shape in shapes:
        several |= some & shape.booleans
        some |= shape.booleans
    arrays = [_only_arrays(shape) for shape in shapes]
    objects = [_only_objects(shape) for shape in shapes]
    return Shape(
        sum([shape.null for shape in shapes]) == 1,
        some & ~several,
        one_number([shape.numbers for shape in shapes]),
        one_string([shape.strings for shape in shapes]),
        _exact(algebra, _only_arrays(outer), terms, arrays, _overlaps(algebra, terms, arrays)).arrays,
        _one_of_objects(algebra, _only_objects(outer), terms, objects),
    )


def _one_of_objects(algebra: Algebra, outer: Shape, terms: list[Term], shapes: list[Shape]) -> tuple[ObjectCell, ...]:
    overlaps = _overlaps(algebra, terms, shapes)
    try:
        with algebra.trying():
            return _exact(algebra, outer, terms, shapes, overlaps).objects
    except TooMany:  # alternatives are distinguished while reading
        formulas = [any_of(map(formula_of, shape.objects)) if shape.objects else IMPOSSIBLE for shape in shapes]
        return vote(algebra, any_of([one_of([formulas[i] for i in group]) for group in _groups(overlaps)]))


def _overlaps(algebra: Algebra, terms: list[Term], shapes: list[Shape]) -> list[list[int]]:
    """For each branch, the others that may share an array or object with it."""
    overlaps: list[list[int]] = [[] for _ in shapes]
    some = [i for i, shape in enumerate(shapes) if shape.arrays or shape.objects]
    texts = None if any(shapes[i].arrays for i in some) else tags([shapes[i].objects for i in some])
    tagged: dict[str, list[int]] = {}
    for at, i in enumerate(some):
        near = some[:at] if texts is None else sorted({j for text in texts[at] for j in tagged.get(text, ())})
        spend(2 * len(near))
        for j in near:
            if terms[i] is terms[j] or not _disjoint(algebra, shapes[i], shapes[j]):
                overlaps[i].append(j)
                overlaps[j].append(i)
        for text in () if texts is None else texts[at]:
            tagged.setdefault(text, []).append(i)
    return overlaps


def _only_objects(shape: Shape) -> Shape:
    return Shape(False, 0, NOTHING.numbers, NOTHING.strings, (), shape.objects)


def _no_objects(shape: Shape) -> Shape:
    return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, shape.arrays, ())


def _only_arrays(shape: Shape) -> Shape:
    return Shape(False, 0, NOTHING.numbers, NOTHING.strings, shape.arrays, ())


def _groups(overlaps: list[list[int]]) -> Iterator[list[int]]:
    """Branches that overlap, directly or through others."""
    seen: set[int] = set()
    for start in range(len(overlaps)):
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for i in group:
            group += [j for j in overlaps[i] if j not in seen]
            seen.update(overlaps[i])
        yield sorted(group)


def _exact(algebra: Algebra, outer: Shape, terms: list[Term], shapes: list[Shape], overlaps: list[list[int]]) -> Shape:
    if not any(overlaps):
        return algebra.union(shapes)
    most = max(algebra.most_cells, sum(len(shape.objects) for shape in shapes))
    negations: dict[int, Shape] = {}
    exact: list[Shape] = []
    cells = 0
    for i, shape in enumerate(shapes):
        for j in overlaps[i]:
            if terms[i] is terms[j]:
                shape = NOTHING
                break
            if j not in negations:
                negations[j] = algebra.not_shape(_narrowed(algebra, outer, terms[j].shape()))
            shape = algebra.pruned(algebra.and_shapes(shape, negations[j]))
        exact.append(shape)
        cells += len(shape.objects)
        if algebra.eager and cells > most:
            raise TooMany
    return algebra.union(exact)


def _disjoint(algebra: Algebra, a: Shape, b: Shape) -> bool:
    """Whether two shapes certainly have no value in common."""
    if plainly_disjoint(a, b):
        return True
    try:
        with algebra.trying():
            size = len(a.objects) * len(b.objects)
            if 1 < size <= algebra.most_cells and all(type(cell) is ObjectCell for cell in (*a.objects, *b.objects)):
                if any(_meet(algebra, x, y) for x in a.objects for y in b.objects):
                    return False
                a, b = _no_objects(a), _no_objects(b)
            return is_empty_shape(algebra, algebra.and_shapes(a, b)) and algebra.exact
    except TooMany:
        return False
    except LimitError as error:
        if out_of_work(error):
            raise
        return False


def _meet(algebra: Algebra, x: ObjectCell, y: ObjectCell) -> bool:
    """Whether some object may be in both cells."""
    return any(not is_empty_object(algebra, both) for both in algebra.and_objects((x,), (y,)))


def _conditional(node: Node, algebra: Algebra, shape: Shape, restrict: Restrict) -> Shape:
    schema, child = node.schema, node.scope.child
    yes = child(schema["then"]) if "then" in schema else TRUE
    no = child(schema["else"]) if "else" in schema else TRUE
    if yes is no:
        return restrict(node, shape, yes)
    test = child(schema["if"])
    if test is TRUE:
        return restrict(node, shape, yes)
    if test is FALSE:
        return restrict(node, shape, no)
    condition = _narrowed(algebra, shape, test.shape())
    unless = algebra.not_shape(condition)

    def split(outer: Shape) -> Shape:
        passed = algebra.pruned(algebra.and_shapes(outer, condition))
        failed = algebra.pruned(algebra.and_shapes(outer, unless))
        return algebra.union((algebra.pruned(restrict(node, passed, yes)), algebra.pruned(restrict(node, failed, no))))

    count = len(shape.objects)
    if not any(isinstance(cell, Vote) for cell in shape.objects):
        found = split(shape)
        most = max(algebra.most_cells, count + len(condition.objects) + len(unless.objects))
        if count <= 1 or len(found.objects) <= most:
            return found
    # Keep the condition next to the alternatives: inside both outcomes they would appear twice.
    anything = Shape(shape.null, shape.booleans, shape.numbers, shape.strings, shape.arrays, (ANY_OBJECT,))
    return algebra.and_shapes(shape, split(anything))


def dependencies_of(node: Node) -> list[tuple[str, list[str], Term]]:
    """``(name, names it requires, schema it requires)`` for all kinds of dependencies."""
    schema, scope = node.schema, node.scope
    found: list[tuple[str, list[str], Term]] = []

    def bad(keyword: str, expected: str) -> SchemaError:
        return SchemaError(f"{keyword} must be {expected}", pointer=f"{scope.document.where()}/{keyword}")

    modern = scope.dialect in ("2019-09", "2020-12")
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        if keyword not in schema or (keyword != "dependencies" and not modern):
            continue
        entries: Any = schema[keyword]
        if type(entries) is not dict:
            raise bad(keyword, "an object")
        for name, needs in entries.items():
            if keyword == "dependentRequired" or (keyword == "dependencies" and type(needs) is not dict):
                if type(needs) is bool and keyword == "dependencies":
                    found.append((name, [], scope.child(needs)))
                    continue
                if type(needs) is str and keyword == "dependencies":
                    needs = [needs]  # of draft 3, and still written
                if type(needs) is not list or not all(type(n) is str for n in needs):
                    raise bad(keyword, "an object of lists of names")
                found.append((name, needs, TRUE))
            else:
                found.append((name, [], scope.child(needs)))
    return found


def _dependency(algebra: Algebra, name: str, names: list[str], term: Term) -> Shape:
    anything = TRUE.shape()
    if term is TRUE and all(n == name for n in names):
        return anything
    absent = ObjectCell({name: FALSE}, TRUE)
    # no need to require the name: if it is missing, both hold, which does no harm
    needed = [n for n in names if n != name]
    cells: tuple[ObjectCell, ...] = (ObjectCell(dict.fromkeys(needed, TRUE), TRUE, frozenset(needed)),)
    if term is not TRUE:
        cells = algebra.and_objects(cells, term.shape().objects)
    return Shape(True, 3, anything.numbers, anything.strings, anything.arrays, (absent, *cells))
