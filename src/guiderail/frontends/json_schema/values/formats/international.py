"""International host names (RFC 5890 to 5893) and mail addresses (RFC 6531).

A label in its native form (a U-label) is checked against all rules of the RFCs, and nearly all of these are regular:
the code points and their contexts (RFC 5892), hyphens and combining marks (RFC 5891, section 4.2.3), normal form C, and
the directions of a name that is written from right to left (RFC 5893, section 2). Each rule is one expression, and a
label is their intersection.

Combining marks are left out, except for those that some scripts need (see ``normal_form``). Two rules are not regular,
so the format has a narrow and a wide side:

* The Punycode of a label must fit into 63 octets, and the whole name into 253. ``_idna.WINDOWS`` says how many code
  points surely fit, by the range that they come from. The narrow side leaves out longer labels, and names of more than
  three labels have at most 67 code points.
* Labels written in Punycode (``xn--…``) must decode to valid ones: the narrow side leaves them out.
"""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.formats import _idna
from guiderail.frontends.json_schema.values.formats._cached_regex import cached_regex
from guiderail.frontends.json_schema.values.formats.internet import address_literal, domain, email
from guiderail.frontends.regex.charsets import ANY, _unpack
from guiderail.support.caches import cached

__all__ = ["idn_email", "idn_email_wide", "idn_hostname", "idn_hostname_wide"]

_ZWNJ, _ZWJ, _MIDDLE_DOT, _KERAIA, _KATAKANA_DOT = 0x200C, 0x200D, 0xB7, 0x375, 0x30FB
_GERESH, _ARABIC, _EXTENDED = (0x5F3, 0x5F4), (0x660, 0x669), (0x6F0, 0x6F9)
_SEPARATORS = CharSet([(0x2E, 0x2E), (0x3002, 0x3002), (0xFF0E, 0xFF0E), (0xFF61, 0xFF61)])
_RANKS = (9, 103, 107, 118, 122)  # viramas, and the vowels and tones of Thai and Lao
_ASCII = CharSet([(0, 0x7F)])
_LDH = CharSet([(45, 45), (48, 57), (65, 90), (97, 122)])


@lru_cache(maxsize=128)
def _set(packed: str) -> CharSet:
    return CharSet(_unpack(packed))


@lru_cache(maxsize=64)
def _one(low: int, high: int | None = None) -> CharSet:
    return CharSet([(low, low if high is None else high)])


@lru_cache(maxsize=1)
def _valid() -> CharSet:
    """Every code point that a U-label may contain, in its context."""
    context = [_ZWNJ, _ZWJ, _MIDDLE_DOT, _KERAIA, _KATAKANA_DOT, *_GERESH]
    return _set(_idna.VALID) | CharSet([*((c, c) for c in context), _ARABIC, _EXTENDED])


@lru_cache(maxsize=1)
def _windows_of() -> dict[frozenset[tuple[int, int, int, int]], CharSet]:
    """The characters beyond ASCII, by the windows that contain them."""
    edges = sorted({edge for low, high, *_ in _idna.WINDOWS for edge in (low, high + 1)})
    found: dict[frozenset[tuple[int, int, int, int]], CharSet] = {}
    for low, end in itertools.pairwise(edges):
        windows = frozenset(window for window in _idna.WINDOWS if window[0] <= low <= window[1])
        found[windows] = found.get(windows, CharSet([])) | _one(low, end - 1)
    return found


