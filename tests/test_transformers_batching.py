"""Continuous batching of transformers on a tiny random model, with a constraint per request."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

import guiderail as gr
from guiderail.errors import CompileError, GuiderailError, MatcherError, ModelError, VocabularyError

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    pytest.skip("torch and transformers are not installed", allow_module_level=True)
if importlib.util.find_spec("transformers.generation.continuous_batching") is None:
    pytest.skip("this version of transformers has no continuous batching", allow_module_level=True)

import torch
import transformers
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from guiderail.integrations import transformers_batching
from guiderail.integrations.transformers_batching import constrain, continuous_batching, generate_batch

STOP, FIRST = 0, 1
TOKENS = [b"", *(bytes([c]) for c in range(97, 123)), b"ab", b"ba", b"abc", *(b"%d" % i for i in range(10)), b'"', b"{",
          b"}", b":", b",", b" ", b"[", b"]", b"-", b"true", b'{"']  # fmt: skip
VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<end>": STOP}, stop_token_ids=[STOP])
WIDTH = len(TOKENS) + 7  # of the logits
SCHEMA = gr.json_schema(
    {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "ab": {"type": "boolean"}},
        "required": ["a", "ab"],
        "additionalProperties": False,
    }
)
PROMPTS = ["abcabc", "z", "kkllkk", "abc" * 6, "z", "mmm"]
PATTERNS = [gr.regex(p) for p in ("[a-c]{3,9}x", "(ab|ba|q){2,5}", "k[l-z]{1,4}k", "abc", "[a-z]{12}(0|1)", "7*8")]
SMALL: dict[str, Any] = {"num_blocks": 64, "page_size": 16, "max_batch_tokens": 64}


def ids(text: str) -> list[int]:
    return [FIRST + ord(c) - 97 for c in text]


def settings(**options: Any) -> ContinuousBatchingConfig:
    return ContinuousBatchingConfig(**{**SMALL, **options})


def how(**options: Any) -> GenerationConfig:
    given = {"max_new_tokens": 48, "do_sample": False, "eos_token_id": STOP, "pad_token_id": STOP}
    return GenerationConfig(**{**given, **options})


def text_of(output: Any) -> str:
    """Returns the text, which must have ended by itself."""
    *body, end = output.generated_tokens
    assert end == STOP, output.generated_tokens
    return VOCABULARY.decode(body)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """For such small models, threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=WIDTH, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, bos_token_id=None, eos_token_id=STOP, pad_token_id=STOP,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


SAMPLING = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 2.0},
    "top-k": {"do_sample": True, "temperature": 2.0, "top_k": 2},
    "top-p": {"do_sample": True, "temperature": 1.5, "top_p": 0.5},
}


@pytest.mark.parametrize("sampling", SAMPLING)
def test_each_request_has_its_constraint(model: Any, sampling: str) -> None:
    constraints = [*PATTERNS, SCHEMA, SCHEMA]
    prompts = [ids(p) for p in [*PROMPTS, "json", "j"]]
    outputs = generate_batch(
        model, prompts, constraints, VOCABULARY, generation_config=how(**SAMPLING[sampling]),
        continuous_batching_config=settings(),
    )  # fmt: skip
    for prompt, constraint, output in zip(prompts, constraints, outputs, strict=True):
        assert output.prompt_ids == prompt
        assert constraint.matches(text_of(output)), text_of(output)


def test_greedy_equals_generate(model: Any) -> None:
    """Two interfaces of transformers, two ways to track rows, the same text."""
    from guiderail.integrations.transformers import GuiderailLogitsProcessor

    outputs = generate_batch(
        model, [ids(p) for p in PROMPTS], PATTERNS, VOCABULARY, generation_config=how(),
        continuous_batching_config=settings(),
    )  # fmt: skip
    for prompt, pattern, output in zip(PROMPTS, PATTERNS, outputs, strict=True):
        alone = model.generate(
            input_ids=torch.tensor([ids(prompt)]), generation_config=how(),
            logits_processor=[GuiderailLogitsProcessor(pattern, VOCABULARY)],
        )  # fmt: skip
        assert output.generated_tokens == alone[0, len(prompt) :].tolist()


def test_requests_that_join_and_unconstrained_ones_beside_them(model: Any) -> None:
    free = model.generate_batch([ids("abc")], generation_config=how(), continuous_batching_config=settings())
    (expected,) = (output.generated_tokens for output in free.values())
    guide = gr.compile(PATTERNS[4], VOCABULARY)
    done: dict[str, Any] = {}
    with continuous_batching(
        model, VOCABULARY, generation_config=how(), continuous_batching_config=settings(max_requests_per_batch=3)
    ) as batching:
        plain = batching.add_request(ids("abc"))
        asked = {batching.add_request(ids("z" * (1 + i)), guide): guide.constraint for i in range(4)}
        late = 0
        for output in batching:
            if output.is_finished():
                assert output.error is None
                done[output.request_id] = output
                if late < 4:
                    asked[batching.add_request(ids("abc"), PATTERNS[late], max_new_tokens=40)] = PATTERNS[late]
                    late += 1
            if len(done) == 9:
                break
    assert done[plain].generated_tokens == expected
    for name, constraint in asked.items():
        assert constraint.matches(text_of(done[name]))


