"""What people write in models for structured output: a text is taken if and only if pydantic alone reads it."""

from __future__ import annotations

import abc
import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
import typing_extensions as te
from annotated_types import Predicate

import guiderail as gr
from random_texts import random_text

pydantic = pytest.importorskip("pydantic")

from pydantic import (  # noqa: E402
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    AliasPath,
    Base64Str,
    Base64UrlStr,
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    RootModel,
    SecretStr,
    TypeAdapter,
    with_config,
)
from pydantic.alias_generators import to_camel, to_pascal  # noqa: E402
from pydantic.json_schema import SkipJsonSchema  # noqa: E402
from pydantic_core import core_schema  # noqa: E402

T = TypeVar("T")


# -- Self
class Tree(BaseModel):
    name: str
    parts: list[te.Self] = []
    next: te.Self | None = None


class Leafy(Tree):
    """Self is the class that the field is inherited by."""

    size: int


@dataclass
class Chain(Generic[T]):
    item: T
    next: te.Self | None = None


class Pair(NamedTuple):
    left: int
    right: te.Self | None = None


class Nested(te.TypedDict):
    name: str
    inner: te.NotRequired[te.Self]


class Plain:
    def __init__(self, name: str, other: te.Self | None = None) -> None:
        self.all = (name, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.all == other.all

    __hash__ = None  # type: ignore[assignment]


# -- discriminators
class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Pet(RootModel[Annotated[Cat | Dog, Field(discriminator="kind")]]):
    pass


class Animal(RootModel[Cat | Dog]):
    root: Cat | Dog = Field(discriminator="kind")


# -- what pydantic is told of classes of Python
@dataclass(frozen=True)
class Sized:
    size: int = Field(gt=0, le=5)
    name: str = Field("a", max_length=3)
    many: list[Sized] = Field(default_factory=list, alias="Many", max_length=1)  # noqa: RUF009


@dataclass(kw_only=True, slots=True)
class Renamed:
    size: Annotated[int, Field(alias="Size")] = 3


@dataclass
class Short:
    __pydantic_config__ = ConfigDict(str_max_length=2, extra="forbid")
    text: str
    more: list[str] = field(default_factory=list)


@with_config(ConfigDict(str_max_length=2, str_to_upper=True, extra="allow"))
class Shorts(te.TypedDict):
    text: Annotated[str, Field(alias="Text")]


class Keyed(te.TypedDict):
    text: Annotated[str, Field(alias="Text", max_length=2)]


class Row(te.TypedDict):
    first_name: str
    other: te.NotRequired[Annotated[str, Field(alias="alias")]]


@dataclass
class Line(Generic[T]):
    first_name: str
    the_items: list[T] = field(default_factory=list)
    row: Row | None = None


class Camels(BaseModel):
    """Its config holds for classes of Python within it."""

    model_config = ConfigDict(alias_generator=to_camel, str_max_length=4, str_to_upper=True)
    the_row: Row | None = None
    the_line: Line[int] | None = None
    lines: list[Line[Annotated[str, Field(min_length=1)]]] = []


class Pascals(Camels):
    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=to_pascal), str_to_lower=True)


class Holder(BaseModel):
    sized: Sized | None = None
    renamed: Renamed = Field(default_factory=Renamed)
    short: Short | None = None
    shorts: Shorts | None = None
    keyed: Keyed | None = None


# -- classes and annotations that describe themselves
class Handle(str):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema(max_length=3))


class Even(int):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(cls, core_schema.int_schema(multiple_of=2))


class Foreign:
    def __init__(self) -> None:
        self.x = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Foreign) and self.x == other.x

    __hash__ = None  # type: ignore[assignment]


