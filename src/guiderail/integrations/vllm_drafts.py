"""A proposer of drafts for vLLM that leaves them to the constraints.

vLLM verifies several tokens in one pass only where it has a proposer of drafts. This one proposes nothing; guiderail's
backend then puts in what a constraint leaves no choice about:

    $ vllm serve MODEL --structured-outputs-config '{"backend": "guiderail"}' --speculative-config \\
        '{"model": "guiderail.integrations.vllm_drafts.Forced", "num_speculative_tokens": 6}'

With another proposer (``ngram``), the constraint comes first, and the proposer has the places where it has nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Forced"]


class Forced:
    """No drafts of its own. vLLM makes one of the class in each worker.

    Args:
        vllm_config: of the engine.
    """

    def __init__(self, vllm_config: Any) -> None:
        del vllm_config

    def propose(self, sampled_token_ids: Sequence[Sequence[int]], *rest: Any, **more: Any) -> list[list[int]]:
        """An empty draft for each request."""
        return [[] for _ in sampled_token_ids]

    def load_model(self, *rest: Any, **more: Any) -> None:
        """There is no model to load."""
