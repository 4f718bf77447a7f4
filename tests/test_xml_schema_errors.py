"""XML Schemas that are rejected, the messages, and the values of documents."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

xmlschema = pytest.importorskip("xmlschema")
etree = pytest.importorskip("lxml.etree")

import guiderail as gr  # noqa: E402
from xml_walks import HEAD, element, schema  # noqa: E402

XSD = Path(__file__).parent / "data" / "xsd"


# -- what no automaton can express
UNSUPPORTED = {
    "ID": ('<xs:attribute name="i" type="xs:ID"/>', "/a/@i", True),
    "IDREFS": ('<xs:attribute name="i" type="xs:IDREFS" use="required"/>', "/a/@i", False),
    "ENTITY": ('<xs:attribute name="i" type="xs:ENTITY"/>', "/a/@i", True),
    "durations": (
        '<xs:attribute name="i"><xs:simpleType><xs:restriction base="xs:duration"><xs:minInclusive value="P1D"/>'
        "</xs:restriction></xs:simpleType></xs:attribute>",
        "/a/@i",
        True,
    ),
    "infinite bounds": (
        '<xs:attribute name="i"><xs:simpleType><xs:restriction base="xs:double"><xs:minInclusive value="INF"/>'
        "</xs:restriction></xs:simpleType></xs:attribute>",
        "/a/@i",
        True,
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_attributes(name: str) -> None:
    content, path, optional = UNSUPPORTED[name]
    with pytest.raises(gr.XmlSchemaError) as caught:
        element(content)
    error = caught.value
    assert (error.code, error.path) == ("xml-unsupported", path)
    assert error.source is not None and error.span is not None
    assert error.source[error.span[0] : error.span[1]].startswith('<xs:attribute name="i"')
    again = pickle.loads(pickle.dumps(error))
    assert (again.path, again.span, str(again)) == (error.path, error.span, str(error))
    if optional:
        left_out = element(content, on_unsupported="omit")
        assert left_out.matches("<a/>") and not left_out.program().core.derivative(left_out.program().start, b"<a i")
        assert left_out.report().with_status("approximated")
    else:
        with pytest.raises(gr.XmlSchemaError):
            element(content, on_unsupported="omit")
    if name in ("ID", "IDREFS", "ENTITY"):
        with pytest.warns(UserWarning, match="is not enforced"):
            unchecked = element(content, on_unsupported="warn")
        assert unchecked.matches('<a i="x"/>')
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet = element(content, on_unsupported="ignore")
        assert [entry.path for entry in quiet.report().with_status("ignored")] == [path]


@pytest.mark.parametrize("kind", ["unique", "key", "keyref"])
def test_identity_constraints(kind: str) -> None:
    refer = ' refer="k"' if kind == "keyref" else ""
    first = '<xs:key name="k"><xs:selector xpath="b"/><xs:field xpath="@i"/></xs:key>' if refer else ""
    body = (
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element name="b" maxOccurs="9"><xs:complexType>'
        "<xs:attribute "
        f'name="i" use="required"/></xs:complexType></xs:element></xs:sequence></xs:complexType>{first}<xs:{kind} '
        f'name="n"{refer}><xs:selector xpath="b"/><xs:field xpath="@i"/></xs:{kind}></xs:element>'
    )
    with pytest.raises(gr.XmlSchemaError, match="compared across elements") as caught:
        schema(body, on_unsupported="omit")
    assert (caught.value.code, caught.value.path) == ("xml-unsupported", "/a")
    constraint = schema(body, on_unsupported="ignore")
    assert constraint.matches('<a><b i="1"/></a>')
    assert any(kind in entry.component for entry in constraint.report().with_status("ignored"))


@pytest.mark.parametrize(
    "body",
    [
        '<xs:element name="a"><xs:complexType><xs:attribute name="x" type="xs:int"/><xs:assert test="@x gt 1"/>'
        "</xs:complexType></xs:element>",
        '<xs:element name="a"><xs:simpleType><xs:restriction base="xs:int"><xs:assertion test="$value gt 1"/>'
        "</xs:restriction></xs:simpleType></xs:element>",
        '<xs:element name="a" type="xs:anyType"><xs:alternative test="@x" type="xs:anyType"/></xs:element>',
    ],
)
def test_programs_of_version_1_1(body: str) -> None:
    with pytest.raises(gr.XmlSchemaError, match="XPath") as caught:
        schema(body, version="1.1")
    assert caught.value.code == "xml-unsupported"
    assert schema(body, version="1.1", on_unsupported="ignore").report().with_status("ignored")


# -- errors
def test_malformed_schemas_say_where() -> None:
    with pytest.raises(gr.XmlSchemaError) as caught:
        gr.xml_schema(f'{HEAD}\n<xs:element name="a">\n</xs:schema>')
    assert caught.value.code == "xml-syntax" and "line 3" in str(caught.value)
    with pytest.raises(gr.XmlSchemaError) as caught:
        gr.xml_schema(f'{HEAD}\n  <xs:element name="a" type="xs:no"/>\n</xs:schema>')
    assert caught.value.code == "xml-schema" and "line 2" in str(caught.value) and "xs:no" in str(caught.value)
    twice = '<xs:element name="b" minOccurs="0"/><xs:any/>'
    with pytest.raises(gr.XmlSchemaError, match="Unique Particle Attribution") as caught:
        element(f"<xs:sequence>{twice}</xs:sequence>")
    assert caught.value.span is not None and "\n" not in caught.value.message
    for text in ("", "no xml", "<a/>"):
        with pytest.raises(gr.XmlSchemaError):
            gr.xml_schema(text)


def facet(base: str, name: str, value: object) -> str:
    return f'<xs:restriction base="xs:{base}"><xs:{name} value="{value}"/></xs:restriction>'


TOO_LARGE = {
    "fractionDigits": facet("decimal", "fractionDigits", 10**10),
    "totalDigits": facet("integer", "totalDigits", 10**10),
    "maxLength": facet("string", "maxLength", 10**10),
    "minInclusive": facet("decimal", "minInclusive", "0." + "1" * 5_000),
    "maxExclusive": facet("integer", "maxExclusive", "1" * 400),
    "minLength": f"<xs:list><xs:simpleType>{facet('NMTOKEN', 'minLength', 10**10)}</xs:simpleType></xs:list>",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_facets_that_are_too_large_say_where(name: str) -> None:
    with pytest.raises(gr.XmlSchemaLimitError, match=f"^/a/@i: xs:{name}: ") as caught:
        element(f'<xs:attribute name="i"><xs:simpleType>{TOO_LARGE[name]}</xs:simpleType></xs:attribute>')
    error = caught.value
    assert (error.code, error.path) == ("number-size", "/a/@i")
    assert error.source is not None and error.span is not None
    assert error.source[error.span[0] : error.span[1]].startswith(f"<xs:{name} ")


# What is refused wherever it stands, and the tag at fault.
NUMBERS = {
    "minOccurs": f'<xs:sequence><xs:element name="b" minOccurs="{2**32}" maxOccurs="unbounded"/></xs:sequence>',
    "maxOccurs": f'<xs:choice maxOccurs="{2**40}"><xs:element name="b"/></xs:choice>',
    "of a wildcard": f'<xs:sequence><xs:any minOccurs="{2**31}" maxOccurs="{2**31}"/></xs:sequence>',
    "minOccurs of 5,000 digits": f'<xs:sequence minOccurs="{"9" * 5000}"/>',
    **{
        f"{name} of 5,000 digits": f'<xs:attribute name="i"><xs:simpleType>{facet(base, name, "9" * 5000)}'
        "</xs:simpleType></xs:attribute>"
        for base, name in (("string", "length"), ("integer", "totalDigits"), ("integer", "maxInclusive"))
    },
    "pattern": f'<xs:attribute name="i"><xs:simpleType>{facet("string", "pattern", "a{" + "9" * 5000 + "}")}'
    "</xs:simpleType></xs:attribute>",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_too_large_say_where(name: str) -> None:
    with pytest.raises(gr.XmlSchemaLimitError) as caught:
        element(NUMBERS[name])
    error = caught.value
    assert error.code == "number-size" and error.source is not None and error.span is not None
    assert "9" * 60 not in error.message and "Exceeds the limit" not in str(error)
    assert any(word in error.source[slice(*error.span)] for word in ("Occurs", "length", "Digits", "Incl", "pattern"))


def unions(levels: int, use: str) -> str:
    """Unions of unions: 2^levels members, written out."""
    types = [
        f'<xs:simpleType name="t{i}"><xs:union memberTypes="t{i + 1} t{i + 1}"/></xs:simpleType>' for i in range(levels)
    ]
    last = f'<xs:simpleType name="t{levels}"><xs:restriction base="xs:int"/></xs:simpleType>'
    return HEAD + use + "".join(types) + last + "</xs:schema>"


def test_unions_of_unions_are_read_once() -> None:
    made = gr.xml_schema(unions(40, '<xs:element name="a" type="t0"/>'))
    assert made.matches("<a>5</a>") and not made.matches("<a>x</a>")


WITH_VALUES = {
    "a fixed value": '<xs:element name="a" type="t0" fixed="5"/>',
    "a default": '<xs:element name="a"><xs:complexType><xs:attribute name="i" type="t0" default="5"/></xs:complexType>'
    "</xs:element>",
    "an attribute": '<xs:element name="a"><xs:complexType><xs:attribute name="i" type="t0"/></xs:complexType>'
    "</xs:element>",
    "an enumeration": '<xs:element name="a"><xs:simpleType><xs:restriction base="t0"><xs:enumeration value="5"/>'
    "</xs:restriction></xs:simpleType></xs:element>",
}


@pytest.mark.parametrize("name", WITH_VALUES)
def test_values_of_unions_of_unions_are_work(name: str) -> None:
    assert gr.xml_schema(unions(5, WITH_VALUES[name])).program()
    with pytest.raises(gr.XmlSchemaLimitError, match="members is too large to be read") as caught:
        gr.xml_schema(unions(40, WITH_VALUES[name]))
    assert caught.value.code == "work" and (caught.value.path or "").startswith("/a")


def listed(name: str, base: str, values: Iterable[Any]) -> str:
    found = "".join(f'<xs:enumeration value="{value}"/>' for value in values)
    return f'<xs:simpleType name="{name}"><xs:restriction base="{base}">{found}</xs:restriction></xs:simpleType>'


def of_lists(lists: int, values: int, part: int) -> str:
    """A union of types that list values, and a type of it that lists some of the last one's."""
    names = [f"l{i}" for i in range(lists)]
    types = "".join(listed(name, "xs:token", (f"{name}-{i}" for i in range(values))) for name in names)
    union = f'<xs:simpleType name="all"><xs:union memberTypes="{" ".join(names)}"/></xs:simpleType>'
    return types + union + listed("a", "all", (f"l{lists - 1}-{i % values}" for i in range(part)))


