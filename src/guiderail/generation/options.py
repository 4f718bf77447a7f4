"""The options of ``generate`` and its siblings: each is named, checked and documented once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from guiderail.errors import ArgumentError, ModelError
from guiderail.generation.distribution.outcome import Distribution
from guiderail.generation.penalties import Penalties
from guiderail.generation.result import OnIncomplete, OnShortened
from guiderail.generation.sampling import Sampling
from guiderail.support.options import check_choice, check_flag, check_integer
from guiderail.support.other_names import TARGETS, instead
from guiderail.support.texts import has_surrogate, shown

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class GenerateOptions(TypedDict, total=False):
        """The same for type checkers."""

        max_tokens: int
        temperature: float
        top_p: float
        top_k: int | None
        seed: int | None
        presence_penalty: float
        frequency_penalty: float
        repetition_penalty: float
        stop: str | Sequence[str] | None
        logprobs: int | None
        log_weight: bool
        distribution: Distribution
        max_passes: int
        particles: int
        system: str | None
        chat: bool
        describe: bool
        jump_forward: bool
        canonical: bool
        heal: bool
        on_incomplete: OnIncomplete
        on_shortened: OnShortened | None

    class StreamOptions(GenerateOptions, total=False):
        """Those of a stream."""

        growing_strings: bool


__all__ = ["DEFAULT_MAX_TOKENS", "Options", "takes_options"]

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_MAX_TOKENS = 256
DEFAULT_MAX_PASSES = 4096
DEFAULT_PARTICLES = 16
MOST_TEXTS = 1 << 16

# why an option has no meaning for draws from the model's own distribution
GREEDY = (
    "at temperature 0 one text has all the probability; give a temperature, such as 1.0 for the model's own "
    "probabilities"
)
CUTS = "it cuts tokens off relative to the other allowed ones; leave it out"
STOPS = "a text ends where the constraint lets it; make the stop string part of the constraint"


@dataclass(frozen=True, slots=True)
class Options:
    """The options; see :func:`guiderail.generate`."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: str | Sequence[str] | None = None
    logprobs: int | None = None
    log_weight: bool = False
    distribution: Distribution = "masked"
    max_passes: int = DEFAULT_MAX_PASSES
    particles: int = DEFAULT_PARTICLES
    n: int | None = None
    system: str | None = None
    chat: bool = True
    describe: bool = False
    jump_forward: bool = True
    canonical: bool = False
    heal: bool = False
    on_incomplete: OnIncomplete = "finish"
    on_shortened: OnShortened | None = None

    def __post_init__(self) -> None:
        check_choice("on_incomplete", self.on_incomplete, get_args(OnIncomplete), error=ModelError, code="bad-option")
        check_choice(
            "on_shortened", self.on_shortened, get_args(OnShortened), optional=True, error=ModelError, code="bad-option"
        )
        if self.on_shortened is not None and self.on_incomplete != "finish":
            raise ModelError(
                f'on_shortened needs on_incomplete="finish": with {shown(self.on_incomplete)} guiderail shortens no '
                "text",
                code="bad-option",
            )
        check_integer("max_tokens", self.max_tokens, 1, error=ModelError, code="bad-option")
        for name in ("chat", "describe", "jump_forward", "canonical", "heal", "log_weight"):
            check_flag(name, getattr(self, name), error=ModelError, code="bad-option")
        if self.system is not None and (not isinstance(self.system, str) or has_surrogate(self.system)):
            raise ModelError(
                f"system must be a string without lone surrogates, or None, not {shown(self.system)}", code="bad-option"
            )
        if self.system is not None and not self.chat:
            raise ModelError("a system message needs the chat template: leave chat=True", code="bad-option")
        if self.heal and self.chat:
            raise ModelError(
                "heal=True continues the last word of a prompt, but a chat template ends between words; "
                "pass chat=False",
                code="bad-option",
            )
        check_integer("logprobs", self.logprobs, 0, optional=True, error=ModelError, code="bad-option")
        check_integer("n", self.n, 1, MOST_TEXTS, optional=True, error=ModelError, code="bad-option")
        check_integer("max_passes", self.max_passes, 1, error=ModelError, code="bad-option")
        check_integer("particles", self.particles, 1, MOST_TEXTS, error=ModelError, code="bad-option")
        _ = self.sampling, self.stops, self.penalties
        if (self.n or 1) > 1 and self.sampling.is_greedy:
            raise ModelError(
                f"n={self.n} texts would all be the same at temperature 0; give a temperature, such as 0.7",
                code="bad-option",
            )
        self._check_distribution()

    def _check_distribution(self) -> None:
        """Rejects options that have no meaning for draws from the model's own distribution."""
        check_choice("distribution", self.distribution, get_args(Distribution), error=ModelError, code="bad-option")
        for name, default, of in (
            ("max_passes", DEFAULT_MAX_PASSES, "exact"),
            ("particles", DEFAULT_PARTICLES, "weighted"),
        ):
            if getattr(self, name) != default and self.distribution != of:
                raise ModelError(f'{name} needs distribution="{of}"', code="bad-option")
        if self.distribution == "masked":
            return
        for name, given, reason in (
            ("temperature", self.temperature == 0, GREEDY),
            ("top_p", self.top_p < 1, CUTS),
            ("top_k", self.top_k is not None, CUTS),
            ("stop", bool(self.stops), STOPS),
            ("logprobs", self.logprobs is not None, "they belong to masked tokens; use log_weight"),
        ):
            if given:
                raise ModelError(f'{name} with distribution="{self.distribution}": {reason}', code="bad-option")

    @property
    def sampling(self) -> Sampling:
        """How tokens are sampled."""
        return Sampling(self.temperature, self.top_p, self.top_k, self.seed)

    @property
    def penalties(self) -> Penalties:
        """How much tokens lose that the text already contains."""
        return Penalties(self.presence_penalty, self.frequency_penalty, self.repetition_penalty)

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or ()
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one for one in given):
            raise ModelError(
                f"stop must be a non-empty string or a list of such strings, not {shown(self.stop)}", code="bad-option"
            )
        return tuple(given)


