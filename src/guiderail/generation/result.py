"""The result of a generation, and what happens to a text that ran out of tokens."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from guiderail.constraints.reading import TEXT, Reading
from guiderail.errors import ModelError
from guiderail.generation.distribution.outcome import Draw
from guiderail.generation.logprobs import TokenLogprob
from guiderail.support.callers import outside

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
    """Slots in addition to the fields of a generation, so that ``dataclasses.asdict`` gives plain data."""

    __slots__ = ("_reading", "_value")
    _reading: Reading
    _value: Any


@dataclass(frozen=True, slots=True)
class Generation(_Readable):
    """The result for one prompt.

    Attributes:
        text: the text, without the stop token.
        tokens: its token ids, including the stop token, if the model chose one.
        finish_reason: ``"complete"``: nothing could follow; ``"stop"``: the model chose a stop token where the text may
            end, or a stop string was generated; ``"shortened"``: the text is complete, but only because guiderail
            masked a token that the model chose, which would have left too few to finish; ``"length"``:
            ``max_tokens`` or the context ran out.
        matched: whether the constraint allows the text as returned. It can be False only after ``"length"`` or a stop
            string.
        prompt_tokens: the number of tokens of the prompt.
        forced_tokens: how many tokens were written without asking the model.
        seconds: wall time from the first forced token or forward pass, for all rows of the batch.
        constraint_seconds: the part of it spent on forced tokens and masks, without sampling, for all rows of the
            batch. If a mask is filled while the model computes, only the time spent waiting for it counts.
        shortened_at: for a ``"shortened"`` text, how many of its first tokens are those that the model would have
            written without ``max_tokens``; otherwise None.
        stop_string: the stop string that ended it, which is not part of ``text``, or None. ``matched`` may be False
            then.
        logprobs: with ``logprobs=``, the log-probability of each token among the tokens that the constraint allowed,
            after penalties, at temperature 1. 0 for a forced token. Otherwise None.
        log_weight: with ``log_weight=True``, the natural logarithm of the text's importance weight, at most 0: the
            probability that the model writes the text without masks, over the probability with which it was written. It
            sums, for each drawn token, the logarithm of the probability that the mask left, and for each forced token,
            its own log-probability; after a ``"complete"`` text, that of the stop tokens, too. Probabilities are the
            model's, over its whole vocabulary, after penalties, at the temperature (at 1 if that is 0), before
            ``top_k`` and ``top_p``. ``-inf`` if the model was kept from a token that would have left too few to finish:
            the text is not a sample of what it would have written. None if the model does not report the logits of
            forced tokens (see ``feed_each`` of :class:`Session`; with ``jump_forward=False`` every model reports them).
            A text of ``distribution="exact"`` has the weight that it would have had under masks. Do not weigh such
            texts by it: all exact draws count alike.
        draw: with ``distribution="exact"`` or ``"weighted"``, how the text was drawn. Otherwise None.
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
    stop_string: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    log_weight: float | None = None
    draw: Draw | None = None

    @property
    def logprob(self) -> float | None:
        """The log-probability of the whole text under the constraint: the sum over its tokens."""
        return None if self.logprobs is None else sum(one.logprob for one in self.logprobs)

    @property
    def captures(self) -> dict[str, list[str]]:
        """What each captured rule of a grammar matched, by name; see `GrammarConstraint.captures`.

        Empty for other constraints.
        """
        find = getattr(_reading_of(self), "captures", None)
        return {} if find is None else dict(find(self.text))

    @property
    def value(self) -> Any:
        """The value of the text: parsed JSON for a JSON Schema, a value of the type for a Python type, a ``ToolText``
        for tool calls, the values of the document for an XML Schema, otherwise the text itself.

        If the text is incomplete (``matched`` is False), this is as much of the value as it holds, like the last
        snapshot of a stream. The text is parsed on first access.

        Raises:
            ReadError: your own code (a validator, ``__post_init__``) rejects the value.
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
    """A generation with these fields, whose text this reader parses."""
    made = Generation(*values)
    object.__setattr__(made, "_reading", reading)
    return made


class IncompleteError(ModelError):
    """``max_tokens`` (or the context) ran out before a text was complete.

    Attributes:
        generations: all rows, finished or not; empty after unpickling.
    """

    code = "incomplete"
    _unpickled = frozenset(("generations",))
    generations: tuple[Generation, ...] = ()


class ShortenedError(IncompleteError):
    """A value was completed within ``max_tokens``, but it is not the one that the model would have written.

    The value is valid: ``error.generations[0].value``.
    """

    code = "shortened"


class ShortenedWarning(UserWarning):
    """A text was completed within ``max_tokens``, but it is not the one that the model would have written."""


def was_shortened(result: Generation) -> bool:
    """Whether a complete text ends as it does only because the tokens ran out.

    A value that may end in several places, such as a number, is cut like any text when its tokens run out. For a text
    that is harmless, but a value becomes a different one.
    """
    cut = result.finish_reason == "length" and result.matched and not _reading_of(result).is_text
    return cut or result.finish_reason == "shortened"


def shortened_message(result: Generation, which: str, way_out: str) -> str:
    """The message about a shortened text: what happened, where, and what to do."""
    count = len(result.tokens)
    if result.shortened_at is None:
        happened = f"ran out of tokens after {count}, where it could have continued"
    else:
        happened = (
            f"was shortened: from token {result.shortened_at + 1} of {count} on it is not what the model would have "
            "written, because too few tokens were left"
        )
    return f"the text{which} {happened}: {_tail(result.text)}; {way_out}"


def check_ends(
    results: Sequence[Generation], on_incomplete: OnIncomplete, on_shortened: OnShortened | None, n: int = 1
) -> None:
    """Raises or warns about texts for which the tokens did not suffice, as the options say.

    Args:
        n: the number of texts for each prompt.
        on_shortened: None: an error if the text is read as a value, otherwise a warning.

    Raises:
        IncompleteError: the options make an incomplete text an error.
        ShortenedError: the options make a shortened text an error.
    """
    if on_incomplete == "return":
        return
    for i, result in enumerate(results):
        is_text = _reading_of(result).is_text
        cut = on_incomplete == "error" and result.finish_reason == "length" and not is_text
        if result.stop_string is not None:
            if not (result.matched or is_text):
                raise _error(
                    IncompleteError,
                    f"the stop string {result.stop_string!r} ended the text{_which(i, results, n)} before its value "
                    f'was complete: {_tail(result.text)}; leave it out, or pass on_incomplete="return"',
                    results,
                )
        elif not result.matched or cut:
            raise _error(
                IncompleteError,
                f"the text{_which(i, results, n)} was not complete after {len(result.tokens)} tokens: "
                f"{_tail(result.text)}; raise max_tokens, bound the constraint ({_reading_of(result).bounds}), or pass "
                'on_incomplete="return"',
                results,
            )
    if on_incomplete != "finish" or on_shortened == "return":
        return
    found = [i for i, result in enumerate(results) if was_shortened(result)]
    grave = [i for i in found if (on_shortened or _usual(results[i])) == "error"]
    if found:
        first = (grave or found)[0]
        way_out = f"raise max_tokens, or bound the constraint ({_reading_of(results[first]).bounds})"
        way_out += ', or pass on_shortened="warn" to accept it as it is' if grave else ""
        message = shortened_message(results[first], _which(first, results, n), way_out)
        if len(found) > 1:
            message += f" ({len(found)} of {len(results)} texts were shortened)"
        if grave:
            raise _error(ShortenedError, message, results)
        warnings.warn(message, ShortenedWarning, stacklevel=outside())


def _usual(result: Generation) -> OnShortened:
    return "warn" if _reading_of(result).is_text else "error"


def _which(i: int, results: Sequence[Generation], n: int) -> str:
    return which(i, n) if len(results) > 1 else ""


def which(i: int, n: int) -> str:
    """Names one of several texts, for a message; ``n`` are of each prompt."""
    return f" of prompt {i}" if n == 1 else f" {i % n} of prompt {i // n}"


def _tail(text: str) -> str:
    return repr(text if len(text) <= 200 else "…" + text[-200:])


def _error(kind: type[IncompleteError], message: str, results: Sequence[Generation]) -> IncompleteError:
    error = kind(message)
    error.generations = tuple(results)
    return error
