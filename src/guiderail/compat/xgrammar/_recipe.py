"""The source of a grammar: enough to build its constraint again, for another tokenizer or in another process."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from guiderail.compat._errors import CompatError, CompatTypeError, raised_as
from guiderail.constraints.constraint import AnyOf, Constraint, sequence
from guiderail.support.nesting import nested
from guiderail.support.numerals import read_integer
from guiderail.support.options import check_flag, check_integer
from guiderail.support.texts import shown

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["Recipe", "combined", "schema_recipe"]

NO_BOUND = 2**31 - 1
"""Maximum characters of whitespace at one position, where XGrammar sets no bound."""

_BELL = re.compile(r"\\.", re.DOTALL)
_BELLS = {r"\a": r"\x07", r"\e": r"\x1b"}  # escapes of XGrammar's that ECMAScript lacks
_ANY_JSON = {"layout": "free", "escapes": "all", "max_whitespace": NO_BOUND, "property_order": "declared"}
_REFERENCE = re.compile(r"@([A-Za-z_][\w-]*)")
_TESTS = ("not", "if", "contains", "oneOf")


_OPTIONS: dict[str, tuple[str, ...]] = {
    "ebnf": ("root",), "schema": (), "regex": (), "lark": ("names",), "structural_tag": (), "json": (), "concat": (),
    "union": (),
}  # fmt: skip
"""The kinds of recipes, with the options that each must have; those of schemas have defaults."""

_COMBINED = ("concat", "union")


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """One way to make a grammar.

    A grammar may be a part of another twice on each of forty levels, or be joined to others in a loop. So no method
    recurs into parts that are combined, and each visits a part once, however many paths lead to it.

    Attributes:
        kind: ``"ebnf"``, ``"schema"``, ``"regex"``, ``"lark"``, ``"structural_tag"``, ``"json"``, ``"concat"``,
            ``"union"``.
        text: a grammar, a schema or tag as JSON, or a pattern.
        options: the options of this kind.
        parts: the grammars combined, or those that a Lark grammar names; their names are ``options["names"]``.
    """

    kind: str
    text: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    parts: tuple[Recipe, ...] = field(default=())
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((*self._own(), *self.parts)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        known: set[tuple[int, int]] = set()
        left = [(self, other)]
        while left:
            one, two = left.pop()
            if one is two or (id(one), id(two)) in known:
                continue
            if one._hash != two._hash or one._own() != two._own():
                return False
            known.add((id(one), id(two)))
            left += zip(one.parts, two.parts, strict=True)
        return True

    def _own(self) -> tuple[Any, ...]:
        """What it consists of, without its parts."""
        return self.kind, self.text, self.options, len(self.parts)

    def _in_order(self, kinds: Collection[str]) -> list[Recipe]:
        """This recipe and the parts of recipes of these kinds, at any depth: each once, after its own parts."""
        order: dict[int, Recipe] = {}
        left = [(self, False)]
        while left:
            one, done = left.pop()
            if done:
                order.setdefault(id(one), one)
            elif id(one) not in order:
                left.append((one, True))
                left += [(part, False) for part in reversed(one.parts) if one.kind in kinds]
        return list(order.values())

    def constraint(self, vocabulary: Vocabulary | None = None) -> Constraint:
        """Builds the constraint. Tokens that a structural tag or a Lark grammar names are those of ``vocabulary``.

        Raises:
            CompatError: the text cannot be read; the message says where and why.
        """
        with raised_as(), nested("the grammar"):
            return self._built(vocabulary, {})

    def _built(self, vocabulary: Vocabulary | None, built: dict[int, Constraint]) -> Constraint:
        """The constraint. ``built`` has those of parts that are built already, by identity."""
        for one in self._in_order(_COMBINED):
            if id(one) in built:
                continue
            if one.kind in _COMBINED:
                built[id(one)] = combined(one.kind, [built[id(part)] for part in one.parts])
            elif one.kind == "lark":
                built[id(one)] = one._lark(vocabulary, built)
            else:
                built[id(one)] = getattr(one, f"_{one.kind}")(vocabulary, dict(one.options))
        return built[id(self)]

    def _ebnf(self, vocabulary: Vocabulary | None, options: dict[str, Any]) -> Constraint:
        from guiderail.frontends.grammar import grammar

        return grammar(self.text, syntax="gbnf", start=options["root"])

    def _schema(self, vocabulary: Vocabulary | None, options: dict[str, Any]) -> Constraint:
        from guiderail.compat._schema import spelled_schema
        from guiderail.frontends.json_schema.constraint import read_schema

        schema = read_schema(self.text)
        if options["strict_mode"]:
            schema = _strict(schema)
        return spelled_schema(schema, closed=options["strict_mode"], **_layout(options))

    def _json(self, vocabulary: Vocabulary | None, options: dict[str, Any]) -> Constraint:
        from guiderail.compat._schema import spelled_schema

        return spelled_schema({"type": ["object", "array"]}, layout="free", max_whitespace=NO_BOUND)

    def _regex(self, vocabulary: Vocabulary | None, options: dict[str, Any]) -> Constraint:
        from guiderail.frontends.regex import regex

        return regex(_BELL.sub(lambda found: _BELLS.get(found[0], found[0]), self.text), dialect="ecma")

    def _lark(self, vocabulary: Vocabulary | None, built: dict[int, Constraint]) -> Constraint:
        from guiderail.frontends.grammar import grammar

        named = dict(zip(dict(self.options)["names"], self.parts, strict=True))
        made: dict[str, Constraint] = {}

        def read(text: str, around: tuple[str, ...]) -> Constraint:
            wanted = dict.fromkeys(name for name in _REFERENCE.findall(text) if name in named)
            parts = {name: one(name, around) for name in wanted}
            return grammar(text, syntax="lark", constraints=parts, schema_options=_ANY_JSON)

        def one(name: str, around: tuple[str, ...]) -> Constraint:
            if name in around:
                path = " -> ".join(f"@{step}" for step in (*around, name))
                raise CompatError(
                    f"named grammars refer to themselves: {path}; make them rules of one grammar", code="compat-named"
                )
            if name not in made:
                part = named[name]
                if part.kind == "lark" and not part.parts:  # a text may name the others
                    made[name] = read(part.text, (*around, name))
                else:
                    made[name] = part._built(vocabulary, built)
            return made[name]

        return read(self.text, ())

    def asks_for(self, attribute: str) -> bool:
        """Whether a Lark grammar in it sets an attribute of a rule, judged by its text."""
        sets = re.compile(rf"\[[^\]\n]*\b{attribute}\b")
        return any(one.kind == "lark" and sets.search(one.text) for one in self._in_order(_OPTIONS))

    def _structural_tag(self, vocabulary: Vocabulary | None, options: dict[str, Any]) -> Constraint:
        from guiderail.frontends.tools import structural_tag

        return structural_tag(
            _strict_tag(json.loads(self.text, parse_int=read_integer)),
            vocabulary=vocabulary,
            closed=True,
            max_whitespace=NO_BOUND,
            layout="free",
            escapes="all",
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Returns JSON that :meth:`from_json` reads: all recipes, parts first; a part is a position in this list."""
        order = self._in_order(_OPTIONS)
        position = {id(one): at for at, one in enumerate(order)}
        return [
            {
                "kind": one.kind,
                "text": one.text,
                "options": dict(one.options),
                "parts": [position[id(part)] for part in one.parts],
            }
            for one in order
        ]

    @classmethod
    def from_json(cls, data: Any) -> Recipe:
        """Reads the result of :meth:`to_json`.

        Raises:
            KeyError, TypeError, ValueError: the text is something else.
        """
        if not isinstance(data, list) or not data:
            raise ValueError(f"the recipes must be a list, not {shown(data)}")
        read: list[Recipe] = []
        for one in data:
            read.append(cls._read(one, read))
        return read[-1]

    @classmethod
    def _read(cls, data: Any, before: list[Recipe]) -> Recipe:
        kind, text, options = data["kind"], data["text"], data["options"]
        if not isinstance(kind, str) or kind not in _OPTIONS:
            raise ValueError(f"there is no grammar of the kind {shown(kind)}")
        if not isinstance(text, str):
            raise TypeError(f"the text of a grammar must be a string, not {shown(text)}")
        if kind == "schema":
            return schema_recipe(text, **options)
        if not isinstance(options, dict) or set(options) != set(_OPTIONS[kind]):
            raise ValueError(
                f"a grammar of the kind {kind} has the options {list(_OPTIONS[kind])}, not {shown(options)}"
            )
        at = data["parts"]
        if not all(type(one) is int and 0 <= one < len(before) for one in at):
            raise ValueError(f"the parts of a grammar must be positions before it, not {shown(at)}")
        parts = tuple(before[one] for one in at)
        if kind == "structural_tag":
            json.loads(text, parse_int=read_integer)
        if kind == "ebnf" and not isinstance(options["root"], str):
            raise TypeError(f"root must be the name of a rule, not {shown(options['root'])}")
        if kind == "lark" and not (_names(options["names"]) and len(options["names"]) == len(parts)):
            raise ValueError(f"names must name each part, not {shown(options['names'])}")
        return cls(
            kind, text, tuple((key, tuple(v) if isinstance(v, list) else v) for key, v in options.items()), parts
        )


