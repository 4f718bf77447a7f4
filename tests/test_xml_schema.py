"""Documents of XML Schemas: real formats, each construct of the language, options."""

from __future__ import annotations

import pickle
import random
import warnings
from pathlib import Path

import pytest

xmlschema = pytest.importorskip("xmlschema")
etree = pytest.importorskip("lxml.etree")

import guiderail as gr  # noqa: E402
from xml_walks import HEAD, check, element, schema, token_walk, walks  # noqa: E402

XSD = Path(__file__).parent / "data" / "xsd"
SCHEMAS = sorted(XSD.glob("*.xsd"))
VARIANTS = {
    "compact": {},
    "indented": {"layout": "indented", "attribute_order": "any", "max_text_length": 20, "declaration": True},
    "free names": {"wildcard_names": ("free", "{urn:other}x"), "xsi_types": True, "max_occurs": 3},
}


# -- real formats
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_everything_written_is_valid(path: Path, variant: str) -> None:
    constraint = gr.xml_schema(path, on_unsupported="omit", **VARIANTS[variant])
    documents = walks(constraint)
    check(constraint, [document.removeprefix('<?xml version="1.0" encoding="UTF-8"?>\n') for document in documents])
    assert len(set(documents)) > 5
    for document in documents:
        constraint.read(document)


def test_there_are_the_primer_and_ten_formats() -> None:
    assert {path.stem for path in SCHEMAS} == {
        "atom", "gpx", "kml", "manifest", "maven", "po", "rss", "sitemap", "soap", "svg", "xhtml",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["po", "svg", "xhtml"])
def test_masks_of_a_real_vocabulary_write_valid_documents(name: str, llama3: gr.Vocabulary) -> None:
    constraint = gr.xml_schema(XSD / f"{name}.xsd", on_unsupported="omit", max_occurs=2)
    guide = gr.compile(constraint, llama3)
    rng = random.Random(3)
    found = [token_walk(guide, rng, 200) for _ in range(6)]
    documents = [document for document in found if document is not None]
    assert len(documents) >= 3
    check(constraint, documents)


PURCHASE_ORDER = """<purchaseOrder orderDate="1999-10-20"><shipTo country="US"><name>Alice Smith</name>\
<street>123 Maple Street</street><city>Mill Valley</city><state>CA</state><zip>90952</zip></shipTo>\
<billTo country="US"><name>Robert Smith</name>\
<street>8 Oak Avenue</street><city>Old Town</city><state>PA</state><zip>95819</zip></billTo>\
<comment>Hurry, my lawn is going wild!</comment><items><item partNum="872-AA"><productName>Lawnmower</productName>\
<quantity>1</quantity><USPrice>148.95</USPrice><comment>Confirm this is electric</comment></item>\
<item partNum="926-AA"><productName>Baby Monitor</productName><quantity>1</quantity><USPrice>39.98</USPrice>\
<shipDate>1999-05-21</shipDate></item></items></purchaseOrder>"""


def test_the_purchase_order_of_the_primer() -> None:
    order = gr.xml_schema(XSD / "po.xsd", root="purchaseOrder")
    assert order.matches(PURCHASE_ORDER)
    value = order.read(PURCHASE_ORDER)
    assert value["@orderDate"] == "1999-10-20"
    assert [item["@partNum"] for item in value["items"]["item"]] == ["872-AA", "926-AA"]
    indented = gr.xml_schema(XSD / "po.xsd", root="purchaseOrder", layout="indented")
    tree = etree.fromstring(PURCHASE_ORDER)
    etree.indent(tree, "  ")
    assert indented.matches(etree.tostring(tree, encoding="unicode"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1999-10-20", "1999-02-29"),
        ('country="US"', 'country="DE"'),
        ("872-AA", "87-AA"),
        ("872-AA", "872-aa"),
        ("<quantity>1<", "<quantity>100<"),
        ("<quantity>1<", "<quantity>0<"),
        ("<zip>90952<", "<zip>CA 90952<"),
        ("148.95", "148,95"),
        ("<city>Mill Valley</city>", ""),
        ("<city>Mill Valley</city><state>CA</state>", "<state>CA</state><city>Mill Valley</city>"),
        (' partNum="872-AA"', ""),
        ("<name>Alice Smith</name>", "<name>Alice Smith</name><name>Alice</name>"),
        ("<name>Alice Smith</name>", "<name>Alice <b>Smith</b></name>"),
        ("Alice Smith", "Alice & Smith"),
        ("</purchaseOrder>", ""),
        ("<items>", "<items>text"),
        ('orderDate="1999-10-20"', 'orderDate="1999-10-20" orderDate="1999-10-20"'),
        ('orderDate="1999-10-20"', 'date="1999-10-20"'),
    ],
)
def test_what_is_no_purchase_order(old: str, new: str) -> None:
    order = gr.xml_schema(XSD / "po.xsd")
    assert old in PURCHASE_ORDER and not order.matches(PURCHASE_ORDER.replace(old, new, 1))


