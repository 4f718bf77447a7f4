"""What came of a prompt, and what is done about a text that ran out of tokens."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from guiderail.constraints.reading import TEXT, Reading
from guiderail.errors import ModelError
from guiderail.generation.distribution.outcome import Draw
from guiderail.generation.logprobs import TokenLogprob

__all__ = [
    "FinishReason",
    "Generation",
    "IncompleteError",
    "OnIncomplete",
    "OnShortened",
    "ShortenedError",
    "ShortenedWarning",
    "check_ends",
    "read_by",
    "shortened_message",
    "was_shortened",
    "which",
]

FinishReason = Literal["complete", "stop", "shortened", "length"]
OnIncomplete = Literal["finish", "error", "return"]
OnShortened = Literal["error", "warn", "return"]


class _Readable:
    """Room beside the fields of a generation, so that ``dataclasses.asdict`` of one is plain data."""

    __slots__ = ("_reading", "_value")
    _reading: Reading
    _value: Any


@dataclass(frozen=True, slots=True)
class Generation(_Readable):
    """What came of one prompt.

    Attributes:
        text: the text, without the stop token.
        tokens: its token ids; the stop token, if the model chose one, is the last.
        finish_reason: ``"complete"``, nothing could follow; ``"stop"``, the model chose a stop token where the text
            may end, or a stop text came; ``"shortened"``, the text is complete, but only because the model was kept
            from what it had chosen: too few tokens were left for that; ``"length"``, ``max_tokens`` or the context ran
            out.
        matched: whether the constraint allows the text as it stands. Only ``"length"`` and a stop text can leave it
            False.
        prompt_tokens: tokens of the prompt.
        forced_tokens: how many tokens were written without asking the model.
        seconds: wall time, from the first forced token or forward pass; of all rows of the batch.
        constraint_seconds: the part of it spent on forced tokens and on masks, sampling excluded, of all rows of the
            batch. A mask that is filled while the model computes counts only for as long as it is waited for.
        shortened_at: of a ``"shortened"`` text, how many of its first tokens are as the model would have written them
            without ``max_tokens``; else None.
        stop_text: the stop text that ended it, which is no part of ``text``; None if none did. ``matched`` may be False
            then.
        logprobs: of each token, with ``logprobs=``: its log-probability among the tokens that the constraint allowed,
            after penalties, at temperature 1. 0 for a token that was forced. Else None.
        log_weight: with ``log_weight=True``: the natural logarithm of the text's importance weight, at most 0: how
            likely the model would have written the text without masks, over how likely it was written. It is the sum
            over the tokens that were drawn of the logarithm of the probability that the mask left, plus the sum over
            the tokens that were forced of their own log-probability, plus that of the stop tokens after a
            ``"complete"`` text. Probabilities are the model's over the tokens of its vocabulary, after penalties, at
            the temperature (at 1 where that is 0), before ``top_k`` and ``top_p``. ``-inf`` where the model was kept
            from a token after which too few tokens were left to finish: the text is not a sample of what it would
            have written. None where the model does not tell the logits of forced tokens (see ``feed_each`` of
            :class:`Session`; ``jump_forward=False`` has every model tell them). A text of ``distribution="exact"`` has
            the weight that it would have had under masks, which is no reason to weigh it: all exact draws count alike.
        draw: with ``distribution="exact"`` or ``"weighted"``: how it was drawn. Else None.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    matched: bool
    prompt_tokens: int
    forced_tokens: int
    seconds: float
    constraint_seconds: float
    shortened_at: int | None = None
    stop_text: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    log_weight: float | None = None
    draw: Draw | None = None

    @property
    def logprob(self) -> float | None:
        """The log-probability of the whole text under the constraint: the sum of those of its tokens."""
        return None if self.logprobs is None else sum(one.logprob for one in self.logprobs)

    @property
    def captures(self) -> dict[str, list[str]]:
        """What of the text the captured rules of a grammar are, by name; see `GrammarConstraint.captures`. Empty for
        other constraints."""
        find = getattr(_reading_of(self), "captures", None)
        return {} if find is None else dict(find(self.text))

    @property
    def value(self) -> Any:
        """What the text says: parsed JSON for a JSON Schema, a value of the type for a Python type, the calls for tools
        (a ``ToolText``), the values of a document for an XML Schema, else the text.

        If the text is not complete (``matched`` is False), as much of the value as it holds, like the last snapshot
        of a stream. The text is read when this is first asked for.

        Raises:
            ReadError: code of the user's own (a validator, ``__post_init__``) refuses the value.
        """
        if not hasattr(self, "_value"):
            reading = _reading_of(self)
            if self.matched:
                value = reading.read(self.text)
            else:
                partial = reading.partial(growing_strings=True)
                partial.feed(self.text)
                value = partial.snapshot()
            object.__setattr__(self, "_value", value)
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        # without the value, which may be of any kind: a copy reads the text again
        return read_by, (_reading_of(self), *(getattr(self, f.name) for f in fields(self)))


