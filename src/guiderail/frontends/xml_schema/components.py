"""From the components of a schema, as ``xmlschema`` has them, to a :class:`Model`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from guiderail.errors import CompileError, LimitError
from guiderail.frontends.xml_schema.errors import XmlSchemaError, XmlSchemaLimitError, at_path
from guiderail.frontends.xml_schema.facets import MOST_COUNT, beyond, holds_names, nests_lists, steps
from guiderail.frontends.xml_schema.iterations import read_alike
from guiderail.frontends.xml_schema.model import (
    HOLDS_NOTHING,
    NOTHING,
    All,
    Attribute,
    Children,
    Choice,
    Content,
    Element,
    Form,
    Key,
    Model,
    Note,
    Particle,
    Repeat,
    Seq,
    Text,
)
from guiderail.frontends.xml_schema.namespaces import VERSIONS, XML, XSD, XSI, Prefixes, split_name
from guiderail.frontends.xml_schema.options import XmlSchemaOptions
from guiderail.frontends.xml_schema.simple_types import (
    approximations,
    check_patterns,
    keeps,
    namespaces_of_values,
    unsupported,
)
from guiderail.frontends.xml_schema.source import place_of
from guiderail.support.callers import outside
from guiderail.support.suggestions import suggestion
from guiderail.support.work import spend

__all__ = ["read_schema"]

_BUILT_IN = (XSD, XSI, XML, VERSIONS)
_LEVEL = 20  # steps to compare a type with each of those it is derived from


def read_schema(schema: Any, options: XmlSchemaOptions, roots: tuple[str, ...]) -> Model:
    """Returns what the documents of a schema may contain.

    Args:
        schema: a built schema object of ``xmlschema``.
        options: how it is read.
        roots: names of the possible root elements; empty: all global elements of the schema itself.

    Raises:
        XmlSchemaError: the schema needs what cannot be enforced, or has no such root.
    """
    reader = _Reader(schema, options)
    return reader.model(reader.roots(roots))


class _Reader:
    def __init__(self, schema: Any, options: XmlSchemaOptions) -> None:
        self.schema, self.maps, self.options = schema, schema.maps, options
        self.forms: dict[Key, list[Form]] = {}
        self.todo: list[tuple[Key, Any, str]] = []
        self.notes: dict[Note, None] = {}
        self.namespaces: tuple[set[str], set[str], set[str]] = (set(), set(), set())  # elements, attributes, values
        self.imports_xml = any(XML in one.imports for one in self._schemas())

    def _schemas(self) -> Iterator[Any]:
        """The schemas that the user gave, not those of the library: the first one, and the others, which are a set."""
        others = [one for one in self.maps.schemas if one.target_namespace not in _BUILT_IN and one is not self.schema]
        yield self.schema
        yield from sorted(others, key=lambda one: (one.target_namespace, one.source.get_text()))

    def model(self, roots: list[Any]) -> Model:
        keys = [self.key(root, "/" + root.local_name) for root in roots]
        while self.todo:
            key, declaration, path = self.todo.pop()
            self.forms[key] = self._free(key) if declaration is None else list(self._forms(declaration, path))
        elements, attributes, values = self.namespaces
        preferred = [pair for one in self._schemas() for pair in one.namespaces.items()]
        home = split_name(roots[0].name)[0]
        prefixes = Prefixes(home, elements, attributes, values, preferred)
        return Model(keys, self.forms, prefixes, list(self.notes))

    def roots(self, names: tuple[str, ...]) -> list[Any]:
        known = {name: element for name, element in self.maps.elements.items() if split_name(name)[0] not in _BUILT_IN}
        own = [n for n, e in known.items() if not e.abstract and split_name(n)[0] == self.schema.target_namespace]
        if not names:
            if not own:
                raise XmlSchemaError("the schema has no global element that could be the root", code="xml-root")
            return [known[name] for name in own]
        found = []
        for name in names:
            prefix, colon, local = name.rpartition(":")
            full = name
            if not name.startswith("{"):
                namespace = self.schema.namespaces.get(prefix, "") if colon else self.schema.target_namespace
                full = f"{{{namespace}}}{local}" if namespace else local
            if full not in known or known[full].abstract:
                there = sorted(split_name(n)[1] for n in own)
                problem = "is abstract" if full in known else "is not a global element"
                hint = (
                    f"there are {', '.join(there) or 'none'}" if full in known else suggestion(local, there or ["none"])
                )
                raise XmlSchemaError(f"{name!r} {problem}; {hint}", code="xml-root")
            found.append(known[full])
        return found

    # -- notes
    def note(self, path: str, component: str, status: str, detail: str) -> None:
        self.notes[Note(path, component, status, detail)] = None

    def unsupported(self, component: Any, path: str, what: str, reason: str, *, optional: bool = False) -> bool:
        """Rejects what cannot be enforced, or says whether it is written nevertheless."""
        mode = self.options.on_unsupported
        if mode == "omit" and optional:
            self.note(path, what, "approximated", f"left out: {reason}")
            return False
        if mode in ("error", "omit"):
            source, span = place_of(component)
            way = "on_unsupported='omit' leaves it out, " if optional else ""
            raise XmlSchemaError(
                f"{what} cannot be enforced: {reason}; {way}on_unsupported='warn' writes it unchecked",
                code="xml-unsupported",
                path=path,
                source=source,
                span=span,
            )
        if mode == "warn":
            warnings.warn(f"{path}: {what} is not enforced: {reason}", UserWarning, stacklevel=outside())
        self.note(path, what, "ignored", reason)
        return True

    def simple(self, simple: Any, component: Any, path: str, *, optional: bool = False) -> bool:
        """Examines a simple type before it is written. False: leave it out."""
        wrong = check_patterns(simple)
        if wrong is not None:
            raise XmlSchemaError(
                f"a pattern cannot be read: {wrong.message}",
                code="xml-pattern",
                path=path,
                source=wrong.source,
                span=wrong.span,
            )
        if nests_lists(simple):
            source, span = place_of(component)
            raise XmlSchemaError("not a valid XML Schema: a list of lists", path=path, source=source, span=span)
        large = beyond(simple)
        if large is not None:
            name, facet, reason = large
            source, span = place_of(facet)
            raise XmlSchemaLimitError(f"xs:{name}: {reason}", code="number-size", path=path, source=source, span=span)
        for reason in unsupported(simple):
            if not self.unsupported(component, path, f"the type {_name(simple)}", reason, optional=optional):
                return False
        for reason in approximations(simple):
            self.note(path, f"the type {_name(simple)}", "approximated", reason)
        if holds_names(simple):
            self.namespaces[2].update(set(component.schema.namespaces.values()).difference(_BUILT_IN))
            self.namespaces[2].update(namespaces_of_values(simple, component))
        return True

    # -- elements
    def key(self, declaration: Any, path: str) -> Key:
        """The key of a declaration. Equal declarations share it."""
        spend(20)
        kind = declaration.type
        key = (
            declaration.name, id(kind), declaration.nillable, declaration.fixed, str(declaration.block),
            tuple(id(one) for one in declaration.identities), bool(declaration.alternatives),
        )  # fmt: skip
        if key not in self.forms:
            self.forms[key] = []
            self.todo.append((key, declaration, path))
            self.namespaces[0].add(split_name(declaration.name)[0])
        return key

    def element(self, particle: Any, path: str) -> Particle:
        """A declaration or reference, with the elements that may substitute for it."""
        head = particle.ref if particle.ref is not None else particle
        found = [] if head.abstract else [head]
        if particle.ref is not None or head.parent is None:
            others = sorted(self._substitutes(head), key=lambda one: str(one.name))  # they come as a set
            found += [one for one in others if _may_replace(one, head)]
        spend(30 * len(found))
        items = tuple(Element(self.key(one, f"{path}/{one.local_name}")) for one in dict.fromkeys(found))
        return items[0] if len(items) == 1 else Choice(items)

    def _substitutes(self, head: Any) -> Iterator[Any]:
        """The elements that may be written in place of one: the library's own list takes a step for each level."""
        found: dict[Any, None] = {}
        waiting = [head]
        while waiting:
            members = self.maps.substitution_groups.get(waiting.pop().name, ())
            spend(20 + 20 * len(members))
            for one in members:
                if one not in found:
                    found[one] = None
                    waiting.append(one)
        return (one for one in found if not one.abstract)

    def _forms(self, declaration: Any, path: str) -> Iterator[Form]:
        for identity in declaration.identities:
            what = f"{split_name(identity.elem.tag)[1]} {identity.local_name!r}"
            self.unsupported(identity, path, f"xs:{what}", "values are compared across elements")
        if declaration.alternatives:
            self.unsupported(declaration, path, "xs:alternative", "its tests are programs in XPath")
        name, declared = declaration.name, declaration.type
        for kind in self._types(declaration, path):
            xsi_type = None if kind is declared else kind.name
            if xsi_type is not None:
                self.namespaces[1].add(XSI)
                self.namespaces[2].add(split_name(xsi_type)[0])
            attributes = self._attributes(kind, declaration, path)
            yield Form(name, attributes, self._content(kind, declaration, path), path, xsi_type)
            if declaration.nillable and declaration.fixed is None:
                self.namespaces[1].add(XSI)
                yield Form(name, attributes, NOTHING, path, xsi_type, nil=True)

    def _types(self, declaration: Any, path: str) -> Iterator[Any]:
        declared = declaration.type
        abstract = declared.is_complex() and declared.abstract
        if not abstract:
            yield declared
        derived = [] if declared.name == f"{{{XSD}}}anyType" else list(self._derived(declaration))
        if abstract or self.options.xsi_types:
            yield from derived
        elif derived:
            self.note(path, "xsi:type", "approximated", "derived types are not offered; xsi_types=True offers them")

    def _derived(self, declaration: Any) -> Iterator[Any]:
        declared = declaration.type
        blocked = set(f"{declaration.block or ''} {getattr(declared, 'block', '') or ''}".split())
        for kind in self._below(declared) if declared.is_complex() else self._own_types:
            spend(20 + _LEVEL * (_levels(kind) if blocked else 0))
            if kind is declared or getattr(kind, "abstract", False):
                continue
            derived = declared.is_complex() or _is_derived(kind, declared)
            if derived and not _is_blocked(kind, declared, blocked) and _keeps_fixed(kind, declaration):
                yield kind

    @cached_property
    def _own_types(self) -> list[Any]:
        """The named types of the schemas, in their order."""
        return [kind for name, kind in self.maps.types.items() if split_name(name)[0] not in _BUILT_IN]

    @cached_property
    def _derivations(self) -> dict[Any, list[int]]:
        """By complex types, the places in `_own_types` of those derived from them in one step, or redefined."""
        found: dict[Any, list[int]] = {}
        for at, kind in enumerate(self._own_types):
            base = kind.base_type if kind.is_complex() else None
            while base is not None:
                found.setdefault(base, []).append(at)
                base = base.base_type if base.name == kind.name else None
        return found

    def _below(self, declared: Any) -> list[Any]:
        """The named types derived from a complex type, in any number of steps."""
        found: set[int] = set()
        waiting = [declared]
        while waiting:
            more = [at for at in self._derivations.get(waiting.pop(), ()) if at not in found]
            found.update(more)
            waiting += [self._own_types[at] for at in more]
        return [self._own_types[at] for at in sorted(found)]

    def _content(self, kind: Any, declaration: Any, path: str) -> Content:
        fixed = None if declaration.fixed is None else (declaration.fixed, declaration.schema)
        content = kind.content if kind.is_complex() else kind
        if not hasattr(content, "model"):
            self.simple(content, declaration, path)
            return Text(content, fixed)
        for assertion in getattr(kind, "assertions", ()):
            self.unsupported(assertion, path, "xs:assert", "assertions are programs in XPath")
        if getattr(kind, "open_content", None) is not None and kind.open_content.mode != "none":
            self.note(path, "xs:openContent", "approximated", "no other elements are written than the declared ones")
        if fixed is not None:
            return Text(self.maps.types[f"{{{XSD}}}string"], fixed)
        try:
            return Children(self._particle(content, path), kind.mixed)
        except LimitError as error:
            raise at_path(error, path) from None

    # -- particles
    def _particle(self, particle: Any, path: str) -> Particle:
        spend(50)
        if particle.max_occurs == 0:
            return Seq(())
        if not hasattr(particle, "model"):
            found = self._wildcard(particle, path) if particle.name is None else self.element(particle, path)
        elif particle.model == "all" and self.options.all_order == "any":
            found = All(tuple(self._members(particle, path)), path)
        else:
            if particle.model == "all":
                self.note(path, "xs:all", "approximated", "members are written in their declared order")
            # A particle that occurs 0 times is no component (XSD 1.1, 3.9.2): a choice does not hold it.
            items = tuple(self._particle(item, path) for item in particle if item.max_occurs != 0)
            found = Choice(items) if particle.model == "choice" else items[0] if len(items) == 1 else Seq(items)
        least, most = self._occurs(particle, path)
        alike = read_alike(found, least, most)
        if alike is not None:
            detail = "repetitions that run into each other are written out in full"
            self.note(path, f"xs:{particle.model}", "approximated", detail)
            return alike
        return found if (least, most) == (1, 1) else Repeat(found, least, most)

    def _occurs(self, particle: Any, path: str) -> tuple[int, int | None]:
        least, most = particle.min_occurs, particle.max_occurs
        if max(least, most or 0) > MOST_COUNT:
            source, span = place_of(particle)
            raise XmlSchemaLimitError(
                f"more than {MOST_COUNT:,} occurrences cannot be counted; use a smaller number, or 'unbounded'",
                code="number-size",
                path=path,
                source=source,
                span=span,
            )
        if most is None and self.options.max_occurs is not None:
            most = max(self.options.max_occurs, least)
        return least, most

    def _members(self, group: Any, path: str) -> Iterator[tuple[Particle, int, int | None]]:
        for item in group:
            if item.max_occurs == 0:
                continue
            if hasattr(item, "model"):  # a group of its own, by reference: its members are ours
                yield from self._members(item, path)
                continue
            found = self._wildcard(item, path) if item.name is None else self.element(item, path)
            yield (found, *self._occurs(item, path))

    def _wildcard(self, wildcard: Any, path: str) -> Particle:
        """What ``xs:any`` may contain: elements that the schema declares, and those that the user named."""
        spend(20 * len(self.maps.elements))
        siblings = _declared_beside(wildcard) if self.options.version == "1.1" else set()
        items: list[Particle] = []
        for name, declaration in self.maps.elements.items():
            if split_name(name)[0] in _BUILT_IN or declaration.abstract or name in siblings:
                continue
            if wildcard.is_matching(name):
                items.append(Element(self.key(declaration, f"{path}/{declaration.local_name}")))
        if wildcard.process_contents != "strict":
            for name in self.options.wildcard_names:
                if name not in self.maps.elements and name not in siblings and wildcard.is_matching(name):
                    items.append(Element(self._free_key(name)))
        detail = "it holds elements that the schema declares"
        if wildcard.process_contents != "strict":
            detail += ", and those of wildcard_names"
        self.note(path, "xs:any", "approximated", detail if items else HOLDS_NOTHING)
        return Choice(tuple(items))

    def _free_key(self, name: str) -> Key:
        key = ("free", name)
        if key not in self.forms:
            self.forms[key] = []
            self.todo.append((key, None, ""))
            self.namespaces[0].add(split_name(name)[0])
        return key

    def _free(self, key: Any) -> list[Form]:
        """An element that no schema declares. It contains text and other such elements."""
        _, name = key
        others = [one for one in self.options.wildcard_names if one not in self.maps.elements]
        items = Choice(tuple(Element(self._free_key(one)) for one in others))
        return [Form(name, (), Children(Repeat(items, 0, None), True), split_name(name)[1])]

    # -- attributes
    def _attributes(self, kind: Any, declaration: Any, path: str) -> tuple[Attribute, ...]:
        spend(30 * (1 + len(getattr(kind, "attributes", ()))))
        found: list[Attribute] = []
        if not kind.is_complex():
            return ()
        for name, attribute in kind.attributes.items():
            if name is None:
                known = {name for name in kind.attributes if name is not None}
                found += self._any_attribute(attribute, known, path)
            elif attribute.use != "prohibited":
                made = self._attribute(attribute, f"{path}/@{split_name(name)[1]}", attribute.use == "required")
                found += [made] if made is not None else []
        return tuple(found)

    def _attribute(self, attribute: Any, path: str, required: bool) -> Attribute | None:
        fixed = None if attribute.fixed is None else (attribute.fixed, attribute.schema)
        if not self.simple(attribute.type, attribute, path, optional=not required):
            return None
        self.namespaces[1].add(split_name(attribute.name)[0])
        return Attribute(attribute.name, attribute.type, required, fixed)

    def _any_attribute(self, wildcard: Any, known: set[str], path: str) -> list[Attribute]:
        found = []
        for name, attribute in self.maps.attributes.items():
            namespace = split_name(name)[0]
            if namespace in (XSD, XSI, VERSIONS) or (namespace == XML and not self.imports_xml) or name in known:
                continue
            if wildcard.is_matching(name) and not unsupported(attribute.type):
                made = self._attribute(attribute, f"{path}/@{split_name(name)[1]}", False)
                found += [made] if made is not None else []
        self.note(path, "xs:anyAttribute", "approximated", "it stands for the global attributes of the schema")
        return found


