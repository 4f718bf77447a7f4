"""Support for the tests of JSON Schema: generated schemas and values over one small alphabet, so that keywords often
interact and conflict; spellings of values; and ``jsonschema`` as the judge."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jsonschema
from hypothesis import strategies as st

NAMES = ["a", "b", "ab", "é", 'q"', ""]
TEXTS = ["", "a", "b", "ab", "aab", "é", "ba\n", 'q"', "2024-02-29", "2023-02-29", "127.0.0.1", "12"]
PATTERNS = ["^a", "b$", "^[ab]*$", "a|é", "^.$", "[0-9]{2}", "^(?:ab)+$", "[^a]", "^a?b?$"]
NUMBERS = [0, 1, 2, 3, 5, 6, 10, -1, -4, 0.5, 1.5, -0.25, 2.75, 100]


# -- schemas --------------------------------------------------------------------------------------------------------
def _some(choices: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A few of these keywords."""
    return st.lists(st.sampled_from(sorted(choices)), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: choices[name] for name in names})
    )


def _strings() -> st.SearchStrategy[Any]:
    size = st.integers(0, 3)
    return _some(
        {
            "pattern": st.sampled_from(PATTERNS),
            "minLength": size,
            "maxLength": size,
            "format": st.sampled_from(["date", "ipv4", "unheard-of"]),
        }
    )


def _numbers() -> st.SearchStrategy[Any]:
    bound = st.sampled_from(NUMBERS)
    return _some(
        {
            "minimum": bound,
            "maximum": bound,
            "exclusiveMinimum": bound,
            "exclusiveMaximum": bound,
            "multipleOf": st.sampled_from([1, 2, 3, 0.5, 0.25, 1.5]),
        }
    )


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    size = st.integers(0, 3)
    return _some(
        {
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": size,
            "maxItems": size,
            "uniqueItems": st.booleans(),
            "contains": inner,
            "minContains": st.integers(0, 2),
            "maxContains": st.integers(0, 2),
            "unevaluatedItems": inner,
        }
    )


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
    size = st.integers(0, 3)
    return _some(
        {
            "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
            "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": _strings(),
            "required": names,
            "minProperties": size,
            "maxProperties": size,
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
            "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
            "unevaluatedProperties": inner,
        }
    )


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    condition = st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner})
    return st.one_of(
        _some({"allOf": some, "anyOf": some, "oneOf": some, "not": inner}),
        condition,
    )


TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def schemas() -> st.SearchStrategy[Any]:
    """Schemas of 2020-12, up to three levels deep, with one definition that may refer to itself below an array or
    object."""
    leaf = st.one_of(
        st.booleans(),
        st.sampled_from(TYPES).map(lambda t: {"type": t}),
        st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(lambda t: {"type": t}),
        st.lists(values(1), min_size=1, max_size=3).map(lambda v: {"enum": v}),
        values(1).map(lambda v: {"const": v}),
        _strings().map(lambda s: {"type": "string", **s}),
        _numbers().map(lambda s: {"type": "number", **s}),
        _numbers().map(lambda s: {"type": "integer", **s}),
        st.just({"$ref": "#/$defs/node"}),
    )

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        groups = st.one_of(_arrays(inner), _objects(inner), _combined(inner), _strings(), _numbers())
        typed = st.one_of(
            _arrays(inner).map(lambda s: {"type": "array", **s}), _objects(inner).map(lambda s: {"type": "object", **s})
        )
        together = st.lists(groups, min_size=1, max_size=2).map(lambda gs: {k: v for g in gs for k, v in g.items()})
        return st.one_of(typed, typed, together)

    def closed(schema: Any, node: Any) -> Any:
        if "#/$defs/node" not in json.dumps([schema, node]):
            return schema
        base = schema if isinstance(schema, dict) else {"allOf": [schema]}
        return {**base, "$defs": {"node": node}}

    node = st.sampled_from(
        [
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "additionalProperties": False},
            {"type": ["array", "null"], "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            {"type": "integer"},
            {"anyOf": [{"const": "a"}, {"type": "array", "prefixItems": [{"$ref": "#/$defs/node"}], "items": False}]},
        ]
    )
    return st.builds(closed, st.recursive(leaf, grow, max_leaves=6), node)


