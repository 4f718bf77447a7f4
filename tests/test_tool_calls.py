"""Tool calls: the formats as data, what each choice allows, and reading calls back into values."""

from __future__ import annotations

import inspect
import json
import math
import pickle
import random
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import pytest

import guiderail as gr
from guiderail.frontends.tools.format import read_format
from guiderail.support.numerals import json_text, read_integer

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of the next days.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
TIME = {
    "name": "get_time",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
}
TOOLS = [WEATHER, TIME]
FORMATS = sorted(gr.tool_formats())
EXAMPLES = [
    pytest.param(name, example, id=f"{name} {i}")
    for name in FORMATS
    for i, example in enumerate(json.loads(read_format(name).examples))
]


def made(name: str, example: dict[str, Any], **more: Any) -> gr.ToolCalls:
    return gr.tool_calls(TOOLS, format=name, reasoning="required" if "reasoning" in example else "none", **more)


def plain(text: gr.ToolText) -> dict[str, Any]:
    calls = [
        {"name": c.name, "arguments": c.arguments, **({"id": c.id} if c.id is not None else {})} for c in text.calls
    ]
    return {"reasoning": text.reasoning, "content": text.content, "calls": calls}


def wanted(example: dict[str, Any]) -> dict[str, Any]:
    return {"reasoning": None, "content": None, **{k: v for k, v in example.items() if k != "text"}}


# -- every format -------------------------------------------------------------------------------------------------
def test_the_families_that_are_promised() -> None:
    promised = {"hermes", "qwen3-coder", "llama3", "mistral", "mistral-v11", "deepseek-v3", "deepseek-v3.1", "gpt-oss",
                "glm-4.5", "kimi-k2", "minimax-m1", "minimax-m2", "command-r", "command-r7b"}  # fmt: skip
    assert promised <= set(FORMATS)
    for name in FORMATS:
        assert len(json.loads(read_format(name).examples)) >= 2


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_are_of_the_constraint_and_read_back(name: str, example: dict[str, Any]) -> None:
    calls = made(name, example)
    assert calls.matches(example["text"])
    text = calls.parse(example["text"])
    assert plain(text) == wanted(example)
    assert text.complete and all(call.complete for call in text.calls)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_reading_in_pieces_is_reading_at_once(name: str, example: dict[str, Any]) -> None:
    text = example["text"]
    calls = made(name, example)
    for seed in range(6):
        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(len(text) + 1), min(len(text), rng.choice((1, 3, 12, len(text))))))
        reader = calls.reader()
        deltas = []
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            deltas += reader.feed(text[start:end])
        deltas += reader.close()
        assert plain(reader.snapshot()) == wanted(example)
        for kind in ("content", "reasoning"):
            assert "".join(d.text for d in deltas if d.kind == kind) == (wanted(example)[kind] or "")
        spoken = ["".join(d.text for d in deltas if d.kind == "arguments" and d.index == i) for i in range(9)]
        assert [json.loads(s) for s in spoken if s] == [c["arguments"] for c in example["calls"]]
        assert [d.name for d in deltas if d.kind == "call"] == [c["name"] for c in example["calls"]]
        assert [d.id for d in deltas if d.kind == "end"] == [c.get("id") for c in example["calls"]]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_every_beginning_can_go_on_and_be_read(name: str, example: dict[str, Any]) -> None:
    calls = made(name, example)
    program = calls.program()
    text = example["text"]
    for end in range(len(text)):
        start = text[:end]
        assert program.read(program.start, start), start
        reader = calls.reader()
        reader.feed(start)
        seen = reader.snapshot()
        assert (wanted(example)["content"] or "").startswith(seen.content or "")
        for read, want in zip(seen.calls, example["calls"], strict=False):
            assert read.name == want["name"]
            assert set(read.arguments) <= set(want["arguments"])
        if calls.matches(start):
            calls.parse(start)
        else:
            with pytest.raises(gr.ToolTextError):
                calls.parse(start)


