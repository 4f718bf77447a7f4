"""The tests that CI may skip, and why. With ``GUIDERAIL_STRICT_SKIPS=1``, any other skip is a failure.

A skipped test checks nothing, and nobody notices: a library is no longer installed, a browser has moved. So CI installs
everything that the tests compare with, and this list names the few tests that need more.
"""

from __future__ import annotations

import os
import re

import pytest

# Patterns of reasons, each with what runs the test instead.
ALLOWED = {
    r"GUIDERAIL_CLIENT_TESTS=1": "make test-clients: clients from PyPI in environments of their own",
    r"GUIDERAIL_ENGINE_TESTS=1": "make test-engines: serving engines, gigabytes each",
    r"GUIDERAIL_WHEEL_TESTS=1": "make test-wheels: compiles wheels",
    r"not a free-threaded Python": "make test-free-threaded",
    r"libguiderail is not built": "make test-c",
    r"no compiler \S+ here": "make test-c, where there is one",
    r"guiderail\.wasm is not built": "make test-js",
    r"the playground is not built": "make test-playground",
    r"the chat templates are not here": "make test-templates",
    r"(vllm|sglang|mlx and mlx-lm|llama-cpp-python) (is|are) not installed": "make test-engines",
    r"not all of onnxruntime-genai, onnx-ir, torch, transformers are installed": "make test-engines",
    r"(the grammar|the list) is that of Python 3\.11": "the job on Python 3.11",
    r"re knows no atomic groups": "the jobs on Python 3.11 and newer",
    r"the syntax is that of Python 3\.11": "the jobs on Python 3.11 and newer",
    r"the tables of other libraries' tests": "where they are at hand: GUIDERAIL_PEERS, or ../shared/peers",
    r"needs? a GPU": "a machine with a GPU",
}


def strict() -> bool:
    """Returns whether an unexpected skip is a failure in this run."""
    return os.environ.get("GUIDERAIL_STRICT_SKIPS") == "1"


def expected(reason: str) -> bool:
    """Returns whether a skip for this reason is on the list."""
    return any(re.search(pattern, reason) for pattern in ALLOWED)


def judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns an unexpected skip into a failure."""
    if not strict() or not report.skipped or hasattr(report, "wasxfail"):
        return
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    if not expected(reason):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: {reason}\nCI skips nothing that tests/skips.py does not list."
