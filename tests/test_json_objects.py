"""JSON texts that are nested too deeply: every reader says where."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import guiderail as gr
from guiderail.batch.rows import _row
from guiderail.compat import llguidance, xgrammar
from guiderail.errors import GuiderailError
from guiderail.integrations._requests import _texts
from guiderail.server.bodies import parse_json as parse_body
from guiderail.server.errors import ApiError
from guiderail.support.json_objects import TooDeep, loads, too_deep

DEEP = 20_000
VALUES = st.recursive(
    st.none() | st.text('ab"\\[]{}é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"[{\\', max_size=3), inner, max_size=3),
    max_leaves=12,
)


def deepest(text: str) -> int:
    """The first bracket at the greatest depth, character by character."""
    depth = most = place = 0
    inside = escaped = False
    for i, c in enumerate(text):
        if inside:
            inside = escaped or c != '"'
            escaped = c == "\\" and not escaped
        elif c == '"':
            inside = True
        elif c in "[{":
            depth += 1
            if depth > most:
                most, place = depth, i
        elif c in "]}":
            depth -= 1
    return place


@given(VALUES, st.sampled_from([None, 1]), st.sampled_from(["", "[x "]), st.booleans())
def test_the_place_is_the_deepest_bracket(value: object, indent: int | None, before: str, cut: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if cut:
        text = text[: random.Random(text).randrange(len(text) + 1)]
    error = too_deep(before + text, len(before))
    assert error.pos == len(before) + deepest(text)
    if not before:
        for encoding in ("utf-8", "utf-16"):
            assert too_deep(text.encode(encoding)).pos == deepest(text)


def read(text: str) -> list[Callable[[], object]]:
    tag = f'{{"format": {text}}}'
    return [
        lambda: loads(text),
        lambda: loads(text.encode()),
        lambda: gr.json_schema(text),
        lambda: gr.structural_tag(tag),
        lambda: gr.python_type(list[object]).read(text),
        lambda: gr.grammar(f"start: %json {text}", syntax="lark"),
        lambda: gr.grammar(f"start: %regex {text}", syntax="lark"),
        lambda: parse_body(text.encode(), 10**9),
        lambda: _texts(text),
        lambda: xgrammar.Grammar.from_structural_tag(tag),
        lambda: xgrammar.Grammar.deserialize_json(text),
        lambda: llguidance.grammar_from("choice", text),
    ]


TEXT = '{"a":\n [1, ' + '{"a":' * DEEP + "1" + "}" * DEEP + "]}"
PLACE = f"column {5 + 5 * (DEEP - 1) + 1}"


@pytest.mark.parametrize("reader", range(len(read(TEXT))))
def test_every_reader_says_where(reader: int) -> None:
    with pytest.raises((GuiderailError, ApiError, TooDeep)) as caught:
        read(TEXT)[reader]()
    error = caught.value
    shown = error.render() if isinstance(error, GuiderailError) else str(error)
    assert "nested too deeply" in shown and ("line 2" in shown or "line" not in shown), shown[:500]
    assert PLACE in shown or "^" in shown, shown[:500]


def test_files_and_rows_say_where(tmp_path: Path) -> None:
    for name in ("schema.json", "format.json"):
        (tmp_path / name).write_text(TEXT)
    with pytest.raises(gr.SchemaError, match=f"schema.json is nested too deeply; flatten it: line 2 {PLACE}"):
        gr.json_schema(tmp_path / "schema.json")
    with pytest.raises(gr.GuiderailError, match=f"format.json is nested too deeply; flatten it: line 2 {PLACE}"):
        gr.tool_calls([], format=tmp_path / "format.json")
    assert f"nested too deeply; flatten it: line 2 {PLACE}" in str(_row(TEXT.encode()))