DAYS = [f"{year}-{month:02}-{day:02}" for year in range(2000, 2004) for month in range(1, 13) for day in range(1, 22)]
# types of an element "a": code lists as standards have them, and a text of each
CODE_LISTS = {
    "sixty lists": ("".join(listed(f"l{i}", "xs:token", range(300)) for i in range(59)) + listed("a", "l7", "0"), "0"),
    "a long list": (listed("a", "xs:string", range(5_000)), "4999"),
    "a part of a list": (listed("b", "xs:string", range(1_000)) + listed("a", "b", range(800)), "799"),
    "days": (listed("b", "xs:date", DAYS) + listed("a", "b", DAYS[:100]), DAYS[99]),
    "a union": (of_lists(20, 50, 50), "l19-49"),
}
LISTS_THAT_TAKE_LONG = {  # each value is tried against each member, or compared with each day
    "a union": of_lists(1_000, 2, 100),
    "days": listed("b", "xs:date", DAYS) + listed("a", "b", DAYS),
    "built-in members": f'<xs:simpleType name="b"><xs:union memberTypes="{"xs:date " * 300}xs:int"/></xs:simpleType>'
    + listed("a", "b", range(300)),
}


@pytest.mark.parametrize("name", CODE_LISTS)
def test_code_lists_are_read(name: str) -> None:
    types, text = CODE_LISTS[name]
    made = schema(types + '<xs:element name="a" type="a"/>')
    assert made.matches(f"<a>{text}</a>") and not made.matches("<a>none</a>")


