"""Malformed inputs for every public reader: good ones, mutated. Each must work or raise a `GuiderailError`.

A *reader* is a function of one argument, a text or a JSON-like value, with good inputs for it; it reads and compiles.
Texts are mutated by characters and pieces, values by nodes and keys. Everything follows from a seed, so a reader and a
number identify each finding:

    python tests/bad_inputs.py json_schema 0 100000 [FILE]   # inputs 0 to 99,999 of one reader; `all`: of each

FILE receives the name of the input that is being read.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guiderail as gr
from guiderail.compat import llguidance, xgrammar
from guiderail.errors import GuiderailError

SEEDS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "bad_input_seeds.json").read_text())
_PIECES: list[str] = SEEDS["pieces"]

_VALUES: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: 1, lambda: -1, lambda: 1.5, lambda: -0.0,
    lambda: 10**30, lambda: -(10**30), lambda: 10**400, lambda: 10**5000, lambda: 2**31, lambda: 2**32, lambda: 2**63,
    lambda: 2**64, lambda: 1e308, lambda: 1e-320, lambda: float("inf"), lambda: float("-inf"), lambda: float("nan"),
    lambda: "", lambda: "a", lambda: "\ud800", lambda: "\0", lambda: "(", lambda: "[", lambda: "\\", lambda: "#",
    lambda: "#/", lambda: "#/$defs/x", lambda: "http://[", lambda: "//a", lambda: "x" * 5000, lambda: "é\u2028",
    list, dict, lambda: [[]], lambda: [None], lambda: [1, 1.0, True], lambda: {"": {}}, lambda: {"\ud800": 1},
    lambda: {"$ref": "#"}, lambda: {"type": "object"}, lambda: {"type": []}, lambda: {"not": {}}, lambda: b"x",
    tuple, set, object, lambda: {1: 2}, lambda: {None: None}, lambda: [{}] * 3, lambda: ["a", "a"], lambda: _deep(60),
    lambda: _deep(3000), lambda: {"a": _cycle()}, lambda: int, lambda: 1j,
]  # fmt: skip


def _deep(levels: int) -> Any:
    value: Any = {}
    for i in range(levels):
        value = [value] if i % 2 else {"items": value}
    return value


def _cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def mutate_text(text: str, rng: random.Random, others: list[str]) -> str:
    """Returns a small mutation of a text."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at, to = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        match rng.randrange(9):
            case 0:
                text = text[:at] + text[at + rng.randint(1, 3) :]
            case 1:
                text = text[:at] + text[to:]
            case 2 | 3 | 4:
                text = text[:at] + rng.choice(_PIECES) + text[at + rng.randint(0, 1) :]
            case 5:
                text = text[:to] + text[at:to] * rng.choice((1, 2, 20)) + text[to:]
            case 6:
                other = rng.choice(others)
                cut = rng.randint(0, len(other))
                text = text[:at] + other[cut : cut + rng.randint(1, 30)] + text[at:]
            case 7:
                text = text[:at] + rng.choice(_PIECES) * rng.choice((2, 50, 3000)) + text[at:]
            case 8:
                text = text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))) + text[at + 1 :]
    return text[:20_000]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Returns the containers and keys of a value."""
    stack = [value]
    seen: set[int] = set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            for key in one:
                yield one, key
            stack += one.values()
        elif isinstance(one, list):
            for i in range(len(one)):
                yield one, i
            stack += one


def _copy(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except (RecursionError, TypeError):
        return value


def mutate_value(value: Any, rng: random.Random, others: list[Any]) -> Any:
    """Returns a small mutation of a value."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(value))
        if not places or rng.random() < 0.01:
            return rng.choice(_VALUES)()
        inside, key = rng.choice(places)
        match rng.randrange(8):
            case 0:
                del inside[key]
            case 1 | 2 | 3:
                inside[key] = rng.choice(_VALUES)()
            case 4:
                donors = list(_places(rng.choice(others)))
                if donors:
                    giver, name = rng.choice(donors)
                    if isinstance(inside, dict) and isinstance(giver, dict):
                        inside[name] = _copy(giver[name])
                    else:
                        inside[key] = _copy(giver[name])
            case 5:
                if isinstance(inside[key], str):
                    inside[key] = mutate_text(inside[key], rng, [str(other) for other in others])
                else:
                    inside[key] = [inside[key]] if rng.random() < 0.5 else {"allOf": inside[key]}
            case 6:
                if isinstance(inside, dict):
                    name = rng.choice([k for _, k in places if isinstance(k, str)] or ["x"])
                    inside[name] = inside.pop(key)
                else:
                    inside.append(_copy(inside[key]))
            case 7:
                inside[key] = _copy(value) if rng.random() < 0.3 else inside
    return value


@dataclass(frozen=True)
class Reader:
    """``read`` takes an input and uses it as users do; ``good`` contains inputs that work."""

    read: Callable[[Any], Any]
    good: tuple[Any, ...]

    def bad(self, name: str, number: int) -> Any:
        """Returns the input with a number; the first numbers are the good ones, unchanged."""
        if number < len(self.good):
            return self.good[number]
        rng = random.Random(f"{name} {number}")
        one = rng.choice(self.good)
        if isinstance(one, str):
            return mutate_text(one, rng, [other for other in self.good if isinstance(other, str)])
        return mutate_value(one, rng, list(self.good))


def _compile(constraint: gr.Constraint, text: str = "a\ud800") -> None:
    constraint.matches(text)
    constraint.matches("[1]")
    repr(constraint)
    hash(constraint)


def _tools(format: str) -> Callable[[Any], gr.Constraint]:
    return lambda tools: gr.tool_calls(tools, format=format, choice="required", on_bad_tool="error")


