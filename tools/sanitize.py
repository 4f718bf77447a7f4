"""Builds the core with sanitizers and runs the tests that use it.

    python tools/sanitize.py address,undefined
    python tools/sanitize.py thread
    python tools/sanitize.py thread --seconds 300 tests/test_threads.py -k pool

The core is built in ``build/sanitize-…`` and put into a copy of the package there. Your own package stays as it is. The
sanitizers' runtime is loaded first (``LD_PRELOAD``). Leaks are not detected here, because Python keeps much memory
until it ends; the core's fuzzers detect them, without Python.

Each test file runs in its own process, for the seconds that are left. An unfinished file is reported and is not a
failure; a sanitizer's report is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from other_core import ROOT, START, build

FILES = {
    "address,undefined": [
        "test_core_expressions.py",
        "test_json_core.py",
        "test_masks.py",
        "test_lexed_masks.py",
        "test_mask_heads.py",
        "test_shared_forms.py",
        "test_matcher.py",
        "test_bitmask_native.py",
        "test_token_automaton.py",
        "test_guide_memory.py",
        "test_threads.py",
        "test_speculative.py",
        "test_strings.py",
        "test_grammar.py",
        "test_limits.py",
        "test_vocabulary.py",
        "test_budget.py",
        "test_after_a_limit.py",
        "test_lexed_nested.py",
        "test_mask_walks.py",
        "test_identities.py",
        "test_saved.py",
        "test_canonical.py",
        "test_engine_drafts.py",
        "test_mask_strategies.py",
        "test_distinct_masks.py",
        "test_late_decisions.py",
        "test_array_votes.py",
        "test_many_conditions.py",
        "test_infill.py",
        "test_mass.py",
    ],
    "thread": [
        "test_threads_beside.py",
        "test_threads.py",
        "test_bitmask_native.py",
        "test_guide_memory.py",
        "test_overlap.py",
        "test_speculative.py",
        "test_matcher.py",
    ],
}
RUNTIMES = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
# Tests that limit the address space, of which a sanitizer reserves terabytes, or that measure memory.
TOO_NARROW = "not little_memory and not rlimit and not address_space and not grows"
# The thread sanitizer does not support threads started by a forked child.
FORKS = " and not of_a_fork"
REPORTS = ("ERROR: AddressSanitizer", "runtime error:", "WARNING: ThreadSanitizer", "SUMMARY: ")
RUN = (
    START
    + """
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(FILES))
    parser.add_argument("--seconds", type=float, default=5400, help="for all tests together (default: 5400)")
    options, rest = parser.parse_known_args()
    # The optimiser gives false warnings for instrumented code.
    optimise = "-DCMAKE_CXX_FLAGS=-fno-sanitize-recover=all -Wno-error"
    package = build(f"sanitize-{options.kind.replace(',', '-')}", [f"-DGUIDERAIL_SANITIZE={options.kind}", optimise])
    files = [Path(one) for one in rest if one.endswith(".py")] or [ROOT / "tests" / one for one in FILES[options.kind]]
    chosen = [one for one in rest if not one.endswith(".py")] or [
        "-k",
        TOO_NARROW + (FORKS if options.kind == "thread" else ""),
    ]
    environment = environment_of(options.kind)
    stop = time.monotonic() + options.seconds
    failed, unfinished = [], []
    for file in files:
        left = stop - time.monotonic()
        if left < 5:
            unfinished.append(file.name)
            continue
        command = [
            *prefix(),
            sys.executable,
            "-c",
            RUN,
            str(package),
            "-q",
            "-o",
            f"cache_dir={package.parent / 'pytest-cache'}",  # some tests cache a tokenizer there
            str(file),
            *chosen,
        ]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                timeout=left,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except subprocess.TimeoutExpired as late:
            output = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
            unfinished.append(file.name)
            code = 0
        else:
            output, code = done.stdout, done.returncode
        reported = any(report in output for report in REPORTS)
        if reported or code not in (0, 5):
            failed.append(file.name)
            print(output)
        summary = output.strip().splitlines()[-1:] or [""]
        print(f"{file.name}: {f'FAILED, exit {code}' if file.name in failed else 'clean'}; {summary[0]}", flush=True)
    print(
        f"{options.kind}: {len(files) - len(failed) - len(unfinished)} files clean, {len(failed)} failed {failed}, "
        f"{len(unfinished)} not finished in time {unfinished}"
    )
    return 1 if failed else 0


def environment_of(kind: str) -> dict[str, str]:
    compiler = os.environ.get("CXX", "g++")

    def library(name: str) -> str:
        made = subprocess.run([compiler, f"-print-file-name={name}"], check=True, text=True, stdout=subprocess.PIPE)
        return os.path.realpath(made.stdout.strip())

    # The C++ library, too: the runtime looks up __cxa_throw as soon as it starts.
    libraries = [library(RUNTIMES[one]) for one in kind.split(",")] + [library("libstdc++.so")]
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": f"exitcode=66:history_size=4:suppressions={ROOT / 'tools' / 'thread_sanitizer.supp'}",
        "PYTHONMALLOC": "malloc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HYPOTHESIS_MAX_EXAMPLES": "100",
        "GUIDERAIL_SLOWER": "10",  # for tests with a time limit for work that might never end
    }


def prefix() -> list[str]:
    """Returns a command that turns off address randomization, which older thread sanitizers cannot handle."""
    found = shutil.which("setarch")
    return [found, os.uname().machine, "-R"] if found else []


if __name__ == "__main__":
    sys.exit(main())
