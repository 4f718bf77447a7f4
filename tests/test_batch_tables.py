"""Batches of CSV, Parquet and JSON Lines: reading, writing, and prompts with columns that no row has."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.batch import BatchOptions, run as run_module, run_batch, tables
from guiderail.batch.engines import Answer
from guiderail.batch.job import Task
from guiderail.batch.rows import check_names

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "of": {"type": "array"}}, "required": ["n"]}


class Echo:
    """Answers with the length of the prompt, or with a value from the test."""

    def __init__(self, answer: Any = None) -> None:
        self.prompts: list[str] = []
        self.make = answer or (lambda task: Answer(json.dumps({"n": len(task.prompt)}), "complete", 3, 5))

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        self.prompts += [task.prompt for task in tasks]
        return [self.make(task) for task in tasks]

    def close(self) -> None:
        return


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(answer: Any = None) -> Echo:
        engine = Echo(answer)
        monkeypatch.setattr(run_module, "make_engine", lambda job: engine)
        return engine

    return use


def failing(task: Task) -> Answer:
    return Answer("{", "length", 3, 2, gr.ModelError("too few tokens", code="incomplete"))


def table(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows


def test_csv_to_csv(tmp_path: Path, echo: Any) -> None:
    """Cells are unchanged texts: leading zeros, dates, empty cells, quotes, line breaks within a cell."""
    engine = echo()
    rows = tmp_path / "rows.csv"
    rows.write_bytes('id,when,note\r\n007,2024-1-5,"two\nlines, ""quoted"""\r\n1.50,,é\r\n'.encode())
    report = run_batch(rows, tmp_path / "out.csv", SCHEMA, BatchOptions(prompt="{id}|{when}|{note}"))
    assert engine.prompts == ['007|2024-1-5|two\nlines, "quoted"', "1.50||é"]
    assert report.output == tmp_path / "out.csv"
    with report.output.open(newline="", encoding="utf-8") as file:
        made = list(csv.DictReader(file))
    assert [row["id"] for row in made] == ["007", "1.50"]
    assert made[0] == {
        "id": "007", "when": "2024-1-5", "note": 'two\nlines, "quoted"', "value.n": "32", "text": '{"n": 32}',
        "finish_reason": "complete", "prompt_tokens": "3", "tokens": "5", "error": "",
    }  # fmt: skip
    assert not list((tmp_path / "out.csv.parts").glob(".*"))


