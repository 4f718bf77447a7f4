"""Keys that many patterns match: read beside all patterns at once, against regions made in advance and `jsonschema`."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

import guiderail as gr
from core_support import EVERY_BYTE, mask_of, takes
from guiderail import _core
from guiderail.constraints.program import build_program
from guiderail.frontends.json_schema.normal_form import algebra, outcomes

LATE, EARLY = -1_000, 1_000  # keys are never, and always, split into regions
LETTERS = "abcdefghijklmnopqrst"
KINDS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "string"},
    {"minimum": 3},
    {"maxLength": 4},
    {"type": "boolean"},
    {"maximum": 9},
    {"enum": [1, 2, "x"]},
    {"minLength": 2},
    {"multipleOf": 2},
    {"type": ["integer", "null"]},
]

NAMES = ["", "a", "b", "ab", "ba", "aa", "c", "abc", "é", 'a"']
PATTERNS = ["", "a", "b", "ab", "^a", "b$", "^.$", "^[ab]*$", "a.*b", "^(?:ab)+$", "[^a]", "é|c", "^(a|b)$"]
LEAVES: list[Any] = [
    True,
    False,
    *KINDS,
    {"const": 4},
    {"enum": ["a", "b", 1, None]},
    {"type": "object", "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "maxItems": 1},
    {"not": {"type": "object"}},
    {"type": "string", "pattern": "^a"},
    {"type": "string", "pattern": "b"},
]
VALUES: list[Any] = [
    0,
    1,
    2,
    3,
    4,
    12,
    1.5,
    "",
    "a",
    "ab",
    "x",
    "abcde",
    None,
    True,
    {},
    {"a": 1},
    {"a": ""},
    [],
    [1, 2],
    [""],
]


def _leaf() -> st.SearchStrategy[Any]:
    return st.sampled_from(LEAVES)


def _patterns() -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(PATTERNS), _leaf(), min_size=2, max_size=6)


def _object(more: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    parts: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(st.sampled_from(NAMES), _leaf(), max_size=3),
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "additionalProperties": st.one_of(st.just(False), _leaf()),
        "propertyNames": st.sampled_from(
            [{"pattern": "a"}, {"pattern": "^[ab]*$"}, {"maxLength": 2}, {"minLength": 1}]
        ),
        "minProperties": st.integers(0, 3),
        "maxProperties": st.integers(1, 3),
        **more,
    }
    some = st.lists(st.sampled_from(sorted(parts)), max_size=3, unique=True)
    return some.flatmap(
        lambda keys: st.fixed_dictionaries({"patternProperties": _patterns(), **{k: parts[k] for k in keys}})
    )


schemas = _object(
    {
        "allOf": st.lists(_object({}), min_size=1, max_size=2),
        "unevaluatedProperties": st.one_of(st.just(False), _leaf()),
        "not": st.builds(lambda of: {"patternProperties": of}, _patterns()),
    }
)


def program(schema: Any, parts: int, **options: Any) -> _core.Program | None:
    """Compiles a schema; None if no value satisfies it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algebra, "_PARTS", parts)
        try:
            return build_program(gr.json_schema({"type": "object", **schema}, **options))
        except gr.SchemaError as error:
            assert error.code == "unsatisfiable-schema"
            return None


def matching(count: int, keys: str = LETTERS) -> dict[str, Any]:
    return {"type": "object", "patternProperties": {keys[i]: KINDS[i % len(KINDS)] for i in range(count)}}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=schemas, seed=st.integers(0, 1 << 30))
def test_values_are_those_of_jsonschema(schema: Any, seed: int) -> None:
    judge = jsonschema.Draft202012Validator({"type": "object", **schema})
    try:
        made = program(schema, LATE)
    except gr.LimitError:
        event("a limit was met")
        return
    rng = random.Random(seed)
    for _ in range(40):
        value = {name: rng.choice(VALUES) for name in rng.sample(NAMES, rng.randrange(4))}
        assert (made is not None and takes(made, json.dumps(value, ensure_ascii=False))) == judge.is_valid(value), value
    event("satisfiable" if made else "unsatisfiable")


