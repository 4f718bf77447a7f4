"""Adds a line to ``fuzz/ledger.md``: what was fuzzed, at which commit, for how long, and what was found."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def note(
    target: str, seconds: float, inputs: int, failures: int, *, texts: int | None = None, masks: int | None = None
) -> None:
    """See the head of the ledger for what is counted; None: not counted here."""
    commit = subprocess.run(
        ["git", "-C", FOLDER, "rev-parse", "--short", "HEAD"], text=True, stdout=subprocess.PIPE, check=False
    ).stdout.strip()
    counts = " | ".join("–" if count is None else f"{count:,}" for count in (inputs, texts, masks))
    with (FOLDER / "ledger.md").open("a") as ledger:
        ledger.write(f"| {datetime.date.today()} | {commit} | {target} | {seconds:.0f} | {counts} | {failures} |\n")