def test_several_returned_sequences(model: Any) -> None:
    outputs = generate_batch(
        model, [ids("abc"), ids("z")], [PATTERNS[4], SCHEMA], VOCABULARY,
        generation_config=how(do_sample=True, temperature=3.0, num_return_sequences=3),
        continuous_batching_config=settings(),
    )  # fmt: skip
    texts = [text_of(output) for output in outputs]
    assert all(PATTERNS[4].matches(text) for text in texts[:3]) and all(SCHEMA.matches(text) for text in texts[3:])
    assert len(set(texts[:3])) == 3


def test_requests_that_are_evicted_begin_again_where_they_were(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache has too few pages for all texts, so requests lose theirs and are read again."""
    again = []
    real = transformers.generation.continuous_batching.requests.RequestState.create_equivalent_initial_request

    def evicted(state: Any) -> Any:
        again.append(len(state.generated_tokens))
        return real(state)

    monkeypatch.setattr(
        transformers.generation.continuous_batching.requests.RequestState, "create_equivalent_initial_request", evicted
    )
    long = gr.regex("([ab]{9}-){4}x")
    outputs = generate_batch(
        model, [ids("abc")] * 6, long, VOCABULARY, generation_config=how(do_sample=True, temperature=2.0),
        continuous_batching_config=settings(num_blocks=8, allow_block_sharing=False), max_new_tokens=60,
    )  # fmt: skip
    assert any(again), "the cache was large enough: the test shows nothing"
    assert all(long.matches(text_of(output)) for output in outputs)


def test_a_list_of_texts_is_a_choice(model: Any) -> None:
    outputs = generate_batch(
        model, [ids("abc"), ids("z"), ids("q")], ["abba", "zz"], VOCABULARY, generation_config=how(),
        continuous_batching_config=settings(),
    )  # fmt: skip
    assert len(outputs) == 3 and {text_of(output) for output in outputs} <= {"abba", "zz"}


def test_other_stop_tokens(model: Any) -> None:
    (output,) = generate_batch(
        model, [ids("abc")], gr.literal("ab"), VOCABULARY, stop_token_ids=ids("q"), generation_config=how(),
        continuous_batching_config=settings(),
    )  # fmt: skip
    assert VOCABULARY.decode(output.generated_tokens) == "abq"
    guide = gr.compile(gr.literal("ab"), VOCABULARY)
    (output,) = generate_batch(
        model, [ids("abc")], guide, generation_config=how(), continuous_batching_config=settings()
    )
    assert text_of(output) == "ab"


def test_misuse_is_refused(model: Any) -> None:
    def manager(**options: Any) -> Any:
        return model.init_continuous_batching(generation_config=how(), continuous_batching_config=settings(**options))

    def running() -> None:
        with continuous_batching(
            model, VOCABULARY, generation_config=how(), continuous_batching_config=settings()
        ) as batching:
            batching.manager.logit_processor.clear()  # removes the trace of its first use
            constrain(batching.manager, VOCABULARY)

    def twice() -> None:
        one = manager()
        constrain(one, VOCABULARY)
        constrain(one, VOCABULARY)

    def stopped() -> None:
        with continuous_batching(
            model, VOCABULARY, generation_config=how(), continuous_batching_config=settings()
        ) as batching:
            pass
        batching.add_request(ids("a"), PATTERNS[0])

    other = gr.Vocabulary([b"a", b""], stop_token_ids=[1])
    large = gr.Vocabulary([*(b"%d" % i for i in range(200)), b""], stop_token_ids=[200])
    add = constrain(manager(), VOCABULARY).add_request
    cases: list[tuple[Any, type[GuiderailError], str]] = [
        (running, ModelError, "manager-running"),
        (twice, ModelError, "manager-running"),
        (stopped, ModelError, "engine-failed"),
        (lambda: constrain(manager(use_async_batching=True), VOCABULARY), ModelError, "bad-option"),
        (lambda: constrain(manager(), large), VocabularyError, "vocabulary-mismatch"),
        (lambda: add(ids("a"), gr.compile(gr.literal("a"), other)), CompileError, "other-vocabulary"),
        (lambda: add(ids("a"), "a"), CompileError, "not-a-constraint"),
        (lambda: add(ids("a"), [PATTERNS[0], PATTERNS[1]]), MatcherError, "bad-batch"),
        (lambda: add([], PATTERNS[0]), MatcherError, "bad-prompt"),
        (lambda: generate_batch(model, [ids("a")], PATTERNS[:2], VOCABULARY), MatcherError, "bad-batch"),
        (lambda: generate_batch(model, [ids("a")], PATTERNS[0]), CompileError, "no-vocabulary"),
    ]
    for run, kind, code in cases:
        with pytest.raises(kind) as caught:
            run()
        assert caught.value.code == code


def test_a_failure_of_the_engine_is_told(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no mask today")

    monkeypatch.setattr(transformers_batching, "fill_rows", broken)
    with pytest.raises(ModelError, match="no mask today") as caught:
        generate_batch(
            model, [ids("a"), ids("b")], PATTERNS[0], VOCABULARY, generation_config=how(),
            continuous_batching_config=settings(),
        )  # fmt: skip
    assert caught.value.code == "engine-failed"
