"""Pydantic models: the model accepts every allowed text."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import pathlib
import random
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
import typing_extensions as te
from annotated_types import MultipleOf

import guiderail as gr
from random_texts import random_text

pydantic = pytest.importorskip("pydantic")

from pydantic import (  # noqa: E402
    UUID4,
    AfterValidator,
    AliasChoices,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    Base64UrlBytes,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    FileUrl,
    FiniteFloat,
    FutureDate,
    FutureDatetime,
    HttpUrl,
    IPvAnyAddress,
    IPvAnyInterface,
    IPvAnyNetwork,
    Json,
    MongoDsn,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    PositiveInt,
    PostgresDsn,
    RedisDsn,
    RootModel,
    SecretBytes,
    SecretStr,
    StrictStr,
    StringConstraints,
    Tag,
    TypeAdapter,
    UrlConstraints,
    WebsocketUrl,
    computed_field,
    constr,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass  # noqa: E402

T = TypeVar("T")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 20


class Row(NamedTuple):
    number: int
    text: str = "none"


class Extra(te.TypedDict):
    code: Annotated[str, StringConstraints(pattern=r"^\w+\s\W$")]


@dataclass
class Point:
    x: int
    y: Annotated[int, AfterValidator(lambda n: n + 1)] = 0


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = ""


class Everything(BaseModel):
    """All sorts."""

    model_config = ConfigDict(strict=True)

    name: str = Field(pattern=r"^[A-Z]\w*$", max_length=8, description="who")
    price: decimal.Decimal = Field(gt=0, max_digits=8, decimal_places=2)
    level: Level
    chosen: Literal[Level.HIGH, "x"]
    rows: list[Row] = []
    extra: Extra | None = None
    points: tuple[Point, ...] = ()
    tags: Annotated[set[str], Field(max_length=3)] = Field(default_factory=set)
    counts: dict[Level, bytes] = {}
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Dog(kind="dog")
    share: float | None = Field(None, gt=0, le=1)
    when: dt.datetime | None = None
    parent: Everything | None = None

    @computed_field
    def twice(self) -> decimal.Decimal:
        return self.price * 2


class Trimmed(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=2, str_max_length=5)
    text: str
    many: list[str]


class Sized(BaseModel):
    """What pydantic reads from a string keeps to the string settings of the model, too."""

    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=7, str_max_length=9)
    secret: SecretStr
    hidden: SecretBytes
    packed: Base64Str
    packed_bytes: Base64Bytes
    url: AnyUrl
    path: pathlib.PurePosixPath
    optional: Annotated[SecretStr | None, Field(alias="may")] = None


class Strictly(BaseModel):
    model_config = ConfigDict(strict=True)
    hidden: SecretBytes
    secret: SecretStr
    packed: bytes


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    name: str


class Aliased(BaseModel):
    model_config = ConfigDict(alias_generator=lambda name: name.upper())
    one: int
    two: int = Field(alias="zwei")
    three: int = Field(3, validation_alias=AliasChoices(AliasPath("a", 0), "tre"))


class Pair(BaseModel, Generic[T]):
    left: T
    right: T | None = None


class Branch(BaseModel, Generic[T]):
    value: T
    next: Branch[T] | None = None
    more: list[Branch[T]] = Field([], max_length=2)


class Trees(BaseModel):
    numbers: Branch[int]
    words: Branch[Level] | None = None
    lists: Branch[list[int]] | None = None


class Ids(RootModel[list[Annotated[int, Field(gt=0)]]]):
    """Numbers of things."""


@pydantic_dataclass
class Checked:
    size: int = Field(gt=0)
    word: str = Field("x", alias="wort")


class Incremented(BaseModel):
    n: Annotated[int, AfterValidator(lambda n: n + 1)]
    d: dict[str, Annotated[int, BeforeValidator(lambda n: n)]] = {}


def tag_of(value: Any) -> str:
    return value["kind"] if isinstance(value, dict) else value.kind


Tagged = Annotated[
    Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")],
    Discriminator(tag_of),
]


class Owner(BaseModel):
    pet: Tagged


class Circle(BaseModel):
    kind: Literal["circle"] = Field("circle", alias="type")
    size: int = 1


class Square(BaseModel):
    kind: Literal["square"] = Field("square", alias="type")
    size: int = 1


class Shapes(BaseModel):
    one: Circle | Square = Field(discriminator="kind")
    more: list[Annotated[Circle | Square, Field(discriminator="kind")] | None] = []


class Steps(BaseModel):
    thirds: float = Field(multiple_of=0.3)
    small: float = Field(1, multiple_of=1e-5, gt=-1e9)
    halves: float | None = Field(None, multiple_of=0.5)
    threes: float = Field(3, multiple_of=3)


MODELS = [
    Shapes,
    Steps,
    Everything,
    Trimmed,
    Sized,
    Strictly,
    Open,
    Aliased,
    Pair[int],
    Pair[Level],
    Branch[int],
    Branch[Pair[int]],
    Trees,
    Ids,
    Checked,
    Incremented,
    Owner,
]
TYPES: list[Any] = [
    UUID4, AnyUrl, AwareDatetime, Base64Bytes, Base64Str, Base64UrlBytes, ByteSize, FileUrl, FiniteFloat, FutureDate,
    FutureDatetime, HttpUrl, IPvAnyAddress, MongoDsn, NaiveDatetime, PastDate, PastDatetime, PositiveInt, PostgresDsn,
    SecretBytes, SecretStr, StrictStr, WebsocketUrl, constr(pattern="^[a-c]{2,3}$", strip_whitespace=True),
    constr(strip_whitespace=True, min_length=2, max_length=4), Annotated[str, Field(pattern=r"(?i)^ab[c-d]?$")],
    Annotated[decimal.Decimal, Field(max_digits=3)], Annotated[decimal.Decimal, Field(max_digits=9)],
    Annotated[decimal.Decimal, Field(decimal_places=2)],
    *[Annotated[decimal.Decimal, Field(max_digits=most, decimal_places=2)] for most in (1, 2, 3)],
    Annotated[decimal.Decimal, Field(multiple_of=decimal.Decimal("0.05"))],
    Annotated[float, Field(multiple_of=0.1)], Annotated[list[int], Field(min_length=1, max_length=2)],
    Annotated[int | None, Field(gt=3)], RedisDsn, IPvAnyInterface, IPvAnyNetwork,
    Annotated[AnyUrl, UrlConstraints(allowed_schemes=["s3"], max_length=12)],
]  # fmt: skip
URLS: list[tuple[Any, list[str], list[str]]] = [
    (AnyUrl, ["s3://bucket/key", "http://a.b/", "file:///etc/x"], ["a", "http://", "http://xn--a/"]),
    (HttpUrl, ["http://127.0.0.1:8080/x?y=1", "http://[::1]/", "https://u:p@h.Example.com:65535/a%20b_(c)#d"],
     ["ftp://a.bc/", "http://1.2.3", "http://a:65536/"]),
    (PostgresDsn, ["postgresql+asyncpg://user:pass@localhost:5432/app", "postgres://u:p@a:1,b:2/db"], ["postgres://"]),
    (RedisDsn, ["redis://:pass@localhost:6379/0"], ["http://localhost"]),
    (Annotated[AnyUrl, UrlConstraints(allowed_schemes=["s3"])], ["s3://b/k"], ["http://b/k"]),
    (Annotated[HttpUrl, UrlConstraints(max_length=15)], ["http://a.bc/d"], ["http://a.bc/defgh", "ftp://a.bc/d"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "urls", "others"), URLS, ids=str)
def test_urls_are_those_that_pydantic_reads(kind: Any, urls: list[str], others: list[str]) -> None:
    constraint = gr.python_type(kind)
    for text in map(json.dumps, urls):
        assert constraint.matches(text) and constraint.read(text) == TypeAdapter(kind).validate_json(text)
    assert not any(constraint.matches(json.dumps(text)) for text in others)


def test_a_generic_model_that_holds_itself() -> None:
    constraint = gr.python_type(Trees)
    text = '{"numbers": {"value": 1, "next": {"value": 2}}, "lists": {"value": [], "more": [{"value": [3]}]}}'
    assert constraint.matches(text) and constraint.read(text) == Trees.model_validate_json(text)
    assert not constraint.matches(text.replace("2", '"2"')) and not constraint.matches(text.replace("[3]", "3"))


@pytest.mark.parametrize("most", [1, 3, 28])
def test_digits_may_be_on_either_side_of_the_point(most: int) -> None:
    kind = Annotated[decimal.Decimal, Field(max_digits=most)]
    constraint, judge = gr.python_type(kind), TypeAdapter(kind)
    for before in range(most + 2):
        for after in range(most + 2):
            text = ("7" * before or "0") + ("." + "3" * after if after else "")
            if before + after <= most:
                assert constraint.matches(text) and constraint.read(text) == judge.validate_python(
                    decimal.Decimal(text)
                )
            else:
                assert not constraint.matches(text)


@pytest.mark.parametrize("most", [1, 2])
def test_no_digit_before_the_point_excludes_zero(most: int) -> None:
    kind = Annotated[decimal.Decimal, Field(max_digits=most, decimal_places=2)]
    constraint = gr.python_type(kind)
    for text in ("0", "-0", "0.0", "0.00", "0.5", "-0.5", "1"):
        assert constraint.matches(text) == (text in ("0.5", "-0.5")), text
    with pytest.raises(gr.ReadError):
        constraint.read("0.0")


def test_validators_beside_metadata_of_pydantic_run() -> None:
    def refuse(value: Any) -> Any:
        raise ValueError("never")

    uuid = '"f47ac10b-58cc-4372-a567-0e02b2c3d479"'
    for kind, text in ((UUID4, uuid), (Base64Str, '"YWJj"'), (HttpUrl, '"http://a.bc/"')):
        with pytest.raises(gr.ReadError, match="never"):
            gr.read(Annotated[kind, AfterValidator(refuse)], text)
    assert gr.python_type(Annotated[UUID4, "an id"]).schema["description"] == "an id"


class One(BaseModel):
    kind: Literal[1] = Field(alias="type")
    one: int


class Two(BaseModel):
    kind: Literal[2] = Field(2, alias="type")
    two: int


class Whole(BaseModel):
    kind: int


def test_a_discriminator_need_not_be_a_string() -> None:
    kind = Annotated[One | Two, Field(discriminator="kind")]
    constraint = gr.python_type(kind)
    for text in ('{"type": 1, "one": 5}', '{"type": 2, "two": 5}'):
        assert constraint.matches(text) and constraint.read(text) == TypeAdapter(kind).validate_json(text)
    for text in ('{"type": 2, "one": 5}', '{"two": 5}', '{"type": 1, "two": 5}'):
        assert not constraint.matches(text)


TAG = Field(discriminator="kind")
UNTAGGED: list[Any] = [
    Annotated[int, TAG],
    Annotated[One | int, TAG],
    Annotated[list[One | Two], TAG],
    Annotated[One | Whole, TAG],
    Annotated[One | Shapes, TAG],
    Annotated[One | Two, Field(discriminator="none")],
    Annotated[One | Two, Discriminator(lambda value: "one")],
    list[Annotated[One | One | Whole, Discriminator("kind")]],
]


@pytest.mark.parametrize("kind", UNTAGGED, ids=map(str, range(len(UNTAGGED))))
def test_discriminators_that_pydantic_refuses(kind: Any) -> None:
    with pytest.raises(Exception) as theirs:  # of several classes
        TypeAdapter(kind)
    with pytest.raises(gr.CompileError, match="pydantic refuses this type: ") as ours:
        gr.python_type(kind)
    assert str(theirs.value).partition("\n")[0] in str(ours.value)


def test_a_function_that_tells_alternatives_apart_is_called() -> None:
    tagged = Annotated[One, Tag("one")] | Annotated[Two, Tag("two")]
    kind = Annotated[tagged, Discriminator(lambda value: "one")]
    constraint = gr.python_type(kind)
    assert constraint.read('{"type": 1, "one": 5}') == One(type=1, one=5)
    with pytest.raises(gr.ReadError):
        constraint.read('{"type": 2, "two": 5}')


def test_a_model_that_pydantic_cannot_build_is_refused() -> None:
    class Late(BaseModel):
        model_config = ConfigDict(defer_build=True)
        x: int = TAG

    with pytest.raises(gr.CompileError, match="Late: pydantic refuses this type"):
        gr.python_type(Late)


def test_validators_of_forward_references_use_the_namespace() -> None:
    kind = Annotated[list["Elsewhere"], AfterValidator(sorted)]  # type: ignore[name-defined]  # noqa: F821
    assert gr.python_type(kind, namespace={"Elsewhere": int}).read("[3, 2]") == [2, 3]
    with pytest.raises(gr.CompileError, match="namespace="):
        gr.python_type(kind)


@pytest.mark.parametrize("kind", [*MODELS, *TYPES], ids=str)
def test_whatever_is_let_through_is_taken(kind: Any) -> None:
    rng = random.Random(7)
    constraint = gr.python_type(kind)
    for steps in (0, 2, 10, 40, 40, 120, 250) * 4:
        text = random_text(constraint, rng, steps)
        value = constraint.read(text)
        if isinstance(kind, type):
            assert isinstance(value, kind) or kind.__module__.startswith("pydantic")


@pytest.mark.parametrize("kind", [Shapes, Steps])
def test_whatever_is_let_through_pydantic_reads_alone(kind: type[BaseModel]) -> None:
    rng = random.Random(8)
    constraint = gr.python_type(kind)
    for steps in (0, 2, 10, 40, 40, 120) * 20:
        text = random_text(constraint, rng, steps)
        assert kind.model_validate_json(text) == constraint.read(text), text


def test_what_tells_alternatives_apart_is_written() -> None:
    shapes = gr.python_type(Shapes)
    assert shapes.read('{"one":{"type":"square"},"more":[null]}').one == Square()
    assert not shapes.matches('{"one":{"size":1}}')
    with pytest.raises(gr.ReadError, match="no member 'type', which tells the alternatives") as caught:
        shapes.read('{"one":{"size":1}}')
    assert caught.value.pointer == "/one"
    assert not shapes.matches('{"one":{"type":"circle"},"more":[{"size":1}]}')
    assert gr.python_type(Shapes, notation="python").read("Shapes(one={'size': 2, 'type': 'square'})").one.size == 2


def test_floats_beyond_what_pydantic_divides() -> None:
    assert gr.python_type(Annotated[float, MultipleOf(0.3)]).matches("-47023483.2")
    assert not gr.python_type(Steps).matches('{"thirds":-47023483.2}')
    assert gr.read(Steps, '{"thirds":2500000.2}').thirds == 2500000.2


@pytest.mark.parametrize("kind", ["EmailStr", "NameEmail"])
def test_email_addresses(kind: str) -> None:
    pytest.importorskip("email_validator")
    constraint = gr.python_type(getattr(pydantic, kind))
    rng = random.Random(3)
    for _ in range(40):
        constraint.read(random_text(constraint, rng, 40))
    assert constraint.matches('"ada.lovelace@example.org"') is not constraint.matches('"ada@localhost.test"')


def test_values() -> None:
    text = (
        '{"name":"Ada","price":12.50,"level":20,"chosen":20,"rows":[{"number":1}],"extra":{"code":"a !"},'
        '"points":[{"x":1,"y":1}],"tags":["b","a"],"counts":{"1":"aGk="},"pet":{"kind":"cat"},"share":1}'
    )
    constraint = gr.python_type(Everything)
    assert constraint.matches(text)
    value = constraint.read(text)
    assert value == Everything(
        name="Ada",
        price=decimal.Decimal("12.50"),
        level=Level.HIGH,
        chosen=Level.HIGH,
        rows=[Row(1)],
        extra={"code": "a !"},
        points=(Point(1, 2),),
        tags={"a", "b"},
        counts={Level.LOW: b"hi"},
        pet=Cat(kind="cat"),
        share=1.0,
    )
    assert str(value.price) == "12.50"
    assert constraint.schema["$defs"]["Everything"]["properties"]["name"]["description"] == "who"
    assert constraint.schema["$defs"]["Everything"]["description"] == "All sorts."
    for bad in ('"price":12.505', '"price":0', '"price":1234567.5'):
        assert not constraint.matches(text.replace('"price":12.50', bad))


def test_the_way_fields_are_named() -> None:
    assert gr.read(Aliased, '{"ONE":1,"zwei":2,"tre":4}') == Aliased(ONE=1, zwei=2, tre=4)
    assert gr.read(Checked, '{"size":1,"wort":"a"}') == Checked(size=1, wort="a")
    assert gr.python_type(Open).matches('{"name":"a","other":3}')
    assert not gr.python_type(Open).matches('{"name":"a","other":"x"}')
    assert gr.read(Open, '{"name":"a","other":3}').other == 3
    assert not gr.python_type(Cat).matches('{"kind":"cat","other":3}')

    class Deep(BaseModel):
        n: int = Field(alias=None, validation_alias=AliasPath("a", "b"))

    with pytest.raises(gr.CompileError, match="path") as caught:
        gr.python_type(Deep)
    assert caught.value.code == "type-alias"


def test_validators_run_once() -> None:
    assert gr.read(Incremented, '{"n":1,"d":{"a":1}}') == Incremented(n=1, d={"a": 1})
    assert gr.read(Annotated[int, AfterValidator(lambda n: n * 10)], "2") == 20
    assert gr.read(list[Annotated[int, AfterValidator(lambda n: n * 10)]], "[2]") == [20]
    assert gr.read(Point, '{"x":1,"y":1}') == Point(1, 2)
    assert gr.read(Ids, "[1,2]") == Ids([1, 2])
    assert gr.read(Owner, '{"pet":{"kind":"dog"}}').pet == Dog(kind="dog")


def test_a_validator_may_refuse() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd")
            return n

    constraint = gr.python_type(dict[str, Even])
    assert constraint.read('{"a":{"n":2}}') == {"a": Even(n=2)}
    with pytest.raises(gr.ReadError, match="odd") as caught:
        constraint.read('{"a":{"n":1}}')
    assert caught.value.code == "read-refused" and caught.value.pointer == "/a"
    assert isinstance(caught.value.cause, pydantic.ValidationError)


def test_parameters_with_fields() -> None:
    def tool(count: int = Field(gt=0, description="how many"), name: str = Field("x")) -> Any:
        return count, name

    constraint = gr.python_type(tool)
    assert constraint.schema["required"] == ["count"]
    assert constraint.schema["properties"]["count"] == {"type": "integer", "minimum": 1, "description": "how many"}
    assert gr.call(tool, '{"count":2}') == (2, "x")


@pytest.mark.parametrize(
    "pattern, good, bad",
    [
        (r"^\w+$", ["abc_1"], ["a b", "²"]),
        (r"^[\w.]+$", ["a.b"], ["a b"]),
        (r"^[^\w]+$", ["!?"], ["a", "é"]),
        (r"^\d{2,}$", ["12"], ["1", "²²"]),
        (r"^\D\S\W$", ["a-!"], ["1-!"]),
        (r"\Aa.z\z", ["abz"], ["a\nz", "abz\n"]),
        (r"^a$", ["a"], ["a\n"]),
        (r"(?m)^a$", ["a", "b\na\nc"], ["ab"]),
        (r"(?s)^a.b$", ["a\nb"], ["ab"]),
        (r"^(?P<x>a)(?<y>b)(?:c)?$", ["ab", "abc"], ["a"]),
        (r"^[]a]+$", ["]a"], ["b"]),
        (r"^\-\_\@\#$", ["-_@#"], ["a"]),
        (r"^\x41\u0042\x{43}\u{44}$", ["ABCD"], ["x"]),
        (r"^\p{L}\pL$", ["ab"], ["1"]),
        (r"^a{2}\{b}$", ["aa{b}"], ["aa"]),
        (r"^\bab\b$", ["ab"], ["abc"]),
        (r"(?i)ab$", ["AB", "ab"], ["ac"]),
        (r"(?i)^s[^k]$", ["SA"], ["a", "sK"]),
    ],
)
def test_patterns_mean_what_pydantic_means(pattern: str, good: list[str], bad: list[str]) -> None:
    kind = Annotated[str, Field(pattern=pattern)]
    adapter, constraint = TypeAdapter(kind), gr.python_type(kind)
    import json

    for text in good:
        assert adapter.validate_python(text) == text
        assert constraint.matches(json.dumps(text, ensure_ascii=False)), text
        assert constraint.read(json.dumps(text)) == text
    for text in bad:
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_python(text)
        assert not constraint.matches(json.dumps(text, ensure_ascii=False)), text
    rng = random.Random(pattern)
    for _ in range(30):
        core, out = constraint.program().core, bytearray()
        state = core.root
        for _ in range(12):
            if choices := core.first_bytes(state):
                out.append(rng.choice(choices))
                state = core.derivative(state, bytes(out[-1:]))
        adapter.validate_json(bytes(out) + core.shortest(state, 1000))


@pytest.mark.parametrize("pattern", [r"[[:alpha:]]", r"[a&&b]", r"[\W]", r"(?x)a b", r"\<a", r"(?=a)", r"(?u)a"])
def test_patterns_of_rust_alone_are_refused(pattern: str) -> None:
    class Model(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        text: str = Field(pattern="a")

    field = Model.model_fields["text"]
    field.metadata = [StringConstraints(pattern=pattern)]
    with pytest.raises(gr.PatternError) as caught:
        gr.python_type(Annotated[str, StringConstraints(pattern=pattern)])
    assert caught.value.code == "type-pattern" or caught.value.code.startswith("regex-")


def test_python_patterns() -> None:
    import re

    class Model(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        text: str = Field(pattern=r"^(?=a)\w{2}$")
        other: str = Field("AB", pattern=re.compile("ab", re.I))

    constraint = gr.python_type(Model)
    assert constraint.matches('{"text":"ab"}') and not constraint.matches('{"text":"ba"}')
    assert constraint.read('{"text":"ab","other":"xAb"}').other == "xAb"


def test_two_fields_of_one_name() -> None:
    class Twice(BaseModel):
        a: int
        b: int = Field(alias="a")

    with pytest.raises(gr.CompileError, match="two of its fields") as caught:
        gr.python_type(Twice)
    assert caught.value.code == "type-alias"


@pytest.mark.parametrize("kind", [Json[int], pydantic.ImportString], ids=str)
def test_refused(kind: Any) -> None:
    with pytest.raises(gr.CompileError, match="use the type of the value"):
        gr.python_type(kind)


@pytest.mark.parametrize("kind", [bytes, pathlib.PurePath, SecretBytes, dt.date], ids=str)
def test_patterns_of_what_is_no_string_are_refused(kind: Any) -> None:
    """pydantic applies them to the value; the constraint would apply them to how it is written."""
    with pytest.raises(gr.CompileError, match=r"pattern of .*does not apply") as caught:
        gr.python_type(Annotated[kind, Field(pattern="^a+$")])
    assert caught.value.code == "type-metadata"
    constraint = gr.python_type(Annotated[kind, gr.regex("[a-z0-9-]*")])  # on the text
    assert constraint.matches('"2024-01-01"' if kind is dt.date else '"aaaa"')


def test_types_that_describe_themselves() -> None:
    class Money:
        def __init__(self, cents: int) -> None:
            self.cents = cents

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            from pydantic_core import core_schema

            return core_schema.no_info_after_validator_function(cls, core_schema.int_schema(ge=0))

    constraint = gr.python_type(Money)
    assert constraint.matches("5") and not constraint.matches("-5")
    assert constraint.read("5").cents == 5

    class Bill(BaseModel):
        total: Money

    assert gr.read(Bill, '{"total":7}').total.cents == 7


def test_models_that_are_not_complete() -> None:
    class Holder(BaseModel):
        part: LaterPart  # noqa: F821

    with pytest.raises(gr.CompileError, match="LaterPart"):
        gr.python_type(Holder)

    class Part(BaseModel):
        n: int

    assert gr.read(Holder, '{"part":{"n":1}}', namespace={"LaterPart": Part}).part == Part(n=1)
    assert gr.read(uuid.UUID, '"12345678-1234-5678-1234-567812345678"').int


class Leg(BaseModel):
    model_config = ConfigDict(revalidate_instances="always")
    miles: int = Field(alias="Miles", ge=1)
    label: Base64Str = "aGk="
    after: Leg | None = None


class Legs(RootModel[list[Leg]]):
    @model_validator(mode="before")
    @classmethod
    def first_is_a_dict(cls, data: Any) -> Any:
        assert all(isinstance(one, dict) for one in data)
        return data


def test_models_in_models_may_be_made_of_their_data() -> None:
    """Validators before pydantic's own, and models that are validated again, see members and not attributes."""

    class Trip(BaseModel):
        legs: Legs
        by_name: dict[str, list[Leg]] = {}
        pair: tuple[Leg, int] | None = None

        @model_validator(mode="before")
        @classmethod
        def longer(cls, data: Any) -> Any:
            data["legs"][0]["Miles"] += 1
            return data

    text = '{"Miles": 3, "label": "YWJjZA==", "after": {"Miles": 4, "label": "YWJjZA=="}}'  # decoded, "abcd" is base 64
    leg = Leg.model_validate_json(text)
    assert gr.read(Leg, text) == leg and leg.label == leg.after.label == "abcd"  # type: ignore[union-attr]
    assert gr.read(Legs, f"[{text}]").root == [leg]
    whole = f'{{"legs": [{text}], "by_name": {{"x": [{text}]}}, "pair": [{text}, 1]}}'
    read = gr.read(Trip, whole)
    assert read == Trip.model_validate_json(whole)
    assert read.legs.root[0].miles == 4 and read.by_name == {"x": [leg]} and read.pair == (leg, 1)

    def told_apart(data: Any) -> str:
        return "long" if data["Miles"] > 100 else "short"

    class Flight(BaseModel):
        Miles: int

    class Either(BaseModel):
        leg: Annotated[Annotated[Leg, Tag("short")] | Annotated[Flight, Tag("long")], Discriminator(told_apart)]

    assert gr.read(Either, f'{{"leg": {text}}}').leg == leg
    assert type(gr.read(list[Either], '[{"leg": {"Miles": 200}}]')[0].leg) is Flight


