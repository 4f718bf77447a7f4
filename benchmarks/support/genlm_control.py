"""Runs genlm-control on the first task of benchmarks/distribution.py, in its own environment.

    python benchmarks/distribution.py --export task.npz
    python -m venv other && other/bin/pip install genlm-control
    other/bin/python benchmarks/support/genlm_control.py task.npz genlm.json

The model's answers are those of the export, so both libraries query the same model. Its tokens are those of the
constraint's texts, and one that represents all others. Each query of a new prefix counts as a forward pass. A second
query of the same prefix is free, as with a perfect cache.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import numpy as np
from genlm.control import AWRS, BoolFSA, Potential

OTHER = b"\xff"  # represents every token that no text of the constraint uses
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
SEEDS = 30


class Table(Potential):  # type: ignore[misc]
    """A language model with recorded answers."""

    def __init__(self, data: Any) -> None:
        spelled = [bytes.fromhex(token) for token in data["tokens"]]
        self.ids = [i for i, token in enumerate(spelled) if token and set(token) <= set(b"01")]
        self.bytes = {i: spelled[i] for i in self.ids}
        self.known: dict[bytes, Any] = {}
        self.asked: set[tuple[bytes, ...]] = set()
        stops = [int(stop) for stop in data["stops"]]
        for key, row in zip(data["prefixes"], data["logits"], strict=True):
            wide = np.asarray(row, float)
            logs = wide - (wide.max() + np.log(np.exp(wide - wide.max()).sum()))
            stop = np.logaddexp.reduce(logs[stops])
            own = logs[self.ids]
            rest = np.log(max(1e-300, 1 - np.exp(own).sum() - np.exp(stop)))
            self.known[tuple(self.bytes[i] for i in json.loads(str(key)) if i in self.bytes)] = [*own, rest, stop]
        super().__init__([*(self.bytes[i] for i in self.ids), OTHER])

    async def prefix(self, context: list[bytes]) -> float:
        total = 0.0
        for i, token in enumerate(context):
            row = self.known.get(tuple(context[:i]))
            if row is None:
                return float("-inf")
            total += row[self.lookup[token]]
        return total

    async def complete(self, context: list[bytes]) -> float:
        row = self.known.get(tuple(context))
        return float("-inf") if row is None else await self.prefix(context) + row[-1]

    async def logw_next(self, context: list[bytes]) -> Any:
        self.asked.add(tuple(context))
        row = self.known.get(tuple(context))
        return self.make_lazy_weights(np.array(row if row is not None else [-np.inf] * (len(self.vocab) + 1)))


async def measure(data: Any) -> list[list[float]]:
    pattern, limit = str(data["pattern"]), int(data["limit"])
    truth: dict[bytes, float] = {}
    model = Table(data)
    for entry in data["truth"]:
        key, chance = json.loads(str(entry))
        text = b"".join(model.bytes.get(token, b"") for token in key)
        truth[text] = truth.get(text, 0.0) + chance
    total = sum(truth.values())
    found = []
    for size in SIZES:
        errors, passes = [], []
        for seed in range(SEEDS):
            np.random.seed(seed)
            model.asked.clear()
            automaton = BoolFSA.from_regex(pattern)
            sampler = AWRS(model, automaton.coerce(model, f=b"".join), seed=seed)
            drawn = await sampler.smc(n_particles=size, ess_threshold=0.5, max_tokens=limit + 1)
            left = {key: chance / total for key, chance in truth.items()}
            for tokens, share in drawn.posterior.items():
                text = b"".join(token for token in tokens if isinstance(token, bytes))
                left[text] = left.get(text, 0.0) - float(share)
            errors.append(0.5 * sum(map(abs, left.values())))
            passes.append(len(model.asked))
        found.append([float(np.mean(passes)), float(np.mean(errors))])
        print(size, found[-1])
    return found


def main() -> None:
    source, target = sys.argv[1:]
    with np.load(source) as data:
        points = asyncio.run(measure({name: data[name] for name in data}))
    with open(target, "w", encoding="utf-8") as file:
        json.dump(points, file)


if __name__ == "__main__":
    main()
