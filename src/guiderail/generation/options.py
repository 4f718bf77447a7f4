"""The options of ``generate`` and its siblings: each is named, checked and documented once."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from guiderail.errors import ArgumentError, ModelError
from guiderail.generation.result import OnIncomplete, OnShortened
from guiderail.generation.sampling import Sampling
from guiderail.support.texts import shown

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class GenerateOptions(TypedDict, total=False):
        """The same for type checkers."""

        max_tokens: int
        temperature: float
        top_p: float
        top_k: int | None
        seed: int | None
        system: str | None
        chat: bool
        describe: bool
        jump_forward: bool
        on_incomplete: OnIncomplete
        on_shortened: OnShortened | None

    class StreamOptions(GenerateOptions, total=False):
        """Those of a stream."""

        growing_strings: bool


__all__ = ["DEFAULT_MAX_TOKENS", "Options", "takes_options"]

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Options:
    """See :func:`guiderail.generate`."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    seed: int | None = None
    system: str | None = None
    chat: bool = True
    describe: bool = False
    jump_forward: bool = True
    on_incomplete: OnIncomplete = "finish"
    on_shortened: OnShortened | None = None

    def __post_init__(self) -> None:
        _one_of("on_incomplete", self.on_incomplete, OnIncomplete)
        if self.on_shortened is not None:
            _one_of("on_shortened", self.on_shortened, OnShortened)
            if self.on_incomplete != "finish":
                raise ModelError(
                    f'on_shortened goes with on_incomplete="finish": with {shown(self.on_incomplete)} no text is '
                    "steered to its end",
                    code="bad-option",
                )
        if not isinstance(self.max_tokens, int) or isinstance(self.max_tokens, bool) or self.max_tokens < 1:
            raise ModelError(
                f"max_tokens must be a whole number from 1, not {shown(self.max_tokens)}", code="bad-option"
            )
        if self.system is not None and not self.chat:
            raise ModelError("a system message needs the chat template: leave chat=True", code="bad-option")
        _ = self.sampling

    @property
    def sampling(self) -> Sampling:
        """How tokens are drawn."""
        return Sampling(self.temperature, self.top_p, self.top_k, self.seed)


def _one_of(name: str, value: object, kind: Any) -> None:
    allowed = get_args(kind)
    if value not in allowed:
        *some, last = (f'"{one}"' for one in allowed)
        raise ModelError(f"{name} is {', '.join(some)} or {last}, not {shown(value)}", code="bad-option")


def options_of(function: str, given: dict[str, Any], **defaults: Any) -> Options:
    """The options that a call gives.

    Args:
        function: for messages.
        given: by name.
        **defaults: that differ for this function.

    Raises:
        ArgumentError: there is no option of a name.
        ModelError: ``bad-option``.
    """
    known = [one.name for one in fields(Options)]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"its options are {', '.join(known)}"
            raise ArgumentError(f"{function} has no option {name!r}; {hint}")
    return Options(**{**defaults, **given})


def takes_options(**defaults: Any) -> Callable[[F], F]:
    """For a function with ``**options``: shows the options in its signature, for ``help`` and editors.

    Args:
        **defaults: that differ for this function.
    """

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        shown_ones = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(one.name, one.default),
                annotation=one.type,
            )
            for one in fields(Options)
        ]
        positional = [p for p in kept if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        named = [p for p in kept if p.kind is inspect.Parameter.KEYWORD_ONLY]
        function.__signature__ = own.replace(parameters=[*positional, *shown_ones, *named])  # type: ignore[attr-defined]
        return function

    return decorate
