"""Whether conditions and a length can still be met together, against all texts of a small alphabet."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.constraints.program import Program

LETTERS = "-aB1é日"
PARTS = ["a", "B", r"\d", r"\w", r"[^\w]", "[é日]", "é", "日", "a日", "[^a]", "[B-é]"]
MOST = 5


def patterns() -> st.SearchStrategy[str]:
    part = st.sampled_from(PARTS)
    met = st.builds(lambda p, n: f"(?=(?:.*{p}){{{n}}})", part, st.integers(1, 3))
    unmet = st.builds("(?!.*{})".format, part)
    return st.builds(
        lambda conditions, count: "".join(conditions) + f".{{{count[0]},{count[1]}}}",
        st.lists(met | unmet | st.sampled_from(["(?=a)", "(?=B)", "(?=..a)"]), min_size=1, max_size=4),
        st.tuples(st.integers(0, MOST), st.integers(0, MOST)).map(sorted),
    )


@settings(max_examples=60, deadline=None)
@given(patterns())
def test_states_live_as_long_as_a_text_is_left(pattern: str) -> None:
    spelled = re.compile(pattern, re.ASCII)
    candidates = ["".join(text) for size in range(MOST + 1) for text in itertools.product(LETTERS, repeat=size)]
    beginnings = {text[:size] for text in candidates if spelled.fullmatch(text) for size in range(len(text) + 1)}
    core = Program.of(gr.regex(pattern) & gr.regex(f"[{LETTERS}]*")).core
    for text in candidates:
        assert bool(core.derivative(core.root, text.encode())) == (text in beginnings), text


@pytest.mark.parametrize("most", [1, 6, 7, 8, 9, 40])
def test_the_length_that_conditions_need(most: int) -> None:
    rule = "".join(f"(?=(?:.*{part}){{2}})" for part in ("[a-z]", "[A-Z]", r"\d", r"[^\w\s]")) + f".{{0,{most}}}"
    program = Program.of(gr.regex(rule))
    core = program.core
    assert bool(core.root) == (most >= 8)
    assert program.matches("aaBB11-é") == (most >= 8)
    assert not program.matches("aaBB11-c")
    assert bool(core.derivative(core.root, b"_")) == (most >= 9)
    assert bool(core.derivative(core.root, b"_" * 33)) == (most >= 41)


@pytest.mark.parametrize(
    "rule", ["(?=a)(?=B)", "(?=.a)(?!.*a)", "(?=é)(?=日)", r"(?=\d*$)(?=a)", "(?=(?:ab)*$)(?=(?:aab)*$)b"]
)
def test_conditions_that_exclude_each_other_without_a_greatest_length(rule: str) -> None:
    assert not Program.of(gr.regex(rule + ".{2,}")).core.root


def test_a_format_and_a_pattern_that_exclude_each_other() -> None:
    schema = {"type": "string", "minLength": 1, "pattern": "^a", "format": "date"}
    with pytest.raises(gr.CompileError, match="exclude each other"):
        Program.of(gr.json_schema(schema))
