"""Drafts for engines that verify several tokens in one pass.

A draft is a guess. The engine computes the logits at all its positions at once, keeps the tokens that it would have
sampled there and drops the rest, so a draft does not change the text. It consists of the bytes that must come and,
between the parts of JSON, of the whitespace that this text, or the previous one, had in such a place. The tokenizer
spells it. Where there is a choice, tokens that occurred earlier in the text may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guiderail.matching.matcher import Matcher

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["Habits", "Layout", "draft"]

_SPACE = frozenset(b" \t\n\r")
_BYTES_PER_TOKEN = 8  # maximum per token of a guess
_SAME = 3  # tokens that are searched for first
_SAME_AT = ((2, 1), (4, 2), (32, 4), (128, 6))  # tokens that must agree if this many texts are written at once
_REMEMBERED = 256  # tokens of earlier text that are searched
_SPELLED = 8  # tokens before the guess that are spelled again together with it
_INSIDE_CHARACTER = frozenset([b"", *(bytes([byte]) for byte in range(0x80, 0xC0))])
_LONGEST, _DEEPEST = 64, 32  # maximum whitespace and open brackets of a remembered layout
_MOST_HABITS = 4096


@dataclass(slots=True)
class Habits:
    """How recent texts were laid out.

    Attributes:
        spaces: whitespace between parts, by the byte before it, the byte after it, and the depth of brackets.
        end: the token that ended the previous text.
        running: how many texts are being written at once. The more there are, the more a rejected token costs, so the
            more tokens must be equal before their continuation is drafted.
    """

    spaces: dict[tuple[int, int, int], bytes] = field(default_factory=dict)
    end: int | None = None
    running: int = 1

    @property
    def same(self) -> int:
        """How many tokens must equal those at an earlier position; see :func:`draft`."""
        return next((same for running, same in _SAME_AT if self.running <= running), 0)


_OPENING, _CLOSING, _QUOTE, _ESCAPE = frozenset(b"{["), frozenset(b"}]"), ord('"'), ord("\\")
_SEPARATING, _ANYWHERE = frozenset(b":,"), -1


class Layout:
    """The position of a text between the parts of JSON, and how it lays them out.

    Args:
        shared: habits of earlier texts; this one adds its own.
    """

    __slots__ = ("_before", "_depth", "_escaped", "_in_string", "_own", "_run", "shared")

    def __init__(self, shared: Habits) -> None:
        self._own: dict[tuple[int, int, int], bytes] = {}
        self.shared = shared
        self._before, self._depth = 0, 0  # the last byte that is no whitespace; open brackets
        self._in_string = self._escaped = False
        self._run = b""  # whitespace since then

    def copy(self) -> Layout:
        """A copy for looking ahead: what it reads does not change the habits."""
        twin = Layout(self.shared)
        twin._own = self._own
        twin._before, twin._depth, twin._run = self._before, self._depth, self._run
        twin._in_string, twin._escaped = self._in_string, self._escaped
        return twin

    def read(self, text: bytes, learn: bool = True) -> None:
        """Reads more of the text."""
        for byte in text:
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif byte == _ESCAPE:
                    self._escaped = True
                elif byte == _QUOTE:
                    self._in_string, self._before, self._run = False, byte, b""
            elif byte in _SPACE:
                self._run += bytes((byte,))
            else:
                depth = self._depth - (byte in _CLOSING)
                if learn and len(self._run) <= _LONGEST and depth <= _DEEPEST:
                    if len(self.shared.spaces) > _MOST_HABITS:  # for texts that are not JSON
                        self.shared.spaces.clear()
                    for place in ((self._before, byte, depth), (self._before, byte, _ANYWHERE)):
                        self._own[place] = self.shared.spaces[place] = self._run
                self._depth = depth + (byte in _OPENING)
                self._in_string, self._before, self._run = byte == _QUOTE, byte, b""

    def guess(self, byte: int) -> int:
        """Guesses what comes next, if that is either whitespace or this byte."""
        before, depth = self._before, self._depth - (byte in _CLOSING)
        for habits in (self._own, self.shared.spaces):
            run = habits.get((before, byte, depth))
            if run is None:
                run = habits.get((before, byte, _ANYWHERE))
                if run is not None and b"\n" in run:
                    run = None if depth else b"\n"
            if run is not None:
                break
        else:
            run = b" " if before in _SEPARATING else b""
        at = len(self._run)
        return run[at] if at < len(run) and run.startswith(self._run) else byte


def draft(matcher: Matcher, layout: Layout, most: int, same: int = 1) -> list[int]:
    """Returns tokens that are likely to come next, each allowed after the previous ones.

    Where the constraint leaves a choice, the draft repeats what followed the same tokens earlier in this text (prompt
    lookup: Saxena 2023). After that it continues with what must come.

    Args:
        matcher: the state of the text; it is not changed.
        layout: the layout of the text so far.
        most: maximum number of tokens.
        same: how many tokens must equal those at an earlier position before their continuation is repeated; 0: draft
            only what must come.
    """
    vocabulary = matcher.guide.vocabulary
    if most < 1 or matcher.is_terminated():
        return []
    at, ahead = matcher.fork(), layout.copy()
    found: list[int] = []
    while len(found) < most:
        new = _forced(at, ahead, most - len(found)) if vocabulary.can_encode else []
        if not new and same:
            new = _repeated(at.history(_REMEMBERED), most - len(found), same, vocabulary)
        before = len(found)
        for token in new:
            if at.is_terminated() or not at.accept_token(token):
                break
            found.append(token)
            ahead.read(vocabulary.core.token_bytes(token), learn=False)
        if len(found) - before < max(1, len(new)) or at.is_terminated():
            break
    return found


def _forced(matcher: Matcher, layout: Layout, most: int) -> list[int]:
    """What must come next apart from whitespace, as the tokenizer spells it."""
    program, state, ahead = matcher.program, matcher.state, layout.copy()
    guess = bytearray()
    over = False
    while len(guess) < most * _BYTES_PER_TOKEN:
        if program.is_nullable(state):
            over = not program.first_bytes(state)
            break
        byte = _next(program.first_bytes(state), ahead)
        if byte is None:
            break
        one = bytes((byte,))
        state = program.derivative(state, one)
        ahead.read(one, learn=False)
        guess += one
    tokens = _spelled(matcher, bytes(guess)) if guess else []
    if over and (tokens or not guess):
        ends = matcher.stop_token_ids()
        tokens += [layout.shared.end] if layout.shared.end in ends else ends[:1]
    return tokens[:most]


def _repeated(known: list[int], most: int, same: int, vocabulary: Vocabulary) -> list[int]:
    """What followed the last tokens at their previous occurrence; a single token must be punctuation."""
    if not known or known[-1] < 0:
        return []
    if same == 1 and vocabulary.core.token_bytes(known[-1])[-1:].isalnum():
        same = 2
    for n in range(max(same, _SAME), same - 1, -1):
        tail = known[-n:]
        for start in range(len(known) - n - 1, -1, -1):
            if known[start] == tail[0] and known[start : start + n] == tail:
                return known[start + n : start + n + (most if n > 1 else 1)]
    return []


def _next(first: bytes, layout: Layout) -> int | None:
    """The most likely next byte."""
    if len(first) == 1:
        return first[0]
    if len(first) <= len(_SPACE) + 1:
        others = [byte for byte in first if byte not in _SPACE]
        if len(others) == 1:
            return layout.guess(others[0])
    return None


def _spelled(matcher: Matcher, guess: bytes) -> list[int]:
    """The tokens of a guess, as the tokenizer spells it after the text."""
    vocabulary = matcher.guide.vocabulary
    text_of = vocabulary.core.token_bytes
    try:
        text = guess.decode()
        known = matcher.history(_SPELLED)
        while known and text_of(known[0])[:1] in _INSIDE_CHARACTER:
            known = known[1:]
        if -1 not in known:
            before = b"".join(map(text_of, known)).decode()
            tokens = vocabulary.encode(before + text)
            if tokens[: len(known)] == known:
                return tokens[len(known) :]
        return vocabulary.encode(text)
    except ValueError:  # part of a character, or what a tokenizer raises itself
        return []
