"""Writes greedy texts with vLLM in one process, first without drafts and then with them; prints texts and passes.

    python write_with_drafts.py MODEL '[{"json": {…}}, {"regex": "…"}]'

It uses float32: with less precision, a pass over several tokens rounds differently from passes over one, and texts
diverge where two tokens are equally likely.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
TOKENS = 6


def write(model: str, asked: list[dict[str, Any]], drafts: int) -> tuple[list[str], int]:
    """Returns the texts, and the number of passes of the model."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    forced = {"model": "guiderail.integrations.vllm_drafts.Forced", "num_speculative_tokens": drafts}
    more: dict[str, Any] = {"speculative_config": forced} if drafts else {}
    llm = LLM(
        model, dtype="float32", enforce_eager=True, max_model_len=512, max_num_seqs=4,
        structured_outputs_config={"backend": "guiderail"}, **more,
    )  # fmt: skip
    executor = llm.llm_engine.engine_core.engine_core.model_executor
    run, passes = executor.execute_model, 0

    def counted(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal passes
        passes += scheduled.total_num_scheduled_tokens > 0  # none while a constraint is compiled
        return run(scheduled, *args, **kwargs)

    executor.execute_model = counted
    texts = []
    for one in asked:
        sampling = SamplingParams(temperature=0, max_tokens=120, structured_outputs=StructuredOutputsParams(**one))
        (answer,) = llm.chat([{"role": "user", "content": "Describe a person."}], sampling, use_tqdm=False)
        texts.append(answer.outputs[0].text)
    return texts, passes


if __name__ == "__main__":
    from vllm.distributed import cleanup_dist_env_and_memory

    from guiderail.integrations.vllm import register

    register()
    found = []
    for drafts in (0, TOKENS):
        found.append(write(sys.argv[1], json.loads(sys.argv[2]), drafts))
        gc.collect()
        cleanup_dist_env_and_memory()
    print(json.dumps(found))
