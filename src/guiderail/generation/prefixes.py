"""Which tokens lead towards which texts: the automata that :mod:`guiderail.generation.probabilities` walks.

A walk is a deterministic automaton over tokens. Its states are the nodes of a trie: of the texts' bytes if every
spelling counts, otherwise of the tokens of their canonical spellings. In both, an output counts for the *longest* text
that it begins with, so that no output counts for two texts.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guiderail.vocabulary import Vocabulary

__all__ = ["AllSpellings", "OneSpelling", "Spread", "Walk", "log_softmax", "log_sum"]

Floats = NDArray[np.float64]


class Spread(NamedTuple):
    """Where the probability of a prefix goes, token by token; the rest goes to none of the texts.

    Attributes:
        inner: tokens after which it is not decided: token, state, log-probability.
        decided: texts for which it is, with log-probabilities.
    """

    inner: list[tuple[int, int, float]]
    decided: list[tuple[int, float]]


def log_softmax(logits: NDArray[np.float32], width: int) -> Floats:
    """Log-probabilities of the first ``width`` tokens, shape ``(width,)``; ``-inf`` where there is no logit.

    Args:
        logits: shape ``(tokens,)``. If they contain NaN, so does the result.
    """
    wide = np.full(width, -np.inf)
    wide[: len(logits)] = logits[:width]
    wide -= wide.max()
    wide -= np.log(np.exp(wide).sum())
    return wide


def log_sum(values: Floats) -> float:
    """The logarithm of the sum of numbers that are given by their logarithms."""
    top = float(values.max()) if len(values) else -np.inf
    return top if top == -np.inf else top + float(np.log(np.exp(values - top).sum()))


class Walk:
    """A trie of texts, and what tokens do in it. State 0 is the start.

    Args:
        stops: tokens that must follow a text; None: anything may.
    """

    def __init__(self, stops: Sequence[int] | None) -> None:
        self._stops = None if stops is None else np.array(sorted(stops))
        self._children: list[dict[Hashable, int]] = [{}]
        self._text: list[int | None] = [None]  # the text that ends at each node
        self._longest: list[int | None] = [None]  # the longest text that ends at each node or before it
        self._plans: dict[int, tuple[list[tuple[int, int]], list[tuple[int, NDArray[np.int64]]]]] = {}

    def _add(self, word: Iterable[Hashable], text: int) -> None:
        at = 0
        for letter in word:
            child = self._children[at].get(letter)
            if child is None:
                child = self._children[at][letter] = len(self._children)
                self._children.append({})
                self._text.append(None)
            at = child
        self._text[at] = text

    def _finish(self) -> None:
        self._longest = [*self._text]
        for state, children in enumerate(self._children):  # a child comes after its parent
            for child in children.values():
                if self._text[child] is None:
                    self._longest[child] = self._longest[state]

    def settled(self, state: int) -> int | None:
        """The text for which an output that has led here counts, if nothing that follows can change that."""
        return self._text[state] if self._stops is None and not self._children[state] else None

    def step(self, state: int, token: int) -> int:
        """The state after a token of a text's usual spelling."""
        raise NotImplementedError

    def spread(self, state: int, logprobs: Floats) -> Spread:
        """Where the tokens after a state lead.

        Args:
            logprobs: of each token, shape ``(tokens,)``.
        """
        if state not in self._plans:
            self._plans[state] = self._plan(state)
        steps, beyond = self._plans[state]
        inner = [(token, after, float(logprobs[token])) for token, after in steps]
        here = self._text[state]
        if self._stops is not None:
            return Spread(inner, [] if here is None else [(here, log_sum(logprobs[self._stops]))])
        decided = [(text, log_sum(logprobs[tokens])) for text, tokens in beyond]
        longest = self._longest[state]
        if longest is not None:
            others = np.ones(len(logprobs), np.bool_)
            others[[token for token, _ in steps]] = False
            for _, tokens in beyond:
                others[tokens] = False
            decided.append((longest, log_sum(logprobs[others])))
        return Spread(inner, decided)

    def _plan(self, state: int) -> tuple[list[tuple[int, int]], list[tuple[int, NDArray[np.int64]]]]:
        """The tokens that stay inside the trie, with where they lead, and those that go beyond one of the texts."""
        raise NotImplementedError


