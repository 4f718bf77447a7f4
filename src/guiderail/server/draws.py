"""Requests for draws from the model's own distribution under the constraint, instead of under masks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from guiderail.constraints.reading import TEXT
from guiderail.errors import LimitError, ModelError
from guiderail.generation.distribution.draws import draws
from guiderail.generation.distribution.outcome import Distribution
from guiderail.generation.models import Model
from guiderail.generation.options import CUTS, DEFAULT_MAX_PASSES, DEFAULT_PARTICLES, GREEDY, STOPS, Options
from guiderail.generation.result import Generation
from guiderail.server.engine import TimedOut
from guiderail.server.errors import ApiError
from guiderail.server.lending import LentModel, Loan
from guiderail.server.metrics import Metrics
from guiderail.server.options import ServerOptions
from guiderail.server.rows import Delta, Failed, Finished, Job, finite, token_bytes

__all__ = ["Drawing", "drawing_of", "loan_for"]

_EXACT_ROWS = 4
_SHARE = 2  # one draw may reserve 1/_SHARE of the cache's tokens
_FINISH = 'only texts that end within max_tokens are drawn; leave it out or say "finish"'


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the texts of a request are drawn: see the options of :func:`guiderail.generate`."""

    distribution: Distribution
    max_passes: int
    particles: int

    @property
    def rows(self) -> int:
        """The number of texts read at once."""
        return _EXACT_ROWS if self.distribution == "exact" else self.particles


def drawing_of(
    request: Any, options: ServerOptions, *, calls: bool = False, reasons: bool = False, watched: bool
) -> Drawing | None:
    """Returns how a request wants its texts drawn; None: under masks.

    Args:
        request: a chat or completion request.
        calls: whether the text may contain tool calls.
        reasons: whether the text begins with reasoning.
        watched: whether it is recorded for ``/inspect``.

    Raises:
        ApiError: 400: another option has no meaning for such draws, or exceeds what the server allows.
    """
    asked = request.guiderail
    kind = asked.distribution
    for name, value, of, most in (
        ("max_passes", asked.max_passes, "exact", options.max_passes),
        ("particles", asked.particles, "weighted", options.max_particles),
    ):
        if value is not None and kind != of:
            raise _wrong(f"guiderail.{name}", f'it needs "distribution": "{of}"')
        if value is not None and value > most:
            raise _wrong(f"guiderail.{name}", f"it must be at most {most} on this server")
    if kind == "masked":
        return None
    if not options.max_draws:
        raise _wrong("guiderail.distribution", "this server draws under masks only; it was started with --max-draws 0")
    for param, given, reason in (
        ("temperature", request.temperature == 0, GREEDY),
        ("top_p", request.top_p not in (None, 1), CUTS),
        ("top_k", (request.top_k or 0) > 0, CUTS),
        ("stop", request.stops, STOPS),
        ("logit_bias", request.logit_bias, "the distribution is the model's own; leave it out"),
        ("logprobs", request.logprobs not in (None, False), "single tokens have none; use guiderail.log_weight"),
        ("tools", calls, "tools cannot be called; describe the call as a response_format"),
        ("reasoning_effort", reasons, "a text has no reasoning; leave the effort and max_reasoning_tokens out"),
        ("guiderail.on_incomplete", asked.on_incomplete == "return", _FINISH),
        ("X-Guiderail-Inspect", watched, "texts are not recorded; send the header with 0"),
    ):
        if given:
            raise _wrong(param, f'with "distribution": "{kind}", {reason}')
    return Drawing(
        kind,
        asked.max_passes or min(DEFAULT_MAX_PASSES, options.max_passes),
        asked.particles or min(DEFAULT_PARTICLES, options.max_particles),
    )


def _wrong(param: str, message: str) -> ApiError:
    return ApiError(400, f"{param}: {message}", code="invalid-request", param=param)