class _Labels:
    """The expressions of labels, in one builder."""

    def __init__(self, b: _core.Builder, normalised: bool, most: int | None = None) -> None:
        self.b = b
        self.normalised = normalised
        self.most = most  # no name has more characters, so larger limits make no difference
        self.any = b.repeat(b.char_class(ANY), 0)

    def one(self, chars: CharSet) -> int:
        return self.b.char_class(chars)

    def without(self, *parts: int) -> int:
        """Texts that contain this sequence of parts nowhere."""
        return self.b.complement(self.b.concat([self.any, *parts, self.any]))

    def after(self, chars: CharSet, before: int) -> int:
        """Texts in which ``before`` ends in front of each of these characters."""
        b = self.b
        return b.complement(b.concat([b.complement(b.concat([self.any, before])), self.one(chars), self.any]))

    def followed(self, chars: CharSet, after: int) -> int:
        b = self.b
        return b.complement(b.concat([self.any, self.one(chars), b.complement(b.concat([after, self.any]))]))

    def contexts(self) -> list[int]:
        """RFC 5892, appendix A."""
        b, one = self.b, self.one
        small_l, virama = b.literal(b"l"), one(_set(_idna.VIRAMAS))
        through = b.repeat(one(_set(_idna.JOINING_T)), 0)
        zwnj = one(_one(_ZWNJ))
        not_after_virama = b.complement(b.concat([self.any, virama]))
        dual = _set(_idna.JOINING_D)
        begun = b.concat([self.any, one(_set(_idna.JOINING_L) | dual), through])
        ended = b.concat([through, one(_set(_idna.JOINING_R) | dual), self.any])
        unjoined = b.union([
            b.concat([b.intersection([not_after_virama, b.complement(begun)]), zwnj, self.any]),
            b.concat([not_after_virama, zwnj, b.complement(ended)]),
        ])  # fmt: skip
        kana = b.concat([self.any, one(_set(_idna.KANA_HAN)), self.any])
        return [
            b.complement(unjoined),
            self.after(_one(_ZWJ), virama),
            self.after(_one(_MIDDLE_DOT), small_l),
            self.followed(_one(_MIDDLE_DOT), small_l),
            self.followed(_one(_KERAIA), one(_set(_idna.GREEK))),
            self.after(_one(*_GERESH), one(_set(_idna.HEBREW))),
            b.union([self.without(one(_one(_KATAKANA_DOT))), kana]),
            b.union([self.without(one(_one(*_ARABIC))), self.without(one(_one(*_EXTENDED)))]),
        ]

    def normal_form(self) -> list[int]:
        """NFC: no pair that composes, marks in the order of their classes (Unicode, D108 to D117).

        The narrow side has only marks of the classes ``_RANKS``, which words need. With all marks, the automaton would
        be too large to walk a vocabulary through.
        """
        b, one = self.b, self.one
        ranks = sorted((rank, _set(packed)) for rank, packed in _idna.RANKS.items() if rank in _RANKS)
        others = [_set(packed) for rank, packed in _idna.RANKS.items() if rank not in _RANKS]
        allowed = b.repeat(one(~functools.reduce(operator.or_, others)), 0)
        below: dict[int, CharSet] = {}
        sofar = CharSet([])
        for rank, chars in ranks:
            below[rank] = sofar
            sofar = sofar | chars
        disorder = [b.concat([one(sofar - below[rank] - chars), one(chars)]) for rank, chars in ranks[:-1]]
        composed = []
        for rank, firsts, seconds in _idna.COMPOSED:
            if rank and rank not in _RANKS:
                continue
            between = b.repeat(one(below[rank]), 0) if rank else b.EPSILON
            composed.append(b.concat([one(_set(firsts)), between, one(_set(seconds))]))
        # one complement each: it dies where its pair is met
        return [allowed, *(self.without(pair) for pair in disorder + composed)]

    def at_most(self, most: int, e: int) -> int:
        """``e``, in no more characters than that."""
        if self.most is not None and self.most <= most:
            return e
        return self.b.intersection([e, self.b.repeat(self.b.char_class(ANY), 0, most)])

    def lengths(self) -> int:
        """Texts of a length that one of the windows allows, with a character beyond ASCII.

        Up to that character, each length is a state of its own, written out. It decides which few windows are left.
        """
        b, ascii_char = self.b, self.one(_ASCII)
        groups = [
            (self.one(chars), [window for window in _idna.WINDOWS if window in windows])
            for windows, chars in _windows_of().items()
        ]
        state = b.EMPTY
        for read in reversed(range(max(most for *_, most in _idna.WINDOWS))):
            ways = [b.concat([ascii_char, state])]
            for first, windows in groups:
                rest = [self.within(window, read + 1) for window in windows if window[-1] > read]
                if rest:
                    ways.append(b.concat([first, b.union(rest)]))
            state = b.union(ways)
        return state

    def within(self, window: tuple[int, int, int, int], read: int) -> int:
        """What may follow so many characters, the last of which is the first one beyond ASCII."""
        b, (low, high, foreign, most) = self.b, window
        beyond = _one(low, high)
        if foreign >= most:
            return b.repeat(self.one(_ASCII | beyond), 0, most - read)
        run = b.repeat(self.one(_ASCII), 0)
        more = b.repeat(b.concat([self.one(beyond), run]), 0, foreign - 1)
        return self.at_most(most - read, b.concat([run, more]))

    def native(self) -> int:
        """A U-label, except for its code points and its direction."""
        b, any_text = self.b, self.any
        hyphen, two = b.literal(b"-"), b.concat([b.char_class(ANY)] * 2)
        rules = [
            b.complement(b.concat([two, b.literal(b"--"), any_text])),
            b.complement(b.concat([hyphen, any_text])),
            b.complement(b.concat([any_text, hyphen])),
            b.complement(b.concat([self.one(_set(_idna.MARKS)), any_text])),
            self.lengths(),
            *self.contexts(),
        ]  # fmt: skip
        return b.intersection(rules + (self.normal_form() if self.normalised else []))

    def plain(self) -> int:
        """An ASCII label that is not Punycode; reserved labels (``ab--c``) are left out, too."""
        b = self.b
        alnum = self.one(_LDH - _one(45))
        most = 61 if self.most is None or self.most > 63 else -1
        label = b.concat([alnum, b.repeat(b.concat([b.repeat(self.one(_LDH), 0, most), alnum]), 0, 1)])
        reserved = b.concat([b.char_class(ANY), b.char_class(ANY), b.literal(b"--"), self.any])
        return b.intersection([label, b.complement(reserved)])

    def names(self) -> int:
        """Host names: three labels of any kind, or three native ones in 67 code points, or ASCII in 253.

        If a label contains right-to-left characters, all labels of the name obey the six rules of RFC 5893, section 2:
        rules 1 to 4 define ``from_right``, rules 1, 5 and 6 ``from_left``.
        """
        b, one = self.b, self.one
        native, plain = self.native(), self.plain()
        rtl, arabic, european = _set(_idna.BIDI_RTL), _set(_idna.BIDI_AN), _set(_idna.BIDI_EN) | _one(0x30, 0x39)
        neutral, nsm = _set(_idna.BIDI_NEUTRAL) | _one(45), _set(_idna.BIDI_NSM)
        left = _valid() - rtl - arabic - european - neutral - nsm
        marks = b.repeat(one(nsm), 0)
        # characters whose context requires one that is written from the left
        out_of_place = CharSet([(c, c) for c in (_MIDDLE_DOT, _KERAIA, _KATAKANA_DOT)])
        from_right = b.intersection([
            b.repeat(one((rtl | arabic | european | neutral | nsm) - out_of_place), 1),
            b.concat([one(rtl), self.any]),
            b.concat([self.any, one(rtl | arabic | european), marks]),
            b.union([self.without(one(arabic)), self.without(one(european))]),
            native,
        ])  # fmt: skip
        from_left = b.intersection([
            b.repeat(one(left | european | neutral | nsm), 1),
            b.concat([one(left), self.any]),
            b.concat([self.any, one(left | european), marks]),
            native,
        ])  # fmt: skip
        plain_left = b.intersection([b.concat([one(_LDH - neutral - european), self.any]), plain])
        straight = b.intersection([b.repeat(one(_valid() - rtl - arabic), 1), native])

        separator = one(_SEPARATORS)
        other = b.union([plain_left, from_left])
        some = b.repeat(b.concat([separator, b.union([other, from_right])]), 0, 1)
        more = b.repeat(b.concat([separator, b.union([other, from_right])]), 0, 2)
        turned = b.union([
            b.concat([from_right, more]),
            b.concat([other, separator, from_right, some]),
            b.concat([other, separator, other, separator, from_right]),
            self.at_most(67, self.with_three(plain_left, from_right)),
        ])  # fmt: skip
        names = [
            turned,
            self.at_most(67, self.with_three(plain, straight)),
            self.at_most(253, b.concat([plain, b.repeat(b.concat([separator, plain]), 0)])),
        ]
        if self.most is None or self.most > 67:
            label = b.union([plain, straight])
            names.append(b.concat([label, b.repeat(b.concat([separator, label]), 0, 2)]))
        return b.union(names)

    def with_three(self, plain: int, native: int) -> int:
        """Any number of plain labels around one to three native ones."""
        b = self.b
        separator = self.one(_SEPARATORS)
        before, after = b.repeat(b.concat([plain, separator]), 0), b.repeat(b.concat([separator, plain]), 0)
        return b.concat([before, native, after, b.repeat(b.concat([separator, native, after]), 0, 2)])


