"""A direct, slow implementation of every expression of ``guiderail._core.Builder``, with which the tests compare the
fast core.

An expression is a tuple. ``ends(e, i)`` is the set of positions where a match of ``e`` that starts at byte
``i`` may end; every rule below is one line of that definition. Nothing here is clever, on purpose.
"""

from __future__ import annotations

from typing import Any, NoReturn

import guiderail as gr
from guiderail._core import CoreError


def boundaries(text: bytes, low: int, high: int) -> list[int]:
    """Positions in ``low..high`` where a UTF-8 character begins or the text ends."""
    return [i for i in range(low, high + 1) if i in (low, high) or text[i] & 0xC0 != 0x80]


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class OracleBuilder:
    """The methods of ``_core.Builder``; a handle is the index of a tuple."""

    EMPTY = 0
    EPSILON = 1

    def __init__(self, max_nodes: int = 4_000_000, fuel: int = 200_000) -> None:
        self.nodes: list[tuple[Any, ...]] = [("union", ()), ("literal", b"")]
        self.bodies: dict[int, int] = {}

    def _add(self, *node: Any) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def literal(self, data: bytes) -> int:
        return self._add("literal", bytes(data))

    def char_class(self, chars: Any) -> int:
        return self._add("char_class", chars)

    def byte_class(self, values: bytes) -> int:
        return self._add("byte_class", bytes(values))

    def concat(self, parts: Any) -> int:
        return self._add("concat", tuple(parts))

    def union(self, parts: Any) -> int:
        return self._add("union", tuple(parts))

    def intersection(self, parts: Any) -> int:
        return self._add("intersection", tuple(parts))

    def complement(self, e: int) -> int:
        return self._add("complement", e)

    def repeat(self, e: int, min: int, max: int = -1) -> int:
        return self._add("repeat", e, min, max)

    def choice(self, strings: Any) -> int:
        return self._add("choice", tuple(strings))

    def substring_of(self, texts: Any) -> int:
        return self._add("substring_of", tuple(texts))

    def look_ahead(self, e: int, negative: bool = False) -> int:
        return self._add("look_ahead", e, negative)

    def look_behind(self, e: int, negative: bool = False) -> int:
        return self._add("look_behind", e, negative)

    def scope(self, e: int) -> int:
        return self._add("scope", e)

    def token(self, symbols: Any) -> int:
        return self._add("token", tuple(symbols))

    def rule(self, name: str) -> int:
        return self._add("rule", name)

    def define(self, rule: int, body: int) -> None:
        self.bodies[rule] = body

    def is_nullable(self, e: int) -> bool:
        return self.finish(e).matches(b"")

    def is_empty(self, e: int) -> NoReturn:
        raise CoreError("fuel", "the oracle only runs expressions")

    def finish(self, root: int) -> OracleProgram:
        return OracleProgram(self, root)


class OracleProgram:
    def __init__(self, builder: OracleBuilder, root: int) -> None:
        self.builder = builder
        self.root = root

    def matches(self, text: bytes) -> bool:
        if not is_utf8(text):
            return False
        known: dict[Any, frozenset[int]] = {}
        while True:  # to the least fixed point: recursive rules start from "no match" and grow
            run = _Run(self.builder, text, known)
            found = len(text) in run.ends(self.root, 0, 0, len(text))
            if run.rules == known:
                return found
            known = run.rules


def oracle_of(constraint: gr.Constraint) -> OracleProgram:
    """Lowers a constraint for the oracle."""
    builder = OracleBuilder()
    return builder.finish(constraint._lower(builder))  # type: ignore[arg-type]


class _Run:
    """One evaluation on one text, given what the rules matched in the previous one."""

    def __init__(self, builder: OracleBuilder, text: bytes, known: dict[Any, frozenset[int]]) -> None:
        self.builder, self.text, self.known = builder, text, known
        self.memo: dict[Any, frozenset[int]] = {}
        self.rules: dict[Any, frozenset[int]] = {}

    def ends(self, e: int, i: int, low: int, high: int) -> frozenset[int]:
        """Returns where matches of ``e`` from ``i`` may end if look-arounds see ``text[low:high]``."""
        key = (e, i, low, high)
        if key not in self.memo:
            self.memo[key] = frozenset(self._ends(e, i, low, high))
        return self.memo[key]

    def _ends(self, e: int, i: int, low: int, high: int) -> Any:
        text = self.text
        kind, *args = self.builder.nodes[e]
        if kind == "literal":
            return {i + len(args[0])} if text[i:high].startswith(args[0]) else ()
        if kind == "char_class":
            after = [j for j in boundaries(text, i, high) if j > i][:1]
            return (
                after if after and is_utf8(text[i : after[0]]) and ord(text[i : after[0]].decode()) in args[0] else ()
            )
        if kind == "byte_class":
            return {i + 1} if i < high and text[i] in args[0] else ()
        if kind == "concat":
            here = {i}
            for part in args[0]:
                here = {k for j in here for k in self.ends(part, j, low, high)}
            return here
        if kind == "union":
            return {j for part in args[0] for j in self.ends(part, i, low, high)}
        if kind == "intersection":
            return frozenset(range(i, high + 1)).intersection(*(self.ends(part, i, low, high) for part in args[0]))
        if kind == "complement":
            return {j for j in range(i, high + 1) if is_utf8(text[i:j])} - self.ends(args[0], i, low, high)
        if kind == "repeat":
            item, least, most = args
            found: set[int] = set()
            here, count = {i}, 0
            while here and (most < 0 or count <= most):
                if count >= least:
                    found |= here
                after = {k for j in here for k in self.ends(item, j, low, high)}
                if after == here:  # nothing changes any more
                    return found | here
                here, count = after, count + 1
            return found
        if kind == "choice":
            return {i + len(s) for s in args[0] if text[i:high].startswith(s)}
        if kind == "substring_of":
            return {j for j in range(i, high + 1) if is_utf8(text[i:j]) and any(text[i:j] in t for t in args[0])}
        if kind == "look_ahead":
            return {i} if bool(self.ends(args[0], i, low, high)) != args[1] else ()
        if kind == "look_behind":
            return {i} if any(i in self.ends(args[0], j, low, high) for j in range(low, i + 1)) != args[1] else ()
        if kind == "scope":
            return {j for j in range(i, high + 1) if j in self.ends(args[0], i, i, j)}
        if kind == "token":
            return ()  # never spelled out as text
        assert kind == "rule"
        key = (e, i, low, high)
        if key not in self.rules:
            self.rules[key] = self.known.get(key, frozenset())
            if e in self.builder.bodies:
                self.rules[key] = self.ends(self.builder.bodies[e], i, low, high)
        return self.rules[key]
