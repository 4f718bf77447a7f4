"""Masks that several states share (keys, strings of bounded length, rests of objects): each token against its own
derivative."""

from __future__ import annotations

import itertools
import json
import random
from typing import Annotated, Any

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE, mask_of, plain

SOME = 1500  # tokens to check in addition to those with punctuation
FEW = 60  # steps of work for a mask that an earlier state had

CASES: list[tuple[Any, list[str]]] = [
    (  # a name is complete, or continues; a key was written before; an object may end or not
        {"properties": {"id": {"type": "integer"}, "ids": {}, "_": {}}, "required": ["id"]},
        ["{", '{"', '{"id', '{"ids', '{"_', '{"x": 1, "x', '{"id": 1', '{"id": 1, ', '{"id": 1, "id', '{"": 0, "'],
    ),
    (  # names and keys with patterns, none of which allows any text
        {
            "properties": {"title": {"type": "string"}, "x": {}},
            "patternProperties": {"^title_[a-z]{2}$": {}, "^x-": {"type": "null"}},
            "additionalProperties": False,
        },
        ["{", '{"', '{"t', '{"title', '{"title_', '{"title_en', '{"x', '{"x-', '{"x-": null, "x-', '{"title": "'],
    ),
    (  # the same, and all other keys
        {"properties": {"title": {}}, "patternProperties": {"^title_(en|de-[a-z]+)$": {"type": "integer"}}},
        ["{", '{"', '{"ti', '{"title', '{"title_', '{"title_e', '{"title_en', '{"title_de-', '{"title_xx'],
    ),
    (  # kinds of other keys, after keys of each kind: some of few keys, some of many
        {
            "properties": {"a": {"type": "integer"}, "xy": {}},
            "patternProperties": {
                "^x": {"type": "integer"}, "y$": {"type": "number"}, "^[pq]$": {"type": "null"}, "zz": {},
            },
        },
        ['{"', '{"x": 1', '{"x": 1, ', '{"x": 1, "', '{"p": null, "', '{"p": null, "q": null, "', '{"zz": 1, "x',
         '{"b": [], "y": 1', '{"p": null, "b": {}, ', '{"p": null, "b": {}, "xy'],
    ),
    (  # the same without keys of any text
        {
            "properties": {"a": {"type": "integer"}, "xy": {}},
            "patternProperties": {"^x[a-z]*$": {"type": "integer"}, "^[pq]$": {"type": "null"}},
            "additionalProperties": False,
            "required": ["a"],
            "maxProperties": 4,
        },
        ['{"', '{"xa": 1', '{"xa": 1, ', '{"p": null, "', '{"p": null, "q": null', '{"p": null, "q": null, "',
         '{"p": null, "q": null, "xa": 1', '{"xa": 1, "xb": 2, "xc": 3, "', '{"a": 1, "xa": 1, "xb": 2, "xc": 3'],
    ),
    (  # few keys are left
        {"patternProperties": {"^[pq]$": {}, "^r+$": {}}, "additionalProperties": False, "maxProperties": 3},
        ['{"', '{"p": 1', '{"p": 1, "', '{"p": 1, "q": 1', '{"p": 1, "q": 1, "', '{"r": 1, "p": 1, "'],
    ),
    (  # alternatives of objects, with what follows in common
        {
            "items": {
                "anyOf": [
                    {"properties": {"id": {"type": "integer"}, "kind": {"const": 1}}, "type": "object"},
                    {"properties": {"id": {"type": "string"}, "name": {}}, "required": ["name"], "type": "object"},
                    {"patternProperties": {"^x_": {"type": "null"}}, "required": ["x_a"], "type": "object"},
                    {"properties": {"id": {}, "ids": {}}, "additionalProperties": False, "type": "object"},
                ]
            },
            "type": "array",
        },
        ["[{", '[{"', '[{"id', '[{"id": 1', '[{"id": 1, ', '[{"id": 1, "', '[{"id": 1, "k', '[{"n": 1, "',
         '[{"x_b": null, "x',
         '[{"name": 1, "kind": 2', '[{"name": 1, "kind": 2, "', '[{"ids": 1, "', '[{"ids": 1}, {"name'],
    ),
    (  # the same, closed
        {
            "items": {
                "anyOf": [
                    {"properties": {name: {"type": "null"} for name in names}, "required": names[:1], "type": "object"}
                    | {"additionalProperties": False}
                    for names in (["id", "ids", "a"], ["name", "id", "a"], ["in", "né", "b"])
                ]
            },
            "type": "array",
        },
        ["[{", '[{"', '[{"i', '[{"id', '[{"n', '[{"id": null', '[{"id": null,', '[{"id": null, ', '[{"a": null, "',
         '[{"né"',
         '[{"a": null, "id": null, "', '[{"a": null, "id": null, "name": null', '[{"b": null, "n'],
    ),
    (  # lengths, with and without a pattern
        {
            "properties": {
                "a": {"type": "string", "maxLength": 9},
                "b": {"type": "string", "minLength": 3, "maxLength": 30},
                "c": {"type": "string", "minLength": 12, "pattern": "-[0-9]"},
            }
        },
        ['{"a": "', '{"a": "12345', '{"a": "12345678', '{"a": "123456789', '{"b": "', '{"b": "ab', '{"b": "abc\\n',
         '{"c": "', '{"c": "abc-', '{"c": "abc-1 and', '{"c": "abcdefghi-1 mo'],
    ),
    (  # formats of bounded length whose emptiness needs a search
        {
            "properties": {
                "a": {"type": "string", "format": "date-time", "minLength": 1},
                "b": {"type": "string", "format": "date-time", "minLength": 21, "maxLength": 24},
                "c": {"type": "string", "format": "email", "minLength": 9, "maxLength": 12},
                "d": {"type": "string", "format": "uri", "maxLength": 13},
            }
        },
        ['{"a": "', '{"a": "20', '{"a": "2024-02-2', '{"a": "1990-12-31T23:59:6', '{"b": "',
         '{"b": "2024-02-29T00:00:00', '{"b": "1990-12-31T23:59:60',
         '{"b": "2024-02-29T00:00:00.12', '{"c": "', '{"c": "a@', '{"c": "a.bcdefgh@',
         '{"d": "http://', '{"d": "http://a.b.c'],
    ),
    (  # closed objects in lists and choices, and nested
        {
            "properties": {
                "list": {"items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/o"}]}, "type": "array"},
                "o": {"$ref": "#/$defs/o"},
            },
            "additionalProperties": False,
            "$defs": {
                "o": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "#": {"type": "boolean"}, "né": {}},
                    "additionalProperties": False,
                }
            },
        },
        ["{", '{"', '{"list": [', '{"list": [{', '{"list": [{"', '{"list": [{"name": "a', '{"list": ["a', '{"o": {"n',
         '{"o": {"name": "x"', '{"o": {"name": "x", ', '{"o": {"#": true', '{"o": {"n\u00e9": [1, {"a": "b'],
    ),
]  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a string"])
@pytest.mark.parametrize("name", ["llama3", "mistral"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_every_token_by_its_own_derivative(case: int, name: str, inside: bool, request: pytest.FixtureRequest) -> None:
    vocabulary: gr.Vocabulary = request.getfixturevalue(name)
    schema, prefixes = CASES[case]
    constraint: gr.Constraint = gr.json_schema(schema)
    if inside:
        constraint = gr.python_type(Annotated[str, constraint])
        prefixes = [json.dumps(prefix, ensure_ascii=False)[:-1] for prefix in prefixes]
        prefixes += [prefix + begun for prefix in prefixes[:3] for begun in ("\\", "\\u00")]  # within an escape
    texts = {t: vocabulary.token_bytes(t) for t in range(vocabulary.token_count) if vocabulary.is_text(t)}
    rng = random.Random(case)
    asked = [t for t, text in texts.items() if set(text) & set(b'"\\,:{}[]')] + rng.sample(sorted(texts), SOME)
    guide = gr.compile(constraint, vocabulary, cache=False)
    # derivatives of a separate program: no cache of the guide can hide a mistake
    program = constraint.program().core
    matcher = guide.matcher()
    for prefix in [*prefixes, *reversed(prefixes)]:  # masks made in either order
        matcher.reset()
        if not matcher.accept_string(prefix.encode()):
            assert inside and prefix.endswith(("\\", "\\u00")), prefix
            continue
        mask = mask_of(matcher)
        state = program.derivative(program.root, prefix.encode())
        wrong = [texts[t] for t in asked if bool(mask[t]) != bool(program.derivative(state, texts[t]))]
        assert not wrong, (prefix, wrong[:5])


@pytest.mark.parametrize("kind", [dict[str, str], dict[str, dict[str, int]], list[dict[str, Any]]])
def test_json_inside_a_string_has_keys_of_any_text(kind: Any, llama3: gr.Vocabulary) -> None:
    inner: dict[Any, str] = {
        dict[str, str]: '{"a": "b", "a long key": "\\"", "é": ""}',
        dict[str, dict[str, int]]: '{"a": {"a": 1, "b": 2}, "b": {}}',
        list[dict[str, Any]]: '[{"a": [{"b": {"c": null}}]}, {"a": 1, "ab": 2}]',
    }
    text = json.dumps(inner[kind], ensure_ascii=False)
    matcher = gr.compile(gr.python_type(Annotated[str, gr.python_type(kind)]), llama3, cache=False).matcher()
    for character in text:
        mask_of(matcher)
        assert matcher.accept_string(character)
    assert matcher.is_complete()


OTHERS = {"^x_[a-z]+$": {"type": "string"}, "y": {"type": "integer"}}
ALTERNATIVES = [{"required": ["id"], "properties": {"id": {}}}, {"properties": {"id": {"type": "integer"}, "name": {}}}]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"patternProperties": OTHERS},
        {"patternProperties": OTHERS, "additionalProperties": {"enum": [1, "1"]}},
        {"patternProperties": OTHERS, "required": ["ab"]},
        {"anyOf": [{"type": "object", **of} for of in ALTERNATIVES]},
    ],
)
def test_later_keys_of_an_object_have_the_masks_of_earlier_ones(schema: Any, llama3: gr.Vocabulary) -> None:
    names = {name: {"enum": [1, "1"]} for name in ("ab", "cd", "ef", "gh")}
    value = {"type": "object", "properties": names, **schema}
    matcher = gr.compile(gr.json_schema({"items": value, "type": "array"}), llama3, cache=False).matcher()
    assert matcher.accept_string(b"[{")
    for number, name in enumerate(["id", "zz", "zzz", *names]):
        before = gr._core.spent_work()
        mask_of(matcher)
        assert number < 3 or gr._core.spent_work() - before < FEW, name
        assert matcher.accept_string(f'"{name}": 1, '.encode())