def combined(kind: str, parts: Sequence[Constraint]) -> Constraint:
    """The constraint of a recipe of the kind ``"concat"`` or ``"union"``."""
    return sequence(*parts) if kind == "concat" else reduce(or_, parts, AnyOf(()))


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def schema_recipe(
    text: str,
    *,
    any_whitespace: bool = True,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    strict_mode: bool = True,
    max_whitespace_cnt: int | None = None,
    any_order: bool = False,
) -> Recipe:
    """The recipe of a JSON Schema with the options of ``compile_json_schema``, checked.

    Raises:
        CompatError: ``compat-option``: an option is out of range, or of another type.
    """
    switches = {"any_whitespace": any_whitespace, "strict_mode": strict_mode, "any_order": any_order}
    for name, switch in switches.items():
        check_flag(name, switch, error=CompatTypeError, code="compat-option")
    if separators is not None:
        pair = list(separators) if isinstance(separators, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(one, str) for one in pair):
            raise CompatTypeError(f"separators must be two strings, not {shown(separators)}", code="compat-option")
    given = {
        **switches,
        "indent": indent,
        "separators": None if separators is None else tuple(separators),
        "max_whitespace_cnt": max_whitespace_cnt,
    }
    for name, value, least in (("max_whitespace_cnt", max_whitespace_cnt, 1), ("indent", indent, 0)):
        check_integer(name, value, least, optional=True, error=CompatError, code="compat-option")
    return Recipe("schema", text, tuple(sorted(given.items())))


