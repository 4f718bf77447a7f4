"""What the rules of a grammar have captured in the text of a matcher."""

from __future__ import annotations

from collections.abc import Mapping

from guiderail.compat._errors import raised_as
from guiderail.constraints.constraint import Constraint
from guiderail.matching.matcher import Matcher

__all__ = ["captures_of", "has_captures"]


def has_captures(constraint: Constraint) -> bool:
    """Whether the constraint is a grammar, which knows what its rules capture."""
    return hasattr(constraint, "captures")


def captures_of(
    constraint: Constraint, matcher: Matcher, strings: Mapping[int, bytes] | None = None
) -> list[tuple[str, bytes]]:
    """Pairs of name and text, grouped by name; those of one name in the order in which they end.

    Args:
        constraint: the constraint of the matcher.
        matcher: the matcher.
        strings: texts that were accepted as strings, by the number of the step.

    Raises:
        CompatError: ``captures``: the text can be parsed in too many ways.
    """
    read = getattr(constraint, "captures", None)
    if read is None:
        return []
    core, known = matcher.guide.vocabulary.core, strings or {}
    stops = set(matcher.stop_token_ids()) if matcher.is_terminated() else set()
    history = matcher.history()
    parts = []
    for step, token in enumerate(history):
        if token < 0:
            parts.append(known.get(step, b""))
        elif not (step == len(history) - 1 and token in stops):
            parts.append(core.token_bytes(token))
    with raised_as():
        found: dict[str, list[str]] = read(b"".join(parts).decode("utf-8", "ignore"))
    return [(name, text.encode()) for name, texts in found.items() for text in texts]
