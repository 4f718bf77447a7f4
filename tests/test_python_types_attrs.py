"""Classes of attrs: validators that bounds can express restrict the text; the others run when it is read."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import attrs
import pytest
from attrs import validators

import guiderail as gr

NUMBERS: list[Any] = [-1, 0, 1, 2, 3, 5, 10]
TEXTS: list[Any] = ["", "a", "ab", "aab", "xaab", "B", "abc", "é", "\n", "a\n"]
LISTS: list[Any] = [[], [1], [1, 2], [1, 2, 3]]
FIELDS: list[tuple[Any, Any, list[Any]]] = [
    (str, validators.matches_re(r"(.?)\1"), TEXTS),
    (int, validators.gt(1), NUMBERS),
    (int, validators.ge(1), NUMBERS),
    (float, validators.lt(2.5), NUMBERS),
    (int, [validators.ge(1), validators.le(5)], NUMBERS),
    (int, validators.and_(validators.gt(0), validators.and_(validators.lt(9), validators.gt(1))), NUMBERS),
    (int | None, validators.optional(validators.gt(1)), [*NUMBERS, None]),
    (int | None, validators.optional([validators.gt(1), validators.lt(4)]), [*NUMBERS, None]),
    (str, validators.min_len(2), TEXTS),
    (str, validators.max_len(2), TEXTS),
    (list[int], [validators.min_len(1), validators.max_len(2)], LISTS),
    (str, validators.matches_re("a+b"), TEXTS),
    (str, validators.matches_re("(?i)b|.$"), TEXTS),
    (str, validators.matches_re("a+b", func=re.search), TEXTS),
    (str, validators.matches_re("A B", re.VERBOSE | re.IGNORECASE, re.search), TEXTS),
    (str, validators.in_(["ab", "B", ""]), TEXTS),
    (str, validators.in_(frozenset({"abc", "\n"})), TEXTS),
    (int, validators.in_([2, 1]), NUMBERS),
    (int, validators.in_(range(2, 4)), NUMBERS),
    (int, [validators.in_({1, 3, 5}), validators.gt(1)], NUMBERS),
    (int | None, validators.optional(validators.in_((1, 10))), [*NUMBERS, None]),
    (Literal["a", "ab", "B"], validators.in_(["a", "B"]), ["a", "ab", "B"]),
]
CODE: list[tuple[Any, Any, list[Any]]] = [
    (str, validators.matches_re("a+b", func=re.match), TEXTS),
    (str, validators.matches_re(r"(.)+\1"), TEXTS),
    (str, validators.in_("aab"), TEXTS),
    (int, validators.not_(validators.gt(1)), NUMBERS),
    (int, validators.or_(validators.gt(3), validators.lt(1)), NUMBERS),
    (bool, validators.in_([1]), [True, False]),
    (int | str, validators.max_len(1), [*NUMBERS, *TEXTS]),
    (list[int], validators.deep_iterable(validators.gt(1)), LISTS),
]


def written(value: Any) -> str:
    return json.dumps({"x": value}, ensure_ascii=False)


def accepted(kind: Any, value: Any) -> bool:
    try:
        kind(value)
    except (ValueError, TypeError):
        return False
    return True


def of_one_field(hint: Any, validator: Any, **more: Any) -> Any:
    return attrs.make_class("Made", {"x": attrs.field(type=hint, validator=validator, **more)})


@pytest.mark.parametrize(("hint", "validator", "values"), FIELDS)
def test_validators_that_are_bounds_restrict_the_text(hint: Any, validator: Any, values: list[Any]) -> None:
    kind = of_one_field(hint, validator)
    made = gr.python_type(kind)
    for value in values:
        assert made.matches(written(value)) == accepted(kind, value), value
        if accepted(kind, value):
            assert made.read(written(value)) == kind(value)


@pytest.mark.parametrize(("hint", "validator", "values"), CODE)
def test_other_validators_run_when_the_value_is_read(hint: Any, validator: Any, values: list[Any]) -> None:
    kind = of_one_field(hint, validator)
    made = gr.python_type(kind)
    for value in values:
        text = written(value)
        assert made.matches(text)
        if accepted(kind, value):
            assert made.read(text) == kind(value)
        else:
            with pytest.raises(gr.ReadError):
                made.read(text)


def test_validators_see_what_a_converter_makes() -> None:
    kind = of_one_field(str, validators.max_len(3), converter=lambda text: text[:3])
    assert gr.python_type(kind).read('{"x": "abcdef"}') == kind("abc")


def test_parameters_have_the_names_that_attrs_gives_them() -> None:
    @attrs.define
    class Private:
        _size: int = attrs.field(validator=validators.ge(3))
        other: str = attrs.field(validator=validators.max_len(1), alias="o", default="")

    assert gr.python_type(Private).read('{"size": 3, "o": "a"}') == Private(3, "a")
    assert not gr.python_type(Private).matches('{"size": 2}')
    assert not gr.python_type(Private).matches('{"size": 3, "o": "aa"}')


def test_an_init_of_its_own_takes_what_it_says() -> None:
    @attrs.define(init=False)
    class Doubled:
        x: int = attrs.field(validator=validators.ge(4))

        def __init__(self, x: int) -> None:
            self.__attrs_init__(2 * x)  # type: ignore[attr-defined]

    assert gr.python_type(Doubled).read('{"x": 2}').x == 4

    class Wider(Doubled):
        def __init__(self, x: int, y: int) -> None:
            super().__init__(x + y)

    assert gr.python_type(Wider).read('{"x": 1, "y": 1}').x == 4


def test_a_frozen_class_is_hashed_by_its_fields() -> None:
    @attrs.frozen
    class Key:
        number: int

    @attrs.frozen
    class Lists:
        numbers: list[int]

    assert gr.read(set[Key], '[{"number": 1}]') == {Key(1)}
    with pytest.raises(gr.CompileError, match="cannot be hashed"):
        gr.python_type(set[Lists])
