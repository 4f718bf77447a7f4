"""The errors of ``xgrammar.exception``. Each is both a ``RuntimeError`` and a ``GuiderailError``."""

from __future__ import annotations

from guiderail.compat._errors import CompatError

__all__ = ["DeserializeFormatError", "DeserializeVersionError", "InvalidJSONError", "InvalidStructuralTagError"]


class DeserializeFormatError(CompatError):
    """A serialized text does not have the format that ``serialize_json`` writes."""

    code = "compat-serialized"


class DeserializeVersionError(CompatError):
    """A serialized text has another version, or was written by XGrammar itself."""

    code = "compat-version"


class InvalidStructuralTagError(CompatError):
    """A structural tag is malformed."""

    code = "structural-tag"


class InvalidJSONError(CompatError):
    """A text is not JSON."""

    code = "compat-json"
