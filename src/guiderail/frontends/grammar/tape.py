"""Records the calls that build an expression, to play them again: the form of a grammar on disk.

A tape is a list of calls in JSON. A handle of an expression is the number of the call that made it, -1 for nothing and
-2 for the empty text. Byte strings are in Latin-1, sets of characters are lists of ranges. Equal calls are recorded
once, as the core makes one expression of them; only rules and lexers are new with each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guiderail import _core
from guiderail.errors import GuiderailError

__all__ = ["Recorder", "Unplayable", "play"]

_SIGNATURES = {
    # by argument: h handle, H handles, n number or flag, b bytes, B list of bytes, c characters, s text or number(s),
    # l number of a lexer
    "literal": "b", "byte_class": "b", "char_class": "c", "concat": "H", "union": "H", "intersection": "H",
    "complement": "h", "repeat": "hnn", "choice": "B", "substring_of": "B", "substring_of_chunks": "B",
    "look_ahead": "hn", "look_behind": "hn", "scope": "h", "token": "s", "rule": "sn",
    "escaped": "hn", "item": "hnn", "distinct": "h", "twice": "h", "terminal": "ln", "never": "l", "lexed": "lh",
    "define": "hh",
}  # fmt: skip
_FRESH = ("rule", "define", "lexer")
_KEYWORDS = {"holds_items": 1, "min": 1, "max": 2, "negative": 1, "mode": 1, "infinite": 1, "label": 2}


class Unplayable(Exception):
    """A tape is malformed, or contains an unknown call."""


class Recorder:
    """Stands in for a builder, passes everything on to it, and writes it down.

    Attributes:
        builder: the builder.
        complete: whether all calls could be written down.
    """

    def __init__(self, builder: _core.Builder) -> None:
        self.builder = builder
        self.complete = True
        self.EMPTY, self.EPSILON = builder.EMPTY, builder.EPSILON
        self._numbers = {builder.EMPTY: -1, builder.EPSILON: -2}
        self._lexers: dict[int, int] = {}
        self._calls: list[list[Any]] = []

    def tape(self, root: int) -> list[Any]:
        """All calls so far, and the number of an expression."""
        return [self._calls, self._numbers[root]]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.builder, name)
        if name in ("is_nullable", "is_empty", "first_bytes", "dump"):  # they ask and make nothing
            return method
        if name not in _SIGNATURES and name not in ("members", "lexer"):
            self.complete = False
            return method

        def call(*args: Any, **named: Any) -> Any:
            made = method(*args, **named)
            if self.complete:
                self._write(name, args, named, made)
            return made

        setattr(self, name, call)
        return call

    def _write(self, name: str, args: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
        known = self._lexers if name == "lexer" else self._numbers
        if name not in _FRESH and made in known:
            return
        try:
            if name == "members":
                written = self._members(*args, **named)
            elif name == "lexer":
                written = self._lexer(*args, **named)
            else:
                given = list(args)
                for key, value in named.items():
                    if _KEYWORDS.get(key) != len(given):
                        raise Unplayable(f"{name}({key}=…)")
                    given.append(value)
                written = [self._argument(kind, value) for kind, value in zip(_SIGNATURES[name], given, strict=False)]
        except (KeyError, Unplayable):
            self.complete = False
            return
        if made is not None:
            known[made] = len(self._calls)
        self._calls.append([name, *written])

    def _argument(self, kind: str, value: Any) -> Any:
        if kind == "h":
            return self._numbers[value]
        if kind == "H":
            return [self._numbers[one] for one in value]
        if kind == "b":
            return value.decode("latin-1")
        if kind == "B":
            return [one.decode("latin-1") for one in value]
        if kind == "c":
            return value.ranges()
        if kind == "l":
            return self._lexers[value]
        return list(value) if isinstance(value, tuple) else value

    def _members(
        self, names: Any, values: Any, required: Any, others: Any, comma: int, colon: int, **options: Any
    ) -> list[Any]:
        number = self._numbers
        return [
            [name.decode("latin-1") for name in names],
            [number[v] if isinstance(v, int) else [[number[e], bits] for e, bits in v] for v in values],
            list(required),
            [[number[key], number[value], dense, bits] for key, value, dense, bits in others],
            number[comma],
            number[colon],
            options,
        ]

    def _lexer(
        self, terminals: Any, ignore: Any, indentation: Any = None, before: bytes = b"", traps: Any = ()
    ) -> list[Any]:
        rows = [[self._numbers[text], *rest] for text, *rest in terminals]
        return [rows, list(ignore), indentation, before.decode("latin-1"), list(traps)]


def play(tape: Any, b: _core.Builder) -> int:
    """Makes the calls of a tape again; the handle is valid only with ``b``.

    Raises:
        Unplayable: the tape is malformed.
    """
    try:
        calls, root = tape
        made: dict[int, Any] = {-1: b.EMPTY, -2: b.EPSILON}
        get, concat, union = made.__getitem__, b.concat, b.union
        methods: dict[str, tuple[Callable[..., int], str]] = {}
        for i, (name, *args) in enumerate(calls):
            if name == "concat":  # most are one of these two
                made[i] = concat(list(map(get, args[0])))
            elif name == "union":
                made[i] = union(list(map(get, args[0])))
            elif name == "members":
                made[i] = _play_members(made, b, args)
            elif name == "lexer":
                rows, ignore, indentation, before, traps = args
                texts = [(made[text], shortest, names, guard) for text, shortest, names, guard in rows]
                lines = None if indentation is None else tuple(indentation)
                rest = (traps,) if traps else ()
                made[i] = b.lexer(texts, ignore, lines, before.encode("latin-1"), *rest)
            else:
                if name not in methods:
                    methods[name] = getattr(b, name), _SIGNATURES[name]
                method, kinds = methods[name]
                made[i] = method(*[_given(made, k, v) for k, v in zip(kinds, args, strict=False)])
        result: int = made[root]
    except (AttributeError, GuiderailError, KeyError, TypeError, ValueError) as error:
        raise Unplayable(str(error)) from error
    return result


def _given(made: dict[int, Any], kind: str, value: Any) -> Any:
    if kind in "hl":
        return made[value]
    if kind == "H":
        return [made[one] for one in value]
    if kind == "b":
        return value.encode("latin-1")
    if kind == "B":
        return [one.encode("latin-1") for one in value]
    if kind == "c":
        return _core.CharSet([(low, high) for low, high in value])
    return value


def _play_members(made: dict[int, Any], b: _core.Builder, args: list[Any]) -> int:
    names, values, required, others, comma, colon, options = args
    return b.members(
        [name.encode("latin-1") for name in names],
        [made[v] if isinstance(v, int) else [(made[e], bits) for e, bits in v] for v in values],
        required,
        [(made[key], made[value], dense, bits) for key, value, dense, bits in others],
        made[comma],
        made[colon],
        **options,
    )
