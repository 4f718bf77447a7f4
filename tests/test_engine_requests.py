"""Requests of serving engines as constraints; equal requests share one guide."""

from __future__ import annotations

import json
import threading
import time

import pytest

import guiderail as gr
from guiderail.integrations import _requests
from guiderail.integrations._requests import Asked, GuideStore, compile_seconds, constraint_of, grammar_of, within
from guiderail.integrations._text import EngineText

LETTERS = gr.Vocabulary([*(bytes([i]) for i in range(256)), b"</s>"], stop_token_ids=256)
PERSON = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        (Asked("json", PERSON), '{"a": 1}', '{"b": 1}'),
        (Asked("json", PERSON, compact=True), '{"a":1}', '{"a": 1}'),
        (Asked("json_object", ""), '{"x": [1, {}]}', "[1]"),
        (Asked("json_object", "", compact=True), '{"x":[1,{}]}', '{"x": 1}'),
        (Asked("regex", "a+b?"), "aab", "ba"),
        (Asked("choice", '["x", "y z"]'), "y z", "y"),
        (Asked("grammar", 'root ::= "a" root | "b"'), "aab", "aa"),
        (Asked("grammar", 'list = "1", {",", "1"};'), "1,1", "1,"),
        (Asked("grammar", 'start: "a"~2 | B\nB: /b+/'), "aa", "a"),
        (Asked("structural_tag", '{"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}'),
         "x", "y"),
    ],
)  # fmt: skip
def test_each_kind(asked: Asked, good: str, bad: str) -> None:
    constraint = constraint_of(asked, LETTERS)
    assert constraint.matches(good)
    assert not constraint.matches(bad)


def test_a_grammar_that_may_be_two_things_is_what_engines_mean() -> None:
    text = r'root ::= "a\n"'
    with pytest.raises(gr.CompileError, match="grammar-notation"):
        gr.grammar(text)
    assert grammar_of(text).matches("a\n")  # GBNF; in W3C's EBNF a backslash and an n
    with pytest.raises(gr.CompileError, match="grammar-notation"):
        grammar_of("just words")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Asked("json", "{"), "invalid-schema"),
        (Asked("json", '{"type": "wat"}'), "invalid-schema"),
        (Asked("choice", "x"), "not-a-constraint"),
        (Asked("choice", "[]"), "not-a-constraint"),
        (Asked("choice", "[1]"), "not-a-constraint"),
        (Asked("regex", "a", compact=True), "bad-option"),
        (Asked("regex", "a", whitespace=" "), "bad-option"),
        (Asked("json", "{}", compact=True, whitespace=" "), "bad-option"),
        (Asked("json", "{}", whitespace="("), "regex-unterminated-group"),
        (Asked("json", '{"type": "array"}', whitespace="x"), "bad-schema-option"),
        (Asked("poem", "a"), "bad-option"),
    ],
)
def test_what_is_wrong_is_said(asked: Asked, code: str) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        GuideStore(lambda: LETTERS).guide(asked)
    assert caught.value.code == code


def test_a_pattern_says_how_json_is_spaced() -> None:
    schema = '{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a"]}'
    spaced = constraint_of(Asked("json", schema, whitespace=r"\s?"), None)
    assert spaced.matches('{"a":1}') and spaced.matches('{\n"a"\n:\n1\n,\n"b":2\t}')
    assert not spaced.matches('{"a":  1}')
    assert not spaced.matches('{"a":\v1}')  # which \\s matches, and JSON does not know
    assert not spaced.matches('{"b":2,"a":1}')  # the model writes members as they are declared