def test_models_that_are_refused_are_not_made_again() -> None:
    seen: list[int] = []

    class Small(BaseModel):
        n: int

        @model_validator(mode="after")
        def check(self) -> Any:
            seen.append(self.n)
            if self.n > 3:
                raise ValueError("too large")
            return self

    class Outer(BaseModel):
        small: Small
        inner: Outer | None = None

    with pytest.raises(gr.ReadError, match="too large") as caught:
        gr.read(Outer, '{"small": {"n": 1}, "inner": {"small": {"n": 2}, "inner": {"small": {"n": 7}}}}')
    assert caught.value.pointer == "/inner/inner/small" and seen == [1, 2, 7]


def test_members_that_may_be_missing() -> None:
    core = pytest.importorskip("pydantic_core")
    if not hasattr(core, "MISSING"):
        pytest.skip("needs MISSING of pydantic 2.12")

    class Change(BaseModel):
        age: int | core.MISSING | None = Field(core.MISSING, ge=3)  # type: ignore[name-defined]

    constraint = gr.python_type(Change)
    assert constraint.read("{}") == Change() and constraint.read('{"age": null}') == Change(age=None)
    assert constraint.matches('{"age": 3}') and not constraint.matches('{"age": 2}')


def test_strings_are_stripped_and_changed_in_case_outside_of_models_too():
    upper = Annotated[str, StringConstraints(to_upper=True)]
    assert gr.read(list[upper], '["ab"]') == ["AB"]
    assert gr.read(Annotated[str, StringConstraints(to_lower=True, pattern="^A")], '"AB"') == "ab"
    assert gr.read(Annotated[str, StringConstraints(strip_whitespace=True)], '" a "') == "a"
    assert gr.read(dict[upper, int], '{"a": 1}') == {"A": 1}


@pytest.mark.parametrize("setting", ["str_to_upper", "str_to_lower", "str_strip_whitespace"])
def test_strings_that_become_the_same_cannot_fill_a_set(setting):
    class Pairs(BaseModel):
        model_config = ConfigDict(**{setting: True})  # type: ignore[misc]
        pair: Annotated[set[str], Field(min_length=2)]

    with pytest.raises(gr.CompileError, match="fewer elements"):
        gr.python_type(Pairs)


def test_keys_of_a_dict_may_have_validators():
    even = Annotated[str, AfterValidator(lambda text: text[: len(text) // 2 * 2])]
    assert gr.read(dict[even, int], '{"abc": 1}') == {"ab": 1}
    unhashable = Annotated[str, AfterValidator(list)]
    with pytest.raises(gr.ReadError, match="unhashable"):
        gr.read(dict[unhashable, int], '{"a": 1}')
