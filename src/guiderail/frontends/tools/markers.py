"""Strings that a model may write as special tokens, and free text up to one of them.

A marker such as ``<tool_call>`` is a special token of one tokenizer and ordinary text of another. In a third one, only
part of a longer marker is a token. A constraint is made without a vocabulary, so a `Marker` is resolved when it is
lowered: inside `special_tokens_of(vocabulary)`, each special token's text in it may be written as that token or spelled
out; elsewhere it is spelled out.

Triggers are part of the automaton. Free text is *text in which no trigger occurs*, a complement. Text up to a trigger
is *text that ends with the trigger and contains it nowhere before*, an intersection with a complement (Koo, Liu & He
2024, Table 1, TEXT_UNTIL). Its derivatives are the states of the automaton of Aho and Corasick (1975), found as they
are read. Where tokens begin and end does not matter, so a token may straddle a trigger in any way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import EVERY_CHARACTER, Constraint
from guiderail.constraints.sharing import lowered
from guiderail.constraints.special_tokens import SpecialTokens, current_special_tokens, special_tokens_of
from guiderail.constraints.triggers import before_any, up_to
from guiderail.support.caches import cached

__all__ = ["Dispatch", "ForVocabulary", "FreeText", "Marker", "TurnEnd"]


@dataclass(frozen=True, slots=True)
class ForVocabulary(Constraint):
    """A constraint whose markers are those of one vocabulary, whichever vocabulary it is compiled for."""

    constraint: Constraint
    specials: SpecialTokens

    def _lower(self, b: _core.Builder) -> int:
        with special_tokens_of(self.specials):
            return self.constraint._lower(b)

    def __repr__(self) -> str:
        return repr(self.constraint)


def pieces(text: str) -> list[tuple[str, bool]]:
    """Splits a marker at the special tokens in it: pairs of a string and whether it is one. Prefers the longest."""
    return _cut(text, current_special_tokens().names) if text else []


@cached(4 << 20, lambda _, text, names: 4 * len(text) + 100 * len(names))
def _cut(text: str, names: frozenset[str]) -> list[tuple[str, bool]]:
    found = sorted((name for name in names if name in text), key=len, reverse=True)
    if not found:
        return [(text, False)]
    parts = re.split(f"({'|'.join(map(re.escape, found))})", text)
    return [(part, i % 2 == 1) for i, part in enumerate(parts) if part]


@dataclass(frozen=True, slots=True)
class Marker(Constraint):
    """A string in which special tokens of the vocabulary may be written as such."""

    text: str

    def _lower(self, b: _core.Builder) -> int:
        return marker(b, pieces(self.text))

    def __repr__(self) -> str:
        return f"marker({self.text!r})"


def marker(b: _core.Builder, cut: Sequence[tuple[str, bool]]) -> int:
    """The expression of a marker, or of a part of one."""
    parts = []
    for text, special in cut:
        spelled = b.literal(text.encode())
        parts.append(b.union([b.token([text]), spelled]) if special else spelled)
    return b.concat(parts)


@dataclass(frozen=True, slots=True)
class TurnEnd(Constraint):
    """A marker that ends the text, and may be omitted. If it is a stop token, the stop token is written."""

    text: str

    def _lower(self, b: _core.Builder) -> int:
        if self.text in current_special_tokens().stops:
            return b.EPSILON
        return b.repeat(Marker(self.text)._lower(b), 0, 1)

    def __repr__(self) -> str:
        return f"turn_end({self.text!r})"


def anything(b: _core.Builder) -> int:
    return b.repeat(b.char_class(EVERY_CHARACTER), 0, -1)


def beginnings(ends: Sequence[str]) -> list[str]:
    """What a text must not end with, if one of these follows it and a reader looks for the first of them."""
    return [one[:size] for one in ends for size in range(1, len(one)) if any(e.startswith(one[size:]) for e in ends)]


def without(b: _core.Builder, forbidden: Sequence[str], ends: Sequence[str] = ()) -> int:
    """Any text that contains none of these, and in which none of ``ends`` begins before the one that follows it.

    In ``"x\\n</a>\\n</a>\\n"``, the end ``"\\n</a>\\n"`` comes after ``x``, so it cannot come after ``x\\n</a>``.
    """
    some = [text.encode() for text in forbidden if text]
    every = anything(b)
    if not some:
        return every
    bad = [b.concat([every, b.choice(some), every])]
    if early := beginnings(ends):
        bad.append(b.concat([every, b.choice([text.encode() for text in early])]))
    return b.complement(b.union(bad))


@dataclass(frozen=True, slots=True)
class FreeText(Constraint):
    """Any text that contains none of ``forbidden``, of at most ``max_characters``, in at most ``max_tokens``.

    A token counts if any of its bytes belongs to this text, wherever it begins and ends. A character that has begun is
    finished, even if that takes more tokens. One of ``ends`` follows, and a reader looks for the first one.
    """

    forbidden: tuple[str, ...] = ()
    max_characters: int | None = None
    max_tokens: int | None = None
    ends: tuple[str, ...] = ()

    def _lower(self, b: _core.Builder) -> int:
        free = without(b, self.forbidden, self.ends)
        if self.max_characters is not None:
            short = b.repeat(b.char_class(EVERY_CHARACTER), 0, self.max_characters)
            free = short if not self.forbidden else b.intersection([short, free])
        return free if self.max_tokens is None else b.counted(free, self.max_tokens)

    def __repr__(self) -> str:
        return f"free_text(without={self.forbidden!r})"


@dataclass(frozen=True, slots=True)
class Dispatch(Constraint):
    """Free text in which each trigger is followed by its rule.

    Attributes:
        rules: pairs of a string that begins with a trigger, and what must follow that text.
        triggers: strings that occur in free text only as the beginning of a rule.
        excludes: strings that do not occur in free text at all.
        loop: whether free text and further rules may follow a rule.
        required: whether the text begins with a rule.
        trailing: whether free text may follow the last rule (otherwise the text ends with a rule).
    """

    rules: tuple[tuple[str, Constraint], ...]
    triggers: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    loop: bool = True
    required: bool = False
    trailing: bool = True

    def _lower(self, b: _core.Builder) -> int:
        forbidden = tuple(text for text in dict.fromkeys((*self.triggers, *self.excludes)) if text)
        free = without(b, forbidden)
        late = before_any(forbidden)  # one object, which is lowered once for all triggers
        first = []  # rules without free text before
        led = []  # rules with free text before
        by_trigger: dict[str, list[int]] = {}
        for text, content in self.rules:
            rest = content._lower(b)
            if self.required:
                first.append(b.concat([Marker(text)._lower(b), rest]))
            trigger = max((t for t in self.triggers if text.startswith(t)), key=len)
            cut = pieces(text)
            after = b.concat([Marker(text[len(trigger) :])._lower(b), rest])
            by_trigger.setdefault(trigger, []).append(after)
            at = 0
            for i, (piece, special) in enumerate(cut):  # the first piece that is written as a token is this one
                if special and at < len(trigger):
                    written = [self._ending(b, text[:at], free), b.token([piece]), marker(b, cut[i + 1 :]), rest]
                    led.append(b.concat(written))
                at += len(piece)
        found = lowered([up_to(trigger, forbidden, late) for trigger in by_trigger], b)
        led += [b.concat([e, b.union(afters)]) for e, afters in zip(found, by_trigger.values(), strict=True)]
        one = b.union(led)
        if not self.required:
            if self.loop:
                rules = b.repeat(one, 0, -1)
                return b.concat([rules, free]) if self.trailing else rules
            return b.union([free, one]) if self.trailing else one
        start = b.union(first)
        if not self.loop:
            return start
        parts = [start, b.repeat(one, 0, -1)]
        return b.concat([*parts, free] if self.trailing else parts)

    @staticmethod
    def _ending(b: _core.Builder, end: str, free: int) -> int:
        """Free text before a token. No text runs into the token."""
        return free if not end else b.intersection([b.concat([anything(b), b.literal(end.encode())]), free])

    def __repr__(self) -> str:
        return f"dispatch({', '.join(map(repr, self.triggers))})"
