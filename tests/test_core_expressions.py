"""Expressions of the core: their meaning compared with ``oracle.py``, their normal forms, rules, limits."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import guiderail as gr
from core_support import PROPERTY, mask_of, plain
from guiderail import CompileError, LimitError, _core
from oracle import OracleBuilder

ANY = _core.CharSet([(0, 0x10FFFF)])


def chars(text: str) -> _core.CharSet:
    return _core.CharSet([(ord(c), ord(c)) for c in text])


def read(program: _core.Program, text: bytes) -> bool:
    return program.is_nullable(program.derivative(program.root, text))


# -- meaning ----------------------------------------------------------------------------------------
Make = Callable[[Any], int]  # builds the same expression with either builder


def leaves() -> st.SearchStrategy[Make]:
    text = st.text("abÿ", max_size=3)
    return st.one_of(
        text.map(lambda t: lambda b: b.literal(t.encode())),
        st.sampled_from(["a", "b", "ab", "aÿ", "€", ""]).map(lambda s: lambda b: b.char_class(chars(s))),
        st.sampled_from([lambda b: b.char_class(ANY), lambda b: b.char_class(~chars("a"))]),
        st.sampled_from([b"a", b"ab", b"b"]).map(lambda s: lambda b: b.byte_class(s)),
        st.lists(text, min_size=1, max_size=4).map(lambda o: lambda b: b.choice([t.encode() for t in o])),
        st.lists(st.text("abÿ", max_size=5), min_size=1, max_size=2).map(
            lambda o: lambda b: b.substring_of([t.encode() for t in o])
        ),
        st.sampled_from([lambda b: b.EPSILON, lambda b: b.EMPTY]),
    )


def grow(inner: st.SearchStrategy[Make]) -> st.SearchStrategy[Make]:
    some = st.lists(inner, min_size=1, max_size=3)

    def repeat(p: tuple[Make, int, int]) -> Make:
        e, low, more = p
        return lambda b: b.repeat(e(b), low, -1 if more < 0 else low + more)

    return st.one_of(
        some.map(lambda p: lambda b: b.concat([e(b) for e in p])),
        some.map(lambda p: lambda b: b.union([e(b) for e in p])),
        some.map(lambda p: lambda b: b.intersection([e(b) for e in p])),
        inner.map(lambda e: lambda b: b.complement(e(b))),
        st.tuples(inner, st.integers(0, 3), st.integers(-1, 4)).map(repeat),
    )


def expressions() -> st.SearchStrategy[Make]:
    return st.recursive(leaves(), grow, max_leaves=6)


def scoped() -> st.SearchStrategy[Make]:
    """Scopes with look-arounds: before, between and after other parts."""

    def sequence(p: tuple[list[Make], bool]) -> Make:
        parts, starred = p

        def make(b: Any) -> int:
            e = b.concat([part(b) for part in parts])
            return b.scope(b.concat([b.repeat(b.char_class(chars("ab")), 0), e]) if starred else e)

        return make

    plain_part = st.recursive(leaves(), grow, max_leaves=2)
    look = st.tuples(plain_part, st.booleans(), st.booleans()).map(
        lambda p: lambda b: (b.look_ahead if p[2] else b.look_behind)(p[0](b), p[1])
    )
    part = st.one_of(plain_part, look, look)
    branch = st.tuples(part, part).map(lambda p: lambda b: b.union([p[0](b), p[1](b)]))
    return st.tuples(st.lists(st.one_of(part, branch), min_size=1, max_size=4), st.booleans()).map(sequence)


SHORT = ["".join(p).encode() for n in range(5) for p in itertools.product("abÿ", repeat=n)]
BROKEN = [b"\xc3", b"a\xc3", b"\xbf", b"\xff", b"a\xff", b"\xc3a"]


def agree(make: Make) -> None:
    builder, oracle = _core.Builder(), OracleBuilder()
    e = make(builder)
    slow = oracle.finish(make(oracle))
    fast = builder.finish(e)
    for text in [*SHORT, *BROKEN]:
        assert read(fast, text) == slow.matches(text), (text, fast.dump(fast.root))


@settings(PROPERTY, max_examples=400)
@given(expressions())
def test_expressions_mean_what_the_oracle_says(make: Make) -> None:
    agree(make)


@settings(PROPERTY, max_examples=200)
@given(scoped())
def test_look_arounds_mean_what_the_oracle_says(make: Make) -> None:
    agree(make)


@settings(PROPERTY, max_examples=200)
@given(expressions())
def test_live_first_shortest_and_forced_agree_with_derivatives(make: Make) -> None:
    builder = _core.Builder()
    e = make(builder)
    empty = builder.is_empty(e)
    superset = set(builder.first_bytes(e))
    program = builder.finish(e)
    start = program.root
    assert program.is_live(start) == (not empty)
    first = {b for b in range(256) if program.derivative(start, bytes([b]))}
    assert set(program.first_bytes(start)) == first
    assert first <= superset
    shortest = program.shortest(start, 40)
    assert (shortest is None) == empty
    if shortest is not None:
        assert read(program, shortest)
        assert not any(read(program, t) for t in SHORT if len(t) < len(shortest))
    forced = program.forced_bytes(start, 40)
    state = start
    for byte in forced:
        assert not program.is_nullable(state)
        assert program.first_bytes(state) == bytes([byte])
        state = program.derivative(state, bytes([byte]))
    if not empty and not program.is_nullable(state) and len(forced) < 40:
        assert len(program.first_bytes(state)) > 1


RAW_TOKENS = [
    *(bytes([b]) for b in b"abc\x80\xbf\xc3\xd3\xff"),
    b"ab",
    b"a\xc3",
    b"\xbfa",
    b"\xc3\xbf",
    b"\xc3\xbf\xc3",
    b"cc",
]


class Made(gr.Constraint):
    """A constraint that a function lowers."""

    __slots__ = ("make",)

    def __init__(self, make: Make) -> None:
        self.make = make

    def _lower(self, b: _core.Builder) -> int:
        return self.make(b)


def raw_expressions() -> st.SearchStrategy[Make]:
    """Bytes that are not characters, and counts longer than any token, next to texts."""
    raw = st.sampled_from([b"\xd3", b"c\xd3", b"\xc3", b"\x80\xbf", b"\xff", b"a\xff", b"abc"])
    some = st.one_of(leaves(), raw.map(lambda s: lambda b: b.byte_class(s)), raw.map(lambda s: lambda b: b.literal(s)))
    loops = st.tuples(some, st.integers(0, 2), st.sampled_from([-1, 3, 35, 80])).map(
        lambda p: lambda b: b.repeat(p[0](b), p[1], p[2])
    )
    any_text: Make = lambda b: b.repeat(b.char_class(ANY), 0)  # noqa: E731
    beside = st.lists(st.one_of(loops, st.just(any_text)), min_size=2, max_size=3).map(
        lambda p: lambda b: b.intersection([e(b) for e in p])
    )
    return st.recursive(st.one_of(some, loops, beside), grow, max_leaves=5)


@settings(PROPERTY, max_examples=250)
@given(raw_expressions(), st.integers(0, 1000))
@example(lambda b: b.intersection([b.repeat(b.char_class(ANY), 0), b.repeat(b.byte_class(b"c\xd3"), 0, 34)]), 0)
@example(lambda b: b.complement(b.repeat(b.byte_class(b"a"), 0, 35)), 0)
def test_masks_allow_what_is_accepted(make: Make, seed: int) -> None:
    vocabulary, rng = plain(RAW_TOKENS), random.Random(seed)
    try:
        matcher = gr.compile(Made(make), vocabulary, cache=False).matcher()
    except CompileError:
        return  # nothing matches
    for _ in range(6):
        mask = mask_of(matcher)
        accepted = [matcher.fork().accept_token(token) for token in range(vocabulary.size)]
        assert mask[: vocabulary.size].tolist() == accepted, matcher.guide.core.program.dump(matcher.state)
        allowed = np.flatnonzero(mask)
        if not len(allowed):
            return
        matcher.accept_token(int(rng.choice(allowed)))
        if matcher.is_terminated():
            return


# -- normal forms -----------------------------------------------------------------------------------
def A(b: Any) -> int:
    return b.char_class(chars("a"))


def B(b: Any) -> int:
    return b.char_class(chars("b"))


def U(b: Any, *parts: int) -> int:
    return b.union(list(parts))


FORMS: list[tuple[Make, str]] = [
    (lambda b: b.concat([b.repeat(A(b), 2, 3), b.repeat(A(b), 1, 4)]), "[a]{3,7}"),
    (lambda b: b.concat([A(b), b.repeat(A(b), 0)]), "[a]+"),
    (lambda b: b.concat([b.repeat(A(b), 0), b.repeat(A(b), 2)]), "[a]{2,}"),
    (lambda b: U(b, A(b), B(b)), "[ab]"),
    (lambda b: U(b, b.EPSILON, A(b)), "[a]?"),
    (lambda b: U(b, b.EPSILON, b.repeat(A(b), 0)), "[a]*"),
    (lambda b: U(b, A(b), b.repeat(A(b), 2, 5)), "[a]{1,5}"),
    (lambda b: U(b, b.repeat(A(b), 1, 3), b.repeat(A(b), 2, 9)), "[a]{1,9}"),
    (lambda b: U(b, b.repeat(A(b), 1, 2), b.repeat(A(b), 4, 5)), None),
    (lambda b: U(b, A(b), A(b)), "[a]"),
    (lambda b: U(b, b.EMPTY, A(b)), "[a]"),
    (lambda b: U(b), "nothing"),
    (lambda b: b.concat([]), '""'),
    (lambda b: b.concat([A(b), b.EMPTY]), "nothing"),
    (lambda b: b.concat([b.EPSILON, A(b), b.EPSILON]), "[a]"),
    (lambda b: b.repeat(A(b), 0, 0), '""'),
    (lambda b: b.repeat(A(b), 1, 1), "[a]"),
    (lambda b: b.repeat(b.EMPTY, 0), '""'),
    (lambda b: b.repeat(b.EMPTY, 1), "nothing"),
    (lambda b: b.repeat(b.EPSILON, 3, 5), '""'),
    (lambda b: b.repeat(b.repeat(A(b), 0), 0), "[a]*"),
    (lambda b: b.repeat(b.repeat(A(b), 0, 100), 0, 100), "[a]{0,10000}"),
    (lambda b: b.repeat(b.repeat(A(b), 2, 2), 3, 3), "[a]{6}"),
    (lambda b: b.repeat(b.repeat(A(b), 2, 2), 0), "[a]{2}*"),
    (lambda b: b.intersection([b.repeat(A(b), 1, 5), b.repeat(A(b), 3, 9)]), "[a]{3,5}"),
    (lambda b: b.intersection([b.char_class(chars("abc")), b.char_class(chars("bcd"))]), "[bc]"),
    (lambda b: b.intersection([A(b), B(b)]), "nothing"),
    (lambda b: b.intersection([A(b), b.repeat(b.char_class(ANY), 0)]), "[a]"),
    (lambda b: b.intersection([A(b), b.complement(A(b))]), "nothing"),
    (lambda b: b.complement(b.EMPTY), "any*"),
    (lambda b: b.literal(b"abc"), '"abc"'),
    (lambda b: b.literal(b""), '""'),
    (lambda b: b.concat([b.literal(b"ab"), b.repeat(B(b), 0, 1)]), '"ab" [b]?'),
    (lambda b: b.choice([b"b", b"a", b"a"]), "[ab]"),
    (lambda b: b.choice([b"xa", b"ya"]), "switch{x-y: [a]}"),
    (lambda b: b.choice([b"", b"ab"]), 'switch{"" a: [b]}'),
    (lambda b: U(b, b.literal(b"one"), b.literal(b"two")), 'switch{o: "ne", t: "wo"}'),
    (lambda b: b.byte_class(b"ba"), "[ab]"),
    (lambda b: b.byte_class(b"\xff\x80"), "bytes[\\x80\\xFF]"),
    (lambda b: b.scope(A(b)), "[a]"),
    (lambda b: b.scope(b.concat([b.look_ahead(B(b), True), A(b)])), "scope((?![b]) [a])"),
    (lambda b: b.token(["<x>", 7]), "token(<x>, 7)"),
    (lambda b: b.rule("list"), "<list>"),
    (lambda b: b.char_class(ANY), "any"),
    (lambda b: b.char_class(_core.CharSet([(0xE9, 0xE9), (0x20AC, 0x20AC), (0x1F600, 0x1F601)])), None),
]


@pytest.mark.parametrize(
    ("make", "shown"), [f for f in FORMS if f[1] is not None], ids=lambda v: v if isinstance(v, str) else ""
)
def test_normal_forms(make: Make, shown: str) -> None:
    builder = _core.Builder()
    assert builder.dump(make(builder)) == shown


def test_equal_expressions_are_one_node() -> None:
    b = _core.Builder()
    x, y, z = (b.literal(t) for t in (b"xx", b"yyy", b"z"))
    star = b.repeat(x, 0)
    assert U(b, star, y, z) == U(b, z, star, y, z) == U(b, U(b, z, y), star)
    assert b.concat([star, b.concat([y, star])]) == b.concat([b.concat([star, y]), star])
    assert b.intersection([star, b.complement(y)]) == b.intersection([b.complement(y), star, star])
    assert b.complement(b.complement(star)) != b.EMPTY
    p = b.finish(star)
    assert p.derivative(p.root, b"xxxx") == p.root


def test_counters_are_never_unrolled() -> None:
    b = _core.Builder()
    before = len(b.dump(b.EPSILON))
    e = b.repeat(b.concat([A(b), b.repeat(B(b), 0, 50_000)]), 3, 100_000)
    program = b.finish(e)
    assert program.node_count() < 20
    assert read(program, b"ab" * 5000)
    assert before == 2


@pytest.mark.parametrize("data", [b"\xc3\xbf", b"\xff", b"\xbf", b"a\x98\x80b", "é€😀".encode(), b'\x00\x1f"\\\x7f'])
def test_every_state_can_be_shown(data: bytes) -> None:
    """The rest of a literal need not be UTF-8."""
    b = _core.Builder()
    program = b.finish(b.repeat(b.literal(b"a" + data + b"z"), 0, 9))
    state = program.root
    for byte in b"a" + data:
        state = program.derivative(state, bytes([byte]))
        assert isinstance(program.dump(state), str)


# -- sets of characters -----------------------------------------------------------------------------
@settings(PROPERTY, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 3000))), st.lists(st.integers(0, 0x10FFFF)))
def test_character_sets_are_sets(ranges: list[tuple[int, int]], points: list[int]) -> None:
    def members(bounds: list[tuple[int, int]]) -> set[int]:
        return {c for low, high in bounds for c in range(low, high + 1) if not 0xD800 <= c <= 0xDFFF}

    bounds = [(low, min(low + more, 0x10FFFF)) for low, more in ranges]
    one, two = _core.CharSet(bounds), _core.CharSet([(p, p) for p in points])
    a, b = members(bounds), members([(p, p) for p in points])
    for made, expected in ((one | two, a | b), (one & two, a & b), (one - two, a - b), (two - one, b - a)):
        assert members(made.ranges()) == expected
        assert len(made) == len(expected)
    assert ~~one == one
    assert hash(one) == hash(_core.CharSet(one.ranges()))
    assert len(~one) == 0x110000 - 2048 - len(a)
    assert all((p in one) == (p in a) for p in points)


@pytest.mark.parametrize("bounds", [[(5, 4)], [(0, 0x110000)]])
def test_character_sets_refuse_bad_ranges(bounds: list[tuple[int, int]]) -> None:
    with pytest.raises(CompileError) as caught:
        _core.CharSet(bounds)
    assert caught.value.code == "bad-range"


@settings(PROPERTY, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 70_000)), max_size=4), st.data())
def test_utf8_automata_of_sets(ranges: list[tuple[int, int]], data: st.DataObject) -> None:
    bounds = [(low, min(low + more, 0x10FFFF)) for low, more in ranges]
    chars_ = _core.CharSet(bounds)
    b = _core.Builder()
    e = b.char_class(chars_)
    program = b.finish(U(b, e, b.literal(b"!!")))
    edges = [p for low, high in bounds for p in (low - 1, low, high, high + 1)]
    for point in [*edges, *data.draw(st.lists(st.integers(0, 0x10FFFF), max_size=20))]:
        if 0 <= point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
            assert read(program, chr(point).encode()) == (point in chars_)


# -- rules ------------------------------------------------------------------------------------------
def brackets(b: Any) -> int:
    """Balanced brackets: s = ( "(" s ")" | "[" s "]" )*"""
    s = b.rule("s")
    one = b.concat([b.literal(b"("), s, b.literal(b")")])
    two = b.concat([b.literal(b"["), s, b.literal(b"]")])
    b.define(s, b.repeat(b.union([one, two]), 0))
    return s


def arithmetic(b: Any) -> int:
    """e = t ("+" t)*, t = f ("*" f)*, f = "x" | "(" e ")": recursion through three rules, and a nullable one."""
    e, t, f, gap = (b.rule(n) for n in ("e", "t", "f", "gap"))
    b.define(gap, b.repeat(b.literal(b" "), 0, 1))
    b.define(e, b.concat([t, b.repeat(b.concat([gap, b.literal(b"+"), t]), 0)]))
    b.define(t, b.concat([f, b.repeat(b.concat([b.literal(b"*"), f]), 0)]))
    b.define(f, b.union([b.literal(b"x"), b.concat([b.literal(b"("), e, b.literal(b")")])]))
    return e


def palindromes(b: Any) -> int:
    """Ambiguous and not deterministic: p = "" | a p a | b p b | a | b."""
    p = b.rule("p")
    a, bb = b.literal(b"a"), b.literal(b"b")
    b.define(p, b.union([b.EPSILON, a, bb, b.concat([a, p, a]), b.concat([bb, p, bb])]))
    return p


GRAMMARS = {"brackets": (brackets, "()[]"), "arithmetic": (arithmetic, "x+*() "), "palindromes": (palindromes, "ab")}


@pytest.mark.parametrize("name", GRAMMARS)
def test_rules_mean_what_the_oracle_says(name: str) -> None:
    make, alphabet = GRAMMARS[name]
    builder, oracle = _core.Builder(), OracleBuilder()
    fast, slow = builder.finish(make(builder)), oracle.finish(make(oracle))
    longest = 8 if len(alphabet) == 2 else 4
    for n in range(longest + 1):
        for p in itertools.product(alphabet, repeat=n):
            text = "".join(p).encode()
            assert read(fast, text) == slow.matches(text), text


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_of_rules_by_brute_force(name: str) -> None:
    """Every token against every derivative, in all reachable states."""
    make, alphabet = GRAMMARS[name]
    tokens = ["".join(p).encode() for n in (1, 2, 3) for p in itertools.product(alphabet, repeat=n)]
    vocabulary = plain(tokens)
    builder = _core.Builder()
    program = builder.finish(make(builder))
    guide = _core.Guide(program, vocabulary.core, {})
    row = np.zeros((1, (vocabulary.size + 31) // 32), dtype=np.int32)
    seen, work = {program.root}, [program.root]
    while work and len(seen) < 60:
        state = work.pop(0)
        guide.fill_state(state, row, 0)
        bits = np.unpackbits(row[0].view(np.uint8), bitorder="little")
        for token, text in enumerate(tokens):
            after = program.derivative(state, text)
            assert bool(bits[token]) == bool(after) == bool(guide.accept_state(state, token))
            if after and after not in seen:
                seen.add(after)
                work.append(after)
        assert bool(bits[len(tokens)]) == program.is_nullable(state) == guide.is_accepting_state(state)
    assert len(seen) > 5


def test_recursion_of_any_depth() -> None:
    builder = _core.Builder()
    program = builder.finish(brackets(builder))
    depth = 20_000
    opened = program.derivative(program.root, b"([" * depth)
    assert opened and not program.is_nullable(opened)
    assert program.derivative(opened, b")") == 0
    assert program.is_nullable(program.derivative(opened, b"])" * depth))


def _bad_rules() -> list[tuple[str, Make]]:
    def left(b: Any) -> int:
        r = b.rule("r")
        b.define(r, U(b, b.concat([r, b.literal(b"x")]), b.literal(b"y")))
        return r

    def left_through_nullable(b: Any) -> int:
        r, gap = b.rule("r"), b.rule("gap")
        b.define(gap, b.repeat(b.literal(b" "), 0))
        b.define(r, U(b, b.concat([gap, r]), b.literal(b"y")))
        return r

    def left_through_another(b: Any) -> int:
        r, s = b.rule("r"), b.rule("s")
        b.define(r, b.concat([s, b.literal(b"x")]))
        b.define(s, U(b, r, b.literal(b"y")))
        return r

    def itself(b: Any) -> int:
        r = b.rule("r")
        b.define(r, U(b, r, b.literal(b"y")))
        return r

    def endless(b: Any) -> int:
        r = b.rule("r")
        b.define(r, b.concat([b.literal(b"("), r, b.literal(b")")]))
        return r

    return [
        ("left-recursion", left),
        ("left-recursion", left_through_nullable),
        ("left-recursion", left_through_another),
        ("left-recursion", itself),
        ("undefined-rule", lambda b: b.concat([b.literal(b"x"), b.rule("missing")])),
        ("unproductive-rule", endless),
    ]


@pytest.mark.parametrize(("code", "make"), _bad_rules())
def test_bad_rules(code: str, make: Make) -> None:
    builder = _core.Builder()
    root = make(builder)
    with pytest.raises(CompileError) as caught:
        builder.finish(root)
    assert caught.value.code == code
    assert any(f"'{name}'" in str(caught.value) for name in ("r", "s", "gap", "missing"))


# -- errors -----------------------------------------------------------------------------------------
def _misuse() -> list[tuple[str, Make]]:
    def recursive(b: Any) -> int:
        r = b.rule("r")
        b.define(r, U(b, b.EPSILON, b.concat([b.literal(b"("), r, b.literal(b")")])))
        return r

    return [
        ("bad-handle", lambda b: b.concat([10**6])),
        ("bad-handle", lambda b: b.define(b.literal(b"x"), b.EPSILON)),
        ("bad-handle", lambda b: b.dump(10**6)),
        ("bad-bound", lambda b: b.repeat(b.EPSILON, 3, 2)),
        ("bad-bound", lambda b: b.repeat(b.EPSILON, -1, 2)),
        ("not-regular", lambda b: b.complement(recursive(b))),
        ("not-regular", lambda b: b.intersection([recursive(b), b.literal(b"x")])),
        ("not-regular", lambda b: b.complement(b.token(["<x>"]))),
        ("not-regular", lambda b: b.look_ahead(recursive(b))),
        ("not-regular", lambda b: b.is_empty(recursive(b))),
        ("not-regular", lambda b: b.first_bytes(recursive(b))),
        ("not-regular", lambda b: b.capture(1, recursive(b), b.recall(1))),
        (
            "not-regular",
            lambda b: b.capture(1, b.literal(b"x"), b.concat([b.recall(1), b.complement(b.literal(b"y"))])),
        ),
        ("bad-shape", lambda b: b.finish(b.recall(1))),
        ("bad-shape", lambda b: b.finish(b.capture(1, b.literal(b"x"), b.concat([b.recall(1), b.recall(2)])))),
        ("bad-shape", lambda b: b.complement(b.recall(1))),
        ("look-nesting", lambda b: b.look_behind(b.look_ahead(b.literal(b"x")))),
        ("look-outside-scope", lambda b: b.finish(b.concat([b.look_ahead(b.literal(b"x")), b.literal(b"x")]))),
        ("look-outside-scope", lambda b: b.define(b.rule("r"), b.look_ahead(b.literal(b"x")))),
    ]


@pytest.mark.parametrize(("code", "make"), _misuse())
def test_misuse_is_an_error(code: str, make: Make) -> None:
    with pytest.raises(CompileError) as caught:
        make(_core.Builder())
    assert caught.value.code == code


def test_a_builder_is_done_after_finish() -> None:
    builder = _core.Builder()
    program = builder.finish(builder.literal(b"x"))
    with pytest.raises(CompileError) as caught:
        builder.literal(b"y")
    assert caught.value.code == "builder-finished"
    assert read(program, b"x")
    with pytest.raises(CompileError) as caught:
        program.derivative(10**6, b"x")
    assert caught.value.code == "bad-handle"


def test_max_nodes_counts_the_lists_of_alternatives() -> None:
    builder = _core.Builder(10_000)
    words = [builder.repeat(builder.literal(b"%d" % (1000 + i)), 2, 5) for i in range(1_000)]
    with pytest.raises(LimitError) as caught:
        for i in range(len(words)):
            builder.union(words[: i + 1])
    assert caught.value.code == "nodes"


def test_max_nodes_is_a_limit() -> None:
    builder = _core.Builder(1000)
    with pytest.raises(LimitError) as caught:
        builder.literal(bytes(range(1, 128)) * 20)
    assert caught.value.code == "nodes"
    assert "max_nodes" in str(caught.value)


def test_raw_bytes_are_no_text() -> None:
    """Single bytes may be outside UTF-8; an intersection with text excludes them."""
    b = _core.Builder()
    text = b.repeat(b.char_class(ANY), 0, 5)
    assert b.is_empty(b.intersection([b.byte_class(b"\xff"), text]))
    assert b.is_empty(b.intersection([b.concat([A(b), b.byte_class(b"\xff\x80")]), text]))
    assert not b.is_empty(b.intersection([b.concat([b.byte_class(b"\xc3\xff"), b.byte_class(b"\xbf")]), text]))


# -- special tokens ---------------------------------------------------------------------------------
def test_special_tokens_are_read_as_units() -> None:
    b = _core.Builder()
    program = b.finish(b.concat([b.repeat(b.literal(b"x"), 0), b.token(["<t>", 9]), b.literal(b"y")]))
    assert program.symbols() == ["<t>", 9]
    assert program.first_symbols(program.root) == ["<t>", 9]
    assert program.forced_bytes(program.root, 9) == b""
    after = program.derivative_symbol(program.root, "<t>")
    assert after and program.derivative_symbol(program.root, 9) == after
    assert program.derivative_symbol(program.root, "<u>") == 0
    assert program.derivative_symbol(after, "<t>") == 0
    assert program.forced_bytes(after, 9) == b"y"
    assert program.shortest(program.root, 9) is None, "no bytes spell the token"


def test_guides_of_expressions_with_special_tokens() -> None:
    vocabulary = gr.Vocabulary([b"x", b"<t>"], special_tokens={"<t>": 1}, stop_token_ids=[])
    matcher = gr.compile(gr.literal("x").repeat() + gr.special_token("<t>"), vocabulary).matcher()
    assert list(mask_of(matcher)[:2]) == [True, True]