def _name(simple: Any) -> str:
    return split_name(simple.name)[1] if simple.name else "without a name"


def _levels(kind: Any) -> int:
    """The steps from a complex type to the one that all are derived from."""
    levels = 0
    while kind.is_complex() and kind.base_type is not None and kind.base_type is not kind:
        kind, levels = kind.base_type, levels + 1
    return levels


def _is_derived(kind: Any, declared: Any) -> bool:
    if kind.is_complex():
        return bool(kind.is_derived(declared))
    return declared.is_simple() and any(step is declared for step in steps(kind))


def _keeps_fixed(kind: Any, declaration: Any) -> bool:
    """Whether an element of a derived type may still have the value that its declaration fixes."""
    derived, declared = (one.content if one.is_complex() else one for one in (kind, declaration.type))
    if declaration.fixed is None or hasattr(derived, "model") or hasattr(declared, "model"):
        return True
    return keeps(derived, declared, declaration.fixed, declaration.schema)


def _is_blocked(kind: Any, declared: Any, blocked: Iterable[str]) -> bool:
    return any(way in blocked and kind.is_derived(declared, way) for way in ("extension", "restriction"))


def _may_replace(element: Any, head: Any) -> bool:
    blocked = set((head.block or "").split())
    if "substitution" in blocked:
        return False
    blocked |= set((getattr(head.type, "block", "") or "").split())
    return element.type is head.type or not _is_blocked(element.type, head.type, blocked)


def _declared_beside(wildcard: Any) -> set[str]:
    """Names of the elements in the same content model; XML Schema 1.1 attributes them to their declarations."""
    group = wildcard.parent
    while getattr(group, "parent", None) is not None and hasattr(group.parent, "model"):
        group = group.parent
    found: set[str] = set()
    if hasattr(group, "iter_elements"):
        for one in group.iter_elements():
            if one.name is not None:
                found.add(one.name)
                found.update(other.name for other in one.iter_substitutes())
    return found


def check_names(names: tuple[str, ...]) -> None:
    """Raises an error if an entry of ``wildcard_names`` is not a name."""
    from guiderail._core import CharSet
    from guiderail.frontends.xml_schema.characters import name_chars, name_starts

    colon = CharSet([(58, 58)])
    starts, chars = name_starts() - colon, name_chars() - colon
    for name in names:
        _, local = split_name(name)
        if not local or ord(local[0]) not in starts or not all(ord(c) in chars for c in local):
            raise CompileError(
                f"wildcard_names: {name!r} is not a name; write 'local' or '{{namespace}}local'", code="bad-xml-option"
            )