# -- constructs: what matches, and what does not
CASES: list[tuple[str, str, list[str], list[str]]] = [
    (
        "sequence and occurrence",
        '<xs:element name="a"><xs:complexType><xs:sequence maxOccurs="2"><xs:element name="b" minOccurs="2" '
        'maxOccurs="3" '
        'type="xs:int"/><xs:element name="c" minOccurs="0" type="xs:boolean"/></xs:sequence></xs:complexType>'
        "</xs:element>",
        ["<a><b>1</b><b>2</b></a>", "<a><b>1</b><b>2</b><b>3</b><c>true</c><b>1</b><b>2</b></a>"],
        ["<a/>", "<a><b>1</b></a>", "<a><c>true</c></a>", "<a><b>1</b><b>2</b><c>true</c><c>true</c></a>"],
    ),
    (
        "choice",
        '<xs:element name="a"><xs:complexType><xs:choice minOccurs="0"><xs:element name="b" type="xs:int"/><xs:element '
        'name="c" type="xs:int"/></xs:choice></xs:complexType></xs:element>',
        ["<a/>", "<a><b>1</b></a>", "<a><c>1</c></a>"],
        ["<a></a>", "<a><b>1</b><c>1</c></a>", "<a><d>1</d></a>"],
    ),
    (
        "all",
        '<xs:element name="a"><xs:complexType><xs:all><xs:element name="b" type="xs:int"/><xs:element name="c" '
        'type="xs:int" minOccurs="0"/><xs:element name="d" type="xs:int"/></xs:all></xs:complexType></xs:element>',
        ["<a><b>1</b><d>1</d></a>", "<a><d>1</d><b>1</b></a>", "<a><d>1</d><c>1</c><b>1</b></a>"],
        ["<a><b>1</b></a>", "<a><b>1</b><d>1</d><b>1</b></a>", "<a/>"],
    ),
    (
        "groups and attribute groups",
        '<xs:group name="g"><xs:choice><xs:element name="b" type="xs:int"/><xs:element name="c" '
        'type="xs:int"/></xs:choice>'
        '</xs:group><xs:attributeGroup name="h"><xs:attribute name="x" use="required"/><xs:attribute name="y"/>'
        '</xs:attributeGroup><xs:element name="a"><xs:complexType><xs:group ref="g" maxOccurs="2"/><xs:attributeGroup '
        'ref="h"/></xs:complexType></xs:element>',
        ['<a x=""><b>1</b></a>', '<a x="1" y="2"><c>1</c><b>1</b></a>'],
        ["<a><b>1</b></a>", '<a x=""/>', '<a y="1" x="2"><b>1</b></a>', '<a x="1" x="1"><b>1</b></a>'],
    ),
    (
        "attributes: prohibited, fixed, default",
        '<xs:complexType name="B"><xs:attribute name="p"/><xs:attribute name="q"/></xs:complexType><xs:element '
        'name="a">'
        '<xs:complexType><xs:complexContent><xs:restriction base="B"><xs:attribute name="p" use="prohibited"/>'
        '<xs:attribute name="q" fixed="a&lt;b"/></xs:restriction></xs:complexContent></xs:complexType></xs:element>',
        ["<a/>", '<a q="a&lt;b"/>'],
        ['<a p="1"/>', '<a q="1"/>'],
    ),
    (
        "elements: fixed, default, nillable",
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element name="b" type="xs:int" fixed="7"/><xs:element '
        'name="c" type="xs:string" default="x"/><xs:element name="d" type="xs:int" nillable="true"/></xs:sequence>'
        "</xs:complexType></xs:element>",
        [
            '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b>7</b><c/><d>1</d></a>',
            '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b>7</b><c>y</c><d xsi:nil="true"/></a>',
        ],
        [
            '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b>8</b><c/><d>1</d></a>',
            '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b>7</b><c/><d/></a>',
            '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><b>7</b><c/><d xsi:nil="true">1</d></a>',
        ],
    ),
    (
        "extension and restriction",
        '<xs:complexType name="B"><xs:sequence><xs:element name="b" type="xs:int" minOccurs="0"/></xs:sequence>'
        '<xs:attribute name="x"/></xs:complexType><xs:complexType name="E"><xs:complexContent><xs:extension base="B">'
        '<xs:sequence><xs:element name="c" type="xs:int"/></xs:sequence><xs:attribute name="y"/></xs:extension>'
        '</xs:complexContent></xs:complexType><xs:complexType name="R"><xs:complexContent><xs:restriction base="B">'
        '<xs:sequence><xs:element name="b" type="xs:byte"/></xs:sequence><xs:attribute name="x" use="required"/>'
        '</xs:restriction></xs:complexContent></xs:complexType><xs:element name="a"><xs:complexType><xs:sequence>'
        '<xs:element name="e" type="E"/><xs:element name="r" type="R"/></xs:sequence></xs:complexType></xs:element>',
        ['<a><e x="1" y="2"><b>1</b><c>1</c></e><r x="1"><b>1</b></r></a>'],
        ['<a><e><c>1</c><b>1</b></e><r x="1"><b>1</b></r></a>', '<a><e><c>1</c></e><r x="1"><b>200</b></r></a>'],
    ),
    (
        "simple content",
        '<xs:simpleType name="S"><xs:restriction base="xs:decimal"><xs:fractionDigits value="2"/></xs:restriction>'
        '</xs:simpleType><xs:complexType name="P"><xs:simpleContent><xs:extension base="S"><xs:attribute name="c"/>'
        '</xs:extension></xs:simpleContent></xs:complexType><xs:complexType name="Q"><xs:simpleContent><xs:restriction '
        'base="P"><xs:minInclusive value="1"/><xs:attribute name="c" use="required"/></xs:restriction>'
        "</xs:simpleContent>"
        '</xs:complexType><xs:element name="a" type="Q"/>',
        ['<a c="EUR">1.50</a>', '<a c="">20</a>'],
        ["<a>1</a>", '<a c="EUR">0.5</a>', '<a c="EUR">1.505</a>', '<a c="EUR"/>'],
    ),
    (
        "substitution groups and abstract elements",
        '<xs:element name="h" type="xs:decimal" abstract="true"/><xs:element name="i" type="xs:int" '
        'substitutionGroup="h"/><xs:element name="j" type="xs:byte" substitutionGroup="i"/><xs:element name="a">'
        '<xs:complexType><xs:sequence><xs:element ref="h" maxOccurs="2"/></xs:sequence></xs:complexType></xs:element>',
        ["<a><i>1000</i></a>", "<a><j>1</j><i>2</i></a>"],
        ["<a><h>1</h></a>", "<a><j>1000</j></a>", "<h>1</h>"],
    ),
    (
        "abstract types need xsi:type",
        '<xs:complexType name="B" abstract="true"/><xs:complexType name="C"><xs:complexContent><xs:extension base="B">'
        '<xs:attribute name="x" use="required"/></xs:extension></xs:complexContent></xs:complexType>'
        '<xs:element name="a" '
        'type="B"/>',
        ['<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="C" x="1"/>'],
        ["<a/>", '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="B" x="1"/>'],
    ),
    (
        "recursion",
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element ref="a" minOccurs="0" maxOccurs="2"/>'
        "</xs:sequence>"
        "</xs:complexType></xs:element>",
        ["<a/>", "<a><a><a/><a/></a><a/></a>", "<a>" * 50 + "<a/>" + "</a>" * 50],
        ["<a><a/><a/><a/></a>", "<a><a></a>", "<a></a>"],
    ),
    (
        "mixed content",
        '<xs:element name="a"><xs:complexType mixed="true"><xs:sequence><xs:element name="b" type="xs:int"/>'
        "<xs:element "
        'name="c" type="xs:int" minOccurs="0"/></xs:sequence></xs:complexType></xs:element>',
        ["<a><b>1</b></a>", "<a>x &amp; y<b>1</b>\n<c>2</c>z</a>"],
        ["<a>x</a>", "<a><c>2</c></a>", "<a>x & y<b>1</b></a>"],
    ),
    (
        "empty content",
        '<xs:element name="a"><xs:complexType/></xs:element>',
        ["<a/>"],
        ["<a></a>", "<a> </a>", "<a>x</a>", "<a />"],
    ),
    (
        "wildcards of elements and attributes",
        '<xs:element name="k" type="xs:int"/><xs:attribute name="g" type="xs:int"/><xs:element name="a">'
        "<xs:complexType>"
        '<xs:sequence><xs:any processContents="strict" maxOccurs="2"/></xs:sequence><xs:anyAttribute/></xs:complexType>'
        "</xs:element>",
        ["<a><k>1</k></a>", '<a g="2"><k>1</k><a><k>2</k></a></a>'],
        ["<a/>", "<a><x/></a>", '<a h="1"><k>1</k></a>', '<a g="x"><k>1</k></a>'],
    ),
    (
        "anything",
        '<xs:element name="a"/>',
        ["<a/>", "<a>text</a>", "<a>x<a/>y</a>"],
        ["<a><b/></a>", "<a>"],
    ),
    (
        "particles that occur 0 times",  # they are no components, so that the choice holds c alone
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:choice>'
        '<xs:sequence minOccurs="0" maxOccurs="0"/><xs:element name="b" type="xs:int" minOccurs="0" maxOccurs="0"/>'
        '<xs:element name="c" type="xs:int"/></xs:choice>'
        '<xs:choice minOccurs="0"><xs:element name="d" type="xs:int" minOccurs="0" maxOccurs="0"/></xs:choice>'
        "</xs:sequence></xs:complexType></xs:element>",
        ["<a><c>1</c></a>"],
        ["<a/>", "<a></a>", "<a><b>1</b></a>", "<a><c>1</c><d>1</d></a>"],
    ),
    (
        "several roots",
        '<xs:element name="a" type="xs:int"/><xs:element name="b" type="xs:int"/>',
        ["<a>1</a>", "<b>1</b>"],
        ["<c>1</c>", "<a>1</b>"],
    ),
]


