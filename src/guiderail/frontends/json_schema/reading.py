"""Strings under a JSON Schema as values: parsed JSON, or what another notation says in terms of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from guiderail.constraints.reading import Partial, Unfinished
from guiderail.support.partial_json import PartialJson

__all__ = ["SchemaReading"]


@dataclass(frozen=True, slots=True)
class SchemaReading:
    """Reads a string in the notation of a schema."""

    notation: str
    is_text = False
    bounds = "maxLength, maxItems, maximum"

    def read(self, text: str) -> Any:
        if self.notation != "json":
            from guiderail.support.notations import parse
            from guiderail.support.trees import plain

            return plain(parse(text, self.notation))
        try:
            return json.loads(text)
        except (RecursionError, ValueError):  # nested deeper, or a number longer, than json.loads can take
            reader = PartialJson()
            reader.feed(text)
            return reader.close()

    def partial(self, *, growing_strings: bool) -> Partial:
        return PartialJson(growing_strings=growing_strings) if self.notation == "json" else Unfinished()
