"""The JSON that ``serialize_json`` writes: a kind, a version, and what is needed to build the object again."""

from __future__ import annotations

import json
from typing import Any

from guiderail.compat.xgrammar.exception import DeserializeFormatError, DeserializeVersionError, InvalidJSONError
from guiderail.support.json_objects import loads

__all__ = ["VERSION", "read_serialized", "write_serialized"]

VERSION = "guiderail-1"


def write_serialized(kind: str, fields: dict[str, Any]) -> str:
    """Returns an object of a kind as JSON."""
    return json.dumps({"kind": kind, **fields, "__VERSION__": VERSION})


def read_serialized(kind: str, text: str) -> dict[str, Any]:
    """Reads the result of :func:`write_serialized`.

    Raises:
        InvalidJSONError: the text is not JSON.
        DeserializeVersionError: it has another version, or is XGrammar's own.
        DeserializeFormatError: it is of another kind.
    """
    try:
        data = loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidJSONError(f"the serialized text is not JSON: {error}") from None
    version = data.get("__VERSION__") if isinstance(data, dict) else None
    if version != VERSION:
        raise DeserializeVersionError(
            f"the text is of version {version!r}, not {VERSION!r}: it was written by another version or by XGrammar; "
            "make the object again from its source"
        )
    if data.get("kind") != kind:
        raise DeserializeFormatError(f"the text is a serialized {data.get('kind')!r}, not {kind!r}")
    return dict(data)