@dataclass(frozen=True, slots=True)
class _Names(Constraint):
    """International host names; ``normalised``: in normal form C."""

    normalised: bool
    most: int | None = None

    def _lower(self, b: _core.Builder) -> int:
        return _Labels(b, self.normalised, self.most).names()


# At most 64 octets of UTF-8, judged by the range of the characters.
_OCTETS = r"[\s\S]{1,16}|[\x00-\uffff]{1,21}|[\x00-\u07ff]{1,32}|[\x00-\x7f]{1,64}"
_WIDE = "[^\\x00-,/:-@\\[-`{-\x7f.\u3002\uff0e\uff61]+"
_ATOM = '[^\\x00- "(),.:;<>@\\[\\\\\\]\x7f]+'
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[^\x00-\x1f"\\\x7f]|\\[ -~])*")'


def idn_hostname() -> Constraint:
    """International host names of labels in native form or ASCII."""
    return _Names(True)


def idn_hostname_wide() -> Constraint:
    """Names whose labels contain no ASCII characters except letters, digits and hyphens."""
    return cached_regex(f"{_WIDE}(?:[.\u3002\uff0e\uff61]{_WIDE})*")


@cached(1 << 20)
def idn_email() -> Constraint:
    """``Mailbox`` of RFC 5321 with the additions of RFC 6531, section 3.3; the local part of at most 64 octets:
    64 characters of ASCII, 32 below U+0800, 21 below U+10000, or 16.

    The domain is an international host name, which RFC 6531 does not ask to be in normal form C. That the whole has at
    most 254 octets follows from 47 characters in such a domain, and from 189 in one of ASCII after a local part
    that is not.
    """
    local = cached_regex(_LOCAL) & cached_regex(_OCTETS)
    foreign = local & cached_regex(r"[\s\S]*[^\x00-\x7f][\s\S]*")
    names = _Names(False, 47).limited_to(47)
    return email() | foreign + "@" + (domain().limited_to(189) | address_literal()) | local + "@" + names


@cached(1 << 20)
def idn_email_wide() -> Constraint:
    """With any characters beyond ASCII in the domain, of any length; the local part of at most 64 characters."""
    return cached_regex(_LOCAL).limited_to(64) + "@" + (idn_hostname_wide() | address_literal())
