"""Compares the cost of the probabilities of ten choices with that of reading the prompt once.

Both take turns on the embedded model with the same prompt. The figure is the median of the ratios of CPU time.

    python benchmarks/probabilities.py --runs 9
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import guiderail as gr
from guiderail.generation.models import EmbeddedModel

TEXT = "The parcel came two weeks late, the box was crushed, and nobody answered my mails. "
CHOICES = [
    "delivery and shipping", "damaged goods", "customer service", "billing and payment", "returns",
    "product quality", "website and account", "order cancelled without a reason", "praise", "something else",
]  # fmt: skip


def spent(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument(
        "--repeat", type=int, nargs="+", default=[1, 4, 12], help="repetitions of the text in the prompt"
    )
    options = parser.parse_args()
    with EmbeddedModel() as model:
        most = max(len(model.vocabulary.encode(choice)) for choice in CHOICES)
        print(f"{len(CHOICES)} choices of up to {most} tokens")
        for repeat in options.repeat:
            prompt = f"{TEXT * repeat}\nWhat is this complaint about? One of {', '.join(CHOICES)}."
            tokens = model.encode(prompt, chat=True)

            def alone(tokens: list[int] = tokens) -> None:
                with model.new_session(1, len(tokens)) as session:
                    session.feed([tokens])

            print(f"\nprompt of {len(tokens)} tokens")
            for name, kept in (
                ("canonical", {}),
                ("canonical, stop", {"ending": "stop"}),
                ("all", {"spellings": "all"}),
            ):
                ratios, found = [], None
                for _ in range(options.runs):
                    base = spent(alone)
                    started = time.process_time()
                    found = gr.probabilities(model, prompt, CHOICES, **kept)  # type: ignore[arg-type]
                    ratios.append((time.process_time() - started) / base)
                assert found is not None
                print(
                    f"{name:16} {statistics.median(ratios):5.2f} times the prompt ({min(ratios):.2f} to "
                    f"{max(ratios):.2f}), passes {found.passes}, tokens {found.tokens_read}"
                )


if __name__ == "__main__":
    main()
