r"""A draft proposer for vLLM that leaves drafts to the constraints.

vLLM verifies several tokens in one pass only if it has a proposer. This one proposes nothing. guiderail's backend then
drafts what must come next under a constraint, and what came earlier in the text:

    $ vllm serve MODEL --structured-outputs-config '{"backend": "guiderail"}' --speculative-config \
        '{"model": "guiderail.integrations.vllm_drafts.Forced", "num_speculative_tokens": 6}'

With another proposer (``ngram``), the backend's drafts take precedence, and the proposer drafts where there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Forced"]


class Forced:
    """Proposes no drafts. vLLM makes one in each worker.

    Args:
        vllm_config: the engine's configuration.
    """

    def __init__(self, vllm_config: Any) -> None:
        del vllm_config

    def propose(self, sampled_token_ids: Sequence[Sequence[int]], *rest: Any, **more: Any) -> list[list[int]]:
        """Returns an empty draft for each request."""
        return [[] for _ in sampled_token_ids]

    def load_model(self, *rest: Any, **more: Any) -> None:
        """There is no model to load."""
