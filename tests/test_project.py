"""Properties of the whole project: light imports, public names, versions, no trace of a machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path

import pytest

import guiderail as gr

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "tokenizers", "tiktoken", "sentencepiece", "gguf", "triton", "xllamacpp",
         "llama_cpp", "mistral_common", "typer", "rich", "pydantic", "referencing",
         "jsonschema_specifications", "jsonschema", "yaml")  # fmt: skip
PROMISED = [
    "Vocabulary",
    "Constraint",
    "Guide",
    "Matcher",
    "TokenAutomaton",
    "GuiderailError",
    "regex",
    "choice",
    "literal",
    "sequence",
    "optional",
    "repeat",
    "separated_by",
    "text_until",
    "substring_of",
    "special_token",
    "compile",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "fill_next_token_bitmasks",
    "generate",
    "stream",
]
VERSION = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)


def fresh(code: str) -> str:
    """Returns the output of a program in a fresh interpreter that imports the same guiderail."""
    path = str(Path(gr.__file__).parent.parent)
    code = f"import sys; sys.path.append({path!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_import_is_light() -> None:
    loaded = fresh(f"import guiderail\nprint([m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded == "[]"


def test_import_loads_few_modules() -> None:
    """``benchmarks/import_time.py`` measures how long it takes; each module takes its part."""
    assert int(fresh("before = len(sys.modules)\nimport guiderail\nprint(len(sys.modules) - before)")) < 40


@pytest.mark.parametrize(
    ("reference", "loaded"),
    [("#/$defs/a", []), ("https://json-schema.org/draft/2020-12/schema", ["referencing", "jsonschema_specifications"])],
)
def test_a_schema_loads_what_its_references_need_and_no_more(reference: str, loaded: list[str]) -> None:
    code = f"""
import guiderail as gr
schema = {{"type": "array", "items": {{"$ref": {reference!r}}}, "$defs": {{"a": {{"const": True}}}}}}
assert gr.json_schema(schema).matches("[true]")
print([m for m in {HEAVY!r} if m in sys.modules])
"""
    assert fresh(code) == repr(loaded)


def test_compiling_and_matching_is_light() -> None:
    code = f"""
import guiderail as gr
vocabulary = gr.Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=2)
matcher = gr.compile(gr.regex("a+b"), vocabulary).matcher()
bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
matcher.fill_next_token_bitmask(bitmask, 0)
print(int(bitmask[0, 0]), [m for m in {HEAVY!r} if m in sys.modules])
"""
    assert fresh(code) == "1 []"


def test_all_lists_the_public_names() -> None:
    assert len(gr.__all__) == len(set(gr.__all__))
    assert [name for name in gr.__all__ if not hasattr(gr, name)] == []
    public = {
        name
        for name, value in vars(gr).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert public - set(gr.__all__) == set()


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names(name: str) -> None:
    assert name in gr.__all__
    assert getattr(gr, name).__doc__


def test_versions_agree() -> None:
    assert VERSION is not None
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(VERSION[1])}\b", changelog, re.M)
    try:
        installed = metadata.version("guiderail")
    except metadata.PackageNotFoundError:
        pytest.skip("guiderail runs from the source tree, not installed")
    assert gr.__version__ == installed == VERSION[1]


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name.decode() for name in done.stdout.split(b"\0") if name]


def test_the_readme_counts_what_there_is() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (count,) = re.findall(r"knows (\d+) tool-call formats", text)
    assert int(count) == len(gr.tool_formats())
    (listed,) = re.findall(r"Extras add what you already work with: (.*?)\.\n\n", text, re.DOTALL)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.search(r"(?ms)^\[project.optional-dependencies\]\n(.*?)^\[", project)
    assert extras is not None
    known = set(re.findall(r"(?m)^([a-z-]+) = \[", extras[1])) - {
        "bench",
        "demo",
        "fuzz",
        "lint",
        "site",
        "test",
        "test-free-threaded",
    }
    assert set(re.findall(r"`([a-z-]+)`", listed)) == known


def test_no_path_of_a_machine_is_tracked() -> None:
    roots = "|".join(["work", "farm", "root", "home", "Users", "opt", "tmp", "srv", "mnt"])
    pattern = re.compile(rf"(?<![\w.~:/<-])/(?:{roots})/\w")
    found = []
    for path in tracked():
        if path.suffix in {".gguf", ".png", ".gz"} or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []


def test_the_path_pattern_finds_paths() -> None:
    roots = "root|home"
    pattern = re.compile(rf"(?<![\w.~:/<-])/(?:{roots})/\w")
    assert pattern.search('open("/' + 'home/someone/x")')
    assert not pattern.search("https://example.org/home/x")


def test_files_stay_readable() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {count} lines"
        for path in tracked()
        if path.suffix in {".py", ".cpp", ".hpp"} and path.is_file()
        and (count := len(path.read_text(encoding="utf-8").splitlines())) > 900
    ]  # fmt: skip
    assert long == []


def test_scripts_can_be_run() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK) or os.name == "nt"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "lint", "bench", "docs", "clean"):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_hints_name_what_is_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """guiderail is on no package index, so no hint may refer to one."""
    from guiderail.support.packages import install

    required = [
        "numpy>=1.24",
        'fastapi>=0.115; extra == "server"',
        "uvicorn>=0.30; extra == 'server'",
        'ray[data]>=2.60; extra == "ray"',
        'triton>=3.0; platform_system == "Linux" and extra == "triton"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: required)
    assert install("server") == 'pip install "fastapi>=0.115" "uvicorn>=0.30"'
    assert install("ray", "triton") == 'pip install "ray[data]>=2.60" "triton>=3.0"'
    assert "checkout" in install("newer")
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    asked = re.compile(r"""install (-U |--upgrade )?["']?guiderail\b""")
    assert [file.name for file in texts if asked.search(file.read_text(encoding="utf-8"))] == []
