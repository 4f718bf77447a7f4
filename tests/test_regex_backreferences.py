"""Backreferences to groups, of few texts (written out) and of many (captured), against `re` and JavaScript."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of
from guiderail.constraints.saved import SavedConstraint
from guiderail.constraints.saving import program_file
from guiderail.errors import LimitError, PatternError
from guiderail.frontends.grammar.lark.first_match import Unknown, first_match
from test_mask_strategies import NAMES, pieces, same

NODE = shutil.which("node")
TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product("ab", repeat=length)]

# pattern, dialect, texts that match, texts that do not
TABLE = {
    "quotes": (r"""(['"])(?:[^\\]|\\.)*?\1""", "python", ['"a"', "'\"'", r"'\''"], ["'a\"", '"']),
    "tags": (r"<(b|i|u)>[a-z]*</\1>", "python", ["<b>x</b>", "<u></u>"], ["<b>x</i>"]),
    "by name": (r"(?P<q>['\"])\w*(?P=q)", "python", ["'a'"], ["'a\""]),
    "by name in JavaScript": (r"(?<q>['\"])\w*\k<q>", "ecma", ["'a'"], ["'a\""]),
    "ignoring case": (r"(?i)(ab|c)-\1", "python", ["aB-Ab", "C-c"], ["ab-c"]),
    "ignoring case only there": (r"(ab)-(?i:\1)", "python", ["ab-AB"], ["AB-ab"]),
    "two groups": (r"([ab])([cd])\2\1", "python", ["acca", "bddb"], ["acac"]),
    "a group of any word character": (r"(\w)-\1", "python", ["a-a", "_-_"], ["a-b", "é-é"]),
    "the last iteration": (r"(a|b){3}\1", "python", ["abaa", "bbbb"], ["abab"]),
    "in each iteration": (r"(?:(a|b)-\1,)+", "python", ["a-a,b-b,"], ["a-b,"]),
    "an optional group in Python": (r"(a)?b\1", "python", ["aba"], ["b", "ab"]),
    "an optional group in JavaScript": (r"(a)?b\1", "ecma", ["aba", "b"], ["ab", "ba"]),
    "in a look-ahead": (r"(a|b)(?!\1)[ab]", "python", ["ab", "ba"], ["aa"]),
    "a possessive quantifier that leaves no choice": (r"((?:a|b){2}+)-\1", "python", ["ab-ab"], ["ab-ba", "a-a"]),
    "repeated": (r"(a|b)\1{2,}c", "python", ["aaac", "bbbbc"], ["aac", "aabc"]),
    "any tag": (r"<([a-z]+)[^>]*>.*</\1>", "python", ["<ab x>.</ab>", "<a></a>"], ["<ab></b>", "<a></ab>"]),
    "a group that may take less": (
        r"<([a-z]+).+?/\1>",
        "ecma",
        ["<ab./ab>", "<ab/a>", "<abc d/ab>"],
        ["<ab/b>", "<a/a>"],
    ),
    "as long as one likes": (r"(.+)\1", "python", ["aa", "abcabc", "ééé€ééé€"], ["", "a", "abcab"]),
    "empty, too": (r"(a*)b\1", "python", ["b", "aba", "aabaa"], ["ab", "aaba"]),
    "many, by name": (r"(?P<x>[^=]+)=(?P=x)", "python", ["a b=a b"], ["a=b", "="]),
    "many, one in another": (r"(\w+) (\d+) \2 \1", "python", ["ab 12 12 ab"], ["ab 12 12 a", "ab 12 1 ab"]),
    "many, in each iteration": (r"(?:([a-z]+)-\1,)*", "python", ["", "ab-ab,c-c,"], ["ab-ba,"]),
    "many, used in one alternative": (r"([a-z]+)(?:=\1|!)", "ecma", ["ab=ab", "ab!"], ["ab=a"]),
    "many, repeated": (r"([a-z]+)(?:,\1)*", "python", ["ab", "ab,ab,ab"], ["ab,b"]),
    "few, but many together": (r"(\d)(\d)(\d)\3\2\1", "python", ["123321"], ["123123"]),
    "an atomic group as JavaScript writes it": (r"(?=(a+))\1b", "ecma", ["ab", "aab"], ["b", "aa"]),
    "an atomic group that takes its first match": (r"(?=(a|ab))\1(c|bd)", "ecma", ["ac", "abd"], ["abc"]),
    "atomic groups in each iteration": (
        r"(?:(?=([a-z]*))\1-(?=(\d+))\2;)*",
        "ecma",
        ["ab-12;c-3;", "-1;"],
        ["ab-;", "ab12;"],
    ),
    "a word twice": (r".*\b(\w+)\s+\1\b.*", "python", ["say it it again"], ["say it at", "bit it"]),
    "a date without or with hyphens": (r"\d{4}(-?)\d\d\1\d\d", "ecma", ["2024-01-31", "20240131"], ["2024-0131"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_backreferences_are_followed(name: str) -> None:
    pattern, dialect, yes, no = TABLE[name]
    constraint = gr.regex(pattern, dialect=dialect)
    assert [constraint.matches(text) for text in [*yes, *no]] == [True] * len(yes) + [False] * len(no)


@pytest.mark.parametrize(
    ("pattern", "dialect", "why"),
    [
        (r"(\bab)\1", "python", "an assertion, an atomic group"),
        (r"(a+)\b\1", "python", "an assertion, an atomic group"),
        (r"(a?+)\1ab", "python", "an atomic group"),  # `re` never matches: a?+ takes the first a
        (r"((?:ab){1,2}+)\1", "python", "an atomic group"),
        (r"(?:x(a+)|y)\1", "python", "ends before this place"),
        (r"(a+)+\1", "python", "ends before this place"),
        (r"((a+)b)\1\2", "python", "contains another group"),
        (r"(?i)(a+)\1", "python", "case of their letters"),
        (r"(?=(a|b))c?\1", "python", "inside a look-around"),
        (r"(?=(a|b))\1\1", "python", "inside a look-around"),
        (r"(?<=(a|b)\1)c", "ecma", "inside a look-around"),
        (r"(?>(a|b))\1", "python", "inside an atomic group"),
        (r"(?:(a)|b)+\1", "python", "in one iteration and not in the next"),
        (r"(?:(a)|b\1)+", "python", "an earlier iteration"),
        (r"(a?)*b\1", "ecma", "an iteration may match nothing"),
        (r"((a|b)c)\1\2", "python", "contains another group"),
        (r"\1(a)", "ecma", "no group of this number or name ends before it"),
        (r"(a|b\1)", "ecma", "no group of this number or name ends before it"),
    ],
)
def test_what_is_not_followed_is_refused(pattern: str, dialect: str, why: str) -> None:
    with pytest.raises(PatternError, match=why) as caught:
        gr.regex(pattern, dialect=dialect)
    assert caught.value.code == "regex-backreference"
    assert pattern[slice(*caught.value.span)].startswith("\\")


LETTERS = [b"a", b"b", b"ab", b"ba", b"aab", b"bb"]


def capturing(seed: int, count: int) -> list[str]:
    """Random patterns with backreferences to groups of many texts."""
    rng = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        group = f"({rng.choice(['[ab]+', '[ab]*', 'a+b?', '(?:ab?)+', 'b[ab]*'])})"
        groups = [1]
        pattern = (
            patterns(rng, 1, [0], False)
            + group
            + patterns(rng, 2, groups, False)
            + r"\1"
            + patterns(rng, 1, groups, False)
        )
        try:
            constraint = gr.regex(pattern)
            constraint.program()
            if constraint._parsed.recalled:
                found.append(pattern)
        except PatternError:
            continue
    return found


@pytest.mark.parametrize("seed", range(3))
def test_masks_of_captures(seed: int) -> None:
    """A token is allowed if and only if a text goes on with it."""
    vocabulary = gr.Vocabulary([*LETTERS, b"</s>"], stop_token_ids=[len(LETTERS)])
    rng = random.Random(seed)
    for pattern in capturing(seed, 40):
        constraint = gr.regex(pattern)
        matching = [text for text in TEXTS if re.fullmatch(pattern, text)]
        assert [text for text in TEXTS if constraint.matches(text)] == matching, pattern
        if not matching:
            continue
        program = constraint.program()
        matcher, read = gr.compile(constraint, vocabulary, cache=False).matcher(), b""
        for _ in range(4):
            allowed = np.flatnonzero(mask_of(matcher)).tolist()
            for token, letters in enumerate(LETTERS):
                text = read + letters
                assert matcher.fork().accept_token(token) == (token in allowed), (pattern, text)
                if token in allowed:
                    rest = program.core.shortest(program.core.derivative(program.start, text), 100)
                    assert rest is not None and re.fullmatch(pattern, (text + rest).decode()), (pattern, text)
                else:
                    assert not any(other.startswith(text.decode()) for other in matching), (pattern, text)
            allowed = [token for token in allowed if token < len(LETTERS)]
            if not allowed:
                break
            token = rng.choice(allowed)
            assert matcher.accept_token(token)
            read += LETTERS[token]


@pytest.mark.parametrize("seed", range(3))
def test_strategies_agree_on_captures(seed: int) -> None:
    rng = random.Random(seed)
    for pattern in capturing(10 + seed, 8):
        schema = {"type": "string", "pattern": rng.choice([pattern, f"^{pattern}$"])}
        for constraint in (gr.regex(pattern), gr.json_schema(schema), gr.json_schema({"items": schema})):
            vocabulary = pieces(rng, [b'"', b"ab", b"aab", b"abab", b"ba", b'b"', b"\\u0061", b"x"])
            same((constraint, vocabulary), rng, [NAMES, ["counters"], []])


@pytest.mark.parametrize(
    "constraint",
    [
        gr.regex(r"<([a-z]+)>[^<]*</\1>") + gr.regex(r"(.+)=\1"),
        gr.regex(r"(\w+) \1") + gr.regex(".*") | gr.choice(["x"]),
        gr.json_schema({"patternProperties": {r"^(\w+)_\1$": {"type": "integer"}}, "additionalProperties": False}),
        gr.json_schema({"items": {"type": "string", "pattern": r"^([a-z]+)-\1$"}, "minItems": 2}),
    ],
    ids=str,
)
def test_captures_are_saved(constraint: gr.Constraint) -> None:
    loaded = SavedConstraint(program_file(constraint))
    texts = [
        "<ab>x</ab>y=y",
        "<ab>x</a>y=y",
        "abcd abcd",
        "ab ab",
        "abcd abce",
        '{"a_a": 1}',
        '{"a_b": 1}',
        '["a-a", "b-b"]',
    ]
    texts += ['["a-a", "b-c"]', "x"]
    assert [loaded.matches(text) for text in texts] == [constraint.matches(text) for text in texts]
    assert any(constraint.matches(text) for text in texts) and not all(constraint.matches(text) for text in texts)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gr.regex(r"(?=.*x)(\w+)-\1"),
        lambda: gr.regex(r"(\w+)-\1") & gr.regex("a.*"),
        lambda: ~gr.regex(r"(\w+)-\1"),
        lambda: gr.regex(r"(\w+)-\1", max_length=9),
    ],
)
def test_a_capture_beside_other_conditions_is_refused(make: Callable[[], gr.Constraint]) -> None:
    with pytest.raises(gr.GuiderailError, match="more than 64 texts"):
        make().program()


