"""Measures the cost of a constraint in generation: the same number of tokens with and without it, per batch size.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --models llama.cpp --batches 1,16 --rounds 9 --json overhead.jsonl

Two sessions of one model run side by side, pass by pass, so that both meet the same noise. One runs ``guiderail``'s own
loop: forced tokens, masks, sampling, acceptance, text. The other runs a plain loop without a constraint. Each of its
passes feeds the next token of each row, the same that the first loop wrote, and samples one for each row that was fed.
It does nothing else. Whole texts are timed, from the prompt to the last token, without compilation.

- *slower*: time with the constraint divided by the time without, minus one. Median, minimum and maximum over the
  rounds. Forced tokens need no forward pass, but the plain loop needs one for every token. With ``--forced given`` the
  plain loop is fed the same tokens in the same portions, so this gain does not count.
- *masks cold*: the text is new; *warm*: it was written before.
- *pass*: one forward pass of the plain loop, in milliseconds.
- *asked*: the share of tokens that were not forced.

``--clock cpu`` counts the CPU time of the process, including threads that fill masks. Use it on busy machines. It does
not show the gain from work that overlaps.

The models: SmolLM2-135M-Instruct on llama.cpp, and a Llama with random weights on transformers, with its tokenizer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parent / "support")  # this folder has a regex.py
import guiderail as gr  # noqa: E402
from guiderail.generation.decoding import Batch  # noqa: E402
from guiderail.generation.models import EmbeddedModel, Model, TransformersModel  # noqa: E402
from guiderail.generation.options import Options  # noqa: E402
from guiderail.generation.sampling import Sampler, Sampling  # noqa: E402
from guiderail.generation.targets import as_constraint  # noqa: E402

SCHEMAS = Path(__file__).parents[1] / "tests" / "data" / "schemas"
PROMPT = "Note {}, about the weather:"


def constraints() -> dict[str, Any]:
    caps = {"max_depth": 8, "max_integer_digits": 9, "max_fraction_digits": 4, "max_string_length": 120}
    schema = json.loads((SCHEMAS / "invoice.json").read_text(encoding="utf-8"))
    return {
        "words": gr.regex(r"[A-Za-z]{1,12}( [A-Za-z]{1,12}){40,400}\."),
        "schema": gr.json_schema(schema, property_order="declared", **caps),
        "object": gr.json_schema({"type": "object"}, **caps),
    }


class RandomLlama(TransformersModel):
    """A Llama with random weights and the tokenizer of another model."""

    def __init__(self, other: EmbeddedModel, hidden: int, layers: int) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(1)
        config = LlamaConfig(
            vocab_size=other.logits_size, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
            num_attention_heads=hidden // 64, num_key_value_heads=max(1, hidden // 128),
            max_position_embeddings=2048, tie_word_embeddings=True,
        )  # fmt: skip
        super().__init__(LlamaForCausalLM(config).eval(), other)
        self._other = other

    @property
    def name(self) -> str:
        return "random Llama"

    @property
    def vocabulary(self) -> gr.Vocabulary:  # type: ignore[override]
        return self._other.vocabulary

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return self._other.encode(prompt, chat=chat, system=system)


class Watching:
    """A model whose sessions record their inputs."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.fed: list[list[list[int]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def new_session(self, batch: int, length: int) -> Any:
        watching, session = self, self._model.new_session(batch, length)
        self.length = length

        class Noted:
            answers_some = getattr(session, "answers_some", False)

            def feed(self, rows: Sequence[Sequence[int]], *asked: Any) -> Any:
                watching.fed.append([list(row) for row in rows])
                return session.feed(rows, *asked)

            def close(self) -> None:
                session.close()

        return Noted()


class Plain:
    """A generation without a constraint that is given the tokens to write."""

    def __init__(self, model: Model, batch: int, length: int, sampling: Sampling) -> None:
        self.session = model.new_session(batch, length)
        self.samplers = [Sampler(sampling, row) for row in range(batch)]
        self.passes = 0

    def step(self, rows: list[list[int]]) -> None:
        logits = self.session.feed(rows)
        for row, fed in enumerate(rows):
            if fed:
                self.samplers[row](logits[row])
        self.passes += 1


