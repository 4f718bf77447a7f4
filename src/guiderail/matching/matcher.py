"""The state of one generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.support.arguments import checked, checked_methods
from guiderail.support.other_names import unknown_attributes
from guiderail.vocabulary._ids import stop_ids

if TYPE_CHECKING:
    from guiderail.matching.guide import Guide

__all__ = ["Matcher", "fill_next_token_bitmasks"]

_MOST_THREADS = 1 << 16  # more threads make no difference
_FORCED_LIMIT = 4096  # maximum look-ahead in bytes of forced text
_SPELLED_ANEW = 8  # tokens before forced text that are spelled again together with it
_MET_AGAIN = 4  # how many of these, the last ones, the new spelling must contain
_PROBED = 4  # tokens at the end of forced text that are spelled together with possible continuations
_INSIDE_CHARACTER = frozenset([b"", *(bytes([byte]) for byte in range(0x80, 0xC0))])


@checked_methods
class Matcher(_core.Matcher):
    """Follows one output, token by token. Made by :meth:`Guide.matcher`; for one thread at a time.

    A call that returns False or raises leaves the state unchanged. ``accept_token``, ``fill_next_token_bitmask``,
    ``rollback``, ``reset``, ``is_accepting``, ``is_complete`` and ``is_terminated`` run in the core:

    ``accept_token(id) -> bool``
        Reads a token. Returns False, and changes nothing, if the mask forbids it. A stop token is accepted where the
        text may end, and terminates the matcher. Raises MatcherError after termination or for an id out of range.
    ``fill_next_token_bitmask(bitmask, row=0, budget=None) -> bool``
        Writes row ``row`` of an int32 array of shape ``(batch, >= ceil(vocabulary.size / 32))`` (NumPy, or a CPU
        tensor): bit ``i % 32`` of word ``i // 32`` is 1 if and only if token ``i`` can come next. Words beyond the
        vocabulary become 0. Returns whether any token is forbidden. Raises BitmaskError, MatcherError.

        ``budget`` is the number of tokens that are left. With it, a token is allowed only if the text can be completed
        with one token fewer after it. So if you sample from these masks, and lower the budget by one each time, you end
        with a complete text. Stop tokens do not count: they are allowed wherever the text may end. Tokens for which no
        completion was found are forbidden, too. Raises LimitError: ``budget-too-small`` if the text cannot be completed
        within the budget, ``budget-unknown`` if no way to complete it was found.
    ``least_tokens(thorough=True) -> int | None``
        A number of tokens that completes the text, stop tokens not counted: 0 if it may end, None if no way was found.
        It is the minimum if tokens can reach only a few states; otherwise it may be a few tokens more. With
        ``thorough=False`` it returns the first number found, sooner.
    ``accept_within(id, budget) -> bool``
        As ``accept_token``, but also returns False for a token after which ``budget - 1`` tokens may not suffice to
        complete the text. Much cheaper than a mask with a budget: draw from the mask without one, and only if this
        returns False draw again from the mask with the budget.
    ``validate(draft) -> int``
        The number of tokens of a draft that could be accepted in sequence. Accepts nothing.
    ``fill_draft(draft, bitmask, parents=None, first_row=0) -> list[bool]``
        Fills all masks that a draft needs, in one call: row ``first_row`` for now, row ``first_row + 1 + i`` for after
        ``draft[i]``. In a draft tree, ``parents[i]`` is the index in the draft of the token before token i, or -1 for
        the text accepted so far. Returns which tokens can be accepted; the rows after the others allow everything.
    ``rollback(count)``
        Undoes the last ``count`` accepted tokens. A string accepted by ``accept_string`` counts as one.
    ``reset()``
        Returns to the start, on a fresh program if the guide needs one.
    ``is_accepting()``, ``is_complete()``, ``is_terminated()``
        Whether the text may end here; whether it must (only a stop token can follow); whether a stop token was
        accepted.
    ``step_count``, ``history(last=None)``
        The number of accepted steps, and their tokens (-1 for a string): all of them, or the last ``last``. Forks
        share what they have in common, so a fork costs the same however long the text is.
    ``state``, ``program``
        The state is a number that belongs to the program. A program stays the same from a start to the next
        ``reset()``, and forks share it. States of two programs of one guide are unrelated (see :class:`Guide`).
    """

    if not TYPE_CHECKING:
        __getattr__ = unknown_attributes(
            **dict.fromkeys(("accept", "advance", "consume_token", "commit_token"), "accept_token(id) reads a token"),
            **dict.fromkeys(
                ("accept_tokens", "consume_tokens", "try_accept_tokens"),
                "accept_token(id) reads one token, and validate(ids) says how many of several could be read",
            ),
            **dict.fromkeys(
                (
                    "mask",
                    "compute_mask",
                    "get_mask",
                    "fill_bitmask",
                    "fill_mask",
                    "allowed_tokens",
                    "get_allowed_tokens",
                ),
                "fill_next_token_bitmask(bitmask, row) writes the mask, and gr.bitmask_to_bool(bitmask) reads it",
            ),
            **dict.fromkeys(
                ("is_finished", "is_completed", "is_done", "is_stopped", "finished"),
                "is_terminated() says whether a stop token was read, and is_complete() whether nothing else can follow",
            ),
        )

    __slots__ = ("guide",)

    guide: Guide

    def __init__(self, guide: Guide, stop_token_ids: Sequence[int] | int | None = None) -> None:
        super().__init__(guide.core, None if stop_token_ids is None else stop_ids(stop_token_ids))
        self.guide = guide

    def fork(self) -> Matcher:
        """Returns an independent copy in the same state. Costs about a microsecond, however long the text is."""
        twin = Matcher.__new__(Matcher)
        _core.Matcher.__init__(twin, self)
        twin.guide = self.guide
        return twin

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Matcher:
        return self.fork()

    def dump(self) -> str:
        """Returns the expression of the state as readable text."""
        return self.program.dump(self.state)

    def accept_string(self, text: str | bytes) -> bool:
        """Reads text, however it is split into tokens. Returns False, and changes nothing, if no match continues with
        it.
        """
        if isinstance(text, str):
            try:
                text = text.encode()
            except UnicodeEncodeError:
                return False
        return super().accept_string(text)

    def find_jump_forward_string(self) -> str:
        """Returns the only text that can come next; empty if there is a choice.

        It ends where the text may end, and never inside a character; it has at most 4,096 bytes. After feeding it to a
        model as tokens, pass it to :meth:`accept_string`.
        """
        return self.forced_bytes(_FORCED_LIMIT).decode(errors="ignore")

    def forced_tokens(self) -> list[int]:
        """Returns the only tokens that can come next, spelled as the tokenizer spells them.

        Empty if there is a choice, if the vocabulary has no ``encode``, or if the tokenizer could spell the forced text
        differently because of text before or after it. Feeding these tokens to the model saves forward passes and keeps
        to the spelling that the model was trained on.
        """
        vocabulary = self.guide.vocabulary
        forced = self.find_jump_forward_string() if vocabulary.can_encode else ""
        if not forced:
            return []
        wanted = forced.encode()
        if self._may_grow(wanted):  # no need to ask the tokenizer, unless it is the last
            after = self.fork()
            if not after.accept_string(forced) or not after.is_complete():
                return []
        before = self._spelled_before()
        if before is None:
            return []
        text, known = before
        bytes_of = vocabulary.core.token_bytes
        tokens = self._spell(text + forced)
        left = len(wanted)
        start = len(tokens)
        while left > 0 and start > 0:
            start -= 1
            left -= len(bytes_of(tokens[start]))
        if left != 0 or tokens[max(0, start - len(known)) : start] != known:
            return []
        new = tokens[start:]
        if b"".join(map(bytes_of, new)) != wanted:
            return []
        after = self.fork()
        for token in new:
            if after.is_terminated() or not after.accept_token(token):
                return []
        return new if after.is_complete() else self._stable(tokens, start, after)

    def _spell(self, text: str) -> list[int]:
        """The text as the tokenizer spells it; empty if it cannot."""
        try:
            return self.guide.vocabulary.encode(text)
        except ValueError:  # a VocabularyError, or what a tokenizer raises itself
            return []

    def _spelled_before(self) -> tuple[str, list[int]] | None:
        """The end of the text so far, and the tokens at its end that the tokenizer must produce again; None if the
        window contains text that was accepted without tokens.

        A tokenizer that produces the same tokens for a while produces those of the whole output from there on. So the
        cost of a step does not grow with the text.
        """
        bytes_of = self.guide.vocabulary.core.token_bytes
        looked = 2 * _SPELLED_ANEW
        while True:
            history = self.history(looked)
            begin = max(0, len(history) - _SPELLED_ANEW)
            while begin > 0 and history[begin] >= 0 and bytes_of(history[begin])[:1] in _INSIDE_CHARACTER:
                begin -= 1  # the text begins with a character
            if begin > 0 or len(history) == self.step_count:
                break
            looked *= 2
        window = history[begin:]
        if -1 in window:
            return None
        try:
            text = b"".join(map(bytes_of, window)).decode()
        except UnicodeDecodeError:
            return None
        return text, window if begin == 0 else window[-_MET_AGAIN:]

    def _stable(self, tokens: list[int], start: int, after: Matcher) -> list[int]:
        """The first of ``tokens[start:]`` that no continuation can change, as the tokenizer shows."""
        bytes_of = self.guide.vocabulary.core.token_bytes
        keep = len(tokens)
        tail = b""
        for i in range(len(tokens) - 1, start, -1):
            tail = bytes_of(tokens[i]) + tail
            if self._may_grow(tail):
                keep = i
        short = max(0, len(tokens) - _PROBED)
        while short > 0 and bytes_of(tokens[short])[:1] in _INSIDE_CHARACTER:
            short -= 1
        for probe in self.guide.example_continuations(after.state, program=after.program):
            for begin in dict.fromkeys((short, 0)):  # all tokens only if a few do not suffice
                text = b"".join(map(bytes_of, tokens[begin:])).decode()
                again = self._spell(text + probe)
                same = begin
                for one, other in zip(tokens[begin:], again, strict=False):
                    if one != other:
                        break
                    same += 1
                if same > begin:
                    break
            keep = min(keep, same)
            if keep <= start:
                return []
        return tokens[start:keep]

    def _may_grow(self, text: bytes) -> bool:
        """Whether a longer token begins with this text, and so could swallow it."""
        core = self.guide.vocabulary.core
        return any(core.token_bytes(token) != text for token in core.tokens_with_prefix(text, 2))

    def __repr__(self) -> str:
        ending = "terminated" if self.is_terminated() else "accepting" if self.is_accepting() else "open"
        return f"<Matcher after {self.step_count} tokens, {ending}>"


@checked
def fill_next_token_bitmasks(
    matchers: Sequence[Matcher], bitmask: Any, rows: Sequence[int] | None = None, threads: int | None = None
) -> None:
    """Fills one row for each matcher in one native call, on several threads and without the GIL.

    Args:
        matchers: running matchers, of one guide or several. Do not use them elsewhere meanwhile.
        bitmask: int32, shape ``(batch, >= ceil(vocabulary.size / 32))``, NumPy or a CPU tensor.
        rows: the row of each matcher; by default its position.
        threads: maximum number of native threads; None means one per core. All calls of a process share them: there are
            never more than two per core, whatever you request, and idle ones end after some seconds.

    Raises:
        MatcherError: a matcher has terminated, or ``threads`` is less than 1.
        BitmaskError: shape, dtype or a row is wrong.
    """
    _core.fill_next_token_bitmasks(matchers, bitmask, rows, None if threads is None else min(threads, _MOST_THREADS))