def test_parquet_keeps_its_types(tmp_path: Path, echo: Any) -> None:
    engine = echo()
    given = {
        "day": [date(2024, 2, 29), None],
        "at": pa.array([datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc), None], pa.timestamp("us", "UTC")),
        "fine": pa.array([1, 1_000], pa.timestamp("ns")),
        "price": [Decimal("12.50"), Decimal("0.10")],
        "tags": [["a"], []],
        "raw": [b"\xff", b"ok"],
        "ratio": [math.nan, 0.5],
        "tokens": [1, 2],  # one of our own column names
    }
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table(given), rows)
    report = run_batch(rows, tmp_path / "out.parquet", SCHEMA, BatchOptions(prompt="{price} {tokens}"))
    assert engine.prompts == ["12.50 1", "0.10 2"]
    made = pq.read_table(report.output)
    assert str(made.select(list(given))) == str(pq.read_table(rows))  # as text: nan is not equal to itself
    assert made.column_names[len(given) :] == [
        "value.n", "text", "finish_reason", "prompt_tokens", "answer.tokens", "error",
    ]  # fmt: skip
    first = json.loads((tmp_path / "out.parquet.parts" / "part-000000.jsonl").read_text().splitlines()[0])["input"]
    assert (first["day"], first["at"]) == ("2024-02-29", "2024-01-02T03:04:05+00:00")
    assert (first["price"], first["tags"], first["raw"], first["ratio"]) == ("12.50", ["a"], "/w==", None)
    assert first["fine"] == "1970-01-01 00:00:00.000000001"


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([1, 2], [1, 2]),
        ([1, None], [1, None]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, None], [True, None]),
        (["a", "é"], ["a", "é"]),
        ([1, "a"], ["1", "a"]),
        ([True, 1], ["true", "1"]),
        ([[1, "é"], {"a": None}], ['[1, "é"]', '{"a": null}']),
        ([2**63, 1], ["9223372036854775808", "1"]),
        ([2**53, 2.5], [2.0**53, 2.5]),
        ([2**53 + 1, 1], [2**53 + 1, 1]),
        ([1, 2**53 + 1, 2.5], ["1", "9007199254740993", "2.5"]),  # a float would lose its last digit
        ([2.5, -(2**53) - 1], ["2.5", "-9007199254740993"]),
        (["\ud800", None], ["\\ud800", None]),
        ([None, None], [None, None]),
    ],
)
def test_types_of_columns(tmp_path: Path, echo: Any, values: list[Any], column: list[Any]) -> None:
    """The same for members of rows and for values of answers."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"i": i, "x": value}) + "\n" for i, value in enumerate(values)))
    echo(lambda task: Answer(json.dumps({"y": values[int(task.prompt)]}), "complete", 1, 1))
    run_batch(rows, tmp_path / "out.parquet", {"type": "object"}, BatchOptions(prompt="{i}"))
    made = table(tmp_path / "out.parquet")
    assert [row["x"] for row in made] == [row["value.y"] for row in made] == column


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_numbers_that_floats_cannot_hold(tmp_path: Path, echo: Any, name: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "x": 1e999}\n{"prompt": "b", "x": 0.5}\n')
    echo(lambda task: Answer('{"n": [-1e999]}', "complete", 1, 1))
    run_batch(rows, tmp_path / name, SCHEMA)
    made = table(tmp_path / name)
    assert [(row["x"], row["value.n"]) for row in made] == [("1e999", "[-1e999]"), ("0.5", "[-1e999]")]


def test_answers_that_are_no_objects(tmp_path: Path, echo: Any) -> None:
    rows = tmp_path / "rows.tsv"
    rows.write_text("q\na,b\nc\n")
    engine = echo(lambda task: Answer(json.dumps([task.prompt]), "complete", 1, 1))
    run_batch(rows, tmp_path / "list.tsv", {"type": "array"}, BatchOptions(prompt="{q}"))
    assert engine.prompts == ["a,b", "c"]
    with (tmp_path / "list.tsv").open(newline="") as file:
        assert [row["value"] for row in csv.DictReader(file, delimiter="\t")] == ['["a,b"]', '["c"]']
    echo(lambda task: Answer("yes", "complete", 1, 1))
    run_batch(rows, tmp_path / "text.parquet", gr.choice(["yes", "no"]), BatchOptions(prompt="{q}"))
    assert list(table(tmp_path / "text.parquet")[0]) == ["q", *tables_ours()]


def tables_ours() -> list[str]:
    return ["text", "finish_reason", "prompt_tokens", "tokens", "error"]


def test_failed_rows_are_in_the_table(tmp_path: Path, echo: Any) -> None:
    echo(failing)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n{"b": 2}\nno json\n')
    run_batch(rows, tmp_path / "out.parquet", SCHEMA, BatchOptions(prompt="{a}"))
    made = table(tmp_path / "out.parquet")
    assert [row["a"] for row in made] == [1, None, None]
    assert made[0]["error"] == "incomplete: too few tokens"
    assert [row["error"].split(":")[0] for row in made] == ["incomplete", "bad-row", "bad-row"]


def test_all_answers_in_one_file_of_lines(tmp_path: Path, echo: Any) -> None:
    echo()
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n' * 5)
    run_batch(rows, tmp_path / "out.jsonl", SCHEMA, BatchOptions(prompt="{a}"), shard_rows=2)
    made = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    assert [row["row"] for row in made] == [0, 1, 2, 3, 4]


def test_folders_of_several_kinds(tmp_path: Path, echo: Any) -> None:
    engine = echo()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("q\n1\n2\n")
    (folder / "b.jsonl").write_text('{"q": 3}\n')
    pq.write_table(pa.table({"q": [4]}), folder / "c.parquet")
    (folder / "notes.txt").write_text("not rows")
    run_batch(folder, tmp_path / "out.parquet", SCHEMA, BatchOptions(prompt="{q}"))
    assert engine.prompts == ["1", "2", "3", "4"]
    assert [row["q"] for row in table(tmp_path / "out.parquet")] == ["1", "2", "3", "4"]


def test_a_table_is_resumed(tmp_path: Path, echo: Any) -> None:
    """Failed rows are tried again, with more tokens if requested; a changed table is rejected."""
    rows = tmp_path / "rows.csv"
    rows.write_text("q\n" + "".join(f"{i}\n" for i in range(7)))
    good = Answer('{"n": 1}', "complete", 3, 5)
    echo(lambda task: failing(task) if int(task.prompt) % 3 == 0 else good)
    options, again = BatchOptions(prompt="{q}", max_tokens=9), BatchOptions(prompt="{q}", max_tokens=99)
    first = run_batch(rows, tmp_path / "out.csv", SCHEMA, options, shard_rows=2)
    assert (first.failed, first.retried) == (3, 0)
    assert [(one.code, one.count, one.rows) for one in first.failures] == [("incomplete", 3, (0, 3, 6))]
    engine = echo()
    left = run_batch(rows, tmp_path / "out.csv", SCHEMA, again, shard_rows=2, retry=False)
    assert (left.failed, left.resumed, left.retried, engine.prompts) == (3, 7, 0, [])
    seen: list[int] = []
    second = run_batch(
        rows, tmp_path / "out.csv", SCHEMA, again, shard_rows=2, progress=lambda now: seen.append(now.done)
    )
    assert engine.prompts == ["0", "3", "6"]
    assert (second.failed, second.resumed, second.retried, second.tokens, second.failures) == (0, 4, 3, 15, ())
    assert seen == [4, 5, 6, 7]
    assert "incomplete" not in (tmp_path / "out.csv").read_text()
    third = run_batch(rows, tmp_path / "out.csv", SCHEMA, again, shard_rows=2)
    assert (third.resumed, third.retried, third.tokens) == (7, 0, 0)
    rows.write_text("q\nother\n")
    with pytest.raises(gr.CompileError) as caught:
        run_batch(rows, tmp_path / "out.csv", SCHEMA, again, shard_rows=2)
    assert caught.value.code == "batch-differs"


def test_bad_rows_are_not_tried_again(tmp_path: Path, echo: Any) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"q": 1}\n{"q": null}\n[]\n{}\n')
    echo()
    assert run_batch(rows, tmp_path / "out", SCHEMA, BatchOptions(prompt="{q}")).failed == 3
    engine = echo()
    report = run_batch(rows, tmp_path / "out", SCHEMA, BatchOptions(prompt="{q}"))
    assert (report.resumed, report.retried, report.failed, engine.prompts) == (4, 0, 3, [])
    assert [one.rows for one in report.failures] == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("{nam}", "no row has it; the columns are id, name, Born; did you mean {name}?"),
        ("{born}", "did you mean {Born}?"),
        ("{prompt}", "the columns are id, name, Born; name one of them in the prompt, such as {id}"),
        ("{name} {zzz}", "{zzz}"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_columns_that_no_row_has(tmp_path: Path, monkeypatch: Any, kind: str, prompt: str, message: str) -> None:
    """The error comes before a model is loaded or anything is written."""
    rows = tmp_path / f"rows.{kind}"
    if kind == "csv":
        rows.write_text("id,name,Born\n1,Ada,1815\n")
    elif kind == "jsonl":
        rows.write_text('{"id": 1}\nno json\n{"name": "Ada", "Born": 1815}\n')
    else:
        pq.write_table(pa.table({"id": [1], "name": ["Ada"], "Born": [1815]}), rows)
    monkeypatch.setattr(run_module, "make_engine", lambda job: pytest.fail("a model was loaded"))
    with pytest.raises(gr.ModelError) as caught:
        run_batch(rows, tmp_path / "out", SCHEMA, BatchOptions(prompt=prompt))
    assert caught.value.code == "unknown-column"
    assert message in caught.value.message
    assert not (tmp_path / "out").exists()


def test_a_column_that_some_rows_have(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n' * 100 + '{"b": 1}\n')
    check_names(["a", "b"], [rows])
    rows.write_text('[]\n"x"\n')
    check_names(["a"], [rows])  # each row has its own names


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("ragged.csv", b"a,b\n1,2\n1\n", "bad-input"),
        ("latin.csv", b"a\n\xe9\n", "bad-input"),
        ("twice.csv", b"a,a\n1,2\n", "bad-input"),
        ("empty.csv", b"", "bad-input"),
        ("header.csv", b"a\n", "bad-option"),
        ("none.parquet", b"PAR1", "bad-input"),
        ("rows.xlsx", b"", "bad-option"),
        ("rows.json", b"[]", "bad-option"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(gr.ModelError) as caught:
        run_batch(tmp_path / name, tmp_path / "out", SCHEMA, BatchOptions(prompt="{a}"))
    assert caught.value.code == code
    assert name in caught.value.message or code == "bad-option"


@pytest.mark.parametrize(("source", "target"), [("rows.csv", "out"), ("rows.jsonl", "out.parquet")])
def test_pyarrow_is_asked_for(tmp_path: Path, monkeypatch: Any, source: str, target: str) -> None:
    (tmp_path / source).write_text('{"a": 1}\n')
    for module in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(gr.ModelError, match="pip install") as caught:
        run_batch(tmp_path / source, tmp_path / target, SCHEMA, BatchOptions(prompt="{a}"))
    assert caught.value.code == "missing-package"
    assert not (tmp_path / target).exists()


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=6))
def test_cells_as_python_reads_them(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    file = tmp_path_factory.mktemp("cells") / "rows.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    lines = tables.write_lines(file, file.with_suffix(".jsonl")).read_text(encoding="utf-8").split("\n")
    assert [list(json.loads(line).values()) for line in lines if line] == rows


def test_the_terminal_says_why(tmp_path: Path, echo: Any, capsys: Any, monkeypatch: Any) -> None:
    from guiderail import cli

    rows = tmp_path / "rows.csv"
    rows.write_text("q\n" + "".join(f"{i}\n" for i in range(9)))
    echo(failing)
    command = ["guiderail", "batch", "--schema", json.dumps(SCHEMA), "-i", str(rows), "-o", str(tmp_path / "out.csv")]
    monkeypatch.setattr(sys, "argv", [*command, "-P", "{q}"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    output = capsys.readouterr().err
    assert "9 rows failed (rows 0, 1, 2, 3, 4 …, counted from 0): too few tokens [incomplete]" in output
    echo()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "0 failed, 0 from an earlier run, 9 retried" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*command, "-P", "{queue}"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "the prompt names {queue}, but no row has it" in capsys.readouterr().err


LAYOUTS = [([], '{"n": 1, "of": [1, 2]}'), (["--layout", "compact"], '{"n":1,"of":[1,2]}')]


@pytest.mark.parametrize(("more", "text"), LAYOUTS)
def test_the_layout_of_the_terminal(tmp_path: Path, monkeypatch: Any, more: list[str], text: str) -> None:
    """One layout, so a model does not choose whitespace at each place."""
    from guiderail import cli

    asked = []
    monkeypatch.setattr(run_module, "make_engine", lambda job: asked.append(job.constraint) or Echo())
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n')
    files = ["-i", str(tmp_path / "rows.jsonl"), "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["guiderail", "batch", "--schema", json.dumps(SCHEMA), *files, *more])
    with pytest.raises(SystemExit):
        cli.main()
    assert asked[0].matches(text)
    assert not asked[0].matches('{"n": 1,"of":[1,2]}')