@pytest.mark.parametrize(
    ("beside", "fits"),
    [
        ({}, True),
        ({"minLength": 2}, True),
        ({"enum": ["a=a", "a=b"]}, True),
        ({"minLength": 4}, False),
        ({"maxLength": 9}, False),
        ({"allOf": [{"pattern": "a"}]}, False),
        ({"not": {"pattern": r"^(.+)x\1$"}}, False),
    ],
    ids=str,
)
def test_a_pattern_that_remembers_a_text_stands_alone(beside: dict[str, Any], fits: bool) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": r"^(.+)=\1$", **beside}}}
    if fits:
        constraint = gr.json_schema(schema)
        assert constraint.matches('{"a": "a=a"}') and not constraint.matches('{"a": "a=b"}')
        return
    with pytest.raises(gr.SchemaError, match="only condition") as caught:
        gr.json_schema(schema).program()
    pointer = caught.value.pointer
    assert caught.value.code == "regex-backreference"
    assert pointer is not None and pointer.startswith("#/properties/a") and pointer.endswith("/pattern")


def test_nested_memories_are_counted_as_work() -> None:
    with pytest.raises(LimitError) as caught:
        gr.regex(r"(?:(\w)(?:(\w)(?:(\w)(?:(\w)x\4)*\3)*\2)*\1)*")
    assert caught.value.code == "work"


