"""Backreferences to groups with few texts, against `re` and JavaScript."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import subprocess

import pytest

import guiderail as gr
from guiderail.errors import LimitError, PatternError
from guiderail.frontends.grammar.lark.first_match import Unknown, first_match

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
    "a date without or with hyphens": (r"\d{4}(-?)\d\d\1\d\d", "ecma", ["2024-01-31", "20240131"], ["2024-0131"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_backreferences_to_few_texts_are_written_out(name: str) -> None:
    pattern, dialect, yes, no = TABLE[name]
    constraint = gr.regex(pattern, dialect=dialect)
    assert [constraint.matches(text) for text in [*yes, *no]] == [True] * len(yes) + [False] * len(no)


@pytest.mark.parametrize(
    ("pattern", "dialect", "why"),
    [
        (r"(a+)\1", "python", "more than 64 texts"),
        (r"(\bab)\1", "python", "contains an assertion"),
        (r"(a?+)\1ab", "python", "an atomic group"),  # `re` never matches: a?+ takes the first a
        (r"((?:ab){1,2}+)\1", "python", "an atomic group"),
        (r"(\d)(\d)(\d)\3\2\1", "python", "too many texts together"),
        (r"(?=(a|b))\1", "python", "inside a look-around"),
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
        if not parsed.in_order or found.depends or found.needs:
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
