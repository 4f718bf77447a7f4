"""The core's pool of lists, compiled with checked vectors: full blocks, empty lists, copies."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[1] / "core"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "base/list_pool.hpp"

using guiderail::ListPool;
using guiderail::u32;

void expect(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

int main() {
  for (u32 before : {0u, 1u, 1023u, 1024u, 1025u, 2047u, 2048u, 3072u, 5000u}) {
    std::vector<u32> list(before);
    std::iota(list.begin(), list.end(), 7u);
    ListPool<u32> pool;
    const u32 place = pool.add(list);  // fills its block where before is a multiple of 1024
    const u32 empty = pool.add({});
    expect(pool.at(empty) != nullptr, "an empty list has no place");
    ListPool<u32> copy;
    copy.copy_first(pool, pool.size());
    expect(copy.size() == pool.size(), "the copy has another size");
    expect(copy.at(empty) != nullptr, "an empty list has no place in the copy");
    expect(std::equal(list.begin(), list.end(), copy.at(place)), "the copy has another list");
    expect(copy.at(copy.add({})) != nullptr, "an empty list behind a full copy has no place");
    const u32 after = copy.add(std::vector<u32>{1, 2, 3});
    expect(copy.at(after)[2] == 3 && std::equal(list.begin(), list.end(), copy.at(place)), "a later list is wrong");
  }
}
"""


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_empty_lists_behind_full_blocks(tmp_path: Path) -> None:
    source, program = tmp_path / "pool.cpp", tmp_path / "pool"
    source.write_text(PROGRAM)
    flags = ["-std=c++20", "-O1", "-D_GLIBCXX_ASSERTIONS", f"-I{CORE}", "-pthread"]
    parts = [str(CORE / "base" / name) for name in ("pages.cpp", "at_fork.cpp")]
    command = [str(COMPILER), *flags, str(source), *parts, "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
