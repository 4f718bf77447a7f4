"""Measures how long ``import guiderail`` takes in a fresh process, and how long each of its modules takes.

python benchmarks/import_time.py --runs 11
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time

LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|( *)(\S+)")


def once(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--top", type=int, default=12, help="modules to show")
    options = parser.parse_args()

    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    for module in ("numpy", "guiderail"):
        runs = []
        for _ in range(options.runs):
            command = [sys.executable, "-c", code.format(module)]
            runs.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(f"import {module}: median {statistics.median(runs) * 1e3:.1f} ms, least {min(runs) * 1e3:.1f} ms")
    bare = statistics.median(once("pass") for _ in range(options.runs))
    whole = statistics.median(once("import guiderail") for _ in range(options.runs))
    print(f"the whole process: {whole * 1e3:.1f} ms, of which Python itself {bare * 1e3:.1f} ms\n")

    command = [sys.executable, "-X", "importtime", "-c", "import guiderail"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    rows = [(int(m[1]), m[4]) for m in map(LINE.match, report.splitlines()) if m]
    for own, module in sorted(rows, reverse=True)[: options.top]:
        print(f"{own / 1e3:8.1f} ms  {module}")


if __name__ == "__main__":
    main()
