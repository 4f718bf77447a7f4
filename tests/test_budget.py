"""Token budgets: compared with all completions on small vocabularies, and by walks on a real one. Drafts."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from core_support import EVERY_BYTE, bits_of, byte_vocabulary, mask_of, plain
from schema_suite import DIALECTS, registry, suite

SMALL = plain(
    [b"a", b"b", b"ab", b"ba", b"aab", b"c", b"bc", b'"', b"{", b"}", b'{"', b'"}', b":", b'":', b",", b"1", b"11"]
)

CONSTRAINTS: dict[str, Any] = {
    "literal": gr.literal("abaabc"),
    "optional": gr.regex("(ab)?c?"),
    "counted": gr.regex("[ab]{5,9}"),
    "unbounded": gr.regex("a+b*c"),
    "alternatives": gr.regex("aab|(ba){4}|c{2,}ab"),
    "choice": gr.choice(["ab", "aabc", "bcbcbc", "c"]),
    "without a token for its shortest text": gr.regex("d|aba{2}b"),
    "intersection": gr.regex("[abc]{4,}") & gr.regex("(ab|c)*"),
    "complement": ~gr.regex(".{0,3}") & gr.regex("[ab]*"),
    "look-ahead": gr.regex("(?!.*bb)[ab]{4,6}(?=c)c"),
    "recursion": gr.grammar('start: "a" start "b" | "c"'),
    "lexed": gr.grammar('start: item+\nitem: A "b" | "c" item\nA: "a"+\n%ignore "1"'),
    "object": gr.json_schema({"type": "object", "properties": {"a": {"const": 1}, "b": {"enum": [1, 11]}},
                              "required": ["b"], "additionalProperties": False}, layout="compact"),
    "keys of two kinds": gr.json_schema({"type": "object", "patternProperties": {"^[ab]{1,2}$": {"const": 1}},
                                         "additionalProperties": False, "minProperties": 2}, layout="compact"),
}  # fmt: skip


def needs(guide: gr.Guide, most: int) -> dict[int, int]:
    """Returns the fewest tokens that complete each state within ``most`` tokens, by examining all states."""
    tokens = range(len(SMALL.stop_token_ids) and SMALL.stop_token_ids[0])
    start = guide.core.root
    after: dict[int, list[int]] = {}
    level = [start]
    for _ in range(most):
        reached = []
        for state in level:
            if state in after:
                continue
            after[state] = [t for t in (guide.core.accept_state(state, token) for token in tokens) if t]
            reached += after[state]
        level = reached
    least = {state: 0 for state in after if guide.core.is_accepting_state(state)}
    for n in range(1, most + 1):
        for state, nexts in after.items():
            if state not in least and any(least.get(t) == n - 1 for t in nexts):
                least[state] = n
    return least


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_allow_what_can_be_finished(name: str) -> None:
    """On constraints small enough for exact numbers: no token is missing, none is too many."""
    guide = gr.compile(CONSTRAINTS[name], SMALL, cache=False)
    least = needs(guide, 14)
    matcher = guide.matcher()
    needed = least[guide.core.root]
    assert matcher.least_tokens() == needed
    rng = random.Random(name)
    for budget in range(needed, needed + 4):
        for _ in range(5):
            matcher.reset()
            left = budget
            while True:
                mask = np.zeros((1, 1), np.int32)
                matcher.fill_next_token_bitmask(mask, 0, left)
                allowed = set(np.flatnonzero(bits_of(mask)).tolist())
                stop = SMALL.stop_token_ids[0]
                assert (stop in allowed) == matcher.is_accepting()
                for token in range(stop):
                    after = guide.core.accept_state(matcher.state, token)
                    possible = after != 0 and left > 0 and least.get(after, 99) <= left - 1
                    assert (token in allowed) == possible, (SMALL.token_bytes(token), left)
                    twin = matcher.fork()
                    assert (left > 0 and twin.accept_within(token, left)) == possible
                    assert twin.history() == matcher.history() + [token] * possible
                if allowed <= {stop}:
                    break
                assert matcher.accept_token(rng.choice(sorted(allowed - {stop})))
                left -= 1
            assert matcher.is_accepting()


def test_budgets_that_cannot_be_kept() -> None:
    matcher = gr.compile(gr.regex("a{7}"), SMALL).matcher()
    mask = np.zeros((1, 1), np.int32)
    assert matcher.least_tokens() == 7
    with pytest.raises(gr.LimitError, match="7 tokens") as caught:
        matcher.fill_next_token_bitmask(mask, 0, 6)
    assert caught.value.code == "budget-too-small"
    with pytest.raises(gr.MatcherError) as negative:
        matcher.fill_next_token_bitmask(mask, 0, -1)
    assert negative.value.code == "matcher-budget"
    assert matcher.history() == []
    unspelled = gr.compile(gr.regex("a*d"), SMALL).matcher()
    assert unspelled.least_tokens() is None
    with pytest.raises(gr.LimitError) as unknown:
        unspelled.fill_next_token_bitmask(mask, 0, 100)
    assert unknown.value.code == "budget-unknown"


def test_a_large_budget_changes_nothing() -> None:
    for name, constraint in CONSTRAINTS.items():
        matcher = gr.compile(constraint, SMALL).matcher()
        mask = np.zeros((1, 1), np.int32)
        matcher.fill_next_token_bitmask(mask, 0, 10_000)
        with_budget, without = bits_of(mask), mask_of(matcher)
        if not any("d" in str(c) for c in [constraint]):
            assert (with_budget <= without).all()
        for token in np.flatnonzero(without & ~with_budget):  # only tokens that cannot finish are missing
            after = matcher.fork()
            after.accept_token(int(token))
            assert after.least_tokens() is None, name


def test_special_tokens_cost_one() -> None:
    vocabulary = gr.Vocabulary(
        [b"a", b"b", b"<sep>", b"<eos>"], special_tokens={"<sep>": 2, "<eos>": 3}, stop_token_ids=[3]
    )
    guide = gr.compile(gr.regex("a{3}") + gr.special_token("<sep>") + gr.regex("b|aa"), vocabulary)
    matcher = guide.matcher()
    assert matcher.least_tokens() == 5
    for token in (0, 0, 0, 2):
        assert matcher.accept_within(token, 5 - len(matcher.history()))
    assert not matcher.accept_within(0, 1)
    assert matcher.accept_within(1, 1)


def test_ends_in_sight_with_bytes_as_tokens() -> None:
    """All open brackets count, however deep the stack."""
    schema = {"type": "array", "items": {"$ref": "#"}}
    guide = gr.compile(gr.json_schema(schema, layout="compact"), byte_vocabulary())
    matcher = guide.matcher()
    for left in range(40, 20, -1):
        assert matcher.accept_within(ord("["), left)
    assert matcher.least_tokens() == 20
    assert not matcher.accept_within(ord("["), 20)
    assert matcher.accept_within(ord("]"), 20)


# -- drafts --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_of_a_draft_are_those_of_its_states(name: str) -> None:
    """Each row of a draft tree is the mask of a matcher that has read the path to it; the matcher itself stays."""
    rng = random.Random(name)
    stop = SMALL.stop_token_ids[0]
    for _ in range(20):
        matcher = gr.compile(CONSTRAINTS[name], SMALL).matcher()
        for _ in range(rng.randrange(3)):
            allowed = [t for t in np.flatnonzero(mask_of(matcher)).tolist() if t != stop]
            if allowed:
                matcher.accept_token(rng.choice(allowed))
        before = matcher.history()
        states: list[gr.Matcher | None] = [matcher.fork()]
        draft: list[int] = []
        parents: list[int] = []
        for i in range(12):
            parent = rng.randrange(-1, i)
            known = states[parent + 1]
            allowed = [] if known is None else np.flatnonzero(mask_of(known)).tolist()
            token = rng.choice(allowed) if allowed and rng.random() < 0.8 else rng.randrange(SMALL.size)
            after = None if known is None else known.fork()
            accepted = after is not None and after.accept_token(token)
            draft.append(token)
            parents.append(parent)
            states.append(after if after is not None and accepted and not after.is_terminated() else None)
        bitmask = np.full((14, 1), 7, np.int32)
        took = matcher.fill_draft(draft, bitmask, parents, first_row=1)
        assert (bitmask[0] == 7).all() and matcher.history() == before
        for i, state in enumerate(states):
            row = bits_of(bitmask, i + 1)
            assert (row == mask_of(state)).all() if state is not None else row[: SMALL.size].all()
        for i, token in enumerate(draft):
            known = states[parents[i] + 1]
            assert took[i] == (known is not None and known.fork().accept_token(token))
        line = matcher.fork()
        count = 0
        while count < len(draft) and not line.is_terminated() and line.accept_token(draft[count]):
            count += 1
        assert matcher.validate(draft) == count
        assert matcher.fill_draft(draft, bitmask) == [i < count for i in range(len(draft))]


def test_drafts_that_are_none() -> None:
    matcher = gr.compile(gr.regex("a+"), SMALL).matcher()
    bitmask = np.zeros((3, 1), np.int32)
    for parents in ([0, 0], [-1, 1], [-2, -1], [-1]):
        with pytest.raises(gr.MatcherError) as caught:
            matcher.fill_draft([0, 0], bitmask, parents)
        assert caught.value.code == "matcher-draft"
    with pytest.raises(gr.BitmaskError):
        matcher.fill_draft([0, 0, 0], bitmask)
    assert matcher.validate([0, 999, 0]) == 1 and matcher.validate([-1]) == 0 and matcher.history() == []


# -- many schemas, a real vocabulary -------------------------------------------------------------------------------
def schemas() -> list[tuple[str, str, Any]]:
    """Returns draft, name and schema from the official suite without optional parts, in arbitrary order."""
    found = [
        (draft, f"{draft} {file}: {case['description']}", case["schema"])
        for draft in DIALECTS
        for file, cases in suite(draft)["files"].items()
        if not file.startswith("optional")
        for case in cases
    ]
    random.Random(1).shuffle(found)
    return found


def walk(guide: gr.Guide, budget: int, rng: random.Random, bitmask: np.ndarray) -> bytes:
    """Draws tokens from masks within a budget; the text is complete at the end."""
    vocabulary, matcher, read = guide.vocabulary, guide.matcher(), b""
    for left in range(budget, -1, -1):
        if matcher.is_complete() or left == 0:
            break
        matcher.fill_next_token_bitmask(bitmask, 0, left)
        token = int(rng.choice(np.flatnonzero(bits_of(bitmask)).tolist()))
        assert matcher.accept_token(token)
        if matcher.is_terminated():
            return read
        read += vocabulary.token_bytes(token)
    assert matcher.is_accepting(), (budget, read)
    return read


def test_every_output_is_complete_and_valid(smollm2: gr.Vocabulary) -> None:
    """200 schemas, budgets from the minimum upward: every text ends in time and is valid."""
    jsonschema = pytest.importorskip("jsonschema")
    validators = {
        "draft2020-12": jsonschema.Draft202012Validator,
        "draft2019-09": jsonschema.Draft201909Validator,
        "draft7": jsonschema.Draft7Validator,
        "draft6": jsonschema.Draft6Validator,
        "draft4": jsonschema.Draft4Validator,
    }
    bitmask = gr.allocate_token_bitmask(1, smollm2.size)
    done = 0
    for draft, name, schema in schemas():
        told = isinstance(schema, dict) and "$schema" in schema
        try:
            constraint = gr.json_schema(schema, dialect=None if told else DIALECTS[draft], registry=registry(draft))
            guide = gr.compile(constraint, smollm2, cache=False)
        except gr.GuiderailError:
            continue  # rejected, or no value is valid: see test_schema_suite.py
        least = guide.matcher().least_tokens()
        assert least is not None, name
        for budget in (least, least + 3, 2 * least + 10):
            text = walk(guide, budget, random.Random(f"{name} {budget}"), bitmask).decode()
            assert constraint.matches(text), (name, budget, text)
            if not told:
                assert validators[draft](schema, registry=registry(draft)).is_valid(json.loads(text)), (name, text)
        done += 1
        if done == 200:
            break
    assert done == 200


def test_many_members_and_one_that_needs_an_escape(smollm2: gr.Vocabulary) -> None:
    """The search without escapes, which runs first, must leave some budget to the one with escapes."""
    properties = {f"member_{i}": {"type": "integer"} for i in range(25)}
    properties["size"] = {"type": "string", "pattern": "^[0-9]'[0-9]\"$"}
    schema = {"properties": properties, "required": list(properties), "additionalProperties": False, "type": "object"}
    constraint = gr.json_schema(schema)
    guide = gr.compile(constraint, smollm2, cache=False)
    least = guide.matcher().least_tokens()
    assert least is not None and least >= 3 * len(properties)
    text = walk(guide, least + 2, random.Random(3), gr.allocate_token_bitmask(1, smollm2.size)).decode()
    assert constraint.matches(text) and set(json.loads(text)) == set(properties)


def test_masks_in_strings_are_those_of_single_tokens(smollm2: gr.Vocabulary) -> None:
    """If everything below a node of the trie stays in a string, it is decided at once."""
    texts = [
        (gr.regex('"[^"]*" and more'), '"ab'),
        (gr.regex(r"(?s:.*)the end"), "in "),
        (gr.json_schema({"properties": {"a": {"type": "string"}}, "required": ["b"]}), '{"a": "x '),
        (gr.json_schema({"type": "array", "items": {"type": "string", "maxLength": 9}}), '["abc'),
        (gr.text_until("</x>") + gr.regex("[0-9]{3}"), "ab<"),
    ]
    for constraint, begun in texts:
        matcher = gr.compile(constraint, smollm2, cache=False).matcher()
        assert matcher.accept_string(begun)
        least = matcher.least_tokens()
        assert least is not None
        plain_mask = mask_of(matcher)
        bitmask = gr.allocate_token_bitmask(1, smollm2.size)
        for budget in range(least, least + 4):
            matcher.fill_next_token_bitmask(bitmask, 0, budget)
            allowed = bits_of(bitmask)[: smollm2.size].astype(bool)
            for token in np.flatnonzero(plain_mask).tolist():
                if token in smollm2.stop_token_ids:
                    continue
                within = matcher.accept_within(token, budget)
                assert within == allowed[token], (begun, budget, smollm2.token_bytes(token))
                matcher.rollback(int(within))
            assert not allowed[~plain_mask[: smollm2.size].astype(bool)].any()


@pytest.mark.parametrize("others", [True, False])
def test_least_of_objects_with_required_names(others: bool) -> None:
    """With bytes as tokens, the minimum is the length of the shortest text, even for names with a common prefix."""
    names = ["created", "cost", "cost_in_credits", "crew", "é", "émile", "url", "vehicle_class", "length", "films"]
    optional = ["edited", "cr", "x"] if not others else []
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names + optional},
        "required": names,
        "additionalProperties": others,
    }
    guide = gr.compile(gr.json_schema(schema), byte_vocabulary(), cache=False)
    missing = {name: len(f'"{name}":0,'.encode()) for name in names}
    rest = sum(missing.values())  # with the closing brace instead of the last comma
    begun = {
        "": 1 + rest,
        "{": rest,
        '{"': rest - 1,
        '{"c': rest - 2,
        '{"cost': rest - 5,
        '{"cost"': rest - 6,
        '{"cost_': rest - 6,
        '{"é': rest - 3,
        '{"url":12': rest - missing["url"] + 1,
        '{"url":12,"crew": 7, "f': rest - missing["url"] - missing["crew"] - 2,
    }
    if others:
        begun |= {'{"q': 4 + rest, '{"costs': 4 + rest, '{"q":"': 2 + rest, '{"q":1,"l': rest - 2}
    else:
        begun |= {'{"e': len('dited":0,') + rest, '{"cr': rest - 3}
    for text, least in begun.items():
        matcher = guide.matcher()
        assert matcher.accept_string(text), text
        assert matcher.least_tokens(thorough=False) == matcher.least_tokens() == least, text


@pytest.mark.parametrize("value, text", [("null", "null"), ("boolean", "true"), ("string", '""'), ("array", "[]")])
def test_least_of_keys_whose_pattern_decides_their_value(value: str, text: str) -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^1": {"type": value}},
        "properties": {"bb-": True, "ab": {"type": "integer"}},
        "required": ["ab"],
    }
    guide = gr.compile(gr.json_schema(schema), byte_vocabulary(), cache=False)
    rest = f'":{text},"ab":0}}'
    for begun in ['{"1', '{"1]é{-1:', '{"x":0,"1\\"', '{"ab":0,"1']:
        matcher = guide.matcher()
        assert matcher.accept_string(begun), begun
        least = len(f'":{text}}}') if "ab" in begun else len(rest)
        assert matcher.program.least_bytes(matcher.state) == least, begun
        assert matcher.least_tokens(thorough=False) == matcher.least_tokens() == least, begun


NAMES = ["a", "ab", "abc", "b", "ba", "cost", "cost_x", "é", "éa", "", "0", "x"]


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of objects whose names have common prefixes, with all keywords that require or forbid members."""
    names = st.sampled_from(NAMES)
    values = st.sampled_from([{"type": "integer"}, {"const": "x"}, {"type": "string", "minLength": 2}, {}])
    schema: dict[str, Any] = {"type": "object", "properties": draw(st.dictionaries(names, values, max_size=6))}
    more: dict[str, st.SearchStrategy[Any]] = {
        "required": st.lists(names, unique=True, max_size=4),
        "additionalProperties": st.sampled_from([False, {"type": "boolean"}]),
        "minProperties": st.integers(1, 5),
        "maxProperties": st.integers(4, 7),
        "dependentRequired": st.dictionaries(names, st.lists(names, unique=True, max_size=2), max_size=1),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "^c.*x$"]), values, max_size=1),
        "propertyNames": st.just({"maxLength": 4}),
        "anyOf": st.lists(st.builds(lambda n: {"required": n}, st.lists(names, unique=True, max_size=2)), min_size=2),
    }
    for key in draw(st.sets(st.sampled_from(sorted(more)), max_size=4)):
        schema[key] = draw(more[key])
    return schema


