"""``oneOf`` of many strings that overlap, which are read side by side; compared with counting what matches.

The same for sets that share their parts, so that visiting every path through them would never end.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import jsonschema
import pytest

import guiderail as gr
from core_support import EVERY_BYTE, plain
from guiderail.frontends.json_schema.values.exactly_one import one_number, one_string
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from mask_walks import Walk, check_walk

SETS = {
    "searches": ["aa", "ab", "ba", "bb", "é", "a.b", "b.*a", "^b", "a$", "é.*é", "q"],
    "whole": ["^a*$", "^[ab]*$", "^(ab)*$", "^.{0,2}$", "^.{2,3}$", "^é+a?$", "^[^é]*$", "^.*b$", "^b.*$", "^$"],
    "twice": ["a", "a", "b", "b", "é", "é", "q", "q", "^$", "^$", "."],
    "one-of-all": ["", "^a", "^b", "^é", "^q", "^ab", "^aa", "b$", "a$", "é$"],
}


@pytest.mark.parametrize("name", SETS)
def test_masks_of_exactly_one(name: str) -> None:
    patterns = [re.compile(pattern, re.DOTALL) for pattern in SETS[name]]

    def meaning(text: str) -> bool:
        return sum(bool(pattern.search(text)) for pattern in patterns) == 1

    schema = {"type": "string", "oneOf": [{"pattern": pattern.pattern} for pattern in patterns]}
    walk = Walk(name, gr.json_schema(schema), meaning, True, None)
    for seed in range(4):
        assert check_walk(walk, seed) is None


def _schema(draw: random.Random, level: int) -> dict[str, Any]:
    kind = draw.randrange(10 if level else 6)
    if kind == 0:
        return {"enum": draw.sample(["", "a", "b", "ab", "ba", "aab", "cab", "bbb"], 3)}
    if kind == 1:
        low = draw.randrange(5)
        return {"minLength": low, "maxLength": low + draw.randrange(2)}
    if kind < 6:
        parts = [
            draw.choice(["a", "b", "c", "ab", "[ab]{2}", "c*", ".", "(ba|c)"]) for _ in range(draw.randrange(2, 5))
        ]
        return {"pattern": draw.choice(["", "^"]) + "".join(parts) + draw.choice(["", "$"])}
    if kind == 6:
        return {"allOf": [_schema(draw, level - 1), {"not": _schema(draw, level - 1)}]}
    if kind == 7:
        return {"anyOf": [_schema(draw, level - 1) for _ in range(3)]}
    return {"oneOf": [_schema(draw, level - 1) for _ in range(draw.choice((2, 10, 14)))]}


def _allowed(schema: dict[str, Any], texts: dict[str, str]) -> set[str]:
    """Those of some texts, as they are written, that match; by their keys."""
    try:
        constraint = gr.json_schema(schema)
        return {text for text, written in texts.items() if constraint.matches(written)}
    except gr.SchemaError as error:
        assert error.code == "unsatisfiable-schema"
        return set()


@pytest.mark.parametrize("seed", range(60))
def test_random_schemas_of_strings(seed: int) -> None:
    draw = random.Random(seed)
    schema = {"type": "string", "oneOf": [_schema(draw, 1) for _ in range(draw.choice((9, 10, 12)))]}
    texts = ["".join(letters) for size in range(5) for letters in itertools.product("abc", repeat=size)]
    valid = jsonschema.Draft202012Validator(schema).is_valid
    wanted = {text for text in texts if valid(text)}
    assert _allowed(schema, {text: f'"{text}"' for text in texts}) == wanted
    keys = {"type": "object", "propertyNames": schema, "minProperties": 1, "additionalProperties": {"type": "null"}}
    assert _allowed(keys, {text: f'{{"{text}": null}}' for text in texts}) == wanted


def test_exactly_one_of_formats_that_are_approximated() -> None:
    sets = [Strings.format("hostname"), Strings.format("uri-template"), *map(Strings.pattern, "abcdefgh")]
    found = one_string([one for one in sets if one is not None])
    unsure = 0
    texts = ["", "a", "xn--a", "a.example", "i.jo", "jo", "a b", "{+x}", "{x}", "j~", "%", "{=j}", "xn--jklm", "ab"]
    for text in texts:
        answers = [one._decide(text) for one in sets if one is not None]
        certainly, perhaps = answers.count(True), answers.count(True) + answers.count(None)
        exact = certainly == perhaps
        unsure += not exact
        assert found.contains(text) == (certainly == perhaps == 1), text
        assert (~found).contains(text) == (perhaps == 0 or certainly > 1), text
    assert unsure > 2
    hostnames = Strings.format("hostname")
    assert hostnames is not None
    few = Strings.texts(["xn--a", "xn--b", "m"]) & hostnames  # the first two perhaps
    found = one_string([few, *(Strings.pattern(f"{letter}$") for letter in "acdefghi")])
    assert found.contains("m") and found.contains("a")
    assert not found.contains("xn--a") and not found.contains("xn--b")
    assert not (~found).contains("xn--a") and not (~found).contains("xn--b")


def test_many_sets_that_overlap() -> None:
    schema = {"oneOf": [{"pattern": f"word{i:03}"} for i in range(300)]}
    constraint = gr.json_schema(schema)
    assert constraint.matches('"a word017"') and constraint.matches('"word017 and word017"')
    assert not constraint.matches('"word017 and word018"') and not constraint.matches('"word"')
    assert not constraint.matches("1")  # every pattern allows it
    unequal = gr.json_schema({"type": "string", "not": schema})
    assert unequal.matches('"word017 and word018"') and unequal.matches('"word"')
    assert not unequal.matches('"a word017"')
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}, *([{}] * 12)]}).program()
    assert caught.value.code == "unsatisfiable-schema"


def test_saved_and_read_again(tmp_path: Any) -> None:
    constraint = gr.json_schema({"type": "string", "oneOf": [{"pattern": f"w{i}"} for i in range(12)]})
    constraint.save(tmp_path / "one.bin")
    read = gr.load(tmp_path / "one.bin")
    for text in ('"w1"', '"w1w2"', '"w11"', '""'):
        assert read.matches(text) == constraint.matches(text)
    mask = gr.compile(constraint, plain(EVERY_BYTE)).matcher()
    mask.accept_string('"w3')
    assert mask.fork().validate([ord("w"), ord("4")]) == 1  # a second match


@pytest.mark.parametrize("count", [12, 60, 200])
def test_conditions_on_one_string_are_not_multiplied(count: int) -> None:
    """Each condition doubles the number of paths through what is known of the string."""
    conditions = [{"if": {"pattern": f"<{i}>"}, "then": {"pattern": f"x{i}x"}} for i in range(count)]
    constraint = gr.json_schema({"type": "string", "allOf": conditions})
    assert constraint.matches('"<3> x3x"') and constraint.matches('"x3x"')
    assert not constraint.matches('"<3> x4x"') and not constraint.matches('"<3> x3x <4>"')


def test_questions_about_shared_parts_visit_each_once() -> None:
    strings = Strings.pattern("a")
    for i in range(1, 80):
        strings = (strings & Strings.pattern(f"b{i}")) | (strings & Strings.length(i, 2 * i)) | Strings.texts([str(i)])
    assert strings.contains("79") and not strings.contains("b")
    assert strings.is_exact() and strings.has_pattern()
    opposite = ~strings
    assert opposite.contains("b") and not opposite.contains("79")
    assert hash(~opposite) == hash(strings)


@pytest.mark.parametrize("seed", range(40))
def test_numbers_in_exactly_one_set_and_in_any(seed: int) -> None:
    draw = random.Random(seed)

    def numbers() -> Numbers:
        low = draw.choice((None, draw.randint(-6, 6), draw.randint(-12, 12) / 2))
        high = draw.choice((None, (low or 0) + draw.randint(0, 5)))
        step = draw.choice((None, 1, 1, 2, 3, 0.5))
        made = Numbers.between(minimum=low, maximum=high, multiple_of=step)
        return draw.choice((made, ~made, Numbers.values(draw.sample(range(-6, 7), draw.randrange(5)))))

    sets = [numbers() for _ in range(draw.randrange(12))]
    one, some = one_number(sets), Numbers.union(sets)
    for value in [n / 4 for n in range(-60, 60)]:
        count = sum(numbers.contains(value) for numbers in sets)
        assert one.contains(value) == (count == 1), value
        assert some.contains(value) == (count > 0), value


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_thousands_of_labelled_values(keyword: str) -> None:
    values = [*(f"v{i}" for i in range(3_000)), *range(1_000), True, None, "twice", "twice", 1.0, 2000.5, 2000.5]
    schema = {keyword: [{"const": value, "title": f"the value {value}"} for value in values]}
    program = gr.json_schema(schema).program()
    assert all(program.matches(text) for text in ('"v0"', '"v2999"', "0", "999", "true", "null"))
    assert not any(program.matches(text) for text in ('"v3000"', "1000", "false", '"v"', "2000.6"))
    assert all(program.matches(text) == (keyword == "anyOf") for text in ('"twice"', "1", "2000.5"))


def test_thousands_of_tagged_objects() -> None:
    def branch(tags: list[str], name: str) -> dict[str, Any]:
        properties = {"kind": {"enum": tags}, name: {"type": "integer"}}
        return {"type": "object", "properties": properties, "required": ["kind"]}

    branches = [branch([f"k{i}"], f"n{i}") for i in range(2_000)]
    program = gr.json_schema({"oneOf": [*branches, branch(["k7", "new"], "n7"), branch(["k8"], "other")]}).program()
    assert program.matches('{"kind": "k1999", "n1999": 1, "n0": ""}') and program.matches('{"kind": "new"}')
    assert not program.matches('{"kind": "k1999", "n1999": ""}') and not program.matches('{"kind": "k2000"}')
    assert not program.matches('{"kind": "k7"}') and not program.matches('{"kind": "k8"}')
    assert program.matches('{"kind": "k8", "n8": "", "other": 1}') == program.matches('{"kind": "k8", "other": ""}')


HOST: dict[str, Any] = {"type": "string", "format": "hostname"}
PUNYCODE = {"const": "xn--foo"}  # perhaps a host name
OVERLAPPING = {
    "strings": ([{**HOST, "enum": ["xn--foo", "m"]}, {"pattern": "o$"}], '"xn--foo"'),
    "members": (
        [{"properties": {"h": HOST}, "required": ["h"]}, {"properties": {"h": PUNYCODE}, "required": ["h"]}],
        '{"h": "xn--foo"}',
    ),
    "other members": (
        [{"additionalProperties": HOST, "minProperties": 1}, {"properties": {"h": PUNYCODE}, "required": ["h"]}],
        '{"h": "xn--foo"}',
    ),
    "items": ([{"items": HOST, "minItems": 1}, {"items": PUNYCODE, "minItems": 1}], '["xn--foo"]'),
    "tags": (
        [
            {"properties": {"h": HOST, "n": {"const": 1}}, "required": ["h", "n"]},
            {"properties": {"h": PUNYCODE, "n": {"type": "integer"}}, "required": ["h"]},
        ],
        '{"h": "xn--foo", "n": 1}',
    ),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_branches_that_perhaps_overlap_are_not_taken_for_disjoint(name: str) -> None:
    branches, text = OVERLAPPING[name]
    kind = {"type": ["string", "object", "array"]}
    assert not gr.json_schema({**kind, "oneOf": branches}).matches(text)
    assert gr.json_schema({**kind, "anyOf": branches}).matches(text)
