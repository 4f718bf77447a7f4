"""A running generation: what may come next, what was written, and how it ends.

``generate`` and the server drive the same :class:`Row`. What differs is passed in or overridden: where logits come
from, how special tokens are spelled, and who gets the text. A row repeats these steps until it is ``done``:

1. :meth:`Row.write_forced` writes what needs no model, and may leave the mask of the next token;
2. :meth:`Row.fill_mask` fills that mask otherwise, or the caller fills those of several rows at once;
3. :meth:`Row.draw` samples a token from masked logits, and again if the first leaves too few tokens to finish;
4. :meth:`Row.take` appends it.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import LimitError, ModelError
from guiderail.generation.budget import check_budget, least_tokens
from guiderail.generation.overlap import may_be_forced
from guiderail.generation.penalties import Penalties, Tally
from guiderail.generation.sampling import Sampler
from guiderail.matching.bitmask import allocate_token_bitmask, mask_rows
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks

__all__ = ["End", "Row", "StopText"]

End = Literal["complete", "stop", "stop-string", "length"]
"""How a text ended: nothing could follow; by a stop token; at a stop string; its tokens ran out."""

_FORCED_AT_ONCE = 4096  # bytes of forced text that are read in one call
_NO_MASK: NDArray[np.int32] = np.zeros((1, 0), np.int32)  # for a text that has not begun


class StopText:
    """Cuts a growing text at the first of several stop strings, and holds back what may become one.

    >>> cut = StopText(["END"])
    >>> cut.feed("one E"), cut.feed("two EN"), cut.feed("D three"), cut.found
    ('one ', 'Etwo ', '', 'END')
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def feed(self, piece: str) -> str:
        """The part of the text so far that can be shown now."""
        if not self._stops:
            return piece
        if self.found is not None:
            return ""
        text = self._held + piece
        places = [(at, -len(stop), stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            at, _, self.found = min(places)
            self._held = ""
            return text[:at]
        keep = max(
            (n for stop in self._stops for n in range(1, min(len(stop), len(text) + 1)) if text.endswith(stop[:n])),
            default=0,
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """The text held back, at the end."""
        held, self._held = self._held, ""
        return held


class Row:
    """A running generation of one text.

    Attributes:
        matcher: set by :meth:`begin`, since making it may take long.
        pending: tokens that the model has not read yet: at first the prompt.
        tokens: the tokens written.
        forced: how many of them needed no model.
        finishing: whether only tokens that leave enough to finish are allowed.
        promised: whether that was promised: if the search reaches a limit, the text fails.
        shortened_at: how many tokens were written when the token budget first forbade one that the model had chosen,
            which changed the text; None: never.
        refused: whether the last sampled token replaced one that would have left too few tokens to finish.
        done: whether the text has ended; ``end`` says why, unless it failed.
        matched: whether the constraint allows the text as returned.
        ready: whether all forced text is written.
        filled: whether ``mask``, shape ``(1, words)``, is that of the current state.
        mask_seconds: time spent on forced text and masks; mask_since: the ``time.perf_counter`` at which current work
            on them began.
    """

    def __init__(
        self,
        guide: Guide,
        sampler: Sampler,
        prompt: Sequence[int],
        limit: int,
        *,
        spell: Callable[[int], bytes],
        stops: Sequence[str] = (),
        penalties: Penalties | None = None,
        jump_forward: bool = True,
        ask_always: bool = False,
        prefix: bytes = b"",
    ) -> None:
        """Computes nothing yet.

        Args:
            limit: maximum number of tokens to write.
            spell: returns the bytes of a token in the text.
            stops: stop strings, which are not part of the result.
            penalties: penalties on tokens that the text already has.
            jump_forward: write forced text as the tokenizer spells it.
            ask_always: ask the model for every token, even if only one is allowed.
            prefix: text that the guide requires first and that is not part of the result: the removed end of the
                prompt.
        """
        self.guide, self.sampler, self.limit = guide, sampler, limit
        self.matcher: Matcher
        self.pending = list(prompt)
        self.prompt_tokens = len(self.pending)
        self.tokens: list[int] = []
        self.forced = 0
        self.finishing = self.promised = False
        self.shortened_at: int | None = None
        self.refused = False
        self.done = self.matched = False
        self.end: End | None = None
        self.ready = self.filled = False
        self.mask = _NO_MASK
        self.mask_seconds = 0.0
        self.mask_since: float | None = None
        self._has_symbols = False  # the constraint names tokens
        self._prefix, self._unshown = prefix, len(prefix)
        self._spell, self._jump_forward, self._ask_always = spell, jump_forward, ask_always
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cut = StopText(stops)
        self._tally = Tally(penalties, prompt) if penalties else None

    # -- notifications, for subclasses to override -------------------------------------------------------------------
    def on_forced(self, token: int) -> None:
        """A token that needs no model is about to be taken."""

    def on_text(self, text: str, token: int | None) -> None:
        """Called when the text has grown, perhaps by nothing: by a token, or (None) by text held back at its end."""

    def on_end(self) -> None:
        """The text has ended."""

    # -- from start to end -------------------------------------------------------------------------------------------
    @property
    def remaining(self) -> int:
        """The number of tokens that it may still write."""
        return self.limit - len(self.tokens)

    @property
    def shortened(self) -> bool:
        """Whether the text is complete, but another one than the model would have written with more tokens."""
        return self.shortened_at is not None and self.matched

    @property
    def stop_string(self) -> str | None:
        """The stop string that was met."""
        return self._cut.found

    def begin(self, on_incomplete: Literal["finish", "try", "return"], *, way_out: str = "", which: str = "") -> None:
        """Goes to the start; ends at once if the constraint allows only the empty text.

        Args:
            on_incomplete: ``"finish"``: the text is complete within its limit; ``"try"``: if possible; ``"return"``: it
                may be incomplete.
            way_out, which: see :func:`check_budget`.

        Raises:
            LimitError: a complete text was promised, and that cannot be kept.
        """
        started = self._timed()
        self.matcher = self.guide.matcher()
        self._has_symbols = bool(self.matcher.program.symbols())
        if self.matcher.is_complete():
            self._finish("complete", matched=True)
        elif on_incomplete != "return":
            needed = least_tokens(self.matcher, self.limit)
            self.finishing = needed is not None and needed <= self.limit
            self.promised = on_incomplete == "finish"
            if self.promised:
                check_budget(needed, self.limit, way_out=way_out, which=which)
        self._spent(started)

    def write_forced(self, *, fill: bool = True) -> None:
        """Writes what must come next, and leaves the mask in ``mask`` if there is a choice.

        That mask ignores the token budget: :meth:`draw` checks it when it matters, which is seldom.

        Args:
            fill: whether to fill the mask; otherwise :meth:`fill_mask` or the caller does.
        """
        started = self._timed()
        if self._jump_forward and not self._ask_always:
            for token in self.matcher.forced_tokens():
                if not self.fits(token):
                    break  # there are shorter spellings
                self.take(token, forced=True)
                if self.done:
                    break
        while not self.done:
            if not fill and (self._ask_always or not may_be_forced(self.matcher, self._has_symbols)):
                self.ready = True
                break
            self.fill_mask()
            token = -1 if self._ask_always else _only(self.mask[0])
            if token < 0:
                self.ready = True
                break
            self.take(token, forced=True)
        self._spent(started)

    def fill_mask(self) -> None:
        """Fills the mask of the next token."""
        started = self._timed()
        if self.mask is _NO_MASK:
            self.mask = allocate_token_bitmask(1, self.guide.vocabulary.size)
        fill_next_token_bitmasks([self.matcher], self.mask, [0], threads=1)
        self.filled = True
        self._spent(started)

    def fits(self, token: int) -> bool:
        """Whether the text can be finished in time after a token that the mask allows."""
        if not self.finishing:
            return True
        try:
            if not self.matcher.accept_within(token, self.remaining):
                return False
        except LimitError as error:
            self._give_up(error)
        self.matcher.rollback(self.matcher.step_count - len(self.tokens))
        return True

    def _give_up(self, error: LimitError) -> None:
        """Called if the search for a way to finish reaches a limit of the core: the text continues without, unless
        promised.

        Raises:
            LimitError: it was promised.
        """
        if self.promised:
            raise error
        self.finishing = False

    def draw(self, logits: NDArray[np.float32], width: int) -> int:
        """Samples the next token from those that leave enough tokens to finish.

        Sampling under the mask, and again under the budgeted mask if the token leaves too little, is the same as
        sampling under the budgeted mask. So that mask is needed only if the budget forbids a sampled token. With top-p,
        the other tokens that it keeps must fit, too.

        Args:
            logits: masked, shape ``(logits_size,)``; changed.
            width: how many of them belong to tokens.
        """
        only = _only(self.mask[0]) if self._ask_always else -1
        first = self.sampler(logits) if only < 0 else only  # a forced token uses no random number
        self.refused = False
        if not self.finishing:
            return first
        started = self._timed()
        try:
            fits = self.fits(first)
            if fits and (only >= 0 or self._stands(first)):
                return first
            narrow = allocate_token_bitmask(1, self.guide.vocabulary.size)
            self.matcher.fill_next_token_bitmask(narrow, 0, self.remaining)
        except LimitError as error:
            self._give_up(error)
            return first
        finally:
            self._spent(started)
        if fits and np.array_equal(narrow, self.mask):
            return first
        self.refused = not fits
        before = logits.copy()
        self.mask[:] = narrow
        mask_rows(logits[None], self.mask, [0], width)
        token = self.sampler.again(first, before, logits)
        if token != first and self.shortened_at is None and not self._rest_is_forced():
            self.shortened_at = len(self.tokens)
        return token

    def _stands(self, first: int) -> bool:
        """Whether the sampled token, which fits, would be at least as likely under the budgeted mask."""
        witnesses = self.sampler.witnesses(first)
        return witnesses is not None and all(token == first or self.fits(token) for token in witnesses)

    def _rest_is_forced(self) -> bool:
        """Whether only one text can follow, to the end. Then tokens differ only in how they cut it."""
        twin = self.matcher.fork()
        try:
            while rest := twin.forced_bytes(_FORCED_AT_ONCE):
                if not twin.accept_string(rest):
                    return False
            return twin.is_complete()
        except LimitError:
            return False

    def penalize(self, logits: NDArray[np.float32]) -> None:
        """Applies the penalties to the logits of the next token, shape ``(logits_size,)``, before they are masked."""
        if self._tally is not None:
            self._tally.apply(logits)

    def take(self, token: int, *, forced: bool = False) -> None:
        """Appends a token that the mask allows."""
        started = self._timed()
        if forced:
            self.on_forced(token)
        if not self.matcher.accept_token(token):
            raise ModelError(f"the token {token} was drawn although its mask forbids it", code="bad-logits")
        if not self.done:  # otherwise it was cancelled while the token was read
            self._append(token, forced)
        self._spent(started)

    def _append(self, token: int, forced: bool) -> None:
        self.ready = self.filled = False
        self.tokens.append(token)
        self.forced += forced
        if self.matcher.is_terminated():
            self._finish("stop", matched=True)
            return
        self.pending.append(token)
        if self._tally is not None:
            self._tally.note(token)
        spelled = self._spell(token)
        shown = spelled[self._unshown :]
        self._unshown -= len(spelled) - len(shown)
        self.on_text(self._cut.feed(self._decoder.decode(shown)), token)
        if self._cut.found is not None:
            self._finish("stop-string", matched=self._is_match_without(self._cut.found))
        elif self.matcher.is_complete():
            self._finish("complete", matched=True)
        elif self.remaining <= 0:
            self._finish("length", matched=self.matcher.is_accepting())

    def _is_match_without(self, stop: str) -> bool:
        """Whether the constraint allows the text up to a stop string."""
        text = b"".join(map(self._spell, self.tokens))[len(self._prefix) :].decode("utf-8", "replace")
        matcher = self.guide.matcher()
        try:
            return matcher.accept_string(self._prefix.decode() + text[: text.index(stop)]) and matcher.is_accepting()
        except LimitError:
            return False

    def _finish(self, end: End, *, matched: bool) -> None:
        if self.done:  # it was cancelled in the meantime
            return
        if rest := self._cut.flush():
            self.on_text(rest, None)
        self.done, self.end, self.matched = True, end, matched
        self.on_end()

    # -- time --------------------------------------------------------------------------------------------------------
    def _timed(self) -> float | None:
        """Starts the timer; returns None if it is already running."""
        if self.mask_since is not None:
            return None
        self.mask_since = started = time.perf_counter()
        return started

    def _spent(self, started: float | None) -> None:
        if started is not None:
            self.mask_since = None
            self.mask_seconds += time.perf_counter() - started


def _only(words: NDArray[np.int32]) -> int:
    """The token of a mask that allows just one, or -1."""
    (filled,) = np.nonzero(words)
    if len(filled) != 1:
        return -1
    word = int(words[filled[0]]) & 0xFFFFFFFF
    return -1 if word & (word - 1) else 32 * int(filled[0]) + word.bit_length() - 1
