"""The targets of the differential fuzzer: random descriptions, each with a judge."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import escape

import guiderail as gr
import schema_generator
import schema_strategies


class Unjudged(Exception):
    """The judge makes no statement: the text may match, but guiderail need not write it in this way."""


@dataclass
class Case:
    description: Any  # JSON
    constraint: Callable[[], gr.Constraint]
    meaning: Callable[[str], bool]
    texts: Callable[[random.Random], list[str]]


def pieces(*some: str) -> Callable[[random.Random], list[str]]:
    return lambda rng: ["".join(rng.choice(some) for _ in range(rng.randrange(7))) for _ in range(6)]


# -- JSON Schema against jsonschema ---------------------------------------------------------------------------------
def schema(rng: random.Random, description: Any) -> Case:
    if description is None:
        description = schema_generator.schema(rng, rng.choice([2, 3, 3]))

    def texts(rng: random.Random) -> list[str]:
        values = [schema_generator.value(rng) for _ in range(12)]
        return [schema_strategies.write(value).decode() for value in values]

    def constraint() -> gr.Constraint:
        return gr.json_schema(description, integers="any", escapes="all")

    return Case(description, constraint, schema_meaning(description), texts)


def members(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """Returns a schema of objects or lists whose members must differ, be named or be counted."""
    if rng.random() < 0.2:
        items = members(rng, depth + 1) if depth < 2 and rng.random() < 0.3 else {"type": "string", "maxLength": 3}
        return {"type": "array", "items": items, "uniqueItems": rng.random() < 0.8, "minItems": rng.randrange(5)}
    out = schema_generator.random_object(rng)
    if rng.random() < 0.4:
        out["minProperties"] = rng.randrange(2, 6)
    if depth < 2 and rng.random() < 0.3:
        out["additionalProperties"] = members(rng, depth + 1)
    if depth < 2 and rng.random() < 0.2:
        return {rng.choice(["anyOf", "oneOf", "allOf"]): [out, members(rng, depth + 1)]}
    return out


def objects(rng: random.Random, description: Any) -> Case:
    return schema(rng, members(rng) if description is None else description)


def schema_meaning(description: Any) -> Callable[[str], bool]:
    judge = schema_strategies.judge(description)

    def meaning(text: str) -> bool:
        try:
            value = schema_strategies.parse(text)
        except (ValueError, AssertionError):
            return False
        except OverflowError:
            raise Unjudged from None
        if not judge.is_valid(value):
            return False
        if has_fraction(value) or schema_strategies.write(value).decode() != text:
            raise Unjudged
        return True

    return meaning


def has_fraction(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_fraction, value))
    if isinstance(value, dict):
        return any(map(has_fraction, value.values()))
    return isinstance(value, Fraction)


# -- patterns against re --------------------------------------------------------------------------------------------
ATOMS = [
    "a",
    "b",
    "ab",
    "[ab]",
    "[^a]",
    ".",
    r"\d",
    r"\w",
    r"\s",
    r"\W",
    "é",
    "[é€]",
    "€",
    r"[\w-]",
    r"\n",
    "(?:)",
    r"[^\W\d]",
]
COUNTS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "{0,20}", "{3,5}"]
LOOKS = ["(?=", "(?!", "(?<=", "(?<!"]


def pattern(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(10) if depth else 0
    if kind <= 2:
        return rng.choice(ATOMS)
    if kind <= 4:
        return pattern(rng, depth - 1) + pattern(rng, depth - 1)
    if kind == 5:
        return f"(?:{pattern(rng, depth - 1)}|{pattern(rng, depth - 1)})"
    if kind <= 7:
        return f"(?:{pattern(rng, depth - 1)}){rng.choice(COUNTS)}"
    if kind == 8:
        look = rng.choice(LOOKS)  # Python's look-behind needs a fixed width
        return look + (rng.choice(["a", "ab", "[^b]", r"\w", "é"]) if "<" in look else pattern(rng, depth - 1)) + ")"
    return rng.choice(["^", "$", r"\b", r"\B", r"\A", r"\Z"])


def regex(rng: random.Random, description: Any) -> Case:
    if description is None:
        description = [pattern(rng, rng.choice([2, 3, 4])), rng.choice(["", "", "s", "i", "m", "a", "u", "iu"])]
    source, flags = description
    compiled = re.compile(f"(?{flags}:{source})" if flags else source, 0 if "u" in flags else re.ASCII)

    def meaning(text: str) -> bool:
        return compiled.fullmatch(text) is not None

    return Case(
        description,
        lambda: gr.regex(source, flags=flags),
        meaning,
        pieces("a", "b", "ab", "é", "€", "1", "٣", " ", "\n", "-", "A", "_"),
    )


# -- grammars against Lark's Earley parser --------------------------------------------------------------------------
def grammar(rng: random.Random, description: Any) -> Case:
    from lark import Lark
    from lark.exceptions import LarkError

    if description is None:
        names = "abcd"[: rng.randint(1, 4)]
        description = {
            name: [
                " ".join(
                    rng.choice([*names, '"x"', '"y"', '"x"', '"xy"']) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))
                )
                for _ in range(rng.randint(1, 3))
            ]
            for name in names
        }
    theirs = Lark(
        "\n".join(f"{name}: {' | '.join(alternatives)}" for name, alternatives in description.items()),
        start="a",
        parser="earley",
        lexer="dynamic_complete",
        keep_all_tokens=True,
    )
    empty = '""'
    mine = "\n".join(f"{n} ::= {' | '.join(a or empty for a in some)}" for n, some in description.items())

    @lru_cache(maxsize=1000)
    def meaning(text: str) -> bool:
        if len(text) > 16:
            raise Unjudged  # Earley is slow
        try:
            theirs.parse(text)
        except LarkError:
            return False
        return True

    return Case(description, lambda: gr.grammar(mine, "gbnf", start="a"), meaning, pieces("x", "y", "xy"))


# -- structural tags and compositions against what their parts mean -------------------------------------------------
LEAVES = ["a", "ab?", "[ab]*", "a{2,4}", "b+", "(?:ab)*", "[^a]{0,3}", ".*b", "é|€", "", "<", "<a>", "[a-c]{1,3}"]
SCHEMAS: list[Any] = [
    {"type": "boolean"},
    {"enum": ["a", "b", 1]},
    {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
    {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True},
    {"type": "object", "additionalProperties": {"enum": [1, 2]}},
    {"type": "string", "maxLength": 2, "pattern": "^[ab]"},
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 2},
]
COMPACT = {"layout": "compact"}
Meaning = Callable[[str], bool]


def compact(description: Any) -> Meaning:
    inner = schema_meaning(description)

    def meaning(text: str) -> bool:
        try:
            value = json.loads(text)
        except ValueError:
            return False
        if json.dumps(value, separators=(",", ":"), ensure_ascii=False) != text:
            return False  # all values of these schemas have one spelling
        spaced = schema_strategies.write(value).decode()
        try:
            return inner(spaced)
        except Unjudged:
            return True

    return meaning


def splits(parts: list[Meaning]) -> Meaning:
    """Texts that are a match of each part, one after the other."""

    def meaning(text: str) -> bool:
        ends = {0}
        for part in parts:
            ends = {j for i in ends for j in range(i, len(text) + 1) if part(text[i:j])}
        return len(text) in ends

    return meaning


def times(item: Meaning, least: int, most: int | None, between: str = "") -> Meaning:
    def meaning(text: str) -> bool:
        ends, seen = {0}, set()
        count = 0
        while ends and (most is None or count <= most) and count <= least + len(text) + 1:
            if count >= least and len(text) in ends:
                return True
            starts = {i + (len(between) if count else 0) for i in ends if not count or text.startswith(between, i)}
            ends = {j for i in starts for j in range(i, len(text) + 1) if item(text[i:j])}
            count += 1
            key = (frozenset(ends), count >= least)
            if most is None and key in seen:
                return False
            seen.add(key)
        return False

    return meaning


def short(inner: Meaning) -> Meaning:
    known: dict[str, bool] = {}

    def meaning(text: str) -> bool:
        if len(text) > 40:
            raise Unjudged
        if text not in known:
            known[text] = inner(text)
        return known[text]

    return meaning


def composed(d: Any) -> tuple[Callable[[], gr.Constraint], Meaning]:
    kind, *rest = d
    if kind == "regex":
        compiled = re.compile(rest[0], re.DOTALL)
        return lambda: gr.regex(rest[0], flags="s"), lambda text: compiled.fullmatch(text) is not None
    if kind == "choice":
        return lambda: gr.choice(rest[0]), lambda text: text in rest[0]
    if kind == "substring":
        return lambda: gr.substring_of(rest[0]), lambda text: text in rest[0]
    if kind == "json":
        return lambda: gr.json_schema(rest[0], **COMPACT), short(compact(rest[0]))
    if kind == "until":
        return lambda: gr.text_until(rest[0]), lambda text: text.find(rest[0]) == len(text) - len(rest[0]) >= 0
    made = [composed(part) for part in rest if isinstance(part, list)]
    makers, meanings = [m for m, _ in made], [short(m) for _, m in made]
    if kind == "and":
        return lambda: makers[0]() & makers[1](), lambda text: meanings[0](text) and meanings[1](text)
    if kind == "or":
        return lambda: makers[0]() | makers[1](), lambda text: meanings[0](text) or meanings[1](text)
    if kind == "not":
        return lambda: ~makers[0](), lambda text: not meanings[0](text)
    if kind == "then":
        return lambda: makers[0]() + makers[1](), splits(meanings)
    if kind == "limited":
        return lambda: makers[0]().limited_to(rest[1]), lambda text: len(text) <= rest[1] and meanings[0](text)
    least, most = rest[1], rest[2]
    if kind == "repeat":
        return lambda: makers[0]().repeat(least, most), times(meanings[0], least, most)
    assert kind == "separated", kind
    return lambda: makers[0]().separated_by(",", least, most), times(meanings[0], least, most, ",")


def tree(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(14) if depth else rng.randrange(5)
    if kind <= 1:
        return ["regex", rng.choice(LEAVES)]
    if kind == 2:
        return rng.choice(
            [["choice", ["a", "ab", "b", "é"]], ["substring", "abéab"], ["until", rng.choice(["ab", "<", "€"])]]
        )
    if kind <= 4:
        return ["json", rng.choice(SCHEMAS)]
    if kind == 5:
        return ["not", tree(rng, depth - 1)]
    if kind == 6:
        return ["limited", tree(rng, depth - 1), rng.randrange(8)]
    if kind <= 8:
        least = rng.randrange(3)
        return [
            rng.choice(["repeat", "separated"]),
            tree(rng, depth - 1),
            least,
            rng.choice([None, least, least + 1, least + 3]),
        ]
    name = {9: "and", 10: "or", 11: "or"}.get(kind, "then")
    return [name, tree(rng, depth - 1), tree(rng, depth - 1)]


def composition(rng: random.Random, description: Any) -> Case:
    description = description or tree(rng, rng.choice([1, 2, 2, 3]))
    maker, meaning = composed(description)
    texts = pieces("a", "b", "ab", "é", "€", "<", ",", "true", '"a"', '{"a":true}', "[true]", "[", "]", "<a>", "1")
    return Case(description, maker, short(meaning), texts)


def tags(rng: random.Random, description: Any) -> Case:
    """Structural tags, of the formats whose meaning is that of a composition."""
    description = description or tag_tree(rng, rng.choice([1, 2, 3]))
    _, meaning = composed(as_composition(description))
    texts = pieces("a", "b", "ab", "<t>", "</t>", "<t>a</t>", "true", '"a"', '{"a":true}', "é")
    return Case(
        description,
        lambda: gr.structural_tag({"type": "structural_tag", "format": description}),
        short(meaning),
        texts,
    )


TAG_SCHEMAS: list[Any] = [{"type": "boolean"}, {"enum": [1, 2]}, {"const": None}]


def tag_tree(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8) if depth else rng.randrange(3)
    if kind == 0:
        return {"type": "const_string", "value": rng.choice(["a", "ab", "<t>", "é", "</t>"])}
    if kind == 1:
        return {"type": "regex", "pattern": rng.choice([p for p in LEAVES if p not in ("", ".*b", "[^a]{0,3}")])}
    if kind == 2:
        return {"type": "json_schema", "json_schema": rng.choice(TAG_SCHEMAS)}
    if kind == 3:
        return {"type": "sequence", "elements": [tag_tree(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    if kind == 4:
        return {"type": "or", "elements": [tag_tree(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    if kind in (5, 6):
        return {"type": "tag", "begin": "<t>", "content": tag_tree(rng, depth - 1), "end": "</t>"}
    return {"type": rng.choice(["optional", "plus", "star"]), "content": tag_tree(rng, depth - 1)}


def as_composition(d: Any) -> Any:
    kind = d["type"]
    if kind == "const_string":
        return ["choice", [d["value"]]]
    if kind == "regex":
        return ["regex", d["pattern"]]
    if kind == "json_schema":
        return ["json", d["json_schema"]]
    if kind in ("sequence", "or"):
        parts = [as_composition(part) for part in d["elements"]]
        out = parts[-1]
        for part in reversed(parts[:-1]):
            out = ["then" if kind == "sequence" else "or", part, out]
        return out
    if kind == "tag":
        inside = ["then", as_composition(d["content"]), ["choice", [d["end"]]]]
        return ["then", ["choice", [d["begin"]]], inside]
    least, most = {"optional": (0, 1), "plus": (1, None), "star": (0, None)}[kind]
    return ["repeat", as_composition(d["content"]), least, most]


# -- XML Schema against xmlschema -----------------------------------------------------------------------------------
SIMPLE = [
    "xs:boolean",
    "xs:int",
    "xs:token",
    "xs:string",
    "xs:date",
    "xs:decimal",
    "xs:positiveInteger",
    "code",
    "size",
]
TYPES = (
    '<xs:simpleType name="code"><xs:restriction base="xs:string"><xs:pattern value="[a-c]{1,3}"/></xs:restriction>'
    '</xs:simpleType><xs:simpleType name="size"><xs:restriction base="xs:string"><xs:enumeration value="a"/>'
    '<xs:enumeration value="b c"/></xs:restriction></xs:simpleType>'
)


def xml(rng: random.Random, description: Any) -> Case:
    import xmlschema
    from lxml import etree

    description = description or {"content": particle(rng, 2), "attributes": attributes(rng)}
    body = f"{particle_text(description.get('content'))}{attribute_text(description.get('attributes', []))}"
    source = (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{TYPES}'
        f'<xs:element name="a"><xs:complexType>{body}</xs:complexType></xs:element></xs:schema>'
    )
    theirs = xmlschema.XMLSchema(source)
    schema = etree.XMLSchema(etree.fromstring(source))

    def meaning(text: str) -> bool:
        try:
            valid = theirs.is_valid(text) if text.lstrip().startswith("<") else False
        except Exception as error:  # the parser raises several kinds of errors
            if type(error).__name__ not in (
                "ParseError",
                "XMLResourceParseError",
                "XMLSchemaValueError",
                "XMLResourceError",
            ):
                raise
            valid = False
        if valid or other(text):
            raise Unjudged  # there are many spellings, and guiderail writes only some
        return False

    def other(text: str) -> bool:
        """The second judge: if the two differ, neither counts."""
        try:
            return schema.validate(etree.fromstring(text.encode()))
        except etree.XMLSyntaxError:
            return False

    return Case(description, lambda: gr.xml_schema(source), meaning, lambda rng: ["<a/>", "<a></a>", "<a>a</a>"])


def attributes(rng: random.Random) -> list[Any]:
    return [
        {"name": name, "type": rng.choice(SIMPLE), "use": rng.choice(["required", "optional"])}
        for name in rng.sample(["p", "q"], rng.randrange(3))
    ]


def attribute_text(some: list[Any]) -> str:
    return "".join(
        f'<xs:attribute name="{escape(a.get("name", "p"))}" type="{a.get("type", "xs:int")}" '
        f'use="{a.get("use", "optional")}"/>'
        for a in some
    )


def particle(rng: random.Random, depth: int) -> Any:
    counts = {"min": rng.choice([0, 1, 1, 2]), "more": rng.choice([0, 0, 1, 3, None])}
    if depth == 0 or (depth < 2 and rng.random() < 0.5):
        # A name has one type everywhere, as the standard demands; no name twice in a row is ambiguous.
        at = rng.randrange(len(SIMPLE))
        return {"element": f"e{at}", "type": SIMPLE[at], **counts}
    return {
        "group": rng.choice(["sequence", "choice"]),
        "parts": [particle(rng, depth - 1) for _ in range(rng.randint(1, 3))],
        **counts,
    }


def particle_text(d: Any) -> str:
    if not d:
        return ""
    least, more = d.get("min", 1), d.get("more", 0)
    most = "unbounded" if more is None else str(max(1, least + more))
    occurs = f'minOccurs="{least}" maxOccurs="{most}"'
    if "element" in d:
        return f'<xs:element name="{d["element"]}" type="{d.get("type", "xs:int")}" {occurs}/>'
    group = d.get("group", "sequence")
    return f"<xs:{group} {occurs}>{''.join(map(particle_text, d.get('parts', [])))}</xs:{group}>"


TARGETS: dict[str, Callable[[random.Random, Any], Case]] = {
    "schema": schema,
    "objects": objects,
    "regex": regex,
    "grammar": grammar,
    "composition": composition,
    "tags": tags,
    "xml": xml,
}
