"""Identifiers that choose the values of variables, against one grammar for each choice of values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail import _core

PLAIN = ["from", "where", "join", "l", "r"]
MARKS = [",", ".", "(", ")", "=", "*"]
COLUMN, TABLE = range(2)
ABOVE = 2  # maximum variables of a binding
NAMES = ["a", "ab", "abc", "b", "ba", "id", "fro", "fromx", '"a b"', '"a"', "wher", "lr", "x"]

Tables = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Grammar(gr.Constraint):
    """A grammar over a schema, with variables or written out for each choice of their values."""

    tables: tuple[tuple[str, tuple[str, ...]], ...]
    body: Callable[[Maker], int]
    written_out: bool

    def _lower(self, b: _core.Builder) -> int:
        return Maker(b, dict(self.tables), self.written_out).lexed(self.body)


class Maker:
    """Makes expressions over the terminals of a schema."""

    def __init__(self, b: _core.Builder, tables: Tables, written_out: bool) -> None:
        self.b, self.tables, self.written_out = b, tables, written_out
        self.values: list[int] = []  # of the variables in scope
        texts = {name: b.literal(name.encode()) for name in [*PLAIN, *MARKS]}
        word = b.repeat(b.char_class(_core.CharSet([(ord("a"), ord("z"))])), 1, -1)
        self.terminals: list[tuple[int, int, list[int], int | None]] = [(word, 0, [], None)]
        self.terminals.append((b.repeat(b.literal(b" "), 1, -1), 0, [], None))
        self.terminals += [(texts[name], 0, [0], None) for name in PLAIN]
        self.terminals += [(texts[name], 0, [], None) for name in MARKS]
        self.made = {name: 2 + at for at, name in enumerate([*PLAIN, *MARKS])}
        columns = sorted({column for of in tables.values() for column in of})
        found = [(TABLE, name, [at]) for at, name in enumerate(tables)]
        found += [(COLUMN, name, [at for at, of in enumerate(tables.values()) if name in of]) for name in columns]
        placeholders = []
        if not written_out:
            for variable, relation in itertools.product(range(ABOVE), (COLUMN, TABLE)):
                placeholders.append((len(self.terminals), variable, relation))
                self.terminals.append((b.EMPTY, 0, [], None))
        self.placeholders = {(variable, relation): at for at, variable, relation in placeholders}
        self.identifiers = [(len(self.terminals) + at, *one) for at, one in enumerate(found)]
        for _, _, name, _ in self.identifiers:
            self.terminals.append((b.literal(name.encode()), 0, [] if name.startswith('"') else [0], None))
        if written_out:
            self.lexer = b.lexer(self.terminals, [1], None, b"", [0])
        else:
            named = [(relation, values) for _, relation, _, values in self.identifiers]
            self.lexer = b.identifier_lexer(self.terminals, [1], [0], named, placeholders)

    def lexed(self, body: Callable[[Maker], int]) -> int:
        return self.b.lexed(self.lexer, body(self))

    def seq(self, *parts: int | str) -> int:
        made = [self.b.terminal(self.lexer, self.made[part]) if isinstance(part, str) else part for part in parts]
        return self.b.concat(made)

    def alt(self, *parts: int) -> int:
        return self.b.union(list(parts))

    def many(self, *parts: int | str) -> int:
        return self.b.repeat(self.seq(*parts), 0, -1)

    def maybe(self, *parts: int | str) -> int:
        return self.b.repeat(self.seq(*parts), 0, 1)

    def name(self, variable: int, relation: int) -> int:
        """An identifier of a relation to the value of a variable. A longer word is not an identifier."""
        b = self.b
        long = b.concat([b.terminal(self.lexer, 0), b.never(self.lexer)])
        if not self.written_out:
            return b.union([b.terminal(self.lexer, self.placeholders[variable, relation]), long])
        value = self.values[variable]
        found = [at for at, of, _, values in self.identifiers if of == relation and value in values]
        return b.union([*(b.terminal(self.lexer, at) for at in found), long])

    def binding(self, domains: Sequence[Sequence[int]], build: Callable[[], int]) -> int:
        if not self.written_out:
            return self.b.binding(self.lexer, domains, build())
        around, made = self.values, []
        for values in itertools.product(*domains):
            self.values = list(values)
            made.append(build())
        self.values = around
        return self.b.union(made)


def one_table(m: Maker) -> int:
    column = m.name(0, COLUMN)
    return m.seq(column, m.many(",", column), "from", m.name(0, TABLE), m.maybe("where", column, "=", column))


def single(m: Maker) -> int:
    return m.binding([range(len(m.tables))], lambda: one_table(m))


def some(m: Maker) -> int:
    return m.binding([range(0, len(m.tables), 2)], lambda: one_table(m))


def nested(m: Maker) -> int:
    """Nested queries in brackets: names refer to the innermost one."""
    rule = m.b.rule("query")

    def query() -> int:
        value = m.alt(m.name(0, COLUMN), m.seq("(", rule, ")"))
        return m.seq(value, m.many(",", value), "from", m.name(0, TABLE), m.maybe("where", value))

    m.b.define(rule, m.seq("*", m.binding([range(len(m.tables))], query)))
    return m.seq(rule, m.maybe("where", "l"))


def joined(m: Maker) -> int:
    """Two variables, or the form with one."""

    def two() -> int:
        column = m.alt(m.seq("l", ".", m.name(0, COLUMN)), m.seq("r", ".", m.name(1, COLUMN)))
        tables = m.seq("from", m.name(0, TABLE), "l", "join", m.name(1, TABLE), "r")
        return m.seq(m.alt(column, m.seq("*")), m.many(",", column), tables, m.maybe("where", column, "=", column))

    every = range(len(m.tables))
    return m.alt(m.binding([every, every], two), single(m), m.binding([every[::2]], lambda: starred(m)))


def starred(m: Maker) -> int:
    return m.seq("*", "from", m.name(0, TABLE), m.maybe("where", m.name(0, COLUMN)))


BODIES = {of.__name__: of for of in (single, some, nested, joined)}
TOKENS = [bytes([b]) for b in b'abcdefhijlmnorwx "(),.=*'] + [
    b" a", b"ab", b" ab", b"abc", b"a,", b",a", b", a", b",b", b"id", b" id ", b"id,id", b"from", b" from ", b" from a",
    b"from b", b"fro", b"where", b" where", b" where a", b"=a", b" = ab", b"(*", b"(*a", b"*a", b"* ", b" (*ab", b"l.a",
    b"l.", b".a", b".id", b",r.", b" join ", b"join a", b' "a', b'"a b"', b'"a" ', b"b,", b'b"', b"*,l.", b" l",
    b" r w", b"a w", b"b w", b"id w", b"ab w", b"x w", b"ba w", b"a from", b"x", b"ba ", b"a)", b") ", b"id)",
]  # fmt: skip


def schema(rng: random.Random) -> Tables:
    tables = rng.sample(NAMES, rng.randrange(1, 5))
    return {table: tuple(rng.sample(NAMES, rng.randrange(1, 5))) for table in tables}


def written(matcher: gr.Matcher, vocabulary: gr.Vocabulary) -> bytes:
    return b"".join(map(vocabulary.token_bytes, matcher.history()))


def differing(one: gr.Matcher, other: gr.Matcher, vocabulary: gr.Vocabulary) -> list[bytes]:
    masks = zip(mask_of(one).tolist(), mask_of(other).tolist(), strict=True)
    return [vocabulary.token_bytes(token) for token, (of_one, of_other) in enumerate(masks) if of_one != of_other]


@pytest.mark.parametrize("ending", ["", ")"])
@pytest.mark.parametrize("body", BODIES)
def test_masks_are_those_of_the_grammars_written_out(body: str, ending: str) -> None:
    vocabulary = plain(TOKENS)
    for seed in range(12):
        rng = random.Random(f"{body} {seed}")
        tables = tuple(schema(rng).items())
        fast, slow = (
            gr.compile(Grammar(tables, BODIES[body], written_out) + gr.literal(ending), vocabulary, cache=False)
            for written_out in (False, True)
        )
        for _ in range(6):
            one, other = fast.matcher(), slow.matcher()
            for _ in range(20):
                mask = mask_of(one)
                assert mask.tolist() == mask_of(other).tolist(), (
                    tables,
                    written(one, vocabulary),
                    differing(one, other, vocabulary),
                )
                some = [token for token in range(vocabulary.size) if mask[token]]
                if not some:
                    break
                longer = [token for token in some if len(vocabulary.token_bytes(token)) > 1]
                token = rng.choice(longer if longer and rng.random() < 0.7 else some)
                assert one.accept_token(token) and other.accept_token(token)
                if one.is_terminated():
                    break
                assert one.is_accepting() == other.is_accepting()


@pytest.mark.parametrize("body", BODIES)
def test_a_fresh_arena_gives_the_same_masks(body: str) -> None:
    """A guide that has outgrown its memory starts new texts on a copy, which has only the initial values."""
    vocabulary = plain(TOKENS)
    tables = (("a", ("id", "ab")), ("ab", ("id", "x")), ("b", ('"a b"', "abc")))
    grammar = Grammar(tables, BODIES[body], written_out=False)
    small, large = gr.compile(grammar, vocabulary, max_memory=1), gr.compile(grammar, vocabulary, cache=False)
    for seed in range(8):
        rng, one, other = random.Random(seed), small.matcher(), large.matcher()
        for _ in range(20):
            mask = mask_of(one)
            assert mask.tolist() == mask_of(other).tolist(), one.history()
            some = [token for token in range(vocabulary.size) if mask[token]]
            if not some:
                break
            token = rng.choice(some)
            assert one.accept_token(token) and other.accept_token(token)
            if one.is_terminated():
                break


# -- invalid lexers ------------------------------------------------------------------------------------------------
def made(
    identifiers: Any = ((0, [0]), (0, [1])),
    placeholders: Any = ((1, 0, 0),),
    domains: Any = ((0, 1),),
    entry: Any = None,
    ignored: Any = (),
) -> _core.Builder:
    b = _core.Builder(10_000, 10_000)
    last = entry(b) if entry else (b.literal(b"c"), 0, [], None)
    terminals = [(b.literal(b"a"), 0, [], None), (b.EMPTY, 0, [], None), (b.literal(b"b"), 0, [], None), last]
    lexer = b.identifier_lexer(terminals, list(ignored), [], list(identifiers), list(placeholders))
    b.lexed(lexer, b.binding(lexer, list(domains), b.terminal(lexer, 1)))
    return b


def test_what_is_one() -> None:
    assert made()


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("bad-shape", {"identifiers": ()}),
        ("bad-shape", {"identifiers": [(0, [0])] * 4}),
        ("bad-shape", {"placeholders": [(0, 0, 0)]}),
        ("bad-shape", {"placeholders": [(2, 0, 0)]}),
        ("bad-shape", {"domains": ()}),
        ("bad-shape", {"domains": [()]}),
        ("bad-shape", {"domains": [(0, 2)]}),
        ("bad-shape", {"domains": [(0,)] * 65}),
        ("bad-shape", {"placeholders": [(1, 0, 7)]}),
        ("bad-bound", {"placeholders": [(1, 0, 1 << 16)]}),
        ("bad-bound", {"identifiers": [(0, [0]), (0, [1 << 16])]}),
        ("bad-shape", {"entry": lambda b: (b.EMPTY, 0, [], None)}),
        ("bad-shape", {"entry": lambda b: (b.literal(b"c"), 2, [], None)}),
        ("bad-shape", {"entry": lambda b: (b.literal(b"c"), 0, [], 0)}),
        ("bad-shape", {"ignored": [3]}),
    ],
)
def test_what_is_none(code: str, given: dict[str, Any]) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        made(**given)
    assert caught.value.code == code


def test_identifiers_do_not_stand_in_a_grammar() -> None:
    b = _core.Builder(10_000, 10_000)
    terminals = [(b.EMPTY, 0, [], None), (b.literal(b"b"), 0, [], None)]
    lexer = b.identifier_lexer(terminals, [], [], [(0, [0])], [(0, 0, 0)])
    with pytest.raises(gr.GuiderailError, match="placeholders"):
        b.terminal(lexer, 1)
