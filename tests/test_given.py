"""What may be given for a constraint, and the order in which a model writes members, wherever it is given."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

import guiderail as gr
from core_support import plain
from guiderail.frontends.given import constraint_of, written_by_model
from guiderail.generation.targets import resolve
from guiderail.integrations._rows import as_guides

SIZE: dict[str, Any] = {
    "type": "object",
    "properties": {"w": {"type": "integer"}, "h": {"type": "integer"}},
    "required": ["w", "h"],
}
DECLARED, OTHER = '{"w":3,"h":4}', '{"h":4,"w":3}'
VOCABULARY = plain([bytes([i]) for i in range(256)])


def takes(source: Any) -> list[bool]:
    """Whether the declared order, and another, can be written."""
    guide = source if isinstance(source, gr.Guide) else gr.compile(source, VOCABULARY)
    found = []
    for text in (DECLARED, OTHER):
        matcher = guide.matcher()
        found.append(all(matcher.accept_token(byte) for byte in text.encode()) and matcher.is_accepting())
    return found


@pytest.mark.parametrize(
    ("given", "orders"),
    [
        (SIZE, [True, False]),
        (gr.json_schema(SIZE), [True, False]),
        (gr.json_schema(SIZE, layout="compact"), [True, False]),
        (gr.json_schema(json.dumps(SIZE), format="annotate"), [True, False]),
        (gr.json_schema(SIZE, property_order="declared"), [True, False]),
        (gr.json_schema(SIZE, property_order="any"), [True, True]),
        (gr.json_schema(SIZE) | "none", [True, False]),
        (gr.literal("") + gr.json_schema(SIZE).optional() + gr.separated_by("x", gr.json_schema(SIZE)), [True, False]),
        (gr.json_schema(SIZE, property_order="any") | "x", [True, True]),
    ],
)
def test_the_order_that_a_model_writes(given: Any, orders: list[bool]) -> None:
    assert takes(resolve(given).source) == orders  # generate, stream, inspect, batches
    assert takes(as_guides(given, VOCABULARY)[0]) == orders  # logits processors


def test_what_is_read_may_have_any_order() -> None:
    schema = gr.json_schema(SIZE)
    assert takes(schema) == [True, True] and schema.matches(OTHER)
    assert takes(gr.json_schema(SIZE, property_order="declared")) == [True, False]
    other = ~gr.json_schema(SIZE)
    assert written_by_model(other) is other  # an order must let nothing in


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
        resolve(deep)
    assert caught.value.code == "depth"


@pytest.mark.parametrize(
    ("given", "text"),
    [(["yes", "no"], "no"), (("a",), "a"), (Literal["x"], '"x"'), (int, "3"), (gr.regex("a+"), "aa"), (SIZE, DECLARED)],
)
def test_what_may_be_given(given: Any, text: str) -> None:
    assert constraint_of(given).matches(text)
    assert resolve(given).source.matches(text)  # type: ignore[union-attr]


def test_texts_to_choose_from_are_one_target() -> None:
    assert resolve(["yes", "no"]).reading.read("yes") == "yes"
    assert [guide.constraint for guide in as_guides(["yes", "no"], VOCABULARY)] == [gr.choice(["yes", "no"])]
    assert len(as_guides([["yes", "no"], SIZE], VOCABULARY)) == 2


@pytest.mark.parametrize("given", [None, "a", b"a", 3, [], [1, "a"], {}, {"name": "string"}, {"a", "b"}])
def test_what_may_not_be_given(given: Any) -> None:
    with pytest.raises(gr.CompileError) as caught:
        constraint_of(given)
    assert caught.value.code == "not-a-constraint"