def measure(model: Model, constraint: Any, batch: int, options: argparse.Namespace, masks: str) -> dict[str, float]:
    """Runs one round; returns seconds with and without the constraint, passes, tokens."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    vocabulary = model.vocabulary
    if masks == "cold":
        vocabulary.core.clear_cache()
    guide = gr.compile(constraint, vocabulary, cache=masks == "warm")
    sampling = Sampling(options.temperature, seed=1)
    prompts = [model.encode(PROMPT.format(i), chat=False) for i in range(batch)]
    watching = Watching(model)
    waiting: list[list[int]] = [[] for _ in prompts]  # the next input of each row in the plain loop
    began = clock()
    own = Batch(
        watching, prompts, [guide] * batch, [as_constraint(constraint).reading()] * batch,  # type: ignore[arg-type]
        options=Options(options.tokens, options.temperature, seed=1, on_incomplete=options.on_incomplete),
    )  # fmt: skip
    steps = own.steps()
    constrained = clock() - began
    began = clock()
    plain = Plain(model, batch, watching.length, sampling)
    free = clock() - began
    done = 0
    try:
        going = True
        while going:
            began = clock()
            going = next(steps, None) is not None
            constrained += clock() - began
            for rows in watching.fed[done:]:
                if done == 0 or options.forced == "given":
                    portion = rows
                else:
                    for row, fed in zip(waiting, rows, strict=True):
                        row += fed
                    portion = [row[:1] for row in waiting]
                    waiting = [row[1:] for row in waiting]
                done += 1
                began = clock()
                plain.step(portion)
                free += clock() - began
        while any(waiting):
            portion, waiting = [row[:1] for row in waiting], [row[1:] for row in waiting]
            began = clock()
            plain.step(portion)
            free += clock() - began
    finally:
        began = clock()
        plain.session.close()
        free += clock() - began
    written = [own.generation(i) for i in range(batch)]
    return {
        "constrained": constrained,
        "plain": free,
        "masks": own.constraint_seconds,
        "passes": done,
        "plain_passes": plain.passes,
        "tokens": sum(len(one.tokens) for one in written),
        "forced": sum(one.forced_tokens for one in written),
    }


def compare(model: Model, constraint: Any, batch: int, options: argparse.Namespace, masks: str) -> dict[str, Any]:
    measure(model, constraint, batch, options, masks)  # the model's first pass is slower
    rounds = [measure(model, constraint, batch, options, masks) for _ in range(options.rounds)]
    ratios = sorted(100 * (one["constrained"] / one["plain"] - 1) for one in rounds)
    last = rounds[-1]
    return {
        "slower_percent": statistics.median(ratios),
        "least_percent": ratios[0],
        "greatest_percent": ratios[-1],
        "pass_ms": statistics.median(1e3 * one["plain"] / one["plain_passes"] for one in rounds),
        "asked_percent": 100 * (1 - last["forced"] / max(1, last["tokens"])),
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="llama.cpp,transformers")
    parser.add_argument("--constraints", default=",".join(constraints()))
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--masks", default="cold,warm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=140, help="maximum per text")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--on-incomplete", choices=["finish", "return"], default="finish", help="as for gr.generate")
    parser.add_argument("--forced", choices=["drawn", "given"], default="drawn", help="in the plain loop")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--threads", type=int, default=1, help="of the model")
    parser.add_argument("--hidden", type=int, default=512, help="width of the random Llama")
    parser.add_argument("--layers", type=int, default=8, help="of the random Llama")
    parser.add_argument("--json", type=Path, help="append one line per row of the table, with every round")
    options = parser.parse_args()
    known, wanted = constraints(), options.constraints.split(",")
    for chosen, names in ((wanted, known), (options.models.split(","), ("llama.cpp", "transformers"))):
        if missing := set(chosen) - set(names):
            parser.error(f"unknown: {', '.join(sorted(missing))}; there are {', '.join(names)}")

    embedded = EmbeddedModel(threads=options.threads)
    print("| model | constraint | masks | batch | slower, % | least to greatest | pass, ms | asked, % |", flush=True)
    print("|---|---|---|---:|---:|---:|---:|---:|", flush=True)
    for name in options.models.split(","):
        model: Model = embedded
        if name == "transformers":
            import torch

            torch.set_num_threads(options.threads)
            model = RandomLlama(embedded, options.hidden, options.layers)
        for which in wanted:
            for batch in map(int, options.batches.split(",")):
                for masks in options.masks.split(","):
                    if sys.stderr.isatty():
                        print(f"{name}, {which}, batch {batch}, {masks} …", end="\r", file=sys.stderr, flush=True)
                    row = compare(model, known[which], batch, options, masks)
                    print(
                        f"| {name} | {which} | {masks} | {batch} | {row['slower_percent']:.1f} | "
                        f"{row['least_percent']:.1f} to {row['greatest_percent']:.1f} | {row['pass_ms']:.1f} | "
                        f"{row['asked_percent']:.0f} |",
                        flush=True,
                    )
                    if options.json:
                        line = {"model": name, "constraint": which, "masks": masks, "batch": batch, **row}
                        with options.json.open("a", encoding="utf-8") as out:
                            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
