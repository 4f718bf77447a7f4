"""The incremental reader against json.loads on whole texts, and against a slow reader of prefixes."""

from __future__ import annotations

import itertools
import json
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from guiderail.errors import LimitError, PatternError
from guiderail.support.partial_json import PartialJson

NOTHING = object()


# -- the reference: recursive, quadratic, and written to be clearly right ----------------------------------------
def slow(text: str, growing: bool) -> object:
    """The largest sensible value of a prefix of a JSON text; NOTHING if there is none."""
    value, _, _ = slow_value(text, skip(text, 0), growing)
    return value


def skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def slow_value(text: str, at: int, growing: bool) -> tuple[object, int, bool]:
    """Returns the value, its end, and whether it is finished."""
    if at == len(text):
        return NOTHING, at, False
    if text[at] == '"':
        for end in range(at + 1, len(text)):
            try:
                return json.loads(text[at : end + 1]), end + 1, True
            except json.JSONDecodeError:
                continue
        # unfinished: the longest part that is a valid string if closed here, and that no continuation can change
        if not growing:
            return NOTHING, len(text), False
        for end in range(len(text), at, -1):
            try:
                got = json.loads(text[at:end] + '"')
            except json.JSONDecodeError:
                continue
            if got and "\ud800" <= got[-1] <= "\udbff" and text[at:end][-6:-4] == "\\u":
                continue
            return got, len(text), False
        raise AssertionError("the empty string always works")
    if text[at] in "[{":
        return slow_container(text, at, growing)
    end = at
    while end < len(text) and text[end] not in ",]} \t\n\r":
        end += 1
    word = text[at:end]
    if word in ("true", "false", "null") or end < len(text):
        return json.loads(word), end, True
    return NOTHING, end, False


def slow_container(text: str, at: int, growing: bool) -> tuple[object, int, bool]:
    is_object = text[at] == "{"
    made: list | dict = {} if is_object else []
    at += 1
    while True:
        at = skip(text, at)
        if at == len(text):
            return made, at, False
        if text[at] in "]}":
            return made, at + 1, True
        if text[at] == ",":
            at += 1
            continue
        key: object = None
        if is_object:
            key, at, done = slow_value(text, at, growing)
            at = skip(text, at)
            if not done or at == len(text):
                return made, len(text), False
            at = skip(text, at + 1)
        value, at, done = slow_value(text, at, growing)
        if value is not NOTHING:
            if is_object:
                made[key] = value
            else:
                made.append(value)
        if not done:
            return made, len(text), False


CHARACTERS = st.characters() | st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7fé€😀ud')
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS, max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS, max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
LAYOUTS = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 1, "\t"]), "ensure_ascii": st.booleans(),
     "separators": st.sampled_from([None, (",", ":"), (" ,\n", "\r: ")])}
)  # fmt: skip


def same(a: object, b: object) -> bool:
    """Equality that distinguishes 1, 1.0 and True."""
    return repr(a) == repr(b)


@settings(max_examples=150, deadline=None)
@given(VALUES, LAYOUTS, st.booleans())
def test_every_prefix_equals_the_slow_reader(value, layout, growing):
    text = json.dumps(value, **layout)
    reader = PartialJson(growing_strings=growing)
    for end, c in enumerate(text, 1):
        reader.feed(c)
        expected = slow(text[:end], growing)
        assert reader.has_value == (expected is not NOTHING)
        if expected is not NOTHING:
            assert same(reader.value, expected) and same(reader.snapshot(), expected), text[:end]
    assert same(reader.close(), json.loads(text)) and reader.is_complete


@settings(max_examples=150, deadline=None)
@given(VALUES, LAYOUTS, st.lists(st.integers(0, 400), max_size=8), st.booleans())
def test_chunks_do_not_matter(value, layout, cuts, growing):
    text = json.dumps(value, **layout)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunked, single = PartialJson(growing_strings=growing), PartialJson(growing_strings=growing)
    snapshots, finished = [], []
    for start, end in itertools.pairwise(places):
        chunked.feed(text[start:end])
        here = []
        for c in text[start:end]:
            single.feed(c)
            here += single.finished
        assert chunked.finished == here
        finished += here
        assert same(chunked.value, single.value) and chunked.path == single.path
        snapshots.append((chunked.snapshot(), repr(chunked.snapshot())))
    for snapshot, shown in snapshots:
        assert repr(snapshot) == shown, "a snapshot changed after it was taken"
    chunked.close()
    finished += chunked.finished
    assert sorted(finished) == sorted(pointers(json.loads(text)))


