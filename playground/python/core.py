"""Replaces the parts of ``guiderail._core`` that front ends use, in pure Python, where the extension cannot be loaded.

A builder here encodes each call as bytes and passes it to a core elsewhere: in a browser, the ``.wasm`` of the
JavaScript package. The core answers each call with the number of an expression, because front ends query expressions
while they lower: whether an intersection is empty, how a text may begin.

Operations are encoded as in a program file (``docs/program_format.md``), except that the numbers of expressions are
those of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from core_bytes import (
    Answer as _Answer,
    CoreError,
    TokenSet,
    binary as _b,
    listed as _list,
    maybe as _maybe,
    name as _symbol,
    signed as _i,
    text as _s,
    unsigned as _u,
    unsigneds as _us,
)

__all__ = ["CALLS", "OPERATIONS", "Builder", "CharSet", "CoreError", "Link", "Program", "TokenSet", "connect"]

_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_OWED = 4096  # steps counted here before they are reported to the core

CALLS = (
    "limit_work", "restore_work", "spend_work", "spent_work", "free", "builder",
    "add", "is_nullable", "is_empty", "first_bytes", "dump", "finish",
    "root", "derivative", "program_is_nullable", "is_live", "program_first_bytes", "first_symbols", "symbols",
    "forced_bytes", "shortest", "likely", "program_dump", "node_count", "least_bytes", "memory_size_bytes",
    "replay", "recorded",
)  # fmt: skip
"""By number, as in ``bindings/js/native/lowering.cpp``."""

OPERATIONS = (
    "literal", "char_class", "byte_class", "concat", "union", "intersection", "complement", "repeat", "choice",
    "substring_of", "substring_of_chunks", "look_ahead", "look_behind", "scope", "token", "token_set", "counted",
    "rule", "define", "escaped", "members", "vote", "item", "distinct", "tally", "twice", "decimals", "lexer",
    "terminal", "never", "lexed", "identifier_lexer", "binding", "patterned",
    "recall", "capture",
)  # fmt: skip
"""What ``add`` makes, by code from 1 on, as in program files (``core/build/operations.hpp``)."""

_NUMBER = {name: number for number, name in enumerate(CALLS)}
_CODE = {name: bytes([code]) for code, name in enumerate(OPERATIONS, 1)}


class Link(Protocol):
    """A core elsewhere. Both functions raise :class:`CoreError`."""

    def number(self, call: int, handle: int, arguments: bytes) -> int:
        """Makes a call whose answer is a number: an expression, a handle, yes or no."""

    def data(self, call: int, handle: int, arguments: bytes) -> bytes:
        """Makes a call whose answer is bytes."""


_link: Link | None = None
_factory: Callable[[str, str], BaseException] | None = None
_owed = 0


def connect(link: Link) -> None:
    """Directs all later calls to this core."""
    global _link
    _link = link


def set_error_factory(make: Callable[[str, str], BaseException], /) -> None:
    global _factory
    _factory = make


def _error(code: str, message: str) -> BaseException:
    return CoreError(code, message) if _factory is None else _factory(code, message)


def _number(name: str, handle: int = 0, arguments: bytes = b"") -> int:
    assert _link is not None, "connect() first"
    try:
        return _link.number(_NUMBER[name], handle, arguments)
    except CoreError as error:
        raise _error(*error.args) from None


def _data(name: str, handle: int = 0, arguments: bytes = b"") -> bytes:
    assert _link is not None, "connect() first"
    try:
        return _link.data(_NUMBER[name], handle, arguments)
    except CoreError as error:
        raise _error(*error.args) from None


def is_plain_json(value: object, most: int) -> bool:
    count, found = 0, [value]
    while found:
        one = found.pop()
        kind = type(one)
        if isinstance(one, dict) and kind is dict and all(type(key) is str for key in one):
            inside: Iterable[object] = one.values()
        elif isinstance(one, list) and kind is list:
            inside = one
        elif one is None or kind in (str, int, float, bool):
            continue
        else:
            return False
        count += 1 + len(one)
        if count > most:
            return False
        found += inside
    return True


def keys_within(value: object, names: tuple[str, ...]) -> set[str]:
    within: set[str] = set()
    found = [value]
    while found:
        one = found.pop()
        if isinstance(one, dict):
            within.update(name for name in names if name in one)
            found += one.values()
        elif isinstance(one, list):
            found += one
    return within


# -- counted work: see guiderail.support.work --------------------------------------------------------------------
def unshared_parts(value: object, most: int) -> int:
    """Counts the parts of a value until there are more than ``most``. -1: a part occurs twice."""
    seen: set[int] = set()
    stack: list[Any] = [value]
    count = 0
    while stack and count <= most:
        one = stack.pop()
        if not isinstance(one, dict | list | tuple):
            continue
        if id(one) in seen:
            return -1
        seen.add(id(one))
        count += 1 + len(one)
        stack += one.values() if isinstance(one, dict) else one
    return count


def spend_work(steps: int, /) -> None:
    global _owed
    _owed += steps
    if _owed > _OWED:
        _settle()


def _settle() -> None:
    global _owed
    if _owed:
        steps, _owed = _owed, 0
        _number("spend_work", 0, _u(steps))


def spent_work() -> int:
    _settle()
    return _Answer(_data("spent_work")).u()


def limit_work(steps: int, /) -> tuple[int, int, int]:
    _settle()
    answer = _Answer(_data("limit_work", 0, _u(steps)))
    return answer.u(), answer.u(), 0


def restore_work(before: tuple[int, int, int], /) -> None:
    global _owed
    _owed = 0  # counted within the limit that ends here
    _number("restore_work", 0, _u(before[0]) + _u(before[1]))


# -- sets of characters ------------------------------------------------------------------------------------------
def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            if high > out[-1][1]:
                out[-1] = (out[-1][0], high)
        else:
            out.append((low, high))
    return tuple(out)


def _scalar(ranges: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    for low, high in ranges:
        if high < _SURROGATES[0] or low > _SURROGATES[1]:
            yield low, high
        else:
            if low < _SURROGATES[0]:
                yield low, _SURROGATES[0] - 1
            if high > _SURROGATES[1]:
                yield _SURROGATES[1] + 1, high


def _outside(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    out = []
    at = 0
    for low, high in ranges:
        if low > at:
            out.append((at, low - 1))
        at = high + 1
    if at <= _LAST:
        out.append((at, _LAST))
    return _merged(_scalar(out))


class CharSet:
    """An immutable set of Unicode scalar values (surrogates are removed)."""

    __slots__ = ("_hash", "_ranges", "_written")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        listed = [(low, high) for low, high in ranges]
        for low, high in listed:
            if not 0 <= low <= high <= _LAST:
                raise _error("bad-range", "a range of code points needs 0 <= low <= high <= 0x10FFFF")
        self._ranges = _merged(_scalar(listed))
        self._hash = hash(self._ranges)
        self._written: bytes | None = None

    @classmethod
    def _of(cls, ranges: tuple[tuple[int, int], ...]) -> CharSet:
        made = cls.__new__(cls)
        made._ranges = ranges
        made._hash = hash(ranges)
        made._written = None
        return made

    def ranges(self) -> list[tuple[int, int]]:
        return list(self._ranges)

    def _bytes(self) -> bytes:
        if self._written is None:
            flat = [len(self._ranges)]
            last = 0
            for low, high in self._ranges:  # in ascending order, so differences are small
                flat += low - last, high - low
                last = high
            self._written = b"".join(map(_u, flat))
        return self._written

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet._of(_merged(self._ranges + other._ranges))

    def __and__(self, other: CharSet) -> CharSet:
        return CharSet._of(_outside(_merged(_outside(self._ranges) + _outside(other._ranges))))

    def __sub__(self, other: CharSet) -> CharSet:
        return CharSet._of(_outside(_merged(_outside(self._ranges) + other._ranges)))

    def __invert__(self) -> CharSet:
        return CharSet._of(_outside(self._ranges))

    def __contains__(self, code_point: int) -> bool:
        return any(low <= code_point <= high for low, high in self._ranges)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self._ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharSet) and self._ranges == other._ranges

    def __hash__(self) -> int:
        return self._hash


# -- expressions -------------------------------------------------------------------------------------------------
def _value(value: int | Sequence[tuple[int, int]]) -> bytes:
    if isinstance(value, int):
        return b"\1" + _u(value) + b"\0"
    return _list(value, lambda pair: _u(pair[0]) + _u(pair[1]))


def _other(other: tuple[int, int, bool, int]) -> bytes:
    key, value, dense, discharges = other
    return _u(key) + _u(value) + _u(dense) + _u(discharges)


def _part(part: tuple[int, Sequence[int]]) -> bytes:
    return _u(part[0]) + _us(part[1])


class Builder:
    """Like the core's builder. Equal calls make one expression there, so each is made once."""

    EMPTY = 0
    EPSILON = 1

    def __init__(
        self, max_nodes: int = 4_000_000, fuel: int = 200_000, step_work: int = 0, *, records: bool = False
    ) -> None:
        self._known: dict[bytes, int] = {}
        self._handle = 0
        self._handle = _number("builder", 0, _u(max_nodes) + _u(fuel) + _u(step_work) + _u(records))

    def __del__(self) -> None:
        if self._handle and _link is not None:
            _number("free", self._handle)

    def _make(self, name: str, arguments: bytes) -> int:
        operation = _CODE[name] + arguments
        made = self._known.get(operation)
        if made is None:
            made = self._known[operation] = _number("add", self._handle, operation)
        return made

    def _make_anew(self, name: str, arguments: bytes) -> int:
        return _number("add", self._handle, _CODE[name] + arguments)

    def literal(self, data: bytes, /) -> int:
        return self._make("literal", _b(data))

    def char_class(self, chars: CharSet, /) -> int:
        return self._make("char_class", chars._bytes())

    def byte_class(self, values: bytes, /) -> int:
        numbers = 0
        for value in values:
            numbers |= 1 << value
        return self._make("byte_class", numbers.to_bytes(32, "little"))

    def concat(self, parts: Sequence[int], /) -> int:
        return self._make("concat", _us(parts))

    def union(self, parts: Sequence[int], /) -> int:
        return self._make("union", _us(parts))

    def intersection(self, parts: Sequence[int], /) -> int:
        return self._make("intersection", _us(parts))

    def complement(self, e: int, /) -> int:
        return self._make("complement", _u(e))

    def repeat(self, e: int, min: int, max: int = -1, /) -> int:
        return self._make("repeat", _u(e) + _i(min) + _i(max))

    def choice(self, strings: Sequence[bytes], /) -> int:
        return self._make("choice", _list(strings, _b))

    def substring_of(self, texts: Sequence[bytes], /) -> int:
        return self._make("substring_of", _list(texts, _b))

    def substring_of_chunks(self, chunks: Sequence[bytes], /) -> int:
        return self._make("substring_of_chunks", _list(chunks, _b))

    def look_ahead(self, e: int, negative: bool = False, /) -> int:
        return self._make("look_ahead", _u(e) + _u(negative))

    def look_behind(self, e: int, negative: bool = False, /) -> int:
        return self._make("look_behind", _u(e) + _u(negative))

    def scope(self, e: int, /) -> int:
        return self._make("scope", _u(e))

    def token(self, symbols: Sequence[str | int], /) -> int:
        return self._make("token", _list(symbols, _symbol))

    def token_set(self, tokens: Sequence[str | int], /, but: bool = False) -> int:
        return self._make("token_set", _list(tokens, _symbol) + _u(but))

    def counted(self, e: int, most: int, /) -> int:
        return self._make("counted", _u(e) + _u(most))

    def rule(self, name: str, /, holds_items: bool = False) -> int:
        return self._make_anew("rule", _s(name) + _u(holds_items))

    def escaped(self, e: int, /, mode: int = 0) -> int:
        return self._make("escaped", _u(e) + _u(mode))

    def members(
        self,
        names: Sequence[bytes],
        values: Sequence[int | Sequence[tuple[int, int]]],
        required: Sequence[bool],
        others: Sequence[tuple[int, int, bool, int]],
        comma: int,
        colon: int,
        *,
        ordered: bool = False,
        min: int = 0,
        max: int = -1,
        escapes: int = 0,
        pending: int = 0,
    ) -> int:
        table = _table(names, values, required, others, comma, colon, ordered, escapes)
        return self._make("members", table + _i(min) + _i(max) + _u(pending))

    def vote(
        self,
        names: Sequence[bytes],
        values: Sequence[Sequence[tuple[int, int]]],
        required: Sequence[bool],
        others: Sequence[tuple[int, int, bool, int]],
        comma: int,
        colon: int,
        *,
        ordered: bool,
        escapes: int,
        cells: Sequence[tuple[Sequence[int], int, int]],
        parts: Sequence[tuple[int, Sequence[int]]],
        effects: Sequence[Sequence[int]],
        settled: Sequence[tuple[Sequence[int], int]],
        wholes: Sequence[Sequence[tuple[Sequence[int], int]]],
    ) -> int:
        return self._make(
            "vote",
            _table(names, values, required, others, comma, colon, ordered, escapes)
            + _list(cells, lambda cell: _us(cell[0]) + _u(cell[1]) + _i(cell[2]))
            + _list(parts, _part)
            + _list(effects, _us)
            + _list(settled, lambda one: _us(one[0]) + _u(one[1]))
            + _list(wholes, lambda of: _list(of, lambda one: _us(one[0]) + _u(one[1]))),
        )

    def item(self, e: int, /, left: int = 0, label: int = 0) -> int:
        return self._make("item", _u(e) + _u(left) + _u(label))

    def distinct(self, body: int, /) -> int:
        return self._make("distinct", _u(body))

    def tally(
        self,
        places: Sequence[Sequence[tuple[int, Sequence[int], Sequence[int]]]],
        comma: int,
        *,
        cells: Sequence[tuple[int, int]],
        parts: Sequence[tuple[int, Sequence[int]]],
        counters: Sequence[tuple[int, int, int]],
    ) -> int:
        return self._make(
            "tally",
            _list(places, lambda place: _list(place, lambda item: _u(item[0]) + _us(item[1]) + _us(item[2])))
            + _u(comma)
            + _list(cells, lambda cell: _u(cell[0]) + _i(cell[1]))
            + _list(parts, _part)
            + _list(counters, lambda one: _u(one[0]) + _u(one[1]) + _i(one[2])),
        )

    def twice(self, body: int, /) -> int:
        return self._make("twice", _u(body))

    def patterned(
        self, text: int, patterns: Sequence[int], next: Sequence[Sequence[int]], values: Sequence[int], /
    ) -> int:
        return self._make("patterned", _u(text) + _us(patterns) + _list(next, _us) + _us(values))

    def recall(self, label: int, /) -> int:
        return self._make("recall", _u(label))

    def capture(self, label: int, group: int, rest: int, /) -> int:
        return self._make("capture", _u(label) + _u(group) + _u(rest))

    def decimals(
        self,
        cuts: Sequence[tuple[str, str, int, int, str]],
        labels: Sequence[tuple[bool, Sequence[tuple[str, Sequence[str]]]]],
        moduli: Sequence[str],
        scale: int,
        room: int = -1,
    ) -> int:
        return self._make(
            "decimals",
            _list(cuts, lambda cut: _s(cut[0]) + _s(cut[1]) + _u(cut[2]) + _u(cut[3]) + _s(cut[4]))
            + _list(labels, lambda one: _u(one[0]) + _list(one[1], lambda part: _s(part[0]) + _list(part[1], _s)))
            + _list(moduli, _s)
            + _u(scale)
            + _i(room),
        )

    def lexer(
        self,
        terminals: Sequence[tuple[int, int, Sequence[int], int | None]],
        ignore: Sequence[int],
        indentation: tuple[int, int, int, Sequence[int], Sequence[int], int, bool, bool] | None = None,
        before: bytes = b"",
        traps: Sequence[int] = (),
    ) -> int:
        return self._make_anew("lexer", _lexer(terminals, ignore, indentation, before, traps))

    def identifier_lexer(
        self,
        terminals: Sequence[tuple[int, int, Sequence[int], int | None]],
        ignore: Sequence[int],
        traps: Sequence[int],
        identifiers: Sequence[tuple[int, Sequence[int]]],
        placeholders: Sequence[tuple[int, int, int]],
    ) -> int:
        return self._make_anew(
            "identifier_lexer",
            _lexer(terminals, ignore, None, b"", traps)
            + _list(identifiers, lambda one: _u(one[0]) + _us(one[1]))
            + _list(placeholders, lambda one: _u(one[0]) + _u(one[1]) + _u(one[2])),
        )

    def binding(self, lexer: int, domains: Sequence[Sequence[int]], body: int, /) -> int:
        return self._make("binding", _u(lexer) + _list(domains, _us) + _u(body))

    def terminal(self, lexer: int, index: int, /) -> int:
        return self._make("terminal", _u(lexer) + _u(index))

    def never(self, lexer: int, /) -> int:
        return self._make("never", _u(lexer))

    def lexed(self, lexer: int, body: int, /) -> int:
        return self._make("lexed", _u(lexer) + _u(body))

    def define(self, rule: int, body: int, /) -> None:
        self._make_anew("define", _u(rule) + _u(body))

    def is_nullable(self, e: int, /) -> bool:
        return bool(_number("is_nullable", self._handle, _u(e)))

    def is_empty(self, e: int, /) -> bool:
        return bool(_number("is_empty", self._handle, _u(e)))

    def first_bytes(self, e: int, /) -> bytes:
        return _data("first_bytes", self._handle, _u(e))

    def dump(self, e: int, /) -> str:
        return _data("dump", self._handle, _u(e)).decode()

    def replay(self, file: bytes, /) -> int:
        _settle()
        return _number("replay", self._handle, file)

    def recorded(self, root: int, /) -> bytes:
        return _data("recorded", self._handle, _u(root))

    def finish(self, root: int, /) -> Program:
        _settle()
        return Program(_number("finish", self._handle, _u(root)))


