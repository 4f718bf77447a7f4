"""The values of terms that have few: a list of distinct values must not run out of them.

Values are listed in Python, numbers as fractions. Of an array or an object, all combinations of its items or members
are tried; the cell itself says which of them it accepts. None means "many, or unknown". Listing takes no term for
empty that is still being decided, so what is listed stays true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from guiderail.frontends.json_schema.normal_form.abundance import MOST_LISTED, PLENTY, many_texts
from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, ArrayCell, ObjectCell, Shape, Term, identity
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

__all__ = ["Listing", "can_differ"]

_LONGEST: Final = 100  # items of a listed array
_DEPTH: Final = 6  # of arrays and objects
_MOST_LOOKS: Final = 1_000_000  # at values, while groups share them out
_COMBINATION: Final = 20  # steps for one more item or member

Values = dict[object, Any]
"""By identity."""


class Listing:
    """The values of the terms of one document."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._listed: dict[tuple[Term, int], Values | None] = {}
        self._bounds: dict[tuple[Term, int], int | None] = {}

    def values(self, term: Term, depth: int = _DEPTH) -> Values | None:
        """The values, if they are few enough to list.

        Args:
            term: the term whose values to list.
            depth: how deep to look into arrays and objects.
        """
        if term is TRUE:
            return None
        key = term, depth
        if key not in self._listed:
            self._listed[key] = self._values(term.shape(), depth)
        return self._listed[key]

    def _values(self, shape: Shape, depth: int) -> Values | None:
        if depth == 0 and (shape.arrays or shape.objects):
            return None
        found: list[Any] = [None] if shape.null else []
        found += [value for bit, value in ((1, False), (2, True)) if shape.booleans & bit]
        for part in self._parts(shape, depth):
            if part is None:
                return None
            found += part
        if len(found) > MOST_LISTED:
            return None
        spend(2 * len(found))
        return {identity(value): value for value in found}

    def _parts(self, shape: Shape, depth: int) -> Iterator[Iterable[Any] | None]:
        if shape.numbers is not Numbers.NONE:
            yield shape.numbers.listed(MOST_LISTED)
        if shape.strings is not Strings.NONE:
            yield None if many_texts(shape.strings, MOST_LISTED) else shape.strings.listed(MOST_LISTED)
        for array in shape.arrays:
            yield self._array(array, depth)
        for cell in shape.objects:
            yield self._object(cell, depth)

    def _array(self, cell: ArrayCell, depth: int) -> list[list[Any]] | None:
        found: list[list[Any]] = []
        begun: list[list[Any]] = [[]]
        at = 0
        while begun:
            if at >= cell.min:
                found += [items for items in begun if cell.accepts(items)]
            if cell.max is not None and at >= cell.max:
                break
            values = self.values(cell.item(at), depth - 1)
            if values is None or (values and at >= _LONGEST):
                return None
            spend(_COMBINATION * len(begun) * len(values))
            if len(begun) * len(values) + len(found) > MOST_LISTED:
                return None
            begun = [[*items, value] for items in begun for value in values.values()]
            if cell.unique:
                begun = [items for items in begun if len({identity(item) for item in items}) == len(items)]
            at += 1
        return found

    def _object(self, cell: ObjectCell, depth: int) -> list[dict[str, Any]] | None:
        begun: list[dict[str, Any]] = [{}]
        for name, values in self._members(cell, depth):
            if values is None:
                return None
            spend(_COMBINATION * len(begun) * (1 + len(values)))
            if len(begun) * (1 + len(values)) > MOST_LISTED:
                return None
            more = [{**members, name: value} for members in begun for value in values.values()]
            begun = more if name in cell.required else begun + more
            if cell.max is not None:
                begun = [members for members in begun if len(members) <= cell.max]
        return [members for members in begun if cell.accepts(members)]

    def _members(self, cell: ObjectCell, depth: int) -> Iterator[tuple[str, Values | None]]:
        """The names that may come, each with its values."""
        for name in sorted(cell.required):
            yield name, self.values(cell.named[name], depth - 1)
        if cell.max is not None and cell.max <= len(cell.required):
            return
        for name, term in cell.named.items():
            if name not in cell.required:
                yield name, self.values(term, depth - 1)
        for keys, term in self.algebra.regions(cell) if cell.rules else [(Strings.ALL, cell.rest)]:
            values = self.values(term, depth - 1)
            if values is None or values:
                names = keys.listed(MOST_LISTED)
                if names is None:
                    yield "", None
                    return
                for name in sorted(names.difference(cell.named)):
                    yield name, values

    def bound(self, term: Term, depth: int = _DEPTH) -> int | None:
        """An upper bound on the number of values, if it is easy to know; otherwise None.

        Args:
            term: the term whose values to count.
            depth: how deep to look into arrays and objects.
        """
        key = term, depth
        if key not in self._bounds:
            values = self.values(term, depth)
            self._bounds[key] = self._bound(term.shape(), depth) if values is None else len(values)
        return self._bounds[key]

    def _bound(self, shape: Shape, depth: int) -> int | None:
        if depth == 0 and (shape.arrays or shape.objects):
            return None
        numbers = shape.numbers.count() if shape.numbers is not Numbers.NONE else 0
        texts = self._texts(shape.strings) if shape.strings is not Strings.NONE else 0
        if numbers is None or texts is None:
            return None
        total = numbers + texts + shape.null + (shape.booleans & 1) + (shape.booleans >> 1)
        for array in shape.arrays:
            if array.rest is not FALSE or array.min != len(array.prefix):
                return None
            number = self._product(array.prefix, depth)
            if number is None:
                return None
            total += number
        for cell in shape.objects:
            there = [term for term in cell.named.values() if term is not FALSE]
            if cell.rest is not FALSE or cell.rules or len(there) != len(cell.required):
                return None
            number = self._product(there, depth)
            if number is None:
                return None
            total += number
        return total

    def _texts(self, strings: Strings) -> int | None:
        texts = strings.finite_texts()
        if texts is not None:
            return len(texts)
        return None if many_texts(strings) else strings.number(PLENTY)

    def _product(self, terms: Iterable[Term], depth: int) -> int | None:
        product = 1
        for term in terms:
            spend(1)
            number = self.bound(term, depth - 1)
            if number is None:
                return None
            product *= number
        return product


def can_differ(groups: Sequence[tuple[int, Values]]) -> bool:
    """Whether each group can have so many of its values that no two groups share one; True, too, if that takes long.

    This is a matching, found by augmenting paths: a value moves to another group from one that finds a value in return.
    """
    owner: dict[object, int] = {}
    looks = 0
    for start in sorted(range(len(groups)), key=lambda i: len(groups[i][1])):
        for _ in range(groups[start][0]):
            if looks > _MOST_LOOKS:
                return True
            came: dict[int, tuple[int, object] | None] = {start: None}
            waiting = deque([start])
            while waiting:
                at = waiting.popleft()
                values = groups[at][1]
                looks += len(values)
                spend(1 + len(values) // 2)
                free = [value for value in values if value not in owner]
                if free:
                    break
                for value in values:
                    if owner[value] not in came:
                        came[owner[value]] = at, value
                        waiting.append(owner[value])
            else:
                return False
            step: tuple[int, object] | None = (at, free[0])
            while step is not None:
                at, value = step
                step = came[at]
                owner[value] = at
    return True
