"""From options to generations: several texts of one prompt, drawn from the model's own distribution."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from guiderail.constraints.reading import Reading
from guiderail.generation.budget import check_budget, least_tokens
from guiderail.generation.distribution.exact import draw_exact
from guiderail.generation.distribution.reader import Reader
from guiderail.generation.distribution.tree import GivenUp, Node, Tree
from guiderail.generation.distribution.weighted import as_particles, draw_weighted
from guiderail.generation.models import Model
from guiderail.generation.models.base import room_after
from guiderail.generation.options import Options
from guiderail.generation.result import Generation, read_by
from guiderail.generation.sampling import random_of
from guiderail.matching.guide import Guide

__all__ = ["draws"]

_EXACT_ROWS = 4  # branches of one text that stay in the model's cache


def draws(
    model: Model,
    prompt: Sequence[int],
    guide: Guide,
    reading: Reading,
    options: Options,
    *,
    prefix: bytes = b"",
    first_row: int = 0,
    which: str = "",
    stop: Callable[[], bool] | None,
) -> Iterator[Generation]:
    """Draws ``options.n`` texts one at a time; each uses what earlier ones have learned.

    Args:
        prefix: text that the guide requires first and that is not part of the result: the end of a healed prompt.
        first_row: the number of the first text among all of a call, for its random numbers.
        which: names the prompt in messages, if there are several.
        stop: called at every prefix; returns whether to stop.

    Raises:
        LimitError: ``budget-too-small``: no text of the constraint has so few tokens.
        ModelError: ``context-full``, ``bad-prompt``, ``no-mass``, ``max-passes``.
    """
    limit = min(options.max_tokens, room_after(model, prompt))
    needed = least_tokens(guide.matcher(), limit)
    if needed is not None:
        check_budget(needed, limit, way_out="raise max_tokens", which=which)
    exact = options.distribution == "exact"
    reader = Reader(model, prompt, len(prompt) + limit, _EXACT_ROWS if exact else options.particles)
    tree = Tree(reader, guide, prompt, limit, options, stop=stop)
    try:
        for i in range(options.n or 1):
            started = time.perf_counter()
            random = random_of(options.seed, first_row + i)
            if exact:
                node, end, draw = draw_exact(tree, random, options.max_passes)
            else:
                chosen, texts, draw = draw_weighted(tree, random, options.particles)
                node, end = chosen.node, chosen.stop
                written = [_written(guide, one.node, one.stop, prefix) for one in texts]
                draw = replace(draw, particles=as_particles(texts, written))
            spent = time.perf_counter() - started
            text, tokens = _written(guide, node, end, prefix)
            finish = "complete" if end is None else "stop"
            weight = tree.log_left(node)
            yield read_by(
                reading, text, tokens, finish, True, len(prompt), 0, spent, 0.0, None, None, None, weight, draw
            )
    except GivenUp:
        return
    finally:
        reader.close()


def _written(guide: Guide, node: Node, end: int | None, prefix: bytes) -> tuple[str, tuple[int, ...]]:
    """The text without the prefix, and the tokens."""
    text = b"".join(map(guide.vocabulary.token_bytes, node.tokens))[len(prefix) :].decode("utf-8", "replace")
    return text, node.tokens if end is None else (*node.tokens, end)