BYTES = byte_vocabulary()
VALUES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0, True, "x", "xx"]), max_size=7)


@settings(max_examples=60, deadline=None)
@given(objects(), st.lists(VALUES, min_size=1, max_size=30))
def test_what_is_missing_is_never_estimated_too_high(schema: dict[str, Any], values: list[dict[str, Any]]) -> None:
    """Searches and rejections rely on a lower bound: no text may be shorter."""
    try:
        guide = gr.compile(gr.json_schema(schema), BYTES)
    except gr.GuiderailError:
        return  # nothing satisfies it
    for value in values:
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        matcher = guide.matcher()
        bounds = [matcher.program.least_bytes(matcher.state)]
        for byte in data:
            if not matcher.accept_token(byte):
                break
            bounds.append(matcher.program.least_bytes(matcher.state))
        else:
            if matcher.is_accepting():
                assert all(bound <= len(data) - i for i, bound in enumerate(bounds)), (value, bounds)


# -- keys that must differ -------------------------------------------------------------------------------------------
DIFFERENT: list[tuple[dict[str, Any], str]] = [
    ({"minProperties": 5}, '{"":0,"a":0,"b":0,"c":0,"d":0}'),
    ({"minProperties": 3, "propertyNames": {"pattern": "^x-"}}, '{"x-":0,"x-a":0,"x-b":0}'),
    ({"minProperties": 3, "propertyNames": {"minLength": 2}}, '{"aa":0,"ab":0,"ac":0}'),
    ({"minProperties": 3, "properties": {"": {"type": "null"}}}, '{"a":0,"b":0,"c":0}'),
    ({"minProperties": 3, "required": ["", "long"]}, '{"":0,"long":0,"a":0}'),
    ({"minProperties": 3, "additionalProperties": {"type": "string", "minLength": 2}}, '{"":"aa","a":"aa","b":"aa"}'),
    ({"minProperties": 3, "properties": {"ab": {}, "abc": {}, "b": {"const": 0}, "c": {"const": 10}},
      "additionalProperties": False}, '{"b":0,"ab":0,"c":10}'),
]  # fmt: skip


