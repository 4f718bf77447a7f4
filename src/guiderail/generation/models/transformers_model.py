"""A transformers causal language model with its tokenizer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.generation.models.base import Logits, check_context_length, context_full, leaders
from guiderail.generation.models.branches import MOST_CHAINS
from guiderail.generation.models.transformers_prompts import TransformersPrompts

if TYPE_CHECKING:
    from guiderail.generation.models.transformers_branches import TransformersBranches
    from guiderail.vocabulary import Vocabulary

__all__ = ["TransformersModel", "TransformersSession"]


class TransformersModel:
    """Wraps a ``transformers`` model that can be called with ``past_key_values``, and its tokenizer.

    Args:
        model: a causal language model, in evaluation mode, on the device where it is to run.
        tokenizer: its tokenizer; by default loaded from where the model came from.
        context_length: maximum number of tokens per row; by default what the model was made for.

    Raises:
        ModelError: ``no-tokenizer``: none was given and none can be found; ``bad-model``.
    """

    max_batch: int | None = None

    def __init__(self, model: Any, tokenizer: Any = None, *, context_length: int | None = None) -> None:
        config = getattr(model, "config", None)
        if config is None or not callable(getattr(model, "forward", None)):
            raise ModelError(f"expected a transformers model, not {type(model).__name__}", code="bad-model")
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(
                "guiderail.generate does not run encoder-decoder models; use GuiderailLogitsProcessor with "
                "model.generate",
                code="bad-model",
            )
        if tokenizer is None:
            place = getattr(config, "_name_or_path", "")
            if not place:
                raise ModelError("pass the tokenizer too: load_model((model, tokenizer))", code="no-tokenizer")
            from transformers import AutoTokenizer

            try:
                tokenizer = AutoTokenizer.from_pretrained(place)
            except (OSError, ValueError) as error:
                raise ModelError(
                    f"no tokenizer was found at {place!r}; pass it: load_model((model, tokenizer))",
                    code="no-tokenizer",
                ) from error
        self.model, self.tokenizer = model, tokenizer
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        trained = int(getattr(text, "max_position_embeddings", None) or 1 << 20)
        check_context_length(context_length, trained)
        self.context_length: int = context_length or trained
        self.logits_size: int = int(getattr(text, "vocab_size", None) or len(tokenizer))
        self._closed = False

    @property
    def pass_tokens(self) -> int:
        return 16 if getattr(self.model.device, "type", "cpu") == "cpu" else 64  # rows are padded to the longest

    @cached_property
    def keeps_logits(self) -> bool:
        """Whether the model accepts the number of tokens whose logits are needed; older models compute all of them."""
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters

    @property
    def name(self) -> str:
        return getattr(self.model.config, "_name_or_path", "") or type(self.model).__name__

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from guiderail.vocabulary import Vocabulary

        return Vocabulary.from_huggingface(self.tokenizer, size=max(self.logits_size, len(self.tokenizer)))

    @cached_property
    def prompts(self) -> TransformersPrompts:
        """What makes tokens of prompts."""
        return TransformersPrompts(self.name, self.tokenizer)

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Returns the token ids of a text; special: its spellings of special tokens are read as these."""
        return self.prompts.tokenize(text, special=special)

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return self.prompts.encode(prompt, chat=chat, system=system)

    def new_session(self, batch: int, length: int) -> TransformersSession:
        if self._closed:
            raise ModelError(f"the model {self.name} was closed; load it again", code="closed")
        if length > self.context_length:
            raise context_full(self.name, length, self.context_length)
        return TransformersSession(self, batch, length)

    def new_branches(self, prompt: Sequence[int], longest: int, chains: int = MOST_CHAINS) -> TransformersBranches:
        """What the model says after a prompt and many short strings; see :class:`Branches`."""
        from guiderail.generation.models.transformers_branches import TransformersBranches

        if self._closed:
            raise ModelError(f"the model {self.name} was closed; load it again", code="closed")
        return TransformersBranches(self, prompt, chains)

    def close(self) -> None:
        """Frees nothing: the model belongs to the caller. Sessions can no longer be opened."""
        self._closed = True

    def __repr__(self) -> str:
        return f"TransformersModel({self.name!r})"


