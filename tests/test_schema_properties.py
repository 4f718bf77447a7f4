"""Generated schemas: every text that can be written validates, every valid value can be written, and the masks agree
at every token. The judge is the package ``jsonschema``."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings, strategies as st
from hypothesis.errors import InvalidArgument

pytest.importorskip("jsonschema")
import guiderail as gr
from core_support import EVERY_BYTE, PROPERTY, bits_of, byte_vocabulary, plain
from schema_strategies import (
    LAYOUTS,
    NAMES,
    TEXTS,
    UNIVERSE,
    EndlessError,
    depth,
    finish,
    judge,
    laid_out,
    parse,
    respell,
    schemas,
    values,
    words,
    write,
)

PIECES = [
    *(
        '{"',
        '":',
        '": ',
        ', "',
        '"a"',
        '"b":',
        "},",
        "]}",
        "[[",
        "true",
        "false",
        "null",
        "é",
        '"é',
        "ab",
        "aa",
        "10",
        "0.",
    ),
    *(
        "\\n",
        '\\"',
        "\\u",
        "\\u00",
        ", ",
        '",',
        "[1",
        "12",
        "-1",
        "e1",
        '{"a":',
        '{"a": {"',
        "[]",
        "{}",
        '"]',
        '"}',
        '["',
    ),
    *(" ", "\n", "\n  ", "2024-0", "127.0", "0.5", '"ab": ['),
]
VOCABULARY = plain([*EVERY_BYTE, *(piece.encode() for piece in PIECES)])
BY_BYTE = byte_vocabulary()
LIMITS = {"schema-too-many-branches", "limit", "fuel", "nodes"}


def guide_of(schema: Any, vocabulary: gr.Vocabulary = BY_BYTE, **options: Any) -> gr.Guide | None:
    """Returns a guide, or None if the schema has no value; skips a schema beyond a limit."""
    note(json.dumps(schema))
    try:
        return gr.compile(gr.json_schema(schema, **options), vocabulary, cache=False)
    except gr.LimitError as error:
        assume(error.code not in LIMITS)
        raise
    except gr.CompileError as error:
        if error.code not in ("unsatisfiable", "unsatisfiable-schema"):
            raise
        return None


@contextmanager
def within_limits(schema: Any) -> Iterator[None]:
    """Deciding whether distinct objects remain may exceed the fuel: if items must be unique, a text that reaches this
    limit is skipped. Anywhere else the limit is a fault."""
    try:
        yield
    except gr.LimitError as error:
        assume(not (error.code in LIMITS and '"uniqueItems": true' in json.dumps(schema)))
        raise


def accepts(guide: gr.Guide, text: bytes) -> bool:
    matcher = guide.matcher()
    return matcher.accept_string(text) and matcher.is_accepting()


def has_integral_float(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    if isinstance(value, list | dict):
        return any(map(has_integral_float, value.values() if isinstance(value, dict) else value))
    return False


def walk(guide: gr.Guide, chance: random.Random, steps: int, known: list[bytes]) -> str:
    """Writes a text: some random tokens from the masks, then a completion."""
    matcher = guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    read = b""
    for _ in range(steps):
        matcher.fill_next_token_bitmask(bitmask, 0)
        bits = bits_of(bitmask)
        allowed = [int(t) for t in np.flatnonzero(bits) if t not in guide.vocabulary.stop_token_ids]
        if not allowed:
            break
        # single bytes are many; all longer tokens together are equally likely
        long = [t for t in allowed if len(guide.vocabulary.token_bytes(t)) > 1]
        token = chance.choice(long if long and chance.random() < 0.5 else allowed)
        assert matcher.accept_token(token)
        read += guide.vocabulary.token_bytes(token)
    try:
        return (read + finish(matcher.program, matcher.state, read, chance, known)).decode()
    except EndlessError:
        assume(False)
        raise


def check_text(schema: Any, text: str, layout: str) -> Any:
    """Returns the value of a text written under a schema; checks that it parses, validates and follows the layout."""
    note(text)
    try:
        value = parse(text)
    except OverflowError:
        return None  # an unbounded number with too large an exponent to compare here
    assert judge(schema).is_valid(value), f"{text} is not valid"
    assert laid_out(text, layout), f"{text!r} is not {layout}"
    return value


@settings(PROPERTY, max_examples=300)
@given(schemas(), st.sampled_from(sorted(LAYOUTS)), st.sampled_from(["any", "declared"]),
       st.sampled_from(["canonical", "all"]), st.sampled_from(["plain", "any"]), st.integers(0, 10**6))  # fmt: skip
def test_what_is_written_validates(
    schema: Any, layout: str, order: str, escapes: str, integers: str, seed: int
) -> None:
    options = {"layout": layout, "property_order": order, "escapes": escapes, "integers": integers}
    guide = guide_of(schema, VOCABULARY, **options)
    if guide is None:
        assert not any(map(judge(schema).is_valid, UNIVERSE))
        return
    chance = random.Random(seed)
    for steps in (0, 2, 4, 8, 16, 24):
        with within_limits(schema):
            check_text(schema, walk(guide, chance, steps, words(schema)), layout)


@settings(PROPERTY, max_examples=400)
@given(schemas(), st.lists(values(), min_size=4, max_size=12), st.sampled_from(sorted(LAYOUTS)))
def test_what_validates_can_be_written_and_nothing_else(schema: Any, some: list[Any], layout: str) -> None:
    guide = guide_of(schema, layout=layout, integers="any")
    valid = judge(schema).is_valid
    for value in [*some, *UNIVERSE]:
        text = write(value, layout)
        expected = valid(value)
        assert (guide is not None and accepts(guide, text)) == expected, f"valid: {expected}: {text!r}"


@settings(PROPERTY, max_examples=150)
@given(schemas(), st.lists(values(), min_size=6, max_size=16), st.integers(0, 10**6))
def test_every_spelling_of_a_string(schema: Any, some: list[Any], seed: int) -> None:
    """An escaped name equals the name: it cannot add a forbidden property or repeat one."""
    guide = guide_of(schema, escapes="all", integers="any")
    valid = judge(schema).is_valid
    for value in [*some, {"a": 1}, {"a": 1, "ab": 2}, "ab", ["a", "b"], {'q"': "é"}]:
        expected = valid(value)
        for text in (write(value), write(value, ensure_ascii=True), respell(json.dumps(value), seed).encode()):
            assert (guide is not None and accepts(guide, text)) == expected, text
    if guide is not None:
        assert not accepts(guide, b'{"a":1,"\\u0061":1}')
        assert not accepts(guide, b'{"\\u0061":1,"a":1}')


@settings(PROPERTY, max_examples=60)
@given(schemas(), st.integers(0, 10**6))
def test_a_bit_is_set_if_and_only_if_a_text_goes_on_so(schema: Any, seed: int) -> None:
    """Every token of a mask can be completed to a valid text; every token that begins a known valid text is in it;
    and ``accept_token`` agrees."""
    guide = guide_of(schema, VOCABULARY)
    valid = judge(schema).is_valid
    texts = [write(v) for v in UNIVERSE if not has_integral_float(v) and valid(v)]
    if guide is None:
        assert not texts
        return
    chance = random.Random(seed)
    tokens = [(t, VOCABULARY.token_bytes(t)) for t in range(len(EVERY_BYTE) + len(PIECES))]

    def look(matcher: gr.Matcher, bits: Any, read: bytes) -> None:
        going = [text[len(read) :] for text in texts if text.startswith(read)]
        assert matcher.is_accepting() >= (b"" in going)
        known = [t for t, data in tokens if any(text.startswith(data) for text in going)]
        assert bits[known].all(), [tokens[t][1] for t in known if not bits[t]]
        state = matcher.state
        for token, data in tokens:
            twin = matcher.fork()
            assert twin.accept_token(token) == bits[token], data
            if bits[token] and chance.random() < 0.1:
                try:
                    rest = finish(twin.program, twin.state, read + data, chance, words(schema))
                except EndlessError:
                    continue
                check_text(schema, (read + data + rest).decode(), "flexible")
        assert matcher.state == state

    bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
    with within_limits(schema):
        for text in chance.sample(texts, min(3, len(texts))):
            matcher, read = guide.matcher(), b""
            while read != text:
                matcher.fill_next_token_bitmask(bitmask, 0)
                look(matcher, bits_of(bitmask), read)
                token, data = chance.choice([t for t in tokens if text.startswith(t[1], len(read))])
                assert matcher.accept_token(token)
                read += data
            matcher.fill_next_token_bitmask(bitmask, 0)
            look(matcher, bits_of(bitmask), read)


@settings(PROPERTY, max_examples=60)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True), st.data())
def test_declared_order(names: list[str], data: Any) -> None:
    required = data.draw(st.lists(st.sampled_from(names), unique=True))
    schema = {"type": "object", "properties": {n: {"type": "integer"} for n in names}, "required": required}
    guide = guide_of(schema, property_order="declared")
    assert guide is not None
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True))
    others = [n for n in ("z", "y") if data.draw(st.booleans())]
    value = {n: 1 for n in [*chosen, *others]}
    in_order = chosen == sorted(chosen, key=names.index)
    assert accepts(guide, write(value)) == (in_order and set(required) <= set(chosen))
    mixed = {n: 1 for n in [*others, *chosen]}
    if others and chosen:
        assert not accepts(guide, write(mixed))
    free = guide_of(schema)
    assert free is not None and accepts(free, write(mixed)) == (set(required) <= set(chosen))


CAPS = st.fixed_dictionaries(
    {},
    optional={
        "max_integer_digits": st.integers(1, 3),
        "max_fraction_digits": st.integers(0, 3),
        "max_string_length": st.integers(0, 3),
        "max_items": st.integers(0, 3),
        "max_depth": st.integers(1, 3),
    },
)


@settings(PROPERTY, max_examples=150)
@given(schemas(), CAPS, st.integers(0, 10**6))
def test_caps_bound_what_is_written_and_drop_nothing(schema: Any, caps: dict[str, int], seed: int) -> None:
    try:
        guide = guide_of(schema, VOCABULARY, **caps)
    except gr.LimitError:
        assume(False)
        raise
    if guide is None:
        return  # a cap may leave no text
    chance = random.Random(seed)
    for steps in (0, 3, 8, 16):
        with within_limits(schema):
            value = check_text(schema, walk(guide, chance, steps, words(schema)), "flexible")
        assert depth(value) <= caps.get("max_depth", 10**6)
        for part in _parts(value):
            if isinstance(part, list):
                assert len(part) <= caps.get("max_items", 10**6)
            if isinstance(part, str):
                assert len(part) <= caps.get("max_string_length", 10**6)


def _parts(value: Any) -> list[Any]:
    """Yields the value and all values in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(part for item in inner for part in _parts(item))]


