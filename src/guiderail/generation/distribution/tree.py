"""The prefixes of a constraint's texts that a model was queried about, and what is known of each.

A node is a prefix. Its mask says which tokens may follow. ``chances`` are the model's probabilities of these, and
``left`` is their sum. ``alive`` is the share of the model's texts with this prefix that are not known to break the
constraint:

    alive(prefix) = sum over the tokens that may follow of chance(token) * alive(prefix + token)

and 1 for a prefix that has not been visited. It only decreases. Once all texts were seen, it is the probability that
the model keeps to the constraint (the trie of ASAp, Park et al. 2024, arXiv 2405.21047, Algorithm 1, whose "expected
future grammaticality" this is).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import LimitError
from guiderail.generation.distribution.reader import Reader
from guiderail.generation.models import Logits
from guiderail.generation.options import Options
from guiderail.generation.penalties import Tally
from guiderail.generation.sampling import probabilities
from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher

__all__ = ["GivenUp", "Node", "Tree"]

_NEAR = 64  # with at most as many tokens left, masks leave out what cannot end in time
_LAST = 4096  # maximum number of last tokens that are tried one by one
_NODE_BYTES = 2048  # size of a node with its matcher, without its tokens
MEMORY = 256 << 20  # bytes of the tokens of nodes
_MOST_NODES = 1 << 18


class Node:
    """A prefix; see the module.

    Attributes:
        tokens: the prefix.
        chance: the probability of its last token.
        ends: whether only a stop token can follow.
        ids: the tokens that may follow and that the model may write, ascending; None: unknown, or forgotten.
        chances: their probabilities, float64.
        weights: ``chances`` times ``alive`` after each.
        left: the probability that the mask leaves; 1 before the prefix is read.
    """

    __slots__ = (
        "alive",
        "chance",
        "chances",
        "children",
        "ends",
        "ids",
        "known",
        "left",
        "matcher",
        "parent",
        "tokens",
        "weights",
    )

    def __init__(self, parent: Node | None, tokens: tuple[int, ...], matcher: Matcher, chance: float = 1.0) -> None:
        self.parent, self.tokens, self.matcher, self.chance = parent, tokens, matcher, chance
        self.children: dict[int, Node] = {}
        self.ends = matcher.is_complete()
        self.ids: NDArray[np.int64] | None = None
        self.chances: NDArray[np.float64] = _NOTHING
        self.weights: NDArray[np.float64] = _NOTHING
        self.alive = self.left = 1.0
        self.known = False  # the model was asked, or need not be

    def path(self) -> Iterator[Node]:
        """The nodes above this one, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


_NOTHING: NDArray[np.float64] = np.zeros(0)


class GivenUp(Exception):
    """The result is no longer wanted."""