def _strict_tag(spec: Any) -> Any:
    """A structural tag whose schemas are in strict mode, as XGrammar reads them."""
    if isinstance(spec, dict) and "type" not in spec and ("format" in spec or "structures" in spec):
        spec = {"type": "structural_tag", **spec}

    def strict(part: Any) -> Any:
        if isinstance(part, list):
            return [strict(one) for one in part]
        if not isinstance(part, dict):
            return part
        schema = "schema" if "begin" in part else "json_schema"
        return {key: _strict(held) if key == schema else strict(held) for key, held in part.items()}

    return strict(spec)


def _layout(options: dict[str, Any]) -> dict[str, Any]:
    """The options of ``json_schema`` with the same meaning."""
    result: dict[str, Any] = {"property_order": "any" if options["any_order"] else "declared"}
    if options["any_whitespace"]:  # any layout is allowed, so indent and separators have no effect, as in XGrammar
        bound = options["max_whitespace_cnt"]
        return {**result, "layout": "free", "max_whitespace": NO_BOUND if bound is None else bound}
    indent, separators = options["indent"], options["separators"]
    result["separators"] = separators or ((", ", ": ") if indent is None else (",", ": "))
    if indent is None:
        return {**result, "layout": "spaced"}
    return {**result, "layout": "indented", "indent": indent}


_PLAIN = frozenset((*_TESTS, "const", "enum", "default", "examples", "required", "dependentRequired"))
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DEFINITIONS = ("$defs", "definitions")
_SAYS_NAMES = frozenset(("properties", "patternProperties", "required", "minProperties", "maxProperties",
                         "additionalProperties", "unevaluatedProperties", "dependentRequired", "dependentSchemas",
                         "allOf", "anyOf", "oneOf", "if", "not", "$ref", "$dynamicRef", "$recursiveRef"))  # fmt: skip


def _strict(schema: Any) -> Any:
    """Adds to a schema what XGrammar's strict mode means beyond ``closed=True``.

    An object without any keywords stays open: ``{"type": "object"}`` is any object. Required names count as declared,
    with any value. Arrays have no more items than ``prefixItems`` declares, unless the schema describes further ones.
    Schemas that only test a value are not changed. If a test refers to a definition, definitions are not changed
    either.
    """
    left = _DEFINITIONS if _tests_refer(schema, False) else ()
    return _strict_part(schema, left, False)


def _strict_part(part: Any, left: tuple[str, ...], joined: bool) -> Any:
    """Part of a schema; ``joined``: other schemas apply to the same value."""
    if isinstance(part, list):
        return [_strict_part(one, left, joined) for one in part]
    if not isinstance(part, dict):
        return part
    made = {}
    for keyword, held in part.items():
        if keyword in _NAMED:
            named = isinstance(held, dict) and keyword not in left
            made[keyword] = {n: _strict_part(one, left, False) for n, one in held.items()} if named else held
        elif keyword in _PLAIN:
            made[keyword] = held
        else:
            made[keyword] = _strict_part(held, left, keyword == "allOf" or (joined and keyword == "anyOf"))
    kinds = made.get("type")
    says_object = "object" in (kinds if isinstance(kinds, list) else [kinds]) or "propertyNames" in made
    if says_object and not joined and _SAYS_NAMES.isdisjoint(made):
        made["additionalProperties"] = True
    required, declared = made.get("required"), made.get("properties", {})
    if isinstance(required, list) and isinstance(declared, dict) and "additionalProperties" not in made:
        missing = {name: True for name in required if isinstance(name, str) and name not in declared}
        if missing:
            made["properties"] = {**declared, **missing}
    if isinstance(made.get("prefixItems"), list) and not ("items" in made or "unevaluatedItems" in made):
        made["items"] = False
    return made


def _tests_refer(part: Any, inside: bool) -> bool:
    """Whether a schema that only tests a value contains a reference, as far as the keywords show."""
    if isinstance(part, list):
        return any(_tests_refer(one, inside) for one in part)
    if not isinstance(part, dict):
        return False
    if inside and ("$ref" in part or "$dynamicRef" in part or "$recursiveRef" in part):
        return True
    return any(_tests_refer(held, inside or keyword in _TESTS) for keyword, held in part.items())