@pytest.mark.parametrize("name", LISTS_THAT_TAKE_LONG)
def test_values_that_are_compared_with_many_are_work(name: str) -> None:
    with pytest.raises(gr.XmlSchemaLimitError, match="members is too large to be read") as caught:
        schema(LISTS_THAT_TAKE_LONG[name] + '<xs:element name="a" type="a"/>')
    assert caught.value.code == "work" and caught.value.path == "/a"


def substituted(levels: int, heads: str = "a") -> str:
    """Elements that may each take the place of those a level above."""
    first = "".join(f'<xs:element name="{head}0" type="xs:int"/>' for head in heads)
    above = [" ".join(f"{head}{i}" for head in heads) for i in range(levels)]
    rest = "".join(
        f'<xs:element name="{name}{i}" type="xs:int" substitutionGroup="{above[i - 1]}"/>'
        for i in range(1, levels)
        for name in heads
    )
    return first + rest


@pytest.mark.parametrize(("levels", "heads", "version"), [(900, "a", "1.0"), (40, "ab", "1.1")])
def test_levels_of_substitution_groups_are_work(levels: int, heads: str, version: str) -> None:
    assert schema(substituted(9, heads), version=version).matches("<a8>5</a8>")
    with pytest.raises(gr.XmlSchemaLimitError, match="substitution groups are too large") as caught:
        schema(substituted(levels, heads), version=version)
    assert caught.value.code == "work"


