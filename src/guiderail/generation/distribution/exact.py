"""Draws texts from the model's own distribution under a constraint: rejection sampling that remembers.

Plain rejection sampling lets the model write freely and discards texts that break the constraint. Each text it keeps
has the right distribution, but it discards nearly all. Here, an attempt also writes as the model would, but never again
what is known to be wrong: at each prefix it samples a token with probability proportional to
``chance(token) * alive(prefix + token)``. At a new prefix, the mask shows how much is wrong. With that probability the
model would have written something wrong, so the attempt is abandoned, and the tree above is updated. An accepted text
has the model's distribution under the constraint, whatever the tree knew, because an attempt samples from that
distribution mixed with texts that are rejected (CARS, arXiv 2510.01902; AWRS, Lipkin et al. 2025, arXiv 2504.05410,
does the same token by token). Prefixes that were read before cost nothing.
"""

from __future__ import annotations

import numpy as np

from guiderail.errors import ModelError
from guiderail.generation.distribution.outcome import Draw, PassesError, log_of
from guiderail.generation.distribution.tree import Node, Tree

__all__ = ["attempt", "draw_exact"]

_ATTEMPTS = 64  # attempts for each allowed pass; most failed attempts made one pass


def draw_exact(tree: Tree, random: np.random.Generator, max_passes: int) -> tuple[Node, int | None, Draw]:
    """Draws a text.

    Returns:
        its prefix, the stop token sampled after it (None if nothing else could follow), and what it cost.

    Raises:
        PassesError: ``max-passes``: no text was accepted in that many forward passes.
        ModelError: ``no-mass``: the model gives every text of the constraint a probability of 0.
    """
    tree.trim()
    started = tree.reader.passes
    for count in range(1, _ATTEMPTS * max_passes + 1):
        if tree.root.alive <= 0:
            raise ModelError(
                "the model gives probability 0 to every match that ends within max_tokens; raise "
                "max_tokens, loosen the constraint, or change the prompt",
                code="no-mass",
            )
        found = attempt(tree, random, started + max_passes)
        if found is not None:
            node, stop = found
            passes = tree.reader.passes - started
            bound = log_of(tree.root.alive)
            return node, stop, Draw("exact", passes, count, bound, bound)
        if tree.reader.passes - started >= max_passes:
            break
    raise _too_many(tree, tree.reader.passes - started)


def attempt(tree: Tree, random: np.random.Generator, most: int) -> tuple[Node, int | None] | None:
    """A text as the model would write it, or None if it turns out to be wrong or the passes are spent."""
    node = tree.root
    while True:
        if node.ids is None and not node.known and tree.reader.passes >= most:
            return None
        before = node.alive
        tree.read([node])
        if node.alive < before and random.random() * before >= node.alive:
            return None
        if node.ends:
            return node, None
        assert node.ids is not None
        sums = np.cumsum(node.weights)
        if not len(sums) or sums[-1] <= 0:
            return None
        place = int(np.searchsorted(sums, random.random() * sums[-1], "right"))
        token = int(node.ids[min(place, len(sums) - 1)])
        if token in tree.stops:
            return node, token
        node = tree.child(node, token)


def _too_many(tree: Tree, passes: int) -> PassesError:
    mass = tree.root.alive
    error = PassesError(
        f"no text was accepted in {passes} forward passes: by itself the model follows the constraint with a "
        f"probability of at most {mass:.2g}; ask for it in the prompt (describe=True), raise max_passes, or take "
        'distribution="weighted"'
    )
    error.passes, error.mass = passes, mass
    return error
