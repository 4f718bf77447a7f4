"""``LLInterpreter``: the interface that guidance uses, which follows the prompt and the text together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from guiderail.compat._errors import CompatTypeError, CompatValueError, integer, integers
from guiderail.compat.llguidance._matcher import LLMatcher, LLParserLimits
from guiderail.compat.llguidance._tokenizer import LLTokenizer
from guiderail.support.arguments import checked_methods

__all__ = ["LLInterpreter"]


@checked_methods
class LLInterpreter:
    """Computes a mask, takes a token, and returns what is forced after it.

    Args:
        tokenizer: the tokenizer.
        grammar: as for :class:`LLMatcher`.
        enable_backtrack: whether tokens may be taken back. guiderail never needs that, so none are.
        enable_ff_tokens: whether forced tokens are appended to committed ones.
        log_level: as for :class:`LLMatcher`.
        limits: as for :class:`LLMatcher`.

    Raises:
        ValueError: the grammar cannot be used, or backtracking is enabled without forced tokens.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str | Mapping[str, Any],
        enable_backtrack: bool | None = None,
        enable_ff_tokens: bool | None = None,
        log_level: int | None = None,
        limits: LLParserLimits | None = None,
    ) -> None:
        enable_ff_tokens = True if enable_ff_tokens is None else enable_ff_tokens
        if (True if enable_backtrack is None else enable_backtrack) and not enable_ff_tokens:
            raise CompatValueError("backtrack requires ff_tokens")
        self.log_level = 1 if log_level is None else log_level
        self._matcher = LLMatcher(tokenizer, grammar, log_level=log_level, limits=limits)
        self._good()
        self._tokenizer, self._forces = tokenizer, enable_ff_tokens
        self._started = self._told = self._masked = False  # masked: since the last token
        self._new: list[int] = []
        self._generated = False
        self._text: list[int] = []

    def _good(self) -> None:
        if self._matcher.is_error():
            raise CompatValueError(self._matcher.get_error())

    def deep_copy(self) -> LLInterpreter:
        """Returns an independent copy in the same state."""
        twin = LLInterpreter.__new__(LLInterpreter)
        twin.__dict__.update(self.__dict__)
        twin._matcher, twin._new, twin._text = self._matcher.deep_copy(), list(self._new), list(self._text)
        return twin

    def process_prompt(self, prompt: Sequence[int]) -> list[int]:
        """Starts after a prompt. Returns the prompt and the tokens that are forced after it.

        Raises:
            ValueError: it has already started.
        """
        given = integers("the prompt", prompt)
        self.start_without_prompt()
        forced = self._force(True)
        self._new, self._generated = forced, False
        return [*given, *forced]

    def start_without_prompt(self) -> None:
        """Starts without a prompt.

        Raises:
            ValueError: it has already started.
        """
        if self._started:
            raise CompatValueError("the interpreter has already started; make another one")
        self._started = True

    def _force(self, always: bool = False) -> list[int]:
        if not (self._forces or always) or self._matcher.is_stopped():
            return []
        forced = self._matcher.compute_ff_tokens()
        self._matcher.consume_tokens(forced)
        self._text += forced
        return forced

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._matcher.is_accepting()

    def stop_reason(self) -> str:
        """As :meth:`LLMatcher.stop_reason`."""
        return self._matcher.stop_reason()

    def has_pending_stop(self) -> bool:
        """Whether the next mask says stop."""
        return self._matcher.is_stopped()

    def validate_tokens_raw(self, tokens: Sequence[int]) -> int:
        """Returns how many of the tokens could be accepted in sequence."""
        return self._matcher.validate_tokens(tokens)

    def compute_mask(self) -> tuple[bytes | None, str]:
        """Returns the mask and a JSON report.

        The mask has one byte per token (200 or 0), or is None if the text has ended.

        Raises:
            ValueError: the previous call said stop.
        """
        report = self._say()
        return (None if self._matcher.is_stopped() else self._matcher.compute_logit_bias()), report

    def compute_mask_into(self, trg: bytearray) -> str:
        """Like :meth:`compute_mask`, but writes to a buffer: one byte per token, or one bit if the buffer is that
        small.

        Raises:
            ValueError: the buffer has another size; or the previous call said stop.
        """
        size = self._tokenizer.vocab_size
        if not isinstance(trg, bytearray):
            raise CompatTypeError(f"the target must be a bytearray, not {type(trg).__name__}")
        if len(trg) not in (size, 4 * self._matcher._words()):
            raise CompatValueError(
                f"the target has {len(trg)} bytes; a mask has {size}, or {4 * self._matcher._words()}"
            )
        report = self._say()
        if not self._matcher.is_stopped():
            trg[:] = self._matcher.compute_logit_bias() if len(trg) == size else self._matcher.compute_bitmask()
        return report

    def unsafe_compute_mask_ptr(self, trg_ptr: int, trg_bytes: int) -> str:
        """Like :meth:`compute_mask`, but writes one bit per token to an address.

        Raises:
            ValueError: the memory is too small; or the previous call said stop.
        """
        report = self._say()
        self._matcher.unsafe_compute_mask_ptr(trg_ptr, trg_bytes)
        return report

    def _say(self) -> str:
        self._good()
        if self._told:
            raise CompatValueError("compute_mask() called after stop")
        if not self._started:
            self._started = True
        progress: list[dict[str, Any]] = []
        new = [token for token in self._new if token not in self._tokenizer.eos_tokens]
        data = self._tokenizer.decode_bytes(new)
        progress.append(
            {**_text("text", data), "log_prob": 0.0, "num_tokens": len(new), "is_generated": self._generated}
        )
        stop = self._matcher.is_stopped()
        if stop:
            whole = [token for token in self._text if token not in self._tokenizer.eos_tokens]
            final = _text("final_text", self._tokenizer.decode_bytes(whole))
            progress.append({**final, "stop_reason": self.stop_reason()})
        self._told, self._masked = stop, not stop
        self._new, self._generated = [], True
        return json.dumps({"progress": progress, "stop": stop, "temperature": 0.0})

    def commit_token(self, sampled_token: int | None) -> tuple[int, list[int]]:
        """Reads a token.

        Returns how many tokens to take back, which is always 0, and the tokens to append: this one and those forced
        after it; none if no mask was computed, and the token is None.

        Raises:
            ValueError: the token is None although a mask was computed, or is not, although none was; or the grammar
                does not allow it, and the interpreter is in an error state.
        """
        self._good()
        if self._matcher.is_stopped():
            return 0, []
        if not self._masked:
            if sampled_token is None:
                return 0, []
            raise CompatValueError(
                "commit_token() takes a token only after compute_mask(): call that first, for each token"
            )
        if sampled_token is None:
            raise CompatValueError("sampled_token is required when mask was present")
        sampled_token = integer("sampled_token", sampled_token)
        self._masked = False
        self._matcher.consume_token(sampled_token)
        self._good()
        self._text.append(sampled_token)
        ended = sampled_token in self._tokenizer.eos_tokens
        self._new, self._generated = [sampled_token, *self._force()], True
        return 0, [] if ended else list(self._new)


def _text(kind: str, data: bytes) -> dict[str, Any]:
    return {"object": kind, "str": data.decode("utf-8", "replace"), "hex": data.hex()}
