"""The probability that the model writes each of a request's choices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from guiderail.errors import GuiderailError
from guiderail.generation.models.base import context_full
from guiderail.generation.models.branches import MOST_CHAINS, cells_of
from guiderail.generation.probabilities import Counting, probabilities_of
from guiderail.server.constraints import Ask
from guiderail.server.engine import Overloaded, TimedOut
from guiderail.server.errors import ApiError, from_guiderail
from guiderail.server.rows import finite
from guiderail.server.service import Service, failure

__all__ = ["ChoiceLogprobs", "choice_logprobs"]

PARAM = "guiderail.choice_logprobs"
_SHARE = 2  # all texts may take 1/_SHARE of the cache's tokens; a single text may take more
MAX_PREFIXES = 512  # read at once while other texts wait
TOLERANCE = 1e-4

ChoiceLogprobs = list[dict[str, Any]]
"""``text`` and ``logprob`` of each choice, in their order."""


async def choice_logprobs(
    service: Service, spellings: Any, ask: Ask | None, prompts: Sequence[list[int]], *, reasons: bool = False
) -> list[ChoiceLogprobs] | None:
    """Returns the log-probabilities of a request's choices, for each of its prompts; None if it does not ask for them.

    Args:
        spellings: the spellings that count, ``"canonical"`` or ``"all"``; None: the request does not ask.
        reasons: whether the text begins with reasoning.

    Raises:
        ApiError: 400: there are no choices, or too many; 503, 504: the model is too busy.
    """
    if spellings is None:
        return None
    if ask is None or ask.kind != "choice":
        raise _wrong("it needs structured_outputs.choice or guided_choice, and this request has neither")
    if reasons:
        raise _wrong("the choice would come after reasoning; leave out reasoning_effort and max_reasoning_tokens")
    room = min(service.model.context_length, service.options.max_cached_tokens)
    longest = max(map(len, prompts), default=0)
    if longest >= room:
        raise from_guiderail(context_full(service.name, longest + 1, room), PARAM)
    texts = list(dict.fromkeys(json.loads(ask.value)))
    length = longest + min(max(len(text.encode()) for text in texts), room - longest)
    chains = max(1, min(MOST_CHAINS, service.options.max_cached_tokens // (_SHARE * length)))
    counting = Counting(spellings, tolerance=TOLERANCE, max_prefixes=MAX_PREFIXES, chains=chains)
    cells = min(cells_of(service.model, longest, length - longest, chains), service.options.max_cached_tokens)

    def compute() -> list[ChoiceLogprobs]:
        found = [probabilities_of(service.model, prompt, texts, texts, counting) for prompt in prompts]
        return [[{"text": text, "logprob": finite(one.logprobs[text])} for text in texts] for one in found]

    try:
        task = service.engine.ask(compute, cells)
        return await asyncio.wait_for(asyncio.wrap_future(task), service.options.request_seconds)
    except (TimeoutError, asyncio.TimeoutError):
        seconds = f"{service.options.request_seconds:g} seconds"
        raise failure(TimedOut(f"the probabilities of the choices were not found within {seconds}")) from None
    except Overloaded as error:
        raise failure(error) from error
    except GuiderailError as error:
        raise from_guiderail(error, PARAM) from error


def _wrong(message: str) -> ApiError:
    return ApiError(400, f"{PARAM}: {message}", code="invalid-request", param=PARAM)
