"""The grammar backend with SGLang's own classes, without a server; skipped if SGLang is not installed."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if find_spec("sglang") is None:
    pytest.skip("sglang is not installed: pip install --no-deps sglang", allow_module_level=True)
if find_spec("torchvision") is None:
    sys.path.insert(0, str(Path(__file__).parent / "stubs"))
import torch
from engine_tokenizer import tokenizer as make_tokenizer
from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
from sglang.srt.constrained.base_grammar_backend import GRAMMAR_BACKEND_REGISTRY, GrammarRow, InvalidGrammarObject
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.function_call.utils import get_json_schema_constraint

import guiderail as gr
from guiderail.integrations.sglang import GuiderailGrammar, GuiderailGrammarBackend, create, register

TOKENIZER = make_tokenizer()
SIZE = 300  # more logits than tokens, as models have
END = TOKENIZER.eos_token_id
SCHEMA = json.dumps({"type": "object", "properties": {"name": {"enum": ["yes", "no"]}}, "required": ["name"]})
TAG = json.dumps(
    {
        "type": "structural_tag",
        "format": {
            "type": "tag", "begin": "<call>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": ".",
        },
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def backend() -> GuiderailGrammarBackend:
    return GuiderailGrammarBackend(TOKENIZER, SIZE, {END})


def ask(backend: Any, kind: str, text: str, *, reasoning: bool = False) -> Any:
    """Queries like SGLang's manager: the cache, or a future whose result the backend caches."""
    found, hit = backend.get_cached_or_future_value((kind, text), reasoning)
    if not hit:
        found = found.result()
        backend.set_cache((kind, text), found.copy())
    return found


def write(grammar: Any, text: str) -> bool:
    try:
        for token in [*TOKENIZER.encode(text), END]:
            grammar.accept_token(token)
    except ValueError:
        return False
    return bool(grammar.is_terminated())


def allowed(mask: Any, row: int = 0) -> list[int]:
    found: list[int] = gr.bitmask_to_bool(mask.numpy()[row : row + 1], SIZE)[0].nonzero()[0].tolist()
    return found


KINDS = [
    ("json", SCHEMA, '{"name": "yes"}', '{"name": "12"}'),
    ("json", "$$ANY$$", '{"name": [null]}', "[]"),
    ("regex", "(yes|no)+12", "yesno12", "yesno"),
    ("ebnf", 'root ::= "a" root | "12"', "aa12", "aa"),
    ("ebnf", 'start: "a"~2 | B\nB: /b+/', "aa", "a"),
    ("full_assistant_ebnf", 'list = "1", {",", "1"};', "1,1", "1,"),
    ("structural_tag", TAG, "<call>12.", "<call>12"),
]


@pytest.mark.parametrize(("kind", "text", "good", "bad"), KINDS)
def test_every_kind(backend: GuiderailGrammarBackend, kind: str, text: str, good: str, bad: str) -> None:
    grammar = ask(backend, kind, text)
    assert grammar.grammar_stats.compilation_time > 0
    assert write(grammar, good)
    again, hit = backend.get_cached_or_future_value((kind, text), False)
    assert hit
    assert again.grammar_stats.is_cache_hit
    assert not write(again, bad)  # an independent copy


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json", '{"type": "wat"}', "#/type"),
        ("json", "{", "not JSON"),
        ("regex", "(a", "regex-unterminated-group"),
        ("ebnf", "root ::= other", "other"),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "wat"}}', "wat"),
    ],
)
def test_refused_with_the_reason(backend: GuiderailGrammarBackend, kind: str, text: str, message: str) -> None:
    for _ in range(2):  # refusals are cached, too
        found = ask(backend, kind, text)
        assert isinstance(found, InvalidGrammarObject)
        assert message in found.error_message


def test_masks_and_logits(backend: GuiderailGrammarBackend) -> None:
    grammars = [ask(backend, "regex", text) for text in ("yes|no", "12")]
    mask = grammars[0].allocate_vocab_mask(SIZE, 3, "cpu")
    assert mask.shape == (3, 10)
    rows = [GrammarRow(0, grammars[0]), GrammarRow(2, grammars[1])]
    GuiderailGrammar.fill_vocab_mask_batched(rows, mask)
    spelled = [{backend.store.vocabulary.token_bytes(i) for i in allowed(mask, row)} for row in (0, 2)]
    assert spelled == [{b"y", b"ye", b"yes", b"n", b"no"}, {b"1", b"12"}]
    assert bool((mask[1] == -1).all())
    single = grammars[0].allocate_vocab_mask(SIZE, 1, "cpu")
    grammars[0].fill_vocab_mask(single, 0)
    assert torch.equal(single[0], mask[0])
    logits = torch.zeros(3, SIZE)
    grammars[0].apply_vocab_mask(logits, grammars[0].move_vocab_mask(mask, "cpu"))
    assert (logits == 0).nonzero()[:, 1].tolist() == [*allowed(mask, 0), *range(SIZE), *allowed(mask, 2)]
    grammars[0].reset_vocab_mask(mask)
    assert bool((mask == -1).all())