# -- instances from hypothesis-jsonschema ---------------------------------------------------------------------------
def _without_surrogates(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def instances() -> Any:
    """Patches hypothesis-jsonschema: its last release calls a method that later releases of hypothesis replaced."""
    made = pytest.importorskip("hypothesis_jsonschema")
    from hypothesis.internal.conjecture import utils

    def more(self: Any) -> bool:
        if not hasattr(self, "_steps"):
            self._steps = iter(self.__enter__())
        for _ in self._steps:
            return True
        self.__exit__(None)
        return False

    if not hasattr(utils.many, "more"):
        utils.many.more = more  # type: ignore[attr-defined]
    return made


BEGINNINGS = ["", "ä", "äb", "b", "x-", "x", ".", "日本", "😀", "ba"]
NAME_PATTERNS = [
    "^ä",
    "^ä|^b",
    "ä",
    "^x-.*y$",
    "^x-?",
    "^(?:x|b)a",
    "^b*a",
    "^[äb]b",
    "^日",
    "^😀+$",
    "^\\.",
    "^\\u65e5本",
    "^$|^ba$",
]


@settings(PROPERTY, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(BEGINNINGS), st.sampled_from(["", "a", "b", "y", "本"])), max_size=5),
    st.dictionaries(st.sampled_from(NAME_PATTERNS), st.integers(1, 5), max_size=4),
)
def test_patterns_apply_to_the_names_that_they_match(given_names: list[tuple[str, str]], least: dict[str, int]) -> None:
    names = ["".join(parts) for parts in given_names]
    schema = {
        "properties": {name: {"maximum": 4} for name in names},
        "patternProperties": {pattern: {"minimum": number} for pattern, number in least.items()},
        "additionalProperties": False,
    }
    constraint = gr.json_schema(schema, integers="any")
    for name in [*names, "äa", "x-y", "ba"]:
        for number in (0, 2, 4, 5):
            value = {name: number}
            assert constraint.matches(json.dumps(value, ensure_ascii=False)) == judge(schema).is_valid(value), value