@pytest.mark.parametrize("name", FORMATS)
def test_what_may_be_written_is_read(name: str) -> None:
    """Random texts of the constraint: the calls validate, and each tool is called."""
    calls = gr.tool_calls(TOOLS, format=name, choice="required")
    program = calls.program().core
    rng = random.Random(name)
    seen = set()
    for _ in range(25):
        state, written = program.root, b""
        for _ in range(rng.randrange(5, 90)):
            allowed = program.first_bytes(state)
            if not allowed:
                break
            common = [b for b in allowed if 0x20 <= b < 0x7F] or list(allowed)
            byte = rng.choice(common)
            state, written = program.derivative(state, bytes([byte])), written + bytes([byte])
        rest = program.shortest(state, 4000)
        assert rest is not None
        text = (written + rest).decode()
        found = calls.parse(text).calls
        assert found
        for call in found:
            seen.add(call.name)
            schema = TIME["parameters"] if call.name == "get_time" else WEATHER["function"]["parameters"]
            assert gr.json_schema(schema).accepts(call.arguments)
            assert json.loads(call.text) == call.arguments
    assert seen == {"get_weather", "get_time"}


# -- choices --------------------------------------------------------------------------------------------------------
def one_call(name: str) -> str:
    """An example with only one call of get_weather."""
    found = [e["text"] for e in json.loads(read_format(name).examples)
             if [c["name"] for c in e["calls"]] == ["get_weather"] and "reasoning" not in e]  # fmt: skip
    return found[0] if found else ""


@pytest.mark.parametrize("name", FORMATS)
def test_choices(name: str) -> None:
    form = read_format(name)
    text = "Hello, nothing to do." if form.content is None else f"{form.content.begin}Hello{form.content.end}"
    call = one_call(name)
    for choice, may_talk, may_call in (
        ("auto", True, True),
        ("required", False, True),
        ("none", True, False),
        ("get_weather", False, True),
        ({"type": "function", "function": {"name": "get_weather"}}, False, True),
        ("get_time", False, False),
    ):
        calls = gr.tool_calls(TOOLS, format=name, choice=choice)
        assert calls.matches(text) is may_talk, choice
        if call:
            stripped = call.lstrip("\n") if choice != "auto" else call
            assert calls.matches(stripped) is may_call, choice


@pytest.mark.parametrize(("name", "example"), [p for p in EXAMPLES if len(p.values[1]["calls"]) == 2])
def test_parallel(name: str, example: dict[str, Any]) -> None:
    assert made(name, example).matches(example["text"])
    assert not made(name, example, parallel=False).matches(example["text"])


def test_reasoning() -> None:
    thought = "<think>so\n</think>\n\n"
    call = '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}}\n</tool_call>'
    for mode, bare, whole, open_ in (
        ("none", True, False, False),
        (False, True, False, False),
        ("optional", True, True, False),
        ("required", False, True, False),
        (True, False, True, False),
        ("open", False, True, True),  # text begun by the prompt may contain anything
    ):
        calls = gr.tool_calls(TOOLS, format="hermes", reasoning=mode)
        assert calls.matches(call) is bare, mode
        assert calls.matches(thought + call) is whole, mode
        assert calls.matches(thought.removeprefix("<think>") + call) is open_, mode
    read = gr.tool_calls(TOOLS, format="hermes", reasoning="open").parse("so\n</think>\n\n" + call)
    assert (read.reasoning, read.content, len(read.calls)) == ("so\n", None, 1)


@pytest.mark.parametrize("most", [0, 1, 3])
@pytest.mark.parametrize("mode", ["required", "optional", "open"])
def test_reasoning_of_so_many_tokens(mode: str, most: int) -> None:
    tokens = [b"<think>", b"</think>", b"\n", b"x", b"xx", b"x</think>", "é".encode()[:1], "é".encode()[1:], b"."]
    vocabulary = gr.Vocabulary([*tokens, b""], special_tokens={"<end>": 9}, stop_token_ids=[9])
    calls = gr.tool_calls([], format="hermes", choice="none", reasoning=mode, max_reasoning_tokens=most,
                          content=gr.literal("."))  # fmt: skip
    guide = gr.compile(calls, vocabulary)

    def accepts(*thought: bytes) -> bool:
        matcher = guide.matcher()
        begin = [] if mode == "open" else [b"<think>"]
        end = [] if thought and thought[-1] == b"x</think>" else [b"</think>"]
        text = [*begin, *thought, *end, b"\n", b"\n", b"."]
        return all(matcher.accept_token(tokens.index(one)) for one in text) and matcher.is_accepting()

    for count in range(5):
        assert accepts(*[b"xx"] * count) is (count <= most)
        assert accepts(*[b"x"] * count) is (count <= most)
        assert accepts(*[b"x"] * count, b"x</think>") is (count < most)
    if most:
        whole = [tokens[6], tokens[7]]  # a character of two tokens
        assert accepts(*[b"x"] * (most - 1), *whole)
        assert not accepts(*[b"x"] * most, *whole)


