"""Drafts for engines that verify several tokens in one pass: what the constraint leaves hardly a choice about.

A draft is a guess. The engine computes the logits at all its places at once, keeps the tokens that it would have drawn
there and drops the rest, so the text does not depend on it. What is guessed is text: the bytes that must come, and
between the parts of JSON the white space that this text, or the one before, had in such a place. The tokenizer spells
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from guiderail.matching.matcher import Matcher

__all__ = ["Habits", "Layout", "draft"]

_SPACE = frozenset(b" \t\n\r")
_BYTES_PER_TOKEN = 8  # that a guess is made of, at most
_SPELLED = 8  # tokens before the guess that are spelled again with it
_INSIDE_CHARACTER = frozenset([b"", *(bytes([byte]) for byte in range(0x80, 0xC0))])
_LONGEST, _DEEPEST = 64, 32  # white space and brackets that are worth a habit
_MOST_HABITS = 4096


@dataclass(slots=True)
class Habits:
    """How texts were written lately.

    Attributes:
        spaces: white space between parts: by the byte before it, the byte after it, and the depth of brackets there.
        end: the token that ended the last one.
    """

    spaces: dict[tuple[int, int, int], bytes] = field(default_factory=dict)
    end: int | None = None


_OPENING, _CLOSING, _QUOTE, _ESCAPE = frozenset(b"{["), frozenset(b"}]"), ord('"'), ord("\\")
_COLON, _ANYWHERE = ord(":"), -1


class Layout:
    """Where a text stands between the parts of JSON, and how it lays them out.

    Args:
        shared: habits of the texts before it; this one adds its own.
    """

    __slots__ = ("_before", "_depth", "_escaped", "_in_string", "_own", "_run", "shared")

    def __init__(self, shared: Habits) -> None:
        self._own: dict[tuple[int, int, int], bytes] = {}
        self.shared = shared
        self._before, self._depth = 0, 0  # the last byte that is no white space; open brackets
        self._in_string = self._escaped = False
        self._run = b""  # white space since then

    def copy(self) -> Layout:
        """The same place, for a look ahead: what it reads becomes no habit of this one."""
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
                    if len(self.shared.spaces) > _MOST_HABITS:  # of texts that are no JSON
                        self.shared.spaces.clear()
                    for place in ((self._before, byte, depth), (self._before, byte, _ANYWHERE)):
                        self._own[place] = self.shared.spaces[place] = self._run
                self._depth = depth + (byte in _OPENING)
                self._in_string, self._before, self._run = byte == _QUOTE, byte, b""

    def guess(self, byte: int) -> int:
        """What comes next where it is either white space or this byte."""
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
            run = b" " if before == _COLON else b""
        at = len(self._run)
        return run[at] if at < len(run) and run.startswith(self._run) else byte


def draft(matcher: Matcher, layout: Layout, most: int) -> list[int]:
    """Tokens that may well come next; some of them may be refused.

    Args:
        matcher: where the text stands; it is not changed.
        layout: of the text, up to there.
        most: tokens of a draft.
    """
    vocabulary = matcher.guide.vocabulary
    if most < 1 or not vocabulary.can_encode or matcher.is_terminated():
        return []
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


def _next(first: bytes, layout: Layout) -> int | None:
    """The byte that comes next, as far as one can tell."""
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