PIECES = [
    "a", "b", "c", "ab", 'a"', 'b":', '"a', '"b', '{"', '{"a', '{"ab":', '":', '": ', '":1', '":"', '":"a', ', "',
    ',"a', ',"b":',
    "1", "12", "null", "true", "{}", "[]", '"}', "}", "1}", '"a"', '":{', "\\u", "é", '\\"',
]  # fmt: skip
VOCABULARY = gr.Vocabulary([*EVERY_BYTE, *(p.encode() for p in PIECES), b"</s>"], stop_token_ids=[256 + len(PIECES)])


TEXTS = {t: VOCABULARY.token_bytes(t) for t in range(VOCABULARY.token_count) if VOCABULARY.is_text(t)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=schemas, seed=st.integers(0, 1 << 30), ordered=st.booleans())
def test_masks_are_those_of_regions_token_by_token(schema: Any, seed: int, ordered: bool) -> None:
    options = {"property_order": "declared" if ordered else "any", "separators": (",", ":")}
    try:
        slow, fast = program(schema, EARLY, **options), program(schema, LATE, **options)
    except gr.LimitError:
        event("a limit was met")
        return
    assert (slow is None) == (fast is None)
    if slow is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algebra, "_PARTS", LATE)
        guide = gr.compile(gr.json_schema({"type": "object", **schema}, **options), VOCABULARY, cache=False)
    rng = random.Random(seed)
    for _ in range(3):
        matcher, state = guide.matcher(), slow.root
        for _ in range(20):
            mask = mask_of(matcher)
            after = {t: slow.derivative(state, text) for t, text in TEXTS.items()}
            able = {t: to for t, to in after.items() if slow.is_live(to)}
            assert [t for t in TEXTS if mask[t]] == list(able)
            if not able:
                break
            token = rng.choice([t for t in able if t >= 256] or list(able))
            assert matcher.accept_token(token)
            state = able[token]
        assert matcher.is_accepting() == slow.is_nullable(state)


# -- what it costs ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [6, 12, 20])
def test_many_patterns_take_few_steps(count: int) -> None:
    before = _core.spent_work()
    guide = gr.compile(gr.json_schema(matching(count)), VOCABULARY, cache=False)
    compiled = _core.spent_work()
    matcher = guide.matcher()
    for text in ('{"', "x", "h", 'xx": "abc"', ', "', "t"):
        assert matcher.accept_string(text)
        mask_of(matcher)
    assert compiled - before < 1_000_000
    assert _core.spent_work() - compiled < 100_000


def test_outcomes_are_fewer_than_sets_of_patterns() -> None:
    bounds = {letter: {"minimum": i} for i, letter in enumerate(LETTERS)}
    found: list[int] = []
    for schema in (matching(20), {"type": "object", "patternProperties": bounds}):
        document = gr.json_schema(schema).document()
        (cell,) = document.term().shape().objects
        made = document.algebra.unnamed(cell)
        assert isinstance(made, outcomes.Outcomes)
        found.append(len(made.terms))
    assert found[0] < 100
    assert found[1] == 1 + len(bounds)


def test_values_that_differ_for_each_set_of_patterns_meet_a_limit() -> None:
    letters = {letter: {"type": "string", "pattern": letter} for letter in LETTERS[:8]}
    schema = {"properties": {"x": {"type": "object", "patternProperties": letters}}}
    build_program(gr.json_schema(schema, max_branches=256))
    with pytest.raises(gr.LimitError) as caught:
        build_program(gr.json_schema(schema, max_branches=255))
    assert caught.value.code == "schema-branches"
    assert caught.value.pointer == "#/properties/x"  # type: ignore[attr-defined]
    assert "patternProperties" in caught.value.message


