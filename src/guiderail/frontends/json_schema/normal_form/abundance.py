"""Whether a schema has more values than a list takes.

A list of distinct values must not run out of them. If there are more values than the list may have items, or more than
anyone will ever list, nothing needs to be decided while it is written. The answer False means "unknown".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guiderail.frontends.json_schema.normal_form.shape import FALSE, ArrayCell, ObjectCell, Term
from guiderail.frontends.json_schema.values.formats import FormatTexts
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.frontends.regex import Regex
from guiderail.frontends.regex.counting import HUGE, INFINITE, count_strings, count_texts, unanchored
from guiderail.frontends.regex.syntax import Alt, Cat, Rep
from guiderail.support.texts import has_surrogate
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.satisfiable import Emptiness
    from guiderail.frontends.json_schema.values.numbers import Numbers

__all__ = ["ENDLESS", "MOST_LISTED", "PLENTY", "Abundance", "is_dense", "many_texts"]

PLENTY: Final = 1 << 20
"""More items than this are not written: their text alone would have millions of tokens."""
ENDLESS: Final = HUGE
"""Only what is infinite is more than this."""
MOST_LISTED: Final = 1_000
"""Values of a term that are listed at most."""
_FORMATS: Final = frozenset(
    (
        "date-time",
        "email",
        "hostname",
        "idn-email",
        "idn-hostname",
        "ipv6",
        "iri",
        "iri-reference",
        "json-pointer",
        "regex",
        "relative-json-pointer",
        "time",
        "uri",
        "uri-reference",
        "uri-template",
        "uuid",
    )
)


class Abundance:
    """Answers for the terms of one document. A subclass may know values that cannot be written.

    Attributes:
        emptiness: decides which terms have a value.
        most_items: maximum number of items of an array, or None.
        known: the answers, by term and level.
    """

    most_items: int | None = None

    def __init__(self, emptiness: Emptiness) -> None:
        self.emptiness = emptiness
        self.known: dict[tuple[Term, int, int], bool] = {}

    def term(self, term: Term, level: int = 0, than: int = PLENTY) -> bool:
        """Whether there are certainly more values than some number.

        Args:
            term: what the values satisfy.
            level: the number of enclosing arrays and objects; it matters only to subclasses.
            than: the number, at most `PLENTY`, or `ENDLESS`.
        """
        key = term, level, than
        known = self.known.get(key)
        if known is None:
            spend(1)
            self.known[key] = False  # recursive: the answer is not known yet
            shape = term.shape()
            known = self.known[key] = (
                self.numbers(shape.numbers) > than
                or many_texts(self.strings(shape.strings), than)
                or any(self._array(cell, level, than) for cell in shape.arrays)
                or any(self._object(cell, level, than) for cell in shape.objects)
                or (than < MOST_LISTED and self.few(term) > than)
            )
        return known

    def numbers(self, numbers: Numbers) -> int:
        """The number of numbers, or a lower bound."""
        count = numbers.count()
        return INFINITE if count is None else min(count, HUGE)

    def strings(self, strings: Strings) -> Strings:
        """The strings that count."""
        return strings

    def few(self, term: Term) -> int:
        """The number of values, if they are few enough to list; a lower bound otherwise."""
        values = self.emptiness.listing.values(term)
        return 0 if values is None else sum(not _unwritable(value) for value in values.values())

    def below(self, level: int) -> int | None:
        """The level of what is inside a value; None if no array or object can be written at this level."""
        return level

    def some(self, term: Term, level: int) -> bool:
        """Whether there is any value."""
        return not self.emptiness.term(term)

    def _array(self, cell: ArrayCell, level: int, than: int) -> bool:
        inner = self.below(level)
        if inner is None or type(cell) is not ArrayCell or cell.repeated or self.emptiness.array(cell):
            return False
        if cell.contains:
            return self._longer(cell, inner)
        high, different = cell.max, len(cell.prefix) + 1
        if self.most_items is not None:
            high = self.most_items if high is None else min(high, self.most_items)
        if cell.unique:  # this many items with that many values more than there are items can be chosen distinct
            need = max(cell.min, 1)
            if need >= PLENTY or (high is not None and high < need):
                return False
            more = max(than, min(than + need, PLENTY))
            return all(self.term(cell.item(i), inner, more) for i in range(min(need, different)))
        if not all(self.some(cell.item(i), inner) for i in range(min(cell.min, different))):
            return False
        for i in range(different if high is None else min(high, different)):
            if not self.some(cell.item(i), inner):  # the list ends before it
                return False
            if self.term(cell.item(i), inner, than):
                return True
        return high is None

    def _longer(self, cell: ArrayCell, inner: int) -> bool:
        """Whether a list may go on without end with items that match all that it must contain."""
        if cell.unique or cell.max is not None or self.most_items is not None:
            return False
        if any([c.max is not None for c in cell.contains]) or not all([self.some(one, inner) for one in cell.prefix]):
            return False
        return self.some(self.emptiness.algebra.and_terms([cell.rest, *[c.term for c in cell.contains]]), inner)

    def _object(self, cell: ObjectCell, level: int, than: int) -> bool:
        inner = self.below(level)
        if inner is None or type(cell) is not ObjectCell or cell.obligations or self.emptiness.object(cell):
            return False
        if not all(self.some(cell.named[name], inner) for name in cell.required):
            return False
        room = cell.max is None or cell.max > len(cell.required)
        others = room and self._many_names(cell, inner, than)
        if others or (cell.min > len(cell.required) and inner != level):  # are there enough others at that level?
            return others
        for name, term in cell.named.items():
            if (room or name in cell.required) and not self.emptiness.excludes(name) and self.term(term, inner, than):
                return True
        return than < ENDLESS and self._combinations(cell, than) > than

    def _many_names(self, cell: ObjectCell, inner: int, than: int) -> bool:
        """Whether there are certainly more names that the cell does not mention and that may have a value."""
        if not cell.rules:
            return cell.rest is not FALSE and self.some(cell.rest, inner)
        regions = self.emptiness.algebra.unnamed(cell)
        than = max(than, min(than + len(cell.named), PLENTY))
        return isinstance(regions, list) and any(
            [many_texts(self.strings(keys), than) and self.some(term, inner) for keys, term in regions]
        )

    def _combinations(self, cell: ObjectCell, than: int) -> int:
        """A lower bound on the number of objects with the required members, from their numbers and strings."""
        product = 1
        for name in cell.required:
            shape = cell.named[name].shape()
            texts = self.strings(shape.strings)
            some = than + 1 if many_texts(texts, than) else texts.number(than) or 0
            product = min(product * max(1, self.numbers(shape.numbers) + some), HUGE)
        return product


def many_texts(strings: Strings, most: int = PLENTY) -> bool:
    """Whether there are certainly more strings than this, which is at most `PLENTY`, or `ENDLESS`."""
    kind, parts = strings._kind, strings._parts
    if kind in ("all", "but"):
        return True
    if kind == "length":
        return parts[1] is None or (parts[1] >= 1 and most < ENDLESS)  # there are more characters than `PLENTY`
    if kind == "texts":
        return len(parts[0]) > most
    if kind == "or":
        return any(many_texts(part, most) for part in parts)
    if kind == "and":  # a minimum length leaves infinitely many of infinitely many
        bounds = [part for part in parts if part._kind == "length"]
        atoms = [part for part in parts if part._kind != "length"]
        if len(atoms) == 1 and all(part._parts[1] is None for part in bounds) and _endless(atoms[0]):
            return True
        return most < ENDLESS and strings.has_more(most)
    return kind == "atom" and (_count_atom(strings) > most or (most < ENDLESS and strings.has_more(most)))


def _unwritable(value: object) -> bool:
    """Whether a listed value has a name that no text contains."""
    if isinstance(value, dict):
        return any(has_surrogate(name) or _unwritable(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_unwritable, value))


def _endless(strings: Strings) -> bool:
    return strings._kind == "atom" and _count_atom(strings) == INFINITE


def _count_atom(strings: Strings) -> int:
    """A lower bound of the number of strings of a constraint."""
    constraint, _, positive = strings._parts
    if not positive or strings.is_empty():
        return 0
    if isinstance(constraint, FormatTexts):
        return PLENTY + 1 if constraint.name in _FORMATS else 0
    return count_texts(constraint) if isinstance(constraint, Regex) else 0


def is_dense(strings: Strings) -> bool:
    """Whether every prefix of a string certainly has infinitely many completions."""
    kind, parts = strings._kind, strings._parts
    if kind in ("all", "but"):
        return True
    if kind != "atom" or not parts[2] or not isinstance(parts[0], Regex) or parts[0].max_length is not None:
        return False
    tree = parts[0]._parsed.tree
    if isinstance(tree, Alt):
        return False
    items, _, end = unanchored(tree)
    if parts[0].mode == "search" and not end:
        return count_strings(Cat(items, 0, 0))[0] > 0  # a match stays a match, whatever follows
    last = items[-1] if items else None
    return isinstance(last, Rep) and last.max < 0 and count_strings(Cat(items, 0, 0))[0] > 0
