"""GraphQL operations that are valid for a schema.

Conditions on types become a rule for each type: fields, their arguments, values, selections. One condition does not:
two fields with the same name in a selection must be the same field with the same arguments, even across fragments. So a
field with arguments or a selection comes at most once, in the order of the schema; leaves without arguments come in any
order. A fragment on a type contains only fields that cannot collide with those of other types and of the interface.
"""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint, literal
from guiderail.errors import CompileError
from guiderail.frontends.queries.service import COMPOSITE, Field, Service, Type, TypeRef, introspected
from guiderail.frontends.queries.symbols import WORD, Symbols
from guiderail.frontends.regex import regex
from guiderail.support.texts import shown

__all__ = ["GraphqlQuery", "graphql_query"]

_OPERATIONS = ("query", "mutation", "subscription")
_STRING = (
    r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))*"'
)


@dataclass(frozen=True, slots=True)
class GraphqlQuery(Constraint):
    """One operation that is valid for a schema; made by ``grammars.graphql(schema=…)``.

    Attributes:
        introspection: the schema, as a JSON text.
        operations: the kinds of operations that may be written.
    """

    introspection: str
    operations: tuple[str, ...]

    def _lower(self, b: _core.Builder) -> int:
        return _Operations(b, Service(self.introspection)).document(self.operations)

    def __repr__(self) -> str:
        return f"grammars.graphql(schema=<{len(Service(self.introspection).types)} types>)"


def graphql_query(schema: object, operations: object) -> GraphqlQuery:
    """Makes a constraint for operations of the service that a user describes.

    Raises:
        CompileError: ``query-schema``: the schema cannot be read; ``bad-option``: the service has no such operations.
        LimitError: ``query-schema-size``: it has too many fields.
    """
    text = introspected(schema)
    roots = Service(text).roots
    wanted = [operations] if isinstance(operations, str) else operations
    if wanted is None:
        wanted = ["query"] if "query" in roots else list(roots)
    if not isinstance(wanted, list | tuple) or not wanted or any(one not in _OPERATIONS for one in wanted):
        raise CompileError(
            f"operations must be some of {', '.join(_OPERATIONS)}, not {shown(operations)}", code="bad-option"
        )
    for one in wanted:
        if one not in roots:
            raise CompileError(f"the schema has no {one}; it has {', '.join(roots)}", code="bad-option")
    return GraphqlQuery(text, tuple(one for one in _OPERATIONS if one in wanted))


_TAKING = ("bad string", "bad number", "bad digits")