PATTERNED: list[tuple[Any, str]] = [
    (
        {
            "patternProperties": {"^[^a]*$": {"type": "string"}},
            "additionalProperties": {"type": "null"},
            "required": ["é"],
            "minProperties": 2,
            "propertyNames": {"maxLength": 7},
        },
        r'{"aa\"": null, "b\\": "\u0001", "é": ""}',
    ),
    (
        {"properties": {"a": {"type": "null"}, "aé": False}, "required": ["é"], "propertyNames": {"maxLength": 3}},
        r'{"a\\é": "\\", "\"": 1, "\u0001": 2, "é": {"a\n": 1}}',
    ),
    (
        {
            "anyOf": [
                {"required": ["1-1"]},
                {
                    "properties": {"ab": True, "é": {"type": "string"}},
                    "patternProperties": {"^[^a]*$": False, "^(ab|b1)+$": {"type": "null"}},
                    "additionalProperties": {"type": "string"},
                    "minProperties": 2,
                },
            ]
        },
        r'{"1a\\é\"\\": "a", "aé\\": "\\", "ab": null}',
    ),
]


@pytest.mark.parametrize("strings", [1, 2])
@pytest.mark.parametrize("case", range(len(PATTERNED)))
def test_keys_with_patterns_and_lengths_inside_strings(case: int, strings: int) -> None:
    """Within escapes, too: all tokens by what they are accepted as, and in few steps."""
    pieces = [
        b'\\"',
        b'\\":',
        b'a\\"',
        b"a\\",
        b'\\\\"',
        b'\\\\\\"',
        b"\\\\",
        b'": ',
        b'", "',
        b"\\u00",
        b"\xc3",
        b'{"',
    ]
    vocabulary = plain([*EVERY_BYTE, *pieces])
    schema, text = PATTERNED[case]
    constraint: gr.Constraint = gr.json_schema({"type": "object", **schema})
    for _ in range(strings):
        constraint = gr.python_type(Annotated[str, constraint])
        text = json.dumps(text, ensure_ascii=False)
    matcher = gr.compile(constraint, vocabulary, cache=False, max_step_work=50_000).matcher()
    for byte in text.encode():
        mask = mask_of(matcher)
        for token in [*b'"\\aun01,{}: \xc3', *range(256, 256 + len(pieces))]:
            assert bool(mask[token]) == matcher.fork().accept_token(token), (byte, token)
        assert matcher.accept_token(byte)
    assert matcher.is_complete()


