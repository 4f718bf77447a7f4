"""Real clients against a real server on the embedded model, each in an environment of its own.

They install from PyPI and take minutes, so they run only where ``GUIDERAIL_CLIENT_TESTS=1`` is set. Environments are
made in pytest's cache, or found in the folder that ``GUIDERAIL_CLIENT_ENVS`` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from socket import socket

import pytest

import guiderail as gr

HERE = Path(__file__).parent
# What a client needs that its package does not ask for: litellm imports mcp as soon as there are tools.
BESIDE = {"litellm": ["mcp"]}
CLIENTS = {
    "openai": "use_openai.py",
    "instructor": "use_instructor.py",
    "langchain-openai": "use_langchain.py",
    "litellm": "use_litellm.py",
}
pytestmark = pytest.mark.skipif(
    os.environ.get("GUIDERAIL_CLIENT_TESTS") != "1", reason="installs clients from PyPI: GUIDERAIL_CLIENT_TESTS=1"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `guiderail serve` on the embedded model."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    path = os.pathsep.join([str(Path(gr.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "guiderail", "serve", "--port", str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": path},
        )
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{base}/ready", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
        yield base
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def python_of(client: str, config: pytest.Config) -> Path:
    """The interpreter of an environment that holds a client and nothing else."""
    given = os.environ.get("GUIDERAIL_CLIENT_ENVS")
    folder = Path(given) / client if given else Path(config.cache.mkdir(f"client-{client}"))  # type: ignore[union-attr]
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists() and not given:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", client, *BESIDE.get(client, [])], check=True, timeout=600
        )
        (folder / "complete").touch()
    return python


@pytest.mark.parametrize("client", CLIENTS)
def test_client(client: str, server: str, request: pytest.FixtureRequest) -> None:
    python = python_of(client, request.config)
    environment = {
        "GUIDERAIL_URL": server,
        "GUIDERAIL_MODEL": "SmolLM2-135M-Instruct",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it looks for prices in the network
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [python, HERE / CLIENTS[client]], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.splitlines()[-1].startswith("ok ")
