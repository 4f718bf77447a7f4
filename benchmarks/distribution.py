"""Measures sampling from the model's own distribution: the cost, and the error of each method.

python benchmarks/distribution.py [--json FILE] [--genlm FILE]

The tasks have few texts, so the true distribution can be computed. The embedded model is queried once for each prefix,
and every method uses these answers. Each query of a new prefix counts as a forward pass. With plain rejection, the
model writes freely and starts again when the text breaks the constraint; its passes are computed from the true
distribution. For the others, the error is the total variation between the sampled texts and the model's distribution
under the constraint:

    masked      1 .. 256 texts, each sampled from the allowed tokens
    exact       1 .. 256 texts of distribution="exact", which share what they learn
    weighted    populations of 1 .. 256 texts of distribution="weighted"

``--export FILE`` writes the first task for benchmarks/support/genlm_control.py, and ``--genlm FILE`` reads its
measurements. ``--json`` saves the figures, from which ``docs/draw_distribution.py`` draws the chart.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import guiderail as gr
from guiderail.generation.models import EmbeddedModel

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from distribution_support import TASKS, Kept, divergence, truth

SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
SEEDS = 30

Table = dict[tuple[int, ...], float]


def rejection_passes(expected: Table, prefixes: Table) -> float:
    """Returns the passes of plain rejection for one text: those of an attempt over its probability of success."""
    return sum(prefixes.values()) / sum(expected.values())


def prefixes_of(logits_of: Callable[[list[int]], Any], expected: Table, vocabulary: Any, stops: set[int]) -> Table:
    """Returns the probability of each prefix of a text under the model alone."""
    found: Table = {(): 1.0}
    for key in expected:
        tokens = [token for token in key if token not in stops]
        for end in range(1, len(tokens) + 1):
            prefix = tuple(tokens[:end])
            if prefix not in found:
                logits = np.asarray(logits_of(tokens[: end - 1])[: vocabulary.size], float)
                chances = np.exp(logits - logits.max())
                found[prefix] = found[prefix[:-1]] * float(chances[prefix[-1]] / chances.sum())
    return found


def variation(drawn: list[tuple[tuple[int, ...], float]], expected: Table) -> float:
    """Returns the total variation between weighted samples and a distribution."""
    total, weight = sum(expected.values()), sum(share for _, share in drawn)
    left = {key: chance / total for key, chance in expected.items()}
    for key, share in drawn:
        left[key] = left.get(key, 0.0) - share / weight
    return 0.5 * sum(map(abs, left.values()))


def curves(model: Kept, prompt: str, constraint: gr.Constraint, limit: int, expected: Table) -> dict[str, list[Any]]:
    """Returns passes and error of each method, averaged over seeds."""
    found: dict[str, list[Any]] = {}
    options: dict[str, Any] = {"temperature": 1.0, "max_tokens": limit, "log_weight": False, "on_incomplete": "return"}
    for way in ("masked", "exact", "weighted"):
        for size in SIZES:
            errors, passes = [], []
            for seed in range(SEEDS):
                more = {"particles": size} if way == "weighted" else {"n": size}
                texts = gr.generations(
                    model, [prompt], constraint, seed=seed, distribution=way, jump_forward=False, **options, **more
                )
                if way == "weighted":
                    drawn = [(one.tokens, math.exp(one.log_weight)) for one in texts[0].draw.particles]
                    passes.append(texts[0].draw.passes)
                else:
                    drawn = [(one.tokens, 1.0) for one in texts]
                    made = [one.draw.passes if one.draw else len(one.tokens) for one in texts]
                    passes.append(sum(made))
                errors.append(variation(drawn, expected))
            found.setdefault(way, []).append([float(np.mean(passes)), float(np.mean(errors))])
    return found


def measure(model: Kept, name: str) -> dict[str, Any]:
    prompt, pattern, limit = TASKS[name]
    constraint = gr.regex(pattern)
    start = model.encode(prompt, chat=True)

    def logits_of(tokens: list[int]) -> Any:
        return model.logits([*start, *tokens])

    expected, masked = truth(logits_of, constraint, model.vocabulary, limit)
    stops = set(gr.compile(constraint, model.vocabulary).matcher().stop_token_ids())
    plain = rejection_passes(expected, prefixes_of(logits_of, expected, model.vocabulary, stops))
    options: dict[str, Any] = {"temperature": 1.0, "max_tokens": limit, "distribution": "exact"}
    first = [gr.generations(model, [prompt], constraint, seed=seed, **options)[0].draw.passes for seed in range(SEEDS)]
    many = gr.generations(model, [prompt], constraint, seed=0, n=1000, **options)
    return {
        "texts": len(expected),
        "mass": sum(expected.values()),
        "kl_masked": divergence(expected, masked),
        "tv_masked": variation(list(masked.items()), expected),
        "rejection": plain,
        "exact_first": float(np.mean(first)),
        "exact_1000": sum(one.draw.passes for one in many),
    }


def export(model: Kept, file: Path) -> None:
    """Writes the first task as arrays: prefixes, logits, the bytes of the tokens, and the true distribution."""
    prompt, pattern, limit = TASKS["binary_len_5"]
    start = model.encode(prompt, chat=True)
    rows: dict[tuple[int, ...], Any] = {}

    def logits_of(tokens: list[int]) -> Any:
        rows[tuple(tokens)] = model.logits([*start, *tokens])
        return rows[tuple(tokens)]

    expected, _ = truth(logits_of, gr.regex(pattern), model.vocabulary, limit)
    size = model.vocabulary.size
    np.savez(
        file,
        prefixes=np.array([json.dumps(key) for key in rows]),
        logits=np.array([row[:size] for row in rows.values()]),
        tokens=np.array([model.vocabulary.token_bytes(token).hex() for token in range(size)]),
        stops=np.array(sorted(gr.compile(gr.regex(pattern), model.vocabulary).matcher().stop_token_ids())),
        truth=np.array([json.dumps([key, chance]) for key, chance in expected.items()]),
        pattern=pattern,
        limit=limit,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--genlm", type=Path)
    parser.add_argument("--export", type=Path)
    options = parser.parse_args()
    with EmbeddedModel() as embedded:
        model = Kept(embedded)
        if options.export:
            export(model, options.export)
            return
        figures: dict[str, Any] = {"tasks": {name: measure(model, name) for name in TASKS}}
        prompt, pattern, limit = TASKS["binary_len_5"]
        constraint = gr.regex(pattern)
        start = model.encode(prompt, chat=True)
        expected, _ = truth(lambda tokens: model.logits([*start, *tokens]), constraint, model.vocabulary, limit)
        figures["curves"] = curves(model, prompt, constraint, limit, expected)
    if options.genlm:
        figures["curves"]["genlm-control"] = json.loads(options.genlm.read_text())
    for name, row in figures["tasks"].items():
        print(name, {key: float(f"{value:.3g}") for key, value in row.items()})
    for way, points in figures["curves"].items():
        print(way, [(round(passes, 1), round(error, 3)) for passes, error in points])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
