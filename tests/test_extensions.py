"""The extensions of Koo, Liu, He 2024, Table 1: as constructors and as groups of patterns, the same language."""

from __future__ import annotations

import itertools
import pickle
import re

import pytest

import guiderail as gr
from guiderail import CompileError, PatternError
from guiderail.frontends.extensions import (
    GROUP_NAMES,
    delimited_subsequence_of,
    image,
    paragraph_token,
    quoted_text,
    text_token,
    unquoted_text,
)
from oracle import OracleBuilder, oracle_of

ROWS = [  # constructor, group, accepted, refused
    (
        quoted_text(),
        "(?P<QUOTED_TEXT>)",
        ['""', '"a b"', r'"a \"b\" \\ \n"', '"é😀"', '"it\'s"'],
        ["", '"', '"a', 'a"', '"a"b"', '"\\"', '"a\nb"', '"a\\\nb"'],
    ),
    (quoted_text("'"), "(?P<QUOTED_TEXT>')", ["''", "'a\"b'", r"'a\'b'"], ["'a'b'", '"a"', "'a"]),
    (
        unquoted_text(),
        "(?P<UNQUOTED_TEXT>)",
        ["a", "a b", "a:b", "a#b", "-a", "?b", ":c", "a, [b]", "12", "http://x/y", "a \t b", "-#", "é"],
        ["", " a", "a ", "a: b", "a #b", "#a", "-", "- a", "a:", "[a", '"a', "@a", "%a", "a\nb", "`a"],
    ),
    (
        unquoted_text(flow=True),
        "(?P<UNQUOTED_TEXT>flow)",
        ["a", "a b", "a:b", "-a"],
        ["a,b", "a]", "{a", "a:,", "-]", "a: b", "-,"],
    ),
    (text_token(), "(?P<TEXT_TOKEN>)", ["a", "é-1!"], ["", "a b", "a\n", "\u2003"]),
    (paragraph_token(), "(?P<PARAGRAPH_TOKEN>)", ["a", "a b\tc ."], ["", "a\nb", "a\r", "a\u2028"]),
    (
        gr.text_until("\n\n"),
        r"(?P<TEXT_UNTIL>\n\n)",
        ["\n\n", "a\nb\n\n"],
        ["", "a\n", "a\n\nb", "\n\n\n", "a\n\n\n\n"],
    ),
    (gr.text_until("aab"), "(?P<TEXT_UNTIL>aab)", ["aab", "aaab", "xaab"], ["aabaab", "aa", "ab"]),
    (
        gr.substring_of("banana", "c.d"),
        r"(?P<SUBSTRING_OF>banana|c\.d)",
        ["", "ban", "nan", "anana", ".d", "banana"],
        ["bn", "ac", "c.d.", "bananac"],
    ),
    (
        gr.delimited_list(gr.regex("[a-z]+|[0-9]"), ", ", ";"),
        "(?P<DELIMITED_LIST>(?:[a-z]+|[0-9])|, |;)",
        ["a;", "ab, c, 1;"],
        [";", "a", "a, ;", "a,b;", "a; b;", "12;"],
    ),
    (
        gr.separated_by(gr.regex("[a-z]+"), ",", 1),
        "(?P<DELIMITED_LIST>[a-z]+|,)",
        ["a", "ab,c"],
        ["", ",", "a,", ",a"],
    ),
    (
        delimited_subsequence_of(["a", gr.regex("b+"), "c"], ", "),
        "(?P<DELIMITED_SUBSEQUENCE_OF>a|b+|c|, )",
        ["", "a", "bb", "c", "a, b", "a, c", "b, c", "a, bbb, c"],
        ["b, a", "a, a", "a,c", "a, ", ", a", "ab"],
    ),
]


@pytest.mark.parametrize(("constraint", "group", "accepted", "refused"), ROWS, ids=[row[1] for row in ROWS])
def test_constructor_and_group_are_the_same_language(constraint, group, accepted, refused):
    in_pattern = gr.regex(f"(?:START){group}END|z")
    in_ecma = gr.regex(group.replace("(?P<", "(?<"), dialect="ecma")
    oracle = oracle_of(constraint)
    for text in accepted + refused:
        expected = text in accepted
        assert oracle.matches(text.encode()) == expected, text
        assert constraint.matches(text) == expected, text
        assert in_pattern.matches(f"START{text}END") == expected, text
        assert in_ecma.matches(text) == expected, text


