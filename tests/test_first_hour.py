"""Mistakes of a first hour: each has an error of guiderail's own that says what happened and what to do."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import guiderail as gr

ANY: Any = gr
VOCABULARY = gr.Vocabulary(
    [b"{", b"}", b"a", b"<|eot_id|>"], special_tokens={"<|eot_id|>": 3}, stop_token_ids=[3], name="small"
)
GUIDE = gr.compile(gr.regex("a{2}"), VOCABULARY)


class Person:
    """Somebody."""

    def __init__(self, name: str) -> None:
        self.name = name


class Color(enum.Enum):
    RED = "red"


def tool(x: int) -> None: ...


def ended() -> gr.Matcher:
    matcher = GUIDE.matcher()
    assert all(matcher.accept_token(token) for token in (2, 2, 3))
    return matcher


def rows(dtype: Any = np.int32, shape: tuple[int, ...] = (1, 1)) -> Any:
    return np.zeros(shape, dtype=dtype)


ALLOCATE = "; allocate it with allocate_token_bitmask(batch, vocabulary.size)"
GRAMMAR = 'start ::= "a" more\nmore ::= "b"'

MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    # a vocabulary
    "no stop token": (lambda: ANY.Vocabulary([b"a"]), "argument", "needs 'stop_token_ids'; pass stop_token_ids=…"),
    "another name of the stop token": (
        lambda: ANY.Vocabulary([b"a"], eos_token_id=0),
        "argument",
        "has no argument 'eos_token_id'; write stop_token_ids",
    ),
    "the size by another name": (
        lambda: ANY.Vocabulary.from_huggingface("x", vocab_size=3),
        "argument",
        "no argument 'vocab_size'; write size, the width of the model's logits",
    ),
    "a method of a class, unknown argument": (
        lambda: ANY.Vocabulary.from_tiktoken("x", zzz=3),
        "argument",
        "has no argument 'zzz'; there are encoding, size, stop_token_ids, verify",
    ),
    "the name of a model": (
        lambda: gr.compile("a" | gr.empty(), "owner/model"),
        "bad-tokenizer-file",
        "there is no file 'owner/model', and nothing is downloaded; pass the path",
    ),
    "tokens in place of a tokenizer": (
        lambda: gr.Vocabulary.from_huggingface(["a"]),
        "unsupported-tokenizer",
        "not list; or pass the bytes of the tokens: gr.Vocabulary(tokens, …)",
    ),
    # what is compiled
    "no vocabulary": (lambda: ANY.compile("a"), "argument", "compile needs 'vocabulary'; pass vocabulary=…; gr.Vocab"),
    "a class as the vocabulary": (
        lambda: gr.compile(VOCABULARY, Person),
        "not-a-constraint",
        "not a vocabulary; the constraint comes first",
    ),
    "a tokenizer and a class, exchanged": (
        lambda: gr.compile("a", Person),
        "not-a-constraint",
        "gr.regex(...) or gr.literal(...) make one from a string",
    ),
    "a value in place of its class": (
        lambda: gr.compile(Person("Ada"), VOCABULARY),
        "type-unsupported",
        "is a value of Person, not a type; pass the class Person itself",
    ),
    "a misspelled keyword": (
        lambda: gr.compile({"typ": "object"}, VOCABULARY),
        "not-a-constraint",
        "none of its keys ('typ') is a keyword of JSON Schema; did you mean 'type' by 'typ'?",
    ),
    "properties without their schema": (
        lambda: gr.compile({"name": {"type": "string"}}, VOCABULARY),
        "not-a-constraint",
        'did you mean {"type": "object", "properties": {…}}?',
    ),
    "a misspelled special token": (
        lambda: gr.compile(gr.special_token("<|eot|>"), VOCABULARY),
        "unknown-token",
        "no special token '<|eot|>'; did you mean '<|eot_id|>'?",
    ),
    "a special token like no other": (
        lambda: gr.compile(gr.special_token("zzz"), VOCABULARY),
        "unknown-token",
        "no special token 'zzz'; its special_tokens lists those it has",
    ),
    "an option of a schema by its keyword": (
        lambda: ANY.json_schema({}, additionalProperties=False),
        "bad-schema-option",
        "write closed=True",
    ),
    "a pattern in a union": (lambda: ANY.literal("a") | re.compile("b"), "not-a-constraint", "pass gr.regex(pattern)"),
    "a schema in a union": (lambda: ANY.literal("a") | {"type": "null"}, "not-a-constraint", "gr.json_schema(schema)"),
    "a type in a sequence": (lambda: ANY.literal("a") + int, "not-a-constraint", "gr.python_type(…)"),
    "a number in a sequence": (lambda: ANY.literal("a") + 3, "not-a-constraint", "wrap it, e.g. gr.literal("),
    "a constraint in a condition": (
        lambda: gr.regex("a") and gr.regex("b"),
        "truth-value",
        "a constraint is neither true nor false; write a & b for both",
    ),
    "members of an enumeration as choices": (
        lambda: ANY.choice(Color),
        "bad-choice",
        "choice takes strings, but option 0 is <Color.RED: 'red'>; pass its value",
    ),
    "a program in place of its constraint": (
        lambda: gr.compile(gr.regex("a").program(), VOCABULARY),
        "not-a-constraint",
        "not its program; pass program.constraint",
    ),
    "a constraint as the type of a member": (
        lambda: gr.python_type(gr.regex("a")),
        "type-unsupported",
        "this is a constraint, not a type; for a string that follows it write Annotated[str, …]",
    ),
    "a schema in place of a type": (
        lambda: gr.read({"type": "integer"}, "3"),
        "type-unsupported",
        "read takes a Python type, not a JSON Schema; matches(text) of a constraint checks a text, and json.loads",
    ),
    # a grammar
    "another start rule": (
        lambda: gr.grammar(GRAMMAR, "gbnf"),
        "grammar-start",
        "no rule 'root' to start from; pass the rule to start from, such as start='start', or rename it to 'root'",
    ),
    "a misspelled start rule": (
        lambda: gr.grammar(GRAMMAR, "gbnf", start="mroe"),
        "grammar-start",
        "such as start='more', or rename it to 'mroe'",
    ),
    "another start rule in Lark": (
        lambda: gr.grammar('begin: "a"', "lark"),
        "lark-start",
        "no rule 'start' to start from; pass the rule to start from, such as start='begin'",
    ),
    # tools
    "no format": (
        lambda: ANY.tool_calls([tool]),
        "argument",
        "tool_calls needs 'format'; pass format=…; gr.tool_formats()",
    ),
    "an unknown tool": (
        lambda: gr.tool_calls([tool], format="hermes", choice="tol"),
        "tool-choice",
        "the name of a tool, and there is no tool 'tol'; did you mean 'tool'?",
    ),
    "a misspelled type in a tag": (
        lambda: gr.structural_tag({"type": "structural_tag", "format": {"type": "json_shema"}}),
        "structural-tag-type",
        "the format has the unknown type 'json_shema'; did you mean 'json_schema'?",
    ),
    "a tool that is a value": (
        lambda: gr.tool_calls([Person("Ada")], format="hermes"),
        "tool",
        "tool 0 (counted from 0): a tool must be a dict in the form of OpenAI, Anthropic, Gemini or Bedrock, a "
        "function, a pydantic model or a dataclass, not an instance of Person; pass the class",
    ),
    # masks
    "logits in place of a mask": (
        lambda: GUIDE.matcher().fill_next_token_bitmask(rows(np.float32)),
        "bitmask-dtype",
        "the bitmask holds float32, not int32" + ALLOCATE,
    ),
    "a list in place of a mask": (
        lambda: GUIDE.matcher().fill_next_token_bitmask([[0]]),
        "bitmask-array",
        "must be a NumPy array or a tensor in CPU memory, not list" + ALLOCATE,
    ),
    "rows that overlap": (
        lambda: GUIDE.matcher().fill_next_token_bitmask(rows(shape=(1, 4))[:, ::2]),
        "bitmask-shape",
        "must have shape (words,) or (batch, words), with contiguous rows that do not overlap" + ALLOCATE,
    ),
    "too few words": (
        lambda: GUIDE.matcher().fill_next_token_bitmask(rows(shape=(1, 0))),
        "bitmask-shape",
        "0 words per row, but the vocabulary needs 1" + ALLOCATE,
    ),
    "a row too many": (
        lambda: gr.fill_next_token_bitmasks([GUIDE.matcher(), GUIDE.matcher()], rows()),
        "bitmask-row",
        "the bitmask has no row 1: it has 1, counted from 0; allocate one row for each text",
    ),
    "None among matchers": (
        lambda: ANY.fill_next_token_bitmasks([GUIDE.matcher(), None], rows(shape=(2, 1))),
        "matcher-none",
        "matcher 1 is None; leave it out, and pass the rows of the others as rows=",
    ),
    "a finished matcher": (
        lambda: gr.fill_next_token_bitmasks([ended()], rows()),
        "matcher-terminated",
        "matcher 0 has terminated; leave it out, and pass the rows of the others as rows=",
    ),
    # tokens
    "a token after the end": (
        lambda: ended().accept_token(2),
        "matcher-terminated",
        "accept_token: the text has ended with a stop token; call reset() or rollback() first",
    ),
    "a token of another vocabulary": (
        lambda: GUIDE.matcher().accept_token(4),
        "matcher-token",
        "there is no token 4: the vocabulary has the ids 0 to 3",
    ),
    "a text in place of a token": (
        lambda: ANY.compile(gr.regex("a{2}"), VOCABULARY).matcher().accept_token("a"),
        "argument",
        "accept_token takes (int), and was given (str)",
    ),
    "XGrammar's name of the row": (
        lambda: ANY.compile(gr.regex("a{2}"), VOCABULARY).matcher().fill_next_token_bitmask(rows(), index=0),
        "argument",
        "fill_next_token_bitmask has no argument 'index'; it takes (bitmask: object, row: int = 0",
    ),
    "a name where none is taken": (
        lambda: ANY.compile(gr.regex("a{2}"), VOCABULARY).matcher().accept_token(token=0),
        "argument",
        "accept_token has no argument 'token'; it takes (int)",
    ),
    "more steps back than there are": (
        lambda: GUIDE.matcher().rollback(1),
        "matcher-rollback",
        "cannot roll back 1 steps: the matcher has read 0; pass a number from 0 to that",
    ),
    # models
    "llama.cpp's name of an option": (
        lambda: ANY.load_model("x.gguf", n_gpu_layers=1),
        "argument",
        "has no argument 'n_gpu_layers'; write gpu_layers",
    ),
    "prompt and model, exchanged": (
        lambda: ANY.generate(None, Person, "Hello"),
        "bad-prompt",
        "the model comes first, then the prompt, then the target",
    ),
    "a message in place of a list of them": (
        lambda: ANY.generate(None, {"role": "user", "content": "Hello"}, "a"),
        "bad-prompt",
        "not dict; put the message into a list",
    ),
    "a matcher in place of its guide": (
        lambda: ANY.generate(None, "Hello", GUIDE.matcher()),
        "not-a-constraint",
        "a matcher follows one text; pass its guide, matcher.guide",
    ),
    "no prompt": (
        lambda: ANY.generate(None),
        "argument",
        "generate needs 'prompt' and 'target'; pass prompt=… and target=…",
    ),
}


def test_encodings_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("tiktoken")
    for name, says in (
        ("gpt-4o", "no encoding 'gpt-4o'; that is a model, and its encoding is 'o200k_base'"),
        ("cl100k", "no encoding 'cl100k'; did you mean 'cl100k_base'?"),
    ):
        with pytest.raises(gr.VocabularyError, match=re.escape(says)):
            gr.Vocabulary.from_tiktoken(name)

    def offline(name: str) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(library, "get_encoding", offline)
    with pytest.raises(gr.VocabularyError, match="cannot load the encoding 'gpt2': ConnectionError: no network; it "):
        gr.Vocabulary.from_tiktoken("gpt2")


def test_names_of_ready_patterns_and_grammars() -> None:
    assert dir(gr.patterns) == sorted(gr.patterns.__all__) and "sql" in dir(gr.grammars)
    for module, name, says in (
        (gr.patterns, "phone", "did you mean 'phone_e164'?"),
        (gr.grammars, "javascript", "there are arithmetic, c, csv"),
    ):
        with pytest.raises(AttributeError, match=re.escape(says)):
            getattr(module, name)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, code, says = MISTAKES[name]
    with pytest.raises(gr.GuiderailError) as caught:
        call()
    assert (caught.value.code, says in str(caught.value)) == (code, True), str(caught.value)


RESULTS = "Constraint Draw Estimate Explanation Generation GrammarConstraint GrammarReport JsonSchema Mass MemoryUse \
Particle Probabilities PythonType Snapshot Stream TokenLogprob Tool ToolCall ToolCallReader ToolCalls ToolDelta \
ToolText ValueStream XmlSchema"
"""Classes that guiderail makes, not its users."""

OWN_WAYS = "Ref SchemaOptions XmlSchemaOptions agenerate agenerations max_work"
"""Data classes, coroutines and a context manager: Python's own message about their arguments is kept."""


