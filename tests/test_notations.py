"""YAML and Python: the same values as in JSON, read back by PyYAML and by ``ast``."""

from __future__ import annotations

import ast
import datetime as dt
import enum
import math
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from annotated_types import Gt, MinLen
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.support.notations import parse
from guiderail.support.trees import Called, Number, plain
from random_texts import random_text

yaml = pytest.importorskip("yaml")


class Color(enum.Enum):
    RED = "no"
    BLUE = 2
    ODD = "\x85: \ufeff"


class Row(NamedTuple):
    number: int
    text: str = "none"


@dataclass
class Person:
    name: str
    age: int = 0
    friends: list[Person] = field(default_factory=list)
    best: Person | Pet | None = None


@dataclass
class Pet:
    name: str


@dataclass
class Everything:
    share: float
    price: Decimal
    color: Color
    when: dt.datetime | None
    pair: tuple[int, str]
    tags: set[str]
    rows: list[Row]
    counts: dict[str, int]
    odd: set[Literal[1, True, None, "a"]]
    anything: Any = None


TYPES: list[Any] = [
    int, float, Decimal, str, bool, None, Any, Color, dt.date, list[int], list[list[int]], dict[str, float],
    dict[str, list[dict[str, int]]], tuple[int, ...], set[str], Person, Pet | Person, Everything, dict[int, str],
    Annotated[float, Gt(0)], Annotated[list[str], MinLen(1)], Literal["yes", "null", "a b", "1", 1, 1.5, None],
    dict[str, Any],
]  # fmt: skip

SCHEMAS: list[Any] = [
    True,
    {"type": "object"},
    {"type": "array", "uniqueItems": True, "items": {"type": ["string", "null", "boolean", "integer"]}},
    {"type": ["number", "string"], "minimum": 1e-7, "maxLength": 5},
    {"type": "string", "pattern": "^[^a]*$"},
    {"properties": {"a": {"const": 1e-07}, "\x7f": {"type": "null"}}, "required": ["a"], "maxProperties": 2},
    {"type": "array", "prefixItems": [{"type": "object"}, {"type": "array"}], "items": {"type": "boolean"}},
    {"type": "array", "items": {"enum": [1, 2.5, "x"]}, "contains": {"const": "x"}, "maxItems": 4},
    {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"l": {"$ref": "#/$defs/t"}, "v": {"type": "integer"}},
     "additionalProperties": False, "type": "object"}}},
    {"anyOf": [{"type": "object", "not": {"required": ["a"]}}, {"enum": ["no", "~", "=", "<<", "2024-01-01", ""]}]},
    {"type": "object", "patternProperties": {"^x": {"type": "array", "items": {"type": "null"}}},
     "additionalProperties": {"type": "string"}, "minProperties": 1},
]  # fmt: skip


