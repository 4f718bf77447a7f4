"""Reasoning in a request: how much, and between which markers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail.server.errors import ApiError

if TYPE_CHECKING:
    from guiderail.generation.rendering import Shown
    from guiderail.server.schemas import ChatRequest, ResponsesRequest

__all__ = ["EFFORT_TOKENS", "Thinking", "thinking_of", "wants_thinking"]

EFFORT_TOKENS = {"minimal": 128, "low": 512, "medium": 2048, "high": 8192, "xhigh": 16384, "max": 32768}
"""Maximum number of reasoning tokens for each effort; ``guiderail.max_reasoning_tokens`` overrides it."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning before a text; plain data, so that equal requests share a compiled constraint.

    Attributes:
        mode: ``"required"``, or ``"open"`` if the prompt already ends with the opening marker.
        tokens: maximum number of reasoning tokens.
        format: the format of the model family, which has the markers.
    """

    mode: str
    tokens: int
    format: str


def wants_thinking(request: ChatRequest | ResponsesRequest) -> bool:
    """Whether a request asks for reasoning.

    Raises:
        ApiError: 400: its parameters disagree.
    """
    effort, most = request.effort, request.guiderail.max_reasoning_tokens
    if effort == "none" and most is not None:
        raise ApiError(
            400,
            f"{request.effort_param} is none, and guiderail.max_reasoning_tokens limits reasoning; leave one out",
            code="invalid-request",
            param="guiderail.max_reasoning_tokens",
        )
    return effort not in (None, "none") or most is not None


def thinking_of(request: ChatRequest | ResponsesRequest, shown: Shown, format: str) -> Thinking:
    """Returns the reasoning for a request that asks for it.

    Args:
        shown: its rendered conversation, up to the start of the answer.
        format: the tool-call format, which knows how the model writes reasoning.

    Raises:
        ApiError: 400: the model has no markers for it.
    """
    from guiderail.frontends.tools.format import read_format

    param = request.effort_param if request.effort is not None else "guiderail.max_reasoning_tokens"
    frame = read_format(format).reasoning
    if frame is None:
        raise ApiError(
            400,
            f"{param}: models of the format {format!r} have no markers for reasoning; leave it out, or start the "
            "server with the model's --tool-format",
            code="invalid-request",
            param=param,
        )
    limit = request.guiderail.max_reasoning_tokens
    tokens = EFFORT_TOKENS[request.effort or "medium"] if limit is None else limit
    end = shown[-1][0].rstrip() if isinstance(shown, list) and shown else ""
    return Thinking("open" if frame.begin and end.endswith(frame.begin.rstrip()) else "required", tokens, format)
