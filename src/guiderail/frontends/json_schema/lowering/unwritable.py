"""Which values exist but cannot be written: options forbid them, or no text is that long."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from guiderail.errors import CompileError, LimitError
from guiderail.frontends.json_schema.lowering.layout import PlainKeys, holds
from guiderail.frontends.json_schema.normal_form.abundance import Abundance
from guiderail.frontends.json_schema.normal_form.satisfiable import Emptiness
from guiderail.frontends.json_schema.normal_form.shape import ANY_OBJECT, UNREACHABLE, ArrayCell, ObjectCell, Term
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.texts import has_surrogate

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lowering.lower import Lowering

__all__ = ["Unwritable", "Writable"]

_MOST_DECIMALS: Final = 12  # more make no difference to whether there are many numbers


class Unwritable(Emptiness):
    """Decides whether no value of a term can be written by a lowering."""

    exact = True

    def __init__(self, lowering: Lowering) -> None:
        super().__init__(lowering.algebra)
        self.lowering = lowering
        self.most_items = lowering.max_items
        options = lowering.document.options
        if options.excludes:
            self.plain_keys = Strings.constraint(PlainKeys(options.excludes))
        self._few_digits = options.max_integer_digits is not None or options.max_fraction_digits is not None

    def numbers(self, numbers: Numbers) -> bool:
        return numbers.is_empty() or (self._few_digits and self.nothing(self.lowering.number(numbers)))

    def strings(self, strings: Strings) -> bool:
        handle = self.lowering.string(strings)
        return handle == self.lowering.builder.EMPTY or (bool(self.lowering.excludes) and self.nothing(handle))

    def keys(self, keys: Strings) -> bool:
        return keys.is_empty() or (bool(self.lowering.excludes) and self.nothing(self.lowering.keys(keys)))

    def excludes(self, name: str) -> bool:
        excluded = self.lowering.excludes
        return has_surrogate(name) or (bool(excluded) and holds(name, excluded))

    def array(self, cell: ArrayCell) -> bool:
        least = max(cell.min, *[c.min for c in cell.contains], 0)
        return least >= UNREACHABLE or super().array(cell)

    def object(self, cell: ObjectCell) -> bool:
        return cell is not ANY_OBJECT and (cell.min >= UNREACHABLE or self._object(cell))

    def nothing(self, handle: int) -> bool:
        """Whether no text matches an expression, as far as that can be known before the rules are."""
        builder = self.lowering.builder
        if handle == builder.EMPTY:
            return True
        try:
            return builder.is_empty(handle)
        except CompileError as error:
            if error.code != "not-regular":  # rules, which the digits of some numbers need
                raise
            return False


class Writable(Abundance):
    """Decides whether many of the values of a term can be written by a lowering."""

    def __init__(self, lowering: Lowering) -> None:
        super().__init__(lowering.emptiness)
        self.lowering = lowering
        self.most_items = lowering.max_items
        options = lowering.document.options
        digits, decimals = options.max_integer_digits, options.max_fraction_digits
        self._short: Numbers | None = None  # those whose digits no option limits
        if digits is not None or decimals is not None:
            bound = None if digits is None else 10**digits
            step = None if decimals is None else Fraction(1, 10 ** min(decimals, _MOST_DECIMALS))
            self._short = Numbers.between(
                exclusive_minimum=None if bound is None else -bound, exclusive_maximum=bound, multiple_of=step
            )

    def numbers(self, numbers: Numbers) -> int:
        if self._short is None:
            return super().numbers(numbers)
        try:
            return super().numbers(numbers & self._short)
        except LimitError as error:
            if error.code != "number-cases":
                raise
            return 0

    def strings(self, strings: Strings) -> Strings:
        longest = self.lowering.max_string
        if longest is not None:
            strings = strings & longest
        if self.lowering.excludes:
            strings = strings & self.emptiness.plain_keys
        return strings

    def few(self, term: Term) -> int:
        return 0 if self.lowering.capped else super().few(term)

    def below(self, level: int) -> int | None:
        most = self.lowering.max_depth
        if most is None:
            return level
        return level + 1 if level < most else None

    def some(self, term: Term, level: int) -> bool:
        if self.lowering.leveled:  # asked of what is inside a value that has been lowered: nothing is lowered for this
            return self.lowering.term(term, level) != self.lowering.builder.EMPTY
        return super().some(term, level)
