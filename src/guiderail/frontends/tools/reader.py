r"""Reads strings with tool calls while they are written.

`ToolCallReader` follows the format's own data. It holds back whatever may still become a marker and reports everything
else at once, so that a server can stream it:

    >>> import guiderail as gr
    >>> tool = {"name": "time", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}
    >>> reader = gr.tool_calls([tool], format="hermes").reader()
    >>> for delta in reader.feed('Now: <tool_call>\n{"name": "time", "arguments": {"zone": "U'):
    ...     print(delta.kind, repr(delta.text))
    content 'Now: '
    call ''
    arguments '{"zone": "U'
    >>> reader.snapshot().calls[0].arguments
    {'zone': 'U'}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from guiderail.errors import PatternError
from guiderail.frontends.tools.errors import ToolTextError
from guiderail.frontends.tools.given_content import GivenContent
from guiderail.frontends.tools.nested import NestedArguments
from guiderail.frontends.tools.parameters import Parameters
from guiderail.support.arguments import checked
from guiderail.support.numerals import json_text, read_float, read_integer
from guiderail.support.partial_json import PartialJson

if TYPE_CHECKING:
    from guiderail.frontends.tools.tool import Tool
    from guiderail.frontends.tools.tool_calls import ToolCalls

__all__ = ["ToolCall", "ToolCallReader", "ToolDelta", "ToolText"]


@dataclass(slots=True)
class ToolCall:
    """A tool call that has been read.

    Attributes:
        name: the name of the tool.
        arguments: the arguments as JSON values. If the call is incomplete, what has been read of them.
        text: the arguments as JSON text, as far as they have been read.
        id: the id that the model gave the call, or None.
        complete: whether the whole call has been read.
        value: an ``inspect.BoundArguments`` with defaults applied for a Python function, an instance for a class;
            otherwise, and until the call is complete, ``arguments``.
    """

    name: str
    arguments: dict[str, Any]
    text: str
    id: str | None = None
    complete: bool = False
    value: Any = None


@dataclass(slots=True)
class ToolText:
    """The parts of a text with tool calls.

    Attributes:
        reasoning: the text between the reasoning markers, or None if there is none.
        content: the text outside reasoning and calls, or None if there is none.
        calls: the calls, in order.
        complete: whether the text may end here.
    """

    reasoning: str | None
    content: str | None
    calls: list[ToolCall]
    complete: bool


@dataclass(frozen=True, slots=True)
class ToolDelta:
    """A new piece of a text that is being read.

    Attributes:
        kind: ``"reasoning"``, ``"content"``, ``"call"`` (a call begins), ``"arguments"`` or ``"end"`` (of a call).
        text: the new text. Arguments are always JSON text, whatever the format writes.
        index: the index of the call, or -1.
        name: the name of the tool, in ``"call"``.
        id: the id of the call, if known so far; final in ``"end"``.
    """

    kind: str
    text: str = ""
    index: int = -1
    name: str = ""
    id: str | None = None


class _Json:
    """Finds the end of a JSON object."""

    _STOP = re.compile(r'["{}\[\]\\]')

    def __init__(self) -> None:
        self.depth = 0
        self.string = False
        self.skip = False

    def feed(self, text: str, start: int) -> int | None:
        """The position after the object; None if the object continues."""
        at = start
        if self.skip and at < len(text):
            self.skip, at = False, at + 1
        while match := self._STOP.search(text, at):
            c, at = match[0], match.end()
            if self.string:
                if c == "\\":
                    if at == len(text):
                        self.skip = True
                        return None
                    at += 1
                elif c == '"':
                    self.string = False
            elif c == '"':
                self.string = True
            elif c in "{[":
                self.depth += 1
            elif c in "}]":
                self.depth -= 1
                if self.depth == 0:
                    return at
        return None


@dataclass(slots=True)
class _Open:
    """A call being read."""

    tool: Tool
    tails: list[re.Pattern[str]]
    call: ToolCall
    json: PartialJson = field(default_factory=lambda: PartialJson(parse_int=read_integer, parse_float=read_float))
    nested: NestedArguments | None = None
    scan: _Json = field(default_factory=_Json)
    members: dict[str, Any] = field(default_factory=dict)
    key: str = ""  # of the argument being read
    kind: str | None = None
    grows: bool = False  # it is a string, and shown while it grows
    pieces: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # of the text of the arguments


class ToolCallReader:
    """Reads one text in pieces of any size. Takes time linear in the text, except for text that almost begins a
    marker.

    Args:
        calls: the constraint of the text.
    """

    def __init__(self, calls: ToolCalls) -> None:
        form = self._form = calls.format
        self._tools = {tool.name: tool for tool in calls.tools}
        names = tuple(self._tools)
        self._heads = [template.pattern(names, form.identifier) for template in form.calls]
        self._text = ""
        self._at = 0
        self._found: list[ToolDelta] = []
        self._reasoning: list[str] | None = None
        self._content: list[str] = []
        self._calls: list[ToolCall] = []
        self._open: _Open | None = None
        self._closed = False
        self._ends = form.turn_end  # markers that may follow
        self._must_think = calls.reasoning == "required"
        self._given = None if calls.content is None else GivenContent(calls)
        self._step: Callable[[], bool] = self._start
        if calls.reasoning == "open" and form.reasoning is not None:
            self._reasoning, self._step = [], self._thought

    def __repr__(self) -> str:
        return f"<ToolCallReader of the format {self._form.name!r}, {len(self._calls)} calls>"

    # -- for users -----------------------------------------------------------------------------------------------
    @checked
    def feed(self, chunk: str) -> list[ToolDelta]:
        """Reads more of the text and returns what is new.

        Raises:
            ToolTextError: the text is not in the format.
            ReadError: the code of a Python tool rejects its arguments.
        """
        self._text = self._text[self._at :] + chunk
        self._at = 0
        return self._run()

    def close(self) -> list[ToolDelta]:
        """Ends the text and returns what was held back.

        Raises:
            ToolTextError: the text ends too early.
        """
        self._closed = True
        found = self._run()
        if not self._may_end():
            raise self._wrong("the text ends before the call is complete")
        return found

    def snapshot(self) -> ToolText:
        """Returns what has been read so far, including unfinished arguments."""
        if self._open is not None:
            state = self._open
            call = state.call
            call.text = "".join(state.written)
            if state.grows and self._step == self._value:
                state.members[state.key] = "".join(state.pieces)
            value = state.members if isinstance(state.tool.arguments, Parameters) else state.json.snapshot()
            call.arguments = dict(value) if isinstance(value, dict) else {}
            call.value = call.arguments
        reasoning = None if self._reasoning is None else "".join(self._reasoning)
        return ToolText(reasoning, "".join(self._content) or None, list(self._calls), self._may_end())

    # -- the machine: each step reads what it can, and returns whether it made progress ---------------------------
    def _run(self) -> list[ToolDelta]:
        while self._step():
            pass
        found, self._found = self._found, []
        return found

    def _may_end(self) -> bool:
        """Whether the text may end here. Markers that could still begin then count as content."""
        if self._step == self._between:
            return not self._form.end and self._at == len(self._text)
        if self._given is not None and self._step in (self._start, self._body, self._whole):
            return self._given.cut(self._rest(), self._closed)[1]
        if self._step == self._framed:
            return not (self._form.content and self._form.content.end)
        return self._step in (self._over, self._free, self._start, self._body) and (
            self._form.content is None or self._step == self._over
        )

    def _wrong(self, message: str) -> ToolTextError:
        shown = self._text[self._at :]
        return ToolTextError(
            f"{message}: no text of the format {self._form.name!r} continues like this",
            source=shown[:200],
            span=(0, min(1, len(shown))),
        )

    def _rest(self) -> str:
        return self._text[self._at :]

    def _marker(self, *texts: str) -> str | None:
        """The longest of these that comes next; None if none does, or if it takes more text to tell."""
        longest = sorted((text for text in texts), key=len, reverse=True)
        for text in longest:
            if self._text.startswith(text, self._at):
                return text
            if self._waits(text):
                return None
        return None

    def _waits(self, *texts: str) -> bool:
        """Whether, with more text, one of these may still come next."""
        left = len(self._text) - self._at
        return not self._closed and any(left < len(text) and text.startswith(self._text[self._at :]) for text in texts)

    def _up_to(self, texts: tuple[str, ...]) -> tuple[int, bool]:
        """The first position where one of these begins or could still begin, and whether it does."""
        found = [at for at in (self._text.find(text, self._at) for text in texts if text) if at >= 0]
        if found:
            return min(found), True
        end = len(self._text)
        if self._closed:
            return end, False
        longest = max((len(text) for text in texts), default=0)
        for at in range(max(self._at, end - longest + 1), end):
            if any(text.startswith(self._text[at:]) for text in texts):
                return at, False
        return end, False

    def _say(self, kind: str, parts: list[str], end: int) -> None:
        """Reports the text up to ``end``."""
        text = self._text[self._at : end]
        self._at = end
        if text:
            parts.append(text)
            self._found.append(ToolDelta(kind, text))

    def _start(self) -> bool:
        frame = self._form.reasoning
        if frame is not None:
            if self._text.startswith(frame.begin, self._at):
                self._at += len(frame.begin)
                self._reasoning, self._step = [], self._thought
                return True
            if self._waits(frame.begin):
                return False
            if self._must_think:
                raise self._wrong(f"expected {frame.begin!r}, which begins the reasoning")
        self._step = self._body
        return True

    def _thought(self) -> bool:
        frame = self._form.reasoning
        assert frame is not None and self._reasoning is not None
        end, found = self._up_to((frame.end,))
        self._say("reasoning", self._reasoning, end)
        if not found:
            return False
        self._at += len(frame.end)
        self._step = self._after_thought
        return True

    def _after_thought(self) -> bool:
        frame = self._form.reasoning
        assert frame is not None
        after = self._marker(*frame.after)
        if after is None:
            if any(self._waits(text) for text in frame.after):
                return False
            raise self._wrong(f"expected {frame.after[0]!r} after the reasoning")
        self._at += len(after)
        self._step = self._body
        return True

    def _body(self) -> bool:
        frame = self._form.content
        if frame is None and self._given is not None:
            if self._waits(*self._given.heads):
                return False
            self._step = self._begin if self._text.startswith(self._given.heads, self._at) else self._whole
            return True
        if frame is None:
            self._step = self._free
            return True
        if self._text.startswith(frame.begin, self._at):
            self._at += len(frame.begin)
            self._step = self._framed if self._given is None else self._whole
            return True
        return False if self._waits(frame.begin) else self._begin()

    def _whole(self) -> bool:
        """Reads content that a constraint describes: all that is left, up to a marker at the end."""
        assert self._given is not None
        size, may_end = self._given.cut(self._rest(), self._closed)
        self._say("content", self._content, self._at + size)
        if self._closed and may_end:
            self._at = len(self._text)
            self._step = self._over
        return False

    def _framed(self) -> bool:
        frame = self._form.content
        assert frame is not None
        ends = (frame.end,) if frame.end else self._form.turn_end
        end, found = self._up_to(ends)
        self._say("content", self._content, end)
        if found:
            self._at += len(frame.end)
            self._step = self._over
        return found

    def _free(self) -> bool:
        form = self._form
        end, found = self._up_to((*form.triggers, *form.turn_end))
        self._say("content", self._content, end)
        if found:
            self._step = self._begin if any(self._text.startswith(t, end) for t in form.triggers) else self._over
        return found

    def _begin(self) -> bool:
        """Reads what precedes the first call."""
        for begin in sorted(self._form.begin, key=len, reverse=True):
            if begin and self._waits(begin):
                return False
            if self._text.startswith(begin, self._at):
                self._at += len(begin)
                self._step = self._call
                return True
        raise self._wrong(f"expected {self._form.begin[0]!r}, which begins the calls")

    def _call(self) -> bool:
        """Reads the head of a call, up to its arguments."""
        matches = [(head.match(self._text, self._at), tail) for head, tail in self._heads]
        found = [(match, tail) for match, tail in matches if match is not None]
        if not found:
            if self._closed or len(self._rest()) > 4096:
                raise self._wrong("expected a call of one of the tools")
            return False
        match = found[0][0]
        if match.end() == len(self._text) and not self._closed:
            return False  # the name may still grow
        found = [(m, tail) for m, tail in found if m.end() == match.end()]
        groups = match.groupdict()
        name, identifier = groups["name"], groups.get("id")
        call = ToolCall(name, {}, "", identifier)
        self._open = _Open(self._tools[name], [tail for _, tail in found], call)
        self._calls.append(call)
        self._found.append(ToolDelta("call", index=len(self._calls) - 1, name=name, id=identifier))
        self._at = match.end()
        style = self._form.parameters
        self._step = self._json if style is None else self._parameter
        if style is not None and style.nested:
            self._open.nested = NestedArguments(style, self._open.members)
            self._step = self._nested
        return True

    def _tell(self, text: str) -> None:
        assert self._open is not None
        if text:
            self._open.written.append(text)
            if self._found and self._found[-1].kind == "arguments":
                text = self._found.pop().text + text
            self._found.append(ToolDelta("arguments", text, len(self._calls) - 1))

    def _json(self) -> bool:
        state = self._open
        assert state is not None
        if self._at == len(self._text):
            return False
        if not state.written and not self._text.startswith("{", self._at):
            raise self._wrong("the arguments of a call must be a JSON object")
        end = state.scan.feed(self._text, self._at)
        text = self._text[self._at : len(self._text) if end is None else end]
        try:
            state.json.feed(text)
        except PatternError as error:
            reason = error.message.partition(";")[0]
            raise self._wrong(f"the arguments of a call must be JSON, but {reason}") from error
        self._at += len(text)
        self._tell(text)
        if end is None:
            return False
        state.call.arguments = state.json.close()
        self._step = self._tail
        return True

    def _nested(self) -> bool:
        """Reads arguments whose arrays and objects are not JSON."""
        state = self._open
        assert state is not None and state.nested is not None
        try:
            self._at = state.nested.feed(self._text, self._at)
        except ValueError as error:
            raise self._wrong(str(error)) from None
        for key, value in state.nested.found:
            name, text = json.dumps(key, ensure_ascii=False), json_text(value)
            self._tell(f"{', ' if state.written else '{'}{name}: {text}")
        state.nested.found.clear()
        if not state.nested.done:
            if self._closed:
                raise self._wrong("the arguments of a call are not complete")
            return False
        self._tell("}" if state.members else "{}")
        state.call.arguments = dict(state.members)
        self._step = self._tail
        return True

    def _parameter(self) -> bool:
        """Reads one argument between its tags, or the end of the arguments."""
        state, style = self._open, self._form.parameters
        assert state is not None and style is not None
        arguments = state.tool.arguments
        assert isinstance(arguments, Parameters)
        if style.between and state.members:
            if self._waits(style.between + style.head):
                return False
            if self._text.startswith(style.between + style.head, self._at):
                self._at += len(style.between)
        if self._waits(style.head, *([] if state.members else [style.empty])):
            return False
        if not self._text.startswith(style.head, self._at):
            if style.empty and not state.members and self._text.startswith(style.empty, self._at):
                self._at += len(style.empty)
            text = "{}" if not state.members else "}"
            self._tell(text)
            state.call.arguments = dict(state.members)
            self._step = self._tail
            return True
        opening = style.pattern().match(self._text, self._at)
        if opening is None:
            if self._closed or len(self._rest()) > 4096:
                raise self._wrong("expected the tag of an argument")
            return False
        self._at = opening.end()
        state.key, state.kind = style.read_key(opening["key"]), opening.groupdict().get("kind")
        state.grows = arguments.is_text(state.key, state.kind)
        state.pieces = []
        name = json.dumps(state.key, ensure_ascii=False)
        if state.grows:
            self._tell(f'{", " if state.members else "{"}{name}: "')
            state.members[state.key] = ""
        self._step = self._value
        return True

    def _value(self) -> bool:
        """Reads the text between the tags of an argument."""
        state, style = self._open, self._form.parameters
        assert state is not None and style is not None
        arguments = state.tool.arguments
        assert isinstance(arguments, Parameters)
        end, found = self._up_to((style.close,))
        piece = self._text[self._at : end]
        self._at = end
        if piece:
            state.pieces.append(piece)
        if state.grows:
            self._tell(json.dumps(piece, ensure_ascii=False)[1:-1])
        if not found:
            if self._closed:
                raise self._wrong(f"expected {style.close!r} at the end of an argument")
            return False
        self._at += len(style.close)
        text = "".join(state.pieces)
        if state.grows:
            self._tell('"')
            state.members[state.key] = text
        else:
            value = arguments.value(state.key, text, state.kind)
            member = f"{json.dumps(state.key, ensure_ascii=False)}: {json_text(value)}"
            self._tell((", " if state.members else "{") + member)
            state.members[state.key] = value
        self._step = self._parameter
        return True

    def _tail(self) -> bool:
        """Reads the rest of a call, after its arguments."""
        state = self._open
        assert state is not None
        for tail in state.tails:
            match = tail.match(self._text, self._at)
            if match is None:
                continue
            if not self._closed and match.groupdict().get("id") and match.end("id") == len(self._text):
                return False  # the id may still grow
            self._at = match.end()
            call = state.call
            call.text = "".join(state.written)
            call.id = match.groupdict().get("id") or call.id
            call.value = call.arguments if state.tool.python is None else state.tool.python.read(call.text)
            call.complete = True
            self._found.append(ToolDelta("end", index=len(self._calls) - 1, id=call.id))
            self._open = None
            self._step = self._between
            return True
        if self._closed or len(self._rest()) > 4096:
            raise self._wrong("expected the rest of the call after its arguments")
        return False

    def _between(self) -> bool:
        """Reads what follows a call: another one, or the end of the calls."""
        form = self._form
        if self._waits(*(text for text in (form.end, form.separator, *form.calls_end) if text)):
            return False
        if form.end and self._text.startswith(form.end, self._at):
            self._at += len(form.end)
            self._step, self._ends = self._over, form.calls_end
            return True
        if any(self._text.startswith(text, self._at) for text in form.calls_end):
            self._step, self._ends = self._over, form.calls_end
            return True
        if self._at == len(self._text):
            return False
        if self._text.startswith(form.separator, self._at):
            self._at += len(form.separator)
            self._step = self._call
            return True
        raise self._wrong("expected another call, or the end of the calls")

    def _over(self) -> bool:
        """After the end: reads only markers that end the turn."""
        if self._at == len(self._text) or self._waits(*self._ends):
            return False
        for text in self._ends:
            if self._text.startswith(text, self._at):
                self._at += len(text)
                return True
        raise self._wrong("nothing follows here")
