"""Which values exist but cannot be written: options forbid them, or no text is that long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.errors import CompileError
from guiderail.frontends.json_schema.lowering.layout import PlainKeys, holds
from guiderail.frontends.json_schema.normal_form.satisfiable import Emptiness
from guiderail.frontends.json_schema.normal_form.shape import ANY_OBJECT, UNREACHABLE, ArrayCell, ObjectCell
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.texts import has_surrogate

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lowering.lower import Lowering

__all__ = ["Unwritable"]


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