@settings(PROPERTY, max_examples=80)
@given(schemas(), st.data())
def test_instances_made_for_a_schema_are_accepted(schema: Any, data: Any) -> None:
    """hypothesis-jsonschema supports draft 7; other keywords are left out, and the judge has the last word."""
    made = instances()
    known = _draft7(schema)
    assume("$ref" not in json.dumps(known))  # it cannot resolve recursion
    guide = guide_of(known, integers="any")
    strategy = made.from_schema(known)
    for _ in range(3):
        try:
            value = data.draw(strategy)
        except (InvalidArgument, AssertionError):  # it does not detect schemas without values
            assume(False)
        if not _without_surrogates(value) or not judge(known).is_valid(value) or _beyond_floats(value):
            continue
        assert guide is not None and accepts(guide, write(value)), write(value)


def _beyond_floats(value: Any) -> bool:
    """The judge divides floats, which above 2**53 differ from the numbers in the texts."""
    return any(isinstance(part, float) and abs(part) >= 2**53 for part in _parts(value))


def _draft7(schema: Any) -> Any:
    unknown = {"prefixItems", "minContains", "maxContains", "dependentRequired", "dependentSchemas", "unevaluatedItems",
               "unevaluatedProperties", "format"}  # fmt: skip
    if isinstance(schema, list):
        return [_draft7(s) for s in schema]
    if isinstance(schema, dict):
        return {k: v if k in ("enum", "const") else _draft7(v) for k, v in schema.items() if k not in unknown}
    return schema


def test_the_generated_schemas_and_values_meet() -> None:
    """The strategies are useful: many schemas are satisfiable, and many accept only some of the values."""
    found = {"divides": 0, "all": 0, "none": 0}

    @settings(PROPERTY, max_examples=200)
    @given(schemas())
    def count(schema: Any) -> None:
        right = sum(map(judge(schema).is_valid, UNIVERSE))
        found["none" if right == 0 else "all" if right == len(UNIVERSE) else "divides"] += 1

    count()
    assert found["divides"] > 100, found
    assert len(UNIVERSE) > 300 and len(set(map(json.dumps, UNIVERSE))) == len(UNIVERSE)
    assert TEXTS and NAMES