# -- the core ---------------------------------------------------------------------------------------------------------
def test_a_text_beside_patterns_matches_if_its_outcome_has_a_value() -> None:
    """All texts of a few letters, against `re`: an outcome is the set of patterns that matched."""
    patterns = ["a", "ab", "b$", "^.b"]
    sets = range(1 << len(patterns))
    following = [[at | 1 << i for i in range(len(patterns))] for at in sets]
    for forbidden in (0b0000, 0b0101, 0b0111, 0b1111):
        b = _core.Builder()
        values = [b.EMPTY if at in (forbidden, 0b0011) else b.literal(b"1") for at in sets]
        searches = [gr.regex(pattern, mode="search")._lower(b) for pattern in patterns]
        made = b.finish(b.patterned(gr.regex("[abc]*")._lower(b), searches, following, values))
        for letters in itertools.chain.from_iterable(itertools.product("abc", repeat=n) for n in range(6)):
            text = "".join(letters)
            outcome = sum(1 << i for i, pattern in enumerate(patterns) if re.search(pattern, text))
            assert takes(made, text) == (outcome not in (forbidden, 0b0011)), text


@pytest.mark.parametrize(("following", "values"), [([], 0), ([[0]], 2), ([[1]], 1), ([[0, 0]], 1), ([[]], 1)])
def test_outcomes_of_a_wrong_shape_are_refused(following: list[list[int]], values: int) -> None:
    b = _core.Builder()
    with pytest.raises(gr.CompileError) as caught:
        b.patterned(b.EPSILON, [b.literal(b"a")], following, [b.literal(b"1")] * values)
    assert caught.value.code == "bad-shape"


@pytest.mark.parametrize("role", ["text", "pattern"])
def test_only_regular_expressions_are_read_beside_patterns(role: str) -> None:
    b = _core.Builder()
    rule = b.rule("r")
    for other in (rule, b.token(["<s>"]), b.look_ahead(b.literal(b"a"), False)):
        text, pattern = (other, b.EPSILON) if role == "text" else (b.EPSILON, other)
        with pytest.raises(gr.CompileError, match=role) as caught:
            b.patterned(text, [pattern], [[0]], [b.literal(b"1")])
        assert caught.value.code == "not-regular"


def test_the_values_of_outcomes_count_whatever_value_is_given() -> None:
    """They may be rules and tokens, and the value that a program gives beside them does not restrict them."""
    b = _core.Builder()
    rule = b.rule("r")
    b.define(rule, b.union([b.literal(b"1"), b.concat([b.literal(b"["), rule, b.literal(b"]")])]))
    key = b.patterned(gr.regex("[ab]")._lower(b), [b.literal(b"a")], [[1], [1]], [rule, b.token(["<s>"])])
    inside = b.members([], [], [], [(key, b.literal(b"2"), False, 0)], b.literal(b","), b.literal(b":"))
    made = b.finish(b.concat([b.literal(b"{"), inside, b.literal(b"}")]))
    for text, right in (('{"b":[[1]]}', True), ('{"b":2}', False), ('{"a":1}', False), ('{"c":1}', False)):
        assert takes(made, text) == right, text
    after = made.derivative(made.root, b'{"a":')
    assert made.is_live(after)
    assert made.is_nullable(made.derivative(made.derivative_symbol(after, "<s>"), b"}"))


def test_a_guide_that_starts_anew_has_the_same_masks() -> None:
    schema = {**matching(8), "additionalProperties": False}
    small = gr.compile(gr.json_schema(schema), VOCABULARY, cache=False, max_memory=1 << 20)
    rng = random.Random(3)
    for _ in range(60):
        whole = gr.compile(gr.json_schema(schema), VOCABULARY).matcher()
        matcher = small.matcher()
        for text in ('{"', *rng.sample("axxbhyd", 4)):
            assert matcher.accept_string(text) == whole.accept_string(text)
            assert (mask_of(matcher) == mask_of(whole)).all()


# -- members that conditions ask for ----------------------------------------------------------------------------------
@pytest.mark.parametrize("parts", [LATE, EARLY])
def test_a_key_that_leaves_no_room_for_a_member_is_not_begun(parts: int) -> None:
    schema = {"maxProperties": 1, "not": {"patternProperties": {"^.$": False}}}  # some key has one letter
    made = program(schema, parts, separators=(",", ":"))
    assert made is not None
    one, two = (made.derivative(made.root, text) for text in (b'{"b', b'{"bb'))
    assert made.is_live(one)
    assert not made.is_live(two)