def _reader(seeds: str, read: Callable[[Any], gr.Constraint]) -> Reader:
    return Reader(lambda given: _compile(read(given)), tuple(SEEDS[seeds]))


_RULES = {"S": [["Hello ", gr.Ref("n")]], "n": ["Ada", "Bob", [gr.Ref("S"), "x"]]}
_LIST = {"type": "array", "items": {"type": ["string", "number"]}}
_TOOL = {"name": "f", "parameters": {"type": "object"}}
_INT = {"kind": "SCALAR", "name": "Int"}
_SERVICE = {
    "queryType": {"name": "Query"},
    "types": [
        _INT,
        {"kind": "ENUM", "name": "E", "enumValues": [{"name": "P"}]},
        {"kind": "UNION", "name": "U", "possibleTypes": [{"name": "Query"}]},
        {
            "kind": "OBJECT",
            "name": "Query",
            "fields": [
                {"name": "a", "type": _INT, "args": [{"name": "x", "type": {"kind": "NON_NULL", "ofType": _INT}}]},
                {"name": "e", "type": {"kind": "LIST", "ofType": {"kind": "ENUM", "name": "E"}}},
                {"name": "u", "type": {"kind": "UNION", "name": "U"}},
            ],
        },
    ],
}

READERS: dict[str, Reader] = {
    "regex": _reader("regex", gr.regex),
    "regex_ecma": _reader("regex", lambda x: gr.regex(x, dialect="ecma")),
    "gbnf": _reader("gbnf", lambda x: gr.grammar(x, "gbnf")),
    "ebnf_w3c": _reader("ebnf_w3c", lambda x: gr.grammar(x, "ebnf-w3c")),
    "ebnf_iso": _reader("ebnf_iso", lambda x: gr.grammar(x, "ebnf-iso")),
    "lark": _reader("lark", lambda x: gr.grammar(x, "lark")),
    "any_grammar": Reader(
        lambda x: _compile(gr.grammar(x)),
        tuple(text for kind in ("gbnf", "ebnf_w3c", "ebnf_iso", "lark") for text in SEEDS[kind]),
    ),
    "productions": Reader(lambda x: _compile(gr.grammar(x)), (_RULES,)),
    "json_schema": _reader("json_schema", gr.json_schema),
    "openapi": Reader(
        lambda x: _compile(gr.json_schema(x, dialect="openapi-3.0")), (*SEEDS["openapi"], *SEEDS["json_schema"])
    ),
    "json_text": _reader("json_text", gr.json_schema),
    "yaml": _reader("json_schema", lambda x: gr.json_schema(x, notation="yaml")),
    "python": _reader("json_schema", lambda x: gr.json_schema(x, notation="python")),
    "xml_schema": _reader("xml_schema", gr.xml_schema),
    "structural_tag": _reader("structural_tag", gr.structural_tag),
    "tools_json": _reader("tools", _tools("hermes")),
    "tools_xml": _reader("tools", _tools("qwen3-coder")),
    "schema_options": _reader("schema_options", lambda x: gr.json_schema(_LIST, **x)),
    "tool_options": Reader(
        lambda x: _compile(gr.tool_calls([_TOOL], **{"format": "hermes", **x})),
        ({"format": "qwen3-coder", "choice": "auto"}, {"choice": "required", "parallel": False}, {"choice": "f"}),
    ),
    "type_options": Reader(
        lambda x: _compile(gr.python_type(list[int], **x)), ({"max_items": 3, "max_depth": 4}, {"notation": "yaml"})
    ),
    "sql_tables": Reader(
        lambda x: _compile(gr.grammars.sql(schema=x)),
        ({"t": ["a", "b"]}, {"t": {"a": "INTEGER"}, "u v": {'x"y': "REAL"}}),
    ),
    "sql_functions": Reader(
        lambda x: _compile(gr.grammars.sql(schema={"t": ["a"]}, functions=x)),
        (["count", "max"], {"count": 1, "substr": [2, 3], "max": (1, None)}),
    ),
    "graphql": Reader(lambda x: _compile(gr.grammars.graphql(schema=x)), (_SERVICE,)),
    "type": Reader(lambda x: gr.python_type(x).matches("1"), (list[int], [int, [str]], {"a": int})),
    "llguidance_schema": Reader(llguidance.LLMatcher.grammar_from_json_schema, tuple(SEEDS["json_schema"])),
    "xgrammar_schema": _reader("json_schema", lambda x: xgrammar.Grammar.from_json_schema(x).constraint),
    "xgrammar_tag": _reader("structural_tag", lambda x: xgrammar.Grammar.from_structural_tag(x).constraint),
}


def check(name: str, number: int) -> str | None:
    """Returns what a reader raised for the input with this number if it is not one of our errors, or None."""
    reader = READERS[name]
    given = reader.bad(name, number)
    if name.endswith("_options") and not (isinstance(given, dict) and all(isinstance(key, str) for key in given)):
        return None  # Python itself refuses such arguments
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(given)
    except GuiderailError as error:
        try:
            str(error)
            assert error.message and error.code
        except Exception as fault:
            return f"{name} {number}: the message of {type(error).__name__}: {type(fault).__name__}: {fault}"
    except (Exception, RecursionError) as fault:
        return f"{name} {number}: {type(fault).__name__}: {str(fault)[:200]}"
    return None


def main() -> int:
    name, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = 0
    for one in READERS if name == "all" else name.split(","):
        for number in range(first, last):
            began = time.process_time()
            if len(sys.argv) > 4:  # names the input that killed the process
                Path(sys.argv[4]).write_text(f"{one} {number}")
            report = check(one, number)
            took = time.process_time() - began
            if took > 3:
                print(f"{one} {number}: {took:.1f} s", flush=True)
            if report:
                found += 1
                print(report, flush=True)
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
