"""Sets of characters that patterns name: ``\\w``, ``\\p{…}``, and what ignoring case adds to a set.

All sets are made on first use and kept for the process. ``\\w``, ``\\d`` and upper and lower case are those of the
running Python; properties and scripts come from a generated table (see ``tools/unicode_tables.py``).
"""

from __future__ import annotations

import base64
import struct
import unicodedata
import zlib
from functools import lru_cache
from itertools import accumulate
from types import ModuleType

from guiderail._core import CharSet
from guiderail.frontends.regex import _classes
from guiderail.support.work import spend

__all__ = [
    "ANY",
    "ASCII_DIGIT",
    "ASCII_SPACE",
    "ASCII_WORD",
    "ECMA_SPACE",
    "NEWLINE",
    "NONE",
    "common",
    "digit",
    "either",
    "fold_ascii",
    "fold_ecma",
    "fold_unicode",
    "letter_fold",
    "minus",
    "others",
    "property_set",
    "space",
    "weight",
    "word",
]

NONE = CharSet([])
ANY = CharSet([(0, 0x10FFFF)])
NEWLINE = CharSet([(10, 10)])
ECMA_NEWLINE = CharSet([(10, 10), (13, 13), (0x2028, 0x2029)])
ASCII_DIGIT = CharSet([(48, 57)])
ASCII_WORD = CharSet([(48, 57), (65, 90), (95, 95), (97, 122)])
ASCII_SPACE = CharSet([(9, 13), (32, 32)])
_SPACES = [
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
]  # beyond ASCII, in both dialects
ECMA_SPACE = CharSet([(9, 13), (32, 32), *_SPACES, (0xFEFF, 0xFEFF)])

_ASCII = CharSet([(0, 127)])

_FOLD = 300  # steps that ignoring case in a set takes
_FOLDED_ONE = 7  # and for each character in it that has another case

Ranges = list[tuple[int, int]]


def _unpack(packed: str) -> Ranges:
    raw = zlib.decompress(base64.b64decode(packed))
    ends = list(accumulate(struct.unpack(f"<{len(raw) // 4}I", raw)))
    return list(zip(ends[::2], ends[1::2], strict=True))


def _runs(points: list[int]) -> Ranges:
    ranges: Ranges = []
    for c in points:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1] = (ranges[-1][0], c)
        else:
            ranges.append((c, c))
    return ranges


def _predicate(packed: str, test: str) -> CharSet:
    """The set of a ``str`` predicate.

    From the table, corrected for the Unicode version of the running Python.
    """
    if unicodedata.unidata_version == _classes.VERSION:
        return CharSet(_unpack(packed))
    holds = getattr(str, test)
    table = tuple(map(int, _classes.VERSION.split(".")))
    if tuple(map(int, unicodedata.unidata_version.split("."))) > table:
        later = [c for low, high in _unpack(_classes.LATER) for c in range(low, high + 1) if holds(chr(c))]
        return CharSet(_unpack(packed) + _runs(later))
    return CharSet(_runs([c for c in range(0x110000) if holds(chr(c))]) + ([(95, 95)] if test == "isalnum" else []))


@lru_cache(maxsize=1)
def word() -> CharSet:
    """``\\w`` of Python's ``re``: ``str.isalnum`` or the underscore."""
    return _predicate(_classes.WORD, "isalnum")


@lru_cache(maxsize=1)
def digit() -> CharSet:
    """``\\d`` of Python's ``re``: ``str.isdecimal``."""
    return _predicate(_classes.DIGIT, "isdecimal")


@lru_cache(maxsize=1)
def space() -> CharSet:
    """``\\s`` of Python's ``re``: ``str.isspace``."""
    return CharSet([(9, 13), (28, 32), (0x85, 0x85), *_SPACES])


# Sets such as \w have hundreds of ranges, and patterns use the same few operations on them repeatedly.
@lru_cache(maxsize=512)
def common(a: CharSet, b: CharSet) -> CharSet:
    """``a & b``, cached."""
    return a & b


@lru_cache(maxsize=512)
def minus(a: CharSet, b: CharSet) -> CharSet:
    """``a - b``, cached."""
    return a - b


@lru_cache(maxsize=512)
def either(a: CharSet, b: CharSet) -> CharSet:
    """``a | b``, cached."""
    return a | b


@lru_cache(maxsize=256)
def others(a: CharSet) -> CharSet:
    """``~a``, cached."""
    return ~a


@lru_cache(maxsize=512)
def weight(chars: CharSet) -> int:
    """Steps that combining this set with another takes, by its ranges."""
    return len(chars.ranges()) // 2


# -- case
def _lower(c: int) -> int:
    """Lower case as ``re`` uses it: the first character, if there are several (only for U+0130)."""
    return ord(chr(c).lower()[0])


