"""Targets of failures: constraints that reach every kind of expression and of mask, each with texts."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import canonical_support
import guiderail as gr

WORDS = "ab ba abc true null 12 3.5 aaaaaa bbbb name tags if while x= == é1"
QUOTES = '" "a ": ", {" [" ]} "} "], }, 1,'
CHARACTERS = string.ascii_letters[:26] + string.digits + '"\\/{}[]():;,.+*-=_<>#@? \n\té€'


def vocabulary() -> gr.Vocabulary:
    words = {w.encode() for w in [*WORDS.split(" "), *QUOTES.split(" "), "  ", ", ", ": ", "\n    ", "\\u00"]}
    tokens = sorted(words | {bytes([b]) for b in CHARACTERS.encode()} | {b"b\xc3"})
    return gr.Vocabulary(
        [*tokens, b"ab", b"<x>", b"<eos>"],  # one is spelled like another
        special_tokens={"<x>": len(tokens) + 1, "<eos>": len(tokens) + 2},
        stop_token_ids=[len(tokens) + 2],
    )


MERGES = 'a b|ab a|a a|n a|m e|na me|t a|g s|ta gs|i d|Ġ "|" :|" ,|": Ġ|Ġ a|1 2|{ "|, Ġ|] }|b Ġ|Ã ©|ab c'


def spelled_vocabulary() -> gr.Vocabulary:
    """A vocabulary whose tokenizer's spelling is known."""
    merges = [(left, right) for left, right in (one.split(" ") for one in MERGES.split("|"))]
    alphabet = bytes(sorted(set(CHARACTERS.encode())))
    return canonical_support.vocabulary(canonical_support.tokenizer(alphabet, merges, canonical_support.GPT2))


@dataclass(frozen=True)
class Scenario:
    constraint: Callable[[], gr.Constraint]
    texts: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    finite: bool = False  # it has few states
    threads: bool = False  # worth batches on native threads
    vocabulary: Callable[[], gr.Vocabulary] = vocabulary


LARK = r"""start: statement+
statement: NAME "=" sum ";" | "if" "(" sum ")" "{" statement* "}"
sum: atom | sum "+" atom
atom: NAME | NUMBER | STRING | "(" sum ")"
NAME: /[a-z_]\w*/
NUMBER: /\d+(\.\d+)?/
STRING: /"[^"\n]*"/
COMMENT: /#[^\n]*/
%ignore COMMENT
%ignore /[ \n\t]+/"""
NESTED = r"""start: NAME "=" value ";" | @other
value: %json {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
NAME: /[a-z]+/
%ignore " "
"""
INDENTED = r"""start: block+
block: NAME ":" _NL _INDENT line+ _DEDENT
line: NAME _NL | block
NAME: /[a-z]+/
_NL: /\n[ ]*/
%declare _INDENT _DEDENT
%ignore / +/
"""
OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5, "pattern": "\\S$"},
        "tags": {"type": "array", "items": {"enum": ["a", "ab", 1]}, "maxItems": 3},
        "id": {"type": ["integer", "null"], "minimum": -3, "maximum": 1200},
    },
    "required": ["name"],
    "additionalProperties": False,
}
KEYS = {
    "type": "object",
    "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "null"}},
    "properties": {"name": {"const": "x"}},
    "propertyNames": {"maxLength": 6},
    "maxProperties": 4,
    "dependentRequired": {"a": ["name"]},
}
TEXTS = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[ab]+€?$", "maxLength": 6, "not": {"pattern": "aba"}},
    "contains": {"const": "ab"},
}
TAG = {
    "type": "sequence",
    "elements": [
        {"type": "any_text", "max_tokens": 4, "excludes": ["xx"]},
        {"type": "token", "token": "<x>"},
        {"type": "repeat", "min": 0, "max": 3, "content": {"type": "exclude_token", "exclude_tokens": ["b", "ab"]}},
        {"type": "const_string", "value": "("},
        {"type": "any_tokens", "exclude_tokens": ["c"], "max_tokens": 2},
    ],
}


def tool_calls() -> gr.Constraint:
    def tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "parameters": schema}}

    return gr.tool_calls([tool("a", OBJECT), tool("ab", KEYS)], format="hermes")