def pointers(value: object, at: str = "") -> list[str]:
    """Yields pointers to a value and all values in it; json.dumps writes no duplicate keys."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [at]
    for key, member in members:
        found += pointers(member, f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}")
    return found


@settings(max_examples=150, deadline=None)
@given(VALUES, st.integers(0, 10_000), st.sampled_from('{}[],:"\\ex0-. tn\x01'))
def test_it_refuses_exactly_what_json_loads_refuses(value, place, c):
    text = json.dumps(value)
    place %= len(text) + 1
    for broken in (text[:place] + c + text[place:], text[:place] + text[place + 1 :], text[:place] + c):
        try:
            expected = json.loads(broken)
        except json.JSONDecodeError:
            with pytest.raises(PatternError) as caught:
                reader = PartialJson()
                reader.feed(broken)
                reader.close()
            assert caught.value.code == "json-syntax"
        else:
            reader = PartialJson()
            reader.feed(broken)
            assert same(reader.close(), expected)


@pytest.mark.parametrize(
    ("text", "value", "path"),
    [
        ("", None, None),
        ("  ", None, None),
        ("12", None, ""),
        ("12 ", 12, None),
        ("tru", None, ""),
        ('"a', "a", ""),
        (r'"a\u00e', "a", ""),
        (r'"a\ud83d', "a", ""),
        (r'"a\ud83d\ude0', "a", ""),
        (r'"a\ud83d\ude00', "a😀", ""),
        (r'"a\ud83dx', "a\ud83dx", ""),
        ('{"a": [1, 2', {"a": [1]}, "/a/1"),
        ('{"a": [1, ', {"a": [1]}, "/a"),
        ('{"a/b~": {"c', {"a/b~": {}}, "/a~1b~0"),
        ('{"a": "x", "b":', {"a": "x"}, ""),
        ('{"a": -', {}, "/a"),
        ('{"a": 1, "a": "', {"a": ""}, "/a"),
    ],
)
def test_examples(text, value, path):
    reader = PartialJson()
    reader.feed(text)
    assert (reader.value, reader.path) == (value, path)
    assert reader.has_value == (value is not None)


def test_strings_can_be_held_back():
    reader = PartialJson(growing_strings=False)
    reader.feed('["whole", "hal')
    assert reader.value == ["whole"] and not reader.open_string
    reader.feed('f"]')
    assert reader.value == ["whole", "half"] and reader.finished == ["/1", ""]


def test_numbers_keep_their_digits_on_request():
    reader = PartialJson(parse_float=Decimal)
    reader.feed("[0.1000, 1e2, 7]")
    assert repr(reader.value) == "[Decimal('0.1000'), Decimal('1E+2'), 7]"


def test_a_huge_integer_ends_in_an_error_that_names_the_limit():
    reader = PartialJson()
    with pytest.raises(LimitError, match="set_int_max_str_digits") as caught:
        reader.feed("[" + "1" * 5000 + "]")
    assert caught.value.code == "json-number"


@pytest.mark.parametrize("text", ["NaN", "Infinity", "01 ", "1. ", ".5", "+1", "- ", "1e ", "[1,]", '{"a":1,}', "tru ",
                                  "{1:2}", "'a'", '"\t"', r'"\x"', r'"\u00g0"', "1 2", "[1 2]", '{"a" 1}', "]", "[}",
                                  "٣ "])  # fmt: skip
def test_what_is_not_json_is_refused_at_once(text):
    with pytest.raises(PatternError):
        PartialJson().feed(text)


def test_errors_say_where():
    reader = PartialJson()
    reader.feed('{"a": 1')
    with pytest.raises(PatternError, match=r"character 8 of the JSON text is ']' where ',' or '}' must follow"):
        reader.feed(" ]")


def test_it_ends_only_when_complete():
    for text in ("", "[", '"a', "tr", '{"a":'):
        reader = PartialJson()
        reader.feed(text)
        with pytest.raises(PatternError, match="before its value is complete"):
            reader.close()


def test_nesting_is_limited_by_memory_alone():
    depth = 200_000
    reader = PartialJson()
    for _ in range(depth):
        reader.feed("[")
    assert len(reader.path) == 2 * (depth - 1)
    for _ in range(depth):
        reader.feed("]")
    assert reader.is_complete
    innermost = reader.value
    for _ in range(depth - 1):
        (innermost,) = innermost
    assert innermost == []


def test_work_is_linear():
    """Eight times the text in less than 24 times the lines of code, for every shape that could be quadratic (64)."""

    def lines(text: str) -> int:
        count = 0

        def trace(*_):
            nonlocal count
            count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            reader = PartialJson()
            for at in range(0, len(text), 4):
                reader.feed(text[at : at + 4])
                if not reader.open_string:  # the only expensive part, proportional to the string
                    assert reader.value is not None or not reader.has_value
        finally:
            sys.settrace(before)
        return count

    for make in (
        lambda n: "[" * n,
        lambda n: "[" + "1, " * n + "1]",
        lambda n: '"' + "abc" * n + '"',
        lambda n: '"' + "\\u00e9" * n + '"',
        lambda n: "[" + "1" * n,
        lambda n: "{" + ", ".join(f'"{i}": {{}}' for i in range(n)) + "}",
        lambda n: " " * n + "[",
    ):
        assert lines(make(4_000)) < 24 * lines(make(500))