class ForeignAnnotation:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        def make(x: int) -> Foreign:
            made = Foreign()
            made.x = x
            return made

        from_int = core_schema.chain_schema(
            [core_schema.int_schema(), core_schema.no_info_plain_validator_function(make)]
        )
        is_one = core_schema.is_instance_schema(Foreign)
        either = core_schema.union_schema([is_one, from_int])
        return core_schema.json_or_python_schema(json_schema=from_int, python_schema=either)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return handler(core_schema.int_schema())


class Begins:
    """Changes what was read, not what may be written."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(lambda text: text[:3], handler(source))


class Described(BaseModel):
    handle: Handle | None = None
    numbers: set[Even] = set()
    names: dict[Handle, int] = {}
    foreign: Annotated[Foreign, ForeignAnnotation] | None = None
    short: Annotated[str, GetPydanticSchema(lambda kind, handler: core_schema.str_schema(max_length=2))] = ""
    begins: Annotated[str, Begins()] = ""


@dataclass
class AlsoDescribed:
    foreign: Annotated[Foreign, ForeignAnnotation]
    begins: Annotated[str, Begins()] = ""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    one: int = Field(1, alias="One")
    two: int = Field(2, validation_alias=AliasChoices("Two", "zwei", AliasPath("deep", 0)))


CASES: list[tuple[Any, list[str], list[str]]] = [
    (Tree, ['{"name":"a","parts":[{"name":"b"}],"next":{"name":"c"}}'], ['{"name":"a","next":{"name":1}}']),
    (Leafy, ['{"name":"a","next":{"name":"b","size":1},"size":2}'], ['{"name":"a","next":{"name":"b"},"size":2}']),
    (Chain[int], ['{"item":1,"next":{"item":2}}'], ['{"item":1,"next":{"item":"a"}}']),
    (Nested, ['{"name":"a","inner":{"name":"b"}}'], ['{"name":"a","inner":{}}']),
    (Pet, ['{"kind":"cat"}', '{"kind":"dog","name":"a"}'], ["{}", '{"lives":1}', '{"name":"a"}']),
    (list[Animal], ['[{"kind":"cat"}]'], ["[{}]", '[{"name":"a"}]']),
    (Sized, ['{"size":1}', '{"size":5,"name":"abc","Many":[{"size":1}]}'],
     ["{}", '{"size":0}', '{"size":1,"name":"abcd"}', '{"size":1,"Many":[{"size":9}]}', '{"size":1,"many":[]}']),
    (Renamed, ["{}", '{"Size":1}'], ['{"size":1}']),
    (Short, ['{"text":"ab","more":["ab"]}'], ['{"text":"abc"}', '{"text":"","more":["abc"]}', '{"text":"","x":1}']),
    (Shorts, ['{"Text":"ab"}', '{"Text":"ab","x":[1]}'], ['{"Text":"abc"}', '{"text":"a"}']),
    (Holder, ['{"sized":{"size":2},"renamed":{"Size":4}}', '{"short":{"text":"ab"},"shorts":{"Text":"a"}}'],
     ['{"short":{"text":"abc"}}', '{"shorts":{"Text":"abc"}}', '{"keyed":{"Text":"abc"}}', '{"keyed":{"text":"a"}}']),
    (Camels, ['{"theRow":{"firstName":"abcd","alias":"a"},"theLine":{"firstName":"a","theItems":[1]}}',
              '{"lines":[{"firstName":"b","theItems":["c"],"row":{"firstName":"d"}}]}'],
     ['{"theRow":{"first_name":"a"}}', '{"theLine":{"firstName":"abcde"}}',
      '{"theLine":{"firstName":"","theItems":["a"]}}', '{"lines":[{"firstName":"","theItems":[""]}]}',
      '{"lines":[{"firstName":"b","row":{"firstName":"abcde"}}]}']),
    (Pascals, ['{"TheLine":{"FirstName":"Ab","Row":{"FirstName":"Ab"}}}'], ['{"TheLine":{"firstName":"a"}}']),
    (Described, ['{"handle":"abc","numbers":[2],"names":{"abc":1},"foreign":1,"short":"ab","begins":"abcd"}'],
     ['{"handle":"abcd"}', '{"numbers":[1]}', '{"names":{"abcd":1}}', '{"foreign":{}}', '{"short":"abc"}']),
    (AlsoDescribed, ['{"foreign":1,"begins":"abcd"}'], ['{"foreign":{}}']),
    (dict[Handle, Even], ['{"abc":2}'], ['{"abcd":2}', '{"abc":1}']),
    (Base64UrlStr, ['"Yj9i"', '"Yn4_"', '"Yn8-"'], ['"Yn4/"', '"Yn8+"', '"a-"']),
    (Open, ['{"One":1,"Two":2,"three":3}'], ['{"one":1}', '{"zwei":1}', '{"two":1}', '{"deep":[1]}']),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "good", "bad"), CASES, ids=[str(case[0]) for case in CASES])
def test_texts_are_those_that_pydantic_reads(kind: Any, good: list[str], bad: list[str]) -> None:
    constraint, judge = gr.python_type(kind), TypeAdapter(kind)
    for text in good:
        assert constraint.matches(text) and constraint.read(text) == judge.validate_json(text), text
    assert not [text for text in bad if constraint.matches(text)]
    rng = random.Random(5)
    for steps in (0, 3, 10, 25, 40, 80) * 4:
        text = random_text(constraint, rng, steps)
        assert constraint.read(text) == judge.validate_json(text), text


def test_self_in_classes_that_pydantic_does_not_read() -> None:
    assert gr.read(Plain, '{"name": "a", "other": {"name": "b"}}') == Plain("a", Plain("b"))
    assert gr.read(Pair, '{"left": 1, "right": {"left": 2}}') == Pair(1, Pair(2))

    def outside(x: te.Self) -> None: ...  # type: ignore[valid-type,misc]

    with pytest.raises(gr.CompileError, match=r"outside\.x: Self: it has no value here"):
        gr.python_type(outside)


# -- members that are not for the model that writes
def test_what_pydantic_leaves_out_of_schemas_is_not_written() -> None:
    class Record(BaseModel):
        model_config = ConfigDict(extra="allow")
        text: str
        id: SkipJsonSchema[uuid.UUID] = Field(default_factory=uuid.uuid4)
        size: int | SkipJsonSchema[None] = None
        then: SkipJsonSchema[Callable[[], int] | None] = Field(None, exclude=True)
        always: SkipJsonSchema[int]

    constraint = gr.python_type(Record)
    assert isinstance(constraint.read('{"text": "a", "size": 3, "always": 1, "other": 2}').id, uuid.UUID)
    written = json.loads(Record(text="a", always=1).model_dump_json(exclude={"id", "size"}))
    assert constraint.matches(json.dumps(written))
    for more in ({"size": None}, {"id": str(uuid.uuid4())}, {"then": None}):
        assert not constraint.matches(json.dumps({"text": "a", **more, "always": 1}))

    def tool(x: int, context: SkipJsonSchema[Any] = "here", **more: int) -> Any:
        return x, context, more

    assert gr.call(tool, '{"x": 1, "y": 2}') == (1, "here", {"y": 2})
    assert not gr.python_type(tool).matches('{"x": 1, "context": 2}')

    @dataclass
    class Row:
        x: int
        key: SkipJsonSchema[int] = 7

    assert gr.read(Row, '{"x": 1}') == Row(1) and not gr.python_type(Row).matches('{"x": 1, "key": 2}')


def test_parameters_have_their_aliases() -> None:
    def tool(x: int = Field(alias="X"), y: Annotated[int, Field(alias="Y")] = 2) -> Any:
        return x, y

    assert gr.call(tool, '{"X": 1, "Y": 3}') == (1, 3)
    assert not gr.python_type(tool).matches('{"x": 1}')


def test_a_class_that_cannot_be_made_is_refused() -> None:
    class Shape(BaseModel, abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    with pytest.raises(gr.CompileError, match="Shape: cannot be instantiated"):
        gr.python_type(Shape)


class Anew(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal, revalidate_instances="always")
    the_text: Base64Str


class AnewInDict(te.TypedDict):
    anew: Anew


class AnewInTuple(NamedTuple):
    anew: Anew


@dataclass
class Decoded:
    text: Base64Str


class AllAnew(BaseModel):
    model_config = ConfigDict(revalidate_instances="always")
    in_dict: AnewInDict
    in_tuple: AnewInTuple
    decoded: list[Decoded]


def test_what_pydantic_makes_anew_is_decoded_once() -> None:
    anew = '{"anew": {"TheText": "YWJjZA=="}}'  # "abcd", which is base 64 as well
    text = f'{{"in_dict": {anew}, "in_tuple": {anew}, "decoded": [{{"text": "YWJjZA=="}}]}}'
    assert gr.python_type(AllAnew).matches(text)
    read = gr.read(AllAnew, text)
    assert read == AllAnew.model_validate_json(text)
    assert read.in_dict["anew"].the_text == read.in_tuple.anew.the_text == read.decoded[0].text == "abcd"


def test_bounds_of_a_root_model_are_refused() -> None:
    """pydantic can only apply them to the root: each text would be an error."""
    with pytest.raises(gr.CompileError, match="max_length of Pet: this constraint does not apply"):
        gr.python_type(Annotated[Pet, Field(max_length=3)])
    assert gr.python_type(Annotated[Pet, Field(description="a pet")]).read('{"kind":"cat"}') == Pet(Cat())


def test_snapshots_have_the_attributes_of_aliases() -> None:
    reader = gr.python_type(Camels).reading().partial(growing_strings=True)
    reader.feed('{"theLine": {"firstName": "a", "theItems": [1')
    line = reader.snapshot().the_line
    assert line.first_name == "a" and line.the_items == []
    reader = gr.python_type(Sized).reading().partial(growing_strings=True)
    reader.feed('{"size": 1, "Many": [')
    assert reader.snapshot().many == []


@pytest.mark.parametrize(
    "test", [str.islower, str.isupper, str.isalpha, str.isalnum, str.isdigit, str.isnumeric, str.isdecimal]
)
def test_predicates_of_strings_restrict_the_text(test: Callable[[str], bool]) -> None:
    constraint = gr.python_type(Annotated[str, Predicate(test)])
    for text in ("", "a", "A", "1", "a1", "A1", "aé", "ÀÉ", "Ab", "a b", "A B", "-", "ǅ", "aʕ", "Aʕ", "日本", "²"):
        if constraint.matches(json.dumps(text, ensure_ascii=False)):
            assert test(text), text
        else:
            assert not (test(text) and text.isascii()), text
    for steps in (1, 5, 20, 40):
        constraint.read(random_text(constraint, random.Random(steps), steps))


def test_keys_may_be_bounded_integers() -> None:
    ratings = gr.python_type(dict[Annotated[int, Field(ge=1, le=50, multiple_of=5)], str])
    assert ratings.read('{"5": "a", "50": "b"}') == {5: "a", 50: "b"}
    for key in ("0", "-5", "55", "7", "05", "5.0", ""):
        assert not ratings.matches(f'{{"{key}": "a"}}')
    with pytest.raises(gr.ReadError, match="at most 50") as caught:
        ratings.read('{"5": "a", "55": "b"}')
    assert caught.value.pointer == "/55"
    by_id = gr.python_type(Annotated[dict[pydantic.PositiveInt, int], Field(min_length=2)])
    assert by_id.matches('{"1": 1, "2": 1}') and not by_id.matches('{"1": 1}')


def test_errors_name_the_member() -> None:
    class Inner(BaseModel):
        good: int
        bad: list[complex]

    class Outer(BaseModel):
        inner: Inner | None = None

    with pytest.raises(gr.CompileError) as caught:
        gr.python_type(Outer)
    assert caught.value.message == "Inner.bad: complex: JSON has no complex numbers; use a tuple of two floats"
    assert caught.value.code == "type-unsupported" and caught.value.reason.startswith("complex: ")

    class Patterned(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        text: str = Field(pattern=r"(?P<a>.)+(?P=a)*")

    def tool(*many: SecretStr, other: Annotated[str, AfterValidator(str.strip), Field(ge=3)]) -> None: ...

    for kind, place in ((Patterned, "Patterned.text: "), (tool, "tool.other: ge of str")):
        with pytest.raises((gr.CompileError, gr.PatternError)) as caught:
            gr.python_type(kind)
        assert caught.value.message.startswith(place)


@pytest.mark.parametrize(
    ("kind", "written"),
    [([int], "write list"), ((int, str), "write tuple"), ({"a": int}, "a TypedDict for given keys, or gr.json_schema")],
    ids=str,
)
def test_values_in_place_of_types_are_answered_with_the_type(kind: Any, written: str) -> None:
    with pytest.raises(gr.CompileError, match=f"not a type; .*{written}"):
        gr.python_type(kind)


def test_classes_of_pydantic_1_are_refused() -> None:
    v1 = pytest.importorskip("pydantic.v1")

    class Old(v1.BaseModel):  # type: ignore[name-defined,misc]
        x: int

    for kind in (Old, v1.PositiveInt):
        with pytest.raises(gr.CompileError, match="is of pydantic 1; use what pydantic 2 has"):
            gr.python_type(list[kind])


@pytest.mark.parametrize(
    ("module", "name", "good", "bad"),
    [
        ("country", "CountryAlpha2", ["DE"], ["XX", "de"]),
        ("country", "CountryAlpha3", ["DEU"], ["DE"]),
        ("country", "CountryNumericCode", ["276"], ["000"]),
        ("country", "CountryShortName", ["Germany"], ["Atlantis"]),
        ("language_code", "LanguageAlpha2", ["de"], ["xx"]),
        ("language_code", "LanguageName", ["German"], ["Elvish"]),
        ("color", "Color", ["red", "#a1b", "#a1b2c3"], ["reddish", "#a1"]),
        ("mac_address", "MacAddress", ["00:1a:2b:3c:4d:5e"], ["00:1a:2b:3c:4d", "00:1a:2b:3c:4d:5g"]),
        ("domain", "DomainStr", ["example.org"], ["example", "-a.org", ""]),
        ("coordinate", "Latitude", [1.5, -90], [91]),
        ("coordinate", "Longitude", [180], [180.5]),
        ("coordinate", "Coordinate", [{"latitude": 1, "longitude": 180}], [{"latitude": 91, "longitude": 0}]),
        ("epoch", "Number", [1e9, 0.5], [1e13]),
        ("epoch", "Integer", [0, -1], [10**13, 0.5]),
    ],
)
def test_extra_types_of_pydantic(module: str, name: str, good: list[Any], bad: list[Any]) -> None:
    pytest.importorskip("pydantic_extra_types")
    kind = getattr(pytest.importorskip(f"pydantic_extra_types.{module}", exc_type=ImportError), name)
    holder = pydantic.create_model("Holder", x=(kind | None, ...))
    for one, wrap in ((kind, lambda value: value), (holder, lambda value: {"x": value})):
        constraint, judge = gr.python_type(one), TypeAdapter(one)
        for value in good:
            text = json.dumps(wrap(value))
            assert constraint.matches(text) and constraint.read(text) == judge.validate_json(text), text
        assert not any(constraint.matches(json.dumps(wrap(value))) for value in bad)
        for steps in (0, 5, 20, 40):
            text = random_text(constraint, random.Random(steps), steps)
            assert constraint.read(text) == judge.validate_json(text), text
