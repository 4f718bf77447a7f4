"""Errors in the form that OpenAI's clients read.

    {"error": {"message": …, "type": "invalid_request_error", "param": "response_format", "code": "invalid-schema",
               "pointer": "#/properties/age", "span": [3, 7]}}

``code`` is the stable code of a guiderail error. ``pointer`` and ``span`` give the location in the schema or the
pattern, or in the request if that is malformed.
"""

from __future__ import annotations

from typing import Any

from guiderail.errors import GuiderailError, LimitError, ModelError
from guiderail.generation.distribution.outcome import PassesError
from guiderail.support.pointers import extended

__all__ = ["ApiError", "from_guiderail"]

_OF_FORM = {"invalid-request", "unsupported-content", "invalid-tool", "several-constraints", "unknown-parameter"}
"""Errors whose place is the parameter itself."""


class ApiError(Exception):
    """An answer other than success.

    Attributes:
        status: the HTTP status.
        message: what is wrong and what to do about it.
        code: machine-readable and stable.
        param: the parameter of the request at fault, or None.
        place: more members of the error object (``pointer``, ``span``).
    """

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, place: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.place = status, message, code, param, place or {}

    @property
    def kind(self) -> str:
        """OpenAI's ``type`` of the error."""
        if self.status == 401:
            return "authentication_error"
        if self.status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.status < 500 else "server_error"

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        if self.code in _OF_FORM and self.param:
            error["pointer"] = extended("#", *self.param.split("."))
        return {"error": {**error, **self.place}}

    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.status in (408, 413):
            return {"Connection": "close"}  # what follows is the rest of the body and no other request
        return {"Retry-After": "1"} if self.status == 503 else {}


_BUDGET = {"budget-too-small", "budget-unknown"}  # LimitErrors caused by the request's own limit
_BUSY = {"no-room", "busy", "closed", "decode", "bad-logits"}  # ModelErrors that are not the request's fault


def from_guiderail(error: GuiderailError, param: str | None = None) -> ApiError:
    """The answer to a guiderail error: 400 with its code and location, or 500 if the model itself fails."""
    place: dict[str, Any] = {}
    pointer = getattr(error, "pointer", None) or getattr(error.__cause__, "pointer", None)
    if pointer is not None:
        place["pointer"] = pointer
    if error.span is not None:
        place["span"] = list(error.span)
    if isinstance(error, PassesError):
        place |= {"passes": error.passes, "mass": error.mass}
    status = 500 if isinstance(error, ModelError) and error.code in _BUSY else 400
    message = error.message if error.span is None else error.render()
    if isinstance(error, LimitError) and error.code not in _BUDGET:
        message += " (a limit of this server)"
    return ApiError(status, message, code=error.code, param=param, place=place)