@pytest.mark.parametrize("schema, shortest", DIFFERENT)
def test_a_minimum_of_members_counts_keys_that_differ(schema: dict[str, Any], shortest: str) -> None:
    constraint = gr.json_schema({"type": "object", **schema}, max_whitespace=0)
    program = constraint.program().core
    assert constraint.matches(shortest) and program.least_bytes(program.root) == len(shortest)
    matcher = gr.compile(constraint, BYTES).matcher()
    assert matcher.least_tokens(thorough=False) == len(shortest)


@pytest.mark.parametrize(
    "schema",
    [{"type": "object", **schema} for schema, _ in DIFFERENT]
    + [
        {"type": "object", "required": ["name"]},
        {"type": "object", "minProperties": 2},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3},
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 2},
            "uniqueItems": True,
            "minItems": 2,
        },
        {"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True, "minItems": 4},
        {"type": "array", "items": {"type": "object", "minProperties": 2}, "uniqueItems": True, "minItems": 2},
        {
            "type": "object",
            "minProperties": 2,
            "additionalProperties": {"items": {"type": "string"}, "uniqueItems": True, "type": "array", "minItems": 2},
        },
        {  # the texts of the keys outside matter as well as those inside
            "type": "object",
            "minProperties": 2,
            "propertyNames": {"maxLength": 7},
            "patternProperties": {"b$": False},
            "additionalProperties": {
                "type": "object",
                "patternProperties": {"^a": {"type": "string"}, "b$": {"type": "string"}},
                "required": ["1-1"],
                "minProperties": 3,
            },
        },
    ],
)
def test_budgets_where_keys_must_differ(schema: dict[str, Any]) -> None:
    """Masks promise what they allow, also where a token could write a key that the shortest completion needs."""
    pieces = [bytes([b]) for b in range(32, 127)] + [b"ab", b'":', b'"a', b'","', b'":0,"', b'!"', b"!!", b"x-", b"\\n"]
    pieces += [b"na", b"me", b'0,"', b"0}", b'":"', b"\xc3", b"\xa9"]
    constraint = gr.json_schema(schema, max_whitespace=0)
    guide = gr.compile(constraint, plain(pieces), cache=False)
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    for seed in range(12):
        rng, matcher = random.Random(seed), guide.matcher()
        needed = matcher.least_tokens()
        assert needed is not None
        left, read = needed + rng.choice([0, 1, 2, 5, 30]), b""
        while not matcher.is_terminated():
            matcher.fill_next_token_bitmask(bitmask, 0, left)
            allowed = np.flatnonzero(bits_of(bitmask)).tolist()
            if not allowed:
                assert left == 0 and matcher.is_accepting(), read
                break
            for token in rng.sample(allowed, min(len(allowed), 25)):
                if token < len(pieces):
                    assert matcher.fork().accept_within(token, left), (read, pieces[token], left)
            token = rng.choice(allowed)
            assert matcher.accept_token(token), (read, token)
            read, left = read + (pieces[token] if token < len(pieces) else b""), left - 1
        assert constraint.matches(read), read


