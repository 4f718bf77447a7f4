"""Everything that is accepted as a constraint, and the order and layout in which a model then writes."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import guiderail as gr
from core_support import byte_vocabulary
from guiderail.frontends.given import constraint_of, written_by_model
from guiderail.generation.targets import as_constraint
from guiderail.integrations._rows import as_guides
from guiderail.vocabulary import adapted

SIZE: dict[str, Any] = {
    "type": "object",
    "properties": {"w": {"type": "integer"}, "h": {"type": "integer"}},
    "required": ["w", "h"],
}
DECLARED, OTHER = '{"w": 3, "h": 4}', '{"h": 4, "w": 3}'
COMPACT, MIXED = '{"w":3,"h":4}', '{"w":3, "h": 4}'
VOCABULARY = byte_vocabulary()


def takes(source: Any, texts: tuple[str, ...] = (DECLARED, OTHER)) -> list[bool]:
    """Returns which of the texts can be written: by default, members in the declared and in another order."""
    guide = source if isinstance(source, gr.Guide) else gr.compile(source, VOCABULARY)
    found = []
    for text in texts:
        matcher = guide.matcher()
        found.append(all(matcher.accept_token(byte) for byte in text.encode()) and matcher.is_accepting())
    return found


@pytest.mark.parametrize(
    ("given", "orders"),
    [
        (SIZE, [True, False]),
        (gr.json_schema(SIZE), [True, False]),
        (gr.json_schema(SIZE, layout="flexible"), [True, False]),
        (gr.json_schema(json.dumps(SIZE), format="annotate"), [True, False]),
        (gr.json_schema(SIZE, property_order="declared"), [True, False]),
        (gr.json_schema(SIZE, property_order="any"), [True, True]),
        (gr.json_schema(SIZE) | "none", [True, False]),
        (gr.literal("") + gr.json_schema(SIZE).optional() + gr.separated_by("x", gr.json_schema(SIZE)), [True, False]),
        (gr.json_schema(SIZE, property_order="any") | "x", [True, True]),
    ],
)
def test_the_order_that_a_model_writes(given: Any, orders: list[bool]) -> None:
    assert takes(as_constraint(given)) == orders  # generate, stream, inspect, batches
    assert takes(as_guides(given, VOCABULARY)[0]) == orders  # logits processors


@dataclasses.dataclass
class Size:
    w: int
    h: int


@pytest.mark.parametrize(
    ("given", "layouts"),
    [
        (SIZE, "spaced"),
        (Size, "spaced"),
        (gr.json_schema(SIZE), "spaced"),
        (gr.json_schema(SIZE, property_order="any"), "spaced"),
        (gr.python_type(Size), "spaced"),
        (gr.python_type(Size) | "none", "spaced"),
        (gr.grammar("start: %json " + json.dumps(SIZE), "lark"), "spaced"),
        (gr.grammar("start: @size", "lark", constraints={"size": gr.python_type(Size)}), "spaced"),
        (gr.json_schema(SIZE, layout="compact"), "compact"),
        (gr.python_type(Size, layout="compact"), "compact"),
        (gr.json_schema(SIZE, separators=(",", ":")), "compact"),
        (gr.json_schema(SIZE, layout="flexible"), "flexible"),
        (gr.json_schema(SIZE, layout="free"), "flexible"),
        (gr.grammar("start: %json " + json.dumps(SIZE), "lark", schema_options={"layout": "flexible"}), "flexible"),
    ],
)
def test_the_layout_that_a_model_writes(given: Any, layouts: str) -> None:
    known = {"spaced": [True, False, False], "compact": [False, True, False], "flexible": [True, True, True]}
    written = known[layouts]
    texts = (DECLARED, COMPACT, MIXED)
    assert takes(as_constraint(given), texts) == written
    assert takes(as_guides(given, VOCABULARY)[0], texts) == written
    expected = written if layouts == "compact" else [True, True, True]
    assert takes(given, texts) == expected  # a compiled constraint is used as it is


def test_content_beside_tool_calls_is_written_like_any_other() -> None:
    def weather(city: str) -> None: ...

    calls = gr.tool_calls([weather], format="hermes", content=gr.json_schema(SIZE))
    written = as_constraint(calls)
    assert isinstance(written, gr.Constraint) and written.as_written() is written
    assert [written.matches(text) for text in (DECLARED, OTHER, COMPACT)] == [True, False, False]
    assert [calls.matches(text) for text in (DECLARED, OTHER, COMPACT)] == [True, True, True]
    for arguments in ('{"city": "Oslo"}', '{"city":"Oslo"}'):
        call = f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'
        assert written.matches(call) and calls.matches(call)
    plain = gr.tool_calls([weather], format="hermes")
    assert plain.as_written() is plain


@pytest.mark.parametrize("around", [('{"w":', ',"h":4}'), ('{"w": ', ', "h": 4}'), ('{"h":4, "w":', "}")])
def test_the_text_around_an_infill_decides_the_layout(around: tuple[str, str]) -> None:
    digit = {"type": "integer", "minimum": 0, "maximum": 9}
    size = gr.json_schema({**SIZE, "properties": {"w": digit, "h": digit}, "additionalProperties": False})
    before, after = around
    assert takes(as_constraint(gr.infill(size, before=before, after=after)), ("3", "x")) == [True, False]


FLAT = {**SIZE, "additionalProperties": False}
TURNED = {**FLAT, "properties": dict(reversed(FLAT["properties"].items()))}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda s, t: s & gr.any_text(), [True, False, False]),
        (lambda s, t: s.limited_to(20), [True, False, False]),
        (lambda s, t: s & gr.regex("[^ ]*"), [False, False, True]),  # no text with the usual spaces
        (lambda s, t: s & gr.regex(r'\{"h".*'), [False, True, False]),  # nor in the usual order
        (lambda s, t: s & t, [True, False, False]),  # the first schema decides on the order
        (lambda s, t: t & s, [False, True, False]),
        (lambda s, t: ~gr.regex(".* .*") & s, [False, False, True]),
    ],
)
def test_one_part_of_an_intersection_decides_how_it_is_written(made: Any, expected: list[bool]) -> None:
    both = made(gr.json_schema(FLAT), gr.json_schema(TURNED))
    written = as_constraint(both)
    texts = (DECLARED, OTHER, COMPACT)
    assert [written.matches(text) for text in texts] == expected
    assert all(both.matches(text) for text, one in zip(texts, expected, strict=True) if one)
    assert written.as_written() is written and pickle.loads(pickle.dumps(written)) == written
    assert gr.compile(written, VOCABULARY).matcher().accept_string(texts[expected.index(True)])


def test_a_type_remembers_how_it_is_written() -> None:
    written = as_constraint(gr.python_type(Size, defaults="write"))
    assert isinstance(written, gr.PythonType) and written.read(MIXED) == Size(3, 4)
    assert written != gr.python_type(Size) and written.as_written() is written
    assert pickle.loads(pickle.dumps(written)) == written


@pytest.mark.parametrize("notation", ["yaml", "python"])
def test_other_notations_are_written_as_they_match(notation: str) -> None:
    written = as_constraint(gr.json_schema(SIZE, notation=notation))
    assert isinstance(written, gr.Constraint)
    assert written.matches({"yaml": '"w": 3\n"h": 4', "python": DECLARED}[notation])
    assert not written.matches(COMPACT)


def test_what_is_read_may_have_any_order() -> None:
    schema = gr.json_schema(SIZE)
    assert takes(schema) == [True, True] and schema.matches(OTHER)
    assert takes(gr.json_schema(SIZE, property_order="declared")) == [True, False]
    other = ~gr.json_schema(SIZE)
    assert written_by_model(other) is other  # an order must add no texts


def test_what_is_written_is_remembered() -> None:
    schema = gr.json_schema(SIZE)
    assert schema.as_written() is schema.as_written() and schema.as_written().as_written() is schema.as_written()
    text = gr.regex("a") + "b"
    assert text.as_written() is text


def test_deep_constraints_are_refused_as_elsewhere() -> None:
    deep: gr.Constraint = gr.literal("a")
    for _ in range(100_000):
        deep = (deep | "b") + "c"
    with pytest.raises(gr.LimitError) as caught:
        as_constraint(deep)
    assert caught.value.code == "depth"


@pytest.mark.parametrize(
    ("given", "text"),
    [(["yes", "no"], "no"), (("a",), "a"), (Literal["x"], '"x"'), (int, "3"), (gr.regex("a+"), "aa"), (SIZE, DECLARED)],
)
def test_what_may_be_given(given: Any, text: str) -> None:
    assert constraint_of(given).matches(text)
    assert as_constraint(given).matches(text)  # type: ignore[union-attr]


def test_texts_to_choose_from_are_one_target() -> None:
    assert as_constraint(["yes", "no"]).reading().read("yes") == "yes"
    assert [guide.constraint for guide in as_guides(["yes", "no"], VOCABULARY)] == [gr.choice(["yes", "no"])]
    assert len(as_guides([["yes", "no"], SIZE], VOCABULARY)) == 2


@pytest.mark.parametrize("given", [None, "a", b"a", 3, [], [1, "a"], {}, {"name": "string"}, {"a", "b"}])
def test_what_may_not_be_given(given: Any) -> None:
    with pytest.raises(gr.CompileError) as caught:
        constraint_of(given)
    assert caught.value.code == "not-a-constraint"
    assert "properties" in caught.value.message or not isinstance(given, dict) or not given


# -- compile ---------------------------------------------------------------------------------------------------------
def test_compile_takes_what_generate_takes() -> None:
    assert takes(gr.compile(SIZE, VOCABULARY)) == [True, False]
    assert gr.compile(["yes", "no"], VOCABULARY) is gr.compile(gr.choice(["yes", "no"]), VOCABULARY)
    assert gr.compile(Literal["x"], VOCABULARY).constraint == gr.python_type(Literal["x"])
    with pytest.raises(gr.CompileError, match="regex"):
        gr.compile("a+", VOCABULARY)


def tokenizer(library: Any, *added: str) -> Any:
    pieces = ["</s>", "yes", "no", *added]
    made = library.Tokenizer(library.models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="</s>"))
    made.decoder = library.decoders.Fuse()
    made.add_special_tokens(["</s>"])
    return made


def test_compile_takes_a_tokenizer(tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers")
    made = tokenizer(library)
    guide = gr.compile(["yes", "no"], made)
    assert gr.compile(["yes", "no"], made) is guide and gr.compile(["yes"], made).vocabulary is guide.vocabulary
    assert as_guides(["yes", "no"], made)[0] is guide
    assert guide.matcher().accept_token(1)
    made.add_tokens(["maybe"])
    assert gr.compile(["maybe"], made).vocabulary.token_count == 4
    file = tmp_path / "tokenizer.json"
    made.save(str(file))
    read = gr.compile(["no"], file)
    assert gr.compile(["no"], file) is read and gr.compile(["no"], str(tmp_path)).vocabulary == read.vocabulary
    gr.clear_cache()
    assert gr.compile(["no"], file).vocabulary is not read.vocabulary


def test_compile_takes_a_model() -> None:
    class Model:
        vocabulary = VOCABULARY

    assert gr.compile(["yes", "no"], Model()) is gr.compile(["yes", "no"], VOCABULARY)
    assert as_guides(["yes", "no"], Model())[0] is gr.compile(["yes", "no"], VOCABULARY)


def test_vocabularies_are_not_kept_for_ever() -> None:
    library = pytest.importorskip("tokenizers")
    guides = [gr.compile(["yes"], tokenizer(library, f"x{i}"), cache=False) for i in range(9)]
    assert len({id(guide.vocabulary) for guide in guides}) == 9
    assert len(adapted._kept) == 8


@pytest.mark.parametrize("source", [None, 5, b"a", ["a"], {"a": 1}])
def test_what_is_no_tokenizer(source: Any) -> None:
    with pytest.raises(gr.ArgumentError):
        gr.compile("a" | gr.literal("b"), source)
    with pytest.raises(gr.VocabularyError):
        gr.compile(gr.literal("b"), object())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("[a-z]+", "gr.regex(...) or gr.literal(...) make one from a string"),
        ('{"type": "integer"}', "gr.json_schema(...) reads a schema from a string"),
        (Path("person.json"), "gr.json_schema, gr.grammar and gr.xml_schema read files"),
        (re.compile("a"), "pass gr.regex(pattern)"),
        (None, "gr.any_text() allows any text"),
        ([], "choices must be a list of one or more strings"),
        ([1, 2], "choices must be a list of one or more strings"),
        ({"red", "green"}, "choices must be a list of one or more strings"),
        (gr.patterns.date, "call it: date(…)"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": SIZE}}, "['json_schema']['schema']"),
        ({"type": "json_object"}, 'pass {"type": "object"}'),
        ({"name": "p", "schema": {"type": "object"}, "strict": True}, "pass the value of 'schema'"),
        ({"name": "p", "input_schema": {"type": "object"}}, "pass the value of 'input_schema'"),
        ({"type": "function", "function": {"name": "f"}}, "pass gr.tool_calls([tool], format=…)"),
        ({"type": "structural_tag", "format": {}}, "pass gr.structural_tag(tag)"),
        (Size(1, 2), "is a value of Size, not a type"),
        (VOCABULARY, "the constraint comes first"),
    ],
)
def test_what_is_no_constraint(given: Any, says: str) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(given, VOCABULARY)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: gr.sequence(["a", "b"]), "pass its items one by one, or gr.choice(…)"),  # type: ignore[arg-type]
        (lambda: gr.sequence(1), "wrap it, e.g. gr.literal(str(value))"),  # type: ignore[arg-type]
        (lambda: gr.json_schema(Size), "gr.python_type takes other types"),  # type: ignore[arg-type]
        (lambda: gr.xml_schema("order.xsd").program(), "pass a file as pathlib.Path(…)"),
        (lambda: gr.grammar("query.lark"), "or a file as pathlib.Path(…)"),
    ],
)
def test_what_a_constraint_is_not_made_of(use: Callable[[], object], says: str) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        use()
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({"name": "person", "schema": {"type": "object"}, "strict": True}, "schema"),
        ('{"name": "weather", "input_schema": {"type": "object"}}', "input_schema"),
        ({"name": "person", "schema": {"type": "object"}, "type": "object"}, None),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "schema": {}}, None),
        ({"name": "person", "schema": "#"}, None),
    ],
)
def test_a_wrapper_of_a_schema_is_noticed(schema: Any, key: str | None) -> None:
    """By the specification it allows anything, which nobody means."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert key is None or gr.json_schema(schema).matches("1")
        assert key is not None or gr.json_schema(schema) is not None
    assert [str(one.message)[-len(str(key)) - 3 :] for one in caught] == ([] if key is None else [f" '{key}'"])
    assert all(one.filename == __file__ for one in caught)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gr.compile(VOCABULARY, gr.regex("a")), "the constraint comes first"),
        (lambda: gr.compile(gr.json_schema({"type": "json_object"}), VOCABULARY), 'pass {"type": "object"}'),
        (
            lambda: gr.compile(gr.json_schema({"type": "json_schema", "json_schema": {}}), VOCABULARY),
            "the schema inside",
        ),
        (lambda: gr.compile(gr.json_schema({"type": "function", "function": {}}), VOCABULARY), "gr.tool_calls"),
    ],
)
def test_what_was_meant(call: Callable[[], object], words: str) -> None:
    with pytest.raises(gr.GuiderailError, match=re.escape(words)):
        call()
