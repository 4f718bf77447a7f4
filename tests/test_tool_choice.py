"""Choices and definitions of tools in the shapes of several makers mean the same as the shapes of OpenAI."""

from __future__ import annotations

from typing import Any

import pytest

import guiderail as gr

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
TOOLS = [{"name": name, "description": "…", "parameters": SCHEMA} for name in ("weather", "news", "auto")]


def call(name: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Oslo"}}}}\n</tool_call>'


TEXTS = ["words", *(call(tool["name"]) for tool in TOOLS)]
TEXTS += [f"{one}\n{two}" for one in TEXTS for two in TEXTS[1:]]


def allowed(choice: Any, **options: Any) -> set[str]:
    calls = gr.tool_calls(TOOLS, format="hermes", choice=choice, **options)
    return {text for text in TEXTS if calls.matches(text)}


def expected(*names: str, text: bool, many: bool) -> set[str]:
    """What a choice allows, by its words: these tools, with or without text, and how many calls."""
    found = {"words"} if text else set()
    for name in names:
        found.add(call(name))
        found |= {f"words\n{call(name)}"} if text else set()
        found |= {f"{call(name)}\n{call(two)}" for two in names} if many else set()
    return found


ALL = ("weather", "news", "auto")
FUNCTIONS = [{"type": "function", "function": {"name": name}} for name in ("weather", "auto")]
FLAT = [{"type": "function", "name": name} for name in ("weather", "auto")]
GEMINI = "function_calling_config"
CHOICES: list[tuple[Any, tuple[str, ...], bool, bool]] = [  # tools, text, several calls
    ("auto", ALL, True, True),
    ("required", ALL, False, True),
    ("none", (), True, False),
    ("news", ("news",), False, False),
    ({"type": "function", "function": {"name": "news"}}, ("news",), False, False),
    ({"type": "function", "name": "news"}, ("news",), False, False),
    ({"type": "function", "name": "auto"}, ("auto",), False, False),
    ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": FUNCTIONS}}, ("weather", "auto"), True, True),
    ({"type": "allowed_tools", "mode": "required", "tools": FLAT}, ("weather", "auto"), False, True),
    ({"type": "auto"}, ALL, True, True),
    ({"type": "any"}, ALL, False, True),
    ({"type": "any", "disable_parallel_tool_use": True}, ALL, False, False),
    ({"type": "auto", "disable_parallel_tool_use": True}, ALL, True, False),
    ({"type": "tool", "name": "weather"}, ("weather",), False, False),
    ({"type": "tool", "name": "auto", "disable_parallel_tool_use": False}, ("auto",), False, False),
    ({"type": "none"}, (), True, False),
    ({"auto": {}}, ALL, True, True),
    ({"any": {}}, ALL, False, True),
    ({"tool": {"name": "auto"}}, ("auto",), False, False),
    ({GEMINI: {"mode": "AUTO"}}, ALL, True, True),
    ({GEMINI: {"mode": "ANY"}}, ALL, False, True),
    ({GEMINI: {"mode": "ANY", "allowed_function_names": ["news", "auto"]}}, ("news", "auto"), False, True),
    ({"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["news"]}}, ("news",), True, True),
    ({GEMINI: {"mode": "NONE"}}, (), True, False),
]


@pytest.mark.parametrize(("choice", "names", "text", "many"), CHOICES)
def test_choices_mean_what_their_makers_say(choice: Any, names: tuple[str, ...], text: bool, many: bool) -> None:
    assert allowed(choice) == expected(*names, text=text, many=many)
    assert allowed(choice, parallel=False) == expected(*names, text=text, many=False)


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"type": "tool"}, "needs the name of a tool"),
        ({"type": "any", "name": "news"}, "no key 'name'"),
        ({"type": "any", "disable_parallel_tool_use": 1}, "disable_parallel_tool_use must be True or False"),
        ({"type": "allowed_tools", "mode": "none", "tools": FLAT}, "'auto' or 'required'"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "a list of tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "new"}]}, "'news'"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": FUNCTIONS, "more": 1}}, "no key 'more'"),
        ({GEMINI: {"mode": "SOME"}}, "AUTO, ANY, NONE or VALIDATED"),
        ({GEMINI: {"mode": "AUTO", "allowed_function_names": ["news"]}}, "goes with the mode ANY or VALIDATED"),
        ({GEMINI: {"mode": "ANY"}, "retrieval_config": {}}, "no key 'retrieval_config'"),
        ({"any": 1}, "must be an object"),
        ({}, "'auto', 'required', 'none', the name of a tool"),
        (["news"], "'auto', 'required', 'none', the name of a tool"),
    ],
)
def test_other_choices_are_refused_with_the_way_out(choice: Any, says: str) -> None:
    with pytest.raises(gr.ToolError) as caught:
        allowed(choice)
    assert caught.value.code == "tool-choice" and says in str(caught.value)


@pytest.mark.parametrize(
    "tools",
    [
        [{"type": "function", "function": tool} for tool in TOOLS],
        [{"type": "custom", "name": tool["name"], "input_schema": SCHEMA} for tool in TOOLS],
        [{"toolSpec": {"name": tool["name"], "description": "…", "inputSchema": {"json": SCHEMA}}} for tool in TOOLS],
        [{"function_declarations": TOOLS}],
        [{"functionDeclarations": [{"name": tool["name"], "parametersJsonSchema": SCHEMA} for tool in TOOLS]}],
        [{"function_declarations": TOOLS[:1]}, *TOOLS[1:]],
    ],
)
def test_definitions_of_several_makers(tools: list[Any]) -> None:
    made = gr.tool_calls(tools, format="hermes")
    assert [(tool.name, tool.schema) for tool in made.tools] == [(tool["name"], SCHEMA) for tool in TOOLS]
    assert {text for text in TEXTS if made.matches(text)} == allowed("auto")


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        (
            {"function_declarations": TOOLS, "google_search": {}},
            "no key 'google_search' beside 'function_declarations'",
        ),
        ({"function_declarations": 1}, "must be a list"),
        ({"function_declarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}, "did you mean 'object'"),
        ({"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "array"}}}}, "the schema of an object"),
        ({"toolSpec": 1}, "'toolSpec' must be an object"),
        ({"cachePoint": {"type": "default"}}, "no key 'cachePoint'"),
    ],
)
def test_definitions_that_are_refused(tool: Any, says: str) -> None:
    with pytest.raises(gr.ToolError, match=says):
        gr.tool_calls([tool], format="hermes")
