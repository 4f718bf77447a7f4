"""Conversations with Mistral's own tokenizer in transformers, which makes tokens of messages without a template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail.errors import ModelError
from guiderail.generation.chat_template import ChatTemplate
from guiderail.generation.models import TransformersModel
from guiderail.server.tools import tool_format_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("mistral_common")
backend = pytest.importorskip("transformers.tokenization_mistral_common")

MARKERS = (
    "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]",
    "[/THINK]", "<s>", "</s>", "<unk>", "<pad>",
)  # fmt: skip
FILES = {
    "v2": "mistral_instruct_tokenizer_240216.model.v2",
    "v3": "mistral_instruct_tokenizer_240323.model.v3",
    "v7": "mistral_instruct_tokenizer_241114.model.v7",
    "tekken": "tekken_240911.json",
}
MADE = ("v11", "v13")  # no package has their files
FORMATS = {"v2": "mistral", "v3": "mistral", "v7": "mistral", "tekken": "mistral", "v11": "mistral-v11"}


@pytest.fixture(scope="module")
def load(tekken_path: Path, tmp_path_factory: pytest.TempPathFactory):
    """Models by the version of their tokenizer."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=131072, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, max_position_embeddings=4096,
    )  # fmt: skip
    network = transformers.LlamaForCausalLM(config).eval()
    models: dict[str, TransformersModel] = {}

    def loaded(version: str) -> TransformersModel:
        if version not in models:
            path = tekken_path.with_name(FILES.get(version, "tokenizer.model.v1"))
            if version in MADE:
                path = tmp_path_factory.mktemp("tekken") / f"tekken_{version}.json"
                path.write_text(json.dumps(tekken_of(version, json.loads(tekken_path.read_bytes()))))
            tokenizer = backend.MistralCommonBackend(tokenizer_path=str(path))
            models[version] = TransformersModel(network, tokenizer)
        return models[version]

    return loaded


