"""``LLMatcher``, which follows a text, and ``LLParserLimits``."""

from __future__ import annotations

import ctypes
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.compat._captures import captures_of
from guiderail.compat._errors import CompatTypeError, CompatValueError, integer, integers
from guiderail.compat.llguidance import _grammars
from guiderail.compat.llguidance._tokenizer import LLTokenizer
from guiderail.errors import GuiderailError, LimitError
from guiderail.matching.guide import compile
from guiderail.matching.matcher import Matcher
from guiderail.support.arguments import checked_methods
from guiderail.support.texts import shown

__all__ = ["LLMatcher", "LLParserLimits"]

logger = logging.getLogger("guiderail.compat.llguidance")


@dataclass(frozen=True, kw_only=True)
class LLParserLimits:
    """llguidance's limits, accepted without effect.

    guiderail counts steps of work instead (``max_work`` and ``max_step_work`` of ``guiderail.compile``). Values other
    than these defaults cause a warning.
    """

    max_items_in_row: int | None = None
    initial_lexer_fuel: int | None = None
    step_lexer_fuel: int | None = None
    step_max_items: int | None = None
    max_lexer_states: int | None = None
    max_grammar_size: int | None = None
    precompute_large_lexemes: bool | None = None
    verbose_errors: bool | None = None

    def __post_init__(self) -> None:
        for name, value in _LIMITS.items():
            given = getattr(self, name)
            if given is None:
                object.__setattr__(self, name, value)
            elif not isinstance(given, type(value)) or isinstance(given, bool) != isinstance(value, bool):
                raise CompatTypeError(f"{name} must be {_KINDS[type(value)]}, not {shown(given)}", code="compat-option")
            elif given < 0:
                raise CompatValueError(f"{name} must be 0 or more, not {shown(given)}")
        other = [name for name, value in _LIMITS.items() if getattr(self, name) != value]
        other = [name for name in other if name not in ("precompute_large_lexemes", "verbose_errors")]
        if other:
            warnings.warn(
                f"guiderail does not support {', '.join(other)}: it limits work by steps; see max_work and "
                "max_step_work of guiderail.compile",
                stacklevel=3,
            )


_KINDS = {int: "a number", bool: "True or False"}
_LIMITS: dict[str, Any] = {
    "max_items_in_row": 2000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 250_000,
    "max_grammar_size": 500_000,
    "precompute_large_lexemes": True,
    "verbose_errors": True,
}


