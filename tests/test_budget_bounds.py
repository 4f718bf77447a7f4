"""Masks with a budget, made without looking at the tokens where a bound shows that none can matter.

Whatever a mask allows can be finished: a text stays within its budget until it is complete, whichever tokens it takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
import schema_generator
from core_support import bits_of
from guiderail.support import work

PIECES = [
    b'{"',
    b'"}',
    b'":',
    b'": "',
    b'", "',
    b'":[',
    b'":{"',
    b'"},{"',
    b"[[",
    b"]]",
    b"]}",
    b"}}",
    b'"]',
    b"[{",
    b"00",
    b"\\u00",
    b"true",
    b"null",
    b"false",
    b"ab",
    b"abc",
    b"kind",
    b"name",
    b'"kind"',
    b"2024-",
    b"T12:00:0",
    b"   ",
    "é".encode(),
]
VOCABULARY = gr.Vocabulary([*(bytes([b]) for b in range(256)), *PIECES, b"<end>"], stop_token_ids=[256 + len(PIECES)])

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["leaf", "branch"]},
        "of": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3},
    },
    "required": ["kind", "of"],
}
SCHEMAS: dict[str, Any] = {
    "any value": True,
    "required": {
        "properties": {
            "name": {"type": "string", "minLength": 3},
            "kind": {"enum": ["ab", "abc" * 9]},
            "x": {"type": "null"},
        },
        "required": ["name", "kind", "x"],
    },
    "nested": {
        "type": "object",
        "properties": {
            k: {"properties": {"a": {"const": "q" * 30}, "b": {}}, "required": ["a"]} for k in ("k", "name")
        },
        "required": ["k"],
        "additionalProperties": False,
    },
    "recursive": NODE,
    "formats": {"type": "array", "items": {"anyOf": [{"format": f} for f in ("date-time", "ipv4", "uuid", "email")]}},
    "patterns": {
        "patternProperties": {"^(ab)+$": {"const": [1, 2, 3]}, "^n": {"type": "boolean"}},
        "additionalProperties": False,
    },
    "pattern and length": {"type": "string", "pattern": "^(ab|c)*d$", "maxLength": 12},
    "intersection": {"type": "string", "allOf": [{"pattern": "^[a-c]+x[0-9]+$"}, {"pattern": "b.*x.*7"}]},
    "distinct": {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["a", "ab", "abc", "abcdefg"]}},
    "distinct strings": {"type": "array", "uniqueItems": True, "minItems": 4, "items": {"type": "string"}},
    "members": {
        "type": "object",
        "minProperties": 3,
        "properties": {k: {"type": "integer"} for k in ("a", "ab", "abc", "kind")},
    },
    "dependent": {"properties": {k: {} for k in "abcd"}, "dependentRequired": {"a": ["b", "c", "d", "name" * 9]}},
    "alternatives": {"oneOf": [{"required": ["a"], "properties": {"a": {"const": "x" * 40}}}, {"required": ["b"]}]},
    "counted": {
        "type": "array",
        "items": {"type": "array", "minItems": 5, "items": {"type": "integer"}},
        "minItems": 2,
    },
    "long text": {"type": "string", "minLength": 60, "maxLength": 200},
    "numbers": {"type": "array", "items": {"multipleOf": 0.25, "minimum": 1000}},
}


MASK, PLAIN = (gr.allocate_token_bitmask(1, VOCABULARY.size) for _ in range(2))


def allowed_by(bitmask: np.ndarray, matcher: gr.Matcher) -> list[int]:
    return sorted(set(np.flatnonzero(bits_of(bitmask)).tolist()) - set(matcher.stop_token_ids()))


def finish(matcher: gr.Matcher, left: int, rng: random.Random) -> None:
    """The masks of the next states show how to go on, and the text is complete when no tokens are left."""
    twin = matcher.fork()
    for budget in range(left, max(left - 3, -1), -1):
        twin.fill_next_token_bitmask(MASK, 0, budget)
        within = allowed_by(MASK, twin)
        assert within or twin.is_accepting(), twin.dump()
        if not within:
            break
        assert twin.accept_token(rng.choice(within))


def check(schema: Any, rng: random.Random, steps: int, **options: Any) -> int:
    """Walks through texts of a schema, and examines masks with budgets near the least, and far from it.

    Returns how many masks were like those without a budget.
    """
    matcher = gr.compile(gr.json_schema(schema, **options), VOCABULARY).matcher()
    far = 0
    for _ in range(steps):
        matcher.fill_next_token_bitmask(PLAIN, 0)
        allowed = allowed_by(PLAIN, matcher)
        least = matcher.least_tokens(thorough=False)
        if not allowed or least is None:
            break  # the text is complete, or no end was found
        budget = least + rng.choice([0, 1, 2, 5, 10, 20, 40, 80, 200])
        if budget:
            matcher.fill_next_token_bitmask(MASK, 0, budget)
            within = allowed_by(MASK, matcher)
            assert set(within) <= set(allowed)
            far += within == allowed
            for token in rng.sample(within, min(len(within), 6)):
                assert matcher.accept_token(token)
                finish(matcher, budget - 1, rng)
                matcher.rollback(1)
        assert matcher.accept_token(rng.choice(allowed))
    return far


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_a_mask_allows_can_be_completed(name: str) -> None:
    rng = random.Random(name)
    far = sum(check(SCHEMAS[name], rng, 25, escapes=rng.choice(["canonical", "all"])) for _ in range(15))
    assert far > 0, "some budget changes nothing"


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {"distinct strings"}))
def test_far_from_the_end_masks_take_few_steps(name: str) -> None:
    """The bounds of parts are kept, so a new state costs a sum."""
    guide, rng = gr.compile(gr.json_schema(SCHEMAS[name]), VOCABULARY, cache=False), random.Random(name)
    steps = []
    for _ in range(6):
        matcher = guide.matcher()
        for _ in range(25):
            matcher.fill_next_token_bitmask(PLAIN, 0)
            allowed = allowed_by(PLAIN, matcher)
            if not allowed:
                break
            before = work.spent()
            matcher.fill_next_token_bitmask(MASK, 0, 10_000)
            steps.append(work.spent() - before)
            assert matcher.accept_token(rng.choice(allowed))
    later = steps[len(steps) // 2 :]
    assert sum(later) / len(later) < 50


def test_random_schemas() -> None:
    rng = random.Random(5)
    done = 0
    while done < 300:
        try:
            check(schema_generator.nested(rng), rng, 15)
        except (gr.SchemaError, gr.LimitError):
            continue  # no value satisfies it, or no end was found
        done += 1


def spend_budget(guide: gr.Guide, budget: int, rng: random.Random) -> None:
    """Draws from masks until the budget is spent, often a token that only begins a character."""
    matcher = guide.matcher()
    for left in range(budget, 0, -1):
        matcher.fill_next_token_bitmask(MASK, 0, left)
        allowed = allowed_by(MASK, matcher)
        if not allowed:
            break
        parts = [token for token in allowed if VOCABULARY.token_bytes(token)[0] >= 0x80]
        assert matcher.accept_token(rng.choice(parts if parts and rng.random() < 0.3 else allowed))
    assert matcher.is_accepting(), matcher.dump()


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_text_ends_in_time(name: str) -> None:
    """A mask that looks at no token promises as much as one that looks at all of them."""
    rng = random.Random(name)
    guide = gr.compile(gr.json_schema(SCHEMAS[name]), VOCABULARY)
    least = guide.matcher().least_tokens()
    assert least is not None
    for _ in range(25):
        spend_budget(guide, least + rng.choice([0, 5, 20, 40, 60, 80, 120]), rng)


def test_texts_of_random_schemas_end_in_time() -> None:
    rng = random.Random(7)
    done = 0
    while done < 150:
        kind = rng.choice([schema_generator.nested, schema_generator.random_object])
        try:
            guide = gr.compile(gr.json_schema(kind(rng)), VOCABULARY)
        except gr.GuiderailError:
            continue  # no value satisfies it
        if (least := guide.matcher().least_tokens()) is None:
            continue  # no end was found
        spend_budget(guide, least + rng.choice([5, 20, 40, 60, 80, 120]), rng)
        done += 1


# -- compared with all completions ---------------------------------------------------------------------------------
SMALL = gr.Vocabulary(
    [*(bytes([b]) for b in range(256)), b"ab", b"ba", b'"a', b'"]', b'","', b"</s>"], stop_token_ids=[261]
)


def exact_needs(guide: gr.Guide, most: int) -> dict[int, int] | None:
    """Returns the fewest tokens that complete each state; None: there are more than ``most`` states."""
    before: dict[int, set[int]] = {guide.core.root: set()}
    states = [guide.core.root]
    for state in states:
        for token in range(261):
            after = guide.core.accept_state(state, token)
            if after == 0:
                continue
            if after not in before:
                states.append(after)
                before[after] = set()
            before[after].add(state)
        if len(states) > most:
            return None
    least = {state: 0 for state in states if guide.core.is_accepting_state(state)}
    level = list(least)
    while level:
        found = {b for state in level for b in before[state]} - least.keys()
        needed = least[level[0]] + 1
        least.update(dict.fromkeys(found, needed))
        level = list(found)
    return least


PIECES_OF_TEXT = st.sampled_from(
    ["a", "b", "[ab]", "ab", "[ab]?", "a*", "(ab)*", "[ab]{2,5}", "(a|bb)", "é", ".", "[^a]"]
)
PATTERNS = st.lists(PIECES_OF_TEXT, min_size=1, max_size=3).map("".join)


@st.composite
def small_constraints(draw: st.DrawFn) -> gr.Constraint:
    pattern = draw(PATTERNS)
    text: dict[str, Any] = {"type": "string", "pattern": f"^{pattern}$"}
    kind = draw(st.sampled_from(["regex", "both", "text", "limited", "list", "distinct", "choice"]))
    if kind == "regex":
        return gr.regex(pattern)
    if kind == "both":
        return gr.regex(pattern) & gr.regex(draw(PATTERNS))
    if kind == "choice":
        return gr.json_schema({"enum": draw(st.lists(st.text("ab", max_size=9), min_size=1, max_size=4, unique=True))})
    if kind == "limited":
        text["maxLength"] = draw(st.integers(0, 6))
    if kind == "list":
        least = draw(st.integers(0, 2))
        text = {"type": "array", "items": text, "minItems": least, "maxItems": least + draw(st.integers(0, 1))}
    if kind == "distinct":
        values = draw(st.lists(st.text("ab", max_size=4), min_size=1, max_size=3, unique=True))
        text = {"type": "array", "uniqueItems": True, "minItems": len(values) - 1, "items": {"enum": values}}
    return gr.json_schema(text, layout="compact")


@settings(max_examples=40, deadline=None)
@given(small_constraints(), st.randoms(use_true_random=False))
def test_masks_compared_with_all_completions(constraint: gr.Constraint, rng: random.Random) -> None:
    """Every allowed token has a completion within the budget, and no bound is below what some token needs."""
    try:
        guide = gr.compile(constraint, SMALL, cache=False)
    except gr.GuiderailError:
        return  # nothing matches
    least = exact_needs(guide, 250)
    if least is None:
        return
    bitmask = gr.allocate_token_bitmask(1, SMALL.size)
    for _ in range(4):
        matcher = guide.matcher()
        for _ in range(8):
            after = {t: s for t in range(261) if (s := guide.core.accept_state(matcher.state, t)) != 0}
            if not after:
                break
            known = matcher.least_tokens()
            assert known is not None and known >= least[matcher.state]
            for budget in (known + more for more in (0, 1, 3, 8, 20, 50)):
                matcher.fill_next_token_bitmask(bitmask, 0, budget)
                allowed = set(allowed_by(bitmask, matcher))
                possible = {token for token, state in after.items() if least[state] < budget}
                assert allowed <= possible, (budget, matcher.dump(), allowed - possible)
            assert matcher.accept_token(rng.choice(sorted(after)))


# -- attacks -------------------------------------------------------------------------------------------------------
def deep(levels: int, of: Any) -> Any:
    for _ in range(levels):
        of = {"properties": {"a": of}, "required": ["a"]}
    return of


NAMES = [f"n{i}" for i in range(300)]
ATTACKS: dict[str, Callable[[], gr.Constraint]] = {
    "counted repeats": lambda: gr.regex("((a{1,900}b){1,900}c){1,900}"),
    "counted items": lambda: gr.json_schema(
        {"items": {"items": {"type": "null"}, "minItems": 10**6}, "minItems": 10**6}
    ),
    "optional parts": lambda: gr.regex("".join(f"(a{i}|b)?" for i in range(400))),
    "alternatives in each other": lambda: gr.regex("(" * 60 + "a" + "|b)(c|d)" * 60),
    "names and recursion": lambda: gr.json_schema(
        {"properties": {name: {"$ref": "#"} for name in NAMES}, "required": NAMES[:20]}
    ),
    "recursion": lambda: gr.json_schema({"type": "object", "properties": {name: {"$ref": "#"} for name in "abcd"}}),
    "nesting": lambda: gr.json_schema(deep(200, {})),
    "keys by patterns": lambda: gr.json_schema(
        {"patternProperties": {f"^{c}.*{c}{{3,40}}": {"$ref": "#"} for c in "abcdef"}}
    ),
    "long keys": lambda: gr.json_schema({"propertyNames": {"pattern": "^([a-c]x?){200}$"}, "additionalProperties": {}}),
    "distinct objects": lambda: gr.json_schema(
        {"type": "array", "uniqueItems": True, "minItems": 400, "items": {"type": "object"}}
    ),
    "formats": lambda: gr.json_schema(
        {"anyOf": [{"type": "string", "format": f} for f in ("date-time", "uri", "email", "idn-hostname", "regex")]}
    ),
    "a grammar": lambda: gr.grammar('start: start start | "(" start ")" | "[" start* "]" | "a" start? "b"'),
    "a grammar with lexemes": lambda: gr.grammar(
        'start: expr\nexpr: expr OP expr | WORD | "(" expr ")"\nOP: /[+*]/\nWORD: /[a-z]{1,80}/'
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bound_takes_no_more_work_than_a_mask(name: str) -> None:
    """Next to the search for an end, which takes at most 40 times as much."""
    limit = 20_000
    try:
        guide = gr.compile(ATTACKS[name](), VOCABULARY, cache=False, max_step_work=limit)
    except gr.LimitError:
        pytest.skip("refused from the start")
    matcher, rng = guide.matcher(), random.Random(name)
    for _ in range(6):
        try:
            matcher.fill_next_token_bitmask(PLAIN, 0)
        except gr.LimitError:
            break
        before = work.spent()
        try:
            matcher.fill_next_token_bitmask(MASK, 0, 1 << 30)
        except gr.LimitError as error:
            assert error.code in ("budget-unknown", "step-work")
        assert work.spent() - before <= 42 * limit
        allowed = allowed_by(PLAIN, matcher)
        if not allowed:
            break
        assert matcher.accept_token(rng.choice(allowed))


TYPED = frozenset(b'ab1 ",:{}[]')
OBJECTS = {
    "anyOf": [
        {"type": "object", "properties": {"ab": {"type": "null"}}, "required": ["ab"]},
        {"type": "object", "properties": {"ab1": {"const": "b"}, "a": False}, "required": ["ab1"]},
    ]
}


@pytest.mark.parametrize("schema", [*SCHEMAS.values(), OBJECTS], ids=[*SCHEMAS, "objects"])
def test_what_is_needed_falls_with_each_token_that_leaves_time(schema: Any) -> None:
    """``least_tokens`` knows whatever ``accept_within`` promises: otherwise a text that keeps to it might never end."""
    guide = gr.compile(gr.json_schema(schema), VOCABULARY, cache=False)
    rng = random.Random(str(schema))

    def texts() -> list[int]:
        matcher.fill_next_token_bitmask(MASK)
        return allowed_by(MASK, matcher)

    for _ in range(20):
        matcher = guide.matcher()
        for _ in range(rng.randrange(20)):
            ways = [t for t in texts() if t in TYPED]
            if ways:
                matcher.accept_token(rng.choice(ways))
        while not matcher.is_accepting():
            needed = matcher.least_tokens()
            if needed is None:  # none is known, and none is promised
                break
            ways = texts()
            assert any(matcher.accept_within(t, needed) for t in ways)
            after = matcher.least_tokens()
            assert after is not None and after < needed
