"""Identities of expressions across constraints. They share masks, so no one may craft two with the same identity."""

from __future__ import annotations

import itertools
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from core_support import EVERY_BYTE, mask_of, plain
from guiderail import _core
from guiderail.constraints.program import build_program

MASK64 = (1 << 64) - 1
PIECES = [
    b'{"',
    b'": ',
    b'", "',
    b"name",
    b"na",
    b"am",
    b"valu",
    b"val",
    b"kind",
    b"true",
    b'"}',
    b'me": true',
    b'e"',
    b"x1",
]


def vocabulary() -> gr.Vocabulary:
    return plain(EVERY_BYTE + PIECES)


def murmur(text: bytes) -> int:
    """``std::hash`` of libstdc++: its seed is public, and every step is invertible."""
    multiplier = 0xC6A4A7935BD1E995
    mixed = 0xC70F6907 ^ (len(text) * multiplier & MASK64)
    whole = len(text) & ~7
    for at in range(0, whole, 8):
        word = struct.unpack_from("<Q", text, at)[0] * multiplier & MASK64
        word = (word ^ word >> 47) * multiplier & MASK64
        mixed = (mixed ^ word) * multiplier & MASK64
    if whole < len(text):
        mixed = (mixed ^ int.from_bytes(text[whole:], "little")) * multiplier & MASK64
    mixed = (mixed ^ mixed >> 47) * multiplier & MASK64
    return mixed ^ mixed >> 47


# Names, and others with the same ``std::hash``, found by inverting it.
COLLIDING = [("name", "valuR9LJT7qC2EIL"), ("name", "ufUZu34y_L u_bJh"), ("id", "xvznSEvDRbdorxIC")]


def one_name(name: str) -> Any:
    return {
        "type": "object",
        "properties": {name: {"type": "boolean"}},
        "required": [name],
        "additionalProperties": False,
    }


def choice_of_two(name: str) -> Any:
    def closed(key: str, kind: str, more: str) -> Any:
        properties = {key: {"type": kind}, more: {"type": "null"}}
        return {"type": "object", "properties": properties, "required": [key], "additionalProperties": False}

    return {"anyOf": [closed(name, "boolean", "x1"), closed("kind", "integer", "x2")]}


def open_object(name: str) -> Any:
    return {"type": "object", "properties": {name: {"type": "boolean"}}, "required": [name]}


def distinct_of(name: str) -> Any:
    return {"type": "array", "uniqueItems": True, "items": {"enum": [name, "another", "a third"]}}


def masks(schema: Any, known: gr.Vocabulary, text: str) -> list[bytes]:
    matcher = gr.compile(gr.json_schema(schema), known, cache=False).matcher()
    found = []
    for byte in text.encode():
        found.append(mask_of(matcher).tobytes())
        if not matcher.accept_token(byte):
            break
    return found


@pytest.mark.parametrize("make", [one_name, choice_of_two, open_object, distinct_of])
@pytest.mark.parametrize(("name", "other"), COLLIDING)
def test_names_with_one_hash_do_not_share_masks(make: Any, name: str, other: str) -> None:
    assert murmur(name.encode()) == murmur(other.encode())
    texts = {n: f'["{n}", "another"]' if make is distinct_of else f'{{"{n}": true, "x1": null}}' for n in (name, other)}
    alone = masks(make(name), vocabulary(), texts[name])
    shared = vocabulary()
    masks(make(other), shared, texts[other])
    assert masks(make(name), shared, texts[name]) == alone


# -- identities ---------------------------------------------------------------------------------------
def identity_of(constraint: gr.Constraint) -> tuple[int, int] | None:
    program = build_program(constraint)
    return _core.identity(program, program.root)


def object_schema(**more: Any) -> Any:
    return {"type": "object", "additionalProperties": False, **more}


def test_different_structures_have_different_identities() -> None:
    words = ["a", "ab", "b", "ba", "c", "\u00e9", "aa", "bb"]
    constraints: list[gr.Constraint] = []
    for size in (1, 2, 3):
        for chosen in itertools.permutations(words, size):
            constraints.append(gr.regex("[0-9]" + "[x-z]+".join(chosen) + "!"))
            constraints.append(gr.json_schema(object_schema(properties={w: {"type": "null"} for w in chosen})))
        for chosen in itertools.combinations(words, size):
            constraints.append(~gr.choice(chosen))
            constraints.append(gr.json_schema(object_schema(properties={w: {} for w in words}, required=list(chosen))))
    constraints += [gr.regex(f"(?:ab){{{low},{high}}}c") for low in range(2, 9) for high in range(low, 9)]
    constraints += [gr.regex(f"[{chr(low)}-{chr(high)}]x") for low in range(97, 110) for high in range(low, 110)]
    by_identity: dict[tuple[int, int], str] = {}
    for constraint in constraints:
        program = build_program(constraint)
        identity = _core.identity(program, program.root)
        assert identity is not None
        assert by_identity.setdefault(identity, program.dump(program.root)) == program.dump(program.root)
    assert len(by_identity) > 0.9 * len(constraints)


