"""Decides whether any value is left: emptiness of terms, shapes and cells.

Satisfiability is a least fixed point: a schema that only an infinite value would satisfy has none. A term that recurs
while it is being decided counts as empty; an answer "empty" that depends on this is forgotten if the term turns out to
have a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from guiderail.errors import LimitError
from guiderail.frontends.json_schema.errors import Undecided
from guiderail.frontends.json_schema.normal_form.array_votes import ArrayVote, Tally
from guiderail.frontends.json_schema.normal_form.disjoint import told_apart
from guiderail.frontends.json_schema.normal_form.listing import Listing, can_differ
from guiderail.frontends.json_schema.normal_form.shape import (
    ANY_ARRAY,
    ANY_OBJECT,
    FALSE,
    TRUE,
    ArrayCell,
    ObjectCell,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.normal_form.votes import Mix, Vote
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.texts import has_surrogate
from guiderail.support.work import out_of_work, spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra
    from guiderail.frontends.json_schema.normal_form.votes import Formula

__all__ = ["Emptiness", "is_empty_shape", "prune"]


class Emptiness:
    """Decides terms, and caches what is certain. A subclass may know reasons why values cannot be written.

    Attributes:
        most_items: maximum number of items of an array, or None.
        plain_keys: the keys, other than named ones, that can be written.
        exact: whether members that obligations ask for are decided however long it takes. Otherwise some objects count
            as possible; the core finds out when it has their members.
    """

    most_items: int | None = None
    exact = False

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.plain_keys = Strings.ALL
        self.listing = Listing(algebra)
        self.answers: dict[Term, bool] = {TRUE: False, FALSE: True}
        # Terms assumed to be empty, each with the depth of the outermost open term that this depends on; an open term
        # depends on itself.
        self._assumed: dict[Term, int] = {}
        self._lowest = _NO_ASSUMPTION  # the least of these depths that the open term depends on
        self._depth = 0  # how many terms are open
        self._deepest: int | None = None
        self._steps = 0
        self._votes = 0

    def certainly(self, is_empty: Callable[[], bool]) -> bool:
        """Whether a question is answered with yes, without leading more than a few terms deep.

        A question that is open outside is asked anew: what it assumes may turn out wrong, whereas a shape made from
        the answers here stays.
        """
        before = self._assumed, self._lowest, self._depth, self._deepest
        if self._deepest is None:
            self._deepest, self._votes = _SHALLOW, 0
        else:
            self._deepest -= self._depth
        self._assumed, self._lowest, self._depth = {}, _NO_ASSUMPTION, 0
        try:
            return is_empty()
        except Undecided:
            return False
        except LimitError as error:
            if out_of_work(error):
                raise
            return False
        finally:
            self._assumed, self._lowest, self._depth, self._deepest = before

    def numbers(self, numbers: Numbers) -> bool:
        """Whether there is no number."""
        return numbers.is_empty()

    def strings(self, strings: Strings) -> bool:
        """Whether there is no string."""
        return strings.is_empty()

    def keys(self, keys: Strings) -> bool:
        """Whether no key is among these strings."""
        return keys.is_empty()

    def excludes(self, name: str) -> bool:
        """Whether a string cannot be a key."""
        return False

    def term(self, term: Term) -> bool:
        """Whether no value satisfies a term."""
        known = self.answers.get(term)
        if known is not None:
            return known
        assumed = self._assumed.get(term)
        if assumed is not None:
            self._lowest = min(self._lowest, assumed)
            return True
        depth, mark = self._depth, len(self._assumed)
        if self._deepest is not None and depth >= self._deepest:
            raise Undecided
        spend(1)
        self._assumed[term] = depth
        self._depth += 1
        outer, self._lowest = self._lowest, _NO_ASSUMPTION
        empty = decided = False
        try:
            empty = self.shape(term.shape())
            decided = True
        finally:
            self._depth -= 1
            if empty and self._lowest < depth:
                self._assumed[term] = self._lowest
                self._lowest = min(outer, self._lowest)
            else:  # all that was assumed since then is certain if this is empty, and open again if it is not
                while len(self._assumed) > mark:
                    other, _ = self._assumed.popitem()
                    if empty:
                        self.answers[other] = True
                if decided and not empty:
                    self.answers[term] = False
                self._lowest = outer
        return empty

    def shape(self, shape: Shape) -> bool:
        """Whether no value has a shape."""
        if shape.null or shape.booleans:
            return False
        if not (shape.numbers is Numbers.NONE or self.numbers(shape.numbers)):
            return False
        if not (shape.strings is Strings.NONE or self.strings(shape.strings)):
            return False
        return all(self.array(cell) for cell in shape.arrays) and all(self.object(cell) for cell in shape.objects)

    def array(self, cell: ArrayCell) -> bool:
        if cell is ANY_ARRAY:
            return False
        if isinstance(cell, ArrayVote):
            return self._tally(cell.formula)
        spend(50 + 20 * len(cell.contains) * (1 + len(cell.prefix)))
        need = max(cell.min, 2 if cell.repeated else 0)
        for c in cell.contains:
            if c.min:
                need = max(need, c.start + c.min)
        high = cell.max
        if self.most_items is not None:
            high = self.most_items if high is None else min(high, self.most_items)
        if high is not None and need > high:
            return True
        for i in range(min(need, len(cell.prefix))):
            if self.term(cell.prefix[i]):
                return True
        if need > len(cell.prefix) and self.term(cell.rest):
            return True
        for c in cell.contains:
            if not c.min:
                continue
            places = 0
            for i in range(c.start, len(cell.prefix)):
                if not self.term(self.algebra.both(cell.prefix[i], c.term)):
                    places += 1
            if places >= c.min:
                continue
            others = self.algebra.both(cell.rest, c.term)
            if not (high is None or high > len(cell.prefix)) or self.term(others):
                return True
            if cell.unique and (few := self.count(others)) is not None and places + few < c.min:
                return True
        if cell.repeated and not self._twice(cell):
            return True
        if cell.unique and need > 1:
            for c in cell.contains:
                if c.min > 1 and (few := self.count(c.term)) is not None and few < c.min:
                    return True
            if self._too_few([cell.item(i) for i in range(min(need, len(cell.prefix)))], cell.rest, need):
                return True
        # what counters ask for on their own can be had; together they may still exclude each other
        alone = len(cell.contains) == 1 and cell.contains[0].max is None and high is None
        return bool(cell.contains) and not alone and self._tally(cell, _MOST_COUNTED)

    def _tally(self, formula: Mix | ArrayCell, most: int | None = None) -> bool:
        """Whether no array is left, decided by reading items; False if that may take more than so many items.

        The tally is not kept: what it takes for empty may be an assumption.
        """
        tally = Tally(self, formula)
        if self.most_items is not None and self.most_items < tally.most_steps():
            tally = Tally(self, Mix("all", (formula, ArrayCell((), TRUE, 0, self.most_items))))
        return tally.is_empty(most)

    def _too_few(self, first: list[Term], rest: Term, need: int) -> bool:
        """Whether distinct values for items run out: some of the items share fewer values (Hall's theorem)."""
        places = Counter(first)
        places[rest] += need - len(first)
        groups = []
        for term, count in places.items():
            most = self.count(term) if count else None
            if most is not None and most < count:
                return True
            if most is not None and most < need and (values := self.listing.values(term)) is not None:
                groups.append((count, values))  # with as many values as items, some value is always left
        return not can_differ(groups)

    def _twice(self, cell: ArrayCell) -> bool:
        """Whether some value may occur at two positions."""
        places = len(cell.prefix) + 2 if cell.max is None else min(cell.max, len(cell.prefix) + 2)
        for j in range(places):
            item = cell.item(j)
            if self.term(item):
                return False
            if any(not self.term(self.algebra.both(cell.item(i), item)) for i in range(j)):
                return True
        return False

    def count(self, term: Term) -> int | None:
        """An upper bound on the number of values, if it is easy to know; otherwise None."""
        return self.listing.bound(term)

    def object(self, cell: ObjectCell) -> bool:
        if cell is ANY_OBJECT or cell.inhabited:
            return False
        empty = self._object(cell)
        cell.inhabited = not empty
        return empty

    def _object(self, cell: ObjectCell) -> bool:
        if isinstance(cell, Vote):
            return not self._some(ANY_OBJECT, [(cell.formula, True)], [], _Search())
        spend(20)
        required = cell.required
        if cell.max is not None and max(cell.min, len(required)) > cell.max:
            return True
        for name in sorted(required):
            if self.excludes(name) or self.term(cell.named[name]):
                return True
        if cell.min <= len(required) and not cell.obligations:
            return False
        regions = self.algebra.regions(cell)
        if self.exact:
            others = self.plain_keys & ~Strings.texts([name for name in cell.named if not has_surrogate(name)])
            regions = [(keys & others, term) for keys, term in regions]
        if cell.min > len(required):
            optional = [(name, term) for name, term in cell.named.items() if name not in required]
            free = sum(not (self.excludes(name) or self.term(term)) for name, term in optional)
            missing = cell.min - len(required) - free
            for keys, term in regions:
                if missing <= 0:
                    break
                if self._is_member(keys, term):
                    texts = keys.finite_texts()
                    if texts is None:
                        count = keys.count(missing)
                    else:
                        count = sum(not self.excludes(text) for text in texts.difference(cell.named))
                    missing -= count
            if missing > 0:
                return True
        self._steps = 0
        return not self._discharge(_Due(cell, regions), 0, {}, ())

    def _some(
        self,
        cell: ObjectCell,
        goals: list[tuple[Formula, bool]],
        choices: list[tuple[Formula, bool]],
        search: _Search,
    ) -> bool:
        """Whether some object is in a cell and meets all goals. The first one found ends the search.

        Args:
            cell: not a vote, and not empty.
            goals: formulas, each with whether it must hold.
            choices: goals that can be met in several ways, considered when there are no others left.
            search: what it has learned so far.
        """
        algebra = self.algebra
        fails: list[ObjectCell] = []
        grown = False
        while goals:
            formula, wanted = goals.pop()
            if isinstance(formula, ObjectCell):
                if not wanted:
                    fails.append(formula)
                    continue
                both = algebra._and_object(cell, formula)
                if both is None:
                    return False
                cell, grown = both, True
            elif formula.op == "not":
                goals.append((formula.parts[0], not wanted))
            elif len(formula.parts) == 1 or (formula.op != "one" and (formula.op == "all") == wanted):
                goals += [(part, wanted) for part in formula.parts[::-1]]
            else:
                choices.append((formula, wanted))
        if grown and self.object(cell):
            return False
        self._votes += 1
        spend(100)
        if self._deepest is not None and self._votes > _MOST_STEPS:
            raise Undecided
        if not choices and not fails:
            return True
        blame = search.blame
        key = cell.key(), frozenset(choices), frozenset(fails)
        if key in search.dead:
            return False
        while choices or fails:
            # Choices first: the cells that they add tell most of those apart that must not hold.
            spend(len(choices) or len(fails))
            if choices:
                choice = max(choices, key=lambda choice: blame.get(choice[0], 0))
                choices.remove(choice)
                formula, wanted = choice
            else:
                formula, wanted = max(fails, key=lambda fail: blame.get(fail, 0)), False
                fails.remove(formula)
            if self._is_met(cell, formula, wanted):
                continue
            before = self._votes
            others: list[tuple[Formula, bool]] = [(other, False) for other in fails]
            for way in _ways(self.algebra, formula, wanted):
                if self._some(cell, others + way, list(choices), search):
                    return True
            if self._votes == before:  # no way was possible
                blame[formula] = blame.get(formula, 0) + 1
            search.dead.add(key)
            return False
        return True

    def _is_met(self, cell: ObjectCell, formula: Formula, wanted: bool) -> bool:
        """Whether all objects of a cell plainly meet a goal."""
        if isinstance(formula, ObjectCell):
            return not wanted and told_apart(cell, formula)
        parts = [part for part in formula.parts if isinstance(part, ObjectCell)]
        if formula.op == "any" and wanted:
            return any(self.algebra._and_object(cell, part) is cell for part in parts)
        return formula.op == "all" and not wanted and any(told_apart(cell, part) for part in parts)

    def _discharge(
        self, due: _Due, index: int, chosen: dict[str, Term], fresh: tuple[tuple[Strings, Term], ...]
    ) -> bool:
        """Whether the obligations from an index on can all be met, given what is already required of members.

        Args:
            due: the object.
            index: the first open obligation.
            chosen: named members with all that they must satisfy.
            fresh: other members, by the keys and values that they may have.
        """
        cell = due.cell
        if index == len(cell.obligations):
            extra = sum(name not in cell.required for name in chosen)
            return cell.max is None or len(cell.required) + extra + len(fresh) <= cell.max
        self._steps += 1
        spend(30 + 2 * len(cell.obligations[index].ways))
        if self._steps > _MOST_STEPS and not (self.exact and self._deepest is None):  # not certainly empty
            return True
        both = self.algebra.both
        if cell.max is None and self._is_free(due, index):
            return self._discharge(due, index + 1, chosen, fresh)
        for wanted, value, names in self._ways(due, index):
            for name in names:
                asked = both(chosen.get(name, cell.named[name]), value)
                if not self.term(asked) and self._discharge(due, index + 1, {**chosen, name: asked}, fresh):
                    return True
            if cell.max is not None:  # a member may meet several obligations
                for i, (keys, term) in enumerate(fresh):
                    member = keys & wanted, both(term, value)
                    if self._is_member(*member):
                        merged = (*fresh[:i], member, *fresh[i + 1 :])
                        if self._discharge(due, index + 1, chosen, merged):
                            return True
                for keys, term in due.regions:
                    member = keys & wanted, both(term, value)
                    if self._is_member(*member) and self._discharge(due, index + 1, chosen, (*fresh, member)):
                        return True
        return False

    def _is_free(self, due: _Due, index: int) -> bool:
        """Whether one more member meets an obligation. If it costs nothing, no other choice is better."""
        known = due.free.get(index)
        if known is None:
            both = self.algebra.both
            known = due.free[index] = any(
                self._is_member(keys & wanted, both(term, value))
                for wanted, value in due.cell.obligations[index].ways
                for keys, term in due.regions
            )
        return known

    def _ways(self, due: _Due, index: int) -> list[tuple[Strings, Term, list[str]]]:
        """The ways to meet an obligation, each with the named members that may do so."""
        known = due.ways.get(index)
        if known is None:
            known = due.ways[index] = []
            named = due.cell.named
            for wanted, value in due.cell.obligations[index].ways:
                texts = wanted.finite_texts()
                names = (
                    [name for name in named if wanted.contains(name)]
                    if texts is None
                    else sorted(texts.intersection(named))
                )
                known.append((wanted, value, [name for name in names if not self.excludes(name)]))
        return known

    def _is_member(self, keys: Strings, term: Term) -> bool:
        return not self.keys(keys) and not self.term(term)


class _Search:
    """A search for an object that meets all goals.

    Attributes:
        blame: by goal, how often no way to meet it was possible. Those most to blame are tried first.
        dead: cells with goals that they cannot meet.
    """

    __slots__ = ("blame", "dead")

    def __init__(self) -> None:
        self.blame: dict[Formula, int] = {}
        self.dead: set[tuple[object, ...]] = set()


class _Due:
    """An object with obligations while a way to meet them is searched for; what is known of each, by its index."""

    __slots__ = ("cell", "free", "regions", "ways")

    def __init__(self, cell: ObjectCell, regions: list[tuple[Strings, Term]]) -> None:
        self.cell = cell
        self.regions = regions  # its other keys, and their values
        self.free: dict[int, bool] = {}
        self.ways: dict[int, list[tuple[Strings, Term, list[str]]]] = {}


_NO_ASSUMPTION: Final = 1 << 60
_SHALLOW: Final = 6  # terms
_MOST_STEPS: Final = 500  # choices tried for the obligations of one object
_MOST_COUNTED: Final = 4_096  # items


def _ways(algebra: Algebra, formula: Formula, wanted: bool) -> Iterator[list[tuple[Formula, bool]]]:
    """The ways to make a formula hold, or fail, if there are several."""
    if isinstance(formula, ObjectCell):
        for piece in algebra._not_object(formula):
            yield [(piece, True)]
        return
    parts = formula.parts
    if formula.op != "one":
        for part in parts:
            yield [(part, wanted)]
    elif wanted:
        for i in range(len(parts)):
            yield [(part, i == j) for j, part in enumerate(parts)]
    else:
        yield [(part, False) for part in parts]
        for i in range(len(parts)):
            for j in range(i):
                yield [(parts[i], True), (parts[j], True)]


def is_empty_shape(algebra: Algebra, shape: Shape) -> bool:
    """Whether a shape is certainly empty; usable while shapes are still being made.

    If the schema's own shape is under evaluation, the answer is False.
    """
    return algebra.emptiness.certainly(lambda: algebra.emptiness.shape(shape))


def is_empty_object(algebra: Algebra, cell: ObjectCell) -> bool:
    """Whether a cell is certainly empty; like `is_empty_shape`."""
    return algebra.emptiness.certainly(lambda: algebra.emptiness.object(cell))


def is_empty_array(algebra: Algebra, cell: ArrayCell) -> bool:
    """Whether a cell is certainly empty; like `is_empty_shape`."""
    return algebra.emptiness.certainly(lambda: algebra.emptiness.array(cell))


def prune(algebra: Algebra, shape: Shape) -> Shape:
    """A shape without the cells that are certainly empty."""
    arrays = tuple([cell for cell in shape.arrays if not is_empty_array(algebra, cell)])
    objects = tuple([cell for cell in shape.objects if not is_empty_object(algebra, cell)])
    return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, arrays, objects)
