"""A chat template without its model: renders messages as texts that a tokenizer reads.

It takes and returns plain data, so that another process can do it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from guiderail.errors import ModelError
from guiderail.generation.marks import Marks

__all__ = ["Plain", "Renderer", "Shown", "compile_template"]


@dataclass(frozen=True, slots=True)
class Plain:
    """Messages and tools as they are, for a model that encodes them itself."""

    messages: list[Mapping[str, Any]]
    tools: list[Mapping[str, Any]] | None


Shown = list[tuple[str, bool]] | Plain
"""Texts in their order, each with whether it may spell special tokens."""


class Renderer:
    """See the module.

    Args:
        name: the name of the model, for messages.
        source: the template, or None.
        names: names of special tokens that templates use.
        specials: texts that are special tokens.
        tokenizes: whether the model has a tokenizer that distinguishes text from special tokens.
        itself: what a model without a template encodes itself: one user message, with or without a system message
            (``prompts``), conversations, or also tools.
    """

    def __init__(
        self,
        name: str,
        source: str | None,
        names: Mapping[str, str],
        specials: Sequence[str],
        tokenizes: bool,
        itself: Literal["prompts", "conversations", "tools"] = "prompts",
    ) -> None:
        self._arguments = name, source, dict(names), tuple(specials), tokenizes, itself
        self._name, self.source, self._names, self._tokenizes = name, source, dict(names), tokenizes
        self._itself = itself
        self._template: Any = compile_template(source) if source is not None else None
        spelled = sorted((text for text in specials if text), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, spelled))) if spelled else None

    def __reduce__(self) -> Any:
        return Renderer, self._arguments

    @property
    def knows_tools(self) -> bool:
        """Whether it shows tools, calls and their results to the model."""
        if self.source is None:
            return self._itself == "tools"
        return re.search(r"\btools\b", self.source) is not None

    @property
    def knows_developer(self) -> bool:
        return self.source is not None and "developer" in self.source

    def show(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> Shown:
        """Renders a conversation, up to the start of the assistant's next turn.

        Args:
            messages: dicts with ``role`` and ``content``, a text.
            tools: tools as in OpenAI's API, for a template that supports them.

        Raises:
            ModelError: ``no-chat-template``; ``chat-template``: the template rejects the conversation.
        """
        if not self._tokenizes or self._template is None:
            return self._plain(messages, tools)
        marks = Marks(self._special)
        shown = [{**marks.put({**message, "role": None}), "role": message["role"]} for message in messages]
        return marks.split(self._render(shown, marks.put(list(tools)) if tools else None))

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        def render(messages: Sequence[Mapping[str, Any]]) -> str:
            given = list(tools) if tools else None
            return str(self._template.render(messages=messages, tools=given, add_generation_prompt=True, **self._names))

        try:
            return render(messages)
        except Exception as error:  # whatever a template of others may raise
            written = _with_written_arguments(messages)
            if written is not None:
                with contextlib.suppress(Exception):  # the first error is the one to report
                    return render(written)
            raise ModelError(
                f"the chat template of {self._name} cannot show these messages: {error}", code="chat-template"
            ) from error

    def _plain(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> Plain:
        roles = [message["role"] for message in messages]
        if self._itself == "prompts" and roles not in (["user"], ["system", "user"]):
            raise ModelError(
                f"{self._name} has no chat template that guiderail knows, so it takes one user message, with or "
                "without a system message before it; serve it with a --chat-template",
                code="no-chat-template",
            )
        return Plain(list(messages), list(tools) if tools and self.knows_tools else None)


def _with_written_arguments(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """The messages with arguments of calls as JSON texts, as some templates need them; None if there are no calls."""
    changed = False
    found: list[Mapping[str, Any]] = []
    for message in messages:
        calls = []
        for call in message.get("tool_calls") or ():
            inner = call.get("function")
            if inner and not isinstance(inner.get("arguments"), str):
                text = json.dumps(inner.get("arguments"), ensure_ascii=False)
                call, changed = {**call, "function": {**inner, "arguments": text}}, True
            calls.append(call)
        found.append({**message, "tool_calls": calls} if calls else message)
    return found if changed else None


def compile_template(source: str) -> Any:
    """A template, in Jinja's sandbox.

    Raises:
        ModelError: ``chat-template``: it cannot be read.
    """
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}``, which marks the assistant's part for training, and has no other effect."""

        tags = {"generation"}  # noqa: RUF012 - as in jinja2

        def parse(self, parser: Any) -> list[nodes.Node]:
            next(parser.stream)
            body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return body

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)

    class Environment(ImmutableSandboxedEnvironment):
        """Templates may collect values in lists of their own, as those of llama.cpp do."""

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return (isinstance(obj, list) and attr == "append") or super().is_safe_attribute(obj, attr, value)

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise ModelError(f"the chat template cannot be read: {error}", code="chat-template") from error