def test_rollback_and_what_comes_after_the_end(backend: GuiderailGrammarBackend) -> None:
    grammar = ask(backend, "regex", "(yes)+")
    (yes,) = TOKENIZER.encode("yes")
    (no,) = TOKENIZER.encode("no")
    for token in (yes, yes, END, no):  # tokens after the end do not count
        grammar.accept_token(token)
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated()
    grammar.rollback(0)
    for wrong in (no, SIZE, -1):
        with pytest.raises(ValueError, match="cannot come"):
            grammar.accept_token(wrong)
    assert grammar.try_jump_forward(TOKENIZER) is None  # the text may end here
    grammar.rollback(1)
    assert grammar.try_jump_forward(TOKENIZER) == ([], "yes")


def test_jump_forward(backend: GuiderailGrammarBackend) -> None:
    """Forced text is reported; the tokens after a jump may respell the text before it."""
    grammar = ask(backend, "regex", '\\{"name": "[a-z]+"\\}')
    first = TOKENIZER.encode("{")
    for token in first:
        grammar.accept_token(token)
    helper = grammar.try_jump_forward(TOKENIZER)
    assert helper is not None
    text, state = grammar.jump_forward_str_state(helper)
    assert text == '"name": "'
    after = TOKENIZER.encode("{" + text)
    assert after[: len(first)] != first  # `{"` is one token
    with pytest.raises(ValueError, match="after the jump"):
        grammar.jump_and_retokenize(first, TOKENIZER.encode("no"), state)
    grammar.jump_and_retokenize(first, after, state)
    assert grammar.try_jump_forward(TOKENIZER) is None
    assert write(grammar, 'no"}')


def test_any_cache_is_bounded(backend: GuiderailGrammarBackend) -> None:
    small = GuiderailGrammarBackend(TOKENIZER, SIZE, {END})
    small.cache.most = 2  # type: ignore[attr-defined]
    for text in "abc":
        ask(small, "regex", text)
    assert list(small.cache) == [("regex", "b"), ("regex", "c")]
    assert ask(small, "regex", "b") is not None
    ask(small, "regex", "d")
    assert list(small.cache) == [("regex", "b"), ("regex", "d")]


def tool(name: str) -> Any:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return SimpleNamespace(function=SimpleNamespace(name=name, parameters=parameters, strict=True))


def test_calls_of_tools_are_objects(backend: GuiderailGrammarBackend) -> None:
    schema = json.dumps(get_json_schema_constraint([tool("one"), tool("two")], "required", parallel_tool_calls=False))
    assert write(ask(backend, "json", schema), '[{"name": "two", "parameters": {"n": 1}}]')
    for bad in ("[null]", '[{"name": "two", "parameters": {"n": 1}, "x": 1}]', '[{"name": "two"}]', "[{}]"):
        assert not write(ask(backend, "json", schema), bad)
    # the schema of a named function, as SGLang writes it
    (call,) = json.loads(schema)["items"]["anyOf"][:1]
    named = json.dumps({"type": "array", "minItems": 1, "items": call})
    assert write(ask(backend, "json", named), '[{"name": "one", "parameters": {"n": 1}}]')
    assert not write(ask(backend, "json", named), "[null]")
    # any other schema means what it says
    call["required"] = ["name"]
    other = json.dumps({"type": "array", "minItems": 1, "items": call})
    assert write(ask(backend, "json", other), "[null]")


def arguments(**more: Any) -> Any:
    return SimpleNamespace(
        **{
            "constrained_json_whitespace_pattern": None,
            "constrained_json_max_whitespace_cnt": None,
            "constrained_json_disable_any_whitespace": False,
            "reasoning_parser": None,
            "enable_strict_thinking": False,
            "speculative_algorithm": None,
            **more,
        }
    )


