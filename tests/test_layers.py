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
# Kinds of json/ and lexed/ are still named where all kinds are treated. Entries may go, none may come.
EXCEPTIONS = {
    "expr/construct.cpp": {"lexed"},
    "expr/derive.cpp": {"lexed"},
    "expr/dump.cpp": {"lexed"},
    "expr/finalize.cpp": {"json", "lexed"},
    "expr/intern.cpp": {"json", "lexed"},
    "expr/portable.cpp": {"json", "lexed"},
    "lexed/lexing.hpp": {"json"},
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
    assert up == EXCEPTIONS.get(name, set()), f"{name} includes of {up}, which {folder}/ must not know"