class Tree:
    """Prefixes of one prompt and one guide.

    A text of the tree ends within ``limit`` tokens. A stop token that the model has to choose is one of them; after
    a text that nothing else can follow, the stop token's probability counts, and it is not written.
    """

    def __init__(
        self,
        reader: Reader,
        guide: Guide,
        prompt: Sequence[int],
        limit: int,
        options: Options,
        *,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            stop: returns whether the result is no longer wanted.
        """
        self.reader, self.guide, self.limit = reader, guide, limit
        self._stop = stop
        self._prompt, self._options = tuple(prompt), options
        self._temperature = options.temperature
        self._penalties = options.penalties
        self._mask = allocate_token_bitmask(1, guide.vocabulary.size)
        self._held: OrderedDict[Node, int] = OrderedDict()  # nodes with tokens, by when they were last used: bytes
        self._bytes = 0
        self._nodes = 0
        self.stops: frozenset[int] = frozenset()
        self.root = self._start()

    def _start(self) -> Node:
        matcher = self.guide.matcher()
        self.stops = frozenset(matcher.stop_token_ids())
        self._held.clear()
        self._bytes = self._nodes = 0
        return Node(None, (), matcher)

    def trim(self) -> None:
        """Forgets everything if it takes too much memory; called between two texts. Later draws are just as correct."""
        if self._nodes > _MOST_NODES:
            self.root = self._start()

    def child(self, node: Node, token: int) -> Node:
        """The prefix with one more token of the node, which must not be a stop token."""
        found = node.children.get(token)
        if found is None:
            matcher = node.matcher.fork()
            if not matcher.accept_token(token):
                raise AssertionError(f"the mask allows token {token}, but the matcher does not")
            chance = 0.0 if node.ids is None else float(node.chances[np.searchsorted(node.ids, token)])
            found = node.children[token] = Node(node, (*node.tokens, token), matcher, chance)
            self._nodes += 1
        return found

    def read(self, nodes: Sequence[Node]) -> None:
        """Learns what follows prefixes, and updates ``alive`` above them. A known prefix is free, a new one takes a
        forward pass.

        Raises:
            GivenUp: the result is no longer wanted.
        """
        self._go_on()
        asked: list[Node] = []
        for node in nodes:
            if node.ids is not None:
                self._held.move_to_end(node)
            elif not node.known and not node.ends and len(node.tokens) >= self.limit:
                self._settle(node, np.zeros(0, np.int64), _NOTHING)  # too late to end
            elif node not in asked:
                asked.append(node)
        if asked:
            for node, logits in zip(asked, self.reader.read([node.tokens for node in asked]), strict=True):
                self._learn(node, logits)
            self._forget(set(nodes))

    def _go_on(self) -> None:
        if self._stop is not None and self._stop():
            raise GivenUp

    def _learn(self, node: Node, logits: Logits) -> None:
        self._go_on()
        logits = logits[: self.guide.vocabulary.size]
        if self._penalties:
            tally = Tally(self._penalties, self._prompt)
            for token in node.tokens:
                tally.note(token)
            tally.apply(logits)
        chances = probabilities(logits, self._temperature)
        ids = self._allowed(node)
        ids = ids[ids < len(chances)]
        kept = chances[ids]
        self._settle(node, ids[kept > 0], kept[kept > 0])

    def _settle(self, node: Node, ids: NDArray[np.int64], chances: NDArray[np.float64]) -> None:
        node.known = True
        node.ids, node.chances, node.weights = ids, chances, chances.copy()
        for token, child in node.children.items():
            place = int(np.searchsorted(ids, token))
            if place < len(ids) and ids[place] == token:
                child.chance = float(chances[place])
                node.weights[place] *= child.alive
        node.left = min(1.0, float(chances.sum()))
        size = _NODE_BYTES + ids.nbytes + 2 * chances.nbytes
        self._held[node] = size
        self._bytes += size
        self._set_alive(node, float(node.weights.sum()))

    @staticmethod
    def _set_alive(node: Node, alive: float) -> None:
        """Sets ``alive`` of a node and corrects it above."""
        before, node.alive = node.alive, min(1.0, max(0.0, alive))
        below = node
        for above in node.path():
            if above.ids is None:  # its tokens were forgotten
                change, alive = below.chance * (below.alive - before), above.alive
                before, above.alive = alive, min(1.0, max(0.0, alive + change))
            else:
                place = int(np.searchsorted(above.ids, below.tokens[-1]))
                above.weights[place] = above.chances[place] * below.alive
                before, above.alive = above.alive, min(1.0, float(above.weights.sum()))
            below = above

    def _forget(self, needed: set[Node]) -> None:
        """Drops the tokens of nodes that have not been used for long. What is alive in them stays."""
        if self._bytes <= MEMORY:
            return
        for node in [one for one in self._held if one not in needed]:
            self._bytes -= self._held.pop(node)
            node.ids, node.chances, node.weights = None, _NOTHING, _NOTHING
            if self._bytes <= MEMORY:
                return

    def _allowed(self, node: Node) -> NDArray[np.int64]:
        """The tokens that may follow, without those that are cheaply known to leave too few tokens to end."""
        if node.ends:
            return np.array(sorted(self.stops), np.int64)
        left = self.limit - len(node.tokens)
        if left > _NEAR:
            return self._filled(node, None)
        try:
            may = self._filled(node, left)
            if left > 1:
                return may
        except LimitError:
            return self._filled(node, None)
        others = [int(token) for token in may if token not in self.stops]
        if len(others) > _LAST:
            return may
        last = [token for token in others if self._ends_after(node, token)]
        return np.array(sorted(last + [int(token) for token in may if token in self.stops]), np.int64)

    @staticmethod
    def _ends_after(node: Node, token: int) -> bool:
        matcher = node.matcher.fork()
        return matcher.accept_token(token) and matcher.is_complete()

    def _filled(self, node: Node, budget: int | None) -> NDArray[np.int64]:
        node.matcher.fill_next_token_bitmask(self._mask, 0, budget)
        return np.flatnonzero(bitmask_to_bool(self._mask, self.guide.vocabulary.size)[0]).astype(np.int64)

    def log_left(self, node: Node) -> float:
        """The logarithm of what the masks left on the path to a node, and at the node itself."""
        return sum(math.log(one.left) if one.left > 0 else -math.inf for one in (node, *node.path()))