def test_options_of_the_server() -> None:
    plain = create(arguments(), TOKENIZER, SIZE, {END})
    assert isinstance(plain, GuiderailGrammarBackend)
    assert write(ask(plain, "json", SCHEMA), '{"name": "no"}')
    compact = create(arguments(constrained_json_disable_any_whitespace=True), TOKENIZER, SIZE, {END})
    assert not write(ask(compact, "json", SCHEMA), '{"name": "no"}')
    assert write(ask(compact, "json", SCHEMA), '{"name":"no"}')
    assert write(ask(compact, "regex", "a b"), "a b")
    lines = create(arguments(constrained_json_whitespace_pattern=r"\n?"), TOKENIZER, SIZE, {END})
    assert not write(ask(lines, "json", SCHEMA), '{"name": "no"}')
    assert write(ask(lines, "json", SCHEMA), '{\n"name":\n"no"}')
    assert write(ask(lines, "regex", "a b"), "a b")
    for wrong, message in [
        ({"constrained_json_max_whitespace_cnt": 1}, "constrained-json-max-whitespace-cnt"),
        ({"constrained_json_whitespace_pattern": "("}, "never closed"),
        (
            {"constrained_json_whitespace_pattern": " ", "constrained_json_disable_any_whitespace": True},
            "exclude each other",
        ),
    ]:
        with pytest.raises(gr.GuiderailError, match=message):
            create(arguments(**wrong), TOKENIZER, SIZE, {END})


def test_thinking() -> None:
    """The constraint begins after the reasoning; a request without reasoning is constrained at once."""
    backend = create(arguments(reasoning_parser="qwen3"), TOKENIZER, SIZE, {END})
    assert isinstance(backend, ReasonerGrammarBackend)
    grammar = ask(backend, "regex", "yes|no", reasoning=True)
    mask = grammar.allocate_vocab_mask(SIZE, 1, "cpu")
    for token in TOKENIZER.encode('12 {" true'):
        grammar.accept_token(token)
        grammar.fill_vocab_mask(mask, 0)
        assert bool((mask == -1).all())
        assert grammar.try_jump_forward(TOKENIZER) is None
    for token in TOKENIZER.encode("</think>"):
        grammar.accept_token(token)
    grammar.fill_vocab_mask(mask, 0)
    spelled = {TOKENIZER.decode([i]) for i in allowed(mask)}
    assert spelled == {"y", "ye", "yes", "n", "no"}
    (yes,) = TOKENIZER.encode("yes")
    grammar.accept_token(yes)
    grammar.accept_token(END)
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated()

    straight = ask(backend, "regex", "yes|no", reasoning=False)
    straight.fill_vocab_mask(mask, 0)
    assert {TOKENIZER.decode([i]) for i in allowed(mask)} == spelled
    assert isinstance(ask(backend, "regex", "(a", reasoning=True), InvalidGrammarObject)


def test_thinking_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """With strict thinking, masks of this backend force the end of the reasoning."""
    monkeypatch.setenv("SGLANG_MAX_THINK_TOKENS", "2")
    backend = create(arguments(reasoning_parser="qwen3", enable_strict_thinking=True), TOKENIZER, SIZE, {END})
    grammar = ask(backend, "regex", "yes|no", reasoning=True)
    mask = grammar.allocate_vocab_mask(SIZE, 1, "cpu")
    (end,) = TOKENIZER.encode("</think>")
    for token in TOKENIZER.encode("ab"):
        grammar.accept_token(token)
    grammar.fill_vocab_mask(mask, 0)
    assert allowed(mask) == [end]
    grammar.accept_token(end)
    grammar.fill_vocab_mask(mask, 0)
    assert {TOKENIZER.decode([i]) for i in allowed(mask)} == {"y", "ye", "yes", "n", "no"}
    free = backend.init_strict_reasoning_grammar(True)  # a request without a constraint
    assert free is not None
    blank = free.allocate_vocab_mask(SIZE, 1, "cpu")
    assert blank.shape == (1, 10)


@pytest.mark.parametrize(("kind", "text", "good"), [("json", SCHEMA, '{"name": "no"}'), ("regex", "a+", "aa"),
                                                    ("ebnf", 'root ::= "a"+', "aaa")])  # fmt: skip
def test_within_a_frame(backend: GuiderailGrammarBackend, kind: str, text: str, good: str) -> None:
    framed = backend.compile_framed_grammar(
        ask(backend, kind, text),
        lambda content: {
            "type": "structural_tag", "format": {"type": "tag", "begin": "<call>", "content": content, "end": "."}
        },
    )  # fmt: skip
    assert framed is not None
    assert write(framed, f"<call>{good}.")
    assert backend.compile_framed_grammar(InvalidGrammarObject("x"), lambda content: content) is None


