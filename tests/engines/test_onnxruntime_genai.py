"""onnxruntime-genai: its generator on a tiny random model that its own builder exports.

Needs ``onnxruntime-genai``, ``onnx-ir``, ``torch`` and ``transformers``.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from guiderail.errors import CompileError, GuiderailError, MatcherError, ModelError, VocabularyError

if not all(map(importlib.util.find_spec, ("onnxruntime_genai", "onnx_ir", "torch", "transformers"))):
    pytest.skip("not all of onnxruntime-genai, onnx-ir, torch, transformers are installed", allow_module_level=True)

import onnxruntime_genai as og
from engine_tokenizer import tokenizer as make_tokenizer

from guiderail.integrations.onnxruntime_genai import logits_processor

PADDING = 13  # logits beyond the tokenizer, as real models have
DATE = gr.regex(r"20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]")
WORDS = gr.regex("[ab]{3,9}x")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "yes": {"type": "boolean"}, "n": {"enum": [1, 12, 123]}},
    "required": ["name", "yes", "n"],
    "additionalProperties": False,
}
PROMPTS = ["When?", "a", "The quick", "name: "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    import transformers

    place = tmp_path_factory.mktemp("genai")
    tokenizer = make_tokenizer()
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer) + PADDING, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id, tie_word_embeddings=False,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(place / "torch")
    tokenizer.save_pretrained(place / "torch")
    builder = ["-m", "onnxruntime_genai.models.builder", "-p", "fp32", "-e", "cpu"]
    subprocess.run(
        [sys.executable, *builder, "-i", place / "torch", "-o", place / "onnx", "-c", place / "cache"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    return place / "onnx"


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return og.Model(str(folder))


@pytest.fixture(scope="module")
def vocabulary(folder: Path) -> gr.Vocabulary:
    return gr.Vocabulary.from_huggingface(folder)


def begin(model: Any, prompts: list[str], **options: Any) -> tuple[Any, Any]:
    """Makes a generator with its prompts and parameters."""
    tokenizer = og.Tokenizer(model)
    params = og.GeneratorParams(model)
    params.set_search_options(**{"max_length": 200, "batch_size": len(prompts), **options})
    generator = og.Generator(model, params)
    generator.append_tokens(
        tokenizer.encode_batch(prompts).as_numpy() if len(prompts) > 1 else tokenizer.encode(*prompts)
    )
    return generator, params


def finish(generator: Any, processor: Any, vocabulary: gr.Vocabulary, rows: int = 1) -> list[str]:
    start = generator.token_count()
    while not generator.is_done():
        processor()
        generator.generate_next_token()
    return [vocabulary.decode(generator.get_sequence(row)[start:].tolist()) for row in range(rows)]


@pytest.mark.parametrize("sampled", [False, True])
def test_one_text(model: Any, folder: Path, vocabulary: gr.Vocabulary, sampled: bool) -> None:
    for seed, prompt in enumerate(PROMPTS):
        generator, params = begin(model, [prompt], do_sample=sampled, temperature=1.5, top_k=0, random_seed=seed)
        (text,) = finish(generator, logits_processor(DATE, folder, generator, params), vocabulary)
        assert DATE.matches(text), text


def test_a_schema(model: Any, vocabulary: gr.Vocabulary) -> None:
    for seed in range(4):
        generator, params = begin(model, ["name"], do_sample=True, temperature=1.5, top_k=0, random_seed=seed)
        guide = gr.compile(gr.json_schema(SCHEMA), vocabulary)
        (text,) = finish(generator, logits_processor(guide, None, generator, params), vocabulary)
        value = json.loads(text)
        assert set(value) == {"name", "yes", "n"} and len(value["name"]) <= 6 and value["n"] in (1, 12, 123)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_batch_with_its_constraints(model: Any, vocabulary: gr.Vocabulary, sampled: bool) -> None:
    """Prompts of different lengths, and texts that end at different steps."""
    constraints = [DATE, gr.choice(["yes", "no"]), WORDS, gr.literal("a")]
    generator, params = begin(model, PROMPTS, do_sample=sampled, temperature=2.0, top_k=0, random_seed=5)
    texts = finish(generator, logits_processor(constraints, vocabulary, generator, params), vocabulary, len(PROMPTS))
    for text, constraint in zip(texts, constraints, strict=True):
        assert constraint.matches(text), text


def test_rewinding_within_a_text(model: Any, vocabulary: gr.Vocabulary) -> None:
    generator, params = begin(model, ["When?"])
    start = generator.token_count()
    processor = logits_processor(DATE, vocabulary, generator, params)
    for _ in range(7):
        processor()
        generator.generate_next_token()
    before = generator.get_sequence(0)[start:].tolist()
    generator.rewind_to(start + 3)
    processor()
    assert generator.get_sequence(0)[start:].tolist() == before[:4]  # the library's rewind keeps one more token
    while not generator.is_done():
        processor()
        generator.generate_next_token()
    text = vocabulary.decode(generator.get_sequence(0)[start:].tolist())
    assert DATE.matches(text), text


def test_the_next_turn(model: Any, vocabulary: gr.Vocabulary) -> None:
    generator, params = begin(model, ["When?"])
    processor = logits_processor(DATE, vocabulary, generator, params)
    assert DATE.matches(finish(generator, processor, vocabulary)[0])
    generator.append_tokens(np.array(vocabulary.encode(" And then?"), np.int32))
    processor.restart()
    assert DATE.matches(finish(generator, processor, vocabulary)[0])


def test_the_models_ends_are_the_ends(model: Any, folder: Path, tmp_path: Path) -> None:
    """``genai_config.json`` decides where the library stops, not the tokenizer."""
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_text((folder / file).read_text())
    settings = json.loads((folder / "genai_config.json").read_text())
    settings["model"]["eos_token_id"] = [7, 283]
    (tmp_path / "genai_config.json").write_text(json.dumps(settings))
    generator, params = begin(model, ["a"])
    processor = logits_processor(gr.literal("b"), tmp_path, generator, params)
    assert sorted(processor._rows[0].matcher.stop_token_ids()) == [7, 283]


def test_misuse_is_refused(model: Any, vocabulary: gr.Vocabulary) -> None:
    small = gr.Vocabulary([b"2", b"0", b"-", b"1", b""], stop_token_ids=[4])
    large = gr.Vocabulary([*(b"%d" % i for i in range(400)), b""], stop_token_ids=[400])

    def beams() -> None:
        logits_processor(DATE, vocabulary, *begin(model, ["a"], num_beams=2))

    def no_prompt() -> None:
        params = og.GeneratorParams(model)
        logits_processor(DATE, vocabulary, og.Generator(model, params), params)

    def outside() -> None:
        generator, params = begin(model, ["a"])
        processor = logits_processor(DATE, vocabulary, generator, params)
        generator.generate_next_token()  # without a mask: a random token
        processor()

    def rewound() -> None:
        generator, params = begin(model, ["When?"])
        processor = logits_processor(DATE, vocabulary, generator, params)
        generator.rewind_to(1)
        processor()

    cases: list[tuple[Any, type[GuiderailError], str]] = [
        (beams, ModelError, "bad-option"),
        (no_prompt, MatcherError, "bad-prompt"),
        (outside, MatcherError, "token-outside-mask"),
        (rewound, MatcherError, "bad-prompt"),
        (lambda: logits_processor([DATE] * 3, vocabulary, *begin(model, ["a", "b"])), MatcherError, "bad-batch"),
        (lambda: logits_processor(DATE, None, *begin(model, ["a"])), CompileError, "no-vocabulary"),
        (
            lambda: logits_processor(gr.compile(DATE, small), vocabulary, *begin(model, ["a"])),
            CompileError,
            "other-vocabulary",
        ),
        (lambda: logits_processor(DATE, large, *begin(model, ["a"]))(), VocabularyError, "vocabulary-mismatch"),
    ]
    for run, kind, code in cases:
        with pytest.raises(kind) as caught:
            run()
        assert caught.value.code == code


def test_the_module_does_not_load_the_library() -> None:
    code = "import sys, guiderail.integrations.onnxruntime_genai; sys.exit('onnxruntime_genai' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(gr.__file__).parent.parent)})
