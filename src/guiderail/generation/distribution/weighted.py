"""Weighted texts, drawn together: sequential Monte Carlo with the masks as proposals.

A population of texts grows by one token at a time. Each token is sampled from what the mask leaves, and the text's
weight is multiplied by the probability that the mask left. So a text that is written against the model's will loses
weight. When few texts hold most of the weight, the population is resampled, each text as often as its weight says, with
forks of matchers and, if the model supports it, copies of its cache (Loula et al. 2025, arXiv 2504.13139, §2; Lew et
al. 2023, arXiv 2306.03081). The mean weight is an unbiased estimate of the probability that the model keeps to the
constraint by itself. As the population grows, the distribution of a text drawn by weight approaches the model's own
distribution under the constraint.

A mask knows nothing of what follows the next token, so the first tokens of a population may all belong to texts that
the model would never end. Therefore some passes are first spent on attempts at exact draws, and tokens are sampled with
what the tree knows: with probability proportional to ``chance(token) * alive(prefix + token)``. Weights are then at
most ``alive`` at the start, and if the tree knows everything, they are all equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.generation.distribution.exact import attempt
from guiderail.generation.distribution.outcome import Draw, Particle, log_of
from guiderail.generation.distribution.tree import Node, Tree

__all__ = ["Text", "draw_weighted"]

_LEARN = 4  # forward passes per text that build the tree first
_RECENT = 16  # attempts; if three quarters of the last ones succeed, the tree is good enough
_RESAMPLE = 0.5  # share of the texts: a population with a smaller effective size is resampled


@dataclass(frozen=True, slots=True)
class Text:
    """One text of the population."""

    node: Node
    log_weight: float
    family: int
    assumed: float = 1.0  # what was alive at the node when its last token was drawn
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
    attempts = _learn(tree, random, started + _LEARN * particles)
    bound = tree.root.alive
    texts = [Text(tree.root, 0.0, i) for i in range(particles)]
    resampled = 0
    while any(not text.over for text in texts):
        texts = _grow(tree, texts, random)
        if all(text.log_weight == -math.inf for text in texts):
            raise ModelError(
                f"none of the {particles} particles can finish within max_tokens with a probability "
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
    size = float(1 / (shares**2).sum())
    draw = Draw("weighted", passes, particles + attempts, log_mass, log_of(bound), size, resampled)
    return (
        chosen,
        [replace(text, log_weight=log_of(float(share))) for text, share in zip(texts, shares, strict=True)],
        draw,
    )


def as_particles(texts: list[Text], written: list[tuple[str, tuple[int, ...]]]) -> tuple[Particle, ...]:
    """The population as users see it.

    Args:
        written: of each text.
    """
    return tuple(
        Particle(text, tokens, one.log_weight, one.family) for one, (text, tokens) in zip(texts, written, strict=True)
    )


def _learn(tree: Tree, random: np.random.Generator, most: int) -> int:
    """Attempts exact draws until most of them succeed, or up to this many passes; returns how many."""
    recent: list[bool] = []
    while tree.root.alive > 0 and len(recent) < _RECENT * most:
        found = attempt(tree, random, most)
        if tree.reader.passes >= most:
            break
        recent.append(found is not None)
        if 4 * sum(recent[-_RECENT:]) >= 3 * _RECENT:
            break
    return len(recent)


def _grow(tree: Tree, texts: list[Text], random: np.random.Generator) -> list[Text]:
    """Extends each text by a token."""
    running = [text for text in texts if not text.over]
    tree.read(list(dict.fromkeys(text.node for text in running)))
    sums: dict[Node, NDArray[np.float64]] = {}
    return [text if text.over else _step(tree, text, sums, random) for text in texts]


def _step(tree: Tree, text: Text, sums: dict[Node, NDArray[np.float64]], random: np.random.Generator) -> Text:
    node = text.node
    assert node.ids is not None
    if node.alive <= 0:
        return replace(text, log_weight=-math.inf, over=True)
    weight = text.log_weight + math.log(node.alive / text.assumed)
    if node.ends:
        return replace(text, log_weight=weight, over=True)
    if node not in sums:
        sums[node] = np.cumsum(node.weights)
    token = int(node.ids[_pick(sums[node], random.random())])
    if token in tree.stops:
        return replace(text, log_weight=weight, stop=token, over=True)
    child = tree.child(node, token)
    return replace(text, node=child, log_weight=weight, assumed=child.alive)


def _pick(sums: NDArray[np.float64], number: float) -> int:
    return min(int(np.searchsorted(sums, number * sums[-1], "right")), len(sums) - 1)


def _resample(texts: list[Text], random: np.random.Generator) -> list[Text]:
    """The same number of texts, drawn one by one by weight, each with the mean weight."""
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