class _Cases:
    """The tables of ``re.IGNORECASE`` for str patterns.

    A character c matches a set S if the lower case of c is in S'. S' contains the lower cases of the members of S, and
    the characters that share an upper case with these.
    """

    def __init__(self) -> None:
        points = [c for low, high in _unpack(_classes.CASED) for c in range(low, high + 1)]
        self.cased = {c for c in points if _lower(c) != c or chr(c).upper() != chr(c)}
        self.lower = {c: _lower(c) for c in self.cased}
        self.sources: dict[int, list[int]] = {}  # lower case -> the characters that have it
        by_upper: dict[str, list[int]] = {}
        for c, low in self.lower.items():
            self.sources.setdefault(low, []).append(c)
            if low == c:
                by_upper.setdefault(chr(c).upper(), []).append(c)
        self.twins: dict[int, list[int]] = {}  # lower-case characters of the same upper case
        for twins in by_upper.values():
            if len(twins) > 1:
                self.twins |= {c: twins for c in twins}
        self.cased_set = CharSet(_runs(sorted(self.cased)))

    def fold(self, chars: CharSet, explicit: CharSet) -> CharSet:
        inside = (explicit & self.cased_set).ranges()
        if not inside:
            return chars
        folded: set[int] = set()
        for low, high in inside:
            for c in range(low, high + 1):
                lowered = self.lower[c]
                folded.add(lowered)
                folded.update(self.twins.get(lowered, ()))
        beside = (chars - explicit) & self.cased_set  # from \w and the like: asked about the lower case itself
        matched = [c for low in folded for c in self.sources.get(low, (low,))]
        for low, high in beside.ranges():
            for c in range(low, high + 1):
                if self.lower[c] == c:
                    matched.extend(self.sources[c])
        uncased = chars - self.cased_set
        return uncased | CharSet([(c, c) for c in matched])


@lru_cache(maxsize=1)
def _cases() -> _Cases:
    return _Cases()


_FOLDED: dict[str, Ranges] = {"k": [(0x212A, 0x212A)], "s": [(0x17F, 0x17F)]}
# Modes of ignoring case, and what they add to an ASCII letter beyond ASCII.
_EXTRA: dict[str, dict[str, Ranges]] = {
    "ascii": {},
    "unicode": {"i": [(0x130, 0x131)], **_FOLDED},
    "ecma": {},
    "ecma-unicode": _FOLDED,
}


@lru_cache(maxsize=512)
def letter_fold(char: str, mode: str) -> CharSet | None:
    """The characters that one character matches if case is ignored; None if it matches only itself.

    Args:
        char: one character.
        mode: ``"unicode"`` or ``"ascii"`` (Python), ``"ecma-unicode"`` (with ``u`` or ``v``) or ``"ecma"``.
    """
    if char.isascii():
        if not char.isalpha():
            return None
        low, up = ord(char.lower()), ord(char.upper())
        return CharSet([(low, low), (up, up), *_EXTRA[mode].get(char.lower(), [])])
    if mode == "ascii":
        return None
    own = CharSet([(ord(char), ord(char))])
    folded = fold_unicode(own, own) if mode == "unicode" else fold_ecma(own, mode)
    return None if folded == own else folded


def fold_unicode(chars: CharSet, explicit: CharSet) -> CharSet:
    """``chars`` as ``re.IGNORECASE`` reads them.

    ``explicit`` is the part written as characters and ranges.
    """
    simple = chars == explicit and len(explicit) <= 128 and len(explicit & _ASCII) == len(explicit)
    if not simple:  # the usual case needs no table
        spend(_FOLD + _FOLDED_ONE * len(chars & _cases().cased_set))
    return _folded_unicode(chars, explicit, simple)


@lru_cache(maxsize=256)
def _folded_unicode(chars: CharSet, explicit: CharSet, simple: bool) -> CharSet:
    ranges = explicit.ranges()
    if simple:
        extra = [r for letter, more in _EXTRA["unicode"].items() if _has_letter(ranges, letter) for r in more]
        return fold_ascii(chars) | CharSet(extra) if extra else fold_ascii(chars)
    return _cases().fold(chars, explicit)


def _has_letter(ranges: Ranges, letter: str) -> bool:
    return any(a <= ord(letter) <= b or a <= ord(letter.upper()) <= b for a, b in ranges)


@lru_cache(maxsize=256)
def fold_ascii(chars: CharSet) -> CharSet:
    """``chars`` with the other case of their ASCII letters."""
    extra = [(max(a, 65) + 32, min(b, 90) + 32) for a, b in chars.ranges() if a <= 90 and b >= 65]
    extra += [(max(a, 97) - 32, min(b, 122) - 32) for a, b in chars.ranges() if a <= 122 and b >= 97]
    return chars | CharSet(extra) if extra else chars


_ODD = {0xFB05: 0xFB06, 0x1FD3: 0x390, 0x1FE3: 0x3B0}  # status S in CaseFolding.txt, F in str.casefold


def _simple_folding(c: int) -> int:
    """Canonicalize of ECMA-262 with the flag ``u`` or ``v``."""
    folded = chr(c).casefold()
    if len(folded) > 1:
        folded = chr(c).lower() if c not in _ODD else chr(_ODD[c])
    return ord(folded) if len(folded) == 1 else c