def test_content_may_be_constrained() -> None:
    answer = gr.json_schema({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
    calls = gr.tool_calls(TOOLS, format="kimi-k2", content=answer)
    assert calls.matches('{"ok": true}')
    assert calls.matches(one_call("kimi-k2"))
    assert not calls.matches("yes")
    assert calls.parse('{"ok": true}').content == '{"ok": true}'


# -- vocabularies ---------------------------------------------------------------------------------------------------
def follow(guide: gr.Guide, tokens: list[int]) -> bool:
    """Reads tokens; each is in the mask iff it is accepted. Returns whether all were, and the text may end."""
    matcher = guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    for token in tokens:
        matcher.fill_next_token_bitmask(bitmask)
        allowed = bool(bitmask[0, token // 32] >> (token % 32) & 1)
        assert allowed == matcher.accept_token(token), guide.vocabulary.token_bytes(token)
        if not allowed:
            return False
    return matcher.is_accepting()


@pytest.mark.parametrize("vocabulary", ["llama3", "deepseek"])
def test_examples_pass_the_masks_of_real_vocabularies(vocabulary: str, request: pytest.FixtureRequest) -> None:
    known: gr.Vocabulary = request.getfixturevalue(vocabulary)
    assert known.encode is not None
    for name, example in (p.values for p in EXAMPLES):
        if any(text in example["text"] for text in known.special_tokens):
            continue
        guide = gr.compile(made(name, example), known)
        assert follow(guide, list(known.encode(example["text"]))), name


def test_mistrals_marker_is_a_token_of_its_vocabulary(tekken: gr.Vocabulary) -> None:
    assert tekken.encode is not None
    marker = tekken.special_tokens["[TOOL_CALLS]"]
    example = json.loads(read_format("mistral").examples)[0]["text"]
    rest = list(tekken.encode(example.removeprefix("[TOOL_CALLS]")))
    spelled = [*tekken.encode("[TOOL"), *tekken.encode("_CALLS]"), *rest]
    calls = gr.tool_calls(TOOLS, format="mistral", vocabulary=tekken)
    guide = gr.compile(calls, tekken)
    assert follow(guide, [marker, *rest])
    assert follow(guide, [*tekken.encode("Well. "), marker, *rest])
    assert follow(guide, spelled)
    unsaid = gr.compile(gr.tool_calls(TOOLS, format="mistral"), tekken)  # the guide has its vocabulary
    assert follow(unsaid, spelled) and follow(unsaid, [marker, *rest])
    assert not follow(gr.compile(gr.tool_calls(TOOLS, format="mistral", choice="none", vocabulary=tekken), tekken),
                      [marker, *rest])  # fmt: skip
    assert not follow(gr.compile(gr.tool_calls(TOOLS, format="mistral", choice="none"), tekken), spelled)


@pytest.mark.parametrize("name", FORMATS)
def test_markers_that_are_special_tokens(name: str) -> None:
    """A vocabulary of bytes in which all markers of all formats are special tokens."""
    special = [
        "<tool_call>", "</tool_call>", "<think>", "</think>", "<|python_tag|>", "[TOOL_CALLS]",
        "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "｜DSML｜", "<|channel|>",
        "<|message|>", "<|constrain|>", "<|start|>", "<|end|>", "<arg_key>", "</arg_key>",
        "<arg_value>", "</arg_value>", "<|tool_call_begin|>", "<|tool_call_end|>",
        "<|tool_call_argument_begin|>", "<minimax:tool_call>", "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>", "</minimax:tool_call>", "<|START_ACTION|>", "<|END_ACTION|>",
        "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
    ]  # fmt: skip
    stops = ["<|call|>", "<|return|>", "<|eom_id|>", "</s>"]
    names = [*special, *stops]
    vocabulary = gr.Vocabulary(
        [*(bytes([b]) for b in range(256)), *(n.encode() for n in names)],
        special_tokens={n: 256 + i for i, n in enumerate(names)},
        stop_token_ids=[256 + names.index(n) for n in stops],
    )

    def tokens(text: str) -> list[int]:
        found: list[int] = []
        while text:
            name = next((n for n in names if text.startswith(n)), None)
            found += [256 + names.index(name)] if name else text[0].encode()
            text = text[len(name) if name else 1 :]
        return found

    for example in json.loads(read_format(name).examples):
        guide = gr.compile(made(name, example, vocabulary=vocabulary), vocabulary)
        ids = tokens(example["text"])
        end = [i for i in ids if i in vocabulary.stop_token_ids]
        assert follow(guide, [i for i in ids if i not in end])
        assert follow(guide, list(example["text"].encode())) or end
        matcher = guide.matcher()
        assert all(matcher.accept_token(i) for i in ids)  # the end markers of the turn are its stop tokens
        assert matcher.is_terminated() is bool(end)


# -- tools ----------------------------------------------------------------------------------------------------------
def forecast(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """The weather.

    In a city.
    """
    return f"{city} {days} {unit}"


@dataclass
class Point:
    """A place."""

    x: float
    y: float = 0.0


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "glm-4.5", "deepseek-v3.2"])
def test_python_functions_and_classes_come_back_as_values(name: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    user = pydantic.create_model("User", name=(str, ...), tags=(list[str], []))
    calls = gr.tool_calls([forecast, Point, user], format=name, choice="required")
    assert [(t.name, t.description.split("\n")[0]) for t in calls.tools][:2] == [
        ("forecast", "The weather."),
        ("Point", "A place."),
    ]
    program = calls.program().core
    values = {}
    for tool in calls.tools:
        only = gr.tool_calls([forecast, Point, user], format=name, choice=tool.name)
        core = only.program().core
        text = core.shortest(core.root, 4000)
        assert text is not None and program.derivative(program.root, text)
        values[tool.name] = only.parse(text.decode()).calls[0].value
    assert isinstance(values["forecast"], inspect.BoundArguments)
    assert forecast(*values["forecast"].args, **values["forecast"].kwargs) == " 1 C"
    assert isinstance(values["Point"], Point) and values["Point"].y == 0.0
    assert isinstance(values["User"], user) and values["User"].tags == []


def test_tools_are_named_and_described_by_what_they_say_themselves() -> None:
    """Not by what Python says of every dict, or pydantic of every model."""
    pydantic = pytest.importorskip("pydantic")

    @dataclass
    class Row:
        x: int

    class Adder:
        def __call__(self, x: int) -> int:
            """Adds one."""
            return x + 1

    def told(x: int, y: int) -> int:
        """Says something."""
        return x + y

    model = pydantic.create_model("Model", x=(int, ...))
    made = [TypedDict("Rows", {"x": int}), NamedTuple("Pair", [("x", int)]), model, Row, Adder(), partial(told, 1)]
    assert [(tool.name, tool.description) for tool in gr.tool_calls(made, format="hermes").tools] == [
        *((name, "") for name in ("Rows", "Pair", "Model", "Row")),
        ("Adder", "Adds one."),
        ("told", "Says something."),
    ]


@pytest.mark.parametrize(
    "tool",
    [
        TIME,
        {"type": "function", **TIME},
        {"name": "get_time", "input_schema": TIME["parameters"]},
        {"name": "get_time", "inputSchema": TIME["parameters"], "annotations": {"readOnlyHint": True}},
        {"type": "function", "function": {**TIME, "description": None, "strict": None}},
    ],
)
def test_forms_of_tools(tool: dict[str, Any]) -> None:
    calls = gr.tool_calls([tool], format="hermes", on_bad_tool="error")
    assert calls.matches('<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}}\n</tool_call>')


def test_a_tool_without_parameters_takes_an_object() -> None:
    calls = gr.tool_calls([{"name": "ping"}, {"name": "stop", "parameters": {"type": "object", "properties": {}}}],
                          format="hermes", choice="required")  # fmt: skip
    text = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'
    assert calls.matches(text.format("ping", "{}")) and calls.matches(text.format("ping", '{"a": 1}'))
    assert calls.matches(text.format("stop", "{}")) and not calls.matches(text.format("stop", '{"a": 1}'))


@pytest.mark.parametrize("draft", [None, "http://json-schema.org/draft-07/schema#"])
@pytest.mark.parametrize("target", [{}, {"type": ["string", "object"]}, True], ids=repr)
def test_a_reference_leads_to_an_object(draft: str | None, target: Any) -> None:
    schema = {"$ref": "#/definitions/a", "definitions": {"a": target}, **({} if draft is None else {"$schema": draft})}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    calls = gr.tool_calls([tool], format="hermes", choice="required")
    text = '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'
    assert calls.parse(text.format('{"a": 1}')).calls[0].arguments == {"a": 1}
    assert not any(calls.matches(text.format(value)) for value in ('"x"', "null", "[]"))


@pytest.mark.parametrize(("text", "value"), [("True", True), ("false", False), ("None", None), ("null", None)])
def test_literals_in_the_spelling_of_a_template(text: str, value: Any) -> None:
    """Templates write arguments with Python's str, so their models write True and None."""
    kind = {"type": "boolean"} if value is not None else {"type": ["integer", "null"]}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": kind}, "required": ["a"]}}
    calls = gr.tool_calls([tool], format="qwen3-coder", choice="required")
    whole = f"<tool_call>\n<function=f>\n<parameter=a>\n{text}\n</parameter>\n</function>\n</tool_call>"
    assert calls.matches(whole) and calls.parse(whole).calls[0].arguments == {"a": value}
    assert not calls.matches(whole.replace(text, "TRUE"))
    texts = {**tool, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    assert gr.tool_calls([texts], format="qwen3-coder").parse(whole).calls[0].arguments == {"a": text}


@pytest.mark.parametrize(
    ("literals", "message"), [(5, "literals"), ({"a b": True}, "words"), ({"Yes": 1}, "true, false")]
)
def test_literals_are_words(literals: Any, message: str) -> None:
    parameters = {"open": "<${key}>", "close": "</>", "literals": literals}
    with pytest.raises(gr.ToolError, match=message):
        gr.tool_calls([TIME], format={"name": "x", "call": "<${name}>${arguments}", "parameters": parameters})


def test_no_arguments_in_the_spelling_of_an_encoder() -> None:
    calls = gr.tool_calls([{"name": "f"}, TIME], format="deepseek-v4", choice="required")
    for inside in ("", "\n"):
        whole = "<｜DSML｜tool_calls>\n" + f'<｜DSML｜invoke name="f">\n{inside}</｜DSML｜invoke>\n' * 2
        whole += "</｜DSML｜tool_calls>"
        assert calls.matches(whole)
        assert [call.arguments for call in calls.parse(whole).calls] == [{}, {}]
        needed = whole.replace('"f"', '"get_time"')
        assert not calls.matches(needed)


BEYOND: list[tuple[Any, str, Any, str]] = [  # the schema of an argument, its text between tags, its value, and as JSON
    ({}, "NaN", "NaN", '"NaN"'),
    ({}, " -Infinity ", " -Infinity ", '" -Infinity "'),
    ({}, '{"b": NaN}', '{"b": NaN}', r'"{\"b\": NaN}"'),
    ({"type": ["string", "number"]}, "Infinity", "Infinity", '"Infinity"'),
    ({"type": "number"}, "1e999", math.inf, "1e999"),
    ({}, "[-1E400, 5]", [-math.inf, 5], "[-1E400, 5]"),
    ({}, '{"b": 1e99999999999}', {"b": math.inf}, '{"b": 1e99999999999}'),
    ({"type": ["string", "array"]}, "1e99999999999", "1e99999999999", '"1e99999999999"'),
    ({"type": "number", "exclusiveMaximum": 10}, "9.99999999999999999999", 10.0, "10.0"),
    ({"type": "number", "exclusiveMinimum": 0}, "1e-999", 0.0, "0.0"),
    ({"type": ["integer", "string"]}, "1.0", 1.0, "1.0"),
    ({"type": ["integer", "string"]}, "1.5", "1.5", '"1.5"'),
    ({"type": "integer"}, "7" * 5000, read_integer("7" * 5000), "7" * 5000),
]


@pytest.mark.parametrize(("schema", "text", "value", "written"), BEYOND, ids=[text[:25] for _, text, *_ in BEYOND])
def test_numbers_that_floats_cannot_hold(schema: Any, text: str, value: Any, written: str) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}
    calls = gr.tool_calls([tool], format="glm-4.5", choice="required")
    whole = f"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>"
    assert calls.matches(whole)
    (call,) = calls.parse(whole).calls
    assert call.arguments == {"a": value}
    assert call.text == f'{{"a": {written}}}'


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e999", math.inf), ("[-1E400, 5]", [-math.inf, 5]), ("7" * 5000, read_integer("7" * 5000)), ("1.0", 1.0)],
    ids=lambda value: str(type(value)),
)
@pytest.mark.parametrize(
    ("form", "begin", "end"),
    [
        ("hermes", '<tool_call>\n{"name": "f", "arguments": ', "}\n</tool_call>"),
        ("llama3", '{"name": "f", "parameters": ', "}"),
    ],
)
def test_numbers_of_any_size_in_json(form: str, begin: str, end: str, text: str, value: Any) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}
    calls = gr.tool_calls([tool], format=form, choice="required")
    written = f'{{"a": {text}}}'
    assert calls.matches(begin + written + end)
    (call,) = calls.parse(begin + written + end).calls
    assert (call.arguments, call.text, json_text(call.arguments)) == ({"a": value}, written, written)


def test_arguments_are_not_made_up() -> None:
    text = '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC", "more": 1}}\n</tool_call>'
    assert not gr.tool_calls([TIME], format="hermes").matches(text)
    assert gr.tool_calls([TIME], format="hermes", extra_arguments=True).matches(text)
    open_schema = {**TIME["parameters"], "additionalProperties": True}
    assert gr.tool_calls([{"name": "get_time", "parameters": open_schema}], format="hermes").matches(text)


def test_custom_tools_have_a_text() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-c]+\n?"}}
    tool = {"type": "custom", "custom": {"name": "run", "format": grammar}}
    calls = gr.tool_calls([tool, {"type": "custom", "name": "say"}], format="hermes", choice="required")
    text = '<tool_call>\n{{"name": "{}", "arguments": {{"input": {}}}}}\n</tool_call>'
    assert calls.matches(text.format("run", '"abc\\n"')) and not calls.matches(text.format("run", '"abd"'))
    assert calls.matches(text.format("say", '"anything"'))
    assert calls.parse(text.format("run", '"abc\\n"')).calls[0].arguments == {"input": "abc\n"}


BAD = [
    ({"name": "bad", "parameters": {"type": "objec"}}, "tool"),
    ({"name": "bad", "parameters": {"properties": {"a": {"pattern": "("}}}}, "regex-unterminated-group"),
    ({"name": "bad", "parameters": {"properties": {"a": {"$ref": "#/none"}}}}, "unresolvable-reference"),
    ({"name": "bad", "parameters": {"type": "string"}}, "tool"),
    ({"name": "bad", "parameters": {"properties": {"a": False}, "required": ["a"]}}, "unsatisfiable-schema"),
    ({"name": "bad", "parameters": False}, None),
    ({"name": "bad name", "parameters": {}}, "tool-name"),
    ({"name": "get_time", "parameters": {}}, "tool-name"),
    ({"parameters": {}}, "tool-name"),
    ({"name": "bad", "params": {}}, "tool"),
    ({"name": "bad", "parameters": {}, "input_schema": {}}, "tool"),
    ({"type": "function", "function": 1}, "tool"),
    ({"type": "web_search"}, "tool-type"),
    ({"type": "custom", "custom": {"name": "bad", "format": {"type": "grammar", "syntax": "peg"}}}, "tool"),
    (17, "tool"),
    (int, "tool"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "code"), BAD)
def test_a_bad_tool_does_not_take_the_others_down(bad: Any, code: str | None) -> None:
    with pytest.warns(gr.ToolWarning, match="left out"):
        calls = gr.tool_calls([TIME, bad, WEATHER], format="hermes", on_bad_tool="drop")
    assert [tool.name for tool in calls.tools] == ["get_time", "get_weather"]
    assert len(calls.dropped) == 1
    ((name, error),) = calls.dropped.items()
    assert name in ("bad", "bad name", "get_time", "int", "tool 1")
    assert code is None or error.code == code
    assert calls.matches(one_call("hermes"))
    with pytest.raises(gr.ToolError) as caught:
        gr.tool_calls([TIME, bad, WEATHER], format="hermes")
    assert caught.value.code == error.code and name.split(" (")[0] in str(caught.value)


def test_a_bad_tool_that_is_needed_raises() -> None:
    bad = {"name": "bad", "parameters": {"type": "objec"}}
    with pytest.raises(gr.ToolError, match="'bad'"):
        gr.tool_calls([TIME, bad], format="hermes", choice="bad", on_bad_tool="drop")
    with pytest.warns(gr.ToolWarning), pytest.raises(gr.ToolError) as caught:
        gr.tool_calls([bad], format="hermes", choice="required", on_bad_tool="drop")
    assert caught.value.code == "tool-choice"
    with pytest.warns(gr.ToolWarning):
        calls = gr.tool_calls([bad], format="hermes", on_bad_tool="drop")
    assert calls.matches("only text") and not calls.matches("<tool_call>")


@pytest.mark.parametrize(
    "options",
    [
        {"choice": "none_such"},
        {"choice": 3},
        {"choice": {"type": "function"}},
        {"reasoning": "much"},
        {"max_reasoning_tokens": 5},
        {"reasoning": "required", "max_reasoning_tokens": -1},
        {"reasoning": "required", "max_reasoning_tokens": True},
        {"format": "llama3", "reasoning": "required"},
        {"on_bad_tool": "ignore"},
    ],
)
def test_choices_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(gr.ToolError) as caught:
        gr.tool_calls(TOOLS, **{"format": "hermes", **options})
    assert caught.value.code == "tool-choice"


def test_options_are_checked_before_any_tool() -> None:
    with pytest.raises(gr.CompileError), warnings.catch_warnings():
        warnings.simplefilter("error")
        gr.tool_calls(TOOLS, format="hermes", layout="wide")
    assert gr.tool_calls(TOOLS, format="hermes", layout="compact").matches(
        '<tool_call>\n{"name": "get_time", "arguments": {"zone":"UTC"}}\n</tool_call>'
    )


def test_calls_are_values() -> None:
    first, second = (gr.tool_calls([*TOOLS, forecast], format="glm-4.5", reasoning=True) for _ in range(2))
    assert first == second and hash(first) == hash(second)
    assert first != gr.tool_calls([*TOOLS, forecast], format="glm-4.5")
    again = pickle.loads(pickle.dumps(first))
    assert again == first
    assert again.parse("<think>x</think>\nHi").reasoning == "x"


# -- user-defined formats -------------------------------------------------------------------------------------------
MINE = {"name": "mine", "call": "CALL ${name}(${arguments})", "separator": "; "}


def test_a_format_of_ones_own(tmp_path: Path) -> None:
    text = 'Well, CALL get_time({"zone": "UTC"}); CALL get_time({"zone": ""})'
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINE), encoding="utf-8-sig")  # as editors on Windows write it
    for form in (MINE, path):
        calls = gr.tool_calls(TOOLS, format=form)
        assert calls.matches(text)
        assert [c.arguments for c in calls.parse(text).calls] == [{"zone": "UTC"}, {"zone": ""}]
        assert not calls.matches("CALL me")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("none-such", "there are"),
        (3, "dict"),
        (Path("none-such.json"), "cannot be read"),
        ({**MINE, "marker": "x"}, "'marker'"),
        ({**MINE, "call": "CALL ${name}"}, "once"),
        ({**MINE, "call": "${arguments} for ${name}"}, "before"),
        ({**MINE, "call": "${name}(${arguments})"}, "trigger"),
        ({**MINE, "call": "CALL ${name} ${no} ${arguments}"}, "slots"),
        ({**MINE, "call": "CALL ${name} ${id} ${arguments}"}, "id"),
        ({**MINE, "id": "("}, "id"),
        ({**MINE, "call": 1}, "string"),
        ({**MINE, "trigger": "TOOL"}, "trigger"),
        ({**MINE, "reasoning": {"begin": "<t>"}}, "end"),
        ({**MINE, "section": {"start": "<t>"}}, "section"),
        ({**MINE, "separator": "\ud800"}, "surrogates"),
        ({**MINE, "models": {1}}, "JSON values"),
        ({**MINE, "parallel": "no"}, "true or false"),
        ({**MINE, "parameters": {"open": "<${key}>", "close": "</a>", "escapes": {"<": {}}}}, "escapes"),
        ({**MINE, "parameters": {"open": "<${key}>", "close": "</a>", "escapes": None}}, "escapes"),
        ({**MINE, "parameters": {"open": "<${key}>", "close": "</a>", "sorted": 1}}, "true or false"),
        ({**MINE, "parameters": {"open": "<a>", "close": "</a>"}}, "key"),
        ({**MINE, "parameters": {"open": "<${key}>", "close": "</a>", "item": "<i>"}}, "item"),
        ({**MINE, "parameters": {"open": "<${key}>", "close": "</a>", "kinds": {"string": "s"}}}, "kind"),
    ],
)
def test_errors_of_formats(form: Any, message: str) -> None:
    with pytest.raises(gr.ToolError, match=message) as caught:
        gr.tool_calls(TOOLS, format=form)
    assert caught.value.code == "tool-format"