@pytest.mark.parametrize("options", [{"notation": "yaml"}, {"layout": "indented"}, {}], ids=str)
def test_an_end_beyond_line_ends_is_found(options: dict[str, Any]) -> None:
    """Few bytes are tried first, since so many can continue a character; line ends are among them."""
    guide = gr.compile(gr.json_schema({"type": "object", "minProperties": 2}, **options), plain(EVERY_BYTE))
    matcher = guide.matcher()
    start = {"yaml": b'"', "indented": b'{\n  "'}.get(next(iter(options.values()), ""), b'{"')
    for byte in start + b"\xf2":
        assert matcher.accept_token(byte)
    needed = matcher.least_tokens()
    assert needed is not None and needed < 20
    for byte in b"\x80\x80\x80":
        assert matcher.accept_within(byte, needed)
        needed -= 1


def test_a_large_budget_leaves_the_tokens_of_keys_and_items() -> None:
    letters = [bytes([a, b]) for a in range(97, 123) for b in range(97, 123)]
    vocabulary = plain([*EVERY_BYTE, *letters])
    full, within = (gr.allocate_token_bitmask(1, vocabulary.size) for _ in range(2))
    keys = ['{"', '{"a', '{"a":1,"', '{"a":1,"b', '{"a":{"a":1},"b":[1],"c']
    items = {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3}
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"type": "object", "minProperties": 4}, keys),
        ({"type": "object", "required": ["name"]}, keys),
        ({"type": "object", "minProperties": 3, "propertyNames": {"maxLength": 9}}, keys),
        (items, ['["', '["a', '["a","', '["a","b', '["a","b","c","d']),
        ({"type": "object", "properties": {"x": items}}, ['{"y":1,"x":["', '{"y":1,"x":["a","b']),
    ]
    for schema, texts in cases:
        guide = gr.compile(gr.json_schema(schema, max_whitespace=0), vocabulary, cache=False)
        for begun in texts:
            matcher = guide.matcher()
            assert matcher.accept_string(begun)
            matcher.fill_next_token_bitmask(full, 0)
            matcher.fill_next_token_bitmask(within, 0, 60)
            lost = np.flatnonzero(bits_of(full) & ~bits_of(within)).tolist()
            assert len(lost) < 80, (schema, begun, [vocabulary.token_bytes(t) for t in lost[:50]])


