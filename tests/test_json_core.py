"""The core's JSON: spellings of strings, objects as automata over members, lists of distinct values.

Texts are compared with a plain predicate on the value from `json.loads`, masks with the derivative of every token.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core_support import bits_of, plain, takes, words
from guiderail import _core

ANY = _core.CharSet([(0, 0x10FFFF)])


class Json:
    """Builds JSON expressions like a front end."""

    def __init__(self, escapes: int) -> None:
        b = self.b = _core.Builder()
        self.escapes = escapes
        self.quote = b.literal(b'"')
        self.char = b.char_class(ANY)
        self.any = b.repeat(self.char, 0)
        self.text = self.string(self.any)
        digit = b.char_class(_core.CharSet([(48, 57)]))
        self.number = b.union(
            [b.literal(b"0"), b.concat([b.char_class(_core.CharSet([(49, 57)])), b.repeat(digit, 0)])]
        )
        space = b.repeat(b.literal(b" "), 0, 1)
        self.comma, self.colon = b.concat([b.literal(b","), space]), b.concat([b.literal(b":"), space])

    def string(self, text: int) -> int:
        return self.b.concat([self.quote, self.b.escaped(text, self.escapes), self.quote])

    def object(self, fields: dict[str, tuple[Any, bool]], others: list[tuple[int, int, bool, int]], **more: Any) -> int:
        members = self.b.members(
            [n.encode() for n in fields],
            [v for v, _ in fields.values()],
            [r for _, r in fields.values()],
            others,
            self.comma,
            self.colon,
            escapes=self.escapes,
            **more,
        )
        return self.b.concat([self.b.literal(b"{"), members, self.b.literal(b"}")])

    def array(self, item: int, least: int = 0, most: int = -1, distinct: bool = False) -> int:
        b = self.b
        one = b.item(item) if distinct else item
        more = b.repeat(b.concat([self.comma, one]), max(least - 1, 0), most - 1 if most > 0 else -1)
        body = b.concat([one, more])
        array = b.concat([b.literal(b"["), body if least else b.repeat(body, 0, 1), b.literal(b"]")])
        return b.distinct(array) if distinct else array


class Pairs(list[tuple[str, Any]]):
    """An object as written, with duplicate keys and order."""


def is_number(v: Any) -> bool:
    return isinstance(v, int) and not isinstance(v, bool)


def is_object(v: Any, fields: dict[str, Callable[[Any], bool]], required: set[str], others: Any, **more: Any) -> bool:
    if not isinstance(v, Pairs):
        return False
    keys = [k for k, _ in v]
    if len(set(keys)) < len(keys) or not required <= set(keys):
        return False
    if more.get("ordered"):
        known = [k for k in keys if k in fields]
        if known != [f for f in fields if f in known] or keys[: len(known)] != known:
            return False
    if not more.get("min", 0) <= len(keys) <= more.get("max", 1000):
        return False
    return all(fields[k](x) if k in fields else others is not None and others(k, x) for k, x in v)


def is_text(v: Any) -> bool:
    return isinstance(v, str)


def no_two_equal(items: list[Any]) -> bool:
    def frozen(v: Any) -> Any:
        if isinstance(v, Pairs):
            return ("object", frozenset((k, frozen(x)) for k, x in v))
        return (type(v).__name__, tuple(map(frozen, v)) if isinstance(v, list) else v)

    return len({frozen(v) for v in items}) == len(items)


def _closed(j: Json) -> int:
    return j.object({"name": (j.text, True), "names": (j.text, False), "é\n": (j.number, False)}, [])


def _open(j: Json) -> int:
    return j.object({"name": (j.text, True), "names": (j.number, False)}, [(j.any, j.text, True, 0)])


def _ordered(j: Json) -> int:
    fields = {"a": (j.text, True), "b": (j.number, False), "c": (j.number, False)}
    return j.object(fields, [(j.any, j.number, True, 0)], ordered=True, min=2, max=4)


def _patterns(j: Json) -> int:
    dashed = j.b.concat([j.b.literal(b"x-"), j.any])
    return j.object({"x-a": (j.text, False)}, [(dashed, j.number, False, 0)], max=3)


def _few_keys(j: Json) -> int:
    return j.object({}, [(j.b.choice([b"a", b"ab", b"b"]), j.number, False, 0)])


def _obligations(j: Json) -> int:
    # at least one number, and at least one text among the other keys
    fields = {"a": ([(j.text, 0), (j.number, 1)], False), "b": (j.text, False)}
    return j.object(fields, [(j.any, j.number, True, 1), (j.any, j.text, True, 2)], pending=3, max=3)


def _meets_obligations(v: Any) -> bool:
    fine = is_object(
        v,
        {"a": lambda x: is_text(x) or is_number(x), "b": is_text},
        set(),
        lambda k, x: is_text(x) or is_number(x),
        max=3,
    )
    return fine and any(is_number(x) for _, x in v) and any(is_text(x) for k, x in v if k not in ("a", "b"))


def _union(j: Json) -> int:
    one = j.object({"type": (j.b.literal(b'"x"'), True), "a": (j.number, True)}, [(j.any, j.text, True, 0)])
    two = j.object({"type": (j.b.literal(b'"y"'), True), "b": (j.text, True)}, [(j.any, j.number, True, 0)])
    return j.b.union([one, two])


def _is_union(v: Any) -> bool:
    one = is_object(v, {"type": lambda x: x == "x", "a": is_number}, {"type", "a"}, lambda k, x: is_text(x))
    return one or is_object(v, {"type": lambda x: x == "y", "b": is_text}, {"type", "b"}, lambda k, x: is_number(x))


def _tree(j: Json) -> int:
    tree = j.b.rule("tree")
    j.b.define(tree, j.object({"v": (j.number, True), "kids": (j.array(tree), False)}, []))
    return tree


def _is_tree(v: Any) -> bool:
    kids = lambda x: isinstance(x, list) and not isinstance(x, Pairs) and all(map(_is_tree, x))  # noqa: E731
    return is_object(v, {"v": is_number, "kids": kids}, {"v"}, None)


def _is_list(v: Any, item: Callable[[Any], bool], distinct: bool = False, least: int = 0, most: int = 1000) -> bool:
    if not isinstance(v, list) or isinstance(v, Pairs) or not least <= len(v) <= most:
        return False
    return all(map(item, v)) and (not distinct or no_two_equal(v))


def _distinct_objects(j: Json) -> int:
    return j.array(j.object({"a": (j.number, False), "b": (j.text, False)}, []), distinct=True)


def _distinct_tree(j: Json) -> int:
    tree = j.b.rule("tree")
    j.b.define(tree, j.b.union([j.number, j.array(tree, distinct=True)]))
    return tree


def _is_distinct_tree(v: Any) -> bool:
    return is_number(v) or _is_list(v, _is_distinct_tree, distinct=True)


COLOURS = [b'"red"', b'"green"', b"1", b"true"]

CASES: dict[str, tuple[Callable[[Json], int], Callable[[Any], bool]]] = {
    "closed": (
        _closed,
        lambda v: is_object(v, {"name": is_text, "names": is_text, "é\n": is_number}, {"name"}, None),
    ),
    "open": (_open, lambda v: is_object(v, {"name": is_text, "names": is_number}, {"name"}, lambda k, x: is_text(x))),
    "ordered": (
        _ordered,
        lambda v: is_object(
            v,
            {"a": is_text, "b": is_number, "c": is_number},
            {"a"},
            lambda k, x: is_number(x),
            ordered=True,
            min=2,
            max=4,
        ),
    ),
    "patterns": (
        _patterns,
        lambda v: is_object(v, {"x-a": is_text}, set(), lambda k, x: k.startswith("x-") and is_number(x), max=3),
    ),
    "few keys": (_few_keys, lambda v: is_object(v, {}, set(), lambda k, x: k in ("a", "ab", "b") and is_number(x))),
    "obligations": (_obligations, _meets_obligations),
    "union": (_union, _is_union),
    "tree": (_tree, _is_tree),
    "distinct texts": (lambda j: j.array(j.text, distinct=True), lambda v: _is_list(v, is_text, distinct=True)),
    "distinct choices": (
        lambda j: j.array(j.b.choice(COLOURS), 2, 3, distinct=True),
        lambda v: _is_list(v, lambda x: x in ("red", "green") or x is True or (is_number(x) and x == 1), True, 2, 3),
    ),
    "distinct objects": (
        _distinct_objects,
        lambda v: _is_list(v, lambda x: is_object(x, {"a": is_number, "b": is_text}, set(), None), distinct=True),
    ),
    "distinct tree": (_distinct_tree, _is_distinct_tree),
    "lengths": (
        lambda j: j.object({"a": (j.string(j.b.repeat(j.char, 2, 3)), True)}, []),
        lambda v: is_object(v, {"a": lambda x: is_text(x) and 2 <= len(x) <= 3}, {"a"}, None),
    ),
    "pattern and length": (
        lambda j: j.string(
            j.b.intersection([j.b.concat([j.any, j.b.literal(b"a\n"), j.any]), j.b.repeat(j.char, 0, 4)])
        ),
        lambda v: is_text(v) and "a\n" in v and len(v) <= 4,
    ),
}
TEXTS = ["", "a", "b", "ab", "a\n", "x-a", "é\n", '"\\', "name", "names", "xa\ny", "red", "abc", "\x01", "😀"]
KEYS = ["name", "names", "é\n", "a", "b", "c", "ab", "x-a", "x-b", "type", "v", "kids", "", "zz"]


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.choice("ttnnool" if depth < 3 else "ttn")
    if kind == "t":
        return rng.choice([*TEXTS, "x", "y"])
    if kind == "n":
        return rng.choice([0, 1, 2, 12, True])
    if kind == "l":
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return Pairs((rng.choice(KEYS), random_value(rng, depth + 1)) for _ in range(rng.randint(0, 4)))


def write(v: Any, rng: random.Random, spelled: bool) -> str:
    """Returns JSON text; ``spelled``: some characters as unnecessary escapes."""
    if isinstance(v, Pairs):
        inside = [write(k, rng, spelled) + ":" + rng.choice(["", " "]) + write(x, rng, spelled) for k, x in v]
        return "{" + rng.choice([",", ", "]).join(inside) + "}"
    if isinstance(v, list):
        return "[" + rng.choice([",", ", "]).join(write(x, rng, spelled) for x in v) + "]"
    text = json.dumps(v, ensure_ascii=False)
    if not spelled or not isinstance(v, str):
        return text
    out = ""
    for c in v:
        plainly = json.dumps(c, ensure_ascii=False)[1:-1]
        code = "".join(f"\\u{u:04x}" for u in np.frombuffer(c.encode("utf-16-le"), np.uint16))
        out += rng.choice([plainly, code, code.replace("\\u", "\\U").upper().replace("\\U", "\\u")])
    return f'"{out}"'


@pytest.mark.parametrize("escapes", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_texts(name: str, escapes: int) -> None:
    make, predicate = CASES[name]
    j = Json(escapes)
    program = j.b.finish(make(j))
    rng = random.Random(f"{name} {escapes}")
    good = 0
    for _ in range(800):
        value = random_value(rng)
        text = write(value, rng, spelled=bool(escapes))
        read = json.loads(text, object_pairs_hook=Pairs)
        assert takes(program, text) == predicate(read), text
        good += predicate(read)
    # the program itself writes valid texts, and enough of them
    texts = {text for _ in range(12 if name == "obligations" else 100) if (text := _walk(program, rng)) is not None}
    assert texts
    for text in texts:
        assert predicate(json.loads(text, object_pairs_hook=Pairs)), text
    assert not takes(program, '"\\u0041"') or escapes


def _walk(program: Any, rng: random.Random) -> str | None:
    """Returns a random text of the program with a shortest completion (None: none found within the fuel)."""
    state, out = program.root, b""
    for _ in range(rng.randint(0, 40)):
        choices = program.first_bytes(state)
        if not choices:
            break
        byte = bytes([rng.choice([b for b in choices if b < 0x80] or list(choices))])
        state, out = program.derivative(state, byte), out + byte
    end = program.shortest(state, 200)
    return None if end is None else (out + end).decode()


TOKENS = [
    *(bytes([b]) for b in range(256)),
    *(
        s.encode()
        for s in ['","', '", "', '":', '": ', '":"', '": "', '{"', '"}', '"]', "},{", '},{"', '["', '"],"', "]]"]
    ),
    *(
        s.encode()
        for s in ['"a":', '"name":', 'name"', 'name":"', 'ames"', '":1,"', '":1,"a":', '":"","', '","a"', "1,1"]
    ),
    *(
        s.encode()
        for s in [',"b":', '"b"', 'x-a":', '","b":1', "\\n", "\\u", "\\u00", "\\u0061", '\\"', "a\\n", "\\ud83d\\ude00"]
    ),
    *(
        s.encode()
        for s in ["red", 'red","', 'green","red"', "true,", ",1", "1]", '""', '"","', "é\\n", "ab", "zz", "   "]
    ),
]


@pytest.mark.parametrize("escapes", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_masks(name: str, escapes: int) -> None:
    vocabulary = plain(TOKENS)
    make, _ = CASES[name]
    rng = random.Random(f"masks of {name} {escapes}")
    bitmask = np.zeros((1, words(vocabulary.size)), np.int32)
    for _ in range(12):
        j = Json(escapes)
        matcher = _core.Matcher(_core.Guide(j.b.finish(make(j)), vocabulary.core, {}))
        j = Json(escapes)
        slow = j.b.finish(make(j))  # a separate program: nothing is shared
        state = slow.root
        for _ in range(12):
            matcher.fill_next_token_bitmask(bitmask, 0)
            got = bits_of(bitmask)[: len(TOKENS)]
            expected = np.array([bool(slow.derivative(state, t)) for t in TOKENS])
            wrong = [TOKENS[i] for i in np.flatnonzero(got != expected)]
            assert not wrong, (slow.dump(state), wrong)
            allowed = np.flatnonzero(got)
            if not allowed.size:
                break
            long = [i for i in allowed if len(TOKENS[i]) > 1]
            token = int(rng.choice(long if long and rng.random() < 0.6 else list(allowed)))
            assert matcher.accept_token(token)
            state = slow.derivative(state, TOKENS[token])


def test_what_cannot_be_completed_is_nothing() -> None:
    j = Json(0)
    b = j.b
    nothing = b.members([b"a"], [b.EMPTY], [True], [], j.comma, j.colon)
    too_many = b.members([b"a", b"b"], [j.text, j.text], [True, True], [], j.comma, j.colon, max=1)
    too_few = b.members([b"a"], [j.text], [False], [], j.comma, j.colon, min=2)
    unmet = b.members([b"a"], [j.text], [False], [(j.any, j.text, True, 2)], j.comma, j.colon, pending=3)
    assert nothing == too_many == too_few == unmet == b.EMPTY
    assert b.is_empty(j.array(b.choice([b"1", b"2"]), 3, -1, distinct=True))


def test_a_forbidden_name_is_no_other_key() -> None:
    j = Json(0)
    program = j.b.finish(j.object({"a": (j.b.EMPTY, False)}, [(j.any, j.number, True, 0)]))
    assert takes(program, '{"b":1}')
    assert not takes(program, '{"a":1}')
    assert takes(program, "{}")


def test_long_objects_stay_small() -> None:
    j = Json(0)
    program = j.b.finish(j.object({f"field{i}": (j.number, False) for i in range(500)}, [(j.any, j.text, True, 0)]))
    text = "{" + ",".join([f'"field{i}":{i}' for i in range(500)] + [f'"other{i}":"x"' for i in range(500)]) + "}"
    assert takes(program, text)
    assert program.memory_size_bytes() < 40e6
    assert not takes(program, text[:-1] + ',"field7":1}')
    assert not takes(program, text[:-1] + ',"other7":""}')


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda j: j.b.members([b"a", b"a"], [j.text, j.text], [True, True], [], j.comma, j.colon), "duplicate-name"),
        (lambda j: j.b.members([b"\xff"], [j.text], [True], [], j.comma, j.colon), "not-utf8"),
        (lambda j: j.b.item(j.b.item(j.text)), "item-outside"),
        (lambda j: j.b.complement(j.b.item(j.text)), "not-regular"),
    ],
)
def test_refused(call: Callable[[Json], int], code: str) -> None:
    with pytest.raises(Exception) as raised:
        call(Json(0))
    assert raised.value.code == code
