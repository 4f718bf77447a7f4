"""A direct implementation of the meaning of grammars, and random grammars."""

from __future__ import annotations

import itertools
import random

from guiderail import _core
from guiderail.frontends.grammar.syntax import (
    Characters,
    Choice,
    Embedded,
    Expression,
    Grammar,
    Name,
    Repetition,
    Rule,
    Sequence,
    Text,
)

Spans = frozenset[tuple[int, int]]


def recognises(rules: dict[str, Expression], start: str, text: str) -> bool:
    """Whether ``start`` derives ``text``: pairs of positions for every rule, grown to the least fixed point."""
    table: dict[str, Spans] = {name: frozenset() for name in rules}
    while True:
        grown = {name: _spans(body, text, table) for name, body in rules.items()}
        if grown == table:
            return (0, len(text)) in table[start]
        table = grown


def _spans(e: Expression, text: str, table: dict[str, Spans]) -> Spans:
    everywhere = range(len(text) + 1)
    if isinstance(e, Text):
        return frozenset((i, i + len(e.text)) for i in everywhere if text.startswith(e.text, i))
    if isinstance(e, Characters):
        return frozenset((i, i + 1) for i in range(len(text)) if ord(text[i]) in e.characters)
    if isinstance(e, Name):
        return table[e.name]
    if isinstance(e, Sequence):
        here: Spans = frozenset((i, i) for i in everywhere)
        for part in e.parts:
            here = _then(here, _spans(part, text, table))
        return here
    if isinstance(e, Choice):
        return frozenset().union(*(_spans(part, text, table) for part in e.parts))
    if isinstance(e, Repetition):
        item = _spans(e.item, text, table)
        here = frozenset((i, i) for i in everywhere)
        for _ in range(e.min):
            here = _then(here, item)
        found, count = here, e.min
        while e.max is None or count < e.max:
            here, count = _then(here, item), count + 1
            if here <= found:
                break
            found |= here
        return found
    assert isinstance(e, Embedded)
    return frozenset((i, j) for i in everywhere for j in everywhere if i <= j and e.constraint.matches(text[i:j]))


def _then(a: Spans, b: Spans) -> Spans:
    return frozenset((i, k) for i, j in a for j2, k in b if j == j2)


def texts(alphabet: str, longest: int) -> list[str]:
    return ["".join(p) for n in range(longest + 1) for p in itertools.product(alphabet, repeat=n)]


def random_rules(rng: random.Random, count: int, alphabet: str = "ab", *, left: float = 0.5) -> dict[str, Expression]:
    """Returns rules A, B, … with every operator; ``left``: how often a sequence begins with a name."""
    names = [chr(ord("A") + i) for i in range(count)]

    def leaf(first: bool) -> Expression:
        if rng.random() < (left if first else 0.4):
            return Name(rng.choice(names))
        if rng.random() < 0.1:
            return Text("")
        if rng.random() < 0.15:
            return Characters(_core.CharSet([(ord(c), ord(c)) for c in rng.sample(alphabet, rng.randint(1, 2))]))
        return Text("".join(rng.choice(alphabet) for _ in range(rng.choice([1, 1, 1, 2]))))

    def grow(depth: int, first: bool) -> Expression:
        kind = rng.random()
        if depth == 0 or kind < 0.35:
            return leaf(first)
        if kind < 0.65:
            return Sequence(tuple(grow(depth - 1, first and i == 0) for i in range(rng.randint(1, 3))))
        if kind < 0.85:
            return Choice(tuple(grow(depth - 1, first) for _ in range(rng.randint(1, 3))))
        least, most = rng.choice([(0, 1), (0, None), (1, None), (0, 2), (2, 2), (1, 2), (2, None)])
        return Repetition(grow(depth - 1, first), least, most)

    return {name: Choice(tuple(grow(2, True) for _ in range(rng.randint(1, 3)))) for name in names}


def as_grammar(rules: dict[str, Expression], start: str = "A") -> Grammar:
    return Grammar({name: Rule(name, body) for name, body in rules.items()}, start)


def written(e: Expression) -> str:
    """Returns the rules as GBNF."""
    if isinstance(e, Text):
        return '"' + e.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(e, Characters):
        return "[" + "".join(f"\\U{a:08X}-\\U{b:08X}" for a, b in e.characters.ranges()) + "]"
    if isinstance(e, Name):
        return e.name
    if isinstance(e, Sequence):
        return "(" + " ".join(map(written, e.parts)) + ")"
    if isinstance(e, Choice):
        return "(" + " | ".join(map(written, e.parts)) + ")"
    assert isinstance(e, Repetition)
    return f"{written(e.item)}{{{e.min},{'' if e.max is None else e.max}}}"


def as_gbnf(rules: dict[str, Expression]) -> str:
    return "".join(f"{name} ::= {written(body)}\n" for name, body in rules.items())