@pytest.mark.parametrize(("body", "yes", "no"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_constructs(body: str, yes: list[str], no: list[str]) -> None:
    constraint = schema(body)
    assert [document for document in yes if not constraint.matches(document)] == []
    assert [document for document in no if constraint.matches(document)] == []
    check(constraint, yes + walks(constraint, 10))


def test_iterations_that_run_into_each_other() -> None:
    """Four would be twice two; xmlschema reads three and one. All read eight as three, three and two."""
    constraint = element(
        '<xs:sequence minOccurs="2" maxOccurs="3"><xs:element name="b" type="xs:int" minOccurs="2" maxOccurs="3"/>'
        "</xs:sequence>"
    )
    counts = [n for n in range(12) if constraint.matches("<a>" + "<b>1</b>" * n + "</a>")]
    assert counts == [5, 6, 8, 9]
    check(constraint, ["<a>" + "<b>1</b>" * n + "</a>" for n in counts])
    assert any("run into each other" in entry.detail for entry in constraint.report().with_status("approximated"))


def test_no_iteration_is_empty_unless_all_are() -> None:
    """A single d and an empty iteration are valid, but not for validators that do not count what is empty."""
    constraint = element(
        '<xs:choice minOccurs="2" maxOccurs="3"><xs:element name="c" minOccurs="2" maxOccurs="3"/>'
        '<xs:element name="d" minOccurs="0"/></xs:choice>'
    )
    documents = ["<a/>", "<a><d/><d/></a>", "<a><c/><c/><c/><d/></a>", "<a><d/><c/><c/></a>"]
    assert all(map(constraint.matches, documents))
    assert not any(map(constraint.matches, ["<a><d/></a>", "<a><c/><c/><c/></a>"]))
    check(constraint, documents + walks(constraint, 10))


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_all_extended_by_attributes(version: str) -> None:
    constraint = schema(
        '<xs:complexType name="t"><xs:all><xs:element name="b"/><xs:element name="c"/></xs:all></xs:complexType>'
        '<xs:complexType name="u"><xs:complexContent><xs:extension base="t"><xs:attribute name="x"/></xs:extension>'
        '</xs:complexContent></xs:complexType><xs:element name="a"><xs:complexType><xs:complexContent>'
        '<xs:extension base="u"><xs:attribute name="y"/></xs:extension></xs:complexContent></xs:complexType>'
        "</xs:element>",
        version=version,
    )
    documents = ['<a x="1" y="2"><b/><c/></a>', "<a><c/><b/></a>"]
    assert all(map(constraint.matches, documents)) and not constraint.matches("<a><b/></a>")
    assert constraint.read(documents[1]) == {"b": None, "c": None}
    check(constraint, documents)


def test_attributes_of_the_version_are_none_of_the_schema() -> None:
    constraint = element("<xs:anyAttribute/>", version="1.1")
    assert constraint.matches("<a/>") and not any("versioning" in text for text in walks(constraint, 5))


# -- namespaces
def names(form: str, **options: object) -> gr.XmlSchema:
    head = (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:p="urn:p" targetNamespace="urn:p" {form}>'
        '<xs:attribute name="g" type="xs:int"/>'
    )
    body = (
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element name="b" type="xs:int"/></xs:sequence>'
        '<xs:attribute name="x"/><xs:attribute ref="p:g"/></xs:complexType></xs:element>'
    )
    return schema(body, head, **options)


def test_names_of_elements_and_attributes_have_their_namespaces() -> None:
    qualified = names('elementFormDefault="qualified"')
    assert qualified.matches('<a xmlns="urn:p" xmlns:p="urn:p" x="1" p:g="2"><b>1</b></a>')
    local = names("")
    assert local.matches('<p:a xmlns:p="urn:p" x="1" p:g="2"><b>1</b></p:a>')
    assert not local.matches('<a xmlns="urn:p" xmlns:p="urn:p"><b>1</b></a>')
    both = names('elementFormDefault="qualified" attributeFormDefault="qualified"')
    assert both.matches('<a xmlns="urn:p" xmlns:p="urn:p" p:x="1" p:g="2"><b>1</b></a>')
    for constraint in (qualified, local, both):
        check(constraint, walks(constraint, 10))


def test_qnames_are_written_with_the_prefixes_of_the_document() -> None:
    constraint = schema(
        '<xs:simpleType name="Q"><xs:restriction base="xs:QName"><xs:enumeration value="q:one"/></xs:restriction>'
        '</xs:simpleType><xs:element name="a"><xs:complexType><xs:attribute name="x" type="q:Q"/><xs:attribute '
        'name="y" '
        'type="xs:QName"/></xs:complexType></xs:element>',
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:q="urn:q" targetNamespace="urn:q">',
    )
    found = walks(constraint, 20)
    check(constraint, found)
    assert constraint.matches('<q:a xmlns:q="urn:q" x="q:one" y="q:z"/>') or any("one" in one for one in found)
    assert not constraint.matches('<q:a xmlns:q="urn:q" x="q:two"/>')
    assert not constraint.matches('<q:a xmlns:q="urn:q" y="nowhere:z"/>')


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            '<xs:attribute name="x" use="required"><xs:simpleType><xs:list><xs:simpleType><xs:restriction '
            'base="xs:QName"><xs:enumeration value="xs:int"/><xs:enumeration value="n"/></xs:restriction>'
            "</xs:simpleType></xs:list></xs:simpleType></xs:attribute>",
            'x="n xs:int"',
        ),
        ('<xs:attribute name="x" type="xs:QName" use="required" fixed=" xs:string "/>', 'x="xs:string"'),
    ],
)
def test_names_of_xml_schema_itself_as_values(content: str, text: str) -> None:
    constraint = element(content)
    check(constraint, walks(constraint, 10))
    assert constraint.matches(f'<a xmlns:xs="http://www.w3.org/2001/XMLSchema" {text}/>')