# -- invalid texts --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        '<tool_call>\n{"name": "none_such", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": [1]}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}}',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}} </tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}}\n</tool_call> and more',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone" "UTC"}}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": NaN}}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": 01}}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": "\\x"}}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": [}}}\n</tool_call>',
    ],
)
def test_texts_of_another_form_are_refused(text: str) -> None:
    calls = gr.tool_calls(TOOLS, format="hermes")
    assert not calls.matches(text)
    with pytest.raises(gr.ToolTextError) as caught:
        calls.parse(text)
    assert caught.value.code == "tool-text" and caught.value.span is not None


def test_names_that_begin_alike() -> None:
    tools = [{"name": name} for name in ("get", "get_all", "get_all_now")]
    for form in ("hermes", "glm-4.7", "kimi-k2", "mistral-v11"):
        for tool in tools:
            calls = gr.tool_calls(tools, format=form, choice=tool["name"], parallel=False)
            core = calls.program().core
            text = core.shortest(core.root, 4000)
            assert text is not None
            reader = gr.tool_calls(tools, format=form).reader()
            for c in text.decode():
                reader.feed(c)
            reader.close()
            assert [call.name for call in reader.snapshot().calls] == [tool["name"]]


def test_a_long_text_between_tags_is_told_while_it_grows() -> None:
    tool = {"name": "write", "parameters": {"type": "object", "properties": {
        "path": {"type": "string"}, "text": {"type": "string"}, "n": {"type": ["integer", "string"]}}}}  # fmt: skip
    reader = gr.tool_calls([tool], format="qwen3-coder").reader()
    reader.feed('<tool_call>\n<function=write>\n<parameter=path>\na "b"\n</parameter>\n<parameter=text>\n')
    told = [reader.feed(piece) for piece in ('one\n"two"', "\n</para", "graph>", "\n</parameter>\n", "<param")]
    assert ["".join(d.text for d in deltas) for deltas in told] == ['one\\n\\"two\\"', "", "\\n</paragraph>", '"', ""]
    assert reader.snapshot().calls[0].arguments == {"path": 'a "b"', "text": 'one\n"two"\n</paragraph>'}
    reader.feed("eter=n>\n12")
    assert "n" not in reader.snapshot().calls[0].arguments  # it may become a string, or another number
    reader.feed("\n</parameter>\n</function>\n</tool_call>")
    reader.close()
    call = reader.snapshot().calls[0]
    assert call.arguments == {"path": 'a "b"', "text": 'one\n"two"\n</paragraph>', "n": 12}
    assert json.loads(call.text) == call.arguments


