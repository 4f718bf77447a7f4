"""Lowers a :class:`Model` into an expression: how elements, attributes and whitespace are written.

A document has one spelling: an element without content is ``<a/>``, attribute values are in double quotes, characters
are escaped as in Canonical XML. Each element is a rule, so recursion costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from guiderail import _core
from guiderail.frontends.xml_schema.characters import Writer, escape
from guiderail.frontends.xml_schema.errors import XmlSchemaError, XmlSchemaLimitError
from guiderail.frontends.xml_schema.model import (
    HOLDS_NOTHING,
    All,
    Children,
    Choice,
    Element,
    Form,
    Key,
    Model,
    Particle,
    Repeat,
    Seq,
    Text,
)
from guiderail.frontends.xml_schema.namespaces import XSI
from guiderail.frontends.xml_schema.options import XmlSchemaOptions
from guiderail.frontends.xml_schema.simple_types import SimpleTypes
from guiderail.support.work import spend

__all__ = ["Lowering"]

# Content is built as a pair: the texts but the empty one, and whether the empty one belongs. An element needs to know.
Pair = tuple[int, bool]


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of children: their line depth (None: all on one line), and the text after each."""

    depth: int | None
    after: int | None = None


class Lowering:
    """Lowers a model with one builder."""

    def __init__(self, b: _core.Builder, model: Model, options: XmlSchemaOptions) -> None:
        self.b, self.model, self.options = b, model, options
        self.text = SimpleTypes(Writer(b, attribute=False), model.prefixes, options.max_text_length, options.version)
        self.value = SimpleTypes(Writer(b, attribute=True), model.prefixes, options.max_text_length, options.version)
        self.rules: dict[tuple[Key, int | None], int] = {}
        self.todo: list[tuple[Key, int | None]] = []
        self.pairs: dict[tuple[int, int | None, int | None], Pair] = {}  # by the identity of a particle, and its place
        self.productive = self._productive()

    def document(self) -> int:
        """The expression of all documents.

        Raises:
            XmlSchemaError: ``xml-unsatisfiable``: there is none.
            XmlSchemaLimitError: ``xml-orders``: the orders of attributes or members are too many.
        """
        b = self.b
        depth = 0 if self.options.layout == "indented" else None
        forms = [form for key in self.model.roots for form in self.model.forms[key] if self._can_form(form)]
        if not forms:
            root = self.model.forms[self.model.roots[0]][0] if self.model.forms[self.model.roots[0]] else None
            path = self._blame(root) if root else None
            message = "no document is valid for this schema, so a model could write nothing"
            if any(note.path == path and note.detail == HOLDS_NOTHING for note in self.model.notes):
                message = (
                    "nothing is known that its xs:any may hold, so a model could write nothing; name elements in "
                    "wildcard_names, or pass the schema that declares them in documents"
                )
            raise XmlSchemaError(message, code="xml-unsatisfiable", path=path)
        found = b.union([self._form(form, depth, root=True) for form in forms])
        while self.todo:
            key, at = self.todo.pop()
            bodies = [self._form(form, at, root=False) for form in self.model.forms[key] if self._can_form(form)]
            b.define(self.rules[key, at], b.union(bodies))
        if self.options.declaration:
            head = '<?xml version="1.0" encoding="UTF-8"?>' + ("" if depth is None else "\n")
            found = b.concat([b.literal(head.encode()), found])
        return found

    # -- which elements can be finished at all: a least fixed point
    def _productive(self) -> set[Key]:
        self.productive = set[Key]()
        users: dict[Key, dict[Key, None]] = {}  # element → the elements whose content contains it
        for key, forms in self.model.forms.items():
            for form in forms:
                if isinstance(form.content, Children):
                    for child in _elements(form.content.particle):
                        users.setdefault(child, {})[key] = None
        look = list(self.model.forms)
        while look:  # check again only the users of the last ones found
            new = [key for key in look if any(map(self._can_form, self.model.forms[key]))]
            self.productive.update(new)
            again = dict.fromkeys(user for key in new for user in users.get(key, ()))
            look = [user for user in again if user not in self.productive]
        return self.productive

    def _can_form(self, form: Form) -> bool:
        for attribute in form.attributes:
            if attribute.required and attribute.fixed is None and self._is_empty(self.value.texts(attribute.type)):
                return False
        if isinstance(form.content, Text):
            return form.content.fixed is not None or not self._is_empty(self.text.texts(form.content.type))
        return self._can(form.content.particle, {})

    def _is_empty(self, e: int) -> bool:
        return e == self.b.EMPTY or self.b.is_empty(e)

    def _can(self, particle: Particle, known: dict[int, bool]) -> bool:
        """``known``: by the identities of particles. Repetitions written out share parts, on every level of nesting."""
        if isinstance(particle, Element):
            return particle.key in self.productive
        can = known.get(id(particle))
        if can is None:
            spend(5 + _parts(particle))
            can = known[id(particle)] = self._can_parts(particle, known)
        return can

    def _can_parts(self, particle: Repeat | All | Choice | Seq, known: dict[int, bool]) -> bool:
        if isinstance(particle, Repeat):
            return particle.least == 0 or self._can(particle.item, known)
        if isinstance(particle, All):
            return all(least == 0 or self._can(item, known) for item, least, _ in particle.items)
        found = (self._can(item, known) for item in particle.items)
        return any(found) if isinstance(particle, Choice) else all(found)

    def _blame(self, form: Form) -> str:
        """The innermost element that explains why a form cannot be completed, if one is found."""
        seen = set()
        while form.path not in seen:
            seen.add(form.path)
            for attribute in form.attributes:
                if attribute.required and attribute.fixed is None and self._is_empty(self.value.texts(attribute.type)):
                    return f"{form.path}/@{attribute.name.rpartition('}')[2]}"
            child = self._impossible(form.content.particle, set()) if isinstance(form.content, Children) else None
            forms = [] if child is None else self.model.forms[child.key]
            if not forms:
                break
            form = forms[0]
        return form.path

    def _impossible(self, particle: Particle, seen: set[int]) -> Element | None:
        if isinstance(particle, Element):
            return None if particle.key in self.productive else particle
        if id(particle) in seen:
            return None
        seen.add(id(particle))
        if isinstance(particle, Repeat):
            return self._impossible(particle.item, seen) if particle.least else None
        if isinstance(particle, All):
            items = [item for item, least, _ in particle.items if least]
        else:
            items = list(particle.items)
        return next((found for item in items if (found := self._impossible(item, seen)) is not None), None)

    # -- elements
    def _rule(self, key: Key, depth: int | None) -> int:
        found = self.rules.get((key, depth))
        if found is None:
            name = self.model.forms[key][0].name if self.model.forms[key] else "element"
            found = self.rules[key, depth] = self.b.rule(f"<{name}>#{len(self.rules)}")
            self.todo.append((key, depth))
        return found

    def _form(self, form: Form, depth: int | None, *, root: bool) -> int:
        b, prefixes = self.b, self.model.prefixes
        tag = prefixes.element(form.name)
        head = [b.literal(f"<{tag}".encode())]
        if root:
            for name, value in prefixes.declarations():
                head.append(b.literal(f' {name}="{escape(value, attribute=True)}"'.encode()))
        if form.xsi_type is not None:
            namespace, _, local = form.xsi_type.rpartition("}")
            value = prefixes.qname(namespace.removeprefix("{"), local)
            head.append(b.literal(f' {prefixes.attribute(f"{{{XSI}}}type")}="{value}"'.encode()))
        if form.nil:
            head.append(b.literal(f' {prefixes.attribute(f"{{{XSI}}}nil")}="true"'.encode()))
        head.append(self._attributes(form))
        content, may_be_empty = (b.EMPTY, True) if form.nil else self._content(form, depth)
        ends = [b.literal(b"/>")] if may_be_empty else []
        if content != b.EMPTY:
            ends.append(b.concat([b.literal(b">"), content, b.literal(f"</{tag}>".encode())]))
        return b.concat([*head, b.union(ends) if ends else b.EMPTY])

    def _attributes(self, form: Form) -> int:
        b = self.b
        items: list[tuple[int, int, int | None]] = []
        for attribute in form.attributes:
            if attribute.fixed is None:
                value = self.value.texts(attribute.type)
                if not attribute.required and self._is_empty(value):
                    continue
            else:
                value = self.value.writer.literal(self.value.value(attribute.type, *attribute.fixed).encode())
            name = self.model.prefixes.attribute(attribute.name)
            written = b.concat([b.literal(f' {name}="'.encode()), value, b.literal(b'"')])
            items.append((written, int(attribute.required), 1))
        if self.options.attribute_order == "any":
            some, may_be_empty = self._any_order(items, f"{form.path}/@*", "attribute_order")
            return b.union([some, b.EPSILON]) if may_be_empty else some
        return b.concat([e if required else b.repeat(e, 0, 1) for e, required, _ in items])

    # -- content
    def _content(self, form: Form, depth: int | None) -> Pair:
        b, content = self.b, form.content
        if isinstance(content, Text):
            if content.fixed is None:
                return self.text.some_text(content.type)
            value = self.text.value(content.type, *content.fixed)
            return (self.text.writer.literal(value.encode()), False) if value else (b.EMPTY, True)
        if content.mixed:
            text = self.text.any_text(0)
            some, may_be_empty = self._pair(content.particle, _Place(None, text))
            after = b.union([some, b.EPSILON]) if may_be_empty else some
            begun = b.concat([self.text.any_text(1), after])
            return b.union([begun, some]), may_be_empty
        in_lines = depth is not None and depth < self.options.max_indented_depth
        some, may_be_empty = self._pair(content.particle, _Place(depth + 1 if depth is not None and in_lines else None))
        if depth is not None and in_lines and some != b.EMPTY:
            some = b.concat([some, self._line(depth)])
        return some, may_be_empty

    def _line(self, depth: int) -> int:
        return self.b.literal(b"\n" + b" " * (self.options.indent * depth))

    def _pair(self, particle: Particle, place: _Place) -> Pair:
        key = id(particle), place.depth, place.after
        found = self.pairs.get(key)
        if found is None:
            spend(10 + _parts(particle))
            found = self.pairs[key] = self._made_pair(particle, place)
        return found

    def _made_pair(self, particle: Particle, place: _Place) -> Pair:
        b = self.b
        if isinstance(particle, Element):
            if particle.key not in self.productive:
                return b.EMPTY, False
            parts = [] if place.depth is None else [self._line(place.depth)]
            parts.append(self._rule(particle.key, place.depth))
            parts += [] if place.after is None else [place.after]
            return b.concat(parts), False
        if isinstance(particle, Repeat):
            some, may_be_empty = self._pair(particle.item, place)
            if particle.some:
                return some, False
            if some == b.EMPTY:
                return b.EMPTY, may_be_empty or particle.least == 0
            # An empty iteration counts as one, but not every validator counts it, so all iterations are written.
            bound = -1 if particle.most is None else particle.most
            return b.repeat(some, max(particle.least, 1), bound), may_be_empty or particle.least == 0
        if isinstance(particle, All):
            items = []
            for item, least, most in particle.items:
                some, may_be_empty = self._pair(item, place)
                items.append((some, 0 if may_be_empty else least, most))
            return self._any_order(items, particle.path, "all_order")
        pairs = [self._pair(item, place) for item in particle.items]
        if isinstance(particle, Choice):
            return b.union([some for some, _ in pairs]) if pairs else b.EMPTY, any(empty for _, empty in pairs)
        return self._sequence(pairs)

    def _sequence(self, pairs: Sequence[Pair]) -> Pair:
        b = self.b
        # One alternative for each item that may come first. They share the parts that follow.
        firsts: list[int] = []
        empty, after = True, b.EPSILON
        for item, may_be_empty in reversed(pairs):
            begun = b.concat([item, after])
            if not may_be_empty:
                firsts.clear()
            firsts.append(begun)
            empty = empty and may_be_empty
            after = b.concat([b.repeat(item, 0, 1), after]) if may_be_empty else begun
        return b.union(firsts) if firsts else b.EMPTY, empty

    def _any_order(self, items: Sequence[tuple[int, int, int | None]], path: str, option: str) -> Pair:
        """Each item ``least`` to ``most`` times, in any order. There is a state for each multiset written so far.

        If there is no ``most``, counts beyond ``least`` do not matter. States with the same future are merged.
        """
        b = self.b
        items = [(e, least, most) for e, least, most in items if e != b.EMPTY or least]
        known: dict[tuple[int, ...], Pair] = {}

        def after(counts: tuple[int, ...]) -> Pair:
            found = known.get(counts)
            if found is not None:
                return found
            if len(known) >= self.options.max_orders:
                raise XmlSchemaLimitError(
                    f"{len(items)} members in any order are more than {self.options.max_orders:,} states; set "
                    f"{option}='declared' or raise max_orders",
                    path=path,
                )
            parts = []
            for i, (e, least, most) in enumerate(items):
                if most is not None and counts[i] == most:
                    continue
                more = counts[i] + 1 if most is not None or counts[i] < least else counts[i]
                if more == counts[i]:  # once more and as often as wanted
                    parts.append((e, counts))
                else:
                    parts.append((e, (*counts[:i], more, *counts[i + 1 :])))
            done = all(counts[i] >= least for i, (_, least, _) in enumerate(items))
            if any(to == counts for _, to in parts):  # repeatable parts come before the others
                loop = b.repeat(b.union([e for e, to in parts if to == counts]), 0)
                rest = [self._then(e, after(to)) for e, to in parts if to != counts]
                body = b.union([*rest, b.EPSILON]) if done else b.union(rest) if rest else b.EMPTY
                again = b.concat([loop, body])
                some = b.union([b.concat([b.union([e for e, to in parts if to == counts]), again]), *rest])
                made: Pair = (some, done)
            else:
                found_parts = [self._then(e, after(to)) for e, to in parts]
                made = (b.union(found_parts) if found_parts else b.EMPTY, done)
            known[counts] = made
            return made

        return after((0,) * len(items))

    def _then(self, e: int, rest: Pair) -> int:
        some, empty = rest
        return self.b.concat([e, self.b.union([some, self.b.EPSILON]) if empty else some])


def _parts(particle: Particle) -> int:
    return 1 if isinstance(particle, Element | Repeat) else len(particle.items)


def _elements(root: Particle) -> set[Key]:
    """The elements of a particle."""
    found: set[Key] = set()
    stack, seen = [root], {id(root)}
    while stack:
        particle = stack.pop()
        if isinstance(particle, Element):
            found.add(particle.key)
            continue
        if isinstance(particle, Repeat):
            parts: Iterable[Particle] = (particle.item,)
        elif isinstance(particle, All):
            parts = (item for item, _, _ in particle.items)
        else:
            parts = particle.items
        for part in parts:
            if id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return found