def derived(levels: int, block: str = "") -> str:
    """Types that are each derived from the one before, and an element of each."""
    kinds = "".join(
        f'<xs:complexType name="t{i}"><xs:complexContent><xs:extension base="t{i - 1}"/></xs:complexContent>'
        "</xs:complexType>"
        for i in range(1, levels)
    )
    uses = "".join(f'<xs:element name="e{i}" type="t{i}"{block}/>' for i in range(levels))
    return f'<xs:complexType name="t0"/>{kinds}{uses}'


def test_derived_types_are_found_without_comparing_all() -> None:
    made = schema(derived(300))
    assert made.matches("<e299/>") and not made.matches("<e300/>")
    assert sum(entry.component == "xsi:type" for entry in made.report().entries) == 299  # for all but the last
    with pytest.raises(gr.XmlSchemaLimitError) as caught:
        schema(derived(300, ' block="restriction"'))
    assert caught.value.code == "work"


@pytest.mark.parametrize("encoding", ["nope", "undefined", "idna", "hex", "ascii"])
def test_a_file_that_cannot_be_decoded(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.xsd"
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{HEAD}<!-- é --></xs:schema>'.encode())
    with pytest.raises(gr.XmlSchemaError) as caught:
        gr.xml_schema(path)
    assert caught.value.code == "xml-file"


@pytest.mark.parametrize("encoding", ["nope", "utf-16", "ascii", "latin-1", "idna", "hex", "UTF-32"])
def test_a_text_is_decoded_already_whatever_it_declares(encoding: str) -> None:
    body = HEAD + '<xs:element name="é" type="xs:int"/></xs:schema>'
    assert gr.xml_schema(f'<?xml version="1.0" encoding="{encoding}"?>{body}').matches("<é>5</é>")
    with pytest.raises(gr.XmlSchemaError) as caught:
        gr.xml_schema(f'<?xml version="1.0" encoding="{encoding}"?>{HEAD}<xs:element name="é" type="t"/></xs:schema>')
    error = caught.value
    assert error.source is not None and error.span is not None
    assert error.source[slice(*error.span)] == '<xs:element name="é" type="t"/>'


def test_patterns_that_cannot_be_read() -> None:
    pattern = '<xs:pattern value="x\\p{IsNowhere}"/>'
    content = (
        f'<xs:attribute name="x"><xs:simpleType><xs:restriction base="xs:string">{pattern}</xs:restriction>'
        "</xs:simpleType></xs:attribute>"
    )
    with pytest.raises(gr.XmlSchemaError) as caught:
        element(content, version="1.1")  # here xmlschema takes the block as any character
    assert (caught.value.code, caught.value.path, caught.value.span) == ("xml-pattern", "/a/@x", (1, 14))
    with pytest.raises(gr.XmlSchemaError) as caught:
        element(content)
    assert caught.value.code == "xml-schema" and caught.value.source is not None and caught.value.span is not None
    start, end = caught.value.span
    assert caught.value.source[start:end] == pattern


def test_schemas_without_a_document() -> None:
    body = (
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element name="b"><xs:complexType><xs:sequence>'
        "<xs:element "
        'ref="a"/></xs:sequence></xs:complexType></xs:element></xs:sequence></xs:complexType></xs:element>'
    )
    with pytest.raises(gr.XmlSchemaError) as caught:
        schema(body).matches("<a/>")
    assert caught.value.code == "xml-unsatisfiable"
    facets = '<xs:pattern value="a"/><xs:minLength value="2"/>'
    empty = f'<xs:simpleType><xs:restriction base="xs:string">{facets}</xs:restriction></xs:simpleType>'
    with pytest.raises(gr.XmlSchemaError) as caught:
        element(f'<xs:attribute name="x" use="required">{empty}</xs:attribute>').matches("<a/>")
    assert (caught.value.code, caught.value.path) == ("xml-unsatisfiable", "/a/@x")
    optional = element(
        f'<xs:sequence><xs:element name="b" minOccurs="0">{empty}</xs:element></xs:sequence><xs:attribute '
        f'name="x">{empty}'
        "</xs:attribute>"
    )
    core = optional.program().core
    assert optional.matches("<a/>") and core.first_bytes(core.derivative(core.root, b"<a")) == b"/"
    assert [entry.path for entry in optional.report().with_status("unsatisfiable")] == ["/a/b"]


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "wide"}, {"indent": -1}, {"indent": 4}, {"indent": 2**31 - 1}, {"max_orders": 0}, {"nothing": 1},
        {"declaration": 1}, {"wildcard_names": "x"}, {"wildcard_names": ["a b"]}, {"root": ""}, {"root": []},
        {"version": "2.0"}, {"max_occurs": True}, {"indent": 4},
        {"max_indented_depth": 2},
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.xml_schema(f'{HEAD}<xs:element name="a"/></xs:schema>', **options)
    assert caught.value.code == "bad-xml-option"


