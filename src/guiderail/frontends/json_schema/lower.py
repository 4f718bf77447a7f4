"""From terms to expressions of the core, through a notation.

Every term is lowered once. A term that is met again while it is being lowered becomes a rule; whether it has any
value is decided first, since a rule that can never finish must not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from guiderail import _core
from guiderail.frontends.json_schema.abundance import Abundance
from guiderail.frontends.json_schema.errors import SchemaError, SchemaLimitError
from guiderail.frontends.json_schema.items import lower_items
from guiderail.frontends.json_schema.layout import Notation
from guiderail.frontends.json_schema.numbers import Numbers
from guiderail.frontends.json_schema.references import Document, Node
from guiderail.frontends.json_schema.shape import (
    FALSE,
    TRUE,
    ArrayCell,
    ObjectCell,
    Obligation,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.strings import Strings

__all__ = ["Lowering"]

_MOST_OBLIGATIONS = 6


class Lowering:
    """The expressions of one document in one builder.

    Args:
        builder: of the core.
        document: whose terms are lowered.
        notation: how values are written.
    """

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
        self.escapes = 1 if options.escapes == "all" else 0
        self._done: dict[object, int] = {}
        self._open: set[object] = set()
        self._rules: dict[object, int] = {}
        self._strings: dict[Strings, int] = {}
        self.abundance = Abundance(document.algebra)

    def term(self, term: Term, level: int = 0) -> int:
        """The expression of a term; EMPTY if it has no value.

        Args:
            term: what to write.
            level: how many arrays and objects stand around it.
        """
        key: object = (term, level) if self.leveled else term
        handle = self._done.get(key)
        if handle is not None:
            return handle
        b = self.builder
        if key in self._open:
            handle = self._rules.get(key)
            if handle is None:
                if self.algebra.emptiness.term(term):
                    return b.EMPTY
                handle = self._rules[key] = b.rule(self._name(term))
            return handle
        self._open.add(key)
        document = self.document
        before = document.current
        if isinstance(term, Node):
            document.current = term
        try:
            handle = self.shape(term.shape(), level)
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
            parts.append(notation.number(shape.numbers))
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
        if cell.repeated:
            if self.algebra.emptiness.array(cell):
                return b.EMPTY
            self._unsupported(
                "uniqueItems",
                "the negation of uniqueItems (two items must be equal) cannot be enforced",
                "negated-unique",
            )
        if frame.empty is None or cell.min > 0:
            inside = lower_items(self, cell, frame, level, cell.min)
            return b.EMPTY if inside == b.EMPTY else b.concat([frame.open, inside, frame.close])
        inside = lower_items(self, cell, frame, level, 1)
        none = frame.empty if all(c.min == 0 for c in cell.contains) else b.EMPTY
        return b.union([none, b.EMPTY if inside == b.EMPTY else b.concat([frame.open, inside, frame.close])])

    def _unsupported(self, keyword: str, reason: str, code: str) -> None:
        document = self.document
        pointer = document.where() or "#"
        if document.options.on_unsupported == "error":
            raise SchemaError(
                f"{reason}; rewrite the schema, or drop it with on_unsupported='warn'", code=code, pointer=pointer
            )
        document.unsupported.append((pointer, keyword, reason))
        if document.options.on_unsupported == "warn":
            import warnings

            warnings.warn(f"{pointer}: not enforced: {reason}", stacklevel=2)

    # -- objects
    def object(self, cell: ObjectCell, level: int) -> int:
        b = self.builder
        frame = self.notation.object(level)
        names: list[bytes] = []
        values: list[int | list[tuple[int, int]]] = []
        required: list[bool] = []
        empty, needed, obligations = b.EMPTY, cell.required, cell.obligations
        inner = level + 1
        for name, term in cell.named.items():
            value = self.term(term, inner)
            must = name in needed
            if must and value == empty:
                return empty
            try:
                names.append(name.encode())
            except UnicodeEncodeError:  # a lone surrogate: no text has it
                if must:
                    return empty
                continue
            values.append(value if not obligations else self._alternatives(name, term, value, obligations, inner))
            required.append(must)
        others: list[tuple[int, int, bool, int]] = []
        if cell.rest is not FALSE or cell.rules:
            regions = self.algebra.regions(cell) if cell.rules else [(Strings.ALL, cell.rest)]
            for keys, term in regions:
                value = self.term(term, inner)
                if value != empty:
                    others.append((keys.lower(b, self.notation.texts), value, _is_dense(keys), 0))
                if obligations:
                    others += self._discharging(keys, term, obligations, inner)
        pending = (1 << len(obligations)) - 1
        if len(obligations) > _MOST_OBLIGATIONS:
            raise SchemaLimitError(
                f"more than {_MOST_OBLIGATIONS} negated sub-schemas each ask for some member of the same object; make "
                "the alternatives exclude each other by a required property",
                pointer=self.document.where(),
            )

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
                max=-1 if cell.max is None else cell.max,
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
        found = [(value, 0)] if value != self.builder.EMPTY else []
        for mask, chosen in _subsets(obligations):
            if all(name in o.keys for o in chosen):
                met = self.term(self.algebra.and_terms([term, *(o.term for o in chosen)]), level)
                if met != self.builder.EMPTY:
                    found.append((met, mask))
        return found

    def _discharging(
        self, keys: Strings, term: Term, obligations: tuple[Obligation, ...], level: int
    ) -> Iterator[tuple[int, int, bool, int]]:
        """The ways to write other members that meet obligations."""
        for mask, chosen in _subsets(obligations):
            texts = keys
            for o in chosen:
                texts = texts & o.keys
            if texts.is_empty():
                continue
            met = self.term(self.algebra.and_terms([term, *(o.term for o in chosen)]), level)
            if met != self.builder.EMPTY:
                yield texts.lower(self.builder, self.notation.texts), met, _is_dense(texts), mask


def _subsets(obligations: tuple[Obligation, ...]) -> Iterator[tuple[int, tuple[Obligation, ...]]]:
    places = range(len(obligations))
    for size in range(1, len(obligations) + 1):
        for some in combinations(places, size):
            yield sum(1 << i for i in some), tuple(obligations[i] for i in some)


def _is_dense(keys: Strings) -> bool:
    """Whether every prefix of a key surely has infinitely many completions."""
    return keys.is_all()
