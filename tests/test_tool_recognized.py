"""Tool-call formats recognized from chat templates, and templates that the server must be able to render."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

import guiderail as gr
from guiderail.frontends.tools.format import Format, read_format
from guiderail.generation.rendering import Renderer
from guiderail.server.tools import tool_format_of

pytest.importorskip("jinja2")

TURNS = "{% for m in messages %}{% if m.tool_calls %}A: CALLS{% else %}{{ m.role }}: {{ m.content }}\n{% endif %}"
USES_TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"


def renderer(source: str) -> Renderer:
    return Renderer("model", source, {}, (), tokenizes=True)


def recognized(made: Renderer) -> str:
    return tool_format_of(made, lambda shown: "".join(text for text, _ in shown))


def quoted(text: str) -> str:
    return "{{ " + repr(text) + " }}" if text else ""


def template_of(form: Format) -> str:
    """Returns a template with the calls of a format with JSON arguments."""
    slots = {
        "name": "{{ c.function.name }}", "id": "{{ 7 + loop.index0 }}", "": "",
        "arguments": "{{ c.function.arguments | tojson }}",
    }  # fmt: skip
    call = "".join(quoted(text) + slots[slot] for text, slot in form.calls[0].parts)
    between = "{% if not loop.last %}" + quoted(form.separator) + "{% endif %}"
    frames = "".join(quoted(f.begin + f.end) for f in (form.reasoning, form.content) if f is not None)
    calls = f"{quoted(form.begin[0])}{{% for c in m.tool_calls %}}{call}{between}{{% endfor %}}{quoted(form.end)}"
    return USES_TOOLS + TURNS.replace("CALLS", frames + calls + "<end>") + "{% endfor %}"


def is_written(form: Format) -> bool:
    """Returns whether :func:`template_of` can write the format."""
    has_id = any(slot == "id" for _, slot in form.calls[0].parts)
    return form.parameters is None and (not has_id or re.fullmatch(form.identifier, "7") is not None)


JSON_FORMATS = [name for name in gr.tool_formats() if is_written(read_format(name))]


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_a_template_of_each_format(name: str) -> None:
    assert recognized(renderer(template_of(read_format(name)))) == name


ARGUMENTS = "{% for k, v in c.function.arguments.items() %}ARG{% endfor %}"
BY_HAND = {
    "qwen3-coder": ("<tool_call>\n<function={{ c.function.name }}>\n", "<parameter={{ k }}>\n{{ v }}\n</parameter>\n",
                    "</function>\n</tool_call>", "\n"),
    "step-3.5": ("<tool_call>\n<function={{ c.function.name }}>\n", "<parameter={{ k }}>\n{{ v }}\n</parameter>\n",
                 "</function>\n</tool_call>", ""),
    "glm-4.7": ("<tool_call>{{ c.function.name }}", "<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>",
                "</tool_call>", ""),
    "glm-4.5": ("<tool_call>{{ c.function.name }}\n", "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n",
                "</tool_call>", "\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_arguments_one_by_one(name: str) -> None:
    """Jinja would remove the last line feed of a block, so the parts are strings in it."""
    begin, argument, end, separator = (part.replace("\n", "{{ '\\n' }}") for part in BY_HAND[name])
    call = begin + ARGUMENTS.replace("ARG", argument) + end
    calls = f"{{% for c in m.tool_calls %}}{call}{{% if not loop.last %}}{separator}{{% endif %}}{{% endfor %}}"
    source = USES_TOOLS + TURNS.replace("CALLS", calls + "<|end|>") + "{% endfor %}"
    assert recognized(renderer(source)) == name


HERMES = '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": ARGS}\n</tool_call>'


@pytest.mark.parametrize(
    "calls",
    [
        HERMES.replace("ARGS", "{{ c.function.arguments | tojson(ensure_ascii=False) }}"),
        HERMES.replace("ARGS", "{{ '' + c.function.arguments }}"),
        HERMES.replace("ARGS", "{{ '' + c.function.arguments }}{{ raise_exception('one') if not loop.first }}"),
        "{% set ns = [] %}{% set _ = ns.append(c) %}" + HERMES.replace("ARGS", "{{ ns[0].function.arguments|tojson }}"),
    ],
    ids=["tojson-option", "texts", "one-call", "append"],
)
def test_what_templates_do(calls: str) -> None:
    loop = f"{{% for c in m.tool_calls %}}{calls}{{% endfor %}}"
    source = USES_TOOLS + TURNS.replace("CALLS", loop) + "{% endfor %}"
    made = renderer(source)
    assert recognized(made) == "hermes"
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": "é"}}}
    ((text, _),) = made.show([{"role": "assistant", "content": "", "tool_calls": [call]}], [{"type": "function"}])
    assert '{"name": "f", "arguments": {"a": "é"}}' in text


def test_the_first_error_of_a_template_is_told() -> None:
    call: dict[str, Any] = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {}}}
    made = renderer("{{ raise_exception('no ' ~ messages[0].tool_calls[0].function.arguments) }}")
    with pytest.raises(gr.ModelError, match=r"no \{\}"):
        made.show([{"role": "assistant", "content": "", "tool_calls": [call]}], None)


@pytest.mark.parametrize(
    "calls",
    [
        "{% for c in m.tool_calls %}[{{ c.function.name }}(x=1)]{% endfor %}",
        "<tool_call>nothing</tool_call>",
        "{{ raise_exception('no calls') }}",
        "{{ undefined.attribute }}",
        "{% for c in m.tool_calls %}<tool_call>\n"
        '{"name": "{{ c.function.name }}", "arguments": {"city": 4}}\n</tool_call>{% endfor %}',
    ],
)
def test_a_template_of_no_known_format_is_told(calls: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "guiderail.server"):
        source = USES_TOOLS + TURNS.replace("CALLS", calls) + "{% endfor %}"
        assert recognized(renderer(source)) == "hermes"
    assert "--tool-format" in caplog.text


@pytest.mark.parametrize("source", [None, "{{ messages[0].content }}"])
def test_without_tools_in_the_template_the_server_describes_them(
    source: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    made = Renderer("model", source, {}, (), tokenizes=True)
    with caplog.at_level(logging.WARNING, "guiderail.server"):
        assert recognized(made) == "hermes"
    assert not caplog.text