def loan_for(job: Job, drawing: Drawing, model: Model, options: ServerOptions, metrics: Metrics) -> Loan:
    """Returns a loan that draws the texts of a job when the engine lends the model; events are the same as those of a
    row.

    Raises:
        ModelError: ``bad-option``.
    """
    exact = drawing.distribution == "exact"
    chosen = Options(
        max_tokens=job.limit,
        temperature=job.sampling.temperature,
        seed=job.sampling.seed,
        presence_penalty=job.penalties.presence,
        frequency_penalty=job.penalties.frequency,
        repetition_penalty=job.penalties.repetition,
        distribution=drawing.distribution,
        n=job.count,
        on_incomplete="return",
        max_passes=drawing.max_passes if exact else DEFAULT_MAX_PASSES,
        particles=DEFAULT_PARTICLES if exact else drawing.particles,
    )
    length = len(job.prompt) + job.limit
    rows = min(drawing.rows, model.max_batch or drawing.rows, options.max_cached_tokens // (_SHARE * length))
    drawn = _Drawn(job, chosen, model, options, metrics)
    return Loan(max(1, rows), length, work=drawn.work, given_up=drawn.given_up, failed=drawn.fail)


class _Drawn:
    """The texts of a job while they are drawn."""

    def __init__(self, job: Job, chosen: Options, model: Model, options: ServerOptions, metrics: Metrics) -> None:
        self._job, self._chosen, self._model, self._options, self._metrics = job, chosen, model, options, metrics
        self._done = 0  # texts
        self._spent = 0.0  # seconds of work for the texts before this one
        self._failed = False

    def work(self, loan: Loan) -> None:
        job = self._job
        self._metrics.prompt_tokens.inc(len(job.prompt) * job.count)
        model = LentModel(self._model, loan, self._options.prefill_tokens)
        stop: Callable[[], bool] = lambda: self.given_up(loan)  # noqa: E731
        try:
            for one in draws(model, job.prompt, job.guide, TEXT, self._chosen, stop=stop):
                self._tell(one)
                self._done += 1
                self._spent = loan.working()
        except Exception as error:
            self.fail(error)

    def given_up(self, loan: Loan) -> bool:
        """Whether the texts are no longer wanted, or take too long; reports it."""
        if self._job.cancelled or self._failed:
            return True
        if time.monotonic() > self._job.deadline:
            self._metrics.cancelled.inc()
            self.fail(TimedOut(f"the text was not drawn within {self._options.request_seconds:g} seconds"))
        elif loan.working() - self._spent > self._options.mask_seconds:
            self.fail(
                LimitError(
                    f"the masks of this text took more than {self._options.mask_seconds:g} seconds; the constraint is "
                    "too hard, or max_passes or particles too many",
                    code="mask-timeout",
                )
            )
        return self._failed

    def fail(self, error: Exception) -> None:
        """Reports that the next text could not be drawn."""
        if not self._failed:
            self._failed = True
            self._job.push(Failed(self._job.first_index + self._done, error))

    def _tell(self, one: Generation) -> None:
        job, vocabulary, draw = self._job, self._job.guide.vocabulary, one.draw
        if draw is None:
            raise ModelError("a draw does not tell how it was made", code="decode")
        shown = one.tokens[:-1] if one.finish_reason == "stop" else one.tokens
        text = b"".join(token_bytes(vocabulary, token) for token in shown).decode("utf-8", "replace")
        mass = draw.mass
        more: dict[str, Any] = {
            "distribution": draw.distribution,
            "passes": draw.passes,
            "attempts": draw.attempts,
            "log_mass": finite(draw.log_mass),
            "mass": {"value": mass.value, "low": mass.low, "high": mass.high},
        }
        if draw.effective_size is not None:
            more |= {"particles": len(draw.particles), "effective_size": draw.effective_size}
        if job.log_weight:
            more["log_weight"] = finite(one.log_weight)
        index = job.first_index + self._done
        self._metrics.generated_tokens.inc(len(one.tokens))
        job.push(Delta(index, text, (), len(one.tokens)))
        job.push(Finished(index, "stop", True, len(one.tokens), 0, None, more))