class OneSpelling(Walk):
    """Each text by one sequence of tokens."""

    def __init__(self, spellings: Sequence[Sequence[int]], stops: Sequence[int] | None) -> None:
        super().__init__(stops)
        for text, tokens in enumerate(spellings):
            self._add(tokens, text)
        self._finish()

    def step(self, state: int, token: int) -> int:
        return self._children[state][token]

    def _plan(self, state: int) -> tuple[list[tuple[int, int]], list[tuple[int, NDArray[np.int64]]]]:
        return [(int(token), child) for token, child in self._children[state].items()], []  # type: ignore[call-overload]


class AllSpellings(Walk):
    """Each text by its bytes, whatever the tokens. A token may reach beyond the end of a text."""

    def __init__(self, texts: Sequence[bytes], vocabulary: Vocabulary, stops: Sequence[int] | None) -> None:
        super().__init__(stops)
        self._vocabulary = vocabulary
        self._twins = _twins(vocabulary)
        for text, data in enumerate(texts):
            self._add(data, text)
        self._finish()

    def step(self, state: int, token: int) -> int:
        for byte in self._vocabulary.core.token_bytes(token):
            state = self._children[state][byte]
        return state

    def _plan(self, state: int) -> tuple[list[tuple[int, int]], list[tuple[int, NDArray[np.int64]]]]:
        steps: list[tuple[int, int]] = []
        beyond: dict[int, list[int]] = {}
        waiting: list[tuple[int, bytes, int | None]] = [
            (child, bytes([byte]), None)  # type: ignore[list-item]
            for byte, child in self._children[state].items()
        ]
        while waiting:
            node, read, passed = waiting.pop()
            passed = passed if self._text[node] is None else self._text[node]
            beyond_counts = passed is not None and self._stops is None
            tokens = self._beginning(read, beyond_counts)
            for token in tokens:
                data = self._vocabulary.core.token_bytes(token)
                if len(data) == len(read):
                    steps += [(twin, node) for twin in self._twins.get(data, (token,))]
                elif passed is not None and beyond_counts and data[len(read)] not in self._children[node]:
                    beyond.setdefault(passed, []).extend(self._twins.get(data, (token,)))
            if tokens:
                waiting += [
                    (child, read + bytes([byte]), passed)  # type: ignore[list-item]
                    for byte, child in self._children[node].items()
                ]
        return steps, [(text, np.array(tokens)) for text, tokens in beyond.items()]

    def _beginning(self, read: bytes, every: bool) -> list[int]:
        """Tokens that begin like this, one of each set with the same bytes: all, or the shortest and a longer one."""
        return self._vocabulary.core.tokens_with_prefix(read, self._vocabulary.size if every else 2)


_known_twins: weakref.WeakKeyDictionary[Vocabulary, dict[bytes, tuple[int, ...]]] = weakref.WeakKeyDictionary()


def _twins(vocabulary: Vocabulary) -> dict[bytes, tuple[int, ...]]:
    """Byte strings that several tokens share, such as a letter and a byte token, with these tokens; without stop
    tokens.
    """
    found = _known_twins.get(vocabulary)
    if found is None:
        by_bytes: dict[bytes, list[int]] = {}
        for token, data in enumerate(map(vocabulary.core.token_bytes, range(vocabulary.token_count))):
            by_bytes.setdefault(data, []).append(token)
        found = {
            data: tuple(token for token in tokens if vocabulary.is_text(token)
                        and token not in vocabulary.stop_token_ids)
            for data, tokens in by_bytes.items()
            if len(tokens) > 1 or tokens[0] in vocabulary.stop_token_ids
        }  # fmt: skip
        _known_twins[vocabulary] = found
    return found
