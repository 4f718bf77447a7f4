"""Reading texts (patterns, grammars) counts as work, by what it takes, and every limit names its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import guiderail as gr
from guiderail.constraints.program import build_program
from guiderail.support import work

Make = Callable[[], gr.Constraint]


def pattern(text: str, **options: object) -> Make:
    return lambda: gr.regex(text, **options)  # type: ignore[arg-type]


def steps(make: Make) -> int:
    before = work.spent()
    build_program(make())
    return work.spent() - before


# With the fewest steps that account for the time.
COUNTED: dict[str, tuple[Make, int]] = {
    "a pattern of one text": (pattern("ab" * 1000), 6_000),
    "a pattern of escapes": (pattern(r"\.\n" * 1000), 25_000),
    "a pattern of classes": (pattern("[ab][^c-d]" * 500), 30_000),
    "a pattern of repetitions": (pattern("a*b+" * 500), 40_000),
    "alternatives of a pattern": (pattern("|".join(map(str, range(1000)))), 30_000),
    "a pattern in any case": (pattern("abc" * 1000, flags="i"), 60_000),
    "classes in any case": (pattern("(?iu)[α-ω]" + "[а-я]" * 100), 40_000),
    "classes with properties": (pattern("".join(rf"[\p{{L}}{chr(0x2000 + i)}]" for i in range(50))), 250_000),
    "assertions": (pattern(r"\w+\b " * 300), 30_000),
    "white space and comments": (pattern("(?x)" + " \n" * 2000 + "a#b\n" * 1000), 60_000),
}


@pytest.mark.parametrize("name", COUNTED)
def test_reading_is_counted_every_time(name: str) -> None:
    make, least = COUNTED[name]
    first, second = steps(make), steps(make)
    assert first == second >= least


def test_a_pattern_costs_the_same_from_a_cache() -> None:
    from guiderail.frontends.json_schema.patterns import read_pattern

    schema = gr.json_schema({"type": "string", "pattern": "^" + "a?b" * 300})
    read_pattern("^" + "a?b" * 300)
    before = work.spent()
    build_program(schema)
    kept = work.spent() - before
    gr.clear_cache()
    before = work.spent()
    build_program(schema)
    assert work.spent() - before == kept


# Limits and the texts in which they are met: the whole text, or where.
PLACED: dict[str, tuple[Make, str, str]] = {
    "a pattern that is too long": (pattern("a" * 8_000_000), "work", "a" * 8_000_000),
    "a pattern of too many parts": (pattern("a?" * 700_000), "work", "a?" * 700_000),
    "a pattern hard to decide": (pattern("(?=.*a.{20}b)(?=.*b.{20}a)(?!.*c.{20}d)[a-d]{30,90}"), "fuel", "(?=.*a.{20}b)(?=.*b.{20}a)(?!.*c.{20}d)[a-d]{30,90}"),
}


@pytest.mark.parametrize("name", PLACED)
def test_limits_name_the_text(name: str) -> None:
    make, code, source = PLACED[name]
    with pytest.raises(gr.LimitError) as caught:
        build_program(make())
    assert caught.value.code == code
    assert caught.value.source == source
    assert caught.value.span is not None