def python_value(text: str) -> Any:
    """Evaluates with ``ast``; calls become dicts."""

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            return {keyword.arg: value(keyword.value) for keyword in node.keywords}
        if isinstance(node, ast.Dict):
            return {value(k): value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
        if isinstance(node, ast.List):
            return [value(item) for item in node.elts]
        return ast.literal_eval(node)

    return value(ast.parse(text, mode="eval").body)


READERS = {"yaml": yaml.safe_load, "python": python_value}


def same(a: Any, b: Any) -> bool:
    """Equality that distinguishes True from 1, and in which NaN equals NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("notation", ["yaml", "python"])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_are_read_back(kind: Any, notation: str) -> None:
    constraint = gr.python_type(kind, notation=notation)
    rng = random.Random(5)
    for steps in (0, 2, 10, 40, 40, 120) * 4:
        text = random_text(constraint, rng, steps)
        assert same(READERS[notation](text), plain(parse(text, notation))), text
        constraint.read(text)


@pytest.mark.parametrize("notation", ["yaml", "python"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_schemas_are_kept(schema: Any, notation: str) -> None:
    written = gr.json_schema(schema, notation=notation)
    meant = gr.json_schema(schema)
    rng = random.Random(6)
    for steps in (0, 2, 10, 40, 40, 120) * 4:
        text = random_text(written, rng, steps)
        value = READERS[notation](text)
        assert same(value, plain(parse(text, notation))), text
        assert "inf" in repr(value) or meant.accepts(value), text  # 1e999 is a JSON number, but not a float


SCALARS: list[Any] = [
    int, float, Decimal, str, bool, None, dt.date, dt.timedelta, bytes, Color, Literal[1, "a", None], Row, Pet,
    Annotated[float, Gt(0)],
]  # fmt: skip
KEYS: list[Any] = [str, int, float, bool, dt.date, Literal["a", 1]]


def random_type(rng: random.Random, depth: int) -> Any:
    choice = rng.randrange(12 if depth else 5)
    if choice < 5:
        return rng.choice(SCALARS)
    inner = random_type(rng, depth - 1)
    if choice < 7:
        return list[inner]  # type: ignore[valid-type]
    if choice < 9:
        return dict[rng.choice(KEYS), inner]  # type: ignore[misc]
    if choice < 10:
        return inner | rng.choice([int, str, None, Row]) if inner is not None else inner
    if choice < 11:
        return set[rng.choice(SCALARS[:-3])]  # type: ignore[misc]
    return tuple[inner, random_type(rng, depth - 1)]  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(40))
def test_types_made_at_random(seed: int) -> None:
    rng = random.Random(seed)
    kind = random_type(rng, 3)
    for options in ({}, {"notation": "yaml"}, {"notation": "python"}, {"layout": "free", "integers": "any"}):
        constraint = gr.python_type(kind, **options)
        for steps in (5, 40, 100):
            constraint.read(random_text(constraint, rng, steps))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ANYTHING = {"python": gr.json_schema(True, notation="python"), "yaml": gr.json_schema(True, notation="yaml")}


def as_yaml(value: Any, place: int = 0) -> str:
    """A value in block style, strings in quotes: written independently of the code under test."""
    import json

    space, line = " " if place else "", "\n" + "  " * (place >> 1)
    before = "" if place == 0 else " " if place & 1 else line
    inner = (place >> 1) * 2 + 2
    if isinstance(value, dict) and value:
        return before + line.join(f"{json.dumps(k, ensure_ascii=False)}:{as_yaml(v, inner)}" for k, v in value.items())
    if isinstance(value, list) and value:
        return before + line.join(f"-{as_yaml(item, inner + 1)}" for item in value)
    if isinstance(value, float):
        written = format(Decimal(repr(value)), "f")
        return space + written
    return space + json.dumps(value, ensure_ascii=False)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_values_can_be_written(value: Any) -> None:
    text = repr(value)
    if not any(quote in text for quote in "'\\"):
        assert ANYTHING["python"].matches(text)
    text = as_yaml(value)
    try:
        if not same(yaml.safe_load(text), value):
            return  # an integral float, or a character that must be escaped
    except yaml.YAMLError:
        return
    assert ANYTHING["yaml"].matches(text), text


def test_blocks() -> None:
    people = gr.python_type(Person, notation="yaml")
    text = """\
"name": Ada Lovelace
"age": 36
"friends":
  - "name": "no"
  - "name": Charles
    "friends": []
"best":
  "name": 'Tom'""".replace("'", '"')
    assert people.matches(text)
    assert people.read(text) == Person("Ada Lovelace", 36, [Person("no"), Person("Charles")], Person("Tom"))
    assert people.read("name: Ada\nbest: {name: Tom, age: 3}").best == Person("Tom", 3)  # other YAML is read, too
    for bad in ('"name": no', '"name": Ada\n"age": 1.0', '"name": a: b', '"name": x #', '{"name": "x"}', '"age": 1'):
        assert not people.matches(bad), bad
    nested = gr.json_schema({"type": "array"}, notation="yaml")
    assert nested.matches("- - 1\n  - []\n- {}\n-" + ' "a": 1\n  "b": true')
    assert nested.matches("- " * 8 + '[[1, {"a": 1}]]')
    assert not nested.matches("- " * 9 + "1")
    for depth in (0, 1, 3):
        nested = gr.json_schema({"type": "array"}, notation="yaml", block_depth=depth)
        assert nested.matches("- " * depth + "[]") and not nested.matches("- " * (depth + 1) + "[]")


def test_numbers_of_yaml() -> None:
    numbers = gr.json_schema({"type": "number"}, notation="yaml")
    for text in ("1.0e+5", "1.5E-07", "0.5", "12", "-3"):
        assert numbers.matches(text) and not isinstance(yaml.safe_load(text), str)
    for text in ("1e5", "1.5e5", "1e-7", "1E+5"):
        assert not numbers.matches(text) and isinstance(yaml.safe_load(text), str)
    others = gr.json_schema({"type": "number", "not": {"multipleOf": 3}}, notation="yaml")
    for text, allowed in (("4", True), ("4.50", True), ("3", False), ("3.0", False), ("4e5", False), ("6.0e+0", False)):
        assert others.matches(text) is allowed, text


def test_calls() -> None:
    people = gr.python_type(Person, notation="python")
    text = 'Person(name="Ada", friends=[Person(name="Bob", age=-1)], best=Pet(name="Tom"))'
    assert people.matches(text)
    assert people.read(text) == Person("Ada", 0, [Person("Bob", -1)], Pet("Tom"))
    for bad in ("Person()", 'Pet(name="Ada")', 'Person(age=1, name="x")', 'Person(name="x",)', '{"name": "x"}'):
        assert not people.matches(bad), bad
    with pytest.raises(gr.ReadError, match="call of Pet"):
        people.read('Pet(name="Ada")')
    assert gr.read(Person, '{"name": "x"}', notation="python") == Person("x")

    def search(query: str, limit: int = 10) -> tuple[str, int]:
        return query, limit

    asked = gr.python_type(search, notation="python")
    name = search.__qualname__.rpartition(".")[2]
    assert asked.matches(f'{name}(query="x", limit=3)')
    assert gr.call(search, f'{name}(query="x", limit=3)', notation="python") == ("x", 3)
    empty = gr.python_type(type("Empty", (), {"__init__": lambda self, a=1: None}), notation="python")
    assert empty.matches("Empty()") and empty.matches("Empty(a=None)")
    lines = gr.python_type(Pet, notation="python", layout="indented")
    assert lines.matches('Pet(\n  name="x")')


def test_items_of_python_differ() -> None:
    kind = {"type": ["null", "boolean", "string", "number"]}
    unique = gr.json_schema({"type": "array", "uniqueItems": True, "items": kind}, notation="python")
    for text in ("[0, None, True, False, 1]", "[]", '["None", None]'):
        assert unique.matches(text)
    for text in ("[None, None]", "[True, 1, True]", "[1, 1.0]", '["a", "a"]', "[False,None,False]"):
        assert not unique.matches(text)
    nested = gr.json_schema({"type": "array", "uniqueItems": True, "items": {"type": "array"}}, notation="python")
    with pytest.raises(gr.SchemaError) as caught:
        nested.matches("[]")
    assert caught.value.code == "python-unique"


def test_trees() -> None:
    assert parse("{'a': [1.10, -2, (True, None)], 3: set()}", "python") == {
        "a": [Number("1.10"), Number("-2"), [True, None]],
        "3": [],
    }
    assert parse("[1.10,\r\n2.20\r,\f3.30]", "python") == [Number("1.10"), Number("2.20"), Number("3.30")]
    called = parse("f(a=0x10)", "python")
    assert isinstance(called, Called) and called.function == "f" and called == {"a": Number("16")}
    assert parse("a: 1.10\nb: [yes, ~, 0x10, 2024-01-01]\n1: x", "yaml") == {
        "a": Number("1.10"),
        "b": [True, None, Number("16"), "2024-01-01"],
        "1": "x",
    }
    assert parse("", "yaml") is None


@pytest.mark.parametrize(
    "text, notation, code",
    [
        ("a: [", "yaml", "read-syntax"),
        ("a: 1\na: 2", "yaml", "read-mismatch"),
        ("&a [*a]", "yaml", "read-mismatch"),
        ("!x 1", "yaml", "read-mismatch"),
        (".inf", "yaml", "read-mismatch"),
        ("f(", "python", "read-syntax"),
        ("a + b", "python", "read-mismatch"),
        ("f(1)", "python", "read-mismatch"),
        ("{'a': 1, 'a': 2}", "python", "read-mismatch"),
        ("{None: 1}", "python", "read-mismatch"),
        ("1j", "python", "read-mismatch"),
        ("1e999", "python", "read-mismatch"),
        (b"\xff", "python", "read-syntax"),
    ],
)
def test_texts_that_are_refused(text: str | bytes, notation: str, code: str) -> None:
    with pytest.raises(gr.ReadError) as caught:
        if text == "1e999":
            gr.read(float, text, notation=notation)
        parse(text, notation)
    assert caught.value.code == code


def test_options_that_have_no_meaning() -> None:
    for options in ({"escapes": "all"}, {"layout": "free"}, {"separators": (",", ":")}):
        with pytest.raises(gr.CompileError, match="YAML has one layout"):
            gr.json_schema(True, notation="yaml", **options).matches("1")
    for more in ({"integers": "any"}, {"layout": "indented", "indent": 4}):
        with pytest.raises(gr.CompileError, match="YAML has two spaces a level"):
            gr.json_schema(True, notation="yaml", **more).matches("1")
    with pytest.raises(gr.CompileError, match="canonical"):
        gr.json_schema(True, notation="python", escapes="all").matches("1")
    with pytest.raises(gr.CompileError):
        parse("1", "toml")
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema({"type": "object", "required": ["\x7f"]}, notation="yaml").matches("{}")
    assert caught.value.code == "yaml-key"
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema(
            {"type": "object", "properties": {"x-guiderail-call": {"const": "f"}}}, notation="python"
        ).matches("1")
    assert caught.value.code == "python-call"