def _reading_of(result: Generation) -> Reading:
    found: Reading = getattr(result, "_reading", TEXT)
    return found


def read_by(reading: Reading, *values: Any) -> Generation:
    """A generation of these fields that is read so."""
    made = Generation(*values)
    object.__setattr__(made, "_reading", reading)
    return made


class IncompleteError(ModelError):
    """``max_tokens`` (or the context) ran out before a text was complete.

    Attributes:
        generations: all rows, finished or not; empty after unpickling.
    """

    code = "incomplete"
    generations: tuple[Generation, ...] = ()


class ShortenedError(IncompleteError):
    """A value was completed within ``max_tokens``, but it is not the one that the model would have written.

    The value is valid: ``error.generations[0].value``.
    """

    code = "shortened"


class ShortenedWarning(UserWarning):
    """A text was completed within ``max_tokens``, but it is not the one that the model would have written."""


def was_shortened(result: Generation) -> bool:
    """Whether the tokens decided how a complete text ends.

    A value that may end in several places, such as a number, is cut like any text where its tokens run out. That is no
    news of a text, but the value is another one.
    """
    cut = result.finish_reason == "length" and result.matched and not _reading_of(result).is_text
    return cut or result.finish_reason == "shortened"


def shortened_message(result: Generation, which: str, way_out: str) -> str:
    """What happened to such a text, where, and what to do."""
    count = len(result.tokens)
    if result.shortened_at is None:
        happened = f"ran out of tokens after {count}, where it could have continued"
    else:
        happened = (
            f"was steered to its end: from token {result.shortened_at + 1} of {count} on it is not what the model "
            "would have written, because too few tokens were left"
        )
    return f"the text{which} {happened}: {_tail(result.text)}; {way_out}"


def check_ends(
    results: Sequence[Generation], on_incomplete: OnIncomplete, on_shortened: OnShortened | None, n: int = 1
) -> None:
    """Tells about texts for which the tokens did not suffice, as the options say.

    Args:
        n: texts of each prompt.
        on_shortened: None: an error where the text is read as a value, else a warning.

    Raises:
        IncompleteError: a text may not end where it does, and that is to be an error.
        ShortenedError: likewise for a text that was steered to its end.
    """
    if on_incomplete == "return":
        return
    for i, result in enumerate(results):
        is_text = _reading_of(result).is_text
        cut = on_incomplete == "error" and result.finish_reason == "length" and not is_text
        if result.stop_text is not None:
            if not (result.matched or is_text):
                raise _error(
                    IncompleteError,
                    f"the text{_which(i, results, n)} was ended by the stop text {result.stop_text!r} before its value "
                    f'was complete: {_tail(result.text)}; leave it out, or pass on_incomplete="return"',
                    results,
                )
        elif not result.matched or cut:
            raise _error(
                IncompleteError,
                f"the text{_which(i, results, n)} was not complete after {len(result.tokens)} tokens: "
                f"{_tail(result.text)}; raise max_tokens, bound the constraint (max_length), or pass "
                'on_incomplete="return"',
                results,
            )
    if on_incomplete != "finish" or on_shortened == "return":
        return
    found = [i for i, result in enumerate(results) if was_shortened(result)]
    grave = [i for i in found if (on_shortened or _usual(results[i])) == "error"]
    if found:
        first = (grave or found)[0]
        way_out = "raise max_tokens, or bound the constraint (maxLength, maxItems)"
        way_out += ', or pass on_shortened="warn" to accept it as it is' if grave else ""
        message = shortened_message(results[first], _which(first, results, n), way_out)
        if len(found) > 1:
            message += f" ({len(found)} of {len(results)} texts were shortened)"
        if grave:
            raise _error(ShortenedError, message, results)
        warnings.warn(message, ShortenedWarning, stacklevel=_outside())


def _usual(result: Generation) -> OnShortened:
    return "warn" if _reading_of(result).is_text else "error"


def _which(i: int, results: Sequence[Generation], n: int) -> str:
    return which(i, n) if len(results) > 1 else ""


def which(i: int, n: int) -> str:
    """One of several texts, for a message; ``n`` are of each prompt."""
    return f" of prompt {i}" if n == 1 else f" {i % n} of prompt {i // n}"


def _tail(text: str) -> str:
    return repr(text if len(text) <= 200 else "…" + text[-200:])


def _error(kind: type[IncompleteError], message: str, results: Sequence[Generation]) -> IncompleteError:
    error = kind(message)
    error.generations = tuple(results)
    return error


def _outside() -> int:
    """The ``stacklevel`` of who called guiderail, for a warning of the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("guiderail."):
        frame, level = frame.f_back, level + 1
    return level
