"""Large inputs finish soon, with a constraint or an error that gives the reason, within bounded memory."""

from __future__ import annotations

import resource
import time

import pytest

import guiderail as gr
from bombs import BOMBS
from core_support import byte_vocabulary, mask_of
from guiderail.support.work import spent

SOON = 20.0  # seconds of CPU time: ten times the counted work, for slow machines
MUCH = 1 << 20  # kilobytes of growth of the whole process


@pytest.mark.parametrize("name", BOMBS)
def test_large_inputs_end_soon(name: str) -> None:
    if name.startswith("xml"):
        pytest.importorskip("xmlschema")
    if name.startswith("graphql"):
        pytest.importorskip("graphql")
    tokens = byte_vocabulary()
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        constraint = BOMBS[name]()
        matcher = gr.compile(constraint, tokens, cache=False).matcher()
        for _ in range(5):
            allowed = mask_of(matcher)
            token = int(allowed.argmax())
            if token == tokens.size - 1 or not allowed[token]:
                break
            assert matcher.accept_token(token)
    except gr.GuiderailError as error:
        assert error.code
        assert len(str(error)) < 5_000
    assert time.process_time() - began < SOON
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MUCH


def test_references_to_many_groups_are_written_out_once() -> None:
    """The tree shares its parts: to read it along each of its paths would take 2^300 steps."""
    begun = spent()
    pattern = BOMBS["regex: references to many groups"]()
    assert spent() - begun < 2_000_000
    assert pattern.matches("aabb" * 150)
    assert not pattern.matches("aabb" * 149 + "aaba")


def test_written_out_references_keep_their_anchors() -> None:
    pattern = gr.regex(r"^(a|b)\1(c|d)\2$|^(e|f)x\3")
    assert [text for text in ("aacc", "bbdd", "aacd", "exe", "exf", "aaccx") if pattern.matches(text)] == [
        "aacc",
        "bbdd",
        "exe",
    ]


@pytest.mark.parametrize("name", ["a text", "a pattern"])
def test_what_is_never_closed_is_read_once(name: str) -> None:
    begun = spent()
    with pytest.raises(gr.GuiderailError) as caught:
        BOMBS[f"lark: {name} that is never closed"]()
    assert caught.value.code in ("lark-syntax", "lark-grammar")
    assert spent() - begun < 1_000_000


def test_grammars_in_a_grammar_are_read_to_their_own_ends() -> None:
    begun = spent()
    assert BOMBS["lark: nested grammars"]().matches("abb" * 500)
    assert spent() - begun < 2_000_000


def test_the_search_order_of_optional_parts_is_decided_with_few_steps() -> None:
    begun = spent()
    pattern = gr.grammar("start: T\nT: /" + "(a|bc)?" * 300 + "/", "lark")
    assert spent() - begun < 2_000_000
    assert pattern.matches("abca" * 100)
    assert not pattern.matches("ac")


@pytest.mark.parametrize("name", ["a cycle of inputs", "cycles of inputs", "one argument again and again"])
def test_faults_in_many_places_are_told_without_them(name: str) -> None:
    pytest.importorskip("graphql")
    with pytest.raises(gr.CompileError) as caught:
        BOMBS[f"graphql: {name}"]()
    assert caught.value.code == "query-schema"
    assert "GraphQL request:" not in str(caught.value)
    assert len(str(caught.value)) < 5_000


def test_faults_in_few_places_are_told_with_them() -> None:
    pytest.importorskip("graphql")
    with pytest.raises(gr.CompileError, match=r"GraphQL request:1:"):
        gr.grammars.graphql(schema="input I { x: J! } input J { x: I! } type Query { f(x: I): Int }")


def test_names_that_are_compared_by_their_characters_are_paid_for() -> None:
    pytest.importorskip("graphql")
    with pytest.raises(gr.LimitError) as caught:
        BOMBS["graphql: similar names"]()
    assert caught.value.code == "work"


@pytest.mark.parametrize("name", ["regex: many references to one group", "lark: assertions beside each other"])
def test_what_grows_with_each_part_is_paid_for(name: str) -> None:
    with pytest.raises(gr.LimitError) as caught:
        BOMBS[name]()
    assert caught.value.code == "work"