def test_every_extension_has_a_row():
    tested = {re.search(r"<(\w+)>", row[1])[1] for row in ROWS}
    assert tested | {"IMAGE"} == GROUP_NAMES


def test_an_image_is_a_special_token_and_never_text():
    assert image() == gr.special_token("<image>")
    assert image("<img>", 7) == gr.special_token("<img>", 7)
    for constraint in (image(), gr.regex("(?P<IMAGE>)"), gr.regex("(?P<IMAGE><image>|<img>)")):
        assert not constraint.matches("<image>") and not constraint.matches("")
    program = gr.regex("a(?P<IMAGE><img>)b").program().core
    state = program.derivative(program.root, b"a")
    assert program.first_symbols(state) == ["<img>"]
    assert program.is_nullable(program.derivative(program.derivative_symbol(state, "<img>"), b"b"))


def test_subsequences_are_exactly_those():
    items = ["a", "b", "c", "d"]
    everything = {",".join(s) for n in range(7) for s in itertools.product(items, repeat=n)}
    for least in range(5):
        expected = {",".join(s) for n in range(least, 5) for s in itertools.combinations(items, n)}
        constraint = delimited_subsequence_of(items, ",", min=least)
        assert {text for text in everything if constraint.matches(text)} == expected


def test_a_long_subsequence_is_of_linear_size():
    def nodes(count):
        builder = OracleBuilder()
        delimited_subsequence_of([f"item{k}" for k in range(count)], ", ")._lower(builder)
        return len(builder.nodes)

    assert nodes(400) < 2.1 * nodes(200)
    assert delimited_subsequence_of([f"item{k}" for k in range(400)], ", ").matches("item3, item77, item399")


def test_an_extension_may_occur_often_and_be_repeated():
    pattern = gr.regex(r"(?P<QUOTED_TEXT>)(?:, (?P<QUOTED_TEXT>)){0,2}")
    assert pattern.matches('"a", "b", "c"') and not pattern.matches('"a", "b", "c", "d"')
    assert gr.regex("(?P<TEXT_UNTIL>;){2}").matches("a;b;")


BAD = [
    "(?P<QUOTED_TEXT>ab)",
    "(?P<QUOTED_TEXT>[a])",
    "(?P<QUOTED_TEXT>a|b)",
    "(?P<UNQUOTED_TEXT>yes)",
    "(?P<TEXT_TOKEN>a)",
    "(?P<PARAGRAPH_TOKEN>a)",
    "(?P<TEXT_UNTIL>)",
    "(?P<TEXT_UNTIL>a+)",
    "(?i)(?P<TEXT_UNTIL>end)",
    "(?P<SUBSTRING_OF>a.c)",
    "(?P<IMAGE>a|)",
    "(?P<DELIMITED_LIST>a)",
    "(?P<DELIMITED_LIST>a|,|;|x)",
    "(?P<DELIMITED_SUBSEQUENCE_OF>a)",
    r"(?P<DELIMITED_SUBSEQUENCE_OF>a\b|b|,)",
]


@pytest.mark.parametrize("pattern", BAD)
def test_bad_arguments_of_groups_are_refused_with_the_place(pattern):
    with pytest.raises(PatternError) as caught:
        gr.regex(pattern)
    start, end = caught.value.span
    assert caught.value.code == "regex-extension" and pattern[start:end].startswith("(?P<") and end == len(pattern)


def test_bad_arguments_of_constructors_are_refused():
    for bad in ("", "ab", "\\", "\n", 3):
        with pytest.raises(CompileError):
            quoted_text(bad)
    for items, least in (([], 0), ("ab", 0), (["a"], 2), (["a"], -1), (["a"], True), ([3], 0)):
        with pytest.raises(CompileError):
            delimited_subsequence_of(items, ",", min=least)


def test_extensions_are_values():
    for row in ROWS:
        assert pickle.loads(pickle.dumps(row[0])) == row[0]
        assert hash(row[0]) == hash(pickle.loads(pickle.dumps(row[0])))
    assert repr(quoted_text("'")) == 'quoted_text("\'")'
    assert repr(unquoted_text(flow=True)) == "unquoted_text(flow=True)"
    assert repr(delimited_subsequence_of(["a"], ",", min=1)).endswith("min=1)")
    assert repr(text_token()) + repr(paragraph_token()) == "text_token()paragraph_token()"