class _Operations:
    """Builds the grammar."""

    def __init__(self, b: _core.Builder, service: Service) -> None:
        self.b = b
        self.types = service.types
        self.roots = service.roots
        first = [
            ("bad string", literal('"""')),  # this begins a block string, not two adjacent strings
            ("bad number", regex(r"-?[0-9]+(?:[A-Za-z_]|\.[0-9]+[A-Za-z_.]|\.[0-9]{16,})")),
            ("float", regex(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}")),
            ("bad digits", regex(r"-?(?:0[0-9]+|[0-9]{10,})")),  # in a list, these would be two numbers
            ("int", regex(r"-?(?:0|[1-9][0-9]{0,8})")),
        ]
        self.s = s = Symbols(b, r"[_A-Za-z][_0-9A-Za-z]*", r"[ \t\n\r,]+", first, _TAKING)
        names = {*_OPERATIONS, "on", "true", "false", "null", "__typename", *self.types}
        for one in self.types.values():
            names |= {*one.values, *(field.name for field in one.fields)}
            names |= {argument.name for field in one.fields for argument in field.arguments}
        for name in sorted(names):
            s.add_word(name, [name])
        s.add("string", regex(_STRING))
        for text in ("...", *"{}()[]:"):
            s.add(text, literal(text))
        s.finish()
        self._selections: dict[tuple[str, frozenset[str]], int] = {}
        self._inputs: dict[str, int] = {}
        self._open_inputs: list[Type] = []
        self._kinds: dict[str, dict[str, set[str]]] = {}
        self._open: list[tuple[int, str, frozenset[str]]] = []

    # -- selections ------------------------------------------------------------------------------------------------
    def selection(self, name: str, without: frozenset[str] = frozenset()) -> int:
        """A selection of a type in braces, without some of its fields."""
        key = name, without
        if key not in self._selections:
            self._selections[key] = rule = self.b.rule(name)
            self._open.append((rule, name, without))
        return self._selections[key]

    def _selected(self, name: str, without: frozenset[str]) -> int:
        s, one = self.s, self.types[name]
        leaves: list[int] = [s.words(["__typename"])]
        once: list[int] = []
        for field in one.fields:
            if field.name in without:
                continue
            written = self._field(field)
            composite = self.types[field.type.named].kind in COMPOSITE
            (once if composite or field.arguments else leaves).append(written)
        once += [
            s.seq("...", "on", possible, self.selection(possible, self._colliding(one, possible)))
            for possible in (one.possible if one.kind in ("INTERFACE", "UNION") else ())
        ]
        leaf = s.alt(*leaves)
        some = s.star(leaf)
        ways: list[int] = []
        after: int = s.b.EPSILON
        for written in reversed(once):
            ways.append(s.seq(written, some, after))
            after = s.seq(s.opt(written, some), after)
        return s.seq("{", s.alt(s.seq(leaf, some, after), *ways), "}")

    def _colliding(self, of: Type, name: str) -> frozenset[str]:
        """Returns the fields of a type that a fragment on it must not contain: they could collide with others."""
        kinds = self._kinds.get(of.name)
        if kinds is None:
            kinds = self._kinds[of.name] = {field.name: {"", field.type.written} for field in of.fields}
            for possible in of.possible:
                for field in self.types[possible].fields:
                    kinds.setdefault(field.name, set()).add(field.type.written)
        return frozenset(field.name for field in self.types[name].fields if len(kinds[field.name]) > 1)

    def _field(self, field: Field) -> int:
        s = self.s
        parts = [s.words([field.name])]
        if field.arguments:
            parts.append(self._arguments(field.arguments))
        if self.types[field.type.named].kind in COMPOSITE:
            parts.append(self.selection(field.type.named))
        return s.seq(*parts)

    # -- values ----------------------------------------------------------------------------------------------------
    def _arguments(self, arguments: tuple[Field, ...]) -> int:
        """Arguments in the order of the schema; brackets only if there is one."""
        s = self.s
        written = [(s.seq(s.words([one.name]), ":", self.value(one.type)), one.needed) for one in arguments]
        some = s.seq("(", self._some(written), ")")
        return some if any(needed for _, needed in written) else s.opt(some)

    def _some(self, written: list[tuple[int, bool]]) -> int:
        """At least one of these in their order, including all that are required."""
        s = self.s
        ways: list[int] = []
        after: int = s.b.EPSILON
        for one, needed in reversed(written):
            if needed:
                ways = []  # no later one can come first
            ways.append(s.seq(one, after))
            after = s.seq(one if needed else s.opt(one), after)
        return s.alt(*ways)

    def value(self, of: TypeRef) -> int:
        """A literal value of a type."""
        s = self.s
        found = self._named(of.name) if of.item is None else s.seq("[", s.star(self.value(of.item)), "]")
        return found if of.required else s.alt(found, "null")

    def _named(self, name: str) -> int:
        s, one = self.s, self.types[name]
        if one.kind == "ENUM":
            return s.words(one.values)
        if one.kind == "INPUT_OBJECT":
            if name not in self._inputs:
                self._inputs[name] = self.b.rule(name)
                self._open_inputs.append(one)
            return self._inputs[name]
        scalars = {
            "Int": ["int"],
            "Float": ["int", "float"],
            "String": ["string"],
            "ID": ["string", "int"],
            "Boolean": ["true", "false"],
        }
        return s.alt(s.words(scalars.get(name, ["string", "int", "float", "true", "false"])), s.refused())

    def _input(self, one: Type) -> int:
        s = self.s
        members = [
            (s.seq(s.words([field.name]), ":", self.value(self._kept(field.type, one.one_of))), field.needed)
            for field in one.fields
        ]
        if one.one_of:
            return s.seq("{", s.alt(*(written for written, _ in members)), "}")
        inside = self._some(members)
        return s.seq("{", inside if any(needed for _, needed in members) else s.alt(s.b.EPSILON, inside), "}")

    @staticmethod
    def _kept(of: TypeRef, one_of: bool) -> TypeRef:
        """The only member of an object, which must not be null."""
        return TypeRef(of.name, True, of.item, of.written) if one_of else of

    # -- operations --------------------------------------------------------------------------------------------------
    def document(self, operations: tuple[str, ...]) -> int:
        s = self.s
        ways = []
        for kind in operations:
            root = self.roots[kind]
            selected = self.selection(root) if kind != "subscription" else self._single(root)
            ways.append(s.seq(kind, s.opt(s.symbol(WORD)), selected))
            if kind == "query":
                ways.append(selected)
        while self._open or self._open_inputs:  # each is defined outside of the others, however deep they nest
            if self._open:
                rule, name, without = self._open.pop()
                self.b.define(rule, self._selected(name, without))
            else:
                one = self._open_inputs.pop()
                self.b.define(self._inputs[one.name], self._input(one))
        return s.lexed(s.alt(*ways))

    def _single(self, root: str) -> int:
        """A selection of exactly one field, for subscriptions."""
        fields = [self._field(field) for field in self.types[root].fields]
        return self.s.seq("{", self.s.alt(*fields), "}")