@checked_methods
class LLMatcher:
    """Follows one text. ``matcher`` is guiderail's own object, or None if the grammar cannot be used.

    A faulty grammar, or a token that is not allowed, raises nothing. The matcher is in an error state from then on,
    which :meth:`is_error` and :meth:`get_error` report.

    Args:
        tokenizer: the tokenizer.
        grammar: a Lark text, or the result of ``grammar_from_…``.
        log_level: 0: log nothing; 1, 2 or None: log problems as warnings.
        limits: see :class:`LLParserLimits`.

    Raises:
        CompatTypeError: ``tokenizer`` is not an LLTokenizer, or another argument has a wrong type.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str | Mapping[str, Any],
        *,
        log_level: int | None = None,
        limits: LLParserLimits | None = None,
    ) -> None:
        for wanted, given in ((LLTokenizer, tokenizer), (LLParserLimits, limits)):
            if not isinstance(given, wanted) and (wanted is LLTokenizer or given is not None):
                raise CompatTypeError(f"{type(given).__name__!r} object is not an instance of {wanted.__name__!r}")
        self._tokenizer = tokenizer
        self._log_level = 1 if log_level is None else integer("log_level", log_level)
        self._error, self._limit_met = "", False
        self._warnings: list[str] = []
        self._stopped = False
        self.matcher: Matcher | None = None
        try:
            constraint, self._warnings = _grammars.read_grammar(grammar)
            self.matcher = compile(constraint, tokenizer.vocabulary).matcher()
        except GuiderailError as error:
            self._fail(error)
        for warning in self._warnings:
            self._log(warning)

    def _log(self, message: str) -> None:
        if self._log_level > 0:
            logger.warning("%s", message)

    def _fail(self, error: GuiderailError | str) -> None:
        self._error = str(error)
        self._limit_met = isinstance(error, LimitError)
        self._log(self._error)

    # -- grammars ------------------------------------------------------------------------------------------------
    grammar_from_json_schema = staticmethod(_grammars.grammar_from_json_schema)
    grammar_from_lark = staticmethod(_grammars.grammar_from_lark)
    grammar_from_regex = staticmethod(_grammars.grammar_from_regex)

    @staticmethod
    def validate_grammar(
        grammar: str | Mapping[str, Any], tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> str:
        """Returns what is wrong with a grammar: an empty text if nothing is, ``"WARNING: …"`` if there are only
        warnings.
        """
        wrong, messages = LLMatcher.validate_grammar_with_warnings(grammar, tokenizer, limits=limits)
        return messages[0] if wrong else f"WARNING: {'; '.join(messages)}" if messages else ""

    @staticmethod
    def validate_grammar_with_warnings(
        grammar: str | Mapping[str, Any], tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> tuple[bool, list[str]]:
        """Returns whether a grammar is faulty, and the error, or else the warnings about it."""
        try:
            constraint, messages = _grammars.read_grammar(grammar)
            if tokenizer is None:
                constraint.program()
            else:
                compile(constraint, tokenizer.vocabulary)
        except GuiderailError as error:
            return True, [str(error)]
        return False, messages

    # -- state ---------------------------------------------------------------------------------------------------
    def is_error(self) -> bool:
        """Whether an error has occurred. An error is permanent."""
        return bool(self._error)

    def get_error(self) -> str:
        """Returns the error message, or ""."""
        return self._error

    def get_grammar_warnings(self) -> list[str]:
        """Returns the warnings about the grammar."""
        return list(self._warnings)

    def deep_copy(self) -> LLMatcher:
        """Returns an independent copy in the same state."""
        twin = LLMatcher.__new__(LLMatcher)
        twin.__dict__.update(self.__dict__)
        twin._warnings = list(self._warnings)
        twin.matcher = None if self.matcher is None else self.matcher.fork()
        return twin

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        matcher = self.matcher
        if matcher is None or self._error:
            return False
        return bool(matcher.is_terminated() or matcher.is_accepting())

    def is_stopped(self) -> bool:
        """Whether the tokens that were read last ended the text, or only a stop token can follow them; also true after
        an error.
        """
        return bool(self.matcher is None or self._error or self._stopped)

    def _note_stop(self) -> None:
        assert self.matcher is not None
        self._stopped = bool(self.matcher.is_terminated() or self.matcher.is_complete())

    def stop_reason(self) -> str:
        """Returns why the text has ended.

        ``"NotStopped"``; ``"NoExtension"``: no text can follow; ``"EndOfSentence"``: a stop token was read;
        ``"ParserTooComplex"``: a limit was reached; ``"InternalError"``: another error.
        """
        matcher = self.matcher
        if matcher is None or self._error:
            return "ParserTooComplex" if self._limit_met else "InternalError"
        if not self._stopped:
            return "NotStopped"
        return "EndOfSentence" if matcher.is_terminated() else "NoExtension"

    def rollback(self, num_tokens: int) -> bool:
        """Undoes the last tokens and returns whether that worked. To undo more than were read is an error."""
        if integer("num_tokens", num_tokens) < 0:
            raise CompatValueError(f"num_tokens must be 0 or more, not {shown(num_tokens)}")
        if self.matcher is None or self._error:
            return False
        if num_tokens > self.matcher.step_count:
            self._fail(f"rollback: {num_tokens} > {self.matcher.step_count}")
            return False
        if num_tokens > 0:
            self.matcher.rollback(num_tokens)
            self._stopped = False
        return True

    def reset(self) -> bool:
        """Returns to the start. The result is False if the matcher is in an error state, which stays."""
        if self.matcher is None or self._error:
            return False
        self.matcher.reset()
        self._stopped = False
        return True

    # -- tokens --------------------------------------------------------------------------------------------------
    def _read(self, token: int) -> bool:
        """Reads a token; returns False, and changes nothing, if it is not allowed.

        Raises:
            LimitError: it takes too long.
        """
        matcher = self.matcher
        assert matcher is not None
        if not 0 <= token < self._tokenizer.vocab_size:
            return False
        if matcher.is_terminated():  # an end token changes nothing, and is no step
            return token in matcher.stop_token_ids()
        return bool(matcher.accept_token(token))

    def consume_token(self, sampled_token: int) -> bool:
        """Reads a token. If it is not allowed, returns False and enters the error state.

        When the text has stopped, and in an error state, only stop tokens are accepted, without effect.
        """
        if self.is_stopped() and integer("sampled_token", sampled_token) in self._tokenizer.eos_tokens:
            return True
        return self.consume_tokens([sampled_token])

    def consume_tokens(self, tokens: Sequence[int]) -> bool:
        """Reads tokens. If one is not allowed, or the text has stopped, returns False and enters the error state."""
        tokens = integers("tokens", tokens)
        if self.matcher is None or self._error:
            return False
        if self._stopped and tokens:
            self._fail(f"the text has stopped ({self.stop_reason()}), and no token can be read")
            return False
        for token in tokens:
            try:
                if self._read(token):
                    continue
                shown = self._tokenizer.dbg_tokens([token]) if 0 <= token < self._tokenizer.vocab_size else token
                self._fail(f"token {shown} doesn't satisfy the grammar: it cannot come after {self._where()}")
            except GuiderailError as error:
                self._fail(error)
            return False
        self._note_stop()
        return True

    def _where(self) -> str:
        assert self.matcher is not None
        read = [token for token in self.matcher.history(20) if token >= 0]
        return self._tokenizer.dbg_tokens(read) if read else "the start"

    def try_consume_tokens(self, tokens: Sequence[int]) -> int:
        """Reads tokens up to the first that is not allowed, and returns how many. This is never an error."""
        read = 0
        tokens = integers("tokens", tokens)
        if self.matcher is None or self._error:
            return 0
        try:
            for token in tokens:
                if self._stopped or not self._read(token):
                    break
                self._note_stop()
                read += 1
        except GuiderailError as error:
            self._fail(error)
        return read

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """Returns how many of the tokens could be accepted in sequence. Reads nothing."""
        tokens = integers("tokens", tokens)
        if self.matcher is None or self._error:
            return int(bool(tokens) and tokens[0] in self._tokenizer.eos_tokens)
        if self._stopped:
            return 0
        twin = self.matcher.fork()
        good = 0
        try:
            for token in tokens:
                fits = 0 <= token < self._tokenizer.vocab_size and not twin.is_terminated()
                if not (fits and twin.accept_token(token)):
                    break
                good += 1
        except LimitError:  # reported when the token itself is read
            pass
        return good

    def compute_ff_tokens(self) -> list[int]:
        """Returns the only tokens that can come next, spelled as the tokenizer spells them; empty if there is a
        choice.
        """
        found: list[int] = self._forced(lambda matcher: matcher.forced_tokens(), [])
        return found

    def compute_ff_bytes(self) -> bytes:
        """Returns the only bytes that can come next; empty if there is a choice."""
        found: bytes = self._forced(lambda matcher: matcher.find_jump_forward_string().encode(), b"")
        return found

    def _forced(self, ask: Any, none: Any) -> Any:
        if self.matcher is None or self._error or self.matcher.is_terminated():
            return none
        try:
            return ask(self.matcher)
        except LimitError:  # reported where the text needs it
            return none

    # -- masks ---------------------------------------------------------------------------------------------------
    def _fill(self, row: NDArray[np.int32]) -> None:
        """Writes the mask; if nothing can come, the stop tokens."""
        matcher = self.matcher
        if matcher is not None and not self._error and not matcher.is_terminated():
            try:
                matcher.fill_next_token_bitmask(row.reshape(1, -1), 0)
                return
            except LimitError as error:
                self._fail(error)
        self._only_ends(row)

    def _only_ends(self, row: NDArray[np.int32]) -> None:
        row[:] = 0
        for token in self._tokenizer.eos_tokens:
            row.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)

    def _words(self) -> int:
        return (self._tokenizer.vocab_size + 31) // 32

    def compute_bitmask(self) -> bytes:
        """Returns the mask: one bit per token, in words of 32 bits."""
        row = np.empty(self._words(), np.int32)
        self._fill(row)
        return row.astype("<i4", copy=False).tobytes()

    def compute_logit_bias(self) -> bytes:
        """Returns the mask: one byte per token, 200 if it is allowed, else 0."""
        bits = np.unpackbits(np.frombuffer(self.compute_bitmask(), np.uint8), bitorder="little")
        biases: NDArray[np.uint8] = bits[: self._tokenizer.vocab_size] * np.uint8(200)
        return biases.tobytes()

    def unsafe_compute_mask_ptr(self, trg_ptr: int, trg_bytes: int) -> None:
        """Writes the mask to an address.

        Raises:
            ValueError: the memory is too small for the mask, or is not an integer of words.
        """
        self._fill(memory(trg_ptr, trg_bytes, self._words()))

    def unsafe_compute_mask_ptr_with_draft_token(
        self, trg_ptr: int, trg_bytes: int, draft_tokens: Sequence[int]
    ) -> None:
        """Writes the mask, followed by those after each token of a draft, as the executor does.

        Args:
            trg_ptr: the address of the first mask; there is room for one more than the draft has tokens.
            trg_bytes: the bytes of one mask.
            draft_tokens: the draft.

        Raises:
            ValueError: that is not the size of a mask.
        """
        draft = integers("a draft", draft_tokens)
        if integer("trg_bytes", trg_bytes) != 4 * self._words():
            raise CompatValueError(f"a mask has {4 * self._words()} bytes, not {shown(trg_bytes)}")
        fill_draft(self, 0, draft, trg_ptr, trg_bytes, len(draft) + 1)

    # -- captures ------------------------------------------------------------------------------------------------
    def get_capture(self, name: str) -> bytes | None:
        """Returns the last text that a rule captured under this name (``name[capture]``), or None.

        Raises:
            CompatError: ``captures``: the text can be parsed in too many ways.
        """
        return dict(self.get_captures()).get(name)

    def get_captures(self) -> list[tuple[str, bytes]]:
        """Returns pairs of name and captured text, grouped by name.

        Raises:
            CompatError: ``captures``: the text can be parsed in too many ways.
        """
        if self.matcher is None:
            return []
        return captures_of(self.matcher.guide.constraint, self.matcher)

    __copy__ = deep_copy

    def __deepcopy__(self, memo: dict[int, Any]) -> LLMatcher:
        return self.deep_copy()

    def __repr__(self) -> str:
        return f"<LLMatcher {self._error or self.matcher!r}>"


def memory(pointer: int, size: int, words: int) -> NDArray[np.int32]:
    """The words at an address.

    Raises:
        ValueError: the memory is smaller than ``words``, or not an integer of words.
    """
    if size % 4 or size < 4 * words or not pointer:
        raise CompatValueError(f"a mask has {4 * words} bytes, in words of 4; the target has {size}")
    found: NDArray[np.int32] = np.ctypeslib.as_array((ctypes.c_int32 * (size // 4)).from_address(pointer))
    return found


def fill_draft(
    matcher: LLMatcher, place: int, draft: Sequence[int], pointer: int, one_mask_bytes: int, batch: int
) -> None:
    """Writes the current mask and those after each token of a draft."""
    check_place(matcher, place + len(draft), batch, one_mask_bytes)
    whole = target(pointer, one_mask_bytes, batch)
    inner = matcher.matcher
    if inner is None or matcher.is_error() or inner.is_terminated():
        matcher._fill(whole[place])
        return
    twin = matcher.deep_copy()
    twin._fill(whole[place])
    for i, token in enumerate(draft):
        if twin.is_stopped() or twin.try_consume_tokens([token]) != 1:
            break
        twin._fill(whole[place + 1 + i])
    if twin.is_error():
        matcher._fail(twin.get_error())


def target(pointer: int, one_mask_bytes: int, batch: int) -> NDArray[np.int32]:
    return memory(pointer, one_mask_bytes * batch, 0).reshape(batch, one_mask_bytes // 4)


def check_matcher(matcher: LLMatcher) -> None:
    if not isinstance(matcher, LLMatcher):
        raise CompatTypeError(f"{type(matcher).__name__!r} object is not an instance of 'LLMatcher'")


def check_place(matcher: LLMatcher, place: int, batch: int, one_mask_bytes: int) -> None:
    check_matcher(matcher)
    if not 0 <= integer("the index of a mask", place) < batch:
        raise CompatValueError(f"mask {place} is out of range: there is room for {batch}")
    if one_mask_bytes % 4 or one_mask_bytes < 4 * matcher._words():
        raise CompatValueError(f"a mask has {4 * matcher._words()} bytes, in words of 4, not {one_mask_bytes}")
