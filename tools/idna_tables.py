"""Writes the tables of international host names, ``frontends/json_schema/values/formats/_idna.py``.

    python tools/idna_tables.py

Needs the PyPI package ``idna`` (the derived properties of RFC 5892). Everything else comes from ``unicodedata`` of the
running Python; code points that it does not know yet are left out.

Sets are packed as in ``unicode_tables.py``.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

import idna.idnadata as data

sys.path.insert(0, str(Path(__file__).resolve().parent))
from unicode_tables import packed, runs

TARGET = Path(__file__).resolve().parent.parent / "src/guiderail/frontends/json_schema/values/formats/_idna.py"

# Ranges of scripts: a label within one window may be longer, since its Punycode has smaller steps.
WINDOWS = [
    (0x80, 0x10FFFF),
    (0x80, 0xFFFF),
    (0x3000, 0x9FFF),
    (0x3040, 0x30FF),
    (0xAC00, 0xD7A3),
    (0x80, 0x200F),
    (0x80, 0x24F),
    (0x80, 0x17F),
    (0x370, 0x3FF),
    (0x400, 0x52F),
    (0x530, 0x5FF),
    (0x600, 0x77F),
    (0x900, 0xDFF),
    *((low, low + 0x7F) for low in range(0x900, 0xF00, 0x80)),
    (0x1000, 0x10FF),
    (0x1200, 0x139F),
    (0x1780, 0x17FF),
]


def spread(packed_ranges: Iterable[int]) -> Iterator[int]:
    for entry in packed_ranges:
        yield from range(entry >> 32, entry & 0xFFFFFFFF)


def threshold(k: int, bias: int) -> int:
    return min(max(36 * k - bias, 1), 26)


def reach(digits: int, bias: int) -> int:
    """Returns the number of values that at most this many digits can write (RFC 3492, section 3.3)."""
    total, weight = 0, 1
    for k in range(1, digits + 1):
        t = threshold(k, bias)
        total += t * weight
        weight *= 36 - t
    return total


def adapted(delta: int) -> int:
    """Returns the largest bias after a damped delta of at most this size (section 6.1)."""
    k = best = 0
    while delta > 455:
        best = k + 36 * 455 // 493
        delta //= 35
        k += 36
    return max(best, k + 36 * delta // (delta + 38))


def digits_at_most(deltas: int, total: int, most_bias: int) -> int:
    """Returns the maximum number of digits of this many deltas with the sum ``total``, for any biases."""
    left, count, last = total, deltas, 0
    for digits in range(1, 12):
        need = min(reach(digits, bias) for bias in range(most_bias + 1))  # the smallest delta of digits + 1 digits
        extra = min(deltas, left // (need - last))
        count += extra
        left -= extra * (need - last)
        last = need
        if not extra:
            break
    return count


def longest(low: int, high: int, foreign: int) -> int:
    """Returns the number of code points, at most ``foreign`` of them non-ASCII, that a label may have so that its ASCII
    form is sure to have at most 63 octets."""
    n = 0
    while all(ace_length(n + 1, basic, low, high) <= 63 for basic in range(max(0, n + 1 - foreign), n + 1)):
        n += 1
    return n


def ace_length(n: int, basic: int, low: int, high: int) -> int:
    first = (high - 128) * (basic + 1) + basic
    one = next(d for d in range(1, 12) if first < reach(d, 72))
    more = n - basic - 1
    total = (high - low) * n + (more + 1) * (n + 1)
    bias = max(adapted(2 * (first // 700)), adapted(total * 3 // 4 + 1))
    return 4 + basic + (basic > 0) + one + digits_at_most(more, total, bias)


def main() -> None:
    valid = {c for c in spread(data.codepoint_classes["PVALID"]) if unicodedata.category(chr(c)) != "Cn"}
    context = {c for name in ("CONTEXTJ", "CONTEXTO") for c in spread(data.codepoint_classes[name])}
    every = valid | context
    bidi: dict[str, set[int]] = {}
    for c in sorted(every):
        kind = unicodedata.bidirectional(chr(c))
        group = {"R": "RTL", "AL": "RTL", "AN": "AN", "EN": "EN", "NSM": "NSM", "L": "L"}.get(kind)
        if group is None:
            assert kind in ("ES", "CS", "ET", "ON", "BN"), (hex(c), kind)
            group = "NEUTRAL"
        bidi.setdefault(group, set()).add(c)
    joining: dict[str, set[int]] = {}
    for kind, entries in data.joining_types.items() if isinstance(next(iter(data.joining_types)), str) else ():
        joining[kind] = {c for c in spread(entries) if c in every}
    if not joining:
        for c, value in data.joining_types.items():
            joining.setdefault(chr(value), set()).add(c)
        joining = {kind: points & every for kind, points in joining.items()}
    marks = {c for c in every if unicodedata.category(chr(c)).startswith("M")}
    viramas = {c for c in every if unicodedata.combining(chr(c)) == 9}
    seconds, firsts_of = set[int](), set[int]()
    for c in range(0x110000):
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(int(parts[1], 16))
            firsts_of |= {int(parts[0], 16), c}
    # the first may also be a composed character: the second then moves in front of its mark
    composed: dict[int, set[int]] = {}
    for second in seconds & every:
        firsts = {c for c in firsts_of & every if not unicodedata.is_normalized("NFC", chr(c) + chr(second))}
        firsts -= {c for c in firsts if 0 < unicodedata.combining(chr(second)) < unicodedata.combining(chr(c))}
        if firsts:
            composed[second] = firsts
    groups: dict[frozenset[int], set[int]] = {}
    for second, firsts in composed.items():
        key = frozenset(firsts)
        groups.setdefault(key, set()).add(second)
    ranks: dict[int, set[int]] = {}
    for c in every:
        if unicodedata.combining(chr(c)):
            ranks.setdefault(unicodedata.combining(chr(c)), set()).add(c)

    def line(name: str, points: Iterable[int], note: str) -> str:
        return f"{name} = {packed(runs(sorted(points)))!r}  # {note}\n"

    out = ['"""Generated by tools/idna_tables.py: do not edit."""\n# ruff: noqa\n# fmt: off\n\n']
    out.append(line("VALID", valid, "PVALID of RFC 5892, without the context rules' code points"))
    out.append(line("MARKS", marks, "general category M"))
    out.append(line("VIRAMAS", viramas, "combining class 9"))
    for name in ("RTL", "AN", "EN", "NSM", "NEUTRAL"):
        out.append(line("BIDI_" + name, bidi[name], "bidirectional class; all others are L"))
    for name in "DLRT":
        out.append(line("JOINING_" + name, joining.get(name, set()), "joining type"))
    for name in ("Greek", "Hebrew"):
        out.append(line(name.upper(), set(spread(data.scripts[name])) & every, "script"))
    kana = set[int]().union(*(spread(data.scripts[name]) for name in ("Hiragana", "Katakana", "Han")))
    out.append(line("KANA_HAN", kana & every, "scripts Hiragana, Katakana and Han"))
    out.append("RANKS = {  # canonical combining class -> code points\n")
    out.extend(f"    {rank}: {packed(runs(sorted(points)))!r},\n" for rank, points in sorted(ranks.items()))
    out.append("}\nCOMPOSED = [  # (combining class of the second, firsts, seconds) that NFC makes one character of\n")
    rows: dict[tuple[int, frozenset[int]], set[int]] = {}
    for firsts, seconds in groups.items():
        for second in seconds:
            rows.setdefault((unicodedata.combining(chr(second)), firsts), set()).add(second)
    for (rank, firsts), seconds in sorted(rows.items(), key=lambda row: min(row[1])):
        out.append(f"    ({rank}, {packed(runs(sorted(firsts)))!r}, {packed(runs(sorted(seconds)))!r}),\n")
    out.append("]\nWINDOWS = [\n    # first and last code point beyond ASCII, the most of these, the most code points")
    out.append(" in all: fits 63 octets\n")
    for low, high in WINDOWS:
        last = 0
        for foreign in (63, 4) if high == 0x24F else (63,):
            most = longest(low, high, foreign)
            if most > last:
                out.append(f"    (0x{low:X}, 0x{high:X}, {min(foreign, most)}, {most}),\n")
            last = most
    out.append("]\n")
    TARGET.write_text("".join(out), encoding="utf-8")


if __name__ == "__main__":
    main()
