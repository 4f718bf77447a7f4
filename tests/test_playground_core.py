"""The playground's stand-in for the core: the front ends build the same expressions with it and without it."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# fmt: off
SCHEMAS: list[Any] = [
    {"type": "integer", "minimum": 1, "maximum": 65535, "not": {"enum": [22, 80]}},
    {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, 3]}, "minItems": 2},
    {"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxContains": 3},
    {"type": "number", "multipleOf": 0.01, "minimum": 0, "exclusiveMaximum": 3.5},
    {"not": {"type": "array", "uniqueItems": True}},
    {"type": "object", "anyOf": [{"required": [f"k{i}"]} for i in range(70)]},
    {"oneOf": [{"properties": {"a": {"const": i}}, "required": ["a"]} for i in range(80)]},
    {"type": "object", "patternProperties": {"^x": {"type": "string", "format": "date"}},
     "dependentRequired": {"a": ["b"]}, "minProperties": 1, "maxProperties": 4},
    {"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}, "v": {"type": "string"}}}},
     "$ref": "#/$defs/n"},
    {"$id": "https://example.org/a", "$defs": {"b": {"$anchor": "here", "type": "boolean"}}, "$ref": "#here"},
    {"type": "string", "format": "uri"}, {"type": "string", "format": "idn-hostname"},
    {"type": "string", "format": "ipv6"}, {"type": "string", "pattern": "^(a|b)+$", "minLength": 3},
    {"allOf": [{"type": "integer", "maximum": 9}, {"minimum": 9.5}]},
    {"type": "strin"},
]
TEXTS_OF_SCHEMAS = ["", "[", "[1", '{"', '{"a', '{"a": 1', '{"k3": null, "', '"', '"ab', "12", "0.", "-", "tr",
                    '{"x": "20']
REGEXES = [r"\d+", r"(?i)abc|def", r"(?=.*\d)[a-z0-9]{3,8}", r"\bfoo\b.*(?<!x)y", r"[^\W\d]+", r"(?u)\w+", "a{2,5}b*?",
           r"(?!ab)[a-z]+$", "(a|b", r"(\w)\1"]
TEXTS_OF_REGEXES = ["", "a", "ab", "abc", "1", "foo ", "12", "aab"]
GRAMMARS = [
    'root ::= root "+" number | number\nnumber ::= [0-9]+',
    'start: "a" B\nB: /x+/',
    'start: NAME "=" expr\nexpr: expr "+" NAME | NAME\nNAME: /[a-z]+/\n%ignore " "',
    'start: (IF | NAME)+\nIF: "if"\nNAME: /[a-z]+/\n%ignore /\\s+/',
    'start: %json {"type": "boolean"} | "[" start "]"',
    'S = "a", {S}, "b";',
    "root ::= unknown",
]
TEXTS_OF_GRAMMARS = ["", "1", "1+", "a", "ax", "a = ", "a=b+", "if", "if a", "[[tr", "ab"]
# fmt: on
TABLE: list[tuple[str, Any, dict[str, Any], list[str]]] = [
    *(("schema", one, {}, TEXTS_OF_SCHEMAS) for one in SCHEMAS),
    *(("schema", one, {"property_order": "declared", "layout": "compact"}, TEXTS_OF_SCHEMAS) for one in SCHEMAS),
    *(("regex", one, {}, TEXTS_OF_REGEXES) for one in REGEXES),
    *(("grammar", one, {}, TEXTS_OF_GRAMMARS) for one in GRAMMARS),
]


def described(real: Any, kind: str, source: Any, options: dict[str, Any], texts: list[str], link: Any = None) -> Any:
    """Describes a constraint by its masks and explanations, or its error; in either process, with either core."""
    import guiderail as gr
    from guiderail.constraints.program import build_program
    from playground_core import masks

    make = {"schema": gr.json_schema, "regex": gr.regex, "grammar": gr.grammar}[kind]
    try:
        made = make(source, **options)
        program: Any = build_program(made)
        why = [str(made.explain(text)) for text in texts]
    except gr.GuiderailError as error:
        return {"error": str(error), "code": error.code}
    return {"masks": masks(real, program if link is None else link.kept[program.handle], texts), "why": why}


@pytest.fixture(scope="module")
def through_bytes() -> list[Any]:
    """The results with the stand-in, in a separate process."""
    lines = "".join(json.dumps(row) + "\n" for row in TABLE)
    command = [sys.executable, str(ROOT / "tests" / "playground_core.py")]
    made = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr[-3000:]
    return [json.loads(line) for line in made.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(TABLE)), ids=lambda n: f"{TABLE[n][0]}-{n}")
def test_front_ends_build_the_same_through_the_stand_in(through_bytes: list[Any], number: int) -> None:
    from guiderail import _core

    assert through_bytes[number] == described(_core, *TABLE[number])


def test_operations_have_the_codes_of_program_files() -> None:
    from guiderail import _core

    sys.path.insert(0, str(ROOT / "playground" / "python"))
    try:
        spec = importlib.util.spec_from_file_location("playground_stand_in", ROOT / "playground" / "python" / "core.py")
        assert spec is not None and spec.loader is not None
        stand_in = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(stand_in)
    finally:
        sys.path.pop(0)
    assert {name: code for code, name in enumerate(stand_in.OPERATIONS, 1)} == _core.Builder.operations()


def test_sets_of_characters_are_those_of_the_core() -> None:
    made = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr[-3000:]


def _compare_sets() -> None:
    from playground_core import load_real, load_stand_in

    real, stand_in = load_real().CharSet, load_stand_in().CharSet
    numbers = random.Random(7)
    edges = [0, 1, 0x7F, 0x80, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0x10FFFE, 0x10FFFF]

    def ranges() -> list[tuple[int, int]]:
        ends = [numbers.choice(edges) if numbers.random() < 0.5 else numbers.randrange(0x300) for _ in range(6)]
        return [(min(pair), max(pair)) for pair in zip(ends[::2], ends[1::2], strict=True)]

    for _ in range(500):
        a, b = ranges(), ranges()
        ours, theirs = (stand_in(a), stand_in(b)), (real(a), real(b))
        for of in (
            lambda x, y: x | y,
            lambda x, y: x & y,
            lambda x, y: x - y,
            lambda x, y: ~x,
            lambda x, y: ~(x - y),
        ):
            assert of(*ours).ranges() == of(*theirs).ranges(), (a, b)
        assert len(ours[0]) == len(theirs[0])
        assert (ours[0] == ours[1]) == (theirs[0] == theirs[1])
        assert [c in ours[0] for c in edges] == [c in theirs[0] for c in edges]
    for wrong in ([(2, 1)], [(0, 0x110000)]):
        try:
            stand_in(wrong)
        except Exception as error:
            assert error.args[0] == "bad-range"
        else:
            raise AssertionError(wrong)


if __name__ == "__main__":
    _compare_sets()
