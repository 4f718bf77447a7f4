"""Lists of the cases in which guiderail differs from a suite of tests, with the reason: a case may become right, never
wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

DATA = Path(__file__).parent / "data"


class Differing(Protocol):
    """A case that differs: its key, how it differs, and what is known about it."""

    @property
    def key(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Ratchet:
    """The file of a suite: part of the suite → verdict → reason → keys of cases."""

    def __init__(self, name: str) -> None:
        self.path = DATA / name

    def content(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        if not self.path.exists():
            return {}
        content: dict[str, dict[str, dict[str, list[str]]]] = json.loads(self.path.read_text(encoding="utf-8"))
        return content

    def listed(self, part: str) -> dict[str, tuple[str, str]]:
        """Returns the known differences of a part: key → (verdict, reason)."""
        return {
            key: (verdict, reason)
            for verdict, reasons in self.content().get(part, {}).items()
            for reason, keys in reasons.items()
            for key in keys
        }

    def write(self, found: Mapping[str, Sequence[Differing]]) -> None:
        """Lists the cases that differ, part by part. Reasons that are known stay; other parts do, too."""
        content = self.content()
        for part, differing in found.items():
            known = self.listed(part)
            content[part] = {}
            for one in differing:
                reason = known.get(one.key, ("", ""))[1] or f"TODO: {one.detail}"
                content[part].setdefault(one.verdict, {}).setdefault(reason, []).append(one.key)
        self.path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
