"""Constraints of all front ends, with texts. Together they use every operation that makes expressions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guiderail as gr
from guiderail.constraints.saving import program_file
from guiderail.frontends.tools import tool_calls

__all__ = ["CASES", "INSTANCES", "Money"]


@dataclass
class Money:
    amount: float
    currency: str


def _schema(schema: dict[str, Any], **options: Any) -> gr.Constraint:
    return gr.json_schema(schema, **options)


_LIST = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}, "maxItems": 4}
_VOTE = {
    "type": "object",
    "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(12)],
}
_TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}},
}
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}

CASES: dict[str, gr.Constraint] = {
    "literal": gr.literal("plain text ü"),
    "choice": gr.choice(["red", "green", "blue", "grün"]),
    "regex": gr.regex(r"(\d{4})-(0[1-9]|1[0-2])|[a-zé]+\s?x{2,5}"),
    "regex-looks": gr.regex(r"(?:(?!ab)\w){2,6}(?<=z)"),
    "regex-capture": gr.regex(r"<([a-zé]+)>[^<]*</\1>"),
    "regex-words": gr.regex(r"(?:\w+\b[ -]+(?<! -))+\bend\b$"),
    "composed": gr.sequence("a", gr.repeat(gr.choice(["b", "c"]), 1, 3)) & ~gr.literal("abb"),
    "substring": gr.substring_of("the quick brown fox"),
    "chunks": gr.grammar('start: %regex { "substring_words": "one two three four" }', syntax="lark"),
    "special-token": gr.sequence("go", gr.special_token("<|end|>")),
    "tokens": gr.grammar('start: "x" <[1-3]> <[^0]>', syntax="lark"),
    "token-count": gr.grammar('start: "a" tail\ntail[max_tokens=3]: /[ab ]+/', syntax="lark"),
    "grammar": gr.grammar('start: expr\nexpr: expr "+" term | term\nterm: /[0-9]+/ | "(" expr ")"', syntax="lark"),
    "gbnf": gr.grammar('root ::= "[" (item ("," item)*)? "]"\nitem ::= [a-z]+ | root', syntax="gbnf"),
    "lexed": gr.grammar(
        'start: (NAME "=" VALUE ";")+\nNAME: /[a-z_]+/\nVALUE: /[0-9]+/ | "if"\n%ignore /[ \\n]+/', syntax="lark"
    ),
    "python": gr.grammars.python(),
    "sql": gr.grammars.sql(),
    "sql-schema": gr.grammars.sql(schema={"a": ["id", "b c"], "d": ["id", "e"]}),
    "schema": _schema(
        {
            "type": "object",
            "properties": {"id": {"type": "integer", "minimum": 3}, "tag": {"enum": ["a", 1, None]}},
            "required": ["id"],
        }
    ),
    "schema-any-order": _schema(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x\\d+$"}, "b": {"type": "boolean"}}},
        property_order="any",
    ),
    "schema-numbers": _schema({"type": "number", "multipleOf": 0.25, "minimum": -3, "exclusiveMaximum": 100}),
    "schema-strings": _schema({"type": "string", "format": "date-time"}),
    "schema-unique": _schema(_LIST),
    "schema-contains": _schema(
        {"type": "array", "contains": {"const": 1}, "minContains": 2, "items": {"type": "integer"}}
    ),
    "schema-vote": _schema(_VOTE),
    "schema-patterns": _schema({"type": "object", "patternProperties": {c: {"minimum": ord(c)} for c in "abcdef"}}),
    "schema-tree": _schema(_TREE),
    "schema-tally": _schema({"type": "array", "allOf": [{"contains": {"const": i}} for i in range(12)]}),
    "schema-decimals": _schema({"type": "number", "multipleOf": 1234.5678}),
    "schema-twice": _schema({"type": "array", "items": {"enum": [1, 2, 3]}, "not": {"uniqueItems": True}}),
    "schema-yaml": _schema(_TREE, notation="yaml"),
    "type": gr.python_type(Money),
    "tools": tool_calls([_TOOL], format="hermes"),
    "xml": gr.xml_schema(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
        '<xs:element name="n" type="xs:positiveInteger"/></xs:schema>'
    ),
}

INSTANCES: dict[str, list[str]] = {
    "literal": ["plain text ü", "plain text u"],
    "choice": ["grün", "gree", "blue"],
    "regex": ["2024-02", "2024-13", "éaxx", "z xxxxx"],
    "regex-looks": ["aaz", "abz", "zzzzzz"],
    "regex-capture": ["<é>x</é>", "<ab></a>", "<ab></ab>"],
    "regex-words": ["the end", "theend", "a - end", "a -- b end"],
    "composed": ["ab", "abb", "abc", "abbb"],
    "substring": ["quick br", "quik"],
    "chunks": ["two three", "wo th"],
    "grammar": ["1+(2+33)", "1+(2"],
    "gbnf": ["[a,[b,c],[]]", "[a,,]"],
    "lexed": ["ab = 12 ;x=if;", "ab = ab;"],
    "python": ["def f(x):\n    return x + 1\n", "def f(x)\n"],
    "sql": ["SELECT a FROM b WHERE c = 1", "SELECT FROM"],
    "sql-schema": ['SELECT id, "b c" FROM a WHERE id = 1', "SELECT t1.e FROM d AS t1", 'SELECT "b c" FROM d'],
    "schema": ['{"id": 3, "tag": null}', '{"id": 2}', '{"id": 12, "tag": "b"}'],
    "schema-any-order": ['{"b": true, "a": "x12"}', '{"a": "y"}'],
    "schema-numbers": ["-2.75", "99.75", "100", "0.3"],
    "schema-strings": ['"2024-02-29T10:00:00Z"', '"2023-02-29T10:00:00Z"'],
    "schema-unique": ["[1, 2, 3]", "[1, 2, 1]", "[1, 1.0]"],
    "schema-contains": ["[1, 2, 1]", "[1, 2]"],
    "schema-vote": ["{" + ", ".join(f'"{"ab"[i % 2]}{i}": {i}' for i in range(n)) + "}" for n in (12, 11)],
    "schema-tally": ["[0,1,2,3,4,5,6,7,8,9,10,11]", "[0,1,2,3,4,5,6,7,8,9,10]"],
    "schema-decimals": ["2469.1356", "0", "1", "1234.56781"],
    "schema-patterns": ['{"xc": 99, "ab": 98, "ea": 120}', '{"xc": 98}', '{"ab": 97}', '{"fa": 101}'],
    "schema-tree": ['{"children": [{"name": "x"}], "name": "\\u0041"}', '{"name": "x"}', '{"children": [1]}'],
    "schema-twice": ["[1, 2, 1]", "[1, 2]"],
    "type": ['{"amount": 1.5, "currency": "EUR"}', '{"amount": "1"}'],
    "xml": ["<n>12</n>", "<n>0</n>"],
}


def write(folder: Path) -> None:
    """Writes a file for each case: the corpus of ``make fuzz-programs``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, constraint in CASES.items():
        (folder / f"{name}.rail").write_bytes(program_file(constraint))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
