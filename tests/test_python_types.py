"""Python types: every allowed text can be read back as a value with the same meaning."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import ipaddress
import json
import math
import pathlib
import pickle
import random
import sys
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
)

import jsonschema
import pytest
import typing_extensions as te
from annotated_types import (
    Ge,
    GroupedMetadata,
    Gt,
    Interval,
    IsAscii,
    IsDigit,
    Le,
    Len,
    Lt,
    MaxLen,
    MinLen,
    MultipleOf,
    Not,
    Predicate,
    Timezone,
)
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.frontends.python_types.ordered import between
from guiderail.support.trees import Number, dump, parse_json, plain
from random_texts import random_text

D = decimal.Decimal
T = TypeVar("T")
UTC = dt.timezone.utc


# -- types under test
class Color(enum.Enum):
    RED = "red"
    BLUE = 2
    NONE = None


class Shade(enum.Enum):
    DARK = (0, 0)
    LIGHT = (1, 1)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 20


class Word(str, enum.Enum):
    PLAIN = "x"
    ODD = 'é"\n'


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Node:
    """A tree."""

    name: str
    weight: float = 1.0
    children: list[Node] = field(default_factory=list)
    left: Node | None = None


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Held:
    many: list[int]


@dataclass
class Box(Generic[T]):
    item: T
    spare: T | None = None


@dataclass
class PairBox(Box[list[T]], Generic[T]):
    second: Optional[T] = None  # noqa: UP045


class Stack(Generic[T]):
    def __init__(self, top: T, *below: T) -> None:
        self.items = (top, *below)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stack) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]


class Words(Stack[str]):
    pass


@dataclass
class Odd:
    seed: InitVar[int]
    kind: ClassVar[str] = "odd"
    _: KW_ONLY
    fixed: Final[int] = 3
    made: int = field(init=False, default=0)
    described: Annotated[int, "in metres"] = field(default=1, metadata={"description": "in feet"})

    def __post_init__(self, seed: int) -> None:
        self.made = seed + 1


class Positive(Gt):
    """A bound under another name."""


class Small(GroupedMetadata):
    def __iter__(self) -> Iterator[Any]:
        yield Lt(100)


class Made:
    def __new__(cls, size: int) -> Made:
        made = super().__new__(cls)
        made.size = size
        return made

    size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and self.size == other.size

    def __hash__(self) -> int:
        return self.size


class Row(NamedTuple):
    number: int
    text: str = "none"


class Options(TypedDict, total=False):
    wanted: te.Required[int]
    more: te.NotRequired[str]
    rest: list[int]


class Plain:
    def __init__(self, size: int, *sides: int, name: str = "plain") -> None:
        self.all = (size, sides, name)


class Name(str):
    pass


UserId = NewType("UserId", int)
Json = te.TypeAliasType("Json", "int | str | list[Json] | dict[str, Json] | None")
ListOf = te.TypeAliasType("ListOf", "list[T]", type_params=(T,))

# type, {text: value}, rejected texts
CASES: list[tuple[Any, dict[str, Any], list[str]]] = [
    (int, {"1": 1, "-20": -20, "0": 0}, ["1.0", "1e2", "true", '"1"', "-0", "01"]),
    (float, {"1": 1.0, "1e-07": 1e-07, "1.5": 1.5, str(sys.float_info.max): sys.float_info.max}, ["1e999", '"1"']),
    (D, {"1.10": D("1.10"), "123456789012345678.123456789": D("123456789012345678.123456789")}, ["1e99", "NaN"]),
    (bool, {"true": True, "false": False}, ["1", '"true"']),
    (None, {"null": None}, ["0"]),
    (str, {'"a\\n\\u0001"': "a\n\x01", '"é"': "é"}, ["1", '"a']),
    (Any, {'{"a":[1,2.5,null]}': {"a": [1, 2.5, None]}, "true": True}, ["1e999", "[", ""]),
    (object, {"[]": []}, []),
    (dt.date, {'"2024-02-29"': dt.date(2024, 2, 29)}, ['"2023-02-29"', '"0000-01-01"', '"2024-1-1"']),
    (
        dt.time,
        {'"01:02:03.5"': dt.time(1, 2, 3, 500000), '"01:02:03Z"': dt.time(1, 2, 3, tzinfo=UTC)},
        ['"23:59:60"', '"24:00:00"', '"01:02"', '"01:02:03.1234567"', '"01:02:03+24:00"'],
    ),
    (
        dt.datetime,
        {
            '"2024-02-29T01:02:03"': dt.datetime(2024, 2, 29, 1, 2, 3),
            '"0001-01-01T00:00:00+23:59"': dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=23, minutes=59))),
            '"2024-02-29T01:02:03.000001-00:30"': dt.datetime(
                2024, 2, 29, 1, 2, 3, 1, tzinfo=dt.timezone(-dt.timedelta(minutes=30))
            ),
        },
        ['"2016-12-31T23:59:60Z"', '"2024-02-29"', '"2024-02-29 01:02:03"'],
    ),
    (
        dt.timedelta,
        {
            '"P1DT2H3M4.5S"': dt.timedelta(days=1, hours=2, minutes=3, seconds=4.5),
            '"-PT1H"': -dt.timedelta(hours=1),
            '"PT0S"': dt.timedelta(0),
        },
        ['"P"', '"PT"', '"P1Y"', '"P9999999999D"'],
    ),
    (
        uuid.UUID,
        {'"12345678-1234-5678-1234-567812345678"': uuid.UUID("12345678-1234-5678-1234-567812345678")},
        ['"12345678-1234-5678-1234-56781234567"', '"{12345678-1234-5678-1234-567812345678}"'],
    ),
    (pathlib.Path, {'"a/b.txt"': pathlib.Path("a/b.txt")}, ['"a\\u0000b"']),
    (pathlib.PureWindowsPath, {r'"a\\b"': pathlib.PureWindowsPath("a\\b")}, []),
    (bytes, {'"aGk="': b"hi", '""': b"", '"//8="': b"\xff\xff"}, ['"aGk"', '"aGl="', '"a-k="']),
    (bytearray, {'"aGk="': bytearray(b"hi")}, []),
    (ipaddress.IPv4Address, {'"10.0.0.1"': ipaddress.IPv4Address("10.0.0.1")}, ['"010.0.0.1"', '"256.0.0.1"']),
    (ipaddress.IPv6Address, {'"::1"': ipaddress.IPv6Address("::1")}, ['"::1%eth0"', '"1::2::3"']),
    (ipaddress.IPv4Network, {'"10.1.0.0/17"': ipaddress.IPv4Network("10.1.0.0/17")}, ['"10.0.0.1/8"', '"10.1.0.0/15"']),
    (
        ipaddress.IPv6Network,
        {
            f'"{text}"': ipaddress.IPv6Network(text)
            for text in (
                "fd00::/16",
                "2001:db8::/64",
                "fe80::/10",
                "::ffff:0:0/96",
                "::1/128",
                "1:2:3:4:5:6:7:8/128",
                "::/0",
                "0:0:0:0:0:0:0:0/0",
                "2001:db8:8000::/33",
                "1::2:0:0:0/80",
            )
        },
        ['"fd00::1/16"', '"fe81::/10"', '"::1/127"', '"1::2::/128"', '"1:2:3:4::5:6:7:8/128"', '"::/129"', '"::"'],
    ),
    (ipaddress.IPv4Interface, {'"10.0.0.1/8"': ipaddress.IPv4Interface("10.0.0.1/8")}, ['"10.0.0.1/33"']),
    (ipaddress.IPv6Interface, {'"::1/128"': ipaddress.IPv6Interface("::1/128")}, ['"::1/129"']),
    (fractions.Fraction, {'"-1/3"': fractions.Fraction(-1, 3), '"2"': fractions.Fraction(2)}, ['"1/0"', '"1/-3"']),
    (Color, {'"red"': Color.RED, "2": Color.BLUE, "null": Color.NONE}, ['"RED"', '"2"', "2.5"]),
    (Shade, {'"DARK"': Shade.DARK}, ["[0,0]", '"dark"']),
    (Level, {"20": Level.HIGH}, ["2", '"HIGH"']),
    (Word, {r'"é\"\n"': Word.ODD}, ['"y"']),
    (Literal[1, "a", None, True], {"1": 1, '"a"': "a", "null": None, "true": True}, ["false", "2", '"1"']),
    (Literal[Level.HIGH, Color.RED], {"20": Level.HIGH, '"red"': Color.RED}, ["1"]),
    (int | None, {"1": 1, "null": None}, ['"x"']),
    (float | int | str, {"1": 1, "1.0": 1, "1.5": 1.5, '"1"': "1"}, ["null"]),
    (dt.date | str, {'"2024-01-01"': dt.date(2024, 1, 1), '"soon"': "soon"}, ["1"]),
    (list[int], {"[1, 2]": [1, 2], "[]": []}, ["[1,]", '["a"]']),
    (list, {'[1,"a",[null]]': [1, "a", [None]]}, ["{}"]),
    (Sequence[int], {"[1]": [1]}, []),
    (tuple, {'[1,"a"]': (1, "a")}, []),
    (tuple[int, str], {'[1,"a"]': (1, "a")}, ["[1]", '[1,"a",2]']),
    (tuple[int, ...], {"[1,2]": (1, 2), "[]": ()}, ['["a"]']),
    (tuple[()], {"[]": ()}, ["[1]"]),
    (tuple[int, te.Unpack[tuple[str, ...]]], {'[1,"a"]': (1, "a"), "[1]": (1,)}, ["[]", "[1,2]"]),
    (set[int], {"[1,2]": {1, 2}}, ["[1,1]"]),
    (set, {'[1,"a"]': {1, "a"}}, ["[[]]"]),
    (frozenset[str], {'["a"]': frozenset("a")}, []),
    (set[tuple[int, str]], {'[[1,"a"]]': {(1, "a")}}, []),
    (set[Point], {'[{"x":1}]': {Point(1)}}, []),
    (collections.deque[int], {"[1]": collections.deque([1])}, []),
    (dict[str, int], {'{"a":1}': {"a": 1}}, ['{"a":"b"}', '{"a":1,"a":1}']),
    (dict, {'{"a":[1]}': {"a": [1]}}, []),
    (Mapping[str, int], {'{"a":1}': {"a": 1}}, []),
    (dict[int, str], {'{"-12":""}': {-12: ""}}, ['{"01":""}', '{"a":""}', '{"-0":""}']),
    (dict[Level, int], {'{"20":1}': {Level.HIGH: 1}}, ['{"2":1}']),
    (dict[Word, int], {r'{"é\"\n":1}': {Word.ODD: 1}}, ['{"y":1}']),
    (dict[Literal["a", 1], int], {'{"a":1,"1":2}': {"a": 1, 1: 2}}, ['{"b":1}']),
    (dict[bool, int], {'{"true":1}': {True: 1}}, ['{"True":1}']),
    (dict[dt.date, int], {'{"2024-01-01":1}': {dt.date(2024, 1, 1): 1}}, ['{"2024-02-30":1}']),
    (dict[int | None, int] if False else dict[int | str, int], {'{"1":1,"a":2}': {1: 1, "a": 2}}, []),
    (collections.OrderedDict[str, int], {'{"b":1,"a":2}': collections.OrderedDict(b=1, a=2)}, []),
    (collections.Counter[str], {'{"b":1}': collections.Counter("b")}, []),
    (collections.defaultdict[str, int], {'{"b":1}': collections.defaultdict(None, b=1)}, []),
    (Node, {'{"name":"a","left":{"name":"b"}}': Node("a", left=Node("b"))}, ["{}", '{"name":"a","x":1}']),
    (Point, {'{"x":1}': Point(1), '{"x":1,"y":2}': Point(1, 2)}, ['{"y":1}', '{"y":2,"x":1}']),
    (Box[int], {'{"item":1,"spare":2}': Box(1, 2)}, ['{"item":"a"}']),
    (Box, {'{"item":"a"}': Box("a")}, []),
    (Stack[int], {'{"top":1,"below":[2]}': Stack(1, 2)}, ['{"top":"a"}', '{"top":1,"below":["a"]}']),
    (Words, {'{"top":"a"}': Words("a")}, ['{"top":1}']),
    (PairBox[int], {'{"item":[1],"second":2}': PairBox([1], None, 2)}, ['{"item":1}']),
    (Row, {'{"number":1}': Row(1)}, ["[1]"]),
    (Made, {'{"size":1}': Made(1)}, ['{"size":"a"}', "{}"]),
    (Options, {'{"wanted":1,"rest":[]}': {"wanted": 1, "rest": []}}, ['{"more":"a"}']),
    (Name, {'"a"': Name("a")}, []),
    (UserId, {"1": 1}, ['"1"']),
    (te.LiteralString, {'"a"': "a"}, ["1"]),
    (list[Annotated[te.LiteralString, Len(1)]], {'["a"]': ["a"]}, ['[""]']),
    (Json, {'[{"a":null},1]': [{"a": None}, 1]}, ["1.5", "true"]),
    (ListOf[int], {"[1]": [1]}, ['["a"]']),
    (Annotated[int, Gt(3), Lt(1000), MultipleOf(7)], {"7": 7, "994": 994}, ["0", "8", "1001"]),
    (Annotated[int, Positive(0), Small()], {"1": 1, "99": 99}, ["0", "100"]),
    (Annotated[int, Ge(D("-Infinity")), Lt(D("Infinity"))], {"1": 1}, []),
    (Annotated[int, Ge(D("1.5")), Le(4.5)], {"2": 2, "4": 4}, ["1", "5"]),
    (Annotated[int, MultipleOf(D("2.5"))], {"5": 5, "10": 10}, ["2", "7"]),
    (Annotated[float, Gt(0)], {"5e-324": 5e-324, "0.1": 0.1}, ["0", "0.0", "1e-400", "-1"]),
    (Annotated[float, Ge(0), Le(1)], {"0": 0.0, "1.0": 1.0}, ["1.0000001", "-0.1"]),
    (Annotated[float, MultipleOf(0.1)], {"0.3": 0.3}, ["0.25"]),
    (Annotated[float | None, Interval(gt=0.1, lt=0.3)], {"0.2": 0.2, "null": None}, ["0.1", "0.3"]),
    (Annotated[D, Gt(D("0.12345678901234567")), Lt(1)], {"0.5": D("0.5")}, ["0.12345678901234567", "1"]),
    (Annotated[D, Ge(0.1)], {"0.1": D("0.1")}, ["0.09"]),
    (Annotated[str, Len(2, 3)], {'"é\\n"': "é\n"}, ['"a"', '"abcd"']),
    (IsAscii[str], {'"a"': "a"}, ['"é"']),
    (IsDigit[str], {'"12"': "12"}, ['"a"', '"²"']),
    (Annotated[str, gr.regex("a+b")], {'"aab"': "aab"}, ['"b"']),
    (Annotated[str, gr.regex("[a-c]+"), gr.regex(".{2}")], {'"ab"': "ab"}, ['"abc"', '"xy"']),
    (Annotated[bytes, Len(2, 3)], {'"aGk="': b"hi", '"aGlp"': b"hii"}, ['"aA=="', '"aGlpaGlp"']),
    (Annotated[bytes, MinLen(4)], {'"aGlpaA=="': b"hiih"}, ['"aGlp"']),
    (Annotated[list[int], MinLen(1), MaxLen(2)], {"[1]": [1]}, ["[]", "[1,2,3]"]),
    (Annotated[dict[str, int], Len(1, 1)], {'{"a":1}': {"a": 1}}, ["{}"]),
    (Annotated[set[int], MinLen(2)], {"[1,2]": {1, 2}}, ["[1]"]),
    (Annotated[tuple[int, ...], MaxLen(1)], {"[1]": (1,)}, ["[1,2]"]),
    (
        Annotated[dt.date, Ge(dt.date(2020, 2, 28)), Lt(dt.date(2021, 1, 10))],
        {'"2020-02-28"': dt.date(2020, 2, 28), '"2021-01-09"': dt.date(2021, 1, 9)},
        ['"2020-02-27"', '"2021-01-10"', '"2020-02-30"'],
    ),
    (
        Annotated[dt.datetime, Gt(dt.datetime(2020, 2, 28, 12, 0, 0, 500000))],
        {'"2020-02-28T12:00:00.6"': dt.datetime(2020, 2, 28, 12, 0, 0, 600000)},
        ['"2020-02-28T12:00:00.50"', '"2020-02-28T12:00:00"', '"2020-02-28T12:00:01Z"'],
    ),
    (
        Annotated[dt.datetime, Le(dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))))],
        {'"2020-01-01T00:00:00Z"': dt.datetime(2020, 1, 1, tzinfo=UTC)},
        ['"2020-01-01T00:00:00.1Z"', '"2019-01-01T00:00:00+01:00"', '"2019-01-01T00:00:00"'],
    ),
    (
        Annotated[dt.time, Le(dt.time(12, 0, 0, 120000))],
        {'"12:00:00.12"': dt.time(12, 0, 0, 120000)},
        ['"12:00:00.121"'],
    ),
    (
        Annotated[dt.datetime, Timezone(None)],
        {'"2020-01-01T00:00:00"': dt.datetime(2020, 1, 1)},
        ['"2020-01-01T00:00:00Z"'],
    ),
    (
        Annotated[dt.datetime, Timezone(...)],
        {'"2020-01-01T00:00:00Z"': dt.datetime(2020, 1, 1, tzinfo=UTC)},
        ['"2020-01-01T00:00:00"'],
    ),
]


def name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not getattr(kind, "__args__", None) else str(kind)[:60]


@functools.cache
def made(kind: Any) -> Any:
    return gr.python_type(kind)


@pytest.mark.parametrize("kind, good, bad", CASES, ids=[name_of(case[0]) for case in CASES])
def test_texts_and_values(kind: Any, good: dict[str, Any], bad: list[str]) -> None:
    constraint = gr.python_type(kind)
    for text, value in good.items():
        assert constraint.matches(text), f"{text} is refused"
        read = constraint.read(text)
        assert read == value and type(read) is type(value)
    for text in bad:
        assert not constraint.matches(text), f"{text} is let through"


@pytest.mark.parametrize("kind", [case[0] for case in CASES], ids=[name_of(case[0]) for case in CASES])
def test_whatever_is_let_through_is_read(kind: Any) -> None:
    rng = random.Random(name_of(kind))
    constraint = gr.python_type(kind)
    validator = jsonschema.Draft202012Validator(constraint.schema)
    for steps in (0, 2, 10, 40, 40, 120) * 3:
        text = random_text(constraint, rng, steps)
        constraint.read(text)
        if len(text) < 300:  # jsonschema rounds numbers: it judges only those that it reads exactly
            error = next(validator.iter_errors(json.loads(text)), None)
            assert error is None or isinstance(error.instance, int | float), f"{text}: {error}"


# -- values of types, written by other tools
@settings(max_examples=60, deadline=None)
@given(st.dates(), st.times(), st.datetimes(), st.uuids(), st.binary(max_size=8), st.ip_addresses())
def test_what_other_writers_write_is_taken(
    day: dt.date, time: dt.time, moment: dt.datetime, ident: uuid.UUID, data: bytes, address: Any
) -> None:
    import base64

    for value, text in (
        (day, day.isoformat()),
        (time, time.isoformat()),
        (moment, moment.isoformat()),
        (ident, str(ident)),
        (data, base64.b64encode(data).decode()),
        (address, str(address)),
    ):
        constraint = made(type(value))
        assert constraint.matches(json.dumps(text))
        assert constraint.read(json.dumps(text)) == value


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Node,
        st.text(max_size=5),
        st.floats(allow_nan=False, allow_infinity=False),
        st.lists(st.builds(Node, st.text(max_size=3)), max_size=2),
        st.none() | st.builds(Node, st.text(max_size=3)),
    )
)
def test_dataclasses_written_by_json_are_taken(value: Node) -> None:
    import dataclasses

    text = json.dumps(dataclasses.asdict(value), ensure_ascii=False)
    if "\ufeff" in text or not text.isprintable():  # json.dumps writes DEL and the like unescaped, and so do we
        text = json.dumps(dataclasses.asdict(value))
        assert gr.python_type(Node).read(text) == value
        return
    assert made(Node).matches(text)
    assert made(Node).read(text) == value


@settings(max_examples=200, deadline=None)
@given(st.dates(), st.dates(), st.sampled_from(["gt", "ge", "lt", "le"]))
def test_bounds_of_dates(limit: dt.date, day: dt.date, side: str) -> None:
    import operator

    expected = getattr(operator, side)(day, limit)
    assert gr.regex(between(side, limit.isoformat())).matches(day.isoformat()) is expected


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(["gt", "ge", "lt", "le"]), st.integers(0, 6))
def test_bounds_of_times(data: st.DataObject, side: str, digits: int) -> None:
    import operator

    parts = st.integers(0, 30).map(lambda n: n * 10**5 % 10**6 + n)
    near = st.builds(dt.time, st.just(10), st.integers(29, 30), st.integers(0, 1), parts)
    limit, time = data.draw(near), data.draw(near)
    time = time.replace(microsecond=time.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    text = time.strftime("%H:%M:%S") + (f".{time.microsecond:06}"[: digits + 1] if digits else "")
    pattern = gr.regex(between(side, limit.isoformat()))
    assert pattern.matches(text) is getattr(operator, side)(time, limit), (text, limit)


# -- reading
def test_reading_checks_everything() -> None:
    for kind, good, bad in CASES:
        for text in good:
            gr.read(kind, text)
        for text in bad:
            if text in ('{"y":2,"x":1}', "1.0", "-0", "1e2", "1e99", "[1,1]"):  # values in another spelling
                continue
            with pytest.raises(gr.ReadError):
                gr.read(kind, text)


def test_errors_say_where() -> None:
    with pytest.raises(gr.ReadError, match="at /children/1/name is a number, not str") as caught:
        gr.read(Node, '{"name":"a","children":[{"name":"b"},{"name":1}]}')
    assert caught.value.pointer == "/children/1/name"
    assert caught.value.code == "read-mismatch"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.pointer, str(again)) == (caught.value.pointer, str(caught.value))
    for text, code in (("{", "read-syntax"), ("[" * 100_000, "read-depth"), ('{"a":1,"a":2}', "read-mismatch")):
        with pytest.raises(gr.ReadError) as caught:
            gr.read(dict[str, int] if code != "read-depth" else list, text)
        assert caught.value.code == code
    with pytest.raises(gr.ReadError, match="NaN"):
        gr.read(float, "NaN")


def test_code_of_the_class_may_refuse() -> None:
    @dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("odd")

    constraint = gr.python_type(list[Even], namespace={"Even": Even})
    assert constraint.read('[{"n":2}]') == [Even(2)]
    with pytest.raises(gr.ReadError, match="odd") as caught:
        constraint.read('[{"n":2},{"n":3}]')
    assert caught.value.code == "read-refused" and caught.value.pointer == "/1"
    assert isinstance(caught.value.cause, ValueError)
    with pytest.raises(gr.ReadError, match="does not satisfy"):
        gr.read(Annotated[int, Predicate(lambda n: n > 5)], "3")
    assert gr.read(Annotated[str, Not(str.isupper)], '"a"') == "a"


def test_numbers_keep_their_spelling() -> None:
    tree = parse_json('{"a":[1.10,1e5,-3]}')
    assert tree == {"a": [Number("1.10"), Number("1e5"), Number("-3")]}
    assert dump(tree) == '{"a":[1.10,1e5,-3]}'
    assert plain(tree) == {"a": [1.1, 1e5, -3]}
    digits = "9" * 10_000
    assert gr.read(int, digits) == 10**10_000 - 1
    assert gr.read(int, "-" + digits) == 1 - 10**10_000
    assert gr.python_type(int).matches(digits)
    assert gr.read(D, "0e99999999999999999999") == 0


# -- options
def test_defaults_may_be_written() -> None:
    assert gr.python_type(Point).matches('{"x":1}')
    wanted = gr.python_type(Point, defaults="write")
    assert not wanted.matches('{"x":1}') and wanted.matches('{"x":1,"y":0}')
    assert wanted.read('{"x":1}') == Point(1)
    with pytest.raises(gr.CompileError, match="may-omit"):
        gr.python_type(Point, defaults="drop")


def test_options_of_the_schema() -> None:
    assert gr.python_type(Point, property_order="any").matches('{"y":2,"x":1}')
    assert gr.python_type(Point, layout="compact").matches('{"x":1,"y":2}')
    assert not gr.python_type(Point, layout="compact").matches('{"x": 1}')
    assert gr.python_type(list, max_depth=2).matches("[[]]")
    assert not gr.python_type(list, max_depth=2).matches("[[[]]]")
    assert gr.python_type(list).matches("[" * 60 + "]" * 60)
    assert not gr.python_type(list).matches("[" * 70)
    assert gr.python_type(int, integers="any").read("1.2e1") == 12
    assert not gr.python_type(int, integers="any").matches("1e301")
    with pytest.raises(gr.CompileError, match="schemas that you write"):
        gr.python_type(int, dialect="draft-07")
    with pytest.raises(gr.CompileError, match="no option"):
        gr.python_type(Point, colour=1)


def test_constraints_are_values() -> None:
    one, two = gr.python_type(Node), gr.python_type(Node)
    assert one == two and hash(one) == hash(two)
    assert one != gr.python_type(Point) and one != gr.python_type(Node, defaults="write")
    assert gr.python_type(Annotated[str, gr.regex("a")]) != gr.python_type(Annotated[str, gr.regex("b")])
    assert repr(one) == "python_type(Node)"
    again = pickle.loads(pickle.dumps(gr.python_type(dict[str, int], defaults="write")))
    assert again == gr.python_type(dict[str, int], defaults="write") and "write" in repr(again)
    listed = gr.literal("x = ") + gr.python_type(list[int])
    assert listed.matches("x = [1]")


def test_reports() -> None:
    report = gr.python_type(Annotated[str, gr.regex("a+"), MaxLen(3)]).constraint.report()
    assert {entry.keyword: entry.status for entry in report.entries}["x-guiderail-text"] == "enforced"
    assert not report.with_status("ignored", "unsatisfiable")


def test_schemas_say_what_they_mean() -> None:
    assert gr.python_type(Point).schema == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    tree = gr.python_type(Node).schema
    assert tree["$ref"] == "#/$defs/Node" and tree["$defs"]["Node"]["description"] == "A tree."
    odd = gr.python_type(Odd).schema
    assert list(odd["properties"]) == ["seed", "fixed", "described"]
    assert odd["properties"]["described"]["description"] == "in feet"
    assert gr.python_type(Odd).read('{"seed":4}').made == 5
    for kind, _, _ in CASES:
        jsonschema.Draft202012Validator.check_schema(gr.python_type(kind).schema)


# -- functions
def area(
    width: float, /, height: float = 1.0, *more: Annotated[int, Gt(0)], unit: Literal["m", "ft"] = "m", **tags: str
) -> Any:
    """The area of a thing."""
    return width, height, more, unit, tags


def test_functions() -> None:
    constraint = gr.python_type(area)
    assert constraint.schema["description"] == "The area of a thing."
    text = '{"width":2,"more":[3],"unit":"ft","owner":"me"}'
    assert constraint.matches(text)
    bound = constraint.read(text)
    assert isinstance(bound, inspect.BoundArguments)
    assert gr.call(area, text) == (2.0, 1.0, (3,), "ft", {"owner": "me"})
    assert gr.call(area, '{"width":2}') == (2.0, 1.0, (), "m", {})
    for bad in ('{"height":1}', '{"width":1,"more":[0]}', '{"width":1,"unit":"x"}', '{"width":1,"owner":1}'):
        assert not constraint.matches(bad)
        with pytest.raises(gr.ReadError):
            gr.call(area, bad)
    assert gr.call(functools.partial(area, 5), '{"height":2}') == (5, 2.0, (), "m", {})
    assert gr.read(Plain, '{"size":1,"sides":[2,3]}').all == (1, (2, 3), "plain")


def test_a_type_that_contains_itself_is_refused() -> None:
    kind: list[Any] = [int]
    kind.append([kind])
    for one in (kind, list[kind]):  # type: ignore[valid-type]
        with pytest.raises(gr.CompileError, match="contains itself"):
            gr.python_type(one)
    part = [int]
    with pytest.raises(gr.CompileError, match="not a type"):  # twice is not within itself
        gr.python_type([part, [part]])


def test_functions_of_other_kinds() -> None:
    class Tool:
        def method(self, n: int) -> int:
            return n + 1

        def __call__(self, text: str) -> str:
            return text * 2

        @staticmethod
        def helper(flag: bool) -> bool:
            return not flag

    class Extra(TypedDict, total=False):
        note: str

    def packed(n: int, **rest: te.Unpack[Extra]) -> Any:
        return n, rest

    def bare(a, b=2):  # type: ignore[no-untyped-def]
        return a, b

    assert gr.call(Tool().method, '{"n":1}') == 2
    assert gr.call(Tool(), '{"text":"a"}') == "aa"
    assert gr.call(Tool.helper, '{"flag":true}') is False
    names = {"Extra": Extra}
    assert gr.call(packed, '{"n":1,"note":"x"}', namespace=names) == (1, {"note": "x"})
    assert not gr.python_type(packed, namespace=names).matches('{"n":1,"other":"x"}')
    assert gr.call(bare, '{"a":[1]}') == ([1], 2)
    with pytest.raises(gr.CompileError, match="function"):
        gr.call(Point, "{}")


def test_names_of_local_classes() -> None:
    @dataclass
    class Local:
        other: Local | None = None

    assert gr.read(Local, '{"other":{}}') == Local(Local())

    @dataclass
    class Outer:
        inner: Local

    with pytest.raises(gr.CompileError, match="namespace") as caught:
        gr.python_type(Outer)
    assert caught.value.code == "type-forward-reference"
    assert gr.read(Outer, '{"inner":{}}', namespace={"Local": Local}) == Outer(Local())


# -- refusals
@pytest.mark.parametrize(
    "kind, reason",
    [
        (complex, "complex"),
        (Access, "set of an Enum"),
        (range, "tuple"),
        (collections.abc.Hashable, "cannot be instantiated"),
        (typing.Hashable, "cannot be instantiated"),
        (typing.Generic, "not a type of values"),
        (typing.Annotated, "needs a type"),
        (typing.Union, "not a type"),
        (type[int], "class"),
        (collections.abc.Callable[[int], int], "function"),
        (3, "not a type"),
        (Literal[b"x"], "JSON cannot write"),
        (set[list[int]], "cannot be hashed"),
        (set[Node], "cannot be hashed"),
        (set[Held], "cannot be hashed"),
        (set[bytearray], "cannot be hashed"),
        (frozenset[tuple[bytearray | None, int]], "cannot be hashed"),
        (dict[bytearray, int], "cannot be hashed"),
        (dict[tuple[int, int], int], "keys in JSON"),
        (dict[None, int], "keys in JSON"),
        (Annotated[set[float], MinLen(2)], "may have fewer elements"),
        (Annotated[dict[float, int], MinLen(2)], "may have fewer keys"),
        (Annotated[int, MinLen(2)], "does not apply"),
        (Annotated[dt.timedelta, Le(dt.timedelta(days=1))], "le of timedelta: a span has many spellings"),
        (Annotated[dt.timedelta, MinLen(2)], "does not apply"),
        (Annotated[str, Gt(2)], "does not apply"),
        (Annotated[Point, Gt(2)], "does not apply"),
        (Annotated[int | str, Gt(2)], "does not apply"),
        (Annotated[int, Gt("a")], "bounds are numbers"),
        (Annotated[int, MultipleOf(0)], "above 0"),
        (Annotated[float, Gt(math.inf)], "no number"),
        (Annotated[int, Gt(D("Infinity"))], "no number"),
        (Annotated[D, Le(D("-Infinity"))], "no number"),
        (Annotated[float, MultipleOf(math.inf)], "finite number"),
        (Annotated[int, Ge(D("NaN"))], "NaN"),
        (Annotated[int, Ge(D("sNaN"))], "NaN"),
        (Annotated[int, Ge(5), Ge(dt.date(2020, 1, 1))], "cannot be compared"),
        (Annotated[dt.datetime, Ge(dt.datetime(2020, 1, 1)), Ge(dt.datetime(2020, 1, 1, tzinfo=UTC))], "compared"),
        (Annotated[dt.date, Gt(dt.datetime(2020, 1, 1))], "must be a date"),
        (Annotated[dt.date, Timezone(None)], "no time zone"),
        (Annotated[dt.datetime, Gt(dt.datetime(2020, 1, 1)), Timezone(...)], "disagree"),
        (Annotated[dt.time, Gt(dt.time(1, tzinfo=UTC))], "no order"),
        (Annotated[dt.datetime, Timezone("Europe/Berlin")], "Timezone"),
        (Annotated[bytes, Len(5, 4)], "no length"),
        (dict[Literal[1, "1"], int], "two of them"),
        (tuple[te.Unpack[tuple[int, ...]], str], "put them first"),
        (te.Never, "no value"),
        (list["Missing"], "forward reference"),  # noqa: F821
        (Annotated[str, IsAscii], "type of its own"),
        (type("Bare", (), {}), "does not say"),
        (type("Names", (list,), {}), "does not say"),
        (type("Table", (dict,), {}), "does not say"),
        (type("Sub", (tuple,), {}), "NamedTuple"),
    ],
    ids=str,
)
def test_refused_with_the_reason(kind: Any, reason: str) -> None:
    with pytest.raises(gr.CompileError, match=reason) as caught:
        gr.python_type(kind)
    assert caught.value.code.startswith("type-")


def test_nothing_can_be_written() -> None:
    @dataclass
    class Endless:
        next: Endless

    with pytest.raises(gr.CompileError, match="nothing could be generated"):
        gr.python_type(Endless).matches("{}")
    alias = te.TypeAliasType("Self", "Self")  # noqa: F821
    with pytest.raises(gr.CompileError):
        gr.python_type(alias, namespace={"Self": alias})


def test_optional_libraries_are_not_needed() -> None:
    import os
    import subprocess

    code = """