# -- values ---------------------------------------------------------------------------------------------------------
def values(depth: int = 2) -> st.SearchStrategy[Any]:
    """Values over the alphabet of the schemas."""
    scalar = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
    if depth == 0:
        return scalar
    inner = values(depth - 1)
    return st.one_of(scalar, st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))


def _universe() -> list[Any]:
    """A few hundred small values: every scalar, short arrays, small objects."""
    scalars = [None, True, False, 0, 1, 2, -1, 0.5, 10, *TEXTS]
    few = [None, True, 0, 1, 0.5, "a", "b", "é", [], {}, [1], {"a": 1}]
    out: list[Any] = [*scalars, [], {}]
    out += [[v] for v in [*scalars, [], {}, [1]]]
    out += [[v, w] for v in few for w in few]
    out += [[0, 1, 2], [1, 1, 0], ["a", "b", "a"], ["a", "b", "é"], [0, "a", None], [[0], [1], [0]]]
    out += [{n: v} for n in NAMES for v in few]
    out += [{n: v, m: w} for n in NAMES[:3] for m in NAMES[:4] if n != m for v in few[:6] for w in few[2:6]]
    out += [{"a": 0, "b": 1, "é": "a"}, {"b": "b", "a": "a", "ab": None}, {"a": {"a": {}}}, {"a": {"a": {"a": 1}}}]
    return out


UNIVERSE = _universe()


def _multiple(_: Any, divisor: Any, instance: Any, __: Any) -> Any:
    number = isinstance(instance, int | float | Fraction) and not isinstance(instance, bool)
    if number and (Fraction(instance) / Fraction(divisor)).denominator != 1:
        yield jsonschema.ValidationError(f"{instance} is not a multiple of {divisor}")


# ``jsonschema`` divides floats, which overflow; the alphabet's divisors are exact as floats.
_Exact = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"multipleOf": _multiple})


def _python(schema: Any) -> Any:
    """Returns the schema with its patterns in Python's syntax: ``$`` and ``.`` treat line breaks as ECMAScript does."""
    if isinstance(schema, list):
        return [_python(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: part if name in ("const", "enum") else _python(part) for name, part in schema.items()}
    if "patternProperties" in out:
        out["patternProperties"] = {_translated(name): part for name, part in out["patternProperties"].items()}
    if isinstance(out.get("pattern"), str):
        out["pattern"] = _translated(out["pattern"])
    return out


def _translated(pattern: str) -> str:
    return pattern.replace("$", r"\Z").replace(".", r"[^\n\r\u2028\u2029]")


def judge(schema: Any) -> Any:
    """Returns a validator that asserts formats and compares numbers exactly."""
    return _Exact(_python(schema), format_checker=jsonschema.FormatChecker(["date", "ipv4"]))


# -- spelling -------------------------------------------------------------------------------------------------------
def exact(number: str) -> Any:
    """Returns a number's value without rounding: an int if it is one.

    Raises:
        OverflowError: it has too many digits to compare here.
    """
    digits, _, exponent = number.lower().partition("e")
    if len(digits) > 400 or len(exponent) > 3:
        raise OverflowError(number[:50])
    fraction = Fraction(Decimal(number))
    return fraction.numerator if fraction.denominator == 1 else fraction


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), f"a name is written twice: {names}"
    return dict(pairs)


