"""Types of msgspec: its metadata and its structs mean what they mean there."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

import guiderail as gr


class Meta:
    """Stands in for ``msgspec.Meta``."""

    __module__ = "msgspec"
    gt = ge = lt = le = multiple_of = pattern = min_length = max_length = tz = description = None

    def __init__(self, **stated: Any) -> None:
        self.__dict__.update(stated)


@pytest.mark.parametrize(
    ("kind", "stated", "good", "bad"),
    [
        (int, {"ge": 3, "lt": 9}, ["3", "8"], ["2", "9"]),
        (float, {"gt": 0.5, "multiple_of": 0.25}, ["0.75"], ["0.5", "0.8"]),
        (str, {"min_length": 2, "pattern": "^a+$"}, ['"aa"'], ['"a"', '"ab"']),
        (list[int], {"max_length": 1}, ["[]", "[1]"], ["[1, 2]"]),
        (dt.datetime, {"tz": True}, ['"2024-01-01T00:00:00Z"'], ['"2024-01-01T00:00:00"']),
        (dt.datetime, {"tz": False}, ['"2024-01-01T00:00:00"'], ['"2024-01-01T00:00:00Z"']),
    ],
    ids=str,
)
def test_metadata_of_msgspec_is_enforced(kind: Any, stated: dict[str, Any], good: list[str], bad: list[str]) -> None:
    constraint = gr.python_type(Annotated[kind, Meta(**stated, description="told")])
    assert all(map(constraint.matches, good)) and not any(map(constraint.matches, bad))
    assert constraint.schema["description"] == "told"


class NoDefaultType:
    """Stands in for the type of ``msgspec.NODEFAULT``."""


class Struct:
    """Stands in for ``msgspec.Struct``, with the options ``tag`` and ``frozen``."""

    first_name: str
    size: Annotated[int, Meta(ge=0)]
    tags: list[str]

    __struct_fields__ = ("first_name", "size", "tags")
    __struct_encode_fields__ = ("firstName", "size", "tags")
    __struct_defaults__ = (NoDefaultType(), ["a"])
    __struct_config__ = SimpleNamespace(tag="s", tag_field="type", array_like=False, frozen=True)

    def __init__(self, first_name: str, size: int, tags: Any = ("a",)) -> None:
        self.all = (first_name, size, tags)


def test_structs_of_msgspec() -> None:
    constraint = gr.python_type(Struct)
    text = '{"type": "s", "firstName": "x", "size": 1}'
    assert constraint.read(text).all == ("x", 1, ("a",))
    assert constraint.read(text[:-1] + ', "tags": []}').all == ("x", 1, [])
    for wrong in ('{"firstName": "x", "size": 1}', text.replace("1", "-1"), '{"type": "s", "firstName": "x"}'):
        assert not constraint.matches(wrong)


def test_structs_of_msgspec_itself() -> None:
    msgspec = pytest.importorskip("msgspec")
    point = msgspec.defstruct(
        "Point", [("x", int), ("names", list[str], msgspec.field(default_factory=list))], tag=True
    )
    circle = msgspec.defstruct(
        "Circle", [("r", Annotated[float, msgspec.Meta(gt=0)])], rename="upper", tag=True, frozen=True
    )
    either = gr.python_type(list[point | circle])
    text = '[{"type": "Point", "x": 1}, {"type": "Circle", "R": 0.5}]'
    assert either.read(text) == [point(1), circle(0.5)] == msgspec.json.decode(text, type=list[point | circle])
    assert not either.matches(text.replace("0.5", "0")) and not either.matches('[{"x": 1}]')
    assert gr.read(set[circle], '[{"type": "Circle", "R": 0.5}]') == {circle(0.5)}
    rows = msgspec.defstruct("Row", [("x", int)], array_like=True)
    for kind, message in ((rows, "array_like"), (set[point], "cannot be hashed")):
        with pytest.raises(gr.CompileError, match=message):
            gr.python_type(kind)


def test_members_that_may_be_unset() -> None:
    msgspec = pytest.importorskip("msgspec")

    class Change(msgspec.Struct):  # type: ignore[name-defined,misc]
        name: Annotated[str | msgspec.UnsetType, Meta(max_length=2)] = msgspec.UNSET  # type: ignore[name-defined]
        age: int | msgspec.UnsetType | None = msgspec.UNSET  # type: ignore[name-defined]

    constraint = gr.python_type(Change, namespace={"msgspec": msgspec})
    assert constraint.read("{}") == Change() and constraint.read('{"age": null}') == Change(age=None)
    assert not constraint.matches('{"name": null}') and not constraint.matches('{"name": "abc"}')