def test_bad_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in (1, None, b"<xs:schema/>"):
        with pytest.raises(gr.CompileError) as caught:
            gr.xml_schema(source)
        assert caught.value.code == "xml-source"
    monkeypatch.setitem(sys.modules, "xmlschema", None)
    with pytest.raises(gr.CompileError) as caught:
        gr.xml_schema(HEAD)
    assert caught.value.code == "missing-package"


# -- values
def test_reading() -> None:
    constraint = gr.xml_schema(XSD / "po.xsd", root="comment")
    assert constraint.read("<comment>a &lt; b</comment>") == "a < b"
    with pytest.raises(gr.XmlReadError) as caught:
        constraint.read("<comment><b/></comment>")
    assert (caught.value.code, caught.value.path) == ("xml-read", "/comment")
    assert pickle.loads(pickle.dumps(caught.value)).path == "/comment"
    with pytest.raises(gr.XmlReadError) as caught:
        constraint.read("<comment>")
    assert caught.value.code == "xml-read-syntax"


def test_documents_are_read() -> None:
    constraint = gr.xml_schema(XSD / "po.xsd")
    reading = constraint.reading()
    assert not reading.is_text
    assert reading.read("<comment>x</comment>") == "x"


def test_constraints_compose() -> None:
    constraint = "```xml\n" + gr.xml_schema(XSD / "po.xsd", root="comment") + "\n```"
    assert constraint.matches("```xml\n<comment>x</comment>\n```")
    assert len({gr.xml_schema(XSD / "po.xsd"), gr.xml_schema(XSD / "po.xsd"), gr.xml_schema(XSD / "rss.xsd")}) == 2