@pytest.mark.parametrize("divisor", [3, 7])
def test_a_state_of_many_shared_parts_is_looked_through_once(divisor: int) -> None:
    """Within a key, a mask with a budget asks which texts the state knows; shared parts made that exponential."""
    schema = {"type": "object", "additionalProperties": {"type": "integer", "multipleOf": divisor}}
    matcher = gr.compile(gr.json_schema(schema, notation="python"), BYTES).matcher()
    assert matcher.accept_string(f'{{"a": {divisor}, "')
    bitmask = gr.allocate_token_bitmask(1, BYTES.size)
    matcher.fill_next_token_bitmask(bitmask, 0, 20)
    assert bits_of(bitmask)[ord("b")]


def test_what_a_mask_with_a_budget_allows_is_accepted() -> None:
    """The mask judges by states without texts. After a value one alternative may end, so the other is optional."""
    value = {
        "type": "object",
        "oneOf": [
            {"additionalProperties": {"type": "object"}, "minProperties": 3},
            {"properties": {"ab": False}, "required": ["b"], "minProperties": 2},
        ],
    }
    schema = {"type": "object", "required": ["k"], "maxProperties": 3, "additionalProperties": value}
    pieces = [*(bytes([b]) for b in range(256)), b'":', b'","']
    matcher = gr.compile(gr.json_schema(schema, max_whitespace=0), plain(pieces), cache=False).matcher()
    assert matcher.accept_string('{"x":{"')
    bitmask = gr.allocate_token_bitmask(1, matcher.guide.vocabulary.size)
    left = matcher.least_tokens()
    assert left is not None
    while left > 0:
        matcher.fill_next_token_bitmask(bitmask, 0, left)
        allowed = [token for token in np.flatnonzero(bits_of(bitmask)).tolist() if token < len(pieces)]
        for token in allowed:
            assert matcher.fork().accept_within(token, left), (pieces[token], left)
        assert matcher.accept_token(allowed[0])
        left -= 1
    assert matcher.is_accepting()