class TransformersSession:
    """Rows in one key-value cache. Rows fed fewer tokens than others are padded on the left, masked out."""

    def __init__(self, model: TransformersModel, batch: int, length: int) -> None:
        if batch < 1:
            raise ModelError(f"a session has 1 row or more, not {batch}", code="bad-batch")
        self._model: TransformersModel | None = model
        self.batch, self.length = batch, length
        self._cache: Any = None
        self._mask = np.zeros((batch, 0), np.int64)
        self._used = np.zeros(batch, np.int64)
        self._rows: Logits = np.zeros((batch, model.logits_size), np.float32)
        self._keeps = model.keeps_logits

    def feed(self, rows: Sequence[Sequence[int]]) -> Logits:
        last = self._compute(rows, 1)[:, -1]
        for row, tokens in enumerate(rows):
            if tokens:
                self._rows[row] = last[row]
        return self._rows

    def feed_each(self, rows: Sequence[Sequence[int]], counts: Sequence[int]) -> list[Logits]:
        logits = self._compute(rows, max(1, *counts))
        return [logits[row, logits.shape[1] - count :] for row, count in enumerate(counts)]

    def _compute(self, rows: Sequence[Sequence[int]], most: int) -> Logits:
        """The logits after the last tokens, shape ``(batch, most, logits_size)``."""
        import torch

        if self._model is None:
            raise ModelError("the session was closed; make another one", code="closed")
        if len(rows) != self.batch:
            raise ModelError(f"the session has {self.batch} rows, not {len(rows)}", code="bad-batch")
        width = max(map(len, rows))
        if width == 0:
            raise ModelError("nothing to compute: every row of the call is empty", code="bad-batch")
        size = self._model.logits_size
        ids = np.zeros((self.batch, width), np.int64)
        mask = np.zeros((self.batch, width), np.int64)
        positions = np.zeros((self.batch, width), np.int64)
        for row, tokens in enumerate(rows):
            used = int(self._used[row])
            if used + len(tokens) > self.length:
                raise context_full(self._model.name, used + len(tokens), self.length)
            if not tokens:
                continue
            if not 0 <= min(tokens) <= max(tokens) < size:
                raise ModelError(f"a token id of row {row} is not one of {self._model.name}", code="bad-token")
            ids[row, -len(tokens) :] = tokens
            mask[row, -len(tokens) :] = 1
            positions[row, -len(tokens) :] = np.arange(used, used + len(tokens))
        full = np.concatenate([self._mask, mask], axis=1)
        model = self._model.model
        device = model.device

        def read(which: NDArray[np.intp]) -> tuple[Any, Logits]:
            with torch.inference_mode():
                output = model(
                    input_ids=torch.from_numpy(ids[which]).to(device),
                    attention_mask=torch.from_numpy(full[which]).to(device),
                    position_ids=torch.from_numpy(positions[which]).to(device),
                    past_key_values=self._cache,
                    use_cache=True,
                    **({"logits_to_keep": most} if self._keeps else {}),
                )
                return output.past_key_values, output.logits[:, -most:, :].float().cpu().numpy()

        fresh = self._cache is None
        readers, place = np.unique(leaders(rows if fresh else [None] * self.batch), return_inverse=True)
        cache, last = read(readers)
        if len(readers) < self.batch:  # several answers to one prompt: what was read once is copied
            if hasattr(cache, "reorder_cache"):
                cache.reorder_cache(torch.from_numpy(place))
                last = last[place]
            else:  # of a model that keeps a form of its own
                cache, last = read(np.arange(self.batch))
        self._cache, self._mask = cache, full
        for row, tokens in enumerate(rows):
            self._used[row] += len(tokens)
        return last

    def cut_row(self, row: int, length: int) -> None:
        """Forgets what the only row of a session has read after its first ``length`` tokens.

        Raises:
            ModelError: ``closed``; ``bad-batch``: there are several rows, or the row is shorter; ``decode``: the
                model's cache cannot be cut, except at its start.
        """
        if self._model is None:
            raise ModelError("the session was closed", code="closed")
        if self.batch != 1 or row != 0 or not 0 <= length <= int(self._used[0]):
            raise ModelError(
                f"a session of one row can be cut, within what it has read, not at {length}", code="bad-batch"
            )
        if length == 0:
            self._cache = None
        elif length == self._used[0]:
            return
        elif hasattr(self._cache, "crop"):
            self._cache.crop(length - int(self._used[0]))  # newer releases take no other sign
        else:
            raise ModelError(f"the cache of {self._model.name} cannot be cut", code="decode")
        self._mask, self._used[0] = self._mask[:, :length], length

    def close(self) -> None:
        self._model = self._cache = None
