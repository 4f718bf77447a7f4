"""Every mask strategy alone gives the masks of the walk, on small random vocabularies and on a real one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
import mask_walks
import schema_generator
import schema_strategies
import test_lexed_masks
import test_masks_real
import test_shared_forms
from core_support import PROPERTY, byte_vocabulary, mask_of, plain
from guiderail import _core
from guiderail.support import work

NAMES = [row["name"] for row in _core.mask_strategies()]
# Strategies whose input another one makes.
NEEDS = {"character-index": ["self-loops", "class-loops"]}
LARGE_ONLY = {"character-index"}  # vocabularies
STEPS = 6
WALK_WORK = 20_000_000  # the walk alone takes more steps than with all strategies

Case = tuple[gr.Constraint, gr.Vocabulary]


@contextmanager
def only(names: Sequence[str]) -> Iterator[None]:
    off = [name for name in NAMES if name not in names]
    for name in off:
        _core.switch_mask_strategy(name, False)
    try:
        yield
    finally:
        for name in off:
            _core.switch_mask_strategy(name, True)


def alone(name: str) -> list[str]:
    return [name, *NEEDS.get(name, [])]


def made() -> dict[str, int]:
    return {row["name"]: row["made"] for row in _core.mask_strategies()}


def walked(constraint: gr.Constraint, vocabulary: gr.Vocabulary, tokens: Sequence[int]) -> list[np.ndarray]:
    """Returns the masks along some tokens, from a new guide."""
    vocabulary.core.clear_cache()
    matcher = gr.compile(constraint, vocabulary, cache=False, prepare=0, max_step_work=WALK_WORK).matcher()
    found = [mask_of(matcher)]
    for token in tokens:
        assert matcher.accept_token(token)
        found.append(mask_of(matcher))
    return found


def path(constraint: gr.Constraint, vocabulary: gr.Vocabulary, rng: random.Random, steps: int = STEPS) -> list[int]:
    """Returns tokens that the walk allows, with a preference for long ones."""
    vocabulary.core.clear_cache()
    matcher = gr.compile(constraint, vocabulary, cache=False, prepare=0, max_step_work=WALK_WORK).matcher()
    tokens: list[int] = []
    for _ in range(steps):
        allowed = [t for t in np.flatnonzero(mask_of(matcher)).tolist() if vocabulary.is_text(t)]
        if not allowed:
            break
        some = rng.sample(allowed, min(4, len(allowed)))
        tokens.append(max(some, key=lambda t: len(vocabulary.token_bytes(t))))
        matcher.accept_token(tokens[-1])
    return tokens


def same(case: Case, rng: random.Random, sets: Sequence[Sequence[str]], steps: int = STEPS) -> None:
    constraint, vocabulary = case
    try:
        with only([]):
            tokens = path(constraint, vocabulary, rng, steps)
            expected = walked(constraint, vocabulary, tokens)
    except gr.CompileError as error:
        assert error.code.startswith("unsatisfiable")
        return
    for names in sets:
        with only(names):
            found = walked(constraint, vocabulary, tokens)
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            wrong = np.flatnonzero(one != other).tolist()
            read = b"".join(map(vocabulary.token_bytes, tokens[:at]))
            assert not wrong, (names, constraint, read, [vocabulary.token_bytes(t) for t in wrong[:5]])


# -- small vocabularies ------------------------------------------------------------------------------------------------
def counted(seed: int) -> Case:
    walk = mask_walks.make(seed)
    return walk.constraint, mask_walks.vocabulary(seed, walk.quoted)


def pieces(rng: random.Random, texts: Sequence[bytes]) -> gr.Vocabulary:
    """A vocabulary of all bytes, and of parts of these texts and of adjacent pairs."""
    tokens = {bytes([b]) for b in range(256)}
    for _ in range(rng.choice([10, 40, 160])):
        text = b"".join(rng.choice(texts) for _ in range(rng.randint(1, 2)))
        low = rng.randrange(len(text))
        tokens.add(text[low : low + rng.randint(2, 8)])
    return plain(sorted(tokens))


MARKS = [b'"', b'":', b'": ', b", ", b', "', b"{", b'{"', b"}", b"}}", b"[", b"]", b'"]', b"],", b"[[", b'"}', b" "]
STRINGS: list[Any] = [
    {"type": "string", "pattern": "^[ab]+[cé].*$"},
    {"type": "string", "pattern": "a"},
    {"type": "string", "pattern": "b$", "maxLength": 9},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "minLength": 3},
    {"type": "string", "minLength": 3, "pattern": "x"},
    {"type": "string", "not": {"enum": ["ab", "abc"]}},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string", "minLength": 6, "maxLength": 9}]},
    {"type": "string", "format": "date"},
    {"anyOf": [{"type": "array", "items": {"type": "string", f"{m}Length": n}} for m, n in (("max", 3), ("min", 6))]},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    {"type": "array", "items": {"enum": ["a", "ab", "abc", 1, 10]}, "uniqueItems": True},
    {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 6, "maxItems": 40},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 5, "maxItems": 30},
    {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "maxItems": 20}, "ab": {"type": "string"}}},
    {"anyOf": [{"required": ["a"], "properties": {"a": {"const": n}, n: {"type": "string"}}} for n in "bc"]},
]


def json(seed: int) -> Case:
    rng = random.Random(f"json {seed}")
    kind = rng.randrange(3)
    if kind == 0:
        schema, _ = rng.choice(test_shared_forms.CASES)
    elif kind == 1:
        schema = rng.choice(STRINGS)
    else:
        schema = {"type": "object", "properties": {n: schema_generator.schema(rng, 2) for n in ("a", "ab", "x-y")}}
        if rng.random() < 0.4:
            schema["additionalProperties"] = False
    return over_pieces(schema, rng)


def over_pieces(schema: Any, rng: random.Random) -> Case:
    return gr.json_schema(schema), pieces(rng, [*schema_strategies.words(schema), *MARKS, *MARKS, b"ab", b"\xc3"])


PATTERNS = ["^ab_", "^a[bc]?$", "^x-", "^(a|ab)_[a-z]{1,2}$", "c$", "^[^a]", "_", "^ab_(x|y)+$", "é", '^b"', "^.{3}$"]


def keys(seed: int) -> Case:
    """Names beside patterns that continue them, and beside keys that were already written."""
    rng = random.Random(f"keys {seed}")
    values: list[Any] = [{"type": "integer"}, {"type": "string"}, {"type": "null"}, False, True, {"enum": ["a", 1]}]
    schema: dict[str, Any] = {"type": "object"}
    names = rng.sample(["a", "ab", "ab_", "ab_x", "abc", "x-", "é", 'b"'], rng.randint(0, 4))
    schema["properties"] = {name: rng.choice(values) for name in names}
    chosen = rng.sample(PATTERNS, rng.randint(1, 3))
    schema["patternProperties"] = {pattern: rng.choice(values) for pattern in chosen}
    if rng.random() < 0.4:
        schema["additionalProperties"] = rng.choice(values)
    if rng.random() < 0.3:
        schema["propertyNames"] = {"pattern": rng.choice(PATTERNS)}
    elif rng.random() < 0.4:
        schema["propertyNames"] = {"maxLength": rng.choice([2, 3, 4, 8])}
    for bound in ("minProperties", "maxProperties"):
        if rng.random() < 0.3:
            schema[bound] = rng.randint(1, 3)
    if rng.random() < 0.3:
        schema = {
            "anyOf": [schema, {"type": "object", "patternProperties": {rng.choice(PATTERNS): rng.choice(values)}}]
        }
    words = [
        b"ab_",
        b"_x",
        b"_",
        b'_x"',
        b'_xy":',
        b'ab"',
        b'ab": ',
        b'c": 1',
        b'": "',
        b'": n',
        b"null",
        b"x-y",
        b'b\\"',
    ]
    return gr.json_schema(schema), pieces(rng, [*words, *words, *MARKS])


def groups(seed: int) -> Case:
    """Counted groups in a string: tokens of several groups, some of which reach the bound."""
    rng = random.Random(f"groups {seed}")
    body = rng.choice(["(?:a|bc)", "ab", "a+b", "(?:ab|c)b?", "a+ +", "(?:a{2}b){1,2}"])
    low = rng.choice([0, 2, 5])
    pattern = f"^{rng.choice(['', 'c?'])}(?:{body}){{{low},{low + rng.randint(1, 14)}}}{rng.choice(['', 'a', 'c*'])}$"
    return gr.json_schema({"type": "string", "pattern": pattern}), pieces(rng, [b"a", b"bc", b"ab", b"c", b" ", b'"'])


FORBIDDEN = ["ab", "b a", "é", "c$", "^a", "a.c", "bb", '"', "aéa", "[bc]a", r"\n", "a[^x]*b", "a|b|c",
             r"\bab\b", r"\b(?:a|bb)\b", r"b\b", "a(?!b)", "a+$"]  # fmt: skip


LETTERS = [
    b"ab",
    b"b a",
    b"abc",
    b"c a ",
    "éa".encode(),
    b"\xc3",
    b'a"',
    b'", "b',
    b"\\n",
    b"\\u00e9",
    b"bbbb",
    b"a-",
    *MARKS,
]


def forbidding(seed: int) -> Case:
    """Texts without certain words, between two lengths near and far."""
    rng = random.Random(f"forbidding {seed}")
    words = rng.sample(FORBIDDEN, rng.randint(1, 3))
    low = rng.choice([0, 0, 1, 2, 5, 12])
    high = low + rng.choice([0, 1, 2, 4, 9, 30])
    if rng.random() < 0.3:
        forbidden = "".join(f"(?!.*(?:{word}))" for word in words)
        constraint: gr.Constraint = gr.regex(f"{forbidden}{rng.choice(['.', '[abcé ]'])}{{{low},{high}}}")
    else:
        schema: dict[str, Any] = {"type": "string", "allOf": [{"not": {"pattern": word}} for word in words]}
        if low:
            schema["minLength"] = low
        if rng.random() < 0.8:
            schema["maxLength"] = high
        if rng.random() < 0.4:
            schema["pattern"] = rng.choice(["^[abcé ]*$", "^[^<>]*$", "^[a-c]+$"])
        outside = [schema, {"type": "array", "items": schema, "maxItems": 2}, {"properties": {"a": schema}}]
        constraint = gr.json_schema(rng.choice(outside), escapes=rng.choice(["canonical", "all"]))
    return constraint, pieces(rng, LETTERS)


def lengths(seed: int) -> Case:
    """Texts of bounded length that end in a way of their own."""
    rng = random.Random(f"lengths {seed}")
    classes = ["[abc]", "[a-c é]", ".", r"[^\s]", r"\w", "[ab]", "[^a]", r"[\x20-\x7e]"]
    one, other = rng.choice(classes), rng.choice(classes)
    first, last = (rng.choice(["[a-c]", "[ab]", "c", r"\w", "[^a]", "é", "."]) for _ in range(2))
    low = rng.choice([0, 0, 1, 3])
    count = f"{{{low},{low + rng.choice([1, 2, 4, 9, 30])}}}"
    words = "|".join(rng.sample(["ab", "abc", "ca", "b", "éa", "bb c"], rng.randint(1, 3)))
    pattern = rng.choice(
        [
            f"{first}{one}{count}{last}",
            f"{first}({one}{count}{last})?",
            f"{first}({one}*{last})?(-{first}({one}{count}{last})?)*",
            f"{one}{count}{first}{last}",
            f"({one}{count}{first}|{one}{count}{last})",
            f"{one}{count}-{other}{count}{last}",
            f"{first}?{one}{count}{last}?",
            f"{first}{{2}}{one}*({words})?",
            f"({words}){one}{count}{last}",
            f".*({words}).*",
            rf"{one}*\b({words})\b{one}*",
            f"({first}+-)*{last}+",
            f"({first}|<{one}*>|<<{one}*({words})>>)*",
            f"({first}*-({words})){{1,3}}",
            f"(?!.*({words})){first}{one}{count}{last}",
            *(f"{label}(\\.{label})*" for label in ("[ab]([a-c-]{0,12}[ab])?", "[a-c]{0,9}[ab]")),
        ]
    )
    if rng.random() < 0.2:
        return gr.regex(pattern), pieces(rng, LETTERS)
    schema: dict[str, Any] = {"type": "string", "pattern": f"^(?:{pattern})$"}
    if rng.random() < 0.6:
        schema["minLength"] = low = rng.choice([0, 0, 1, 2, 5, 12])
        schema["maxLength"] = low + rng.choice([0, 1, 2, 4, 9, 30])
    if rng.random() < 0.2:
        schema["not"] = {"pattern": rng.choice(["ab", "^a", "c$", "é", "--"])}
    outside = [schema, {"type": "array", "items": schema, "maxItems": 2}, {"properties": {"a": schema}}]
    return gr.json_schema(rng.choice(outside), escapes=rng.choice(["canonical", "all"])), pieces(rng, LETTERS)


def lists(seed: int) -> Case:
    """Lists of distinct values, some of which must or must not come."""
    rng = random.Random(f"lists {seed}")
    text = {"type": "string", "maxLength": rng.choice([1, 3, 12, 30, 300])}
    word = rng.choice([text, {**text, "minLength": 1}, {"enum": ["a", "ab", "b"]}, {"pattern": "^[ab]{0,9}$"}])
    entry = {"type": "object", "properties": {"a": word, "b": rng.choice([text, {"type": "integer"}, {}])}}
    entry |= rng.choice([{}, {"required": ["a"]}, {"required": ["a", "b"]}]) | {"additionalProperties": False}
    one = {"anyOf": [word, {"const": {"a": 10}}]}  # one value with infinitely many spellings
    item: dict[str, Any] = rng.choice([word, entry, entry, one, {"type": "array", "items": word, "uniqueItems": True}])
    wanted = [
        {"const": "a"},
        {"pattern": "^a"},
        {"enum": ["a", "b", 10]},
        {"required": ["b"]},
        {"properties": {"a": {"pattern": "^b"}}},
        {},
    ]
    rules: list[dict[str, Any]] = [
        {"contains": rng.choice(wanted), "minContains": rng.choice([1, 1, 2])},
        {"minItems": rng.choice([1, 2, 4])},
        {"maxItems": rng.choice([2, 3, 5])},
        {"not": {"contains": rng.choice(wanted[:-1])}},
        {"prefixItems": [rng.choice([word, entry])]},
    ]
    schema = {"type": "array", "items": item, "uniqueItems": True}
    for rule in rng.sample(rules, rng.choice([0, 1, 1, 2])):
        schema |= rule
    outside = [schema, schema, {"properties": {"a": schema}}, {"anyOf": [schema, {"type": "array", "items": text}]}]
    return over_pieces(rng.choice(outside), rng)


def lexed(seed: int) -> Case:
    rng = random.Random(f"lexed {seed}")
    constraint = rng.choice(list(test_lexed_masks.constraints().values()))
    return constraint, plain([*test_lexed_masks.PIECES, *{bytes([rng.randrange(256)]) for _ in range(9)}])


def large(seed: int) -> Case:
    """A vocabulary large enough for subtrees and classes to have their own masks."""
    rng = random.Random(f"large {seed}")
    letters = "abcdefghijklmnopqrstuvwxyzABC0123 .é"
    tokens = {bytes([b]) for b in range(256)}
    for _ in range(9000):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(2, 5)))
        tokens.add((text + rng.choice(["", "", "", '"', '",', '": "', "\\n"])).encode())
    kind = rng.randrange(3)
    if kind == 0:
        constraint = gr.json_schema(rng.choice(STRINGS))
    elif kind == 1:
        constraint = gr.regex(rng.choice(test_masks_real.PATTERNS))
    else:
        names = ["".join(rng.choice("abc") for _ in range(rng.randint(1, 4))) for _ in range(9)]
        constraint = gr.json_schema({"properties": {name: {"type": "integer"} for name in names}})
    return constraint, plain(sorted(tokens))


MAILBOX = gr.regex(r"[a-z]+(?:\.[a-z]+)*").limited_to(7) + "@" + gr.regex(r"[a-z0-9]+(?:\.[a-z]+)*")
BESIDE: dict[str, gr.Constraint] = {
    "up to a mark": gr.regex(r"(?=[^@]{1,6}@)[a-z0-9.]+@[a-z]+\.com"),
    "at least": gr.regex(r"(?=[^@]{3,}@)[a-z0-9.]+@[a-z]+"),
    "two counters": gr.regex(r"(?=[^@]{2,9}@)(?=[a-z.]{3,5}[0-9@])[a-z0-9.]+@[a-z]*"),
    "the mark is of the class": gr.regex(r"(?=[a-z]{2,6}e)[a-z0-9]+"),
    "words": gr.regex(r"(?=(?:[a-z]{1,4} ){2})[a-z ]{4,9}"),
    "characters beyond ASCII": gr.regex(r"(?=[^@]{1,6}@)[^ ]+@[^@]+"),
    "ambiguous": gr.regex(r"[a-z]+").limited_to(5) + gr.regex("[a-f0-9]*") & gr.regex(r"[a-z0-9]{2,9}"),
    "in a string": gr.json_schema({"type": "string", "pattern": r"^(?=[^@]{1,6}@)[a-z.]+@[a-z]+$"}),
    "in a string with a length": gr.json_schema(
        {"type": "string", "pattern": r"^(?=[^@]{1,5}@)[a-z.]+@[a-z]+$", "maxLength": 9}
    ),
    "a part with a count": MAILBOX,
    "a part with a count, and a length": MAILBOX.limited_to(11),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_counters_beside_other_conditions(name: str) -> None:
    rng = random.Random(f"beside {name}")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789..@@@ é"
    tokens = {bytes([b]) for b in range(256)} | {"é".encode()[:1] + b"a", "aé".encode()[:2]}
    for _ in range(3000):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(2, 9)))
        tokens.add((rng.choice(["", "", '"']) + text + rng.choice(["", "", '"', "\\"])).encode())
    case = BESIDE[name], plain(sorted(tokens))
    before = made()["counted-intersections"]
    for _ in range(3):
        same(case, rng, [["counted-intersections"], NAMES], 9)
    assert name in ("the mark is of the class", "words", "ambiguous") or made()["counted-intersections"] > before


def test_counters_beside_what_contains_rules() -> None:
    """An item of a recursive type must differ from the one before, and begins with an optional blank."""
    item = {"type": "object", "properties": {"a": {"type": "string"}, "k": {"$ref": "#/$defs/item"}}, "required": ["a"]}
    schema = {
        "$defs": {"item": item | {"additionalProperties": False}},
        "type": "array",
        "items": {"$ref": "#/$defs/item"},
        "uniqueItems": True,
    }
    read = list(b'[{"a": "x"}, {"a": "x"')
    vocabulary = byte_vocabulary()
    with only([]):
        expected = walked(gr.json_schema(schema), vocabulary, read)
    with only(["counted-intersections", "distinct-lists"]):
        found = walked(gr.json_schema(schema), vocabulary, read)
    assert all(map(np.array_equal, found, expected))


@pytest.mark.parametrize("escapes", ["canonical", "all"])
def test_a_text_and_what_follows_it_are_found_apart(escapes: str) -> None:
    """Before and in a string, inside a character and an escape, and where a text before it is forgotten."""
    words = [
        b'a"',
        b'x", "',
        b'x": ',
        b'"}',
        b'x"]',
        b'a", "b',
        b'x", "ab": 1',
        b' "a',
        b'"x"',
        b'"a\\"',
        b"\\n",
        b"\xc3",
    ]
    texts = sorted({*words, *(bytes([b]) for b in range(256)), "é".encode(), 'é"'.encode()})
    text = {"type": "string", "pattern": "[aé]x?$"}
    keys = {"type": "object", "patternProperties": {"^a": text}, "propertyNames": {"pattern": "[ab]$"}}
    cases: list[tuple[str, Any]] = [
        ('["xé", "a\\"a"]', {"type": "array", "items": text}),
        ('{"a": "xé", "ab": {"a": "xa"}}', {"properties": {"a": text, "ab": keys}, "additionalProperties": False}),
        ('{"xab": 1, "a\\nb": "a"}', keys | {"additionalProperties": {"type": "integer"}}),
        ('["a", "xa", "é"]', {"type": "array", "items": text, "uniqueItems": True}),
    ]
    before = made()["composed-strings"]
    for read, schema in cases:
        tokens = [texts.index(bytes([b])) for b in read.encode()]
        case = gr.json_schema(schema, escapes=escapes), plain(texts), tokens
        with only([]):
            expected = walked(*case)
        for names in (alone("composed-strings"), NAMES):
            with only(names):
                assert all(map(np.array_equal, walked(*case), expected)), (schema, names)
    assert made()["composed-strings"] > before


def test_a_text_is_found_once_whatever_follows() -> None:
    """The steps of a mask in the middle of a text, before one continuation and then before others."""
    rng = random.Random(3)
    words = {"".join(rng.choice("abcd.-/") for _ in range(rng.randint(2, 6))).encode() for _ in range(4000)}
    texts = sorted({*words, *(bytes([b]) for b in range(256))})
    vocabulary = plain(texts)
    steps = []
    for text in ({"type": "string"}, {"type": "string", "pattern": "(ab|ca)+[^d]*(cd|a-)$"}):
        for names in ("a", "ab"):
            properties = {name: text for name in names}
            schema = {"properties": properties, "required": list(names), "additionalProperties": False}
            matcher = gr.compile(gr.json_schema(schema, property_order="declared"), vocabulary, prepare=0).matcher()
            for byte in b'{"a": "x':
                assert matcher.accept_token(texts.index(bytes([byte])))
            spent = work.spent()
            mask_of(matcher)
            steps.append(work.spent() - spent)
    assert steps[3] < steps[2] / 4, steps  # those of any text come first


FAMILIES: list[tuple[Callable[[int], Case], int]] = [
    (counted, 50),
    (json, 60),
    (keys, 60),
    (groups, 60),
    (forbidding, 80),
    (lengths, 100),
    (lists, 80),
    (lexed, 12),
    (large, 6),
]


def hold(family: Callable[[int], Case], count: int, sets: Sequence[Sequence[str]]) -> None:
    @settings(PROPERTY, max_examples=count)
    @given(st.integers(0, 1 << 20))
    def check(seed: int) -> None:
        same(family(seed), random.Random(seed), sets)

    check()


def test_a_cap_is_reached_by_each_mask_that_reads_up_to_it() -> None:
    """The first mask reads "bcabca" up to the cap of four groups. Later ones must not take that for a dead end."""
    texts = sorted([b'"', b"a", b"b", b"c", b"bcabca"])
    constraint = gr.json_schema({"type": "string", "pattern": "^(?:a|bc){2,12}a$"})
    read = [texts.index(bytes([b])) for b in b'"bcabcaaabc']
    with only([]):
        expected = walked(constraint, plain(texts), read)
    assert all(map(np.array_equal, walked(constraint, plain(texts), read), expected))


def test_an_escape_may_follow_the_last_character_of_a_count() -> None:
    """After twelve letters, only the dash may come; an escape may write it."""
    constraint = gr.json_schema({"type": "string", "pattern": r"^\w{3,12}-$"}, escapes="all")
    texts = sorted({b"bb\\", b"bbb\\", *(bytes([b]) for b in range(256))})
    read = [texts.index(bytes([b])) for b in b'"abcabcabca']
    mask = walked(constraint, plain(texts), read)[-1]
    assert [mask[texts.index(text)] for text in (b"bb\\", b"bbb\\")] == [True, False]


def test_masks_that_differ_below_large_nodes() -> None:
    """Thousands of tokens begin with a space or a quote, and only some states allow these."""
    rng = random.Random(7)
    tokens = {bytes([b]) for b in range(256)}
    for first in (" ", '"', "a"):
        for _ in range(3000):
            word = "".join(rng.choice("abcdefghij k.é") for _ in range(rng.randint(2, 4)))
            tokens.add((first + word + rng.choice(["", '"', '", "', '": '])).encode())
    texts = sorted(tokens)
    vocabulary = plain(texts)
    before = made()
    cases: list[tuple[Any, bytes]] = [
        ({"type": "string", "pattern": "^[^ ]"}, b'"'),
        ({"type": "string", "pattern": "^[^a ]"}, b'"'),
        ({"type": "string", "pattern": "^[^ ].*[a-z]$"}, b'"'),
        ({"properties": {"ab": {"type": "string"}}, "patternProperties": {"^[^a ]": {"type": "string"}}}, b'{"'),
        ({"additionalProperties": {"type": "integer"}, "propertyNames": {"pattern": "^[^ ]"}}, b'{"'),
        ({"properties": {"ab": {}}, "patternProperties": {"^ab_[ab]+$": False, "^a[bc]*$": {"type": "null"}}}, b'{"ab'),
    ]
    for schema, begin in cases:
        read = [texts.index(bytes([b])) for b in begin]
        with only([]):
            expected = walked(gr.json_schema(schema), vocabulary, read)
        for names in (NAMES, ["string-differences"], ["state-differences"]):
            with only(names):
                found = walked(gr.json_schema(schema), vocabulary, read)
            assert all(map(np.array_equal, found, expected)), (names, schema)
    assert made()["string-differences"] > before["string-differences"]


def test_each_alone_gives_the_walks_masks() -> None:
    """The generators reach each strategy."""
    before = made()
    for number, schema in enumerate(STRINGS):
        rng = random.Random(number)
        for _ in range(3):
            same(over_pieces(schema, rng), rng, [*map(alone, NAMES), NAMES])
    for family, count in FAMILIES:
        hold(family, count, [*map(alone, NAMES), NAMES])
    after = made()
    unused = [name for name in NAMES if after[name] == before[name] and name not in LARGE_ONLY]
    assert not unused, f"the generators reach none of {unused}"


@settings(PROPERTY, max_examples=60)
@given(st.integers(0, 1 << 20), st.lists(st.sampled_from(NAMES), unique=True))
def test_some_together_give_the_walks_masks(seed: int, names: list[str]) -> None:
    family = [counted, json, keys, groups, forbidding, lengths, lexed][seed % 7]
    same(family(seed), random.Random(seed), [names])


# -- a real vocabulary -------------------------------------------------------------------------------------------------
def real_cases() -> list[gr.Constraint]:
    lexed_ones = test_lexed_masks.constraints()
    return [
        *map(gr.regex, test_masks_real.PATTERNS[::6]),
        *(gr.json_schema(schema) for schema, _ in test_shared_forms.CASES[::4]),
        *map(gr.json_schema, STRINGS[::4]),
        lexed_ones["calc"],
        lexed_ones["blocks"],
        gr.grammar('start: "#" A+ /!+/?\nA: /[^!\\n]/', "lark"),  # each character is a lexeme
    ]


def test_each_alone_on_a_real_vocabulary(llama3: gr.Vocabulary) -> None:
    before = made()
    for number, constraint in enumerate(real_cases()):
        same((constraint, llama3), random.Random(number), [*map(alone, NAMES), NAMES], 3)
    after = made()
    assert after["character-index"] > before["character-index"]


# -- switches ----------------------------------------------------------------------------------------------------------
def test_a_switch_that_does_not_exist_is_refused() -> None:
    with pytest.raises(gr.GuiderailError, match="no mask strategy is called 'luck'") as caught:
        _core.switch_mask_strategy("luck", False)
    assert caught.value.code == "bad-range"


def test_what_is_off_is_not_used() -> None:
    vocabulary = byte_vocabulary()
    constraint = gr.regex("[a-z]*b")
    for name, other in itertools.pairwise(["class-loops", "self-loops", "class-loops"]):
        with only([name]):
            before = made()
            walked(constraint, vocabulary, [])
            after = made()
        assert after[name] > before[name]
        assert after[other] == before[other]


def test_counters_tell_what_was_kept() -> None:
    vocabulary = byte_vocabulary()
    guide = gr.compile(gr.json_schema({"properties": {"a": {}}}), vocabulary, cache=False)
    matcher = guide.matcher()
    for token in b'{"a':
        mask_of(matcher)
        assert matcher.accept_token(token)
    mask_of(matcher)
    guide.core.program.memory_parts()  # counts its parts
    rows = {row["name"]: row for row in _core.mask_strategies()}
    assert all(row["on"] and row["tried"] >= row["made"] for row in rows.values())
    assert rows["keys-as-strings"]["bytes"] > 0
