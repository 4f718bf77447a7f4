"""Small random grammars, mostly ambiguous, in several notations, and a naive recognizer of their texts."""

from __future__ import annotations

import random
from functools import lru_cache

Expression = tuple  # ("text", t), ("rule", name), ("seq", …), ("alt", …), ("repeat", e, least, most or None)
Grammar = dict[str, Expression]

NAMES = ("start", "x", "y", "z")


def random_grammar(seed: int) -> Grammar:
    """One to four rules over one or two letters, each with some text, in which everything may repeat and be empty."""
    rng = random.Random(seed)
    while True:
        names = NAMES[: rng.randint(1, 4)]
        letters = rng.choice(("a", "ab", "ab"))
        grammar = {name: _body(rng, names, letters) for name in names}
        if productive(grammar) == set(names):
            return grammar


def _body(rng: random.Random, names: tuple[str, ...], letters: str) -> Expression:
    alternatives = [_alternative(rng, names, letters) for _ in range(rng.choice((1, 2, 2, 3)))]
    return alternatives[0] if len(alternatives) == 1 else ("alt", *alternatives)


def _alternative(rng: random.Random, names: tuple[str, ...], letters: str) -> Expression:
    return ("seq", *(_item(rng, names, letters, 1) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))))


def _item(rng: random.Random, names: tuple[str, ...], letters: str, nesting: int) -> Expression:
    if nesting and rng.random() < 0.15:
        atom: Expression = (
            "alt",
            *(("seq", *(_item(rng, names, letters, 0) for _ in range(rng.randint(1, 2)))) for _ in range(2)),
        )
    elif rng.random() < 0.5:
        atom = ("text", rng.choice(letters))
    else:
        atom = ("rule", rng.choice(names))
    least, most = rng.choice(
        ((1, 1), (1, 1), (1, 1), (1, 1), (0, None), (1, None), (0, 1), (rng.randint(0, 2), rng.randint(2, 3)))
    )
    return atom if (least, most) == (1, 1) else ("repeat", atom, least, most)


def productive(grammar: Grammar) -> set[str]:
    """The rules that have some text."""
    found: set[str] = set()

    def holds(e: Expression) -> bool:
        if e[0] == "text":
            return True
        if e[0] == "rule":
            return e[1] in found
        if e[0] == "repeat":
            return e[2] == 0 or holds(e[1])
        return (all if e[0] == "seq" else any)(map(holds, e[1:]))

    while True:
        more = {name for name, body in grammar.items() if holds(body)}
        if more == found:
            return found
        found = more


# -- notations ---------------------------------------------------------------------------------------------------------
def lark(grammar: Grammar) -> str:
    """With terminals of one letter, so that the lexer decides nothing."""
    rules = [f"{name}: {_shown(body, str.upper, '~', '')}" for name, body in grammar.items()]
    return "\n".join([*rules, 'A: "a"', 'B: "b"', ""])


def gbnf(grammar: Grammar) -> str:
    rules = [f"{name} ::= {_shown(body, _quoted, '{', '_')}" for name, body in grammar.items()]
    return "\n".join(rules).replace("start", "root") + "\n"


def ebnf(grammar: Grammar) -> str:
    """The notation of W3C, which has no counts."""
    rules = [f"{name} ::= {_shown(_without_counts(body), _quoted, '', '_')}" for name, body in grammar.items()]
    return "\n".join(rules) + "\n"


NOTATIONS = {"lark": lark, "gbnf": gbnf, "ebnf": ebnf}


def _without_counts(e: Expression) -> Expression:
    if e[0] in ("text", "rule"):
        return e
    if e[0] != "repeat":
        return (e[0], *map(_without_counts, e[1:]))
    _, item, least, most = e
    item = _without_counts(item)
    if (least, most) in ((0, None), (1, None), (0, 1)):
        return ("repeat", item, least, most)
    return ("seq", *[item] * least, *[("repeat", item, 0, 1)] * (most - least))


def _quoted(text: str) -> str:
    return f'"{text}"'


def _shown(e: Expression, text: object, counts: str, empty: str) -> str:
    def show(e: Expression, inner: bool = True) -> str:
        if e[0] == "text":
            return text(e[1])  # type: ignore[operator]
        if e[0] == "rule":
            return e[1]
        if e[0] == "repeat":
            _, item, least, most = e
            sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            if sign is None:
                sign = f" ~ {least}..{most}" if counts == "~" else f"{{{least},{most}}}"
            return f"{show(item)}{sign}"
        if e[0] == "seq":
            shown = " ".join(show(part) for part in e[1:]) or ('""' if empty else "")
        else:
            shown = " | ".join(show(part, False) for part in e[1:])
        return f"({shown})" if inner else shown

    return show(e, False)


# -- the recognizer ----------------------------------------------------------------------------------------------------
class Recognizer:
    """Which texts a grammar matches, and which are beginnings of such texts, by fixed points over spans.

    A relation is a list: for each position, the positions (as bits) that a text from there may end at. A text that may
    end beyond the given one has the additional position ``len(text) + 1``: it reads the rest of the text and more.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.read = lru_cache(maxsize=None)(self._read)

    def matches(self, text: str) -> bool:
        return bool(self.read(text) >> len(text) & 1)

    def begins(self, text: str) -> bool:
        """Is some text that begins with this one matched?"""
        return bool(self.read(text) >> len(text) & 3)

    def _read(self, text: str) -> int:
        beyond = len(text) + 1
        found = {name: [0] * (beyond + 1) for name in self.grammar}

        def relation(e: Expression) -> list[int]:
            if e[0] == "text":
                out = [
                    1 << (i + len(e[1]))
                    if text.startswith(e[1], i)
                    else 1 << beyond
                    if e[1].startswith(text[i:])
                    else 0
                    for i in range(beyond)
                ]
                return [*out, 1 << beyond]
            if e[0] == "rule":
                return found[e[1]]
            if e[0] == "alt":
                return list(map(_either, zip(*map(relation, e[1:]), strict=True)))
            if e[0] == "seq":
                out = same
                for part in e[1:]:
                    out = _then(out, relation(part))
                return out
            _, item, least, most = e
            item = relation(item)
            out = same
            for _ in range(least):
                out = _then(out, item)
            optional = [own | 1 << i for i, own in enumerate(item)]
            for _ in range(beyond + 1 if most is None else most - least):
                out = _then(out, optional)
            return out

        same = [1 << i for i in range(beyond + 1)]
        while True:
            more = {name: relation(body) for name, body in self.grammar.items()}
            if more == found:
                return found["start"][0]
            found = more


def _either(parts: tuple[int, ...]) -> int:
    out = 0
    for part in parts:
        out |= part
    return out


def _then(first: list[int], second: list[int]) -> list[int]:
    out = []
    for ends in first:
        reached = 0
        for j, further in enumerate(second):
            if ends >> j & 1:
                reached |= further
        out.append(reached)
    return out
