"""Tool calls: what a model may write if it may, must or must not call tools, in the format of its family."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.reading import Reading
from guiderail.constraints.special_tokens import SpecialTokens, special_tokens_of
from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.json_schema import SchemaOptions
from guiderail.frontends.regex import regex
from guiderail.frontends.tools.choice import read_choice
from guiderail.frontends.tools.errors import ToolError, ToolWarning, named, of_tool
from guiderail.frontends.tools.format import Format, read_format
from guiderail.frontends.tools.given_content import lower_content
from guiderail.frontends.tools.markers import Dispatch, FreeText, Marker, TurnEnd, beginnings
from guiderail.frontends.tools.reading import CallsReading
from guiderail.frontends.tools.tool import Tool, check, flat, name_of, read_tool
from guiderail.support.arguments import checked
from guiderail.support.callers import outside
from guiderail.support.options import check_choice, check_flag, check_integer
from guiderail.support.suggestions import suggestion
from guiderail.support.work import allowed, spent

if TYPE_CHECKING:
    from guiderail.frontends.tools.reader import ToolCallReader, ToolText
    from guiderail.vocabulary import Vocabulary

__all__ = ["ToolCalls", "tool_calls"]

_REASONING = {False: "none", None: "none", True: "required"}
_MODES = ("none", "optional", "required", "open")


@dataclass(frozen=True, slots=True)
class _Made(Constraint):
    """An expression that is already lowered; lives only while `ToolCalls` is lowered."""

    handle: int

    def _lower(self, b: _core.Builder) -> int:
        return self.handle


@dataclass(frozen=True, slots=True)
class ToolCalls(Constraint):
    """Matches texts with tool calls. Made by :func:`tool_calls`.

    Attributes:
        format: the format of the model family.
        tools: the tools that can be called.
        choice: ``"auto"``, ``"required"``, ``"none"``, or the name of the tool that must be called.
        parallel: whether a text may hold several calls.
        reasoning: ``"none"``, ``"optional"``, ``"required"`` or ``"open"``.
        content: the constraint on text that is not a call; None: any text.
        dropped: the tools that were left out (``on_bad_tool="drop"``): a dict from names to errors.
        max_reasoning_tokens: maximum number of tokens between the reasoning markers; None: no maximum.
    """

    format: Format
    tools: tuple[Tool, ...]
    choice: str
    parallel: bool
    reasoning: str
    content: Constraint | None = None
    specials: SpecialTokens | None = None
    dropped: Mapping[str, GuiderailError] = field(default_factory=dict, compare=False, hash=False)
    max_reasoning_tokens: int | None = None

    def callable_tools(self) -> tuple[Tool, ...]:
        """Returns the tools that ``choice`` allows."""
        if self.choice in ("auto", "required"):
            return self.tools
        return tuple(tool for tool in self.tools if tool.name == self.choice)

    def reader(self) -> ToolCallReader:
        """Returns a reader of a growing text, for streaming: it finds reasoning, content and calls."""
        from guiderail.frontends.tools.reader import ToolCallReader

        return ToolCallReader(self)

    def as_written(self) -> ToolCalls:
        """Returns the constraint with its content as a model writes it; see :meth:`Constraint.as_written`.

        Arguments keep every layout, because each model family has learned its own.
        """
        content = None if self.content is None else self.content.as_written()
        return self if content is self.content else replace(self, content=content)

    def reading(self) -> Reading:
        """Returns the reader that finds reasoning, content and calls, as :meth:`parse` does."""
        return CallsReading(self)

    @checked
    def parse(self, text: str) -> ToolText:
        """Parses a complete text into reasoning, content and calls.

        Raises:
            ToolTextError: the text is not in the format, or ends too early.
            ReadError: the code of a Python tool rejects its arguments.
        """
        reader = self.reader()
        reader.feed(text)
        reader.close()
        return reader.snapshot()

    # -- lowering ------------------------------------------------------------------------------------------------
    def _lower(self, b: _core.Builder) -> int:
        if self.specials is None:
            return self._lower_markers(b)
        with special_tokens_of(self.specials):
            return self._lower_markers(b)

    def _lower_markers(self, b: _core.Builder) -> int:
        form = self.format
        body = self._body(b)
        if self._end_alike():
            body = b.concat([body, self._ending(b, form.turn_end)])
        elif form.turn_end and self.choice in ("auto", "none"):
            content = self._content(b, self._forbidden(), form.turn_end)
            body = b.union([body, b.concat([content, self._ending(b, form.turn_end)])])
        frame = form.reasoning
        if frame is None or self.reasoning == "none":
            return body
        thought = FreeText((frame.end,), max_tokens=self.max_reasoning_tokens, ends=(frame.end,))._lower(b)
        after = b.union([Marker(text)._lower(b) for text in frame.after])
        rest = b.concat([thought, Marker(frame.end)._lower(b), after, body])
        if self.reasoning == "open":
            return rest
        whole = b.concat([Marker(frame.begin)._lower(b), rest])
        return b.union([body, whole]) if self.reasoning == "optional" else whole

    @staticmethod
    def _ending(b: _core.Builder, markers: tuple[str, ...]) -> int:
        """One of the markers that may end a turn, or none."""
        return b.union([b.EPSILON, *(TurnEnd(text)._lower(b) for text in markers)])

    def _end_alike(self) -> bool:
        """Whether the same markers may follow content and calls, and do not overlap what precedes them."""
        return self.format.turn_end == self.format.calls_end and not beginnings(self.format.turn_end)

    def _forbidden(self) -> tuple[str, ...]:
        """Markers that content must not contain, besides triggers: a reader would mistake them for something else."""
        form = self.format
        frames = [text for f in (form.reasoning, form.content) if f is not None for text in (f.begin, f.end)]
        return tuple(dict.fromkeys(text for text in (*form.excludes, *frames, *form.turn_end) if text))

    def _body(self, b: _core.Builder) -> int:
        form = self.format
        tools = self.callable_tools()
        must = self.choice not in ("auto", "none")
        forbidden = self._forbidden()
        if self.choice == "none" or not tools:
            return self._content(b, forbidden)
        written = {tool.name: self._arguments(b, tool) for tool in tools}
        calls = [self._call(b, written, i) for i in range(len(form.calls))]
        rules = tuple((start, _Made(self._calls(b, calls, index))) for start, index in form.starts())
        if must or form.content is not None or self.content is not None:
            only = Dispatch(rules, form.triggers, loop=False, required=True)._lower(b)
            return only if must else b.union([self._content(b, forbidden), only])
        return Dispatch(rules, form.triggers, forbidden, loop=False)._lower(b)

    @staticmethod
    def _arguments(b: _core.Builder, tool: Tool) -> int:
        try:
            return tool.arguments._lower(b)
        except LimitError as error:
            raise of_tool(error, tool.name) from None

    def _content(self, b: _core.Builder, forbidden: tuple[str, ...], ends: tuple[str, ...] = ()) -> int:
        form = self.format
        if form.content is not None and form.content.end:
            ends = (form.content.end,)
        if self.content is not None:
            text = lower_content(b, self.content, self)
        else:
            text = FreeText((*form.triggers, *forbidden), ends=ends)._lower(b)
        if form.content is None:
            return text
        parts = [Marker(form.content.begin)._lower(b), text, Marker(form.content.end)._lower(b)]
        return b.concat(parts)

    def _calls(self, b: _core.Builder, calls: list[tuple[int, int]], index: int) -> int:
        """What follows the head of the first call, written as template ``index``, up to the end of the last call."""
        form = self.format
        parts = [calls[index][1]]
        if self.parallel:
            separator = Marker(form.separator)._lower(b)
            parts.append(b.repeat(b.concat([separator, b.union([b.concat(list(call)) for call in calls])]), 0, -1))
        parts.append(Marker(form.end)._lower(b))
        if not self._end_alike():
            parts.append(self._ending(b, form.calls_end))
        return b.concat(parts)

    def _call(self, b: _core.Builder, written: Mapping[str, int], index: int) -> tuple[int, int]:
        """The head of a call, and the rest of it."""
        form = self.format
        template = form.calls[index]
        identifier = regex(form.identifier)._lower(b) if form.identifier else b.EPSILON
        ways = []
        for name, arguments in written.items():
            slots = {"name": b.literal(name.encode()), "id": identifier, "arguments": arguments, "": b.EPSILON}
            parts = [slots[template.parts[0][1]]]
            for text, slot in template.parts[1:]:
                parts += [Marker(text)._lower(b), slots[slot]]
            ways.append(b.concat(parts))
        return Marker(template.head)._lower(b), b.union(ways)

    def __repr__(self) -> str:
        names = ", ".join(tool.name for tool in self.tools)
        return f"tool_calls([{names}], format={self.format.name!r}, choice={self.choice!r})"


@checked
def tool_calls(
    tools: Iterable[Any],
    *,
    format: str | Path | Mapping[str, Any],
    choice: str | Mapping[str, Any] = "auto",
    parallel: bool = True,
    reasoning: str | bool | None = None,
    max_reasoning_tokens: int | None = None,
    content: Constraint | None = None,
    vocabulary: Vocabulary | None = None,
    on_bad_tool: str = "error",
    extra_arguments: bool = False,
    **options: Any,
) -> ToolCalls:
    r"""Matches what a model may write if it may, must or must not call tools.

        >>> import guiderail as gr
        >>> def weather(city: str, days: int = 1) -> str:
        ...     "The weather of the next days."
        >>> calls = gr.tool_calls([weather], format="hermes", choice="required")
        >>> text = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
        >>> calls.matches(text), calls.matches(text.replace("weather", "whether"))
        (True, False)
        >>> calls.parse(text).calls[0].value.arguments
        {'city': 'Oslo', 'days': 1}

    Args:
        tools: the tools. Each is a dict as in OpenAI's API (``{"type": "function", "function": {…}}``, or just the
            inner dict, also with ``input_schema`` or ``inputSchema``), as in Bedrock's or Gemini's
            (``{"toolSpec": {…}}``, ``{"function_declarations": […]}``), one of OpenAI's custom tools (its only argument
            is the text ``input``), a Python function, or a class whose fields are the arguments.
        format: the format of the model family: a name from :func:`tool_formats`, a ``pathlib.Path`` of a format file,
            or the contents of such a file as a dict.
        choice: ``"auto"``: text, then calls if the model wants; ``"required"``: calls only; ``"none"``: text without
            calls; or the name of a tool: exactly one call of it. Objects of OpenAI's API (``allowed_tools``, too),
            Anthropic's, Gemini's and Bedrock's mean what their documentation says.
        parallel: whether the model may make several calls.
        reasoning: ``"none"`` (or False): no reasoning between markers; ``"optional"``; ``"required"`` (or True): the
            text begins with it; ``"open"``: the prompt already ends with the marker that opens it.
        max_reasoning_tokens: maximum number of tokens between the reasoning markers. The closing marker must follow
            then, after the rest of a character that is incomplete.
        content: the constraint on text that is not a call, for example a JSON Schema; None: any text without triggers.
        vocabulary: the vocabulary whose special tokens may be written as markers. By default it is that of the guide,
            so you need not pass it. If you do, the constraint fits only models with this vocabulary.
        on_bad_tool: what happens to a tool whose name, schema or type cannot be used: ``"error"`` raises, ``"drop"``
            leaves it out with a ToolWarning and lists it in ``dropped``.
        extra_arguments: whether a model may add arguments that the tool's schema does not name, if the schema does not
            say. A schema that allows or forbids them has the last word.
        **options: options of :func:`json_schema`, for JSON arguments. Here, ``property_order`` is ``"declared"`` by
            default.

    Raises:
        ToolError: the format or the choice cannot be used; no tool is left; or a tool cannot be used although it is
            needed or ``on_bad_tool`` is ``"error"``.
    """
    form = read_format(format)
    mode = _REASONING[reasoning] if isinstance(reasoning, bool | None) else reasoning
    check_choice("reasoning", mode, _MODES, error=ToolError, code="tool-choice")
    if mode != "none" and form.reasoning is None:
        raise ToolError(f"the format {form.name!r} has no reasoning; leave reasoning out", code="tool-choice")
    most = (1 << 30) - 1
    check_integer(
        "max_reasoning_tokens", max_reasoning_tokens, 0, most, optional=True, error=ToolError, code="tool-choice"
    )
    if max_reasoning_tokens is not None and mode == "none":
        raise ToolError('max_reasoning_tokens needs reasoning: pass reasoning="optional"', code="tool-choice")
    check_choice("on_bad_tool", on_bad_tool, ("drop", "error"), error=ToolError, code="tool-choice")
    for flag, given in (("parallel", parallel), ("extra_arguments", extra_arguments)):
        check_flag(flag, given, error=ToolError, code="tool-choice")
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise ToolError("tools must be a list, even for a single tool: [tool]", code="tool")
    chosen = read_choice(choice)
    needed = {chosen.mode} if chosen.allowed is None else {*chosen.allowed}
    SchemaOptions.of(settings := {"property_order": "declared", **options}, tool_calls)
    known: dict[str, Tool] = {}
    dropped: dict[str, GuiderailError] = {}
    before = spent()
    for position, given in enumerate(flat(tools)):
        name = name_of(given, position)
        if spent() - before > allowed():
            raise LimitError(
                f"the first {position:,} tools take more than {allowed():,} steps of work to read; pass fewer, or "
                "simpler ones, or raise max_work (with gr.max_work(…):)",
                code="work",
            )
        try:
            tool = read_tool(given, form.parameters, settings, extra_arguments)
            if tool.name in known or tool.name in dropped:
                raise ToolError(f"another tool has the name {tool.name!r}; rename one of them", code="tool-name")
            check(tool.arguments)
        except GuiderailError as error:
            if on_bad_tool == "error" or name in needed:
                raise named(error, name) from error
            dropped[name if name not in dropped else f"{name} (tool {position})"] = error
            warnings.warn(f"the tool {name!r} is left out: {error.message}", ToolWarning, stacklevel=outside())
            continue
        known[tool.name] = tool
    for name in chosen.allowed or ():
        if name not in known:
            raise ToolError(f"there is no tool {name!r}; {suggestion(name, known)}", code="tool-choice")
    made = ToolCalls(
        form,
        tuple(tool for tool in known.values() if chosen.allowed is None or tool.name in chosen.allowed),
        chosen.mode,
        parallel and chosen.parallel and form.parallel and chosen.mode in ("auto", "required"),
        mode,
        content,
        None if vocabulary is None else SpecialTokens.of(vocabulary),
        dropped,
        max_reasoning_tokens,
    )
    if chosen.mode not in ("auto", "none") and not made.callable_tools():
        if chosen.mode == "required":
            raise ToolError("a call is required, but there is no tool to call", code="tool-choice")
        raise ToolError(
            f"choice must be 'auto', 'required', 'none' or the name of a tool, and there is no tool {chosen.mode!r}; "
            f"{suggestion(chosen.mode, known)}",
            code="tool-choice",
        )
    return made