class _Missing:
    def __repr__(self) -> str:
        return "…"


MISSING: Any = _Missing()
"""The default of a target, which every call needs: a call without one is told how to write it."""


def options_of(
    function: str, given: dict[str, Any], target: Any = None, *, without: Sequence[str] = (), **defaults: Any
) -> Options:
    """Returns the options of a call.

    Args:
        function: the name of the function, for messages.
        given: the options by name.
        target: what to generate.
        without: options that the function does not have.
        **defaults: defaults that differ for this function.

    Raises:
        ArgumentError: an option is unknown.
        ModelError: ``bad-option``.
    """
    known = [one.name for one in fields(Options) if one.name not in without]
    if target is MISSING:
        meant = next((name for name in given if name in TARGETS), None)
        raise ArgumentError(
            f"{function} needs a target after the prompt: a JSON Schema, a Python type, a list of strings or a "
            f"constraint{f', not {meant}=…' if meant else ''}; {TARGETS[meant or 'type']}"
        )
    for name in given:
        if name not in known:
            raise ArgumentError(f"{function} has no option {name!r}; {TARGETS.get(name) or instead(name, known)}")
    return Options(**{**defaults, **given})


def takes_options(*, without: Sequence[str] = (), **defaults: Any) -> Callable[[F], F]:
    """For a function with ``**options``: shows the options in its signature, for ``help`` and editors.

    Args:
        without: options that it does not have.
        **defaults: that differ for this function.
    """

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        kept = [
            p.replace(default=inspect.Parameter.empty) if p.default is MISSING else p
            for p in own.parameters.values()
            if p.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        shown_ones = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(one.name, one.default),
                annotation=one.type,
            )
            for one in fields(Options)
            if one.name not in without and one.name not in own.parameters
        ]
        positional = [p for p in kept if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        named = [p for p in kept if p.kind is inspect.Parameter.KEYWORD_ONLY]
        function.__signature__ = own.replace(parameters=[*positional, *shown_ones, *named])  # type: ignore[attr-defined]
        return function

    return decorate