def test_tokens_of_a_frame_are_not_text() -> None:
    """SGLang reserves the tokens of the frame, which need not be special tokens of the tokenizer."""
    backend = GuiderailGrammarBackend(TOKENIZER, SIZE, {END})
    (yes,) = TOKENIZER.encode("yes")

    def frame(content: Any) -> Any:
        end = {"type": "token", "token": yes}
        return {"type": "structural_tag", "format": {"type": "sequence", "elements": [content, end]}}

    grammar = ask(backend, "regex", "(yes|no)+")
    found = []
    for reserved in ([], [yes]):
        backend.reserve_framing_tokens(reserved)
        framed = backend.compile_framed_grammar(grammar, frame)
        assert framed is not None
        mask = framed.allocate_vocab_mask(SIZE, 1, "cpu")
        framed.fill_vocab_mask(mask, 0)
        found.append(yes in allowed(mask))
        framed.accept_token(*TOKENIZER.encode("no"))
        framed.accept_token(yes)
        framed.fill_vocab_mask(mask, 0)
        assert (allowed(mask) == [END]) == bool(reserved)
    assert found == [True, False]
    assert write(ask(backend, "regex", "yes|no"), "yes")


@pytest.mark.parametrize("thinking", [False, True])
def test_a_limit_within_the_tree_of_a_draft(thinking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang's own walk: it ends, nothing has moved, and only a sampled token reports the limit."""
    from sglang.srt.speculative import spec_utils

    from guiderail.errors import LimitError

    monkeypatch.setattr(spec_utils, "traverse_tree", spec_utils.traverse_tree)  # undone after the test
    parser = "qwen3" if thinking else None
    backend = create(arguments(speculative_algorithm="EAGLE", reasoning_parser=parser), TOKENIZER, SIZE, {END})
    grammar = ask(backend, "regex", "(yes|no)+", reasoning=thinking)
    for token in TOKENIZER.encode("</think>") if thinking else ():
        grammar.accept_token(token)
    (yes,), (no,) = TOKENIZER.encode("yes"), TOKENIZER.encode("no")
    native = gr.Matcher.fill_next_token_bitmask

    def fill(matcher: Any, *args: Any) -> Any:
        if matcher.history(1) == [yes]:
            raise LimitError("too much", code="step-work")
        return native(matcher, *args)

    monkeypatch.setattr(gr.Matcher, "fill_next_token_bitmask", fill)
    # yes, with "end of the text" after it, and beside it no: after "yes", only the end is left
    children, siblings = torch.tensor([1, 2, -1, -1]), torch.tensor([-1, 3, -1, -1])
    tokens = torch.tensor([no, yes, END, no])
    mask = grammar.allocate_vocab_mask(SIZE, 4, "cpu")
    spec_utils.traverse_tree(children, siblings, tokens, grammar, mask, vocab_size=SIZE)
    inner = grammar.grammar if thinking else grammar
    assert inner.matcher.history() == []
    rows = [allowed(mask[i : i + 1]) for i in range(4)]
    assert yes in rows[0] and rows[1] == [END] and yes in rows[3]
    grammar.accept_token(yes)
    grammar.fill_vocab_mask(mask, 1)
    with pytest.raises(ValueError, match="too much"):
        grammar.accept_token(END)


def test_what_the_server_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """``auto``, or a default for the model's architecture: the arguments stay as they were given."""
    from sglang.srt import runtime_context

    decided = arguments(reasoning_parser="qwen3", constrained_json_disable_any_whitespace=True)
    context = SimpleNamespace(
        is_config_namespace_published=lambda name: name == "serving", config_bag=lambda name: decided
    )
    monkeypatch.setattr(runtime_context, "get_context", lambda: context)
    for given in (None, "auto"):
        backend = create(arguments(reasoning_parser=given), TOKENIZER, SIZE, {END})
        assert isinstance(backend, ReasonerGrammarBackend)
        assert backend.grammar_backend.compact


def test_the_plugin() -> None:
    for _ in range(2):  # SGLang may load plugins more than once
        register()
    assert GRAMMAR_BACKEND_CHOICES.count("guiderail") == 1
    assert GRAMMAR_BACKEND_REGISTRY["guiderail"] is create
