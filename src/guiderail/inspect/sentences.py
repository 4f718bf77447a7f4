"""Describes a step in words: why the model wrote what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.support.texts import clipped

if TYPE_CHECKING:
    from guiderail.inspect.record import Step

__all__ = ["differs", "why"]


_DIFFERS = 0.005  # minimum probability worth a sentence


def differs(step: Step) -> bool:
    """Whether masks give the token another probability than the model's own distribution under the constraint."""
    return step.exact is not None and step.after is not None and abs(step.exact - step.after) >= _DIFFERS


def why(step: Step) -> str:
    """Some sentences about a step."""
    text = _why(step)
    if not differs(step) or step.exact is None:
        return text
    return f"{text} Of the texts that the constraint allows, {_percent(step.exact)} would continue so."


def _why(step: Step) -> str:
    name = _quoted(step)
    few = f"{step.allowed:,} of {step.size:,} tokens"
    can = f"{few} {'was' if step.allowed == 1 else 'were'} allowed"
    if step.how == "refused":
        return f"{name} is not allowed here: {_choice(step)}."
    if step.how == "forced":
        if step.allowed == 1:
            return f"Only {name} was possible, so the model was not asked."
        return f"Only {_text(step.forced_text)} was possible, so {name} was written without asking the model."
    if step.before is None or step.removed is None or step.after is None:
        if step.is_stop:
            return f"The text may end here, and ends; {can}."
        return f"{name} is allowed; {can}: {_choice(step)}."
    lead = f"The text ends: the model gives {name}" if step.is_stop else f"The model alone gives {name}"
    own = f"{lead} {_percent(step.before)}"
    if step.removed == 0 or step.allowed == step.size:
        return f"{own}. Nothing was forbidden."
    taken = f"{own}, and {_percent(step.after)} among the {few} that are allowed."
    if step.blocked:
        first = step.blocked[0]
        others = f" and {step.preferred - 1:,} more" if step.preferred > 1 else ""
        return f"The model preferred {_text(first.text)} ({_percent(first.before)}){others}. {taken}"
    better = [c for c in step.candidates if c.before > step.before]
    if better:
        also = f" It found {_text(better[0].text)} ({_percent(better[0].before)}) likelier, which was also allowed."
        return taken + also
    return f"{taken} It was the model's own first choice."


def _choice(step: Step) -> str:
    ways = list(step.expected)
    if step.may_end:
        ways.append("the end of the text")
    if not ways:
        return "nothing may follow"
    return " or ".join(ways) + " may follow"


def _quoted(step: Step) -> str:
    return _text(step.text) if step.readable or step.is_stop else f"the token {step.text}"


def _text(text: str) -> str:
    """A token between quotation marks, with the whitespace at its ends made visible."""
    text = clipped(text, 60)
    left, right = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    shown = "␣" * left + text.strip(" ") + "␣" * (right if left < len(text) else 0)
    return "“" + shown.replace("\n", "↵").replace("\t", "⇥").replace("\r", "␍") + "”"


def _percent(value: float) -> str:
    if value == 0:
        return "0%"
    if value < 0.0001:
        return "less than 0.01%"
    return f"{value:.2%}" if value < 0.0995 else f"{value:.1%}"
