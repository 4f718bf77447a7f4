"""Tool-call formats against the models' chat templates: the text of a template is read back as the same calls.

The templates come with the source of llama-cpp-python; Cohere's are in its package `cohere-melody`, DeepSeek's encoders
in `llm-router-utils`. ``make test-templates`` downloads them; docs/tools.md has the same table.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail.frontends.tools.format import read_format
from guiderail.generation.rendering import Renderer
from guiderail.server.tools import tool_format_of

jinja2 = pytest.importorskip("jinja2")
from jinja2.ext import Extension  # noqa: E402
from jinja2.sandbox import SandboxedEnvironment  # noqa: E402

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("GUIDERAIL_TOOL_TEMPLATES") or ROOT / "build" / "templates")
IM = "<|im_start|>assistant\n"
DS = "<｜Assistant｜>"
TURN = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
LLAMA = "<|start_header_id|>assistant<|end_header_id|>\n\n"

# template → format, the text before the model's part, what ends the turn
TEMPLATES = {
    "Apertus-8B-Instruct": ("apertus", "<|assistant_start|>", ""),
    "Apriel-1.6-15b-Thinker-fixed": ("apriel", "[BEGIN FINAL RESPONSE]\n", ""),
    "unsloth-Apriel-1.5": ("apriel", "<|assistant|>\n", "\n<|end|>\n<EOS>"),
    "Bielik-11B-v3.0-Instruct": ("hermes", "\n</think>\n", "<|im_end|>\n"),
    "ByteDance-Seed-OSS": ("seed-oss", "<seed:bos>assistant\n", "<seed:eos>"),
    "Cohere2MoE": ("command-a-plus", TURN, "<|END_OF_TURN_TOKEN|>"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("command-r7b", TURN, "<|END_OF_TURN_TOKEN|>"),
    "GLM-4.6": ("glm-4.5", "<|assistant|>\n", ""),
    "GLM-4.7-Flash": ("glm-4.7", "<|assistant|>", ""),
    "GigaChat3.1-10B-A1.8B": ("gigachat-3.1", "assistant<|role_sep|>\n", "<|message_sep|>\n\n"),
    "Kimi-K2-Instruct": ("kimi-k2", "<|im_middle|>", "<|im_end|>"),
    "Kimi-K2-Thinking": ("kimi-k2", "<|im_middle|>", "<|im_end|>"),
    "moonshotai-Kimi-K2": ("kimi-k2", "<|im_middle|>", "<|im_end|>"),
    "Kimi-K3": ("kimi-k3", '<|open|>message role="assistant"<|sep|>', "<|end_of_msg|>"),
    "MiMo-VL": ("hermes", IM, "<|im_end|>\n"),
    "MiniMax-M1": ("minimax-m1", "ai name=assistant\n", "<end_of_sentence>\n"),
    "MiniMax-M2": ("minimax-m2", "]~b]ai\n", "[e~[\n"),
    "Mistral-Small-3.2-24B-Instruct-2506": ("mistral-v11", "[/INST]", "<EOS>"),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("mistral-v11", "[/INST]", "<EOS>"),
    "mistralai-Mistral-Nemo-Instruct-2407": ("mistral", "[/INST]", "<EOS>"),
    "unsloth-mistral-Devstral-Small-2507": ("mistral-v11", "[/INST]", "<EOS>"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("qwen3-coder", "\n</think>\n", "\n<|im_end|>\n"),
    "NVIDIA-Nemotron-Nano-v2": ("nemotron-nano-v2", "<SPECIAL_11>Assistant\n", "<SPECIAL_12>\n\n"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ("hermes", IM, "<|im_end|>\n"),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", IM, "<|im_end|>\n"),
    "Qwen-QwQ-32B": ("hermes", IM, "<|im_end|>\n"),
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", IM, "<|im_end|>\n"),
    "Qwen-Qwen3-0.6B": ("hermes", IM, "<|im_end|>\n"),
    "Qwen3-Coder": ("qwen3-coder", IM, "<|im_end|>\n"),
    "Qwen3.5-4B": ("qwen3-coder", IM, "<|im_end|>\n"),
    "Spark2.5": ("glm-4.7", "<|Bot|>", "<｜end▁of▁sentence｜>"),
    "StepFun3.5-Flash": ("step-3.5", IM, "<|im_end|>\n"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek-v3", DS, "<｜end▁of▁sentence｜>"),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek-v3.1", "</think>", "<｜end▁of▁sentence｜>"),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek-v3.2", DS, "<｜end▁of▁sentence｜>"),
    "deepseek-ai-DeepSeek-V4": ("deepseek-v4", DS, "<｜end▁of▁sentence｜>"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("deepseek-v4", DS, "<｜end▁of▁sentence｜>"),
    "google-gemma-4-31B-it": ("gemma-4", "<|turn>model\n", ""),
    "google-gemma-4-31B-it-interleaved": ("gemma-4", "<|turn>model\n", "<turn|>"),
    "ibm-granite-granite-4.0": ("hermes", "assistant<|end_of_role|>", "<|end_of_text|>\n"),
    "ibm-granite-granite-4.1": ("hermes", "assistant<|end_of_role|>", "<|end_of_text|>\n"),
    "inclusionai-ling-3.0-flash": ("ling-3", "<role>ASSISTANT</role>\n", "<|role_end|>"),
    "meetkai-functionary-medium-v3.1": ("functionary-3.1", LLAMA, "<|eom_id|>"),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama3", LLAMA, "<|eot_id|>"),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama3", LLAMA, "<|eot_id|>"),
    "meta-llama-Llama-3.3-70B-Instruct": ("llama3", LLAMA, "<|eot_id|>"),
    "openai-gpt-oss-120b": ("gpt-oss", "<|start|>assistant", ""),
    "poolside-Laguna-S-2.1": ("glm-4.7", "<assistant>", "</assistant>\n"),
    "poolside-Laguna-XS-2.1": ("glm-4.5", "\n</think>\n", "\n</assistant>\n"),
    "tencent-Hy3": ("hy3", "<｜hy_Assistant:opensource｜>", "<｜hy_eos:opensource｜>"),
    "upstage-Solar-Open-100B": ("solar-open", "<|begin|>assistant", "<|begin|>"),
}
# These write arrays and objects as Python literals, not JSON: only texts and numbers are compared.
FLAT = {"ByteDance-Seed-OSS"}
# Templates without a format here, each with the reason.
OTHERS = {
    "MiniMax-M3": "values are tags named as the argument, without their kinds: they cannot be read back",
    "LFM2.5-8B-A1B": "calls are Python's, with keyword arguments",
    "openbmb-MiniCPM5-1B": "values other than texts are written as Python's, and some texts as CDATA",
    "muse-glimmer": "each call is a message of its own, addressed to the tool",
}
SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "near": {"type": "object", "properties": {"x": {"type": "number"}, "here": {"type": "boolean"}}},
    },
    "required": ["query"],
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "Paris", "days": 3}),
    ("search", {"query": 'a "b" <c> & {d}', "tags": ["x", "y z"], "near": {"x": 1.5, "here": True}}),
    ("get_time", {"zone": "UTC"}),
    ("set", {"note": None, "on": True}),
    ("ping", {}),
]
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "What it does.", "parameters": parameters}}
    for name, parameters in (
        ("get_weather", {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}),
        ("search", SEARCH),
        ("get_time", {"type": "object", "properties": {"zone": {"type": "string"}}}),
        (
            "set",
            {
                "type": "object",
                "properties": {"note": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "on": {"type": "boolean"}},
            },
        ),
        ("ping", {"type": "object", "properties": {}}),
    )
]


class Generation(Extension):
    """The tag for the model's part, as in transformers."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> Any:
        parser.stream.expect("name:generation")
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def rendered(source: str, messages: list[dict[str, Any]], **more: Any) -> str:
    environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    environment.globals.update(raise_exception=raise_exception, strftime_now=lambda form: "2026-01-01")
    rendered = environment.from_string(source).render(
        messages=messages, tools=TOOLS, bos_token="<BOS>", eos_token="<EOS>", thinking=True, **more
    )
    return str(rendered)