def parse(text: str) -> Any:
    """Like ``json.loads``, but exact, and strict about duplicate names and words that are not JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_float=exact, parse_int=exact, object_pairs_hook=unique, parse_constant=refuse)


LAYOUTS: dict[str, dict[str, Any]] = {
    "flexible": {},
    "compact": {"separators": (",", ":")},
    "spaced": {},
    "indented": {"indent": 2},
    "free": {"indent": 1},
}


def write(value: Any, layout: str = "flexible", ensure_ascii: bool = False) -> bytes:
    return json.dumps(value, ensure_ascii=ensure_ascii, **LAYOUTS[layout]).encode()


def respell(text: str, seed: int) -> str:
    """Returns the same JSON with random characters of its strings escaped."""
    chance = random.Random(seed)

    def spell(match: re.Match[str]) -> str:
        short = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\n": "\\n", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\r": "\\r"}
        out = []
        for character in json.loads(match[0]):
            units = character.encode("utf-16-be")
            hexes = "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
            ways = [hexes, hexes.upper().replace("\\U", "\\u")]
            ways += [short[character]] if character in short else []
            ways += [character] * 2 if character >= " " and character not in '"\\' else []
            out.append(chance.choice(ways))
        return '"' + "".join(out) + '"'

    return re.sub(r'"(?:[^"\\]|\\.)*"', spell, text)


def laid_out(text: str, layout: str) -> bool:
    """Returns whether the whitespace of a JSON text follows the layout, whatever its strings and numbers."""
    parts = iter(range(10**9))
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', lambda _: f'"{next(parts)}s"', text)  # names stay different
    plain = re.sub(r'("[0-9]+s")|-?[0-9][-+.0-9eE]*', lambda match: match[1] or "0", plain)
    blanks = re.findall(r"(.?)([ \t\r\n]+)", plain)
    if layout == "flexible":
        return all(before and before in ",:" and space == " " for before, space in blanks)
    if layout == "free":
        return all(len(space) <= 40 for _, space in blanks)
    return plain == json.dumps(json.loads(plain), **LAYOUTS[layout])


def depth(value: Any) -> int:
    """Returns the nesting depth of arrays and objects; 0 for a scalar."""
    if isinstance(value, list | dict):
        return 1 + max((depth(v) for v in (value.values() if isinstance(value, dict) else value)), default=0)
    return 0


# -- ends -----------------------------------------------------------------------------------------------------------
def words(schema: Any) -> list[bytes]:
    """Returns JSON texts related to a schema: names, values of enums and consts, a text of each format."""
    found: set[str] = {json.dumps(text, ensure_ascii=False) for text in TEXTS}

    def look(part: Any) -> None:
        if isinstance(part, str | int | float) or part == []:
            found.add(json.dumps(part, ensure_ascii=False))
        if isinstance(part, list):
            for item in part:
                look(item)
        if isinstance(part, dict):
            for key, value in part.items():
                found.add(json.dumps(key, ensure_ascii=False))
                if key in ("const", "enum"):
                    found.update(json.dumps(v, ensure_ascii=False) for v in (value if key == "enum" else [value]))
                look(value)

    look(schema)
    return sorted(text.encode() for text in found)


_LETTERS = bytes(b for b in range(0x21, 0x7F) if b not in b'"\\\\')
_SCALARS = b':"tfn-0123456789aelrsu,.+'


def _steps(program: Any, state: int, some: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the bytes that can be read, with the states after them. Bytes that are not tried cost nothing."""
    for byte in some:
        if after := program.derivative(state, bytes([byte])):
            yield byte, after


class EndlessError(Exception):
    """The random search has not found an end."""


def finish(
    program: Any, state: int, read: bytes, chance: random.Random, known: list[bytes], limit: int = 6000
) -> bytes:
    """Returns a completion: strings, arrays and objects are closed as soon as possible, the rest is random.

    Every state of a program is live, so no step is ever undone; the text may only become long.

    Args:
        program: a program of the core.
        state: the state after the text.
        read: the text so far.
        chance: for the choices.
        known: texts to try where a value or a name may begin, see ``words``.
        limit: maximum bytes.

    Raises:
        EndlessError: the limit was reached.
    """
    out = bytearray(read)
    inside = re.sub(rb"\\.", b"", read).count(b'"') % 2 == 1  # inside a string
    escaped = inside and re.search(rb"(?<!\\)(?:\\\\)*\\$", read) is not None
    while not program.is_nullable(state):
        if len(out) - len(read) > limit:
            raise EndlessError(bytes(out[:300]))
        if inside and not escaped:
            groups = [b'"'] if chance.random() < 0.9 else []
            groups += [_LETTERS, bytes(range(256))]
        else:
            closers = b"}]" if chance.random() < 0.9 else b"}]\n"  # for layouts with lines
            groups = [closers, _SCALARS if chance.random() < 0.8 else _LETTERS, bytes(range(256))]
        byte, after = -1, 0
        for number, group in enumerate(groups):
            if number == 1 and not inside and chance.random() < 0.7:
                word = chance.choice(known)
                if after := program.derivative(state, word):
                    out += word
                    state = after
                    break
            byte, after = next(_steps(program, state, chance.sample(group, len(group))), (-1, 0))
            if after:
                break
        assert after, f"a dead end after {bytes(out)!r}"
        if byte < 0:
            continue  # a word
        if escaped:
            escaped = False
        elif byte == 0x22:
            inside = not inside
        else:
            escaped = inside and byte == 0x5C
        out.append(byte)
        state = after
    return bytes(out[len(read) :])