def _upper_unit(c: int) -> int:
    """Canonicalize of ECMA-262 without these flags, which sees halves of characters above U+FFFF."""
    upper = chr(c).upper()
    if c > 0xFFFF or len(upper) > 1 or (c >= 128 and upper.isascii()):
        return c
    return ord(upper)


@lru_cache(maxsize=2)
def _ecma_classes(mode: str) -> tuple[dict[int, list[int]], CharSet]:
    """Characters that Canonicalize makes equal, and the set of those that have a companion."""
    canonical = _simple_folding if mode == "ecma-unicode" else _upper_unit
    groups: dict[int, list[int]] = {}
    for low, high in _unpack(_classes.CASED):
        for c in range(low, high + 1):
            groups.setdefault(canonical(c), []).append(c)
    classes = {c: group for group in groups.values() if len(group) > 1 for c in group}
    return classes, CharSet(_runs(sorted(classes)))


def fold_ecma(chars: CharSet, mode: str) -> CharSet:
    """``chars`` and all characters that Canonicalize of ECMA-262 makes equal to one of them."""
    spend(_FOLD + _FOLDED_ONE * len(chars & _ecma_classes(mode)[1]))
    return _folded_ecma(chars, mode)


@lru_cache(maxsize=256)
def _folded_ecma(chars: CharSet, mode: str) -> CharSet:
    classes, members = _ecma_classes(mode)
    inside = (chars & members).ranges()
    return (
        chars | CharSet([(d, d) for a, b in inside for c in range(a, b + 1) for d in classes[c]]) if inside else chars
    )


# -- properties
_GROUPS = {
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "LC": ("Lu", "Ll", "Lt"),
    "M": ("Mn", "Mc", "Me"),
    "N": ("Nd", "Nl", "No"),
    "P": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    "S": ("Sm", "Sc", "Sk", "So"),
    "Z": ("Zs", "Zl", "Zp"),
    "C": ("Cc", "Cf", "Co", "Cs", "Cn"),
    "LETTER": "L",
    "CASEDLETTER": "LC",
    "MARK": "M",
    "COMBININGMARK": "M",
    "NUMBER": "N",
    "PUNCTUATION": "P",
    "PUNCT": "P",
    "SYMBOL": "S",
    "SEPARATOR": "Z",
    "OTHER": "C",
}


@lru_cache(maxsize=256)
def property_set(name: str, value: str | None = None) -> CharSet | None:
    r"""The set of ``\p{name}`` or ``\p{name=value}``; None if there is none.

    It knows general categories, scripts (``Script=``, ``sc=``, ``Script_Extensions=``, ``scx=``, or the script alone)
    and the binary properties of ECMA-262 (``Alphabetic``, ``White_Space``, ``Emoji`` …). Case, spaces, ``_`` and ``-``
    in names are ignored.
    """
    key = _plain(name)
    if value is not None:
        wanted = _plain(value)
        if key in ("GC", "GENERALCATEGORY"):
            return _category(wanted)
        if key in ("SC", "SCRIPT"):
            return _script(wanted, extensions=False)
        if key in ("SCX", "SCRIPTEXTENSIONS"):
            return _script(wanted, extensions=True)
        return None
    if key == "ANY":
        return ANY
    if key == "ASCII":
        return CharSet([(0, 127)])
    if key == "ASSIGNED":
        unassigned = _category("CN")
        return None if unassigned is None else ~unassigned
    found = _category(key)
    if found is None:
        found = _table(_names().BINARY.get(key))
    return _script(key, extensions=False) if found is None else found


def _plain(name: str) -> str:
    return name.upper().replace("_", "").replace(" ", "").replace("-", "")


def _names() -> ModuleType:
    from guiderail.frontends.regex import _property_names  # only when a pattern needs it

    return _property_names


def _tables() -> ModuleType:
    from guiderail.frontends.regex import _property_tables  # 60 KB: only when a pattern asks

    return _property_tables


@lru_cache(maxsize=256)
def _table(key: str | None) -> CharSet | None:
    packed = None if key is None else _tables().TABLES.get(key)
    return None if packed is None else CharSet(_unpack(packed))


def _category(key: str) -> CharSet | None:
    if key in ("CN", "UNASSIGNED"):
        known = [c for c in set(_names().CATEGORY.values()) if c != "Cs"]
        return ~_union(known) - NONE
    group = _GROUPS.get(key)
    if isinstance(group, str):
        group = _GROUPS[group]
    if group is None:
        return _table(_names().CATEGORY.get(key))
    if "Cn" in group:
        known = [c for c in set(_names().CATEGORY.values()) if c not in group]
        return ~_union(known)
    return _union(list(group))


def _union(keys: list[str]) -> CharSet:
    ranges: Ranges = []
    for key in keys:
        found = _table(key)
        ranges += [] if found is None else found.ranges()
    return CharSet(ranges)


def _script(key: str, *, extensions: bool) -> CharSet | None:
    script = _names().SCRIPT.get(key)
    if script is None:
        return None
    if extensions and "scx=" + script in _tables().TABLES:
        return _table("scx=" + script)
    return _table("sc=" + script)