def _table(
    names: Sequence[bytes],
    values: Sequence[Any],
    required: Sequence[bool],
    others: Sequence[tuple[int, int, bool, int]],
    comma: int,
    colon: int,
    ordered: bool,
    escapes: int,
) -> bytes:
    return (
        _list(names, _b)
        + _list(values, _value)
        + _us(map(int, required))
        + _list(others, _other)
        + _u(comma)
        + _u(colon)
        + _u(ordered)
        + _u(escapes)
    )


def _lexer(
    terminals: Sequence[tuple[int, int, Sequence[int], int | None]],
    ignore: Sequence[int],
    indentation: tuple[int, int, int, Sequence[int], Sequence[int], int, bool, bool] | None,
    before: bytes,
    traps: Sequence[int],
) -> bytes:
    return (
        _list(terminals, lambda one: _u(one[0]) + _u(one[1]) + _us(one[2]) + _maybe(one[3], _u))
        + _us(ignore)
        + _maybe(indentation, _indentation)
        + _b(before)
        + _us(traps)
    )


def _indentation(lines: tuple[int, int, int, Sequence[int], Sequence[int], int, bool, bool]) -> bytes:
    newline, indent, dedent, opening, closing, tab, strict, final = lines
    numbers = _u(newline) + _u(indent) + _u(dedent)
    return numbers + _us(opening) + _us(closing) + _u(tab) + _u(strict) + _u(final)


