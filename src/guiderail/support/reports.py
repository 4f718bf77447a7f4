"""Reports that say of each part of a schema what becomes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class StatusEntry(DataclassInstance, Protocol):
        """The status of one part."""

        @property
        def place(self) -> str: ...
        @property
        def status(self) -> str: ...
        @property
        def detail(self) -> str: ...


__all__ = ["StatusReport"]

_Entry = TypeVar("_Entry", bound="StatusEntry")


@dataclass(frozen=True, slots=True)
class StatusReport(Generic[_Entry]):
    """All entries, in the order of the schema."""

    entries: tuple[_Entry, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: ``{"entries": [{"status", "detail", …}, …], "counts": {status: number}}``."""
        return {
            "entries": [asdict(entry) for entry in self.entries],
            "counts": dict(Counter(entry.status for entry in self.entries)),
        }

    def with_status(self, *statuses: str) -> tuple[_Entry, ...]:
        """The entries that have one of these statuses."""
        return tuple(entry for entry in self.entries if entry.status in statuses)

    def __str__(self) -> str:
        lines = [f"{status}: {count}" for status, count in self.to_dict()["counts"].items()]
        for entry in self.entries:
            if entry.status not in ("enforced", "annotation") or entry.detail:
                lines.append(f"{entry.place}: {entry.status}" + (f" ({entry.detail})" if entry.detail else ""))
        return "\n".join(lines)
