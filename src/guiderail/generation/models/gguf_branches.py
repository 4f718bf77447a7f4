"""A prompt and the strings that may follow it, as sequences that share the cache of one llama.cpp context.

A token of a tree belongs to the sequences of all leaves below it, so it sees its ancestors and nothing else. One pass
reads the prompt together with the first tree.
"""

from __future__ import annotations

import ctypes as c
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.generation.models import _llama_capi as capi
from guiderail.generation.models.branches import MOST_CHAINS, MOST_NODES, Tokens, Tree, chains_of, trees_of

if TYPE_CHECKING:
    from guiderail.generation.models.gguf import GGUFModel

__all__ = ["GGUFBranches"]

_CAPACITY = 512  # tokens per pass


class Item(NamedTuple):
    """A token of a pass: the sequences that it belongs to, and the strings that end at it."""

    token: int
    position: int
    sequences: list[int]
    asked: list[int]


class GGUFBranches:
    """See the module."""

    def __init__(self, model: GGUFModel, prompt: Sequence[int], longest: int) -> None:
        self._model, self._lib = model, model._lib
        self._prompt = list(prompt)
        self._read_prompt = False
        self.passes = self.tokens = 0
        self._nodes = max(MOST_NODES, longest)
        self._capacity = max(_CAPACITY, self._nodes)
        params = self._lib.context_default_params()
        params.n_ctx = -(-(len(prompt) + self._nodes) // 256) * 256
        params.n_seq_max = MOST_CHAINS
        params.n_batch = params.n_ubatch = self._capacity
        params.n_outputs_max = MOST_NODES + 1
        params.n_threads = params.n_threads_batch = model.threads
        params.no_perf = True
        params.kv_unified = True  # one cache, whose cells belong to any number of sequences
        self._context = capi.open_context(self._lib, model._handle, params, f"{len(prompt) + self._nodes} tokens")
        self._batch = self._lib.batch_init(self._capacity, 0, MOST_CHAINS)
        model._sessions.add(self)
        self._finalizer = weakref.finalize(self, capi.free_context, self._lib, self._context, self._batch)

    def read(self, texts: Sequence[Tokens]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        if not self._finalizer.alive:
            raise ModelError("the branches were closed", code="closed")
        end = len(self._prompt)
        every, empty = list(range(MOST_CHAINS)), [index for index, text in enumerate(texts) if not text]
        if self._read_prompt and empty:  # the logits after it are gone: its last token is read again
            self._forget(end - 1)
        start = 0 if not self._read_prompt else end - 1 if empty else end
        self._read_prompt = True
        items = [Item(self._prompt[i], i, every, empty if i == end - 1 else []) for i in range(start, end)]
        trees = list(trees_of(texts, nodes=self._nodes))
        room = self._capacity - (len(trees[0].token) if trees else 0)
        while len(items) > room:  # a long prompt is read in parts, the last together with the first tree
            yield from self._decode(items[: self._capacity])
            items = items[self._capacity :]
        for tree in trees:
            yield from self._decode(items + self._items(tree))
            self._forget(end)
            items = []
        if items:
            yield from self._decode(items)

    def _items(self, tree: Tree) -> list[Item]:
        below: list[list[int]] = [[] for _ in tree.token]
        for number, chain in enumerate(chains_of(tree)):
            for node in chain:
                below[node].append(number)
        end = len(self._prompt)
        return [
            Item(token, end + tree.depth[n], below[n], [] if index is None else [index])
            for n, (token, index) in enumerate(zip(tree.token, tree.asked, strict=True))
        ]

    def _decode(self, items: list[Item]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Makes one pass."""
        batch, size = self._batch, self._model.logits_size
        batch.n_tokens = len(items)
        for i, item in enumerate(items):
            if not 0 <= item.token < size:
                raise ModelError(f"the token id {item.token} is not one of {self._model.name}", code="bad-token")
            batch.token[i], batch.pos[i] = item.token, item.position
            batch.n_seq_id[i] = len(item.sequences)
            ids = (c.c_int32 * len(item.sequences))(*item.sequences)
            c.memmove(batch.seq_id[i], ids, c.sizeof(ids))
            batch.logits[i] = bool(item.asked)
        capi.decode(self._lib, self._context, batch)
        self.passes += 1
        self.tokens += len(items)
        for i, item in enumerate(items):
            if item.asked:
                row = np.ctypeslib.as_array(self._lib.get_logits_ith(self._context, i), (size,))
                yield from ((index, row) for index in item.asked)

    def _forget(self, length: int) -> None:
        """Forgets everything except the first tokens of the prompt."""
        if not self._lib.memory_seq_rm(self._lib.get_memory(self._context), -1, length, -1):
            raise ModelError("llama.cpp failed to clear a part of its cache", code="decode")

    def close(self) -> None:
        self._finalizer()
