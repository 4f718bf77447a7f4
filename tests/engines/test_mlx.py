"""MLX: mlx-lm itself on a tiny random model.

Needs ``mlx-lm``, and ``mlx[cpu]`` without an Apple GPU.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail.errors import BitmaskError, CompileError, GuiderailError, MatcherError, VocabularyError

if importlib.util.find_spec("mlx") is None or importlib.util.find_spec("mlx_lm") is None:
    pytest.skip("mlx and mlx-lm are not installed", allow_module_level=True)

import mlx.core as mx
import mlx_lm
from engine_tokenizer import tokenizer as make_tokenizer
from mlx_lm.generate import BatchGenerator, batch_generate
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_sampler
from mlx_lm.tokenizer_utils import TokenizerWrapper

from guiderail.integrations.mlx import logits_processor

PADDING = 13  # logits beyond the tokenizer, as real models have
DATE = gr.regex(r"20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "yes": {"type": "boolean"}, "n": {"enum": [1, 12, 123]}},
    "required": ["name", "yes", "n"],
    "additionalProperties": False,
}
PROMPTS = ["When?", "a", "The quick brown fox jumps", "a", "name: ", "x" * 40]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return TokenizerWrapper(make_tokenizer())


def random_model(tokenizer: Any, seed: int, layers: int = 2) -> Any:
    mx.random.seed(seed)
    return llama.Model(
        llama.ModelArgs(
            model_type="llama", hidden_size=32, num_hidden_layers=layers, intermediate_size=48, num_attention_heads=4,
            num_key_value_heads=2, rms_norm_eps=1e-5, vocab_size=len(tokenizer._tokenizer) + PADDING,
            tie_word_embeddings=False,
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return random_model(tokenizer, 3)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_generate_writes_only_what_is_allowed(model: Any, tokenizer: Any, temperature: float) -> None:
    processor = logits_processor(DATE, tokenizer)
    for seed in range(3):
        mx.random.seed(seed)
        for prompt in PROMPTS:  # one processor for several texts in sequence
            text = mlx_lm.generate(
                model, tokenizer, prompt, max_tokens=40, logits_processors=[processor],
                sampler=make_sampler(temperature),
            )  # fmt: skip
            assert DATE.matches(text), text


@pytest.mark.parametrize("step", [2, 2048])
def test_a_schema_with_the_prompt_read_in_parts(model: Any, tokenizer: Any, step: int) -> None:
    processor = logits_processor(gr.json_schema(SCHEMA), tokenizer)
    for seed in range(4):
        mx.random.seed(seed)
        pieces = list(
            mlx_lm.stream_generate(
                model, tokenizer, PROMPTS[2], max_tokens=200, logits_processors=[processor], sampler=make_sampler(1.5),
                prefill_step_size=step,
            )
        )  # fmt: skip
        value = json.loads("".join(piece.text for piece in pieces))
        assert pieces[-1].finish_reason == "stop"
        assert set(value) == {"name", "yes", "n"} and len(value["name"]) <= 6 and value["n"] in (1, 12, 123)


@pytest.mark.parametrize("drafts", [1, 2, 5])
def test_drafts_do_not_change_the_text(model: Any, tokenizer: Any, drafts: int) -> None:
    draft = random_model(tokenizer, 4, layers=1)
    for constraint in (DATE, gr.regex("[a-z]{5,20}( [a-z]{2,9}){3}")):
        processor = logits_processor(constraint, tokenizer)
        for prompt in PROMPTS:
            plain = mlx_lm.generate(model, tokenizer, prompt, max_tokens=60, logits_processors=[processor])
            for helper in (draft, model):  # nearly all drafts are rejected; all are accepted
                drafted = mlx_lm.generate(
                    model, tokenizer, prompt, max_tokens=60, logits_processors=[processor], draft_model=helper,
                    num_draft_tokens=drafts,
                )  # fmt: skip
                assert drafted == plain and constraint.matches(plain)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_batch_may_share_one_processor(model: Any, tokenizer: Any, temperature: float) -> None:
    """The processor sees the texts one by one, in turn; some prompts are equal, and some texts end early."""
    processor = logits_processor(DATE, tokenizer)
    prompts = [tokenizer.encode(p) for p in PROMPTS * 4]
    for seed in range(2):
        mx.random.seed(seed)
        response = batch_generate(
            model, tokenizer, prompts, max_tokens=40, logits_processors=[processor], sampler=make_sampler(temperature),
            completion_batch_size=16,
        )  # fmt: skip
        assert len(response.texts) == len(prompts)
        assert all(DATE.matches(text) for text in response.texts), response.texts
        if temperature:
            assert len(set(response.texts)) > 4


def test_more_texts_at_once_than_the_histories_of_one_row(model: Any, tokenizer: Any) -> None:
    constraint = gr.regex("([ab]{3}-){4}x")
    processor = logits_processor(constraint, tokenizer)
    mx.random.seed(1)
    response = batch_generate(
        model, tokenizer, [tokenizer.encode("a")] * 150, max_tokens=40, logits_processors=[processor],
        sampler=make_sampler(3.0), completion_batch_size=150, prefill_batch_size=150,
    )  # fmt: skip
    assert all(constraint.matches(text) for text in response.texts)
    assert len(set(response.texts)) > 100


def test_each_text_of_a_batch_may_have_its_own(model: Any, tokenizer: Any) -> None:
    constraints = [DATE, gr.choice(["yes", "no"]), None, gr.regex("(ab|ba){2,5}")]
    generator = BatchGenerator(model, stop_tokens=[[t] for t in tokenizer.eos_token_ids])
    uids = generator.insert(
        [tokenizer.encode(p) for p in PROMPTS[:4]],
        max_tokens=[40] * 4,
        logits_processors=[[logits_processor(c, tokenizer)] if c else [] for c in constraints],
    )
    written: dict[int, list[int]] = {uid: [] for uid in uids}
    while responses := generator.next_generated():
        for response in responses:
            if response.finish_reason != "stop":
                written[response.uid].append(response.token)
    generator.close()
    for uid, constraint in zip(uids, constraints, strict=True):
        assert constraint is None or constraint.matches(tokenizer.decode(written[uid]))


def test_half_precision_and_one_row_without_a_batch(tokenizer: Any) -> None:
    processor = logits_processor(gr.literal("a"), tokenizer)
    width = len(tokenizer._tokenizer) + PADDING
    (letter,) = tokenizer.encode("a")
    for shape, dtype in (((width,), mx.float16), ((1, width), mx.bfloat16)):
        scores = mx.zeros(shape, dtype)
        got = processor(mx.array([5, 6]), scores)
        assert got.shape == shape and got.dtype == dtype
        allowed = [i for i, score in enumerate(got.astype(mx.float32).reshape(-1).tolist()) if score == 0]
        assert allowed == [letter]
        assert mx.all(scores == 0)


def test_misuse_is_refused(tokenizer: Any) -> None:
    guide = gr.compile(DATE, gr.Vocabulary.from_huggingface(tokenizer._tokenizer))
    other = gr.compile(DATE, gr.Vocabulary([b"2", b"0", b"-", b"1", b""], stop_token_ids=[4]))
    width = len(tokenizer._tokenizer)

    def call(tokens: Any, logits: Any) -> Any:
        return logits_processor(guide)(tokens, logits)

    cases: list[tuple[Any, type[GuiderailError], str]] = [
        (lambda: logits_processor(DATE), CompileError, "no-vocabulary"),
        (lambda: logits_processor("20", tokenizer), CompileError, "not-a-constraint"),
        (lambda: logits_processor(other, tokenizer), CompileError, "other-vocabulary"),
        (lambda: logits_processor([DATE, DATE], tokenizer), MatcherError, "bad-batch"),
        (lambda: call(mx.array([1]), mx.zeros((1, width - 20))), VocabularyError, "vocabulary-mismatch"),
        (lambda: call(mx.array([1]), mx.zeros((2, width))), BitmaskError, "bitmask-shape"),
        (lambda: call(mx.array([[1]]), mx.zeros((1, width))), BitmaskError, "bitmask-shape"),
    ]
    for run, kind, code in cases:
        with pytest.raises(kind) as caught:
            run()
        assert caught.value.code == code


def test_the_tokenizers_ends_are_the_ends(model: Any) -> None:
    raw = make_tokenizer()
    (mark,) = raw.encode("<call>")
    tokenizer = TokenizerWrapper(raw, eos_token_ids=[mark])
    processor = logits_processor(gr.literal("ab"), tokenizer)
    assert set(processor.tracker.stop_token_ids) == {mark, raw.eos_token_id}
    assert logits_processor(gr.literal("ab"), tokenizer, stop_token_ids=mark).tracker.stop_token_ids == [mark]
    assert mlx_lm.generate(model, tokenizer, "a", max_tokens=9, logits_processors=[processor]) == "ab"


def test_the_module_does_not_load_mlx() -> None:
    code = "import sys, guiderail.integrations.mlx; sys.exit('mlx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(gr.__file__).parent.parent)})