def test_reading_takes_linear_time() -> None:
    tool = {"name": "write", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}
    for form, start, end in (
        (
            "qwen3-coder",
            "<tool_call>\n<function=write>\n<parameter=text>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
        ("hermes", '<tool_call>\n{"name": "write", "arguments": {"text": "', '"}}\n</tool_call>'),
    ):
        reader = gr.tool_calls([tool], format=form).reader()
        reader.feed(start)
        for _ in range(20_000):
            reader.feed("some ")
            assert len(reader._text) < 100
        reader.feed(end)
        reader.close()
        assert len(reader.snapshot().calls[0].arguments["text"]) == 100_000


@pytest.mark.parametrize(
    ("format", "tag", "around"),
    [
        (
            "qwen3-coder",
            "</parameter>",
            "<tool_call>\n<function=f>\n<parameter=q>\n{}\n</parameter>\n</function>\n</tool_call>",
        ),
        ("glm-4.5", "</arg_value>", "<tool_call>f\n<arg_key>q</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"),
        (
            "seed-oss",
            "</parameter>",
            "<seed:tool_call>\n<function=f>\n<parameter=q>{}</parameter>\n</function>\n</seed:tool_call>",
        ),
    ],
)
def test_no_string_contains_the_closing_tag_of_a_line(format: str, tag: str, around: str) -> None:
    """Other readers look for the tag, not for the line end that the template writes next to it."""
    listed = {"enum": [tag, f"a{tag}b", "x"]}
    for schema, written in (({"type": "string"}, "{}"), (listed, "{}"), ({"items": {"type": "string"}}, '["{}"]')):
        parameters = {"type": "object", "properties": {"q": schema}, "required": ["q"]}
        calls = gr.tool_calls([{"name": "f", "parameters": parameters}], format=format, choice="required")
        assert calls.matches(around.replace("{}", written.replace("{}", "x")))
        for text in (tag, f"a{tag}b", f"a\n{tag}" if written == "{}" else tag):
            assert not calls.matches(around.replace("{}", written.replace("{}", text)))
