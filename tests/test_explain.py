"""Explanations: what may come next, in words and valid examples."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import guiderail as gr
from core_support import PROPERTY, Case, Language, cases

DATE = gr.regex(r"\d{4}-(0[1-9]|1[0-2])")


def test_what_comes_next() -> None:
    found = DATE.explain("2024-")
    assert found.valid and found.failed_at is None
    assert not found.accepting and not found.complete
    assert found.expected == ("one of '0', '1'",)
    assert found.forced == ""
    assert all(DATE.matches(e) and e.startswith("2024-") for e in found.examples) and found.examples


def test_forced_text() -> None:
    assert DATE.explain("2024").forced == "-"
    assert gr.choice(["hello one", "hello two"]).explain().forced == "hello "


def test_the_end() -> None:
    found = DATE.explain("2024-02")
    assert found.accepting and found.complete
    assert found.expected == () and found.forced == "" and found.examples == ()
    assert "complete" in str(found)
    more = gr.regex("a+").explain("a")
    assert more.accepting and not more.complete
    assert "may end here" in str(more)


@pytest.mark.parametrize(
    ("prefix", "failed_at"),
    [("2024-13", 6), ("x", 0), ("2024-02x", 7), ("2024-02-29", 7), ("20é4", 2), ("é", 0)],
)
def test_where_it_fails(prefix: str, failed_at: int) -> None:
    found = DATE.explain(prefix)
    assert not found.valid and found.failed_at == failed_at
    assert found.examples == ()
    assert f"position {failed_at}" in str(found) and repr(prefix[failed_at]) in str(found)


def test_failures_are_counted_in_characters() -> None:
    constraint = gr.literal("é€😀x")
    for prefix, at in (("é€😀y", 3), ("é€x", 2), ("é€😁", 2), ("ê", 0)):
        assert constraint.explain(prefix).failed_at == at
    assert constraint.explain("é€").valid
    assert constraint.explain("é€".encode()[:-1]).valid, "bytes may end inside a character"


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (gr.regex(r"[0-9]"), ("a digit (0-9)",)),
        (gr.regex(r"[a-z]"), ("a lower-case letter (a-z)",)),
        (gr.regex(r"[A-Za-z]"), ("a lower-case letter (a-z)", "an upper-case letter (A-Z)")),
        (gr.regex(r"[b-f]"), ("one of b-f",)),
        (gr.regex(r"[ \t]"), ("one of a tab, a space",)),
        (gr.regex(r"[ \t\r\n\"]"), ("whitespace", "'\"'")),
        (gr.regex(r"."), ("any character but a line break",)),
        (gr.any_text(), ("any character",)),
        (gr.regex(r"é"), ("'é'",)),
        (gr.regex(r"é+|日x|😀|[0-9]|x"), ("a digit (0-9)", "one of 'x', 'é', '日', '😀'")),
        (gr.choice(["日本", "日光", "明日"]), ("one of '日', '明'",)),
        (gr.regex("[à-ö]"), ("some character beyond ASCII",)),
        (gr.literal("x"), ("'x'",)),
        (gr.special_token("<call>"), ("the special token <call>",)),
        (gr.special_token(7) | "a", ("'a'", "the special token 7")),
    ],
)
def test_words(constraint: gr.Constraint, words: tuple[str, ...]) -> None:
    found = constraint.explain()
    assert found.expected == words
    for word in words:
        assert word in str(found)


@pytest.mark.parametrize(
    ("constraint", "text", "hinted"),
    [
        (gr.regex(r"\d+"), "1٣", True),
        (gr.regex(r"\d+", flags="u"), "1x", False),
        (gr.regex(r"[0-9]+"), "1٣", False),
        ("due " + gr.regex(r"\w+").separated_by(", ") | "never", "due été", True),
        (gr.regex(r"é", flags="i"), "É", True),
        (gr.regex(r"(?a)\d"), "٣", False),
        (gr.regex(r"\d", dialect="ecma"), "٣", False),
        (gr.regex(r"\d") & gr.regex("[0-9]"), "٣", False),
    ],
)
def test_hints_where_only_unicode_is_missing(constraint: gr.Constraint, text: str, hinted: bool) -> None:
    found = constraint.explain(text)
    assert not found.valid and bool(found.hint) == hinted == ("Hint: " in str(found))
    assert not constraint.explain("due " if constraint.explain("due ").valid else "").hint


def test_nothing_matches() -> None:
    for constraint in (gr.nothing(), gr.regex("a") & gr.regex("b")):
        found = constraint.explain("a")
        assert not found.valid and found.expected == () and found.examples == ()
        str(found)
        assert not constraint.explain().valid


def test_odd_prefixes() -> None:
    assert not gr.any_text().explain("a\ud800").valid
    assert gr.any_text().explain("a\ud800").failed_at == 1
    assert not gr.any_text().explain(b"a\xff").valid
    assert gr.any_text().explain(b"ab\xff").failed_at == 2


@settings(PROPERTY, max_examples=120)
@given(cases())
def test_explanations_are_true(case: Case) -> None:
    constraint = case.constraint.limited_to(4)
    language = Language.of(case)
    for prefix in ("", "a", "b", "ab", "zÿ", "€", "aa😀"):
        found = constraint.explain(prefix)
        data = prefix.encode()
        assert found.valid == (data in language.prefixes), prefix
        assert found.prefix == prefix
        if found.valid:
            assert found.accepting == (data in language.texts)
            assert (prefix + found.forced).encode() in language.prefixes
            assert all(e.startswith(prefix) and constraint.matches(e) for e in found.examples)
            assert found.complete == (found.accepting and not found.expected)
        else:
            assert found.failed_at is not None and found.failed_at < max(len(prefix), 1)
            good = prefix[: found.failed_at].encode()
            bad = prefix[: found.failed_at + 1].encode()
            assert bad not in language.prefixes
            assert good in language.prefixes or not language.texts
        assert str(found)
