"""The parts of ``xgrammar.testing`` that engines and tests use."""

from __future__ import annotations

from typing import Any

from guiderail.compat._errors import CompatTypeError
from guiderail.compat.xgrammar.compiler import GrammarCompiler
from guiderail.compat.xgrammar.grammar import Grammar
from guiderail.compat.xgrammar.matcher import GrammarMatcher
from guiderail.compat.xgrammar.tokenizer_info import TokenizerInfo
from guiderail.matching.bitmask import bitmask_to_bool
from guiderail.support.texts import shown

__all__ = [
    "_get_masked_tokens_from_bitmask",
    "_get_matcher_from_grammar",
    "_get_matcher_from_grammar_and_tokenizer_info",
    "_is_grammar_accept_string",
    "_is_single_token_bitmask",
    "bitmask_to_bool_mask",
    "bool_mask_to_bitmask",
]


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    info = TokenizerInfo([]) if tokenizer_info is None else tokenizer_info
    return GrammarMatcher(GrammarCompiler(info, cache_enabled=False).compile_grammar(grammar), **kwargs)


def _get_matcher_from_grammar(grammar: Grammar | str, **kwargs: Any) -> GrammarMatcher:
    kwargs.setdefault("terminate_without_stop_token", True)
    return _get_matcher_from_grammar_and_tokenizer_info(grammar, **kwargs)


def _is_grammar_accept_string(grammar: Grammar | str, input_str: str | bytes, **kwargs: Any) -> bool:
    """Whether a grammar matches a whole text; with ``require_termination=False``, also the beginning of one."""
    whole = kwargs.pop("require_termination", True)
    if kwargs:
        raise CompatTypeError(f"_is_grammar_accept_string has no options {', '.join(kwargs)} here")
    matcher = _get_matcher_from_grammar(grammar)
    return matcher.accept_string(input_str) and (not whole or matcher.is_terminated())


def bitmask_to_bool_mask(bit_mask: Any, vocab_size: int | None = None) -> Any:
    """Converts a bitmask to a torch tensor of booleans, True = allowed."""
    import torch

    return torch.from_numpy(bitmask_to_bool(bit_mask, vocab_size).copy())


def bool_mask_to_bitmask(bool_mask: Any) -> Any:
    """Converts booleans to a bitmask, an int32 torch tensor."""
    import torch

    from guiderail.matching.bitmask import bool_to_bitmask

    if not isinstance(bool_mask, torch.Tensor):
        raise CompatTypeError(f"bool_mask must be a tensor, not {shown(bool_mask)}")
    return torch.from_numpy(bool_to_bitmask(bool_mask.numpy()))


def _get_masked_tokens_from_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> list[int]:
    """Returns the ids of the tokens that a row forbids."""
    allowed = bitmask_to_bool(bitmask, vocab_size)[index]
    return [i for i in range(vocab_size) if not allowed[i]]


def _is_single_token_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """Returns whether a row allows exactly one token, and which; -1 for none."""
    allowed = bitmask_to_bool(bitmask, vocab_size)[index].nonzero()[0]
    return (True, int(allowed[0])) if len(allowed) == 1 else (False, -1)