def message(calls: list[tuple[str, dict[str, Any]]], as_text: bool) -> dict[str, Any]:
    made = [
        {
            "id": f"call{i:05}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments) if as_text else arguments},
        }
        for i, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": made}


def read(name: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """Reads a text of the format; checks its calls."""
    thinks = read_format(name).reasoning is not None
    form = gr.tool_calls(TOOLS, format=name, reasoning="optional" if thinks else "none")
    found = form.parse(text)
    assert [(call.name, call.arguments) for call in found.calls] == calls
    assert form.matches(text), form.explain(text)


@pytest.mark.skipif(not (FOLDER / "Kimi-K3.jinja").exists(), reason="the chat templates are not here")
@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_template_writes_is_of_the_format(template: str) -> None:
    name, begin, end = TEMPLATES[template]
    source = (FOLDER / f"{template}.jinja").read_text(encoding="utf-8")
    user = {"role": "user", "content": "Hi"}
    tried = []
    many = [call for call in CALLS if template not in FLAT or call[0] != "search"]
    for calls in (many, CALLS[:1]) if read_format(name).parallel else (CALLS[:1],):
        for as_text in (False, True):
            try:
                text = rendered(source, [user, message(calls, as_text)])
            except (jinja2.TemplateError, TypeError) as error:
                tried.append(error)
                continue
            assert begin in text, text[-600:]
            text = text[text.index(begin, text.rindex("Hi")) + len(begin) :]
            read(name, text.partition(end)[0] if end else text, calls)
            return
    raise AssertionError(tried)


@pytest.mark.skipif(not (FOLDER / "Kimi-K3.jinja").exists(), reason="the chat templates are not here")
@pytest.mark.parametrize("template", [*TEMPLATES, *OTHERS])
def test_the_server_recognizes_the_format(template: str) -> None:
    source = (FOLDER / f"{template}.jinja").read_text(encoding="utf-8")
    renderer = Renderer("model", source, {"bos_token": "<BOS>", "eos_token": "<EOS>"}, (), tokenizes=True)
    want, *_ = TEMPLATES.get(template, ("hermes",))
    assert tool_format_of(renderer, lambda shown: "".join(text for text, _ in shown)) == (
        want if renderer.knows_tools else "hermes"
    )


def load(path: str) -> Any:
    """Loads a module of a package that is not installed from its file."""
    found = FOLDER / path
    if not found.exists():
        pytest.skip("the chat templates are not here")
    spec = importlib.util.spec_from_file_location(found.stem, found)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("version", "name"), [("dsv4", "deepseek-v4"), ("dsv41", "deepseek-v4.1")])
def test_deepseeks_own_encoders(version: str, name: str) -> None:
    encoder = load(f"llm_router_utils/sglang/srt/entrypoints/openai/encoding_{version}.py")
    messages = [{"role": "user", "content": "Hi"}, message(CALLS, as_text=True)]
    text = encoder.encode_messages(messages, thinking_mode="thinking")
    text = text[text.rindex(DS) + len(DS) :].removesuffix("<｜end▁of▁sentence｜>")
    read(name, text, CALLS)


@pytest.mark.parametrize(("render", "name"), [("render_cmd4", "command-a-plus"), ("render_cmd5", "command-xml")])
def test_coheres_own_templates(render: str, name: str) -> None:
    if not (FOLDER / "cohere_melody").exists():
        pytest.skip("the chat templates are not here")
    sys.path.insert(0, str(FOLDER))
    try:
        melody = pytest.importorskip("cohere_melody", reason="the chat templates are not here", exc_type=ImportError)
    finally:
        sys.path.remove(str(FOLDER))
    calls = [
        {"id": str(i), "name": name, "parameters": json.dumps(arguments)} for i, (name, arguments) in enumerate(CALLS)
    ]
    user = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    tools = [{**tool["function"]} for tool in TOOLS]  # type: ignore[dict-item]
    answer = {"role": "chatbot", "content": [{"type": "thinking", "thinking": "hm"}], "tool_calls": calls}
    text = getattr(melody, render)({"messages": [user, answer], "available_tools": tools})
    text = text[: text.rindex("<|END_OF_TURN_TOKEN|>")]
    read(name, text[text.rindex(TURN) + len(TURN) :], CALLS)


def test_the_table_of_the_docs() -> None:
    """The table contains every format and what it was checked against."""
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    table = page[page.index("### What is checked") :].partition("\n## ")[0]
    statements = dict(re.findall(r"(?m)^\| `([\w.-]+)` \| (.*) \|$", table))
    assert sorted(statements) == sorted(gr.tool_formats())
    checked = {name for name, _, _ in TEMPLATES.values()} | {"deepseek-v4.1", "command-xml", "command-a-plus"}
    assert {name for name, what in statements.items() if not what.startswith("not checked")} == checked
