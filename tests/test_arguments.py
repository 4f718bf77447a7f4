"""Arguments of wrong types: every function raises an error of guiderail's with a code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from guiderail import _core, grammars
from guiderail.support.arguments import checked

VOCABULARY = gr.Vocabulary([b"a", b"b", b"<eos>"], special_tokens={"<eos>": 2}, stop_token_ids=[2])
CONSTRAINT = gr.regex("a*b")
GUIDE = gr.compile(CONSTRAINT, VOCABULARY)
AUTOMATON = GUIDE.to_token_automaton(10)
XSD = "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='a'/></xs:schema>"


class Odd:
    pass


def bad_arguments() -> list[Any]:
    return [
        None, 5, -1, 3.5, float("nan"), 2**70, True, "x", "\ud800", b"x", [], [1], ["a"], [None], (1,), {}, {"a": 1},
        set(), object(), Odd(), Odd, lambda: 1, gr, VOCABULARY, CONSTRAINT, GUIDE,
        np.zeros(3), np.zeros((2, 2), dtype=np.int32), np.array(1), read_only(),
    ]  # fmt: skip


def read_only() -> Any:
    array = rows()
    array.flags.writeable = False
    return array


def rows() -> Any:
    return np.zeros((1, 1), dtype=np.int32)


def logits() -> Any:
    return np.zeros((1, 3), dtype=np.float32)


def of_matcher(name: str) -> Callable[..., Any]:
    return lambda *args: getattr(GUIDE.matcher(), name)(*args)


CALLING = gr.tool_calls([{"name": "f"}], format="hermes")

# The calls, and valid arguments.
CALLS: dict[str, tuple[Callable[..., Any], list[Callable[[], Any]]]] = {
    "compile": (gr.compile, [lambda: CONSTRAINT, lambda: VOCABULARY]),
    "Guide": (gr.Guide, [lambda: CONSTRAINT, lambda: VOCABULARY]),
    "Matcher": (gr.Matcher, [lambda: GUIDE, lambda: [1]]),
    "Vocabulary": (lambda *a: gr.Vocabulary(a[0], stop_token_ids=a[1]), [lambda: [b"a", b"b"], lambda: [1]]),
    "regex": (gr.regex, [lambda: "a"]),
    "patterns.url": (lambda schemes: gr.patterns.url(schemes=schemes), [lambda: ("http",)]),
    "patterns.uuid": (gr.patterns.uuid, [lambda: 4]),
    "patterns.time": (lambda offset: gr.patterns.time(offset=offset), [lambda: "none"]),
    "ready_grammar": (grammars.ready_grammar, [lambda: "arithmetic"]),
    "grammars.json": (lambda depth: grammars.json(max_depth=depth), [lambda: 2]),
    "grammars.csv": (lambda columns: grammars.csv(columns=columns), [lambda: 2]),
    "grammars.xml": (
        lambda elements, attributes: grammars.xml(elements=elements, attributes=attributes),
        [lambda: ["a"], lambda: ["b"]],
    ),
    "grammars.sql": (lambda statements: grammars.sql(statements=statements), [lambda: ["select"]]),
    "grammars.sql, schema": (
        lambda schema, functions, most: grammars.sql(schema=schema, functions=functions, max_joined=most),
        [lambda: {"t": ["a"]}, lambda: ["count"], lambda: 1],
    ),
    "choice": (gr.choice, [lambda: ["a"]]),
    "literal": (gr.literal, [lambda: "a"]),
    "json_schema": (gr.json_schema, [dict]),
    "grammar": (gr.grammar, [lambda: 'start: "a"', lambda: "lark"]),
    "separated_by": (gr.separated_by, [lambda: CONSTRAINT, lambda: ",", lambda: 0, lambda: 1]),
    "repeat": (gr.repeat, [lambda: CONSTRAINT, lambda: 0, lambda: 1]),
    "optional": (gr.optional, [lambda: CONSTRAINT]),
    "sequence": (gr.sequence, [lambda: CONSTRAINT, lambda: "a"]),
    "text_until": (gr.text_until, [lambda: "a"]),
    "substring_of": (gr.substring_of, [lambda: "a"]),
    "special_token": (gr.special_token, [lambda: "<eos>"]),
    "structural_tag": (
        gr.structural_tag,
        [lambda: {"type": "structural_tag", "format": {"type": "any_text"}}],
    ),
    "python_type": (gr.python_type, [lambda: int]),
    "xml_schema": (gr.xml_schema, [lambda: XSD]),
    "delimited_list": (gr.delimited_list, [lambda: "a", lambda: ",", lambda: "."]),
    "delimited_subsequence_of": (gr.delimited_subsequence_of, [lambda: ["a"], lambda: ","]),
    "quoted_text": (gr.quoted_text, [lambda: "'"]),
    "image": (gr.image, [lambda: "<a>"]),
    "tool_calls": (lambda tools, form: gr.tool_calls(tools, format=form), [list, lambda: "hermes"]),
    "read": (gr.read, [lambda: int, lambda: "1"]),
    "set_cache_dir": (gr.set_cache_dir, [lambda: None]),
    "allocate_token_bitmask": (gr.allocate_token_bitmask, [lambda: 1, lambda: 3]),
    "reset_token_bitmask": (gr.reset_token_bitmask, [rows]),
    "bitmask_to_bool": (gr.bitmask_to_bool, [rows, lambda: 3]),
    "bool_to_bitmask": (gr.bool_to_bitmask, [lambda: np.zeros((1, 3), dtype=bool)]),
    "apply_token_bitmask_inplace": (gr.apply_token_bitmask_inplace, [logits, rows]),
    "apply_token_bitmask": (gr.apply_token_bitmask, [logits, rows]),
    "fill_next_token_bitmasks": (gr.fill_next_token_bitmasks, [lambda: [GUIDE.matcher()], rows]),
    "guide.matcher": (GUIDE.matcher, [lambda: [1]]),
    "guide.to_token_automaton": (GUIDE.to_token_automaton, [lambda: 10]),
    "automaton.allowed": (AUTOMATON.allowed, [lambda: 0]),
    "automaton.step": (AUTOMATON.step, [lambda: 0, lambda: 0]),
    "automaton.fill": (AUTOMATON.fill, [lambda: 0, rows, lambda: 0]),
    "guide.example_continuations": (GUIDE.example_continuations, [lambda: 1, lambda: 2]),
    "guide.dump": (GUIDE.dump, [lambda: 1]),
    "matcher.accept_token": (of_matcher("accept_token"), [lambda: 0]),
    "matcher.accept_within": (of_matcher("accept_within"), [lambda: 0, lambda: 3]),
    "matcher.accept_string": (of_matcher("accept_string"), [lambda: "a"]),
    "matcher.validate": (of_matcher("validate"), [lambda: [0]]),
    "matcher.fill_next_token_bitmask": (of_matcher("fill_next_token_bitmask"), [rows, lambda: 0, lambda: None]),
    "matcher.fill_draft": (
        of_matcher("fill_draft"),
        [lambda: [0], lambda: np.zeros((2, 1), dtype=np.int32), lambda: None, lambda: 0],
    ),
    "matcher.least_tokens": (of_matcher("least_tokens"), [lambda: True]),
    "matcher.rollback": (of_matcher("rollback"), [lambda: 0]),
    "matcher.history": (of_matcher("history"), [lambda: 1]),
    "matcher.forced_bytes": (of_matcher("forced_bytes"), [lambda: 4]),
    "vocabulary.token_bytes": (VOCABULARY.token_bytes, [lambda: 0]),
    "vocabulary.is_text": (VOCABULARY.is_text, [lambda: 0]),
    "vocabulary.decode": (VOCABULARY.decode, [lambda: [0]]),
    "constraint.matches": (CONSTRAINT.matches, [lambda: "a"]),
    "constraint.explain": (CONSTRAINT.explain, [lambda: "a"]),
    "grammar.captures": (gr.grammar("start: /a/", "lark").captures, [lambda: "a"]),
    "calls.parse": (CALLING.parse, [lambda: "a"]),
    "reader.feed": (CALLING.reader().feed, [lambda: "a"]),
    "type.read": (gr.python_type(int).read, [lambda: "1"]),
    "constraint.limited_to": (CONSTRAINT.limited_to, [lambda: 4]),
    "constraint.repeat": (CONSTRAINT.repeat, [lambda: 0, lambda: 1]),
    "constraint.separated_by": (CONSTRAINT.separated_by, [lambda: ","]),
    "constraint +": (CONSTRAINT.__add__, [lambda: "a"]),
    "constraint |": (CONSTRAINT.__or__, [lambda: "a"]),
    "constraint &": (CONSTRAINT.__and__, [lambda: "a"]),
}


@pytest.fixture(autouse=True)
def no_cache_dir() -> Iterator[None]:
    yield
    gr.set_cache_dir(None)


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_other_types(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    call(*[make() for make in right])
    for at in range(len(right)):
        for bad in bad_arguments():
            args = [make() for make in right]
            args[at] = bad
            try:
                call(*args)
            except gr.GuiderailError as error:
                assert error.code not in ("", "error") and error.message


@pytest.mark.parametrize("name", [n for n in dir(gr.Matcher) if not n.startswith("_")])
def test_methods_of_matchers_say_what_they_take(name: str) -> None:
    matcher = GUIDE.matcher()
    if not callable(getattr(matcher, name)):
        return
    with pytest.raises(TypeError) as caught:
        getattr(matcher, name)(Odd(), Odd(), Odd(), Odd(), Odd(), Odd())
    if "positional" not in str(caught.value) and "by position" not in str(caught.value):  # too many of them
        assert isinstance(caught.value, gr.ArgumentError)
        assert caught.value.code == "argument" and "Odd" in caught.value.message
    assert matcher.history() == []


MESSAGES: dict[str, tuple[Callable[[], Any], str]] = {
    "method": (
        lambda: GUIDE.matcher().accept_token("x"),  # type: ignore[arg-type]
        "accept_token takes (int), and was given (str)",
    ),
    "method by name": (
        lambda: GUIDE.matcher().fill_next_token_bitmask(rows(), row="x"),  # type: ignore[arg-type]
        "fill_next_token_bitmask takes (bitmask: object, row: int = 0, budget: int | None = None), and was given "
        "(ndarray, kwargs = { row: str })",
    ),
    "large": (
        lambda: GUIDE.matcher().rollback(2**70),
        "rollback takes (int), and was given (int); an integer has at most 64 bits",
    ),
    "python": (
        lambda: gr.compile(CONSTRAINT, 5),
        "expected a vocabulary or a tokenizer, not int",
    ),
    "python, a part": (
        lambda: gr.bitmask_to_bool(rows(), np.zeros(2)),  # type: ignore[arg-type]
        "bitmask_to_bool takes vocab_size: int | None, not ndarray",
    ),
    "static method": (
        lambda: gr.TokenAutomaton.load(5),  # type: ignore[arg-type]
        "TokenAutomaton.load takes path: str | Path, not 5",
    ),
    "python, beyond the function that fails": (
        lambda: CONSTRAINT.matches(None),  # type: ignore[arg-type]
        "Constraint.matches takes text: str | bytes, not None",
    ),
    "array": (
        lambda: AUTOMATON.fill(0, [1]),  # type: ignore[arg-type]
        "TokenAutomaton.fill takes bitmask: NDArray[np.int32], not list of int",
    ),
    "array of no dimension": (
        lambda: VOCABULARY.decode(np.array(1)),
        "Vocabulary.decode takes tokens: Iterable[int], not ndarray",
    ),
    "constructor": (
        lambda: gr.Matcher(5),  # type: ignore[arg-type]
        "Matcher takes guide: Guide, not 5",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    call, message = MESSAGES[name]
    with pytest.raises(gr.ArgumentError) as caught:
        call()
    assert caught.value.message == message
    assert isinstance(caught.value, TypeError)


TAKE_INTEGERS: dict[str, Callable[[gr.Matcher, Any], object]] = {
    "accept_token": lambda m, one: m.accept_token(one),
    "accept_within": lambda m, one: m.accept_within(0, one),
    "validate": lambda m, one: m.validate([one]),
    "rollback": lambda m, one: m.rollback(one),
    "history": lambda m, one: m.history(one),
    "row": lambda m, one: m.fill_next_token_bitmask(np.zeros((2, 1), dtype=np.int32), one),
    "budget": lambda m, one: m.fill_next_token_bitmask(rows(), budget=one),
    "fill_draft": lambda m, one: m.fill_draft([one], np.zeros((2, 1), dtype=np.int32)),
    "stop_token_ids": lambda m, one: gr.Matcher(GUIDE, [one]),
    "rows": lambda m, one: gr.fill_next_token_bitmasks([m], np.zeros((2, 1), dtype=np.int32), [one]),
    "threads": lambda m, one: gr.fill_next_token_bitmasks([m], rows(), threads=one),
}


@pytest.mark.parametrize("name", TAKE_INTEGERS)
def test_an_integer_is_what_python_takes_for_an_index_but_no_truth_value(name: str) -> None:
    matcher = GUIDE.matcher()
    assert matcher.accept_token(0)
    beyond = [] if name == "threads" else [2**70]  # any number of threads may be asked for
    for one in (True, np.True_, 1.0, np.float32(1), "1", *beyond):
        with pytest.raises(gr.GuiderailError) as caught:
            TAKE_INTEGERS[name](matcher, one)
        assert caught.value.code in ("argument", "bad-token-id") and matcher.history() == [0]
    for one in (1, np.int8(1), np.uint64(1), np.array(1)):
        TAKE_INTEGERS[name](matcher.fork(), one)


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: gr.reset_token_bitmask(read_only()), "bitmask-readonly"),
        (lambda: gr.reset_token_bitmask(read_only(), indices=[0]), "bitmask-readonly"),
        (lambda: AUTOMATON.fill(0, read_only()), "bitmask-readonly"),
        (lambda: AUTOMATON.fill(0, rows(), 1), "bitmask-row"),
    ],
)
def test_bitmasks_that_cannot_be_written(use: Callable[[], Any], code: str) -> None:
    with pytest.raises(gr.BitmaskError) as caught:
        use()
    assert caught.value.code == code


def test_what_annotations_do_not_explain_is_raised_as_it_is() -> None:
    def broken(number: int, text: str | None = None) -> int:
        raise LookupError(number)

    with pytest.raises(LookupError) as caught:
        checked(broken)(1)
    assert not isinstance(caught.value, gr.GuiderailError)
    with pytest.raises(gr.ArgumentError):
        checked(broken)(1, text=2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs 'number'"):
        checked(broken)()  # type: ignore[call-arg]


def test_functions_of_the_core_are_found_by_their_names() -> None:
    assert "accept_token" in repr(_core.Matcher.accept_token.__name__)
    assert _core.Matcher.accept_token(GUIDE.matcher(), 0)
    bound = GUIDE.matcher().accept_token
    assert bound(0) and bound(1)


@pytest.mark.parametrize("use", [repr, hash, str, lambda c: {c: 1}, lambda c: c == deep(), lambda c: f"{c!r}"])
def test_deep_constraints_are_refused_wherever_they_are_walked(use: Callable[[gr.Constraint], object]) -> None:
    constraint = deep()
    with pytest.raises(gr.LimitError) as caught:
        use(constraint)
    assert caught.value.code == "depth"
    with pytest.raises(gr.LimitError):
        gr.compile(constraint, VOCABULARY)


def deep() -> gr.Constraint:
    constraint = gr.regex("a")
    for i in range(5000):
        constraint = (constraint + "b").optional() if i % 2 else ~(constraint | "c")
    return constraint
