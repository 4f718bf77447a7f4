"""``guiderail bench``: what a constraint costs over a vocabulary, on this machine."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from guiderail.cli._options import Given, VocabularyOption, load_vocabulary, takes_options

if TYPE_CHECKING:
    from rich.table import Table


@takes_options()
def bench_command(
    *,
    given: Given,
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Number of tokens to draw.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random tokens.")] = 0,
    vocabulary: VocabularyOption = None,
) -> None:
    r"""Measure compilation, masks and acceptance on random allowed tokens.

    Tokens are drawn uniformly from each mask; when a text ends, the next one begins. A mask is measured when its state
    first occurs in the run, and again when it recurs. Times include the call from Python.

    **Example**

    - `guiderail bench --regex "[a-z]{3,20}@[a-z]{2,12}\.(com|org)" --tokens 2000`
    """
    from rich.console import Console

    from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool
    from guiderail.matching.guide import compile

    constraint = given.constraint()
    started = time.perf_counter()
    words = load_vocabulary(vocabulary)
    assert words.core.size == words.size  # building the trie belongs to loading, not to the first compilation
    loading = time.perf_counter() - started

    clock = time.perf_counter_ns
    bitmask = allocate_token_bitmask(1, words.size)
    target = bitmask.copy()
    begin = clock()
    guide = compile(constraint, words, cache=False)
    matcher = guide.matcher()
    compiled = clock() - begin
    begin = clock()
    matcher.fill_next_token_bitmask(bitmask)
    first = clock() - begin

    draw = random.Random(seed)
    stops = list(words.stop_token_ids)
    fresh: list[int] = []
    again: list[int] = []
    accepts: list[int] = []
    met = {matcher.state}
    texts = 1
    for _ in range(tokens):
        begin = clock()
        matcher.fill_next_token_bitmask(bitmask)
        (again if matcher.state in met else fresh).append(clock() - begin)
        met.add(matcher.state)
        allowed = bitmask_to_bool(bitmask, words.size)[0]
        allowed[stops] = False
        candidates = np.flatnonzero(allowed)
        if len(candidates) == 0:  # only the end
            matcher.reset()
            texts += 1
            continue
        token = int(candidates[draw.randrange(len(candidates))])
        begin = clock()
        matcher.accept_token(token)
        accepts.append(clock() - begin)
    copies = []
    for _ in range(1000):
        begin = clock()
        np.copyto(target, bitmask)
        copies.append(clock() - begin)

    console = Console(highlight=False)
    console.print(
        f"{tokens} steps in {texts} texts over {words.size:,} tokens, {len(met)} states; vocabulary loaded in "
        f"{loading * 1e3:.0f} ms, compiled in {compiled / 1e3:.0f} µs, first mask in {first / 1e3:.0f} µs; "
        f"guide {guide.memory_size_bytes() / 1e6:.2f} MB",
        markup=False,
    )
    times = {"mask, new state": fresh, "mask, known state": again, "accept": accepts, "copy of a mask": copies}
    console.print(_table(times))


def _table(times: dict[str, list[int]]) -> Table:
    """Statistics of times in nanoseconds, in microseconds."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("µs", no_wrap=True)
    for name in ("count", "mean", "p50", "p99", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, values in times.items():
        if values:
            micro = np.array(values) / 1e3
            numbers = (micro.mean(), np.percentile(micro, 50), np.percentile(micro, 99), micro.max())
            table.add_row(name, str(len(values)), *(f"{number:.2f}" for number in numbers))
    return table
