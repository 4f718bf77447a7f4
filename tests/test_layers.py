"""The core's folders are layers: an ``#include`` points down only."""

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1] / "core"
BELOW = {
    "base": "",
    "text": "base",
    "expr": "base text",
    "json": "base text expr",
    "lexed": "base text expr",
    "vocab": "base text",
    "mask": "base text expr json lexed vocab",
    "mask/lexed": "base text expr json lexed vocab mask",
    "search": "base text expr json lexed vocab mask mask/lexed",
    "run": "base text expr json lexed vocab mask mask/lexed search",
    "bind": "base text expr json lexed vocab mask mask/lexed search run",
}
SOURCES = sorted(path.relative_to(CORE).as_posix() for path in CORE.rglob("*.[ch]pp"))


def test_every_source_is_in_a_layer() -> None:
    assert {name.rpartition("/")[0] for name in SOURCES} == set(BELOW)


@pytest.mark.parametrize("name", SOURCES)
def test_includes_point_down(name: str) -> None:
    folder = name.rpartition("/")[0]
    includes = re.findall(r'^#include "([^"]+)"', (CORE / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert all((CORE / included).is_file() for included in includes)
    up = {of for i in includes if (of := i.rpartition("/")[0]) != folder and of not in BELOW[folder].split()}
    assert not up, f"{name} includes of {up}, which {folder}/ must not know"


def test_the_algebra_names_its_own_kinds_only() -> None:
    numbered = (CORE / "base/kind.hpp").read_text(encoding="utf-8")
    own, others = re.split(r"// json/\n", numbered)
    known = set(re.findall(r"^  (\w+),?", own, re.MULTILINE))
    plugged_in = set(re.findall(r"^  (\w+),?", others, re.MULTILINE))
    assert "Concat" in known and {"Members", "Scan", "Elided"} <= plugged_in
    for name in SOURCES:
        if name.startswith("expr/"):
            named = set(re.findall(r"Kind::(\w+)", (CORE / name).read_text(encoding="utf-8")))
            assert not named & plugged_in, f"{name} names {named & plugged_in}, kinds of other layers"
