"""Objects whose alternatives are read side by side: whether any object is left, against all objects there are."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from core_support import takes
from guiderail.support.work import spent
from test_late_decisions import program

KEYS = "abcd"
VALUES = [0, 1, {"a": 0}]
OBJECTS = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value is not ...}
    for values in itertools.product([..., *VALUES], repeat=len(KEYS))
]
values_of = st.one_of(
    st.just(True), st.lists(st.sampled_from(VALUES), min_size=1, unique_by=str).map(lambda v: {"enum": v})
)


@st.composite
def cells(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(KEYS), unique=True))
    cell: dict[str, Any] = {"properties": {name: draw(values_of) for name in names}}
    if draw(st.booleans()):
        cell["additionalProperties"] = False
    if names and draw(st.booleans()):
        cell["required"] = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return cell


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=2, max_size=4)
    return st.one_of(
        *(st.fixed_dictionaries({keyword: many}) for keyword in ("oneOf", "anyOf", "allOf")),
        st.fixed_dictionaries({"not": inner}),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(formula=st.recursive(cells(), combined, max_leaves=10))
def test_an_object_is_found_if_there_is_one(formula: Any) -> None:
    every = {"enum": VALUES}
    schema = {
        "type": "object",
        "properties": dict.fromkeys(KEYS, every),
        "additionalProperties": False,
        "allOf": [formula],
    }
    judge = jsonschema.Draft202012Validator(schema)
    valid = [value for value in OBJECTS if judge.is_valid(value)]
    try:
        made = program(schema, cells=0)
    except gr.CompileError as error:
        assert error.code in ("unsatisfiable-schema", "unsatisfiable")
        assert not valid
    else:
        assert valid and [value for value in OBJECTS if takes(made, json.dumps(value))] == valid


def kinds(count: int) -> dict[str, Any]:
    """Closed objects that only optional types tell apart, as in PROJJSON: without its type, one may be of any kind."""
    text, array = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    either = {"not": {"required": ["id", "ids"]}}
    usage = {
        "anyOf": [
            {"properties": {"scope": text, "area": text, "id": text, "ids": array}, **either},
            {"properties": {"usages": array, "id": text, "ids": array}, **either},
        ]
    }
    common = dict.fromkeys(["scope", "area", "usages", "id", "ids"], True)
    found: dict[str, Any] = {"usage": usage}
    for i in range(count):
        frames = [{"$ref": f"#/$defs/frame{k % count}"} for k in (i, i + 1)]
        for kind, more, also in (
            ("frame", {"anchor": text, **({"epoch": {"type": "number"}} if i % 2 else {})}, {}),
            (
                "system",
                {"datum": frames[0] if i % 3 else {"oneOf": frames}, "ensemble": text},
                {"oneOf": [{"required": ["datum"]}, {"required": ["ensemble"]}]},
            ),
        ):
            found[f"{kind}{i}"] = {
                "type": "object",
                "allOf": [{"$ref": "#/$defs/usage"}, also],
                "properties": {"type": {"const": f"{kind}{i}"}, "name": text, **more, **common},
                "required": ["name"],
                "additionalProperties": False,
            }
    return {"oneOf": [{"$ref": f"#/$defs/system{i}"} for i in range(count)], "$defs": found}


def test_work_does_not_multiply_with_kinds() -> None:
    def work(count: int) -> int:
        before = spent()
        gr.json_schema(kinds(count)).program()
        return spent() - before

    assert work(9) < 40 * work(3)  # 27 times if it grew with the cube; each more had taken many times as much


def test_kinds_mean_what_they_say() -> None:
    schema, rng = kinds(6), random.Random(0)
    made, judge = gr.json_schema(schema), jsonschema.Draft202012Validator(schema)
    members = {
        "type": [f"{kind}{i}" for kind in ("system", "frame") for i in range(7)],
        "name": ["n", 1],
        "scope": ["s"],
        "usages": [["u"], "u"],
        "id": ["i"],
        "ids": [["i"]],
        "ensemble": ["e"],
        "anchor": ["a"],
        "epoch": [1],
    }

    def some(names: list[str]) -> dict[str, Any]:
        return {name: rng.choice(members[name]) for name in names if rng.random() < 0.4}

    verdicts = set()
    for _ in range(1_500):
        value = {**some([*members][:7]), "name": "n"}
        if rng.random() < 0.8:
            value["datum"] = {**some(["type", "scope", "id", "anchor", "epoch"]), "name": "n"}
        verdicts.add(judge.is_valid(value))
        assert made.matches(json.dumps(value)) == judge.is_valid(value), value
    assert verdicts == {False, True}