def patterns(rng: random.Random, depth: int, groups: list[int], behind: bool) -> str:
    kind = rng.randrange(12)
    if depth <= 0 or kind < 3:
        return rng.choice(["a", "b", "ab", "[ab]", ".", "a?"])
    if kind < 5:
        groups[0] += 1
        return "(" + patterns(rng, depth - 1, groups, behind) + ")"
    if kind < 7 and groups[0]:
        return f"\\{rng.randrange(1, groups[0] + 1)}"
    inner = patterns(rng, depth - 1, groups, behind)
    if kind == 7:
        return f"(?:{inner})" + rng.choice(["*", "+", "?", "{1,2}", "{2}", "*?"])
    if kind == 9:
        return rng.choice(["(?=", "(?!", *(["(?<=", "(?<!"] if behind else [])]) + inner + ")"
    other = patterns(rng, depth - 1, groups, behind)
    return f"(?:{inner}|{other})" if kind == 8 else inner + other


def followed(seed: int, count: int, dialect: str, behind: bool) -> dict[str, list[bool]]:
    """Random patterns with backreferences that are not refused, with their verdicts on all texts."""
    rng = random.Random(seed)
    found = {}
    while len(found) < count:
        groups = [0]
        pattern = patterns(rng, 4, groups, behind) + patterns(rng, 3, groups, behind)
        if not re.search(r"\\\d", pattern):
            continue
        try:
            constraint = gr.regex(pattern, dialect=dialect)
            constraint.program()
        except PatternError:
            continue
        found[pattern] = [constraint.matches(text) for text in TEXTS]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_python_agrees(seed: int) -> None:
    for pattern, verdicts in followed(seed, 60, "python", behind=False).items():
        assert verdicts == [re.fullmatch(pattern, text) is not None for text in TEXTS], pattern