@pytest.mark.parametrize("without", ["ba", "aab", "b+a"])
def test_tokens_that_are_spelled_alike(without: str) -> None:
    """A mask that is derived from another one treats all tokens with the same text alike."""
    texts = [b"a", b"b", b"ab", b"ba", b"aa", b"aab", b"c", b"cb", b"\xc3", b"\xa9"]
    vocabulary = plain(texts + texts)
    guide = gr.compile(~gr.regex(f"(?s).*({without}).*"), vocabulary, cache=False)
    for prefix in ("", "a", "b", "c", "aa", "ab", "cb", "aac"):
        matcher = guide.matcher()
        if matcher.accept_string(prefix.encode()):
            allowed = [matcher.fork().accept_token(token) for token in range(2 * len(texts))]
            assert mask_of(matcher)[: 2 * len(texts)].tolist() == allowed, prefix


def test_lengths_of_tokens_that_leave_a_string(llama3: gr.Vocabulary) -> None:
    """Bounds that differ by one differ by exactly the tokens of that many characters."""
    schema = {"type": "string", "maxLength": 40}
    matcher = gr.compile(gr.json_schema(schema), llama3, cache=False).matcher()
    assert matcher.accept_string(b'"')
    masks = []
    for _ in range(40):
        masks.append(mask_of(matcher))
        assert matcher.accept_string(b"a")
    for longer, shorter in itertools.pairwise(masks):
        assert not np.any(shorter & ~longer)
    text = {t: llama3.token_bytes(t) for t in np.flatnonzero(masks[0]) if llama3.is_text(int(t))}
    for left, mask in zip(range(40, 0, -1), masks, strict=True):
        letters = [t for t, b in text.items() if b.isalpha() and b.isascii()]
        assert all(bool(mask[t]) == (len(text[t]) <= left) for t in letters)