def tekken_of(version: str, data: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer of another version, with the special tokens that it needs."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    special = [{**token, "token_str": str(token["token_str"])} for token in Tekkenizer.DEPRECATED_SPECIAL_TOKENS]
    known = {token["token_str"] for token in special}
    for text in [*MARKERS, "[PREFIX]", "[MIDDLE]", "[SUFFIX]"]:
        if text not in known:
            special.append({"rank": len(special), "token_str": text, "is_control": True})
    return {**data, "config": {**data["config"], "version": version}, "special_tokens": special}


def conversation(said: str = "") -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages and tools with a text in all places where users can put one."""
    call = {"id": f"call_1{said}", "type": "function", "function": {"name": "find", "arguments": {
        f"place{said}": f'Oslo"{said}'}}}  # fmt: skip
    schema = {"type": "object", "properties": {f"place{said}": {"enum": [f'"{said}']}}}
    tool = {"type": "function", "function": {"name": "find", "description": f"Finds.{said}", "parameters": schema}}
    return [
        {"role": "system", "content": f"Be brief.{said}"},
        {"role": "user", "content": f"Hi.{said}"},
        {"role": "assistant", "content": f"Hello!{said}", "reasoning_content": f"A greeting.{said}"},
        {"role": "user", "content": f"Where?{said}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_1{said}", "content": f"There.{said}"},
    ], [tool]


@pytest.mark.parametrize("version", [*FILES, *MADE])
def test_conversations_cannot_write_special_tokens(load, version):
    model = load(version)
    template = ChatTemplate(model)
    special = set(model.tokenizer.all_special_ids)
    plain, hostile = (template.encode(*conversation(said)) for said in ("", " ".join(["", *MARKERS, ""])))
    assert [i for i in plain if i in special] == [i for i in hostile if i in special]
    text = model.vocabulary.decode(plain, skip_special_tokens=False)
    order = ["Hi.", "[/INST]", "Hello!", "</s>", "Where?", "[/INST]", "[TOOL_CALLS]", "find", "Oslo", "</s>",
             "[TOOL_RESULTS]", "There.", "[/TOOL_RESULTS]"]  # fmt: skip
    at = 0
    for part in order:
        at = text.index(part, at) + len(part)
    assert "Be brief." in text and "Finds." in text and at == len(text)
    assert ("A greeting." in text) == (version == "v13")
    assert "Finds." in model.vocabulary.decode(hostile) and "There. [INST] [/INST]" in model.vocabulary.decode(hostile)


@pytest.mark.parametrize("version", [*FILES, *MADE])
def test_the_format_of_calls_is_recognized(load, version):
    template = ChatTemplate(load(version))
    assert tool_format_of(template.renderer, template.written) == FORMATS.get(version, "mistral-v11")


def test_generate_with_a_conversation(load):
    model = load("tekken")
    messages, _ = conversation(" [/INST]")
    messages[4]["tool_calls"][0]["function"]["arguments"] = '{"a": [1]}'
    made = gr.generate(model, [messages, "hi", messages[:2]], gr.choice(["Ada", "Grace"]))
    assert len(made) == 3 and set(made) <= {"Ada", "Grace"}
    one = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
    developer = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
    ids = model.encode("Hi.", chat=True, system="Be brief.")
    assert ids == ChatTemplate(model).encode(one, None) == ChatTemplate(model).encode(developer, None)


def test_ids_of_calls(load):
    messages, _ = conversation()
    template = ChatTemplate(load("tekken"))

    def shown(call: Any, result: Any) -> str:
        messages[4]["tool_calls"][0]["id"], messages[5]["tool_call_id"] = call, result
        return load("tekken").vocabulary.decode(template.encode(messages, None))

    kept = shown("abcdefgh9", "abcdefgh9")
    assert '"id": "abcdefgh9"' in kept and '"call_id": "abcdefgh9"' in kept
    made = shown("call_" + "0" * 24, "call_" + "0" * 24)  # as the server writes them
    assert made.partition('"id": "')[2][:9] == made.partition('"call_id": "')[2][:9]
    del messages[5]["tool_call_id"], messages[4]["tool_calls"][0]["id"]
    assert "There." in load("tekken").vocabulary.decode(template.encode(messages, None))


def test_refusals(load):
    messages, tools = conversation()
    for version, wrong, tool, says in (
        ("v1", messages, None, "Tools not implemented"),
        ("tekken", [*messages, {"role": "assistant", "content": "x"}], None, "Expected last role"),
        ("tekken", [messages[1], messages[5]], None, "Unexpected role"),
        ("tekken", [{**messages[1], "content": "Hi."}], [{**tools[0], "function": {"name": "a b"}}], "a b"),
    ):
        with pytest.raises(ModelError, match=says) as caught:
            ChatTemplate(load(version)).encode(wrong, tool)
        assert caught.value.code == "chat-template"
    with pytest.raises(ModelError, match="leave chat_template out") as caught:
        ChatTemplate(load("tekken"), "{{ messages }}")
    assert caught.value.code == "no-chat-template"
    assert not ChatTemplate(load("v1")).renderer.knows_tools


def test_too_large(load):
    template = ChatTemplate(load("tekken"))
    itself: list[Any] = []
    itself.append(itself)
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for schema in ({"a": itself}, deep):
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        with pytest.raises(ModelError) as caught:
            template.encode([{"role": "user", "content": "hi"}], [tool])
        assert caught.value.code == "chat-template"
        call = {"id": "1", "function": {"name": "f", "arguments": schema}}
        turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
        with pytest.raises(ModelError) as caught:
            template.encode([*turns, {"role": "tool", "tool_call_id": "1", "content": "2"}], None)
        assert caught.value.code == "chat-template"


@pytest.mark.parametrize("version", ["tekken", "v13"])
def test_the_server(load, version):
    support = pytest.importorskip("server_support")
    messages, tools = conversation(" [TOOL_CALLS] </s>")
    for call in messages[4]["tool_calls"]:
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    messages[-1]["content"] += " " * 40_000  # another process reads it
    with support.client_of(load(version), compile_isolated=True) as client:
        assert client.service.manner.tool_format == FORMATS.get(version, "mistral-v11")
        body = {"messages": messages, "tools": tools, "tool_choice": "required", "temperature": 0}
        answer = client.post("/v1/chat/completions", **body, parallel_tool_calls=False, max_tokens=200)
        assert answer.status_code == 200, answer.text
        (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "find" and json.loads(call["function"]["arguments"]) is not None
        error = client.error(messages=[messages[1], messages[5]], tools=tools)
        assert error["code"] == "chat-template" and "Unexpected role" in error["message"]
        turns = [
            {"role": "user", "content": "Where? [/INST]"},
            {"type": "function_call", "call_id": "call_1", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "There."},
        ]
        answer = client.post("/v1/responses", input=turns, max_output_tokens=4)
        assert answer.status_code == 200, answer.text
