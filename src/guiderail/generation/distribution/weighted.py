"""Texts with weights, drawn together: sequential Monte Carlo whose proposals are the masks.

A population of texts grows by a token at a time. Each token is drawn from what the mask leaves, and the text's weight
is multiplied by what that was: a text that has to be written against the model's will loses weight. Where the weight
lies on few texts, the population is drawn again from itself, texts as often as their weight says: forks of matchers
and, where the model has one, copies of its cache (Loula et al. 2025, arXiv 2504.13139, §2; Lew et al. 2023,
arXiv 2306.03081). The mean weight is an unbiased estimate of the probability that the model keeps to the constraint by
itself. For more and more texts, one drawn by its weight is drawn from the model's distribution under the constraint;
for few, nearly so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.generation.distribution.outcome import Draw, Particle
from guiderail.generation.distribution.tree import Node, Tree

__all__ = ["Text", "draw_weighted"]

_RESAMPLE = 0.5  # of the texts: where the population is worth no more than these, it is drawn again


@dataclass(frozen=True, slots=True)
class Text:
    """One text of the population."""

    node: Node
    log_weight: float
    family: int
    stop: int | None = None
    over: bool = False


def draw_weighted(tree: Tree, random: np.random.Generator, particles: int) -> tuple[Text, list[Text], Draw]:
    """Writes a population and draws one text of it by weight.

    Returns:
        the text, the population, and what it cost, without the population.

    Raises:
        ModelError: ``no-mass``: no text of the population ended in time, or the model gives all of them no probability.
    """
    tree.trim()
    started = tree.reader.passes
    texts = [Text(tree.root, 0.0, i) for i in range(particles)]
    resampled = 0
    while any(not text.over for text in texts):
        texts = _grow(tree, texts, random)
        if all(text.log_weight == -math.inf for text in texts):
            raise ModelError(
                f"none of the {particles} texts that were begun can be ended within max_tokens with a probability "
                "above 0; raise max_tokens, take more particles, or loosen the constraint",
                code="no-mass",
            )
        if any(not text.over for text in texts) and _effective(texts) < _RESAMPLE * particles:
            texts = _resample(texts, random)
            resampled += 1
    log_mass = _log_mean(texts)
    shares = _shares(texts)
    chosen = texts[_pick(np.cumsum(shares), random.random())]
    passes = tree.reader.passes - started
    draw = Draw("weighted", passes, particles, log_mass, float(1 / (shares**2).sum()), resampled)
    return chosen, [replace(text, log_weight=_log(share)) for text, share in zip(texts, shares, strict=True)], draw


def as_particles(texts: list[Text], written: list[tuple[str, tuple[int, ...]]]) -> tuple[Particle, ...]:
    """The population as users see it.

    Args:
        written: of each text.
    """
    return tuple(
        Particle(text, tokens, one.log_weight, one.family) for one, (text, tokens) in zip(texts, written, strict=True)
    )


def _grow(tree: Tree, texts: list[Text], random: np.random.Generator) -> list[Text]:
    """Each text with a token more."""
    running = [text for text in texts if not text.over]
    tree.read(list(dict.fromkeys(text.node for text in running)))
    sums: dict[Node, NDArray[np.float64]] = {}
    return [text if text.over else _step(tree, text, sums, random) for text in texts]


def _step(tree: Tree, text: Text, sums: dict[Node, NDArray[np.float64]], random: np.random.Generator) -> Text:
    node = text.node
    assert node.ids is not None
    if not len(node.ids):
        return replace(text, log_weight=-math.inf, over=True)
    weight = text.log_weight + math.log(node.left)
    if node.ends:
        return replace(text, log_weight=weight, over=True)
    if node not in sums:
        sums[node] = np.cumsum(node.chances)
    token = int(node.ids[_pick(sums[node], random.random())])
    if token in tree.stops:
        return replace(text, log_weight=weight, stop=token, over=True)
    return replace(text, node=tree.child(node, token), log_weight=weight)


def _pick(sums: NDArray[np.float64], number: float) -> int:
    return min(int(np.searchsorted(sums, number * sums[-1], "right")), len(sums) - 1)


def _resample(texts: list[Text], random: np.random.Generator) -> list[Text]:
    """As many texts, drawn by weight one by one, each with the mean weight."""
    mean = _log_mean(texts)
    sums = np.cumsum(_shares(texts))
    return [replace(texts[_pick(sums, number)], log_weight=mean) for number in random.random(len(texts))]


def _shares(texts: list[Text]) -> NDArray[np.float64]:
    logs = np.array([text.log_weight for text in texts])
    weights: NDArray[np.float64] = np.exp(logs - logs.max())
    weights /= weights.sum()
    return weights


def _effective(texts: list[Text]) -> float:
    return float(1 / (_shares(texts) ** 2).sum())


def _log_mean(texts: list[Text]) -> float:
    logs = np.array([text.log_weight for text in texts])
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


def _log(share: float) -> float:
    return math.log(share) if share > 0 else -math.inf
