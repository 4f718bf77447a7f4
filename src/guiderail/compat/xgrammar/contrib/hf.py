"""``xgrammar.contrib.hf``: a logits processor for ``model.generate`` of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transformers

from guiderail.compat._errors import CompatAssertionError, CompatError, CompatTypeError
from guiderail.compat.xgrammar.bitmasks import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.compat.xgrammar.compiler import CompiledGrammar
from guiderail.compat.xgrammar.matcher import GrammarMatcher
from guiderail.support.texts import shown

__all__ = ["LogitsProcessor"]


class LogitsProcessor(transformers.LogitsProcessor):
    """Masks the logits of one call of ``generate``. Make a new one for the next call.

    Args:
        compiled_grammar: one grammar for all rows, or a list with one for each.
    """

    def __init__(self, compiled_grammar: CompiledGrammar | Sequence[CompiledGrammar]) -> None:
        given: Any = compiled_grammar
        self.compiled_grammars: list[CompiledGrammar] = list(given) if isinstance(given, list | tuple) else [given]
        if not self.compiled_grammars or not all(isinstance(one, CompiledGrammar) for one in self.compiled_grammars):
            raise CompatTypeError(
                "a LogitsProcessor needs a CompiledGrammar, or a list with one for each row, not "
                f"{shown(compiled_grammar)}"
            )
        self.matchers: list[GrammarMatcher] = []
        self.full_vocab_size = self.compiled_grammars[0].tokenizer_info.vocab_size
        self.token_bitmask: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Reads the last tokens and masks the scores in place. Rows that have ended may only stop.

        Raises:
            CompatError: the number of rows has changed.
            CompatAssertionError: there is another number of grammars; or a token came that the mask forbids.
        """
        rows = input_ids.shape[0]
        if not self.matchers:
            grammars = self.compiled_grammars
            grammars = grammars * rows if len(grammars) == 1 else grammars
            if len(grammars) != rows:
                raise CompatAssertionError(
                    f"there are {len(grammars)} grammars for {rows} rows; pass one, or one for each row",
                    code="compat-batch",
                )
            self.matchers = [GrammarMatcher(grammar) for grammar in grammars]
            self.token_bitmask = allocate_token_bitmask(rows, self.full_vocab_size)
        else:
            if len(self.matchers) != rows:
                raise CompatError(
                    f"there are {rows} rows, but there were {len(self.matchers)} before; make a new LogitsProcessor",
                    code="compat-batch",
                )
            for matcher, token in zip(self.matchers, input_ids[:, -1].tolist(), strict=True):
                if not matcher.is_terminated() and not matcher.accept_token(token):
                    raise CompatAssertionError(
                        f"token {token} was generated, but the grammar forbids it here; make a new LogitsProcessor",
                        code="token-outside-mask",
                    )
        for i, matcher in enumerate(self.matchers):
            if matcher.is_terminated():
                self.token_bitmask[i] = 0
                for token in matcher.stop_token_ids:
                    self.token_bitmask[i].numpy().view("uint32")[token >> 5] |= 1 << (token & 31)
            else:
                matcher.fill_next_token_bitmask(self.token_bitmask, i)
        apply_token_bitmask_inplace(scores, self.token_bitmask)
        return scores