@pytest.mark.parametrize("seed", range(3))
def test_a_search_tries_the_texts_in_the_order_of_the_pattern(seed: int) -> None:
    """Where it is said to: Lark's terminals take the match that `re` finds first."""
    decided = 0
    for pattern in followed(seed, 120, "python", behind=False):
        parsed = gr.regex(pattern)._parsed
        try:
            found = first_match(parsed.tree)
        except Unknown:
            continue
        if not parsed.in_order or found.depends or found.needs or found.narrowed:
            continue
        decided += 1
        for text in TEXTS:
            taken = re.match(pattern, text)
            ends = [at for at in range(len(text) + 1) if re.fullmatch(pattern, text[:at])]
            if taken and ends:
                assert not found.longest or taken.end() == max(ends), (pattern, text)
                assert not found.shortest or taken.end() == min(ends), (pattern, text)
    assert decided > 30


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("seed", range(3))
def test_javascript_agrees(seed: int) -> None:
    script = """
    const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const verdicts = (pattern) => given.texts.map((text) => new RegExp("^(?:" + pattern + ")$", "u").test(text));
    console.log(JSON.stringify(given.patterns.map(verdicts)));
    """
    found = followed(seed, 60, "ecma", behind=True)
    given = json.dumps({"patterns": list(found), "texts": TEXTS})
    assert NODE is not None
    done = subprocess.run([NODE, "-e", script], input=given, capture_output=True, text=True, check=True, timeout=60)
    for (pattern, verdicts), expected in zip(found.items(), json.loads(done.stdout), strict=True):
        assert verdicts == expected, pattern


def test_the_texts_of_json_schema_and_of_lark() -> None:
    schema = gr.json_schema({"type": "string", "pattern": r"^\d{4}(-?)\d\d\1\d\d$"})
    assert schema.matches('"2024-01-31"') and not schema.matches('"2024-0131"')
    grammar = gr.grammar("start: TEXT+\nTEXT: /(['\"]).*?\\1/", "lark")
    assert grammar.matches("'a'\"b'\"") and not grammar.matches("'a\"")


def test_canonical_spelling_of_captures_is_refused(deepseek: gr.Vocabulary) -> None:
    with pytest.raises(gr.CompileError, match="leave canonical out") as caught:
        gr.compile(gr.regex(r"(\w+)-\1"), deepseek, canonical=True)
    assert caught.value.code == "not-regular"


@pytest.mark.parametrize("pattern", [r"^(?=(a|(?:ab)+)+)\1b", r"^(?=(a+|ab)*)\1b$", r"^(?=.*x)(\w+)-\1$"])
def test_what_is_refused_while_it_is_lowered_has_a_place_in_a_schema(pattern: str) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": pattern}}}
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema(schema).program()
    assert caught.value.code.startswith("regex-") and caught.value.pointer == "#/properties/a/pattern"
    assert gr.json_schema(schema, on_unsupported="ignore").matches('{"a": "anything"}')