def test_the_order_in_which_a_union_was_made_does_not_matter() -> None:
    rng = random.Random(3)
    words = [f"{letter}{number}" for letter in "abcdefgh" for number in range(6)]
    found = set()
    for _ in range(20):
        builder = _core.Builder()
        rng.shuffle(words)
        handles = {word: builder.complement(builder.literal(word.encode())) for word in words}
        rng.shuffle(words)
        stack = [builder.concat([builder.literal(word.encode()), handles[word]]) for word in words]
        root = builder.union([builder.intersection([handles[word] for word in words]), *stack])
        program = builder.finish(root)
        found.add(_core.identity(program, program.root))
    assert len(found) == 1 and None not in found


def test_what_is_left_out_of_an_intersection_is_seen() -> None:
    words = [f"w{number}" for number in range(10)]
    found = set()
    for chosen in range(1, 1 << len(words)):
        builder = _core.Builder()
        parts = [builder.complement(builder.literal(w.encode())) for i, w in enumerate(words) if chosen >> i & 1]
        program = builder.finish(builder.intersection(parts))
        found.add(_core.identity(program, program.root))
    assert len(found) == (1 << len(words)) - 1


Step = tuple[str, int | None]  # a letter, and the rule that follows it (None: none does)


def identities_of_rules(rules: list[list[Step]], order: list[int]) -> list[tuple[int, int] | None]:
    """The identity of each rule, in a program that numbers the rules in this order."""
    builder = _core.Builder()
    references = {rule: builder.rule(f"r{rule}") for rule in order}
    for rule in order:
        steps = [
            builder.concat([builder.literal(letter.encode()), builder.EPSILON if to is None else references[to]])
            for letter, to in rules[rule]
        ]
        builder.define(references[rule], builder.union(steps))
    # A number before each reference, so that all rules are needed.
    marked = [builder.concat([builder.literal(f"{n}:".encode()), references[n]]) for n in order]
    program = builder.finish(builder.union(marked))
    starts = [program.derivative(program.root, f"{n}:".encode()) for n in range(len(rules))]
    return [_core.identity(program, start) for start in starts]


def same_shape(rules: list[list[Step]]) -> list[int]:
    """The class of each rule: rules whose steps look alike, however far they are followed (partition refinement)."""
    classes = [0] * len(rules)
    for _ in rules:
        looks = [
            tuple(sorted({(letter, -1 if to is None else classes[to]) for letter, to in steps})) for steps in rules
        ]
        known: dict[Any, int] = {}
        classes = [known.setdefault(look, len(known)) for look in looks]
    return classes


def random_rules(rng: random.Random) -> list[list[Step]]:
    count = rng.randrange(1, 10)
    rules: list[list[Step]] = []
    for _ in range(count):
        steps: list[Step] = [(rng.choice("ab"), rng.choice([None, *range(count)])) for _ in range(rng.randrange(1, 3))]
        rules.append([*steps, (rng.choice("cd"), None)])
    return rules


@pytest.mark.parametrize("seed", range(150))
def test_rules_that_unfold_differently_have_different_identities(seed: int) -> None:
    rng = random.Random(seed)
    rules, other_rules = random_rules(rng), random_rules(rng)
    order = list(range(len(rules)))
    found = identities_of_rules(rules, order)
    rng.shuffle(order)
    assert identities_of_rules(rules, order) == found
    others = [[(letter, None if to is None else to + len(rules)) for letter, to in steps] for steps in other_rules]
    found_others = identities_of_rules(other_rules, list(range(len(other_rules))))
    by_identity: dict[tuple[int, int], int] = {}
    for identity, shape in zip(found + found_others, same_shape(rules + others), strict=True):
        if identity is not None:
            assert by_identity.setdefault(identity, shape) == shape
    changed = [list(steps) for steps in rules]
    rule = rng.randrange(len(rules))
    changed[rule][-1] = ("e", None)
    for n, (before, after) in enumerate(zip(found, identities_of_rules(changed, order), strict=True)):
        reached, open_ = {n}, [n]
        while open_:
            for _, to in rules[open_.pop()]:
                if to is not None and to not in reached:
                    reached.add(to)
                    open_.append(to)
        assert (before == after) == (rule not in reached) or before is None


