"""Sets of strings, closed under and / or / not: what a schema says about strings.

A :class:`Strings` is a small term over atoms: finite sets of strings, lengths in code points, and constraints such as a
pattern's search or a format. It is normalized so that common questions need no automaton: only atoms are complemented,
lengths are merged into intervals, and a finite set in an intersection is filtered by membership. The rest is lowered
into an expression of the core, where intersection and complement are primitive.

All strings here are *decoded* (sequences of Unicode scalar values). How JSON spells them is decided in another layer.

Some formats are not regular languages of manageable size. Their atoms have two constraints, one below and one above the
exact set (see :mod:`guiderail.frontends.json_schema.values.formats`). Since only atoms are complemented, the sign of
each is known: a positive one is lowered to its narrow side, a negated one to the complement of its wide side. So the
result is always a subset of the exact set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, Final

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.json_schema.values.formats import FORMATS, FormatTexts
from guiderail.frontends.json_schema.values.patterns import check_memory, read_pattern
from guiderail.frontends.json_schema.values.programs import begin_apart, program_of
from guiderail.frontends.json_schema.values.string_counts import counted, listed
from guiderail.frontends.regex import Regex, charsets
from guiderail.frontends.regex.counting import count_texts, likely_text
from guiderail.support.caches import cached
from guiderail.support.numerals import amount
from guiderail.support.texts import has_surrogate, utf8
from guiderail.support.work import spend

__all__ = ["Strings"]

_MOST: Final = 2**32 - 2  # the longest length that the core can count
_ANY_TEXTS: Final = ("", "~", "0")  # patterns that are negated rarely match all of them
# Of a union, with all their parts. In a larger one, conditions that its members share are written once. Otherwise each
# `if` would double what is known of a string.
_MOST_REPEATED: Final = 1_000
_TRIED: Final = 20  # texts that may show that a set is not empty
_MOST_STATES: Final = 1_000  # while strings are counted
_STEPS: Final = 40  # of work (see `guiderail.support.work`) for each operand of an operation


_ALTERNATIVES: Final = re.compile(r"\^(?:\((?:\?:)?([A-Za-z0-9_-]+(?:\|[A-Za-z0-9_-]+)*)\)|([A-Za-z0-9_-]+))\$")


class Strings:
    """An immutable, hashable set of strings. Equal values are equal sets; equal sets may be different values.

    Combine them with ``&``, ``|`` and ``~`` (relative to all strings); test membership with ``strings.contains(text)``.
    """

    __slots__ = ("_hash", "_kind", "_parts", "_size")

    ALL: ClassVar[Strings]
    NONE: ClassVar[Strings]

    def __init__(self, kind: str, parts: tuple[Any, ...]) -> None:
        """For this module only: the constructors below normalise."""
        self._kind = kind
        self._parts = parts
        self._size = 1
        if kind in ("and", "or"):
            self._hash = hash((kind, frozenset(parts)))
            for part in parts:
                self._size += part._size
        else:
            self._hash = hash((kind, parts))

    # -- constructors
    @staticmethod
    def texts(texts: Iterable[str]) -> Strings:
        """Exactly these strings.

        Raises:
            PatternError: a string contains a lone surrogate, which no UTF-8 text can (``lone-surrogate``).
        """
        found = frozenset(texts)
        for text in found:
            utf8(text)
        return Strings("texts", (found,)) if found else Strings.NONE

    @staticmethod
    def pattern(pattern: str) -> Strings:
        """The strings in which a pattern of JSON Schema is found; see :func:`.patterns.read_pattern`.

        Raises:
            PatternError: the pattern is malformed in every dialect, or no automaton can do it; with its span.
            LimitError: groups nest too deep.
        """
        if plain := _ALTERNATIVES.fullmatch(pattern):  # a few words: as member names they cost nothing
            return Strings.texts((plain[1] or plain[2]).split("|"))
        return Strings.constraint(read_pattern(pattern))

    @staticmethod
    @lru_cache(maxsize=1024)
    def length(min: int = 0, max: int | None = None) -> Strings:
        """The strings of ``min`` to ``max`` code points (None: without bound); none at all if ``max < min``."""
        min = 0 if min < 0 else min
        if max is not None and max < min:
            return Strings.NONE
        for bound in (min, max or 0):
            if bound > _MOST:
                raise CompileError(
                    f"a length of {amount(bound)} characters is beyond what can be counted ({_MOST:,})",
                    code="bad-bound",
                )
        return Strings.ALL if min == 0 and max is None else Strings("length", (min, max))

    @staticmethod
    def constraint(constraint: Constraint, wide: Constraint | None = None) -> Strings:
        """The strings of a constraint.

        Args:
            constraint: the strings; if ``wide`` is given, a set below the one meant.
            wide: a set above the one meant.
        """
        return Strings("atom", (constraint, constraint if wide is None else wide, True))

    @staticmethod
    def format(name: str) -> Strings | None:
        """The strings of a format, or None if it is unknown."""
        return _format(name)

    # -- algebra
    @staticmethod
    def union(sets: Iterable[Strings]) -> Strings:
        """The strings in any of these."""
        return _any_of(sets)

    def __and__(self, other: Strings) -> Strings:
        if not isinstance(other, Strings):
            return NotImplemented
        if self is other or other._kind == "all" or self._kind == "none":
            return self
        if self._kind == "all" or other._kind == "none":
            return other
        if self._kind == "texts" and other._kind in ("texts", "but"):
            mine, others = self._parts[0], other._parts[0]
            spend(_STEPS + len(mine) // 4)
            left = mine & others if other._kind == "texts" else mine - others
            return self if len(left) == len(mine) else Strings("texts", (left,)) if left else Strings.NONE
        return _all_of((self, other))

    def __or__(self, other: Strings) -> Strings:
        return _any_of((self, other)) if isinstance(other, Strings) else NotImplemented

    def __invert__(self) -> Strings:
        return _complement(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Strings):
            return NotImplemented
        if self._hash != other._hash or self._kind != other._kind:
            return False
        if self._kind in ("and", "or"):  # in any order
            return frozenset(self._parts) == frozenset(other._parts)
        return self._parts == other._parts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Strings, (self._kind, self._parts)

    # -- questions
    def is_all(self) -> bool:
        """Whether this is known to contain every string. False may also mean that no automaton was consulted."""
        return self._kind == "all"

    def is_empty(self) -> bool:
        """Whether no text is left (of the narrow side, where formats have two); decided exactly and remembered.

        Raises:
            LimitError: deciding would visit too many states (``fuel``).
        """
        kind = self._kind
        if kind == "none":
            return True
        if kind in ("all", "length", "texts", "but"):
            return False
        return _is_empty(self)

    def has_pattern(self) -> bool:
        """Whether any part is a pattern or a format."""
        if self._kind in ("and", "or"):
            return any(part.has_pattern() for part in self._parts)
        return self._kind == "atom"

    def is_exact(self) -> bool:
        """Whether it contains no format whose automaton is narrower than the format."""
        if self._kind == "atom":
            return self._parts[0] is self._parts[1]
        if self._kind in ("and", "or"):
            return all(part.is_exact() for part in self._parts)
        return True

    def finite_texts(self) -> frozenset[str] | None:
        """The strings, if the structure shows that they are finitely many; None: unknown."""
        kind, parts = self._kind, self._parts
        if kind == "texts":
            return frozenset(parts[0])
        if kind == "none":
            return frozenset()
        if kind == "or":
            found: set[str] = set()
            for part in parts:
                texts = part.finite_texts()
                if texts is None:
                    return None
                found |= texts
            return frozenset(found)
        if kind == "and" and any(part._kind == "texts" for part in parts):
            return frozenset()  # only texts that the narrow side of a format leaves out are stored like this
        return None

    def count(self, most: int) -> int:
        """The number of strings, or ``most`` if there are more."""
        texts = self.finite_texts()
        if texts is not None:
            return min(len(texts), most)
        if self._kind in ("all", "but"):
            return most
        return 0 if self.is_empty() else counted(self, most)[0]

    def has_more(self, than: int) -> bool:
        """Whether there are certainly more strings than this; bounded work decides."""
        return not self.is_empty() and counted(self, than + 1, _MOST_STATES)[0] > than

    def number(self, most: int) -> int | None:
        """The number of strings; None: there are more than ``most``, or bounded work does not decide."""
        if self.is_empty():
            return 0
        count, is_exact = counted(self, most + 1, _MOST_STATES)
        return count if is_exact and count <= most else None

    def listed(self, most: int) -> frozenset[str] | None:
        """The strings; None if there are more than ``most``, which is below 10,000, or some are very long."""
        texts = self.finite_texts()
        if texts is not None:
            return texts if len(texts) <= most else None
        if self._kind in ("all", "but"):
            return None
        return frozenset() if self.is_empty() else listed(self, most)

    def contains(self, text: object) -> bool:
        return isinstance(text, str) and not has_surrogate(text) and self._decide(text) is True

    def _decide(self, text: str) -> bool | None:
        """Membership; None between the narrow and the wide side of a format."""
        kind, parts = self._kind, self._parts
        if kind == "all":
            return True
        if kind == "none":
            return False
        if kind == "texts":
            return bool(text in parts[0])
        if kind == "but":
            return bool(text not in parts[0])
        if kind == "length":
            return _fits(text, parts)
        if kind == "atom":
            narrow, wide, positive = parts
            spend(_STEPS // 4)
            if program_of(narrow).matches(text):
                return bool(positive)
            if wide is not narrow and program_of(wide).matches(text):
                return None
            return not positive
        decisive: bool = kind == "or"
        undecided: bool = False
        for part in parts:
            answer: bool | None = part._decide(text)
            if answer is decisive:
                return decisive
            undecided = undecided or answer is None
        return None if undecided else not decisive

    # -- lowering
    def lower(self, builder: _core.Builder, memo: dict[Strings, int] | None = None) -> int:
        """The expression of the decoded strings.

        Args:
            builder: the builder to make the expression with.
            memo: handles already made with this builder, updated by the call; keep one for each builder.

        Raises:
            PatternError: a pattern needs more than an automaton.
            LimitError: an expression grows too large.
        """
        if memo is None:
            memo = {}
        handle = memo.get(self)
        if handle is None:
            handle = memo[self] = self._build(builder, memo)
        return handle

    def _build(self, b: _core.Builder, memo: dict[Strings, int]) -> int:
        kind, parts = self._kind, self._parts
        if kind == "all":
            return b.repeat(b.char_class(charsets.ANY), 0)
        if kind == "none":
            return b.EMPTY
        if kind == "texts":
            return b.choice([text.encode() for text in sorted(parts[0])])
        if kind == "but":
            return b.complement(Strings("texts", parts).lower(b, memo))
        if kind == "length":
            low, high = parts
            return b.repeat(b.char_class(charsets.ANY), low, -1 if high is None else high)
        if kind == "atom":
            narrow, wide, positive = parts
            if positive:
                return int(narrow._lower(b))
            check_memory((self,))
            if wide is narrow:
                return b.complement(Strings("atom", (narrow, wide, True)).lower(b, memo))
            return b.complement(wide._lower(b))
        handles = [part.lower(b, memo) for part in (check_memory(parts) if kind == "and" else parts)]
        if len(handles) == 1:
            return handles[0]
        return b.intersection(handles) if kind == "and" else b.union(handles)

    def __repr__(self) -> str:
        kind, parts = self._kind, self._parts
        if kind in ("all", "none"):
            return f"Strings.{kind.upper()}"
        if kind in ("texts", "but"):
            shown = sorted(parts[0])
            names = ", ".join(map(repr, shown[:6])) + (f", … {len(shown)} in all" if len(shown) > 6 else "")
            return f"{'~' if kind == 'but' else ''}Strings.texts([{names}])"
        if kind == "length":
            return f"Strings.length({parts[0]}, {parts[1]})"
        if kind == "atom":
            return f"{'' if parts[2] else '~'}Strings.constraint({parts[0]!r})"
        return "(" + (" & " if kind == "and" else " | ").join(map(repr, parts)) + ")"


Strings.ALL = Strings("all", ())
Strings.NONE = Strings("none", ())


def _fits(text: str, bounds: tuple[Any, ...]) -> bool:
    low, high = bounds
    return bool(low <= len(text) and (high is None or len(text) <= high))


@lru_cache(maxsize=64)
def _format(name: str) -> Strings | None:
    found = FORMATS.get(name)
    if found is None:
        return None
    return Strings.constraint(FormatTexts(name), None if found.is_exact else FormatTexts(name, wide=True))


def _has_text(constraint: Constraint) -> bool:
    """Whether a constraint certainly has some text: a format does, and nearly every pattern."""
    return isinstance(constraint, FormatTexts) or (isinstance(constraint, Regex) and count_texts(constraint) > 0)


@cached(4 << 20)
def _is_empty(strings: Strings) -> bool:
    if strings._kind == "or":
        return all(part.is_empty() for part in strings._parts)
    if strings._kind == "atom" and strings._parts[2] and _has_text(strings._parts[0]):
        return False
    if _begins_apart(strings):
        return True
    if _is_witnessed(strings):
        return False
    builder = _core.Builder()
    handle = strings.lower(builder)
    try:
        return builder.is_empty(handle)
    except CompileError as error:
        if error.code != "not-regular":  # rules: a question for the finished program
            raise
    program = builder.finish(handle)
    return not program.is_live(program.root)


def _begins_apart(strings: Strings) -> bool:
    """Whether two patterns that must both match differ where their texts begin."""
    if strings._kind != "and":
        return False
    found = [part._parts[0] for part in strings._parts if part._kind == "atom" and part._parts[2]]
    return len(found) > 1 and begin_apart(found)


def _is_witnessed(strings: Strings) -> bool:
    """Whether a text of one of its patterns or, of complements, any text shows that a set is not empty."""
    parts = strings._parts if strings._kind == "and" else (strings,)
    found = [part._parts[0] for part in _flat("or", parts) if part._kind == "atom" and part._parts[2]]
    texts = [likely_text(one) for one in found[:_TRIED] if isinstance(one, Regex)] if found else _ANY_TEXTS
    spend(_STEPS * len(texts))
    return any(strings._decide(text) is True for text in texts)


# -- normal form -------------------------------------------------------------------------------------------------
def _complement(strings: Strings) -> Strings:
    kind, parts = strings._kind, strings._parts
    if kind == "all":
        return Strings.NONE
    if kind == "none":
        return Strings.ALL
    if kind in ("texts", "but"):
        return Strings("but" if kind == "texts" else "texts", parts)
    if kind == "length":
        low, high = parts
        below = Strings.length(0, low - 1)
        return below if high is None else _any_of((below, Strings.length(high + 1)))
    if kind == "atom":
        return Strings("atom", (parts[0], parts[1], not parts[2]))
    inner = tuple(_complement(part) for part in parts)
    return _any_of(inner) if kind == "and" else _all_of(inner)


def _flat(kind: str, items: Iterable[Strings]) -> list[Strings]:
    flat: list[Strings] = []
    for item in items:
        flat.extend(item._parts if item._kind == kind else (item,))
    return flat


_Bounds = tuple[int, "int | None"]
_Sorted = tuple["list[frozenset[str]]", "list[frozenset[str]]", "list[_Bounds]", "list[Strings]"]


def _sorted_out(items: list[Strings]) -> _Sorted:
    """Finite sets, complements of finite sets, lengths, and the rest without repetitions."""
    texts: list[frozenset[str]] = []
    buts: list[frozenset[str]] = []
    lengths: list[tuple[int, int | None]] = []
    rest: dict[Strings, None] = {}
    for item in items:
        kind = item._kind
        if kind == "texts":
            texts.append(item._parts[0])
        elif kind == "but":
            buts.append(item._parts[0])
        elif kind == "length":
            lengths.append(item._parts)
        else:
            rest[item] = None
    return texts, buts, lengths, list(rest)


def _opposed(rest: list[Strings]) -> bool:
    """Whether both an atom and its complement are present."""
    seen = set(rest)
    return any(item._kind == "atom" and item._parts[2] and _complement(item) in seen for item in rest)


def _absorbed(kind: str, rest: list[Strings]) -> list[Strings] | None:
    """The same parts of an "and" or an "or" after ``x or (x and y) = x`` and ``x and (not x or y) = x and y``.

    Args:
        kind: "or" for the parts of an "and", and the other way round.
        rest: the parts.

    Returns:
        None if nothing is simpler.
    """
    if not any(item._kind == kind for item in rest):
        return None
    among = set(rest)
    simpler: list[Strings] = []
    changed = False
    for item in rest:
        if item._kind == kind:
            spend(len(item._parts))
            if any(part in among for part in item._parts):
                changed = True
                continue
            kept = [part for part in item._parts if part._kind != "atom" or _complement(part) not in among]
            if len(kept) < len(item._parts):
                changed = True
                item = _node(kind, kept, Strings.NONE if kind == "or" else Strings.ALL)
        simpler.append(item)
    return simpler if changed else None


def _shared(items: list[Strings]) -> list[Strings]:
    """The conditions that all members of a union have in common."""
    found = _flat("and", items[:1])
    for item in items[1:]:
        if not found:
            break
        spend(_STEPS)
        parts = set(_flat("and", (item,)))
        found = [part for part in found if part in parts]
    return found


def _all_of(items: Iterable[Strings]) -> Strings:
    flat = [item for item in _flat("and", items) if item._kind != "all"]
    if not flat:
        return Strings.ALL
    spend(2 * len(flat))
    if any(item._kind == "none" for item in flat):
        return Strings.NONE
    if len(flat) == 1:
        return flat[0]
    texts, buts, lengths, rest = _sorted_out(flat)
    spend(_STEPS * len(flat) + len(rest) * sum(map(len, texts)) * 50 + sum(map(len, buts)) // 2)
    if _opposed(rest):
        return Strings.NONE
    if (simpler := _absorbed("or", rest)) is not None:
        return _all_of([*[item for item in flat if item._kind in ("texts", "but", "length")], *simpler])
    if texts:
        left = frozenset.intersection(*texts).difference(*buts)
        for bounds in lengths:
            left = frozenset(t for t in left if _fits(t, bounds))
        if not rest:
            return Strings("texts", (left,)) if left else Strings.NONE
        sure: set[str] = set()
        unsure: set[str] = set()
        for text in left:
            answers = [item._decide(text) for item in rest]
            if False not in answers:
                (unsure if None in answers else sure).add(text)
        certain = Strings("texts", (frozenset(sure),)) if sure else Strings.NONE
        if not unsure:
            return certain
        kept = Strings("and", (Strings("texts", (frozenset(unsure),)), *rest))
        return kept if certain is Strings.NONE else Strings("or", (certain, kept))
    parts = list(rest)
    low: int = 0
    high: int | None = None
    for least, most in lengths:
        low = max(low, least)
        high = most if high is None else high if most is None else min(high, most)
    length = Strings.length(low, high)
    if length._kind == "none":
        return Strings.NONE
    if length._kind == "length":
        parts.append(length)
    if buts:
        excluded = frozenset.union(*buts)
        if lengths:
            excluded = frozenset(t for t in excluded if _fits(t, (low, high)))
        if excluded:
            parts.append(Strings("but", (excluded,)))
    return _node("and", parts, Strings.ALL)


def _any_of(items: Iterable[Strings]) -> Strings:
    flat = [item for item in _flat("or", items) if item._kind != "none"]
    if not flat:
        return Strings.NONE
    if any(item._kind == "all" for item in flat):
        return Strings.ALL
    if len(flat) == 1:
        return flat[0]
    texts, buts, lengths, rest = _sorted_out(flat)
    spend(_STEPS * len(flat))
    if _opposed(rest):
        return Strings.ALL
    if (simpler := _absorbed("and", rest)) is not None:
        return _any_of([*[item for item in flat if item._kind in ("texts", "but", "length")], *simpler])
    if sum(item._size for item in flat) > _MOST_REPEATED and (shared := _shared(flat)):
        within = set(shared)
        left = [_all_of([part for part in _flat("and", (item,)) if part not in within]) for item in flat]
        return _all_of([*shared, _any_of(left)])
    parts = list(rest)
    merged: list[tuple[int, int | None]] = []
    for low, high in sorted(lengths, key=lambda bounds: bounds[0]):
        if merged and (merged[-1][1] is None or low <= merged[-1][1] + 1):
            last = merged[-1]
            merged[-1] = (last[0], None if last[1] is None or high is None else max(last[1], high))
        else:
            merged.append((low, high))
    if merged == [(0, None)]:
        return Strings.ALL
    parts.extend(Strings("length", bounds) for bounds in merged)
    listed = frozenset[str]().union(*texts)
    if buts:
        excluded = frozenset.intersection(*buts) - listed
        excluded = frozenset(t for t in excluded if not any(_fits(t, bounds) for bounds in merged))
        if not excluded:
            return Strings.ALL
        parts.append(Strings("but", (excluded,)))
    elif listed:
        listed = frozenset(t for t in listed if not any(_fits(t, bounds) for bounds in merged))
        if listed:
            parts.append(Strings("texts", (listed,)))
    return _node("or", parts, Strings.NONE)


def _node(kind: str, parts: list[Strings], neutral: Strings) -> Strings:
    if len(parts) < 2:
        return parts[0] if parts else neutral
    return Strings(kind, tuple(parts))