def test_equal_requests_share_a_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slow(asked: Asked, vocabulary: gr.Vocabulary | None) -> gr.Constraint:
        made.append(asked)
        time.sleep(0.2)
        return constraint_of(asked, vocabulary)

    monkeypatch.setattr(_requests, "constraint_of", slow)
    vocabularies = []

    def vocabulary() -> gr.Vocabulary:
        vocabularies.append(1)
        return LETTERS

    store = GuideStore(vocabulary)
    guides: list[gr.Guide] = []
    threads = [threading.Thread(target=lambda: guides.append(store.guide(Asked("regex", "a")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(guides) == 4
    assert len({id(guide) for guide in guides}) == len(made) == len(vocabularies) == 1
    store.clear()
    assert store.guide(Asked("regex", "a")) is not guides[0]


def test_a_failure_reaches_all_who_wait_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slow(asked: Asked, vocabulary: gr.Vocabulary | None) -> gr.Constraint:
        made.append(asked)
        time.sleep(0.2)
        return constraint_of(asked, vocabulary)

    monkeypatch.setattr(_requests, "constraint_of", slow)
    store = GuideStore(lambda: LETTERS)
    codes: list[str] = []

    def ask() -> None:
        try:
            store.guide(Asked("regex", "(a"))
        except gr.GuiderailError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(codes) == 3
    assert len(set(codes)) == 1
    assert len(made) == 1
    ask()
    assert len(made) == 2


def test_the_longest_unused_guides_are_dropped() -> None:
    store = GuideStore(lambda: LETTERS, max_guides=2)
    first, second = (store.guide(Asked("regex", text)) for text in "ab")
    assert store.guide(Asked("regex", "a")) is first
    store.guide(Asked("regex", "c"))
    assert store.guide(Asked("regex", "a")) is first
    assert store.guide(Asked("regex", "b")) is not second
    small = GuideStore(lambda: LETTERS, max_bytes=1)
    kept = small.guide(Asked("regex", "a"))
    assert small.guide(Asked("regex", "a")) is kept  # the last one requested, whatever its size
    small.guide(Asked("regex", "b"))
    assert small.guide(Asked("regex", "a")) is not kept


def test_what_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def forever() -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    with pytest.raises(gr.LimitError) as caught:
        within(0.1, forever)
    assert caught.value.code == "compile-timeout"
    assert ended.wait(5)  # the thread was interrupted, not abandoned
    assert within(5, lambda: 7) == 7
    with pytest.raises(KeyError):
        within(5, lambda: {}["x"])

    monkeypatch.setenv("GUIDERAIL_COMPILE_SECONDS", "0.05")
    monkeypatch.setattr(_requests, "constraint_of", lambda asked, vocabulary: forever())
    with pytest.raises(gr.LimitError):
        GuideStore(lambda: LETTERS).guide(Asked("regex", "a"))
    for wrong in ("-1", "0", "soon", "nan"):
        monkeypatch.setenv("GUIDERAIL_COMPILE_SECONDS", wrong)
        with pytest.raises(gr.CompileError) as refused:
            compile_seconds()
        assert refused.value.code == "bad-option"


def test_warming_makes_the_vocabulary() -> None:
    made = []
    store = GuideStore(lambda: made.append(1) or LETTERS)  # type: ignore[func-returns-value]
    store.warm()
    assert made == [1]
    assert store.vocabulary is LETTERS
    assert store.guide(Asked("json_object", "")).matcher().accept_string(json.dumps({"a": 1}))


def test_limits_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("GUIDERAIL_MAX_WORK", "12345")
    assert _requests.limits() == {"max_work": 12345}
    monkeypatch.setenv("GUIDERAIL_MAX_STEP_WORK", "678")
    assert _requests.limits() == {"max_work": 12345, "max_step_work": 678}
    for wrong in ("", "0", "-3", "1.5", "many"):
        monkeypatch.setenv("GUIDERAIL_MAX_STEP_WORK", wrong)
        with pytest.raises(gr.CompileError, match="GUIDERAIL_MAX_STEP_WORK"):
            _requests.limits()


def test_a_limit_ends_its_text_and_nothing_else(monkeypatch):
    torch = pytest.importorskip("torch")
    vocabulary = gr.Vocabulary([b"a"] * 41, stop_token_ids=[3, 31, 40])
    text, other = (EngineText(gr.compile(gr.regex("a*"), vocabulary).matcher()) for _ in range(2))
    bitmask = torch.full((2, 2), -1, dtype=torch.int32)
    assert all(text.read(0) for _ in range(7)) and text.fill(bitmask, 0)

    def limited(*_):
        raise gr.LimitError("too much", code="step-work")

    with monkeypatch.context() as patch:
        patch.setattr(gr.Matcher, "fill_next_token_bitmask", limited)
        assert not text.fill(bitmask, 0)
    assert [t for t in range(64) if int(bitmask[0, t // 32]) >> (t % 32) & 1] == [3, 31, 40]
    assert other.fill(bitmask, 1) and other.read(0)
    text.rollback(0)
    with pytest.raises(gr.LimitError, match="too much"):
        text.read(0)
    assert text.matcher.step_count == 7
    text.rollback(1)  # a draft was rolled back
    assert text.error is None and text.read(0) and text.fill(bitmask, 0)
