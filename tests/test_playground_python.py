"""The playground's Python code, run here: answers for the page, locations in a schema, the collections of rpds."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

FOLDER = Path(__file__).resolve().parent.parent / "playground" / "python"


def load(name: str, as_name: str | None = None) -> Any:
    spec = importlib.util.spec_from_file_location(as_name or name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(as_name or name, module)
    spec.loader.exec_module(module)
    return module


import guiderail.inspect  # noqa: E402, F401  the whole of it, so that answers.py does not make its own

places = load("places")
answers = load("answers")
ours = load("rpds", "playground_rpds")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=4) | st.sampled_from(['"', "a,b", "{x", "~/"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.just("a/b~"), inner, max_size=3)
    ),
    max_leaves=12,
)


def pointers(value: Any, at: str = "#") -> Any:
    yield at, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from pointers(one, f"{at}/{key.replace('~', '~0').replace('/', '~1').replace('%', '%25')}")
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from pointers(one, f"{at}/{i}")


@example([[None], {"¹": None}], None, False)  # a digit to Python, but no number
@given(JSON, st.sampled_from([None, 1, 2]), st.booleans())
def test_each_pointer_has_the_span_of_its_value(value: Any, indent: int | None, plain: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=plain)
    for pointer, there in pointers(value):
        span = places.span_of(text, pointer)
        assert span is not None and json.loads(text[slice(*span)]) == there, (text, pointer)


@pytest.mark.parametrize("pointer", ["#/x", "#/a/5", "#/a/x", "#/a/0/0", "https://example.org/#/a", ""])
def test_no_span_of_what_is_not_there(pointer: str) -> None:
    assert places.span_of('{"a": [1]}', pointer) is None


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "remove", "discard", "update"]), st.integers(0, 5), st.integers(0, 3)),
    max_size=12,
)


@given(OPERATIONS)
def test_collections_are_those_of_rpds(steps: list[tuple[str, int, int]]) -> None:
    rpds = pytest.importorskip("rpds")
    maps, sets, lists = [], [], []
    for module in (ours, rpds):
        mapping, collection, chain = module.HashTrieMap(), module.HashTrieSet(), module.List()
        seen: list[Any] = []
        for what, key, value in steps:
            before = dict(mapping)
            try:
                if what == "insert":
                    mapping, collection = mapping.insert(key, value), collection.insert(key)
                    chain = chain.push_front(value)
                elif what == "update":
                    mapping, collection = mapping.update({key: value}), collection.update([key, value])
                else:
                    changed = getattr(mapping, what)(key), getattr(collection, what)(key)
                    assert dict(mapping) == before, "a change makes another"
                    mapping, collection = changed
            except KeyError:
                seen.append("KeyError")
            seen.append((sorted(mapping.items()), sorted(collection), list(chain), len(mapping), key in mapping))
        maps.append(seen)
        sets.append(set(collection))
        lists.append(list(chain.rest) if len(list(chain)) else [])
    assert maps[0] == maps[1] and sets[0] == sets[1] and lists[0] == lists[1]


READ = [
    ("schema", '{"type": "integer"}', {}, None, None),
    ("schema", '{"type": ', {}, "json", 9),
    ("schema", '{"properties": {"a": {"type": "strin"}}}', {}, "invalid-schema", 30),
    ("schema", '{"allOf": [{"type": "integer", "maximum": 9}, {"minimum": 9.5}]}', {}, "unsatisfiable-schema", 0),
    ("regex", "a+", {}, None, None),
    ("regex", "(a|b", {}, "regex-unterminated-group", 0),
    ("grammar", 'root ::= "a"', {}, None, None),
    ("grammar", "root ::= nothing", {}, "grammar-undefined", 9),
    ("grammar", "", {"syntax": "gbnf"}, "*", None),
]


@pytest.mark.parametrize(("kind", "source", "options", "code", "start"), READ)
def test_reading_says_what_is_wrong_and_where(
    kind: str, source: str, options: dict[str, Any], code: str | None, start: int | None
) -> None:
    answer = json.loads(answers.read(kind, source, json.dumps(options)))
    assert answer["ok"] == (code is None), answer
    if code is not None:
        assert code in ("*", answer["error"]["code"]), answer
        if start is not None:
            assert answer["error"]["span"][0] == start, answer


def test_a_refused_constraint_leaves_the_last_one() -> None:
    answers.read("regex", "ab+")
    answers.read("regex", "(")
    assert json.loads(answers.look("a"))["forced"] == "b"


def test_looking_at_a_text() -> None:
    answers.read("schema", '{"properties": {"a": {"type": "integer"}}, "required": ["a"]}')
    good = json.loads(answers.look('{"a": 1'))
    assert good["valid"] and not good["accepting"] and good["failed_at"] is None
    bad = json.loads(answers.look('{"a": x'))
    assert not bad["valid"] and bad["failed_at"] == 6 and "a digit (0-9)" in bad["expected"]
    assert bad["place"]["schema"] == ["#/properties/a"] and bad["schema_span"] == [21, 40]
    answers.read("regex", "(ab|cd)+")
    assert json.loads(answers.look("abc"))["place"]["spans"] == [[5, 6]]


def test_the_archive_holds_the_front_ends_and_nothing_native() -> None:
    spec = importlib.util.spec_from_file_location("playground_build", FOLDER.parent / "build.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    made = build.python_archive()
    assert made == build.python_archive(), "equal sources make equal archives"
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        names = set(archive.namelist())
        assert archive.read("guiderail/_core.py") == (FOLDER / "core.py").read_bytes()
    assert {"answers.py", "rpds.py", "lark/grammars/common.lark", "guiderail/__init__.pyi"} <= names
    assert {name for name in names if name.endswith((".so", ".pyc")) or "/tests/" in name} == set()
    assert {name.split("/")[1] for name in names if name.startswith("guiderail/") and name.count("/") > 1} == {
        "constraints", "frontends", "inspect", "support",
    }  # fmt: skip
