"""A prompt and the strings that may follow it, for a transformers model: a batch of rows over copies of one cache."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.generation.models.branches import Tokens, chains_of, trees_of

if TYPE_CHECKING:
    from guiderail.generation.models.transformers_model import TransformersModel

__all__ = ["TransformersBranches"]

_CELLS = 512  # rows times the longest: logits of all of them are computed


class TransformersBranches:
    """See :class:`Branches`. A cache that cannot be repeated is not used: each row reads the prompt again."""

    def __init__(self, model: TransformersModel, prompt: Sequence[int], chains: int) -> None:
        self._model: TransformersModel | None = model
        self._prompt, self._chains = list(prompt), chains
        self._cache: Any = None
        self._after_prompt: NDArray[np.float32] | None = None
        self.passes = self.tokens = 0

    def read(self, texts: Sequence[Tokens]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        if self._after_prompt is None:
            output = self._forward([self._prompt], None, 1)
            self._cache = output.past_key_values
            self._after_prompt = output.logits[0, -1].float().cpu().numpy()
        yield from ((index, self._after_prompt.copy()) for index, text in enumerate(texts) if not text)
        for tree in trees_of(texts, chains=self._chains, cells=_CELLS):
            chains = chains_of(tree)
            rows = [[tree.token[node] for node in chain] for chain in chains]
            width = max(map(len, rows))
            cache = self._repeated(len(rows))
            if cache is None:
                rows = [self._prompt + row for row in rows]
            output = self._forward(rows, cache, width)
            answered = set()
            for row, chain in enumerate(chains):
                for column, node in enumerate(chain):
                    index = tree.asked[node]
                    if index is not None and node not in answered:
                        answered.add(node)
                        yield index, output.logits[row, column - width].float().cpu().numpy()

    def _forward(self, rows: list[list[int]], cache: Any, kept: int) -> Any:
        """Makes one pass. Shorter rows are padded at the end, where none of their tokens attends."""
        import torch

        if self._model is None:
            raise ModelError("the branches were closed", code="closed")
        if not all(0 <= token < self._model.logits_size for row in rows for token in row):
            raise ModelError(f"a token id is not one of {self._model.name}", code="bad-token")
        model = self._model.model
        width = max(map(len, rows))
        past = 0 if cache is None else len(self._prompt)
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=model.device)
        positions = torch.arange(past, past + width, device=model.device).expand(len(rows), width)
        only_last = {"logits_to_keep": kept} if self._model.keeps_logits else {}
        self.passes += 1
        self.tokens += ids.numel()
        with torch.inference_mode():
            return model(
                input_ids=ids,
                attention_mask=torch.ones((len(rows), past + width), dtype=torch.int64, device=model.device),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                **only_last,
            )

    def _repeated(self, rows: int) -> Any:
        """The prompt's cache repeated for a number of rows; None if this kind of cache cannot be repeated."""
        import torch

        if not hasattr(self._cache, "reorder_cache"):
            return None
        assert self._model is not None
        cache = copy.deepcopy(self._cache)
        cache.reorder_cache(torch.zeros(rows, dtype=torch.int64, device=self._model.model.device))
        return cache

    def close(self) -> None:
        self._model = self._cache = None
