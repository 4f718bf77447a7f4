"""Content that a constraint of the user's describes, told from calls by how the text begins.

Such a content is all of the text, or none of it, and it may contain any marker: ``"<tool_call>"`` is a JSON string. So
a text is content unless it begins as a call of one of the tools does, and a marker ends it only at the end of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.tools.markers import anything

if TYPE_CHECKING:
    from guiderail.frontends.tools.tool_calls import ToolCalls

__all__ = ["GivenContent", "lower_content"]


def _heads(calls: ToolCalls) -> tuple[str, ...]:
    """How texts with calls begin, as far as that does not depend on ids and arguments."""
    if calls.choice == "none":
        return ()
    heads = []
    for start, index in calls.format.starts():
        for tool in calls.callable_tools():
            head, slot = start, calls.format.calls[index].parts[0][1]
            for text, after in calls.format.calls[index].parts[1:]:
                if slot != "name" and slot:
                    break
                head, slot = head + (tool.name if slot else "") + text, after
            heads.append(head + (tool.name if slot == "name" else ""))
    return tuple(dict.fromkeys(heads))


def lower_content(b: _core.Builder, content: Constraint, calls: ToolCalls) -> int:
    """The texts of a content that do not begin as reasoning or a call does.

    Nothing is left out of a content that is not regular, such as JSON of any depth; a text that begins as a call of one
    of the tools is then read as a call.
    """
    form = calls.format
    made = content._lower(b)
    if form.content is not None and form.content.begin:
        return made
    begins = [*_heads(calls)]
    if form.reasoning is not None and calls.reasoning in ("none", "optional"):
        begins.append(form.reasoning.begin)
    program = content.program()
    begins = [text for text in begins if program.read(program.start, text)]
    if not begins:
        return made
    try:
        return b.intersection([made, b.complement(b.concat([b.choice([t.encode() for t in begins]), anything(b)]))])
    except CompileError as error:
        if error.code != "not-regular":
            raise
        return made


class GivenContent:
    """Finds the content in a text that is still growing.

    Args:
        calls: the constraint of the text, with a content.
    """

    def __init__(self, calls: ToolCalls) -> None:
        form = calls.format
        self.heads = _heads(calls)
        end = "" if form.content is None else form.content.end
        self.must_end = bool(end)
        self._ends = sorted({end, *(end + text for text in form.turn_end)} - {""}, key=len, reverse=True)

    def cut(self, text: str, closed: bool) -> tuple[int, bool]:
        """How much of the text is content for sure, or is all of it if it is closed; and whether it may end there."""
        complete = next((one for one in self._ends if text.endswith(one)), "")
        may_end = bool(complete) or not self.must_end
        if closed:
            return len(text) - len(complete), may_end
        longest = max(map(len, self._ends), default=0)
        for at in range(max(0, len(text) - longest), len(text)):
            if any(one.startswith(text[at:]) for one in self._ends):
                return at, may_end
        return len(text), may_end
