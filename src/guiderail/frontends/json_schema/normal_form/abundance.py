"""Whether a schema has more values than anyone will ever list.

A list of distinct values must not run out of them. If there are plenty of values, nothing needs to be decided while the
list is written. "Plenty" means certainly more than `PLENTY`; the answer False means "unknown".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, ArrayCell, ObjectCell, Term
from guiderail.frontends.json_schema.values.formats import FormatTexts
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.frontends.regex import Regex
from guiderail.frontends.regex.counting import INFINITE, count_strings, count_texts, unanchored
from guiderail.frontends.regex.syntax import Alt, Cat, Rep
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

__all__ = ["PLENTY", "Abundance", "is_dense", "many_texts"]

PLENTY = 1 << 32
_FORMATS = frozenset(
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
    """Answers for the terms of one document."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.known: dict[Term, bool] = {TRUE: True, FALSE: False}

    def term(self, term: Term) -> bool:
        """Whether there are certainly plenty of values."""
        known = self.known.get(term)
        if known is None:
            spend(1)
            self.known[term] = False  # recursive: the answer is not known yet
            shape = term.shape()
            count = shape.numbers.count()
            known = self.known[term] = (
                count is None
                or count > PLENTY
                or many_texts(shape.strings)
                or any(self._array(cell) for cell in shape.arrays)
                or any(self._object(cell) for cell in shape.objects)
            )
        return known

    def _array(self, cell: ArrayCell) -> bool:
        if type(cell) is not ArrayCell or cell.contains or cell.repeated or self.algebra.emptiness.array(cell):
            return False
        if cell.unique:  # this many items with plenty of values each can be chosen distinct
            need = max(cell.min, 1)
            if need >= PLENTY or (cell.max is not None and cell.max < need):
                return False
            return all(self.term(cell.item(i)) for i in range(min(need, len(cell.prefix) + 1)))
        longest = len(cell.prefix) + 1 if cell.max is None else min(cell.max, len(cell.prefix) + 1)
        for i in range(longest):
            if self.algebra.emptiness.term(cell.item(i)):  # the list ends before it
                return False
            if self.term(cell.item(i)):
                return True
        return cell.max is None and not self.algebra.emptiness.term(cell.rest)

    def _object(self, cell: ObjectCell) -> bool:
        if type(cell) is not ObjectCell or cell.obligations or self.algebra.emptiness.object(cell):
            return False
        room = cell.max is None or cell.max > len(cell.required)
        for name, term in cell.named.items():
            if (room or name in cell.required) and self.term(term):
                return True
        if room and not cell.rules and cell.rest is not FALSE:
            return not self.algebra.emptiness.term(cell.rest)
        return False


def many_texts(strings: Strings, most: int = PLENTY) -> bool:
    """Whether there are certainly more strings than this, which is at most `PLENTY`."""
    kind, parts = strings._kind, strings._parts
    if kind in ("all", "but"):
        return True
    if kind == "length":
        return parts[1] is None or parts[1] >= 2
    if kind == "or":
        return any(many_texts(part, most) for part in parts)
    if kind == "and":  # a minimum length leaves infinitely many of infinitely many
        bounds = [part for part in parts if part._kind == "length"]
        atoms = [part for part in parts if part._kind != "length"]
        return len(atoms) == 1 and all(part._parts[1] is None for part in bounds) and _endless(atoms[0])
    return kind == "atom" and _count_atom(strings) > most


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
