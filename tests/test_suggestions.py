"""An unknown name is answered with the known one that it resembles, or with all of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import guiderail as gr
from guiderail.support import other_names
from guiderail.support.suggestions import resembling


def tool(x: int) -> None: ...


def schema(contents: dict[str, Any]) -> Callable[[], Any]:
    return lambda: gr.json_schema(contents).program()


UNKNOWN: dict[str, tuple[Callable[[], Any], str]] = {
    "option of generate": (lambda: gr.generate(None, "x", ["a"], temprature=1), "did you mean 'temperature'?"),  # type: ignore[call-arg]
    "option of json_schema": (lambda: gr.json_schema({}, layot="compact"), "did you mean 'layout'?"),  # type: ignore[call-arg]
    "option like no other": (lambda: gr.json_schema({}, zzz=1), "there are base_uri, "),  # type: ignore[call-arg]
    "option of tool_calls": (
        lambda: gr.tool_calls([tool], format="hermes", paralel=False),
        "tool_calls has no option 'paralel'; did you mean 'parallel'?",
    ),
    "option of python_type": (lambda: gr.python_type(int, default="write"), "did you mean 'defaults'?"),
    "option of a tag without schemas": (
        lambda: gr.structural_tag({"type": "any_text"}, layot="compact"),
        "structural_tag has no option 'layot'; did you mean 'layout'?",
    ),
    "option of read": (lambda: gr.read(int, "1", notaton="yaml"), "did you mean 'notation'?"),
    "option of xml_schema": (lambda: gr.xml_schema("<x/>", layuot="compact"), "did you mean 'layout'?"),  # type: ignore[call-arg]
    "tool format": (lambda: gr.tool_calls([tool], format="Hermess"), "did you mean 'hermes'?"),
    "tool format like no other": (lambda: gr.tool_calls([tool], format="zzzzzz"), "there are apertus, "),
    "tool format, a file": (lambda: gr.tool_calls([tool], format="my.json"), "pass a file as pathlib.Path(…)"),
    "tool": (lambda: gr.tool_calls([tool], format="hermes", choice="tol"), "did you mean 'tool'?"),
    "reference": (schema({"$ref": "#/$defs/Persn", "$defs": {"Person": {}}}), "did you mean '#/$defs/Person'?"),
    "reference of another draft": (
        schema({"$ref": "#/definitions/a~1b", "$defs": {"a/b": {}}}),
        "did you mean '#/$defs/a~1b'?",
    ),
    "reference of OpenAPI": (
        schema({"$ref": "#/components/schemas/Pets", "components": {"schemas": {"Pet": {}}}}),
        "did you mean '#/components/schemas/Pet'?",
    ),
    "reference without its place": (schema({"$ref": "#A", "$defs": {"A": {}}}), "did you mean '#/$defs/A'?"),
    "reference like no other": (schema({"$ref": "#/$defs/x", "$defs": {"A": {}}}), "nothing at that location ["),
    "public name": (lambda: gr.json_schem, "module 'guiderail' has no attribute 'json_schem'"),
    "argument": (lambda: gr.regex("a", max_lenght=3), "regex has no argument 'max_lenght'; did you mean 'max_length'?"),  # type: ignore[call-arg]
}

ANY: Any = gr
MATCHER: Any = gr.compile("a" | gr.empty(), gr.Vocabulary([b"a", b"</s>"], stop_token_ids=[1])).matcher()
ELSEWHERE: dict[str, tuple[Callable[[], Any], str]] = {
    "outlines: generate.json": (lambda: ANY.json({}), "; gr.json_schema(schema) makes"),
    "outlines: from_transformers": (lambda: ANY.from_transformers(1, 2), "; gr.load_model(…) loads a model"),
    "outlines: types": (lambda: ANY.types.integer, "; gr.python_type(int) makes"),
    "outlines: CFG": (lambda: ANY.CFG("start: A"), '; gr.grammar(text, "lark") reads a grammar'),
    "outlines: output_type": (lambda: ANY.generate(None, "x", output_type=int), "not output_type=…; gr.generate(model"),
    "instructor: response_model": (lambda: ANY.generate(None, "x", response_model=int), "not response_model=…; "),
    "instructor: patch": (lambda: ANY.patch(None), "; guiderail constrains models that run here"),
    "guidance: select": (lambda: ANY.select(["a"]), "; gr.choice([…]) takes one"),
    "guidance: gen": (lambda: ANY.gen("x"), "; gr.generate(model, prompt, target) generates"),
    "guidance: one_or_more": (lambda: ANY.one_or_more("a"), "; gr.repeat(item, least, most)"),
    "lm-format-enforcer: JsonSchemaParser": (lambda: ANY.JsonSchemaParser({}), "; gr.json_schema(schema)"),
    "llama-cpp-python: LlamaGrammar": (lambda: ANY.LlamaGrammar, '; gr.grammar(text, "lark")'),
    "llama-cpp-python: response_format": (
        lambda: ANY.generate(None, "x", response_format={}),
        "without what is around",
    ),
    "OpenAI: tools": (lambda: ANY.generate(None, "x", tools=[]), "gr.tool_calls(tools, format=…)"),
    "vLLM: guided_regex": (lambda: ANY.stream(None, "x", guided_regex="a"), "gr.generate(model, prompt, gr.regex("),
    "no target": (lambda: ANY.generations(None, ["x"]), "generations needs a target after the prompt: a JSON Schema"),
    "transformers: max_new_tokens": (lambda: ANY.generate(None, "x", int, max_new_tokens=1), "; write max_tokens"),
    "a schema and a target": (lambda: ANY.generate(None, "x", int, schema={}), "has no option 'schema'; gr.generate("),
    "OpenAI: strict": (lambda: ANY.json_schema({}, strict=True), "; write closed=True"),
    "re: ignore_case": (
        lambda: ANY.regex("a", ignore_case=True),
        "regex has no argument 'ignore_case'; write flags=\"i\"",
    ),
    "several strings": (lambda: ANY.choice("a", "b"), "(options), and was given 2; pass several values as one list"),
    "several constraints": (
        lambda: ANY.infill("a", "b"),
        "infill takes 1 argument by position (constraint), and was given 2; pass the others by name",
    ),
    "an argument twice": (
        lambda: ANY.regex("a", pattern="b"),
        "regex has 'pattern' twice: by its position, and by its name; leave one out",
    ),
    "a flag of compile": (lambda: ANY.compile(ANY.regex("a"), MATCHER.guide.vocabulary, canonical="no"), "not 'no'"),
    "a flag of tool_calls": (lambda: ANY.tool_calls([tool], format="hermes", parallel="no"), "parallel must be True"),
    "a flag of separated_by": (lambda: ANY.separated_by("a", ",", trailing={}), "trailing must be True or False"),
    "a flag of text_until": (lambda: ANY.text_until("a", include_stop=[]), "include_stop must be True or False"),
    "a flag of base64": (lambda: ANY.patterns.base64(url_safe="yes"), "url_safe must be True or False"),
    "one of no strings": (lambda: ANY.choice(["a", None]), "choice takes strings, but option 1 is None"),
    "OpenAI: tool_choice": (
        lambda: ANY.tool_calls([tool], format="hermes", tool_choice="auto"),
        "no option 'tool_choice'; write choice",
    ),
    "OpenAI: parallel_tool_calls": (
        lambda: ANY.tool_calls([tool], format="hermes", parallel_tool_calls=False),
        "; write parallel",
    ),
    "outlines: get_next_instruction": (lambda: MATCHER.guide.get_next_instruction(0), "; matcher() makes"),
    "an attribute like no other": (lambda: MATCHER.zzz, "'Matcher' object has no attribute 'zzz'"),
}
"""What those write who know another library, and a part of the answer."""


@pytest.mark.parametrize("name", ELSEWHERE)
def test_names_of_other_libraries(name: str) -> None:
    call, says = ELSEWHERE[name]
    with pytest.raises((gr.GuiderailError, AttributeError)) as caught:
        call()
    assert says in str(caught.value)


def test_what_is_suggested_exists() -> None:
    for said in (*other_names.LIBRARY.values(), *other_names.TARGETS.values()):
        for name in re.findall(r"gr\.(\w+)", said):
            assert hasattr(gr, name)
    for name in other_names.LIBRARY:
        assert not hasattr(gr, name)
    assert inspect.signature(gr.generate).parameters["target"].default is inspect.Parameter.empty
    assert not hasattr(MATCHER, "advance")


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_names(name: str) -> None:
    call, says = UNKNOWN[name]
    with pytest.raises((gr.GuiderailError, AttributeError)) as caught:
        call()
    assert says in str(caught.value)


def test_case_does_not_count_and_nothing_is_guessed() -> None:
    assert resembling("TEMPERATUR", ["top_p", "Temperature"]) == "Temperature"
    assert resembling("x", ["temperature"]) is None
    assert resembling("temperature" * 1000, ["temperature"]) is None
