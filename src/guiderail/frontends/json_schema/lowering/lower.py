"""From terms to expressions of the core, through a notation.

Every term is lowered once. A term that is met again while it is being lowered becomes a rule; whether any value of it
can be written is decided first, since a rule that can never finish must not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import ClassVar

from guiderail import _core
from guiderail.errors import LimitError
from guiderail.frontends.json_schema.documents.references import Document, Node
from guiderail.frontends.json_schema.errors import at_pointer
from guiderail.frontends.json_schema.lowering.items import lower_items
from guiderail.frontends.json_schema.lowering.layout import Notation, PlainKeys, holds
from guiderail.frontends.json_schema.lowering.unwritable import Unwritable, Writable
from guiderail.frontends.json_schema.lowering.vote_lower import lower_tally, lower_vote
from guiderail.frontends.json_schema.normal_form.abundance import is_dense
from guiderail.frontends.json_schema.normal_form.array_votes import ArrayVote, many_states
from guiderail.frontends.json_schema.normal_form.outcomes import Outcomes
from guiderail.frontends.json_schema.normal_form.shape import (
    FALSE,
    TRUE,
    UNREACHABLE,
    ArrayCell,
    ObjectCell,
    Obligation,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.normal_form.votes import Vote, obligations_apart
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

__all__ = ["Lowering"]

_MOST_CHOICES = 2  # obligations whose subsets are written out; beyond, an object is read as a vote


class Lowering:
    """The expressions of one document in one builder.

    Args:
        builder: of the core.
        document: whose terms are lowered.
        notation: how values are written.
    """

    __deletable__: ClassVar[list[str]] = ["abundance", "emptiness"]  # for mypyc

    def __init__(self, builder: _core.Builder, document: Document, notation: Notation) -> None:
        self.builder = builder
        self.document = document
        self.notation = notation
        self.algebra = document.algebra
        options = document.options
        self.max_depth = options.max_depth
        if notation.leveled and self.max_depth is None:
            self.max_depth = notation.depth_limit
        self.leveled = self.max_depth is not None
        self.max_items = options.max_items
        self.max_string = None if options.max_string_length is None else Strings.length(0, options.max_string_length)
        self.ordered = options.property_order == "declared"
        self.excludes = options.excludes
        digits = options.max_integer_digits, options.max_fraction_digits
        self.capped = bool(self.excludes) or any(
            most is not None for most in (options.max_depth, self.max_items, self.max_string, *digits)
        )
        self.escapes = 1 if options.escapes == "all" and not self.excludes else 0  # of names
        self._done: dict[object, int] = {}
        self._open: set[object] = set()
        self._rules: dict[object, int] = {}
        self._strings: dict[Strings, int] = {}
        self._numbers: dict[Numbers, int] = {}
        self.emptiness = Unwritable(self)
        self.abundance = Writable(self)

    def close(self) -> None:
        """Frees what was made here, and the document, at once.

        They refer to each other in circles, which would wait for the garbage collector.
        """
        self.document.close()
        del self.abundance, self.emptiness

    def term(self, term: Term, level: int = 0) -> int:
        """The expression of a term; EMPTY if it has no value.

        Args:
            term: what to write.
            level: the number of enclosing arrays and objects.
        """
        key: object = (term, level) if self.leveled else term
        handle = self._done.get(key)
        if handle is not None:
            return handle
        b = self.builder
        if key in self._open:
            handle = self._rules.get(key)
            if handle is None:
                if self.emptiness.term(term):
                    return b.EMPTY
                handle = self._rules[key] = b.rule(self._name(term))
            return handle
        spend(1)
        self._open.add(key)
        document = self.document
        before = document.current
        if isinstance(term, Node):
            document.current = term
        try:
            handle = self.shape(term.shape(), level)
        except LimitError as error:
            raise at_pointer(error, document.where) from None
        except RecursionError:
            document.note_depth()
            raise
        finally:
            self._open.discard(key)
            document.current = before
        rule = self._rules.get(key)
        if rule is not None:
            b.define(rule, handle)
            handle = rule
        self._done[key] = handle
        return handle

    def _name(self, term: Term) -> str:
        if isinstance(term, Node):
            return self.document.pointer(term.schema)
        return "any value" if term is TRUE else f"combination {len(self._rules) + 1}"

    def shape(self, shape: Shape, level: int) -> int:
        """The expression of a shape."""
        spend(200)
        notation, b = self.notation, self.builder
        parts: list[int] = []
        if shape.null:
            parts.append(notation.null())
        if shape.booleans:
            if shape.booleans & 1:
                parts.append(notation.boolean(False))
            if shape.booleans & 2:
                parts.append(notation.boolean(True))
        if shape.numbers is not Numbers.NONE:
            parts.append(self.number(shape.numbers))
        if shape.strings is not Strings.NONE:
            parts.append(self.string(shape.strings))
        if (shape.arrays or shape.objects) and (self.max_depth is None or level < self.max_depth):
            for array in shape.arrays:
                parts.append(self.array(array, level))
            for cell in shape.objects:
                parts.append(self.object(cell, level))
        if len(parts) == 1:
            return parts[0]
        return b.union([part for part in parts if part != b.EMPTY])

    def number(self, numbers: Numbers) -> int:
        handle = self._numbers.get(numbers)
        if handle is None:
            handle = self._numbers[numbers] = self.notation.number(numbers)
        return handle

    def string(self, strings: Strings) -> int:
        handle = self._strings.get(strings)
        if handle is None:
            narrowed = strings if self.max_string is None else strings & self.max_string
            empty = narrowed is Strings.NONE or narrowed.is_empty()
            handle = self._strings[strings] = self.builder.EMPTY if empty else self.notation.string(narrowed)
        return handle

    # -- arrays
    def array(self, cell: ArrayCell, level: int) -> int:
        b = self.builder
        frame = self.notation.array(level)
        if cell.repeated and self.emptiness.array(cell):
            return b.EMPTY
        items = lower_tally if isinstance(cell, ArrayVote) or many_states(cell) else lower_items
        if frame.empty is None or cell.min > 0:
            inside = items(self, cell, frame, level, cell.min)
            return b.EMPTY if inside == b.EMPTY else b.concat([frame.open, inside, frame.close])
        inside = items(self, cell, frame, level, 1)
        none = frame.empty if cell.accepts([]) else b.EMPTY
        return b.union([none, b.EMPTY if inside == b.EMPTY else b.concat([frame.open, inside, frame.close])])

    # -- objects
    def object(self, cell: ObjectCell, level: int) -> int:
        if isinstance(cell, Vote):
            return lower_vote(self, cell, level)
        if _has_many_choices(cell):
            return lower_vote(self, Vote(cell, obligations_apart(self.algebra, cell)), level)
        b = self.builder
        frame = self.notation.object(level)
        names: list[bytes] = []
        values: list[int | list[tuple[int, int]]] = []
        required: list[bool] = []
        empty, needed, obligations = b.EMPTY, cell.required, cell.obligations
        if cell.min >= UNREACHABLE:
            return empty
        inner = level + 1
        spend(50 * len(cell.named))
        for name, term in cell.named.items():
            value = empty if self.excludes and holds(name, self.excludes) else self.term(term, inner)
            must = name in needed
            if must and value == empty:
                return empty
            try:
                names.append(name.encode())
            except UnicodeEncodeError:  # a lone surrogate: no text contains it
                if must:
                    return empty
                continue
            values.append(value if not obligations else self._alternatives(name, term, value, obligations, inner))
            required.append(must)
        others: list[tuple[int, int, bool, int]] = []
        if cell.rest is not FALSE or cell.rules:
            others = list(self._others(cell, inner))
        pending = (1 << len(obligations)) - 1

        def inside(least: int) -> int:
            return b.members(
                names,
                values,
                required,
                others,
                frame.comma,
                frame.colon,
                ordered=self.ordered,
                min=least,
                max=-1 if cell.max is None or cell.max >= UNREACHABLE else cell.max,
                escapes=self.escapes,
                pending=pending,
            )

        if frame.empty is None:
            body = inside(cell.min)
            return empty if body == empty else b.concat([frame.open, body, frame.close])
        bare = frame.empty if not (cell.min or needed or obligations) else empty
        body = empty if cell.max == 0 else inside(max(cell.min, 1))
        return b.union([bare, empty if body == empty else b.concat([frame.open, body, frame.close])])

    def _alternatives(
        self, name: str, term: Term, value: int, obligations: tuple[Obligation, ...], level: int
    ) -> list[tuple[int, int]]:
        """The ways to write a named member, each with the obligations that it meets."""
        if value == self.builder.EMPTY:
            return []
        met, choices = 0, []
        for i, o in enumerate(obligations):
            terms = o.terms(name)
            if any(t is TRUE or t is term for t in terms):
                met |= 1 << i
            elif terms:
                choices.append((1 << i, Strings.ALL, self.algebra.or_terms(terms)))
        found = [(value, met)]
        for mask, _, chosen in self._subsets(choices, Strings.ALL):
            handle = self.term(self.algebra.and_terms([term, *chosen]), level)
            if handle != self.builder.EMPTY:
                found.append((handle, mask | met))
        return found

    def _others(self, cell: ObjectCell, level: int) -> Iterator[tuple[int, int, bool, int]]:
        """The ways to write members that are not named, each with the obligations that it meets."""
        if not cell.rules and not cell.obligations:  # most objects
            member = self._member(Strings.ALL, cell.rest, (), level)
            if member is not None:
                yield *member, 0
            return
        found = self.algebra.unnamed(cell) if cell.rules else [(Strings.ALL, cell.rest)]
        regions = [(Strings.ALL, found)] if isinstance(found, Outcomes) else found
        by_key = [(1 << i, keys) for i, o in enumerate(cell.obligations) for keys, term in o.ways if term is TRUE]
        choices = list(_open_ways(cell))
        for region, asked in regions:
            # keys that meet an obligation with any value are separate; the others depend on the value
            parts: list[tuple[Strings, int]] = [(region, 0)]
            for bit, wanted in by_key:
                left_out = (~wanted).finite_texts()
                if left_out is not None and left_out <= cell.named.keys():
                    parts = [(keys, mask | bit) for keys, mask in parts]
                else:
                    split = [(keys & wanted, mask | bit) for keys, mask in parts]
                    split += [(keys & ~wanted, mask) for keys, mask in parts]
                    parts = [(keys, mask) for keys, mask in split if not keys.is_empty()]
            for keys, met in parts:
                plain = self._member(keys, asked, (), level)
                if plain is None:
                    continue
                yield *plain, met
                for mask, some, chosen in self._subsets(choices, keys):
                    member = self._member(some, asked, chosen, level)
                    if member is not None:
                        yield *member, met | mask

    def _member(
        self, keys: Strings, asked: Term | Outcomes, more: tuple[Term, ...], level: int
    ) -> tuple[int, int, bool] | None:
        """Members that the schema does not name, and whether their keys are dense; None if there are none.

        Args:
            keys: those that they may have.
            asked: what their values must satisfy; if that depends on the key, it is chosen at its end.
            more: what they must satisfy, too.
            level: the nesting depth of the values.
        """
        b = self.builder
        if isinstance(asked, Term):
            value = self.term(self.algebra.and_terms([asked, *more]) if more else asked, level)
            return None if value == b.EMPTY else self._keys(keys, value)
        values = [self.term(self.algebra.and_terms([term, *more]), level) for term in asked.terms]
        patterns = [pattern.lower(b, self.notation.texts) for pattern in asked.patterns]
        text, value, dense = self._keys(keys, b.union([value for value in values if value != b.EMPTY]))
        key = b.patterned(text, patterns, asked.next, values)
        return None if b.is_empty(key) else (key, value, dense and b.EMPTY not in values)

    def _keys(self, keys: Strings, value: int) -> tuple[int, int, bool]:
        """Names that the schema does not know, and their value; whether they are dense."""
        return self.keys(keys), value, is_dense(keys) and not (self.excludes and keys.has_pattern())

    def keys(self, keys: Strings) -> int:
        """The expression of some strings as keys, without quotes and escapes."""
        b = self.builder
        handle = keys.lower(b, self.notation.texts)
        return b.intersection([handle, PlainKeys(self.excludes)._lower(b)]) if self.excludes else handle

    def _subsets(
        self, choices: list[tuple[int, Strings, Term]], keys: Strings
    ) -> Iterator[tuple[int, Strings, tuple[Term, ...]]]:
        """The sets of obligations that one member may meet by its value: their bits, its keys, terms of its value."""
        together: dict[tuple[Strings, Term], int] = {}
        for bit, wanted, term in choices:  # equal requirements are met together
            together[wanted, term] = together.get((wanted, term), 0) | bit
        choices = [(bits, wanted, term) for (wanted, term), bits in together.items()]
        for size in range(1, len(choices) + 1):
            for some in combinations(choices, size):
                left = keys
                for _, wanted, _ in some:
                    left = left & wanted
                if not left.is_empty():
                    mask = 0
                    for bit, _, _ in some:
                        mask |= bit
                    yield mask, left, tuple(term for _, _, term in some)


def _open_ways(cell: ObjectCell) -> Iterator[tuple[int, Strings, Term]]:
    """The ways to meet an obligation by the value of a member that the cell does not name, by their obligations."""
    for i, obligation in enumerate(cell.obligations):
        for keys, term in obligation.ways:
            names = None if term is TRUE else keys.finite_texts()
            if term is not TRUE and (names is None or not names <= cell.named.keys()):
                yield 1 << i, keys, term


def _has_many_choices(cell: ObjectCell) -> bool:
    """Whether a member may meet so many obligations that their subsets would be too many."""
    if len(cell.obligations) > _MOST_CHOICES:
        return True
    return len({(keys, term) for _, keys, term in _open_ways(cell)}) > _MOST_CHOICES
