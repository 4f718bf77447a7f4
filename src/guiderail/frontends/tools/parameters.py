"""Arguments written one by one, between tags as in ``<parameter=city>Paris</parameter>``, or in special quotes.

A string stands between the tags without quotes and escapes, so it must not contain the closing tag. Any other value is
JSON. Arguments come in the order of the schema. Arguments that cannot be written in this way are never written: all
strings are those of valid arguments. Arguments that the schema does not name come last. If it does not describe their
names, they are identifiers; if a pattern does, they are any of its names that fit into a tag. A schema that cannot be
enforced between tags is rejected.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.json_schema import JsonSchema
from guiderail.frontends.json_schema.documents.references import Document
from guiderail.frontends.json_schema.lowering.lower import Lowering
from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, ArrayCell, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.frontends.tools.errors import ToolError
from guiderail.frontends.tools.markers import Marker, without
from guiderail.frontends.tools.parameter_style import KINDS, ParameterStyle
from guiderail.support.locks import free_after_fork
from guiderail.support.texts import has_surrogate, shown

__all__ = ["Parameters"]

_SPACE = b" \n\r\t"
_KEY = _core.CharSet([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_KEY_START = _core.CharSet([(0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_NAME = _core.CharSet([(0x21, 0x7E), (0xA0, 0xD7FF), (0xE000, 0x10FFFF)]) & ~_core.CharSet(
    [(ord(c), ord(c)) for c in "<>&\"'"]
)
_CONTROL = re.compile('[\x00-\x1f"]')  # what strings of JSON do not contain
_MOST_IN_ANY_ORDER = 6
_MOST_NESTED = 32

_reading = free_after_fork(threading.Lock())


class Parameters(Constraint):
    """The arguments that a schema of an object allows, in a style.

    Attributes:
        schema: of the object.
        style: how an argument is written.
        any_order: in any order of the names (of at most 6), not only that of the schema.
    """

    __slots__ = ("_root", "any_order", "schema", "style")

    def __init__(self, schema: JsonSchema, style: ParameterStyle, any_order: bool = False) -> None:
        self.schema = schema
        self.style = style
        self.any_order = any_order
        self._root: tuple[Document, Shape] | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameters):
            return NotImplemented
        return (self.schema, self.style, self.any_order) == (other.schema, other.style, other.any_order)

    def __hash__(self) -> int:
        return hash((self.schema, self.style, self.any_order))

    def __reduce__(self) -> tuple[object, ...]:
        return Parameters, (self.schema, self.style, self.any_order)

    def __repr__(self) -> str:
        return f"parameters({self.schema!r})"

    # -- reading -------------------------------------------------------------------------------------------------
    def value(self, key: str, text: str, kind: str | None) -> Any:
        """The value of an argument, out of the text between its tags.

        A string that is JSON and of a type that the schema allows there is that value, any other is a string.
        """
        strings = self.style.kind("string")
        if kind is not None and kind == strings:
            return text
        try:
            value = self.style.scalar(text)
        except (ValueError, RecursionError):
            return text
        if kind is not None and kind != strings:
            return value
        # A float is not the number that the constraint has seen: 9.99999999999999999999 would be 10.
        return value if not isinstance(value, str) and self._accepts(key, self.style.scalar(text, True)) else text

    def is_text(self, key: str, kind: str | None) -> bool:
        """Whether an argument is a string, whatever its text."""
        strings = self.style.kind("string")
        if kind is not None:
            return kind == strings and all(self.style.kind(name) != strings for name in KINDS if name != "string")
        with self._cells() as cells:
            shapes = [term.shape() for cell in cells for term in cell.terms(key)]
        return all(not (s.null or s.booleans or s.arrays or s.objects or s.numbers is not Numbers.NONE) for s in shapes)

    def _accepts(self, key: str, value: Any) -> bool:
        with self._cells() as cells:
            return any(all(t.shape().accepts(value) for t in cell.terms(key)) for cell in cells)

    @contextmanager
    def _cells(self) -> Iterator[tuple[ObjectCell, ...]]:
        """The conditions of the schema on objects."""
        with _reading:  # a document is for one thread at a time
            if self._root is None:
                document = self.schema.document()
                with document.evaluating():
                    self._root = document, document.term().shape()
            document, shape = self._root
            with document.evaluating():
                yield shape.objects

    # -- writing -------------------------------------------------------------------------------------------------
    def _written(self) -> JsonSchema:
        """The schema, with the closing tag in no string of a value that is JSON, where it could be written."""
        options, limit = self.schema.options, self.style.limit
        if not self.style.read or self.style.nested or options.notation != "json" or _CONTROL.search(limit):
            return self.schema
        return self.schema._with_options(replace(options, excludes=(*options.excludes, limit)))

    def _lower(self, b: _core.Builder) -> int:
        schema = self._written()
        document = schema.document()
        with document.evaluating():
            writer = _Writer(b, schema.lowering(b, document), self)
            handle = writer.shape(document.term().shape())
        if handle == b.EMPTY:
            raise ToolError(
                "no arguments satisfy this schema: it must allow an object whose members can be written between tags",
                code="unsatisfiable-schema",
            )
        return handle


class _Writer:
    """Lowers the arguments of one schema."""

    def __init__(self, b: _core.Builder, json: Lowering, what: Parameters) -> None:
        self.b = b
        self.style = what.style
        self.any_order = what.any_order
        options = what.schema.options
        self.json = json
        self.space = b.repeat(b.byte_class(_SPACE), 0, options.max_whitespace) if what.style.space else b.EPSILON
        # whitespace around every value, even an empty one; whitespace next to items only
        self.pad, self.gap = (self.space, b.EPSILON) if what.style.padded else (b.EPSILON, self.space)
        self.excludes = options.excludes
        limit = what.style.limit
        self.free = without(b, [limit], [limit])
        self.raw = without(b, [limit, *self.excludes], [limit])
        if json.excludes != self.excludes:
            self.json.notation.string = self.unclosed(self.json.notation.string)  # type: ignore[assignment,method-assign]
        self.inside: dict[Term, dict[str, int]] = {}  # terms being written, with the rules that stand for them
        self.bodies: dict[Term, list[tuple[str, int]]] = {}
        self.between = b.concat([self.space, Marker(what.style.between)._lower(b)])
        self.comma = self.between if what.style.quote else self.gap  # between items

    def shape(self, shape: Shape) -> int:
        b = self.b
        found = [self.cell(cell) for cell in shape.objects]
        if self.style.empty and any(not cell.required and not cell.min for cell in shape.objects):
            found.append(Marker(self.style.empty)._lower(b))
        return b.union([e for e in found if e != b.EMPTY])

    def cell(self, cell: ObjectCell) -> int:
        b = self.b
        if cell.obligations or type(cell) is not ObjectCell:
            raise ToolError(
                "a negated condition on members cannot be enforced where arguments are written one by one",
                code="tool-parameters",
            )
        named = list(cell.named.items())
        if self.style.sorted:
            named.sort(key=lambda member: member[0].lower())
        written = [(self.member(key, term), key in cell.required) for key, term in named]
        if any(e == b.EMPTY and must for e, must in written):
            return b.EMPTY
        written = [(e, must) for e, must in written if e != b.EMPTY]
        others = self.others(cell) if cell.max is None or cell.max > len(cell.required) else b.EMPTY
        if others != b.EMPTY and cell.min > len(cell.required) + 1:
            raise ToolError(
                "two arguments that the schema does not name may have the same name, so minProperties cannot be "
                "enforced; name them, or leave minProperties out",
                code="tool-parameters",
            )
        if self.any_order:
            return self.unordered(written, others, cell)
        # from the last argument to the first; by whether one was written before, and (if counted) how many
        counted = cell.min > 0 or cell.max is not None

        def end(count: int) -> int:
            least = max(cell.min - count, 0)
            most = None if cell.max is None else cell.max - count
            if (most is not None and most < least) or (others == b.EMPTY and least):
                return b.EMPTY
            if others == b.EMPTY or most == 0:
                return self.gap if count else b.EPSILON
            one = b.concat([self.between, others])
            if count:
                return b.repeat(one, least, -1 if most is None else most)
            some = b.concat([others, b.repeat(one, max(least - 1, 0), -1 if most is None else most - 1)])
            return some if least else b.union([b.EPSILON, some])

        tops = range(len(written) + 1) if counted else range(2)
        rest = [end(count) for count in tops]
        for index in range(len(written) - 1, -1, -1):
            argument, must = written[index]
            step = []
            for count in tops:
                ways = []
                if count < len(tops) - 1 or not counted:
                    after = rest[min(count + 1, len(tops) - 1)]
                    if after != b.EMPTY:
                        ways.append(b.concat([self.between if count else self.gap, argument, after]))
                if not must and rest[count] != b.EMPTY:
                    ways.append(rest[count])
                step.append(b.union(ways) if ways else b.EMPTY)
            rest = step
        return b.EMPTY if rest[0] == b.EMPTY else b.concat([self.pad, rest[0], self.pad])

    def unordered(self, written: list[tuple[int, bool]], others: int, cell: ObjectCell) -> int:
        b = self.b
        if len(written) > _MOST_IN_ANY_ORDER or (others != b.EMPTY and (cell.min or cell.max is not None)):
            raise ToolError(
                f"where arguments are written one by one, any_order works for at most {_MOST_IN_ANY_ORDER} of them, "
                "and not with minProperties or maxProperties if the schema allows arguments that it does not name; "
                "leave it out",
                code="tool-parameters",
            )
        more = b.EPSILON if others == b.EMPTY else b.repeat(b.concat([self.between, others]), 0, -1)
        ways = []
        for size in range(cell.min, min(len(written), len(written) if cell.max is None else cell.max) + 1):
            for some in permutations(range(len(written)), size):
                if any(must and i not in some for i, (_, must) in enumerate(written)):
                    continue
                parts: list[int] = []
                for i in some:
                    parts += [self.between, written[i][0], more] if parts else [written[i][0], more]
                if parts:
                    ways.append(b.concat([self.gap, *parts, self.gap]))
                else:
                    ways.append(b.EPSILON if others == b.EMPTY else b.union([b.EPSILON, b.concat([others, more])]))
        return b.concat([self.pad, b.union(ways), self.pad]) if ways else b.EMPTY

    def others(self, cell: ObjectCell) -> int:
        """An argument that the schema does not name. The model itself must keep the names distinct."""
        b = self.b
        if cell.rest is FALSE and not cell.rules:
            return b.EMPTY
        if self.style.names_twice:
            if cell.rest is TRUE and not cell.rules:
                return b.EMPTY  # the schema does not ask for them
            raise ToolError(
                "this style also writes names in closing tags, so only named arguments can be written; leave out "
                "what the schema says about others (additionalProperties, patternProperties, propertyNames)",
                code="tool-parameters",
            )
        algebra = self.json.algebra
        named = [name.encode() for name in cell.named if not has_surrogate(name)]
        ways = []
        for region, term in algebra.regions(cell) if cell.rules else [(Strings.ALL, cell.rest)]:
            if algebra.emptiness.term(term):
                continue
            keys = self.names() if cell.rules else self.identifiers()
            if self.excludes:
                keys = b.intersection([keys, without(b, self.excludes)])
            if cell.rules:
                keys = b.intersection([keys, region.lower(b, self.json.notation.texts)])
            if named:
                keys = b.intersection([keys, b.complement(b.choice(named))])
            if not b.is_empty(keys):
                ways.append(self.tagged(keys, term))
        return b.union(ways) if ways else b.EMPTY

    def identifiers(self) -> int:
        b = self.b
        free = ~_core.CharSet([(ord(c), ord(c)) for c in self.style.after_key[:1]])  # "x" may follow a name
        return b.concat([b.char_class(_KEY_START & free), b.repeat(b.char_class(_KEY & free), 0, -1)])

    def names(self) -> int:
        """Names that fit into a tag without escapes: printable, with spaces only inside."""
        b = self.b
        some = [c for c in (*self.style.after_key[:1], *(plain for plain, _ in self.style.escapes))]
        some += ":,{}[]" if self.style.quote else ""
        one = b.char_class(_NAME & ~_core.CharSet([(ord(c), ord(c)) for c in some]))
        if self.style.quote:
            return b.repeat(one, 1, -1)
        more = b.concat([b.repeat(b.literal(b" "), 0, -1), one])
        return b.concat([one, b.repeat(more, 0, -1)])

    def member(self, key: str, term: Term) -> int:
        if has_surrogate(key) or any(text in key for text in self.excludes):
            return self.b.EMPTY
        written = self.style.written(key)
        if written is None:
            raise ToolError(
                f"the name {shown(key)} cannot be written in a tag of this style; rename the argument",
                code="tool-parameters",
            )
        return self.tagged(written, term)

    def tagged(self, key: str | int | None, term: Term) -> int:
        """An argument or an item: for each ``${kind}``, its tag with the values that are written in it."""
        b = self.b
        values: dict[str | None, list[int]] = {}
        for name, handle in self.body(term):
            kind = self.style.kind(name)
            if self.style.kinds and kind is None:
                continue
            values.setdefault(kind, []).append(handle)
        found = []
        for kind, handles in values.items():
            if key is None or isinstance(key, str):
                begin = self.style.opening(key, kind, b, self.space)
            else:
                head, _, tail = self.style.open.partition("${key}")
                after = ParameterStyle("${key}" + tail, self.style.close)
                begin = b.concat([Marker(head)._lower(b), key, after.opening("", kind, b, self.space)])
            close = self.style.closing("" if isinstance(key, int) else key)
            found.append(b.concat([begin, b.union(handles), close._lower(b)]))
        return b.union(found) if found else b.EMPTY

    def body(self, term: Term) -> list[tuple[str, int]]:
        """The values of a term by their JSON types. Arrays and objects that contain values of the term are rules."""
        b = self.b
        known = self.bodies.get(term)
        if known is not None:
            return known
        shape, rules = term.shape(), self.inside.get(term)
        if rules is not None:
            emptiness = self.json.algebra.emptiness
            scalars = Shape(shape.null, shape.booleans, shape.numbers, shape.strings, (), ())
            found = self.values(scalars)
            for name, alive in (
                ("array", any(not emptiness.array(cell) for cell in shape.arrays)),
                ("object", any(not emptiness.object(cell) for cell in shape.objects)),
            ):
                if alive and name not in rules:
                    rules[name] = b.rule(f"{name} {len(self.inside)}")
                if alive:
                    found.append((name, rules[name]))
            return found
        if len(self.inside) > _MOST_NESTED:
            raise ToolError(
                f"values are nested more than {_MOST_NESTED} levels deep, too many for tags inside tags",
                code="tool-parameters",
            )
        rules = self.inside[term] = {}
        found = self.values(shape)
        del self.inside[term]
        for name, rule in rules.items():
            ways = [handle for kind, handle in found if kind == name]
            if not ways:
                raise ToolError(f"no {name} of the schema can be written between tags", code="tool-parameters")
            b.define(rule, b.union(ways))
        self.bodies[term] = found
        return found

    def items(self, cell: ArrayCell) -> int:
        """An array, each item in its tag."""
        b = self.b
        if type(cell) is not ArrayCell or cell.contains or cell.unique or cell.repeated:
            raise ToolError(
                "contains and uniqueItems, which a set has, cannot be enforced between tags; use a list",
                code="tool-parameters",
            )
        most = self.json.max_items if cell.max is None else cell.max
        first = len(cell.prefix)
        least, left = max(cell.min - first, 0), None if most is None else max(most - first, 0)
        rest = b.EMPTY if cell.rest is FALSE else self.tagged(None, cell.rest)
        prefix = first if most is None else min(first, most)
        after = (self.gap if prefix else b.EPSILON) if least == 0 else b.EMPTY
        if rest != b.EMPTY and (left is None or left >= max(least, 1)):
            more = b.repeat(b.concat([self.comma, rest]), max(least - 1, 0), -1 if left is None else left - 1)
            after = b.union([after, b.concat([self.comma if prefix else self.gap, rest, more, self.gap])])
        for i in range(prefix - 1, -1, -1):
            one = self.tagged(None, cell.prefix[i])
            more = b.EMPTY if b.EMPTY in (one, after) else b.concat([self.comma if i else self.gap, one, after])
            after = more if i < cell.min else b.union([self.gap if i else b.EPSILON, more])
        return b.EMPTY if after == b.EMPTY else b.concat([self.pad, after, self.pad])

    def values(self, shape: Shape) -> list[tuple[str, int]]:
        """The values of each JSON type that has values."""
        b, none = self.b, (False, 0, Numbers.NONE, Strings.NONE, (), ())
        apart = {
            "null": Shape(shape.null, *none[1:]),
            "boolean": Shape(False, shape.booleans, *none[2:]),
            "number": Shape(False, 0, shape.numbers, *none[3:]),
            "array": Shape(*none[:4], shape.arrays, ()),
            "object": Shape(*none[:5], shape.objects),
        }
        found = []
        if self.style.nested:
            del apart["array"], apart["object"]
            found += [("object", self.framed(b"{", e, b"}")) for e in map(self.cell, shape.objects) if e != b.EMPTY]
            found += [("array", self.framed(b"[", e, b"]")) for e in map(self.items, shape.arrays) if e != b.EMPTY]
        for name, part in apart.items():
            handle = self.json.shape(part, 0)
            more = [text.encode() for text, value in self.style.literals if part.accepts(value)]
            if more and name in ("null", "boolean"):
                handle = b.union([handle, b.choice(more)])
            if handle != b.EMPTY:
                found.append((name, b.concat([self.pad, handle, self.pad])))
        strings = shape.strings if self.json.max_string is None else shape.strings & self.json.max_string
        if strings is not Strings.NONE and not strings.is_empty():
            text = strings.lower(b, self.json.notation.texts)
            free = self.free if strings.has_pattern() else self.raw
            raw = free if strings is Strings.ALL else self.within(text, free)
            if not b.is_empty(raw):
                quote = Marker(self.style.quote)._lower(b)
                found.append(("string", b.concat([quote, raw, quote])))
        return found

    def within(self, text: int, free: int) -> int:
        """The strings without the closing tag in them."""
        try:
            return self.b.intersection([text, free])
        except CompileError as error:
            if error.code != "not-regular":
                raise
        raise ToolError(
            "a text between tags must not contain the closing tag, which cannot be enforced for one that follows a "
            "grammar; use a regular expression, or a format that writes arguments as JSON",
            code="tool-parameters",
        )

    def unclosed(self, write: Callable[[Strings], int]) -> Callable[[Strings], int]:
        """Writes strings of JSON without the closing tag, those with a pattern, too, which ``excludes`` passes over."""

        def string(strings: Strings) -> int:
            made = write(strings)
            return self.within(made, self.free) if strings.has_pattern() and made != self.b.EMPTY else made

        return string

    def framed(self, left: bytes, inside: int, right: bytes) -> int:
        return self.b.concat([self.b.literal(left), inside, self.b.literal(right)]) if self.style.quote else inside
