"""One prompt and many short strings that may follow it, read in few passes of the model.

The strings are token ids. They form a tree, so that the prompt and common prefixes are read once. A model that can
share its cache in this way has ``new_branches``. For any other model, :func:`open_branches` uses rows of a session,
each of which reads the prompt again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from guiderail.generation.models.base import Model, context_full, empty_prompt, feed_rows

__all__ = ["MOST_CHAINS", "Branches", "Tree", "cells_of", "chains_of", "open_branches", "trees_of"]

Tokens = tuple[int, ...]

MOST_NODES = 128
"""Maximum number of tokens of a tree (one longer text is a tree of its own), and of texts that end in it."""

MOST_CHAINS = 32
"""Maximum number of leaves of a tree that one pass reads: rows of a batch, or sequences of a cache."""


class Branches(Protocol):
    """The logits of a model after a prompt and some strings. Not thread-safe; close it when done.

    Attributes:
        passes: forward passes so far.
        tokens: tokens that the model has read so far, including those of the prompt.
    """

    passes: int
    tokens: int

    def read(self, texts: Sequence[Tokens]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yields the logits after the prompt and each string, in any order.

        Args:
            texts: distinct token ids; the empty text asks for the logits after the prompt.

        Yields:
            The index of a string, and its logits: float32, shape ``(logits_size,)``, valid until the next result.

        Raises:
            ModelError: ``context-full``, ``bad-token``, or an error of the model's library.
        """

    def close(self) -> None:
        """Frees the cache. May be called more than once."""


class Tree:
    """Strings with common prefixes, as nodes: the tokens that one pass reads after a prompt.

    Attributes:
        token: the token of each node; a parent comes before its children.
        parent: the parent of each node, -1 for one that follows the prompt.
        depth: the depth of each node, 0 for one that follows the prompt.
        asked: the index of the text that ends at each node, or None.
        leaves: nodes without children.
    """

    def __init__(self) -> None:
        self.token: list[int] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.asked: list[int | None] = []
        self._known: dict[Tokens, int] = {}
        self._inner: set[int] = set()

    def new(self, text: Tokens) -> int:
        """How many nodes the text would add."""
        known = len(text)
        while known and text[:known] not in self._known:
            known -= 1
        return len(text) - known

    def add(self, text: Tokens, index: int) -> None:
        start = len(text) - self.new(text)
        at = self._known[text[:start]] if start else -1
        for depth in range(start, len(text)):
            self._inner.add(at)
            self.token.append(text[depth])
            self.parent.append(at)
            self.depth.append(depth)
            self.asked.append(None)
            at = self._known[text[: depth + 1]] = len(self.token) - 1
        self.asked[at] = index

    @property
    def leaves(self) -> list[int]:
        return [node for node in range(len(self.token)) if node not in self._inner]


def chains_of(tree: Tree) -> list[list[int]]:
    """For each leaf, the nodes from the prompt to it."""
    chains = []
    for leaf in tree.leaves:
        chain = []
        while leaf >= 0:
            chain.append(leaf)
            leaf = tree.parent[leaf]
        chains.append(chain[::-1])
    return chains


def trees_of(
    texts: Sequence[Tokens], *, nodes: int = MOST_NODES, chains: int = MOST_CHAINS, cells: int | None = None
) -> Iterator[Tree]:
    """Groups strings, except for an empty one, into trees for one pass each; neighbours share their common prefix.

    Args:
        nodes, chains: maximum of a tree; a longer text gets a tree of its own.
        cells: maximum of chains times the longest of them.
    """
    tree = Tree()
    ends = deepest = asked = 0
    last: Tokens = ()
    for index in sorted(range(len(texts)), key=lambda i: texts[i]):
        text = texts[index]
        if not text:
            continue
        ends += last != text[: len(last)] or not last
        deepest = max(deepest, len(text))
        full = ends > chains or asked == MOST_NODES or len(tree.token) + tree.new(text) > nodes
        if tree.token and (full or (cells is not None and ends * deepest > cells)):
            yield tree
            tree, ends, deepest, asked = Tree(), 1, len(text), 0
        tree.add(text, index)
        asked += 1
        last = text
    if tree.token:
        yield tree


class SessionBranches:
    """For any model: rows of a session, each of which reads the prompt."""

    def __init__(self, model: Model, prompt: Sequence[int], chains: int = MOST_CHAINS) -> None:
        self._model, self._prompt, self._chains = model, list(prompt), chains
        self.passes = self.tokens = 0

    def read(self, texts: Sequence[Tokens]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        waiting = [index for index, text in enumerate(texts) if not text]
        rows = min(self._chains, self._model.max_batch or self._chains)
        trees = list(trees_of(texts, chains=rows))
        if not trees and waiting:
            trees = [Tree()]
        for tree in trees:
            yield from self._read(tree, waiting)
            waiting = []

    def _read(self, tree: Tree, after_prompt: list[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        chains = chains_of(tree) or [[]]
        session = self._model.new_session(len(chains), len(self._prompt) + max(map(len, chains)))
        try:
            answered: set[int] = set()
            fed = [0] * len(chains)
            first = True
            while True:
                rows, ends = [], []
                for row, chain in enumerate(chains):
                    stop = fed[row]
                    if not (first and after_prompt):  # up to the next node whose logits are wanted
                        while stop < len(chain):
                            stop += 1
                            if tree.asked[chain[stop - 1]] is not None and chain[stop - 1] not in answered:
                                break
                    rows.append((self._prompt if first else []) + [tree.token[n] for n in chain[fed[row] : stop]])
                    ends.append(stop)
                if not any(rows):
                    return
                logits = feed_rows(session, rows, [row for row, some in enumerate(rows) if some])
                self.passes += 1
                self.tokens += sum(map(len, rows))
                if first:
                    yield from ((index, logits[0]) for index in after_prompt)
                for row, chain in enumerate(chains):
                    if ends[row] == fed[row]:
                        continue
                    fed[row] = ends[row]
                    node = chain[fed[row] - 1]
                    index = tree.asked[node]
                    if index is not None and node not in answered:
                        answered.add(node)
                        yield index, logits[row]
                first = False
        finally:
            session.close()

    def close(self) -> None:
        """Nothing is kept between calls."""


def cells_of(model: Model, prompt: int, longest: int, chains: int = MOST_CHAINS) -> int:
    """The maximum number of tokens of key-value cache that the branches of a prompt take.

    Args:
        prompt: its tokens.
        longest: maximum number of tokens of a string.
        chains: as for :func:`open_branches`.
    """
    if getattr(model, "branches_share_cache", False):
        return prompt + max(MOST_NODES, longest)
    return min(chains, model.max_batch or chains) * (prompt + longest)


def open_branches(model: Model, prompt: Sequence[int], longest: int, chains: int) -> Branches:
    """Opens the branches of a prompt.

    Args:
        longest: maximum number of tokens of a string.
        chains: maximum number of leaves of a tree that one pass reads; each may take the cache of a row.

    Raises:
        ModelError: ``context-full``, ``bad-prompt``: the prompt has no token.
    """
    if not prompt:
        raise empty_prompt()
    if len(prompt) + longest > model.context_length:
        raise context_full(model.name, len(prompt) + longest, model.context_length)
    new = getattr(model, "new_branches", None)
    made: Branches = SessionBranches(model, prompt, chains) if new is None else new(prompt, longest, chains)
    return made
