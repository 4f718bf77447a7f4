"""Constraints, texts and their masks from Python, for comparison in other languages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``write_cases.py`` writes; ``GUIDERAIL_JS_CASES`` names a larger one."""
    given = os.environ.get("GUIDERAIL_JS_CASES")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("cases")
    subprocess.run([sys.executable, str(Path(__file__).with_name("write_cases.py")), str(folder)], check=True)
    return folder