@pytest.mark.parametrize(
    "module",
    [
        "guiderail",
        "guiderail.grammars",
        "guiderail.patterns",
        "guiderail.integrations.llama_cpp",
        "guiderail.integrations.mlx",
        "guiderail.integrations.onnxruntime_genai",
        "guiderail.integrations.transformers",
    ],
)
def test_functions_name_an_argument_that_they_do_not_have(module: str) -> None:
    holder = {"guiderail.grammars": gr.grammars, "guiderail.patterns": gr.patterns}.get(module)
    holder = importlib.import_module(module) if holder is None else holder
    for name in holder.__all__:
        value = getattr(holder, name)
        is_error = inspect.isclass(value) and issubclass(value, BaseException)
        if not callable(value) or is_error or name in (*RESULTS.split(), *OWN_WAYS.split()):
            continue
        with pytest.raises(gr.GuiderailError) as caught:
            value(zzz_unknown=1)
        assert "zzz_unknown" in str(caught.value) or "needs" in str(caught.value)


ATTRIBUTES: dict[str, tuple[Callable[[], Any], str]] = {
    "re": (lambda: ANY.regex("a").fullmatch("a"), "'Regex' object has no attribute 'fullmatch'; matches(text) says"),
    "a compiler": (lambda: ANY.json_schema({}).compile(VOCABULARY), "; gr.compile(constraint, vocabulary) compiles it"),
    "a reader of a schema": (lambda: ANY.json_schema({}).read("1"), "; matches(text) checks a text; json.loads reads"),
    "a guide that matches": (
        lambda: ANY.compile("a" | gr.empty(), VOCABULARY).matches("a"),
        "guide.constraint.matches",
    ),
    "llguidance: consume_token": (lambda: GUIDE.matcher().consume_token(1), "; accept_token(id) reads a token"),  # type: ignore[attr-defined]
    "llguidance: compute_mask": (lambda: GUIDE.matcher().compute_mask(), "; fill_next_token_bitmask(bitmask, row)"),  # type: ignore[attr-defined]
    "outlines: is_finished": (lambda: GUIDE.matcher().is_finished(), "; is_terminated() says"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_of_other_libraries(name: str) -> None:
    call, says = ATTRIBUTES[name]
    with pytest.raises(AttributeError, match=re.escape(says)):
        call()


SCHEMA = {"type": "string", "maxLenght": 3, "maxLength": 1}
UNENFORCED = {"type": "string", "pattern": r"^(a+|b)\1$"}
WARNED: dict[str, Callable[[], Any]] = {
    "a misspelled keyword": lambda: gr.compile(SCHEMA, VOCABULARY, cache=False),
    "a schema within an object": lambda: gr.json_schema({"name": "x", "schema": {"type": "string"}}),
    "a keyword that is not enforced": lambda: gr.json_schema(UNENFORCED, on_unsupported="warn").program(),
    "a tool that is left out": lambda: gr.tool_calls(
        [tool, {"name": "bad", "parameters": {"type": "object", "properties": {"a": {"pattern": "("}}}}],
        format="hermes",
        on_bad_tool="drop",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_warnings_point_to_the_code_of_the_user(name: str) -> None:
    with pytest.warns(UserWarning) as caught:
        WARNED[name]()
    assert {warning.filename for warning in caught} == {__file__}