class Program:
    """A frozen expression with its lazily found derivatives."""

    _made = 0

    def __init__(self, handle: int) -> None:
        Program._made += 1
        self.handle = handle
        self.root = _number("root", handle)
        self.serial = Program._made

    def __del__(self) -> None:
        if _link is not None:
            _number("free", self.handle)

    def derivative(self, state: int, data: bytes, /) -> int:
        return _number("derivative", self.handle, _u(state) + data)

    def is_nullable(self, state: int, /) -> bool:
        return bool(_number("program_is_nullable", self.handle, _u(state)))

    def is_live(self, state: int, /) -> bool:
        return bool(_number("is_live", self.handle, _u(state)))

    def first_bytes(self, state: int, /) -> bytes:
        return _data("program_first_bytes", self.handle, _u(state))

    def first_symbols(self, state: int, /) -> list[str | int | TokenSet]:
        return _Answer(_data("first_symbols", self.handle, _u(state))).symbols()

    def symbols(self) -> list[str | int | TokenSet]:
        return _Answer(_data("symbols", self.handle)).symbols()

    def forced_bytes(self, state: int, limit: int, /) -> bytes:
        return _data("forced_bytes", self.handle, _u(state) + _u(limit))

    def shortest(self, state: int, limit: int, /) -> bytes | None:
        found = _data("shortest", self.handle, _u(state) + _u(limit))
        return found[1:] if found[0] else None

    def likely(self, state: int, limit: int, /) -> bytes:
        return _data("likely", self.handle, _u(state) + _u(limit))

    def least_bytes(self, state: int, /) -> int:
        return _number("least_bytes", self.handle, _u(state))

    def dump(self, state: int, /) -> str:
        return _data("program_dump", self.handle, _u(state)).decode()

    def node_count(self) -> int:
        return _number("node_count", self.handle)

    def memory_size_bytes(self) -> int:
        return _number("memory_size_bytes", self.handle)