def test_most_rules_have_identities() -> None:
    found = [x for seed in range(150) for rules in [random_rules(random.Random(seed))]
             for x in identities_of_rules(rules, list(range(len(rules))))]  # fmt: skip
    assert sum(x is not None for x in found) > len(found) // 2


def test_rules_are_known_by_what_they_unfold_to() -> None:
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
    named = json.loads(json.dumps(tree).replace("/t", "/other").replace('"t"', '"other"'))
    longer = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": 1}}}
    longer["$defs"]["t"] = {"anyOf": [longer["$defs"]["t"], {"type": "null"}]}
    assert identity_of(gr.json_schema(tree)) == identity_of(gr.json_schema(named)) is not None
    assert identity_of(gr.json_schema(tree)) != identity_of(gr.json_schema(longer))


def test_what_one_arena_alone_knows_has_no_identity() -> None:
    assert identity_of(gr.regex("a") + gr.special_token("<eos>")) is None
    assert identity_of(gr.grammar('start: "a" NAME\nNAME: /[a-z]+/', "lark")) is None


def test_long_chains_need_no_stack() -> None:
    assert identity_of(gr.literal("x" * 300_000)) != identity_of(gr.literal("x" * 300_001))


def test_sets_of_characters_are_compared_in_full() -> None:
    one = _core.CharSet([(97, 99), (500, 600)])
    assert one == _core.CharSet([(500, 600), (97, 98), (99, 99)]) and hash(one) == hash(_core.CharSet(one.ranges()))
    assert one != _core.CharSet([(97, 99)])


# -- other keys, other buckets --------------------------------------------------------------------------
DIGEST = """
import hashlib, json, sys
bits, cases = json.loads(sys.argv[1])
from guiderail import _core
_core.set_bucket_bits(bits)
import guiderail as gr
from core_support import mask_of
from test_identities import vocabulary, constraint
from guiderail.constraints.program import build_program
known, digest = vocabulary(), hashlib.sha256()
for kind, told, text in cases:
    for cache in (False, True):
        guide = gr.compile(constraint(kind, told), known, cache=False)
        matcher = guide.matcher()
        for byte in text.encode():
            digest.update(mask_of(matcher).tobytes())
            assert matcher.accept_token(byte), (told, text)
        digest.update(mask_of(matcher).tobytes() + bytes([matcher.is_accepting()]))
program = build_program(gr.regex("a+b"))
print(json.dumps([digest.hexdigest(), _core.identity(program, program.root)]))
"""

CASES: list[tuple[str, Any, str]] = [
    ("schema", choice_of_two("name"), '{"name": true, "x1": null}'),
    (
        "schema",
        {"properties": {"a": {"maxLength": 30, "type": "string"}}, "maxProperties": 3},
        '{"b": [1], "a": "xyz"}',
    ),
    (
        "schema",
        {"type": "array", "uniqueItems": True, "items": {"type": ["integer", "string"]}},
        '[1, "name", 12, 1.5e1'[:15],
    ),
    ("schema", {"type": "array", "items": {"$ref": "#"}, "maxItems": 9}, "[[], [[]], []]"),
    ("regex", r"(?:[a-z]{1,4}[0-9 ]{2,9}){3,40}\u00e9?", "abc 1 x123 abcd99"),
    ("regex", r"(?=.*1)(?!.*zz)\w{3,40}", "name1 ".strip()),
    ("lark", 'start: stmt+\nstmt: NAME "=" /[0-9]+/ ";"\nNAME: /[a-z]+/\n%ignore " "', "name = 12; kind=3;"),
]


def constraint(kind: str, told: Any) -> gr.Constraint:
    if kind == "schema":
        return gr.json_schema(told)
    return gr.regex(told) if kind == "regex" else gr.grammar(told, kind)


def digest_with(bits: int) -> tuple[str, list[int]]:
    paths = [str(Path(__file__).parent), *sys.path]
    run = subprocess.run(
        [sys.executable, "-c", DIGEST, json.dumps([bits, CASES])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    digest, identity = json.loads(run.stdout)
    return digest, identity


def test_the_keys_of_a_process_change_identities_and_no_mask() -> None:
    (digest, identity), (other_digest, other_identity) = digest_with(0xFFFFFFFF), digest_with(0xFFFFFFFF)
    assert digest == other_digest
    assert identity != other_identity


@pytest.mark.parametrize("bits", [0, 0b101])
def test_what_a_bucket_holds_is_compared_in_full(bits: int) -> None:
    """Tables use only a few bits of their hashes: nearly every lookup meets another entry first."""
    assert digest_with(bits)[0] == digest_with(0xFFFFFFFF)[0]
