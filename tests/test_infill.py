"""Texts between two given ones, by definition: the constraint matches ``before + t + after``."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.errors import CompileError, LimitError

TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product("ab", repeat=length)]
PATTERNS = [
    "a*b*", "(ab)*", "(a|b){2,5}", "a(a|b)*b", "(aa|bb)*", "abba?", "(a|ba)*b?", "", "a", "(?!.*aa)[ab]*",
    "((a|b)(a|b))*",
]  # fmt: skip
AROUND = st.text("ab", max_size=3)


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(PATTERNS), AROUND, AROUND)
def test_it_is_what_fits_between(pattern, before, after):
    constraint = gr.regex(pattern)
    middle = gr.infill(constraint, before=before, after=after)
    fitting = {text for text in TEXTS if constraint.matches(before + text + after)}
    assert {text for text in TEXTS if middle.matches(text)} == fitting
    if not fitting and not any(constraint.matches(before + t + after) for t in longer()):
        return
    vocabulary = gr.Vocabulary([b"a", b"b", b"ab", b"ba", b"aab", b"</s>"], stop_token_ids=5)
    matcher = gr.compile(middle, vocabulary).matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    for written in ["", "a", "ab", "ba"]:
        reads = matcher.fork()
        if not reads.accept_string(written):
            assert not any(constraint.matches(before + written + t + after) for t in TEXTS)
            continue
        reads.fill_next_token_bitmask(bitmask)
        allowed = gr.bitmask_to_bool(bitmask, vocabulary.size)[0]
        for token in range(5):
            begins = before + written + vocabulary.token_bytes(token).decode()
            assert allowed[token] == any(constraint.matches(begins + t + after) for t in TEXTS), (written, token)
        assert allowed[5] == constraint.matches(before + written + after)


def longer():
    return ("".join(letters) for letters in itertools.product("ab", repeat=6))


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "size": {"enum": [1, 12, 120]}},
    "required": ["name", "size"],
}


def test_values_of_a_schema():
    middle = gr.infill(SCHEMA | {"additionalProperties": False}, before='{"name": "A', after="0}")
    for text, fits in [('da", "size": 12', True), ('da", "size": 1', False), ('","size":12', True), ("da", False)]:
        assert middle.matches(text) is fits
        if fits:
            json.loads('{"name": "A' + text + "0}")


def test_characters_and_nothing_around():
    assert gr.infill(gr.regex("€+ü")).matches("€ü")
    assert gr.infill(gr.regex("€+ü"), before="€", after="ü").matches("€€")
    assert gr.infill(["yes", "yesterday"], before="yes").matches("terday")
    assert gr.infill(["yes", "yesterday"], before="yes").matches("")


def test_it_is_a_value_and_composes():
    middle = gr.infill(gr.regex("a+b"), after="b")
    assert middle == gr.infill(gr.regex("a+b"), after="b") == pickle.loads(pickle.dumps(middle))
    assert hash(middle) == hash(gr.infill(gr.regex("a+b"), after="b")) and "infill" in repr(middle)
    both = "<" + middle + ">" | gr.infill(gr.regex("c"), before="x")
    assert both.matches("<aa>") and not both.matches("<aab>")
    nested = gr.infill(gr.infill(gr.regex("abcd"), before="a"), after="d")
    assert nested.matches("bc")


@pytest.mark.parametrize(
    ("make", "kind", "code"),
    [
        (lambda: gr.infill(gr.regex("a+"), before="b"), CompileError, None),
        (lambda: gr.infill(gr.regex("a+"), after="b"), CompileError, None),
        (lambda: gr.infill(gr.json_schema({}), before="["), LimitError, "infill-states"),
        (lambda: gr.infill(gr.special_token("<x>") | "a"), CompileError, "infill-tokens"),
        (lambda: gr.infill(gr.grammar("start: a\na[max_tokens=3]: /a*/")), CompileError, "infill-tokens"),
        (lambda: gr.infill(gr.regex("a+")) & gr.regex("a{3}"), CompileError, "not-regular"),
        (lambda: gr.infill("a"), CompileError, "not-a-constraint"),
    ],
)
def test_what_is_refused(make, kind, code):
    vocabulary = gr.Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=2)
    with pytest.raises(kind) as caught:
        gr.compile(make(), vocabulary)
    assert code is None or caught.value.code == code


def test_a_surrogate_is_no_text():
    with pytest.raises(gr.GuiderailError):
        gr.infill(gr.regex("a"), before="\ud800")


def test_a_class_in_place_of_a_text() -> None:
    # CPython 3.11 releases an object too often at `x.encode()` if x is the class `str`, once it has been a text
    # there often; so this runs in a process of its own
    code = """
        import guiderail as gr
        for i in range(20):
            gr.infill(["aab"], before="a" * i)
        for i in range(3000):
            try:
                gr.infill(["aab"], after=str)
            except gr.ArgumentError as error:
                assert "after: str" in str(error)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