import sys
for name in ("pydantic", "annotated_types", "typing_extensions", "yaml", "email_validator"):
    sys.modules[name] = None
import guiderail as gr
from dataclasses import dataclass
from typing import Annotated, TypedDict
@dataclass
class P:
    x: int
    tags: set[str]
class D(TypedDict, total=False):
    p: P
print(gr.python_type(D).read('{"p":{"x":1,"tags":["a"]}}'), gr.read(Annotated[str, gr.regex("a")], '"a"'))
"""
    path = os.pathsep.join([str(Path(gr.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert run.stdout == "{'p': P(x=1, tags={'a'})} a\n", run.stderr


def test_metadata_of_others_is_passed_over() -> None:
    assert gr.python_type(Annotated[int, object(), 3]).schema == {"type": "integer"}
    assert gr.python_type(Annotated[int, te.Doc("how many")]).schema["description"] == "how many"


# -- types that are large when they are written out
def doubled(levels: int) -> Any:
    kind: Any = int
    for _ in range(levels):
        kind = tuple[kind, kind]
    return kind


def with_parameter(kind: Any) -> Any:
    def called(x: int) -> None: ...

    called.__annotations__["x"] = kind
    return called


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda kind: kind,
    "a list": lambda kind: list[kind],
    "a function": with_parameter,
    "a typed dict": lambda kind: TypedDict("Holder", {"x": kind}),
    "a class": lambda kind: type("Holder", (), {"__init__": with_parameter(kind), "__annotations__": {"x": kind}}),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_a_type_of_2_to_the_60_parts_is_refused_at_once(name: str) -> None:
    holder = HOLDERS[name]
    for make in (gr.python_type, functools.partial(gr.read, text="[]")):
        with pytest.raises(gr.LimitError, match="parts, written out") as caught:
            make(holder(doubled(60)))
        assert caught.value.code == "work"


def test_a_type_that_repeats_itself_a_little_is_no_problem() -> None:
    assert gr.read(doubled(3), "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]") == (((1, 2), (3, 4)), ((5, 6), (7, 8)))
    assert gr.python_type(doubled(10)).type == doubled(10)


@pytest.mark.parametrize("name", ["itself", "a list"])
def test_the_order_of_a_union_is_not_that_of_an_equal_one_read_before(name: str) -> None:
    @dataclass
    class First:
        x: int

    @dataclass
    class Second:
        x: int

    one, other = HOLDERS[name](First | Second), HOLDERS[name](Second | First)
    assert one == other  # for Python
    for kind, expected in ((one, First(1)), (other, Second(1))):
        value = gr.read(kind, '{"x": 1}' if name == "itself" else '[{"x": 1}]')
        assert value in (expected, [expected])
    assert gr.python_type(one) != gr.python_type(other)