@pytest.mark.parametrize(
    ("content", "good", "bad"),
    [
        (
            '<xs:sequence minOccurs="2" maxOccurs="3"><xs:element name="b" minOccurs="0"/>'
            '<xs:element name="c" maxOccurs="unbounded"/></xs:sequence>',
            ["<c/><b/><c/>", "<b/><c/><c/><b/><c/>", "<c/><b/><c/><b/><c/><c/>"],
            ["<c/>", "<c/><c/>", "<b/><c/><c/>", "<b/><b/><c/>"],
        ),
        (
            '<xs:sequence minOccurs="2" maxOccurs="2"><xs:element name="b" minOccurs="0"/>'
            '<xs:element name="c" minOccurs="0"/></xs:sequence>',
            ["", "<b/><b/>", "<c/><b/>", "<b/><c/><b/><c/>"],
            ["<b/><c/>", "<b/><b/><b/>"],
        ),
        (
            '<xs:sequence minOccurs="2" maxOccurs="3"><xs:element name="b" minOccurs="0" maxOccurs="unbounded"/>'
            '<xs:element name="c" minOccurs="0"/></xs:sequence>',
            ["", "<c/><b/>", "<b/><c/><b/>", "<c/><b/><b/><c/><c/>"],
            ["<b/>", "<b/><b/>", "<b/><c/>"],
        ),
        (
            '<xs:sequence minOccurs="2" maxOccurs="unbounded"><xs:choice minOccurs="0"><xs:element name="b"/>'
            '<xs:element name="d"/></xs:choice><xs:sequence maxOccurs="unbounded"><xs:element name="c"/>'
            '<xs:element name="e" minOccurs="0"/></xs:sequence></xs:sequence>',
            ["<c/><b/><c/>", "<d/><c/><e/><c/><b/><c/>"],
            ["<c/>", "<c/><c/>", "<d/><c/><e/><c/>"],
        ),
    ],
)
def test_required_repetitions_are_told_apart_by_all_validators(content: str, good: list[str], bad: list[str]) -> None:
    constraint = element(content)
    documents = [f"<a>{inner}</a>" if inner else "<a/>" for inner in good]
    assert all(map(constraint.matches, documents))
    assert not any(constraint.matches(f"<a>{inner}</a>") for inner in bad)
    check(constraint, documents + walks(constraint, 15))


