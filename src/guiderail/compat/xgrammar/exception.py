"""The errors of ``xgrammar.exception``; all are a ``RuntimeError`` and a ``GuiderailError``."""

from __future__ import annotations

from guiderail.compat._errors import CompatError

__all__ = ["DeserializeFormatError", "DeserializeVersionError", "InvalidJSONError", "InvalidStructuralTagError"]


class DeserializeFormatError(CompatError):
    """A serialized text is not of the form that ``serialize_json`` writes."""

    code = "compat-serialized"


class DeserializeVersionError(CompatError):
    """A serialized text is of another version, or of XGrammar itself."""

    code = "compat-version"


class InvalidStructuralTagError(CompatError):
    """A structural tag is not of the format."""

    code = "structural-tag"


class InvalidJSONError(CompatError):
    """A text is not JSON."""

    code = "compat-json"