def test_report() -> None:
    report = gr.xml_schema(XSD / "svg.xsd", on_unsupported="omit").report()
    assert any("ID" in entry.component and entry.path.endswith("@id") for entry in report.with_status("approximated"))
    assert report.with_status("enforced") and not report.with_status("ignored")
    plain = report.to_dict()
    assert sum(plain["counts"].values()) == len(plain["entries"])
    assert "approximated" in str(report)


# -- the documents that a schema refers to
TYPES = f'{HEAD}<xs:simpleType name="T"><xs:restriction base="xs:int"/></xs:simpleType></xs:schema>'
ELSEWHERE = "http://example.com/schemas/types.xsd"


def referring(reference: str, head: str = HEAD) -> str:
    return f'{head}{reference}<xs:element name="a" type="T"/></xs:schema>'


def without_warnings(*args: Any, **options: Any) -> gr.XmlSchema:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return gr.xml_schema(*args, **options)


def test_documents_that_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "types.xsd").write_text(TYPES.replace(HEAD, f'{HEAD}<xs:include schemaLocation="./main.xsd"/>'))
    main = tmp_path / "main.xsd"
    main.write_text(referring('<xs:include schemaLocation="types.xsd"/>'))
    for made in (gr.xml_schema(main), gr.xml_schema(xmlschema.XMLSchema(str(main)))):
        assert made.matches("<a>1</a>") and not made.matches("<a>x</a>")
        assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("location", ["types.xsd", ELSEWHERE])
@pytest.mark.parametrize("namespace", ["", "urn:main"])
def test_what_is_included_may_be_given(tmp_path: Path, location: str, namespace: str) -> None:
    head = f'{HEAD[:-1]} xmlns="{namespace}" targetNamespace="{namespace}">' if namespace else HEAD
    text = referring(f'<xs:include schemaLocation="{location}"/>', head)
    (tmp_path / "main.xsd").write_text(text)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "types.xsd").write_text(TYPES)
    good = f'<a xmlns="{namespace}">1</a>' if namespace else "<a>1</a>"
    for main in (text, tmp_path / "main.xsd"):
        for given in (TYPES, tmp_path / "other" / "types.xsd"):
            made = without_warnings(main, documents=[given])
            assert made.matches(good) and not made.matches(good.replace("1", "x"))
    (tmp_path / "types.xsd").write_text(TYPES)  # found, and given as well
    assert without_warnings(tmp_path / "main.xsd", documents=[TYPES]).matches(good)


def test_what_is_redefined_may_be_given(tmp_path: Path) -> None:
    changed = (
        '<xs:simpleType name="T"><xs:restriction base="T"><xs:maxInclusive value="5"/></xs:restriction></xs:simpleType>'
    )
    text = referring(f'<xs:redefine schemaLocation="{ELSEWHERE}">{changed}</xs:redefine>')
    (tmp_path / "types.xsd").write_text(TYPES)
    for given in (TYPES, tmp_path / "types.xsd"):
        made = without_warnings(text, documents=[given])
        assert made.matches("<a>5</a>") and not made.matches("<a>6</a>")
    with pytest.raises(gr.XmlSchemaError, match="is not found; pass its path in documents"):
        gr.xml_schema(text)


