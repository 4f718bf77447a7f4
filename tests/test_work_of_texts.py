"""Reading texts (patterns, grammars) counts as work, by what it takes, and every limit names its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import guiderail as gr
from guiderail.constraints.program import build_program
from guiderail.support import work

Make = Callable[[], gr.Constraint]


def pattern(text: str, **options: object) -> Make:
    return lambda: gr.regex(text, **options)  # type: ignore[arg-type]


def grammar(text: str, syntax: str) -> Make:
    return lambda: gr.grammar(text, syntax)


def rules(defined: str, end: str, join: str) -> str:
    """A grammar of 300 rules, each of two texts."""
    names = f" {join} ".join(f"r{i}" for i in range(300))
    bodies = "".join(f'r{i} {defined} "x{i}" | "y{i}"{end}\n' for i in range(300))
    return f"start {defined} {names}{end}\n{bodies}"


def steps(make: Make) -> int:
    before = work.spent()
    build_program(make())
    return work.spent() - before


# With the fewest steps that account for the time.
COUNTED: dict[str, tuple[Make, int]] = {
    "a pattern of one text": (pattern("ab" * 1000), 6_000),
    "a pattern of escapes": (pattern(r"\.\n" * 1000), 25_000),
    "a pattern of classes": (pattern("[ab][^c-d]" * 500), 30_000),
    "a pattern of repetitions": (pattern("a*b+" * 500), 40_000),
    "alternatives of a pattern": (pattern("|".join(map(str, range(1000)))), 30_000),
    "a pattern in any case": (pattern("abc" * 1000, flags="i"), 60_000),
    "classes in any case": (pattern("(?iu)[α-ω]" + "[а-я]" * 100), 40_000),
    "classes with properties": (pattern("".join(rf"[\p{{L}}{chr(0x2000 + i)}]" for i in range(50))), 250_000),
    "assertions": (pattern(r"\w+\b " * 300), 30_000),
    "GBNF": (grammar(rules("::=", "", "").replace("start", "root"), "gbnf"), 100_000),
    "EBNF of the W3C": (grammar(rules("::=", "", ""), "ebnf-w3c"), 100_000),
    "EBNF of ISO": (grammar(rules("=", ";", ","), "ebnf-iso"), 100_000),
    "Lark's notation": (grammar(rules(":", "", ""), "lark"), 80_000),
    "texts in GBNF": (grammar('root ::= "' + "\\n" * 2000 + '"', "gbnf"), 30_000),
    "templates in Lark's notation": (
        grammar("start: " + " ".join(f't{{"{i}"}}' for i in range(200)) + "\nt{x}: x x x x x x x x\n", "lark"),
        60_000,
    ),
    "parts of parametric rules": (
        grammar(
            f"start: {'|'.join(f'c::{i}' for i in range(20))}\n"
            f'c::_: "a" {"d::0 " * 50} %if ne(_,77)\nd::_: "a" %if ne(_,77)\n',
            "lark",
        ),
        60_000,
    ),
    "white space and comments": (pattern("(?x)" + " \n" * 2000 + "a#b\n" * 1000), 60_000),
}


@pytest.mark.parametrize("name", COUNTED)
def test_reading_is_counted_every_time(name: str) -> None:
    make, least = COUNTED[name]
    first, second = steps(make), steps(make)
    assert first == second >= least


def test_a_pattern_costs_the_same_from_a_cache() -> None:
    from guiderail.frontends.json_schema.values.patterns import read_pattern

    schema = gr.json_schema({"type": "string", "pattern": "^" + "a?b" * 300})
    read_pattern("^" + "a?b" * 300)
    before = work.spent()
    build_program(schema)
    kept = work.spent() - before
    gr.clear_cache()
    before = work.spent()
    build_program(schema)
    assert work.spent() - before == kept


HARD = "".join(f"(?=.*{i}a)" for i in range(100, 160)) + "[a0-9]{100}"
LONG, WIDE, ALTERNATIVES = "a" * 8_000_000, "a?" * 700_000, "root ::= " + "|" * 1_500_000
LEFT = "root ::= r0\n" + "".join(f'r{i} ::= r{i} "x" | r{i + 1}\n' for i in range(600)) + 'r600 ::= "y"\n'

# A rule for each value of a counter, each with many conditions.
TESTS = "ne(_,77777)"
for _ in range(9):
    TESTS = f"and({TESTS},{TESTS})"
CONDITIONS = f'start: c::0\nc::_: "a" c::incr(_) %if {TESTS} | "b"\n'

# Limits and the texts in which they are met.
PLACED: dict[str, tuple[Make, str, str]] = {
    "a pattern that is too long": (pattern(LONG), "work", LONG),
    "a pattern of too many parts": (pattern(WIDE), "work", WIDE),
    "a pattern hard to decide": (pattern(HARD), "fuel", HARD),
    "a grammar that is too long": (grammar(ALTERNATIVES, "gbnf"), "work", ALTERNATIVES),
    "conditions of parametric rules": (grammar(CONDITIONS, "lark"), "work", CONDITIONS),
    "rules that begin with each other": (grammar(LEFT, "gbnf"), "grammar-depth", LEFT),
}


@pytest.mark.parametrize("name", PLACED)
def test_limits_name_the_text(name: str) -> None:
    make, code, source = PLACED[name]
    with pytest.raises(gr.LimitError) as caught:
        build_program(make())
    assert caught.value.code == code
    assert caught.value.source == source
    assert caught.value.span is not None


TAGS = ", ".join(f'("{i:x}<", inner)' for i in range(2500))
EXCEPTIONS = "s ::= " + " | ".join(f"(r0 - 'b{i}')" for i in range(1500)) + "\n"
EXCEPTIONS += "r0 ::= " + " | ".join(f"r{i}" for i in range(1, 1500)) + "\n"
EXCEPTIONS += "".join(f"r{i} ::= 'a{i}' | 'b{i}'\n" for i in range(1, 1500))

# Large texts that take less than the limit, with a text that matches and one that does not.
READ: dict[str, tuple[Make, str, str]] = {
    "tags of a GBNF grammar": (
        grammar(f'root ::= TagDispatch({TAGS})\ninner ::= "x"', "gbnf"),
        "1ff 8ff<x 1<x",
        "1ff 8ff<y",
    ),
    "exceptions from one rule": (grammar(EXCEPTIONS, "ebnf-w3c"), "a1499", "a1500"),
}


@pytest.mark.parametrize("name", READ)
def test_large_texts_are_read(name: str) -> None:
    make, good, bad = READ[name]
    constraint = make()
    assert constraint.matches(good)
    assert not constraint.matches(bad)


MANY = {"type": "object", "properties": {f"p{i}": {"type": "integer", "minimum": i} for i in range(20_000)}}
# Each holds with the next and one of two patterns, and not with the next and the other.
_CHAIN = {
    f"d{i}": {"oneOf": [{"allOf": [{"$ref": f"#/$defs/d{i + 1}"}], "pattern": f"{letter}{i}"} for letter in "ab"]}
    for i in range(60)
}
POINTED: dict[str, tuple[Make, str]] = {
    "a schema in a structural tag": (
        lambda: gr.structural_tag({"type": "sequence", "elements": [{"type": "json_schema", "json_schema": MANY}]}),
        "#/elements/0",
    ),
    "a schema hard to finish": (
        lambda: gr.json_schema({"$ref": "#/$defs/d0", "$defs": {"d60": {"type": "string"}, **_CHAIN}}),
        "#/$defs/d0",
    ),
}


@pytest.mark.parametrize("name", POINTED)
def test_limits_name_the_schema(name: str) -> None:
    make, pointer = POINTED[name]
    with pytest.raises(gr.LimitError) as caught:
        build_program(make())
    assert caught.value.pointer.startswith(pointer)  # type: ignore[attr-defined]


def test_limits_name_the_tool() -> None:
    same = {"type": "object", "properties": {"a": {"type": "string", "pattern": "a" * 30}}}
    tools = [{"name": f"tool{i}", "parameters": same} for i in range(3_000)]
    with pytest.raises(gr.LimitError, match="the tool 'tool"):
        build_program(gr.tool_calls(tools, format="hermes"), max_work=2_000_000)


def test_tools_are_limited_together() -> None:
    tools = [
        {"name": f"tool{i}", "parameters": {"type": "object", "properties": {f"a{i}": {"type": "string"}}}}
        for i in range(30_000)
    ]
    with pytest.raises(gr.LimitError, match=r"the first [0-9,]+ tools take more than") as caught:
        gr.tool_calls(tools, format="hermes")
    assert caught.value.code == "work"


def test_running_out_of_work_is_never_an_answer() -> None:
    """Questions that are too hard count as undecided. That the compilation is out of work ends it."""
    made = gr.regex("(?>a|ab)(?>[a-c]+|[b-d]+x)")
    with pytest.raises(gr.LimitError) as caught:
        build_program(made, max_work=200)
    assert caught.value.code == "work"


# Inputs that took forever, or ended in an error of another library.
XS = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>'
ROOT = '<xs:element name="a"><xs:complexType>{}</xs:complexType></xs:element>'
TEXT = (
    '<xs:element name="a"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="{}"/></xs:restriction>'
    "</xs:simpleType></xs:element>"
)


def test_repetitions_in_repetitions_share_what_they_repeat() -> None:
    turns = 30 * '<xs:sequence minOccurs="2" maxOccurs="100">' + '<xs:element name="b"/>' + 30 * "</xs:sequence>"
    assert gr.xml_schema(XS.format(ROOT.format(turns))).program().start


def test_patterns_of_xml_schemas_are_paid_for_before_they_are_read() -> None:
    with pytest.raises(gr.XmlSchemaLimitError) as caught:
        gr.xml_schema(XS.format(TEXT.format(r"\i\c*\p{L}" * 5000)))
    assert (caught.value.code, caught.value.path) == ("work", "/a")


def test_a_schema_nested_deeper_than_its_library_allows() -> None:
    begin, end = ROOT.format("<xs:sequence>{}</xs:sequence>").split("{}")
    with pytest.raises(gr.XmlSchemaError):
        gr.xml_schema(XS.format(5000 * begin + '<xs:element name="b"/>' + 5000 * end))


def test_a_type_nested_deeper_than_it_can_be_written() -> None:
    kind: object = int
    for _ in range(5000):
        kind = list[kind]  # type: ignore[valid-type]
    with pytest.raises(gr.CompileError) as caught:
        gr.python_type(kind)
    assert caught.value.code in ("type-depth", "depth")  # by how much stack there is


def test_many_attributes_of_xml_are_refused() -> None:
    with pytest.raises(gr.LimitError) as caught:
        gr.grammars.xml(attributes=[f"a{i}" for i in range(20_000)])
    assert caught.value.code == "grammar-size"


def test_inputs_of_a_service_may_refer_to_each_other_in_a_long_chain() -> None:
    inputs = "".join(f"input I{i} {{ next: I{i + 1} }}\n" for i in range(600)) + "input I600 { end: Int }\n"
    query = gr.grammars.graphql(schema=inputs + "type Query { a(of: I0): Int }")
    assert query.matches("{a(of: {next: {next: null}})}")
    assert not query.matches("{a(of: {end: 1})}")


def test_reading_the_language_of_a_service_is_limited() -> None:
    text = "type Query { " + " ".join(f"f{i}: Int" for i in range(60_000)) + " }"
    with pytest.raises(gr.LimitError) as caught:
        gr.grammars.graphql(schema=text)
    assert (caught.value.code, caught.value.source) == ("work", text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gr.grammars.sql(schema={"t": ["c" * 5000]}),
        lambda: gr.grammars.sql(schema={"t" * 5000: ["c"]}),
        lambda: gr.grammars.graphql(schema="type Query { " + "a" * 5000 + ": Int }"),
    ],
)
def test_names_too_long_for_a_mask_are_refused(make: Make) -> None:
    with pytest.raises(gr.LimitError, match="5,000 characters") as caught:
        make()
    assert caught.value.code == "query-schema-size"
