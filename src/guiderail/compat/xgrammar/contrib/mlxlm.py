"""``xgrammar.contrib.mlxlm``: a logits processor for mlx-lm."""

from __future__ import annotations

from typing import Any

from guiderail.compat._errors import CompatError
from guiderail.compat.xgrammar.compiler import CompiledGrammar
from guiderail.compat.xgrammar.matcher import GrammarMatcher
from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool

__all__ = ["XGrammarLogitsProcessor"]


class XGrammarLogitsProcessor:
    """Masks the logits of one text: ``mlx_lm.generate(…, logits_processors=[XGrammarLogitsProcessor(grammar)])``.

    Args:
        grammar: the compiled grammar.
        max_rollback_tokens: as in ``GrammarMatcher``: any number can be rolled back.
    """

    def __init__(self, grammar: CompiledGrammar, max_rollback_tokens: int = 16) -> None:
        self.matcher = GrammarMatcher(grammar)
        self.vocab_size = grammar.tokenizer_info.vocab_size
        self.bitmask = allocate_token_bitmask(1, self.vocab_size)
        self._seen = -1

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Reads the last token and returns masked logits.

        Raises:
            CompatError: a token came that the mask forbids.
        """
        import mlx.core as mx

        if self._seen >= 0 and not self.matcher.is_terminated():
            token = int(tokens[-1].item())
            if not self.matcher.accept_token(token):
                raise CompatError(f"token {token} was generated, but the grammar forbids it here; make a new processor")
        self._seen += 1
        if self.matcher.is_terminated():
            return logits
        self.matcher.fill_next_token_bitmask(self.bitmask)
        width = logits.shape[-1]
        allowed = mx.array(bitmask_to_bool(self.bitmask, min(width, self.vocab_size)))
        if allowed.shape[-1] < width:
            allowed = mx.concatenate([allowed, mx.zeros((1, width - allowed.shape[-1]), dtype=mx.bool_)], axis=-1)
        return mx.where(allowed, logits, float("-inf"))