def test_a_derived_type_holds_the_fixed_value_or_is_not_offered() -> None:
    types = "".join(
        f'<xs:simpleType name="{name}"><xs:restriction base="xs:{base}">{facet}</xs:restriction></xs:simpleType>'
        for name, base, facet in (
            ("short", "string", '<xs:maxLength value="3"/>'),
            ("long", "string", '<xs:minLength value="4"/>'),
            ("listed", "string", '<xs:enumeration value="f"/><xs:enumeration value="g h"/>'),
            ("other", "string", '<xs:enumeration value="f"/>'),
            ("collapsed", "string", '<xs:whiteSpace value="collapse"/>'),
        )
    )
    for fixed, possible in (
        ("g h", {"short", "listed", "collapsed"}),
        ("g  h", {"long"}),
        ("f", {"short", "listed", "other"}),
    ):
        made = schema(f'{types}<xs:element name="a" type="xs:string" fixed="{fixed}"/>', xsi_types=True)
        documents = {
            name: f'<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="{name}">{fixed}</a>'
            for name in ("short", "long", "listed", "other", "collapsed")
        }
        accepted = {name for name, document in documents.items() if made.matches(document)}
        assert possible <= accepted
        check(made, [documents[name] for name in accepted])


def test_imported_documents() -> None:
    other = f'{HEAD[:-1]} targetNamespace="urn:o"><xs:element name="o" type="xs:int"/></xs:schema>'
    body = (
        '<xs:import namespace="urn:o"/><xs:element name="a"><xs:complexType><xs:sequence><xs:element ref="o:o"/>'
        "</xs:sequence></xs:complexType></xs:element>"
    )
    constraint = schema(body, f'{HEAD[:-1]} xmlns:o="urn:o">', documents=[other])
    assert constraint.matches('<a xmlns:o="urn:o"><o:o>1</o:o></a>')
    constraint.read('<a xmlns:o="urn:o"><o:o>1</o:o></a>')
    again = pickle.loads(pickle.dumps(constraint))
    assert (
        again == constraint and hash(again) == hash(constraint) and again.matches('<a xmlns:o="urn:o"><o:o>1</o:o></a>')
    )


