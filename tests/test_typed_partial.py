"""Values of Python types while their JSON grows: examples for each kind of type, and properties of random values."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import itertools
import json
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import pytest
from hypothesis import given, settings, strategies as st

from guiderail.errors import ReadError
from guiderail.frontends.python_types import python_type
from guiderail.frontends.python_types.partial import partial_of
from guiderail.support.partial_json import PartialJson

T = TypeVar("T")
Name = NewType("Name", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: Decimal = Decimal(1)


@dataclasses.dataclass
class Cat:
    kind: Literal["cat"]
    meow: str


@dataclasses.dataclass
class Dog:
    kind: Literal["dog"]
    bark: int


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T
    lid: bool = True


@dataclasses.dataclass
class Tree:
    value: str
    kids: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Strict:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError("upside down")


class Pair(NamedTuple):
    a: int
    b: str = "b"


class Movie(TypedDict, total=False):
    title: str
    year: int


class Plain:
    def __init__(self, a: int, b: str = "") -> None:
        self.a, self.b = a, b


def area(width: float, height: float = 1.0) -> float:
    return width * height


def growth(kind: Any, text: str, growing: bool = True) -> list[Any]:
    """Returns the distinct values shown while a text is fed character by character."""
    partial = partial_of(python_type(kind), growing_strings=growing)
    shown: list[Any] = [None]
    for c in text:
        partial.feed(c)
        snapshot = partial.snapshot()
        if repr(snapshot) != repr(shown[-1]):
            shown.append(snapshot)
    return shown[1:]


def point(x=None, y=None):
    return Point(x, y)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (int, "12 ", [12]),
        (str, '"ab"', ["", "a", "ab"]),
        (Name, '"a"', ["", "a"]),
        (Annotated[str, "about it"], '"a"', ["", "a"]),
        (datetime.date, '"2024-02-29"', [datetime.date(2024, 2, 29)]),
        (Colour, '"red"', [Colour.RED]),
        (Literal["yes", 3], '"yes"', ["yes"]),
        (str | None, '"a"', ["", "a"]),
        (str | int, '"a"', ["", "a"]),
        (Literal["auto"] | datetime.date, '"auto"', ["auto"]),
        (Any, '{"a": ["x", 1.5]}', [{}, {"a": []}, {"a": [""]}, {"a": ["x"]}, {"a": ["x", 1.5]}]),
        (list[int], "[1, 23]", [[], [1], [1, 23]]),
        (list[datetime.date], '["2024-01-01"]', [[], [datetime.date(2024, 1, 1)]]),
        (tuple[int, str], '[1, "a"]', [(), (1,), (1, ""), (1, "a")]),
        (tuple[Decimal, ...], "[1.50, 2]", [(), (Decimal("1.50"),), (Decimal("1.50"), Decimal(2))]),
        (set[str], '["a", "b"]', [set(), {"a"}, {"a", "b"}]),
        (frozenset[int], "[1, 2]", [frozenset(), frozenset({1}), frozenset({1, 2})]),
        (collections.deque[int], "[1, 2]", [collections.deque(d) for d in ([], [1], [1, 2])]),
        (dict[int, str], '{"1": "a"}', [{}, {1: ""}, {1: "a"}]),
        (Point, '{"x": 1, "y": 2.50}', [point(), point(1.0), point(1.0, Decimal("2.50"))]),
        (Pair, '{"a": 1 }', [Pair(None, None), Pair(1, None), Pair(1, "b")]),
        (Movie, '{"title": "M", "year": 1}', [{}, {"title": ""}, {"title": "M"}, {"title": "M", "year": 1}]),
        (Box[Point], '{"inside": {"x": 1 } }',
         [Box(None, None), Box(point(), None), Box(point(1.0), None), Box(Point(1.0), None), Box(Point(1.0))]),
        (Tree, '{"value": "a", "kids": [{"value": "b"}]}',
         [Tree(None, None), Tree("", None), Tree("a", None), Tree("a", []), Tree("a", [Tree(None, None)]),
          Tree("a", [Tree("", None)]), Tree("a", [Tree("b", None)]), Tree("a", [Tree("b")])]),
        (Cat | Dog, '{"kind": "dog", "bark": 3}', [{}, Dog("dog", None), Dog("dog", 3)]),
        (Cat | Dog, '{"meow": "x", "kind": "cat"}',
         [{}, Cat(None, ""), Cat(None, "x"), Cat("cat", "x")]),
        (list[Cat | int | None], '[1, null, {"kind": "cat", "meow": ""}]',
         [[], [1], [1, None], [1, None, Cat(None, None)], [1, None, Cat("cat", None)], [1, None, Cat("cat", "")]]),
        (area, '{"width": 2 }', [{}, {"width": 2.0}]),
    ],
)  # fmt: skip
def test_growth(kind, text, expected):
    shown = growth(kind, text)
    if kind is area:  # the finished value binds the defaults, too
        assert shown.pop().arguments == {"width": 2.0, "height": 1.0}
    assert shown == expected
    assert list(map(type, shown)) == list(map(type, expected))


def test_classes_that_only_their_init_makes_are_dicts_until_then():
    *open_values, whole = growth(Plain, '{"a": 1 }')
    assert open_values == [{}, {"a": 1}] and isinstance(whole, Plain) and whole.a == 1


def test_strings_can_be_held_back():
    assert growth(list[str], '["ab", "c"]', growing=False) == [[], ["ab"], ["ab", "c"]]
    assert growth(str, '"ab"', growing=False) == ["ab"]


def test_what_a_class_refuses_is_shown_as_if_it_were_open():
    wrong = Strict(0, 0)
    wrong.low = 2
    for kind, text, value in [
        (list[Strict], '[{"low": 2, "high": 0}, {"low": 1, "high": 2}]', [wrong, Strict(1, 2)]),
        (dict[str, Strict | None], '{"a": {"low": 2, "high": 0}}', {"a": wrong}),
        (Box[Strict], '{"inside": {"low": 2, "high": 0}}', Box(wrong, None)),
    ]:
        assert growth(kind, text)[-1] == value
        with pytest.raises(ReadError, match="upside down"):
            python_type(kind).read(text)


def test_unfinished_records_do_not_run_their_code():
    first, *_ = growth(Strict, '{"low": 2')
    assert isinstance(first, Strict) and first.low is None


def test_other_notations_show_nothing_before_the_end():
    assert partial_of(python_type(int, notation="yaml"), growing_strings=True) is None


def test_paths_are_those_of_the_text():
    partial = partial_of(python_type(Point), growing_strings=True)
    partial.feed('{"x": 1, "y"')
    assert partial.finished == ["/x"] and partial.path == ""
    partial.feed(": 2}")
    assert partial.finished == ["/y", ""] and partial.is_complete


VALUES = {
    Tree: st.recursive(
        st.builds(Tree, st.text(max_size=3)),
        lambda kids: st.builds(Tree, st.text(max_size=3), st.lists(kids, max_size=3)), max_leaves=8,
    ),
    dict[str, list[int | bool | None]]: st.dictionaries(
        st.text(max_size=3), st.lists(st.integers() | st.booleans() | st.none(), max_size=3), max_size=3
    ),
    list[Cat | Dog]: st.lists(
        st.builds(Cat, st.just("cat"), st.text(max_size=3)) | st.builds(Dog, st.just("dog"), st.integers()), max_size=4
    ),
    tuple[Pair, set[int], Movie]: st.tuples(
        st.builds(Pair, st.integers(), st.text(max_size=3)), st.sets(st.integers(), max_size=3),
        st.fixed_dictionaries({}, optional={"title": st.text(max_size=3), "year": st.integers()}),
    ),
}  # fmt: skip


def jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    if isinstance(value, Pair):
        return value._asdict()
    if isinstance(value, tuple | list):
        return [jsonable(part) for part in value]
    return sorted(value) if isinstance(value, set) else value


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])), st.data())
def test_snapshots_stay_and_end_in_the_value(pair, data):
    kind, value = pair
    text = json.dumps(jsonable(value))
    made = python_type(kind)
    chunked, single, plain = *(partial_of(made, growing_strings=True) for _ in range(2)), PartialJson()
    cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=5))})
    kept = []
    for start, end in itertools.pairwise(cuts):
        for c in text[start:end]:
            single.feed(c)
            plain.feed(c)
            kept.append((single.snapshot(), repr(single.snapshot())))
        chunked.feed(text[start:end])
        assert repr(chunked.snapshot()) == repr(single.snapshot()), "it depends on how often one looks"
        assert chunked.path == plain.path
    assert all(repr(snapshot) == shown for snapshot, shown in kept)
    assert single.snapshot() == value == made.read(text)


class Conversion:
    """A descriptor that takes numbers only."""

    def __get__(self, owner: Any, kind: Any) -> Any:
        return 5 if owner is None else owner.__dict__["_b"]

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__["_b"] = int(value)


@dataclasses.dataclass
class Converted:
    a: int
    b: int = Conversion()  # type: ignore[assignment]


@dataclasses.dataclass
class Options(dict):  # type: ignore[type-arg]
    a: int


@dataclasses.dataclass
class Failure(Exception):
    a: int


class Checked(Pair):
    @classmethod
    def _make(cls, values: Any) -> Checked:
        return cls(*values)

    def __new__(cls, a: int, b: str = "b") -> Checked:
        return super().__new__(cls, abs(a), b)


def test_classes_that_nothing_makes_but_their_own_code_are_dicts_until_then():
    assert growth(Converted, '{"a": 1, "b": 2}') == [{}, {"a": 1}, Converted(1, 2)]
    for kind in (Options, Failure):
        first, last = growth(kind, '{"a": 1}')
        assert first == {} and type(last) is kind and last.a == 1
    assert growth(Checked, '{"a": 1 }') == [(None, None), (1, None), (1, "b")]


def test_the_tag_of_a_struct_is_shown_under_its_key():
    msgspec = pytest.importorskip("msgspec")
    kind = msgspec.defstruct("Circle", [("r", int)], tag="circle")
    assert growth(kind, '{"type": "circle", "r": 1}')[:2] == [{}, {"type": "circle"}]


# -- pydantic --------------------------------------------------------------------------------------------------------
def test_models():
    pydantic = pytest.importorskip("pydantic")

    class Address(pydantic.BaseModel):
        street: str
        zip: int | None = 0

        def model_post_init(self, _: Any) -> None:
            assert self.street is not None, "never called for an unfinished model"

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(alias="full-name")
        born: datetime.date
        home: Address
        tags: frozenset[str] = frozenset("x")

        @pydantic.field_validator("name")
        @classmethod
        def capital(cls, name: str) -> str:
            return name.upper()

    text = '{"full-name": "ada", "born": "1815-12-10", "home": {"street": "S", "zip": null}}'
    *shown, whole = growth(Person, text)
    assert all(type(person) is Person for person in shown)
    assert [p.name for p in shown[:4]] == [None, "", "a", "ad"] and shown[0].tags is None
    assert shown[0].model_fields_set == set() and shown[4].model_fields_set == {"name"}
    assert [p.born for p in shown if p.born] and shown[5].born == datetime.date(1815, 12, 10)
    first = next(p.home for p in shown if p.home)
    assert type(first) is Address and (first.street, first.zip) == (None, None)
    assert whole == Person(**json.loads(text)) and whole.name == "ADA" and whole.tags == {"x"}


def test_models_with_extra_members_and_root_models():
    pydantic = pytest.importorskip("pydantic")

    class Open(pydantic.BaseModel, extra="allow"):
        a: int

    class Numbers(pydantic.RootModel[list[int]]):
        pass

    shown = growth(Open, '{"a": 1, "b": "x"}')
    assert [(o.a, o.model_extra) for o in shown] == [
        (None, {}), (1, {}), (1, {"b": ""}), (1, {"b": "x"})
    ]  # fmt: skip
    assert [n.root for n in growth(Numbers, "[1, 2]")] == [[], [1], [1, 2]]
    assert all(type(n) is Numbers for n in growth(Numbers, "[1, 2]"))
    assert growth(list[Numbers], "[[1]]") == [[], [Numbers([])], [Numbers([1])]]


def test_strings_that_a_validator_may_change_are_held_back():
    pydantic = pytest.importorskip("pydantic")
    upper = Annotated[str, pydantic.AfterValidator(str.upper)]
    assert growth(list[upper], '["ab", "c"]') == [[], ["AB"], ["AB", "C"]]
    assert growth(upper | None, '"ab"') == ["AB"]
    assert growth(Annotated[str | int, pydantic.AfterValidator(lambda made: made * 2)], '"ab"') == ["abab"]
    assert growth(Annotated[str, pydantic.StringConstraints(strip_whitespace=True)], '" a "') == ["a"]


def test_secrets_and_urls_in_an_unfinished_model_have_their_type():
    pydantic = pytest.importorskip("pydantic")

    class Login(pydantic.BaseModel):
        secret: pydantic.SecretStr
        key: pydantic.SecretBytes
        site: pydantic.HttpUrl

    shown = growth(Login, '{"secret": "abc", "key": "def", "site": "http://a.b"}')
    assert all("abc" not in repr(login) and "def" not in repr(login) for login in shown)
    assert [login.secret for login in shown][:2] == [None, pydantic.SecretStr("abc")]
    assert shown[-1] == Login(secret="abc", key=b"def", site="http://a.b")
    assert type(shown[-1].site) is type(Login(secret="", key=b"", site="http://a.b").site)


def test_secrets_and_urls_inside_other_types_have_their_type_in_an_unfinished_model():
    """A finished list is not one of texts until its model is finished, too."""
    pydantic = pytest.importorskip("pydantic")
    from typing_extensions import TypedDict

    secret: Any
    url: Any
    secret, url = pydantic.SecretStr, pydantic.HttpUrl
    cases: list[tuple[Any, str]] = [
        (secret | None, '"top"'),
        (url | None, '"http://a.b"'),
        (url | str, '"http://a.b"'),
        (url | int | list[secret], '["top", "top"]'),
        (list[secret], '["top", "top"]'),
        (list[list[secret | None]], '[["top", null], []]'),
        (set[secret], '["top"]'),
        (tuple[secret, int], '["top", 1]'),
        (tuple[url, ...], '["http://a.b"]'),
        (dict[str, secret], '{"k": "top"}'),
        (NamedTuple("Named", [("a", secret), ("b", int)]), '{"a": "top", "b": 3}'),
        (TypedDict("Members", {"a": secret, "b": list[secret]}, total=False), '{"b": ["top"]}'),
        (dataclasses.make_dataclass("Record", [("a", secret)]), '{"a": "top"}'),
        (pydantic.RootModel[secret], '"top"'),
        (pydantic.create_model("Inner", a=(list[secret], ...)), '{"a": ["top"]}'),
    ]
    for kind, value in cases:
        model = pydantic.create_model("Model", a=(kind, ...), b=(int, ...))
        shown = growth(model, f'{{"a": {value}, "b": 1}}')
        assert not any("top" in repr(one) for one in shown), (kind, shown)
        (last_open,) = [one for one in shown if one.model_fields_set == {"a"}][-1:]
        assert repr(last_open.a) == repr(shown[-1].a), kind