def test_an_error_names_the_document_that_is_lacking(tmp_path: Path) -> None:
    (tmp_path / "main.xsd").write_text(referring('<xs:include schemaLocation="types.xsd"/>'))
    imported = f'{HEAD[:-1]} xmlns:t="urn:t"><xs:import namespace="urn:t" schemaLocation="{ELSEWHERE}"/>'
    for source, name in (
        (tmp_path / "main.xsd", "types.xsd"),
        (referring(f'<xs:include schemaLocation="{ELSEWHERE}"/>'), ELSEWHERE),
        (f'{imported}<xs:element name="a" type="t:T"/></xs:schema>', ELSEWHERE),
    ):
        with pytest.raises(gr.XmlSchemaError) as caught:
            without_warnings(source)
        assert f"a document that is not found: {name!r}; pass its text in documents" in caught.value.message


def test_a_document_that_is_not_needed_may_be_lacking() -> None:
    text = f'{HEAD}<xs:include schemaLocation="{ELSEWHERE}"/><xs:element name="a" type="xs:int"/></xs:schema>'
    with pytest.warns(UserWarning, match="read without a document that is not found") as caught:
        assert gr.xml_schema(text).matches("<a>1</a>")
    assert [one.filename for one in caught] == [__file__]


def test_documents_that_come_with_xmlschema() -> None:
    link = "http://www.w3.org/1999/xlink"
    text = f"""{HEAD[:-1]} xmlns:xlink="{link}"><xs:import namespace="{link}" schemaLocation="{link}.xsd"/>
        <xs:element name="a"><xs:complexType><xs:attribute ref="xlink:href"/></xs:complexType></xs:element>
        </xs:schema>"""
    assert without_warnings(text).matches(f'<a xmlns:xlink="{link}" xlink:href="b"/>')


def test_a_restriction_of_nothing() -> None:
    with pytest.raises(gr.XmlSchemaError, match="a restriction has no base") as caught:
        schema(
            '<xs:element name="a"><xs:simpleType><xs:restriction><xs:enumeration value="b"/></xs:restriction>'
            "</xs:simpleType></xs:element>"
        )
    assert caught.value.source is not None and caught.value.span is not None
    start, end = caught.value.span
    assert caught.value.source[start:end] == "<xs:restriction>"


def test_a_required_wildcard_for_which_nothing_is_known() -> None:
    body = (
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element name="b"><xs:complexType><xs:sequence>'
        '<xs:any namespace="urn:x" processContents="lax"/></xs:sequence></xs:complexType></xs:element></xs:sequence>'
        "</xs:complexType></xs:element>"
    )
    with pytest.raises(gr.XmlSchemaError, match="nothing is known that its xs:any may hold") as caught:
        schema(body).matches("<a/>")
    assert (caught.value.code, caught.value.path) == ("xml-unsatisfiable", "/a/b")
    assert "wildcard_names" in caught.value.message
    named = schema(body, wildcard_names=["{urn:x}c"])
    assert named.matches('<a xmlns:ns1="urn:x"><b><ns1:c/></b></a>')


def test_types_derived_from_a_redefined_type(tmp_path: Path) -> None:
    (tmp_path / "base.xsd").write_text(
        f'{HEAD}<xs:complexType name="B" abstract="true"><xs:attribute name="x"/></xs:complexType>'
        '<xs:complexType name="D"><xs:complexContent><xs:extension base="B"/></xs:complexContent></xs:complexType>'
        "</xs:schema>"
    )
    (tmp_path / "main.xsd").write_text(
        f'{HEAD}<xs:redefine schemaLocation="base.xsd"><xs:complexType name="D"><xs:complexContent>'
        '<xs:extension base="D"><xs:attribute name="y"/></xs:extension></xs:complexContent></xs:complexType>'
        '</xs:redefine><xs:element name="a" type="B"/></xs:schema>'
    )
    made = gr.xml_schema(tmp_path / "main.xsd")
    text = '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="D" x="1" y="2"/>'
    assert made.matches(text) and made.read(text)