def test_files_beside_a_schema_are_found_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "types.xsd").write_text(
        f'{HEAD}<xs:simpleType name="T"><xs:restriction base="xs:int"/></xs:simpleType></xs:schema>'
    )
    main = f'{HEAD}<xs:include schemaLocation="types.xsd"/><xs:element name="a" type="T"/></xs:schema>'
    (tmp_path / "main.xsd").write_text('<?xml version="1.0" encoding="ISO-8859-1"?>\n' + main)
    assert gr.xml_schema(tmp_path / "main.xsd").matches("<a>1</a>")
    with pytest.raises(gr.XmlSchemaError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gr.xml_schema(main)
    with pytest.raises(gr.XmlSchemaError) as caught:
        gr.xml_schema(tmp_path / "none.xsd")
    assert caught.value.code == "xml-file"


def test_schema_objects_and_version_1_1() -> None:
    text = (
        f'{HEAD}<xs:element name="a"><xs:complexType><xs:all><xs:element name="b" type="xs:int" maxOccurs="unbounded"/>'
        '<xs:element name="c" type="xs:dateTimeStamp" minOccurs="0" maxOccurs="2"/></xs:all></xs:complexType>'
        "</xs:element>"
        "</xs:schema>"
    )
    constraint = gr.xml_schema(xmlschema.XMLSchema11(text))
    assert constraint.source.version == "1.1"
    assert constraint == gr.xml_schema(text, version="1.1")
    assert constraint.matches("<a><b>1</b><c>2000-01-01T00:00:00Z</c><b>2</b><b>3</b></a>")
    assert not constraint.matches("<a><c>2000-01-01T00:00:00Z</c></a>")
    assert not constraint.matches("<a><b>1</b><c>2000-01-01T00:00:00</c></a>")
    for document in walks(constraint, 10):
        constraint.schema.validate(document)


# -- options
ATTRIBUTES = '<xs:attribute name="x" use="required"/><xs:attribute name="y"/><xs:attribute name="z" type="xs:int"/>'


def test_order_of_attributes() -> None:
    declared, free = element(ATTRIBUTES), element(ATTRIBUTES, attribute_order="any")
    for document, in_order in [
        ('<a x="1"/>', True), ('<a x="1" y="2" z="3"/>', True), ('<a x="1" z="3"/>', True), ('<a z="3" x="1"/>', False),
        ('<a y="2" z="3" x="1"/>', False),
    ]:  # fmt: skip
        assert (declared.matches(document), free.matches(document)) == (in_order, True)
    for document in ("<a/>", '<a y="1"/>', '<a x="1" y="2" x="1"/>', '<a x="1" z="q"/>', '<ax="1"/>', '<a  x="1"/>'):
        assert not declared.matches(document) and not free.matches(document)


def members(count: int) -> str:
    inner = "".join(f'<xs:element name="m{i}" type="xs:int" minOccurs="0"/>' for i in range(count))
    return f"<xs:all>{inner}</xs:all>"


def test_members_of_all_in_any_order_up_to_a_limit() -> None:
    ten = element(members(10))
    assert ten.matches("<a>" + "".join(f"<m{i}>1</m{i}>" for i in (3, 9, 0, 5)) + "</a>")
    assert not ten.matches("<a><m1>1</m1><m2>1</m2><m1>1</m1></a>")
    with pytest.raises(gr.XmlSchemaLimitError) as caught:
        element(members(11)).matches("<a/>")
    assert (caught.value.code, caught.value.path) == ("xml-orders", "/a")
    assert pickle.loads(pickle.dumps(caught.value)).path == "/a"
    assert element(members(11), max_orders=2048).matches("<a><m9>1</m9><m1>1</m1></a>")
    declared = element(members(30), all_order="declared")
    assert declared.matches("<a><m1>1</m1><m9>1</m9></a>") and not declared.matches("<a><m9>1</m9><m1>1</m1></a>")
    assert any(entry.component == "xs:all" for entry in declared.report().with_status("approximated"))


def test_layout_and_declaration() -> None:
    content = (
        '<xs:sequence><xs:element name="b" minOccurs="0" maxOccurs="2"><xs:complexType><xs:sequence>'
        '<xs:element name="c" '
        'type="xs:int" minOccurs="0"/></xs:sequence></xs:complexType></xs:element></xs:sequence>'
    )
    lines = element(content, layout="indented", indent=4, declaration=True)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    assert lines.matches(head + "<a>\n    <b>\n        <c>1</c>\n    </b>\n    <b/>\n</a>")
    assert lines.matches(head + "<a/>")
    for document in ("<a/>", head + "<a><b/></a>", head + "<a>\n</a>", head + "<a>\n  <b/>\n</a>"):
        assert not lines.matches(document)
    assert element(content, declaration=True).matches(head.strip() + "<a><b/></a>")


def test_deep_levels_stay_on_one_line() -> None:
    body = (
        '<xs:element name="a"><xs:complexType><xs:sequence><xs:element ref="a" minOccurs="0"/></xs:sequence>'
        "</xs:complexType>"
        "</xs:element>"
    )
    constraint = schema(body, layout="indented", max_indented_depth=2)
    assert constraint.matches("<a>\n  <a>\n    <a><a><a/></a></a>\n  </a>\n</a>")
    check(constraint, walks(constraint, 10))


def test_bounds_of_texts_and_of_repetition() -> None:
    constraint = element(
        '<xs:sequence><xs:element name="b" type="xs:string" maxOccurs="unbounded"/></xs:sequence>',
        max_text_length=3,
        max_occurs=2,
    )
    assert constraint.matches("<a><b>&amp;&lt;x</b><b/></a>")
    assert not constraint.matches("<a><b>four</b></a>") and not constraint.matches("<a><b/><b/><b/></a>")


def test_xsi_types_are_an_option() -> None:
    body = (
        '<xs:complexType name="B"><xs:attribute name="x"/></xs:complexType><xs:complexType name="C"><xs:complexContent>'
        '<xs:extension base="B"><xs:attribute name="y"/></xs:extension></xs:complexContent></xs:complexType>'
        '<xs:element name="a" type="B"/><xs:element name="b" type="B" block="extension"/>'
    )
    typed = '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="C" x="1" y="2"/>'
    with_types, without = schema(body, xsi_types=True), schema(body)
    assert with_types.matches(typed) and not without.matches(typed)
    assert not with_types.matches(typed.replace("<a", "<b"))
    assert any(entry.component == "xsi:type" for entry in without.report().with_status("approximated"))
    check(with_types, walks(with_types, 10))


def test_names_for_wildcards() -> None:
    content = '<xs:sequence><xs:any namespace="##other" processContents="lax" minOccurs="0"/></xs:sequence>'
    head = f'{HEAD[:-1]} targetNamespace="urn:t">'
    body = f'<xs:element name="a"><xs:complexType>{content}</xs:complexType></xs:element>'
    closed = schema(body, head)
    assert closed.matches('<a xmlns="urn:t"/>') and closed.report().with_status("approximated")
    opened = schema(body, head, wildcard_names=["{urn:o}x", "{urn:t}y"])
    assert opened.matches('<a xmlns="urn:t" xmlns:ns1="urn:o"><ns1:x>text<ns1:x/></ns1:x></a>')
    assert not opened.matches('<a xmlns="urn:t" xmlns:ns1="urn:o"><y/></a>')
    check(opened, walks(opened, 10))


def test_roots() -> None:
    body = (
        '<xs:element name="a" type="xs:int"/><xs:element name="b" type="xs:int"/><xs:element name="c" abstract="true"/>'
    )
    head = f'{HEAD[:-1]} xmlns:t="urn:t" targetNamespace="urn:t">'
    for name in ("b", "t:b", "{urn:t}b", ["b"]):
        constraint = schema(body, head, root=name)
        assert constraint.matches('<b xmlns="urn:t">1</b>') and not constraint.matches('<a xmlns="urn:t">1</a>')
    assert repr(schema(body, head, root="b")).endswith("root='b')")
    for name, words in (
        ("d", "is not a global element; there are a, b"),
        ("c", "is abstract"),
        ("bb", "did you mean 'b'"),
    ):
        with pytest.raises(gr.XmlSchemaError, match=words) as caught:
            schema(body, head, root=name)
        assert caught.value.code == "xml-root"
    with pytest.raises(gr.XmlSchemaError) as caught:
        schema('<xs:simpleType name="T"><xs:restriction base="xs:int"/></xs:simpleType>')
    assert caught.value.code == "xml-root"