SCENARIOS: dict[str, Scenario] = {
    "regex": Scenario(
        lambda: gr.regex(r"(?:[ab]{1,4}[0-9 ]{2,9}){1,4}x*|[^é€]{3,}\w+é"),
        ["ab12 3ba 12xx", "abcé", "€"],
        finite=True,
        threads=True,
    ),
    "look-arounds": Scenario(
        lambda: gr.regex(r"(?=.*1)(?!.*bbbb)(?:\w+\b ?){1,9}(?<!a)"), ["ab a1 b", "abcx 12"], threads=True
    ),
    "intersections": Scenario(
        lambda: gr.regex("(a|b|c){2,40}") & ~gr.regex(".*abc.*") & gr.regex("[^x]*b[^x]{0,9}"), ["abaacab", "aabbcc"]
    ),
    "choices": Scenario(
        lambda: gr.choice([f"{i}ab{i % 7}" for i in range(60)]) + gr.substring_of("abracadabra é€ ab"),
        ["12ab5raca", "7ab0 é"],
        finite=True,
    ),
    "free text": Scenario(
        lambda: gr.text_until("ab").limited_to(20) + gr.separated_by(gr.regex(r"\w{1,9}"), ", ", 2, 30),
        ["xbab1, 2, aaa", "ab1, é"],
    ),
    "rules": Scenario(
        lambda: gr.grammar(
            'root ::= pair root | pair | "(" root ")" list?\npair ::= "a" "b"? | list "b"\nlist ::= "c" list | "c"',
            "gbnf",
        ),
        ["ab(aab)cccb", "((ab))c"],
        threads=True,
    ),
    "object": Scenario(
        lambda: gr.json_schema(OBJECT),
        ['{"name": "aé", "tags": ["a", 1], "id": 120}', '{"id": -3, "name": "x"}'],
        threads=True,
    ),
    "any JSON": Scenario(lambda: gr.json_schema({}), ['{"a": [1, {"b": null}], "\\u00e9": "é\\n"}', "[-7, 3.5]"]),
    "keys": Scenario(lambda: gr.json_schema(KEYS), ['{"a": 1, "name": "x"}', '{"xb": null, "ab": 1}']),
    "texts": Scenario(lambda: gr.json_schema(TEXTS), ['["ab", "aa€"]', '["bbbb", "ab"]']),
    "distinct items": Scenario(
        lambda: gr.json_schema(
            {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "ab", 1, 12, None, [1], {"a": 1}]}}
        ),
        ['["a", "ab", 12, {"a": 1}]', "[[1], null]"],
    ),
    "distinct texts": Scenario(
        lambda: gr.json_schema({"type": "array", "uniqueItems": True, "items": {"type": ["string", "integer"]}}),
        ['["a", "aé", 12, "ab"]', '["\\u0061", 1]'],
    ),
    "lexed": Scenario(
        lambda: gr.grammar(LARK, "lark"),
        ['a = b + "x" ; # c\nif (a) { x = 12; }', "abc=3.5;if(1){}"],
        threads=True,
    ),
    "lexed, nested": Scenario(
        lambda: gr.grammar(NESTED, "lark", constraints={"other": gr.grammar(LARK, "lark") | gr.regex(r"\d{2,4}")}),
        ['ab = {"a": 12};', "x = a + 1;", "123"],
    ),
    "ready grammar": Scenario(lambda: gr.grammar(*READY), ["(1 + 2) * 3", "-a"]),
    "tokens": Scenario(lambda: gr.structural_tag({"type": "structural_tag", "format": TAG}), ["aé ba", "x"]),
    "tool calls": Scenario(tool_calls, ['<tool_call>\n{"name": "a", "arguments": {"name": "é"}}\n</tool_call>']),
    "canonical spelling": Scenario(
        lambda: gr.regex(r"(?:\w+ ?){1,4}(?:12|\d{3})é?|[^ab]{2,5}"),
        ["ab name 12é", "aab tags id 121", "\n12"],
        {"canonical": True},
        threads=True,
        vocabulary=spelled_vocabulary,
    ),
    "canonical objects": Scenario(
        lambda: gr.json_schema(OBJECT),
        ['{"name": "aé", "tags": ["a", 1], "id": 120}', '{"id": -3, "name": "x"}'],
        {"canonical": True},
        vocabulary=spelled_vocabulary,
    ),
    "renewal": Scenario(
        lambda: gr.json_schema({"type": "object", "additionalProperties": {"type": "integer"}}),
        [f'{{"a{i}b": 1, "x{i}": {i}}}' for i in range(6)],
        {"max_memory": 1},
    ),
}
READY = (
    'start: sum\n?sum: product | sum "+" product\n?product: atom | product "*" atom\n'
    'atom: /[0-9]+/ | "-" atom | /[a-z]+/ | "(" sum ")"\n%ignore " "',
    "lark",
)
