"""Large inputs for every front end: each grows in one direction, as far as a client may send it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import guiderail as gr

__all__ = ["BOMBS"]

Make = Callable[[], gr.Constraint]
XS = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>'


def xml(body: str, **options: Any) -> gr.Constraint:
    return gr.xml_schema(XS.format(body), **options)


def element(name: str, content: str) -> str:
    return (
        f'<xs:element name="{name}"><xs:complexType><xs:sequence>{content}</xs:sequence></xs:complexType></xs:element>'
    )


def chain(n: int) -> str:
    """Each element contains the next."""
    return "".join(element(f"e{i}", f'<xs:element ref="e{i + 1}"/>') for i in range(n)) + f'<xs:element name="e{n}"/>'


def simple(restriction: str, base: str = "xs:string") -> str:
    return (
        f'<xs:element name="a"><xs:simpleType><xs:restriction base="{base}">{restriction}</xs:restriction>'
        "</xs:simpleType></xs:element>"
    )


def derived(n: int) -> str:
    """Types that each add an element to the previous one."""
    types = ['<xs:complexType name="t0"><xs:sequence><xs:element name="m0"/></xs:sequence></xs:complexType>']
    types += [
        f'<xs:complexType name="t{i}"><xs:complexContent><xs:extension base="t{i - 1}"><xs:sequence>'
        f'<xs:element name="m{i}"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>'
        for i in range(1, n)
    ]
    return "".join(types) + f'<xs:element name="a" type="t{n - 1}"/>'


def doubled(n: int) -> str:
    """Groups that each contain the next one twice."""
    groups = [
        f'<xs:group name="g{i}"><xs:sequence>' + 2 * f'<xs:group ref="g{i + 1}"/>' + "</xs:sequence></xs:group>"
        for i in range(n)
    ]
    groups.append(f'<xs:group name="g{n}"><xs:sequence><xs:element name="m"/></xs:sequence></xs:group>')
    body = '<xs:group ref="g0"/>'
    return "".join(groups) + f'<xs:element name="a"><xs:complexType>{body}</xs:complexType></xs:element>'


def attributes(n: int) -> str:
    found = "".join(f'<xs:attribute name="b{i}"/>' for i in range(n))
    return f'<xs:element name="a"><xs:complexType>{found}</xs:complexType></xs:element>'


def every(n: int) -> str:
    items = "".join(f'<xs:element name="m{i}"/>' for i in range(n))
    return f'<xs:element name="a"><xs:complexType><xs:all>{items}</xs:all></xs:complexType></xs:element>'


def lark(text: str, **options: Any) -> gr.Constraint:
    return gr.grammar(text, "lark", **options)


def levels(first: str, level: str, last: str, n: int = 30) -> str:
    """A grammar whose rules each name the next one; ``#`` stands for a level and ``$`` for the next."""
    made = [level.replace("#", str(i)).replace("$", str(i + 1)) for i in range(n)]
    return "\n".join([first, *made, last.replace("#", str(n))])


def nested_grammars(n: int) -> gr.Constraint:
    inner: gr.Constraint = gr.literal("a")
    for _ in range(n):
        inner = gr.grammar({"r": [[inner, inner], "q"]})
    return inner


def nested_groups(n: int, of: str, end: str, core: str) -> str:
    return of * n + core + end * n


def service(text: str) -> gr.Constraint:
    return gr.grammars.graphql(schema=text)


def tool(i: int, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": f"tool{i}", "parameters": parameters}}


def tag(i: int, inner: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": f"<t{i}>", "content": inner, "end": f"</t{i}>"}


def typed(n: int) -> Any:
    import dataclasses

    return dataclasses.make_dataclass("Wide", [(f"field{i}", int) for i in range(n)])


def nested_type(n: int) -> Any:
    import dataclasses

    inner: Any = int
    for i in range(n):
        inner = dataclasses.make_dataclass(f"Deep{i}", [("x", inner), ("y", list[inner])])  # type: ignore[valid-type]
    return inner


BOMBS: dict[str, Make] = {
    # -- regular expressions
    "regex: nested counts": lambda: gr.regex("((((a{1,99}b){1,99}c){1,99}d){1,99}e){1,99}"),
    "regex: huge count": lambda: gr.regex("(a|bc){1,1000000000}"),
    "regex: long alternation": lambda: gr.regex("|".join(f"w{i * 7919 % 100003}" for i in range(20_000))),
    "regex: long class": lambda: gr.regex("[" + "".join(chr(0x4E00 + 2 * i) for i in range(10_000)) + "]+x"),
    "regex: many classes": lambda: gr.regex("".join(f"[{chr(0x4E00 + i)}-{chr(0x9000 + i)}]" for i in range(3_000))),
    "regex: long text": lambda: gr.regex("a" * 300_000),
    "regex: many groups": lambda: gr.regex("(a)" * 20_000),
    "regex: optionals": lambda: gr.regex("a?" * 5_000 + "a" * 5_000),
    "regex: look-aheads": lambda: gr.regex("".join(f"(?=.*{chr(97 + i % 26)}{i})" for i in range(60)) + ".*"),
    "regex: negative look-aheads": lambda: gr.regex("".join(f"(?!.*{chr(97 + i % 26)}{i})" for i in range(300)) + ".*"),
    "regex: look-behinds": lambda: gr.regex("".join(f".(?<!x{i})" for i in range(200))),
    "regex: back references": lambda: gr.regex("(a|b|c|d){1,3}" * 6 + r"\1\2\3\4\5\6"),
    "regex: references to many groups": lambda: gr.regex("".join(f"(?P<n{i}>a|b)(?P=n{i})" for i in range(300))),
    "regex: many references to one group": lambda: gr.regex("([a-z]x{1,2}|q)" + r"\1" * 3_000),
    "regex: words": lambda: gr.regex(r"\b\w+\b" * 2_000),
    "regex: case": lambda: gr.regex("(?i)" + "straße" * 5_000),
    "regex: atomic": lambda: gr.regex("(?>a|ab|abc)" * 60),
    "regex: loops in loops": lambda: gr.regex("(" * 300 + "a" + "*b)*" * 300),
    "regex: deep": lambda: gr.regex("(" * 50_000 + "a" + ")" * 50_000),
    "intersection": lambda: (
        gr.regex(".*".join(f"a{i}" for i in range(80))) & gr.regex(".*".join(f"b{i}" for i in range(80)))
    ),
    "intersections": lambda: _all(gr.regex(f".*{chr(97 + i)}.{{{i}}}b.*") for i in range(20)),
    "complements": lambda: _all(~gr.regex(f".*{chr(97 + i)}.{{{i}}}b.*") for i in range(16)),
    "literals": lambda: gr.choice([f"word {i * i}" for i in range(50_000)]),
    "substring": lambda: gr.substring_of("ab" * 100_000),
    "long literal": lambda: gr.literal("ab" * 500_000),
    # -- grammars
    "gbnf: many rules": lambda: gr.grammar(
        "root ::= r0\n" + "\n".join(f'r{i} ::= "a" r{i + 1} | "b{i}"' for i in range(5_000)) + '\nr5000 ::= "z"', "gbnf"
    ),
    "gbnf: left recursion": lambda: gr.grammar(
        "root ::= r0\n" + "\n".join(f'r{i} ::= r{(i + 1) % 300} "a" | r{(i * 7) % 300} "b" | "c"' for i in range(300)),
        "gbnf",
    ),
    "gbnf: doubling": lambda: gr.grammar(
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "z"', "gbnf"
    ),
    "gbnf: doubling, empty": lambda: gr.grammar(
        "root ::= r0\n"
        + "\n".join(f"r{i} ::= r{i + 1} r{i + 1} | r{i + 2}" for i in range(60))
        + '\nr60 ::= "z"?\nr61 ::= ""',
        "gbnf",
    ),
    "gbnf: alternatives": lambda: gr.grammar(
        "root ::= " + " | ".join(f'"{i}" root "{i + 1}"' for i in range(10_000)) + ' | "x"', "gbnf"
    ),
    "gbnf: counts": lambda: gr.grammar(
        'root ::= (((("a"{1,999} "b"){1,999} "c"){1,999} "d"){1,999} "e"){1,999}', "gbnf"
    ),
    "gbnf: groups": lambda: gr.grammar("root ::= " + nested_groups(20_000, "(", ")", '"a"'), "gbnf"),
    "gbnf: long": lambda: gr.grammar("root ::= " + '"a" ' * 100_000, "gbnf"),
    "gbnf: classes": lambda: gr.grammar(
        "root ::= " + " ".join(f"[{chr(0x4E00 + i)}-龥]*" for i in range(3_000)), "gbnf"
    ),
    "ebnf: many rules": lambda: gr.grammar(
        "root ::= r0\n" + "\n".join(f"r{i} ::= 'a' r{i + 1} | 'b{i}'" for i in range(5_000)) + "\nr5000 ::= 'z'", "ebnf"
    ),
    "iso ebnf: many rules": lambda: gr.grammar(
        "root = r0;\n" + "\n".join(f'r{i} = "a", r{i + 1} | "b{i}";' for i in range(5_000)) + '\nr5000 = "z";',
        "ebnf-iso",
    ),
    "productions": lambda: gr.grammar(
        {f"r{i}": [["a", gr.Ref(f"r{i + 1}")], [f"b{i}"]] for i in range(5_000)} | {"r5000": [["z"]]}, start="r0"
    ),
    "lark: many terminals": lambda: lark(
        "start: (" + "|".join(f"T{i}" for i in range(1_000)) + ")+\n" + "\n".join(f'T{i}: "w{i}"' for i in range(1_000))
    ),
    "lark: many patterns": lambda: lark(
        "start: ("
        + "|".join(f"T{i}" for i in range(200))
        + ")+\n"
        + "\n".join(f"T{i}: /w{i}[a-z]*{i}/" for i in range(200))
    ),
    "lark: many rules": lambda: lark(
        "start: r0\n" + "\n".join(f'r{i}: "a" r{i + 1} | "b{i}"' for i in range(3_000)) + '\nr3000: "z"'
    ),
    "lark: left recursion": lambda: lark(
        "start: r0\n" + "\n".join(f'r{i}: r{(i + 1) % 200} "a" | r{(i * 7) % 200} "b" | "c"' for i in range(200))
    ),
    "lark: templates": lambda: lark("start: " + nested_groups(60, "t{", "}", '"a"') + "\nt{x}: x x\n"),
    "lark: templates that double": lambda: lark(
        "start: t0{A}\n"
        + "\n".join(f"t{i}{{x}}: t{i + 1}{{x}} t{i + 1}{{x}}" for i in range(40))
        + '\nt40{x}: x\nA: "a"'
    ),
    "lark: counts": lambda: lark('start: ((("a"~1..999 "b")~1..999 "c")~1..999 "d")~1..999'),
    "lark: a long lexeme": lambda: lark('start: A "b"\nA: /(a[^a]{16,31}){200,205}/'),
    "lark: a longer lexeme": lambda: lark('start: A "b"\nA: /(a[^a]{16,31}){2000,2005}/'),
    "lark: lexemes side by side": lambda: lark(
        "start: (A | B)+\nA: /(a[^a]{16,31}){200,205}/\nB: /[^a]{40}(a.{16,31}){100,105}x/\n%ignore /b+/"
    ),
    "lark: groups": lambda: lark("start: " + nested_groups(5_000, "(", ")", '"a"')),
    "lark: priorities": lambda: lark(
        "start: ("
        + "|".join(f"T{i}" for i in range(60))
        + ")+\n"
        + "\n".join(f"T{i}.{i}: /[a-{chr(98 + i % 24)}]{{{i},}}x/" for i in range(60))
    ),
    "lark: optional parts": lambda: lark("start: T U\nT: /" + "(a|b)?" * 1_500 + "/\nU: /" + "a??" * 1_500 + "b/"),
    "lark: assertions beside each other": lambda: lark("start: (T|U)+\nT: /" + "(?!ab)(a|b)?" * 300 + "x/\nU: /y/"),
    "lark: a text that is never closed": lambda: lark('start: "' + '\\"' * 20_000),
    "lark: a pattern that is never closed": lambda: lark("start: /a" + "\\/" * 20_000),
    "lark: nested grammars": lambda: lark("start: " + " ".join(500 * ['%lark { start: "a" /b+/ }'])),
    "lark: nested json": lambda: lark(
        "start: "
        + " | ".join(f"j{i}" for i in range(60))
        + "\n"
        + "\n".join(f"j{i}: %json " + json.dumps({"type": "object", "properties": {f"k{i}": {}}}) for i in range(60))
    ),
    "lark: lazy": lambda: lark(
        "start: ("
        + " | ".join(f"f{i}" for i in range(40))
        + ")*\n"
        + "\n".join(f"f{i}[lazy]: /(.|\\n)*<{i}>/" for i in range(40))
    ),
    # -- grammars whose parts are named twice on each level
    "lark: terminals that double": lambda: lark(levels("start: T0", "T#: T$ T$", 'T#: "a"')),
    "lark: alternatives that double": lambda: lark(levels("start: T0", 'T#: T$ "b" | "c" T$', 'T#: "a"')),
    "lark: terminals that double, with an import": lambda: lark(
        levels("%import common.INT\nstart: T0", "T#: T$ T$", 'T#: "a"')
    ),
    "lark: complements that double": lambda: lark(levels("start: T0", 'T#: ~T$ & ("b" | T$)', 'T#: "a"', 31)),
    "lark: templates with more arguments": lambda: lark(
        levels('start: t0{"a"}', 't#{a}: t${a} t${b#{a}}\nb#{x}: x "b"', "t#{a}: a")
    ),
    "lark: templates with more arguments, with an import": lambda: lark(
        levels('%import common.INT\nstart: t0{"a"}', 't#{a}: t${a} t${b#{a}}\nb#{x}: x "b"', "t#{a}: a")
    ),
    "lark: bounds that double": lambda: lark(levels('start: s "x"\ns[max_tokens=5]: r0', "r#: r$ r$", 'r#: "a"', 60)),
    "lark: bounds on each level": lambda: lark(levels('start: r0 "x"', "r#[max_chars=5]: r$ | r$ r$", 'r#: "a"', 40)),
    "gbnf: bounds on each level": lambda: gr.grammar(
        levels('root ::= r0 "x"', "r#[lazy] ::= r$ r$ | r$", "r# ::= [ab]"), "gbnf"
    ),
    "gbnf: bounds in characters on each level": lambda: gr.grammar(
        levels("root ::= r0", 'r#[max_chars=#0] ::= r$ "x"? | "y" r$ "z"', "r# ::= [a-z]*", 60), "gbnf"
    ),
    "productions: nested grammars": lambda: nested_grammars(40),
    # -- XML Schema
    "xml: chain": lambda: xml(chain(2_000)),
    "xml: chain, backwards": lambda: xml(
        "".join(reversed([element(f"e{i}", f'<xs:element ref="e{i + 1}"/>') for i in range(2_000)]))
        + '<xs:element name="e2000"/>'
    ),
    "xml: wide": lambda: xml(element("a", "".join(f'<xs:element name="m{i}" minOccurs="0"/>' for i in range(5_000)))),
    "xml: enumeration": lambda: xml(simple("".join(f'<xs:enumeration value="v{i * i}"/>' for i in range(20_000)))),
    "xml: numbers enumerated": lambda: xml(
        simple("".join(f'<xs:enumeration value="{i * i}"/>' for i in range(5_000)), "xs:decimal")
    ),
    "xml: patterns": lambda: xml(simple("".join(f'<xs:pattern value="[a-z]{{{i}}}x.*"/>' for i in range(500)))),
    "xml: pattern": lambda: xml(simple('<xs:pattern value="((([a-z]{1,99}b){1,99}c){1,99}d){1,99}"/>')),
    "xml: digits": lambda: xml(
        simple('<xs:totalDigits value="100000"/><xs:fractionDigits value="50000"/>', "xs:decimal")
    ),
    "xml: bounds": lambda: xml(
        simple(f'<xs:minInclusive value="{"1" * 3_000}"/><xs:maxInclusive value="{"9" * 3_000}"/>', "xs:integer")
    ),
    "xml: list": lambda: xml(
        '<xs:simpleType name="l"><xs:list itemType="xs:integer"/></xs:simpleType>'
        + simple('<xs:length value="100000"/>', "l")
    ),
    "xml: attributes": lambda: xml(attributes(500)),
    "xml: attributes in any order": lambda: xml(attributes(60), attribute_order="any"),
    "xml: all": lambda: xml(every(30)),
    "xml: counts": lambda: xml(
        element("a", '<xs:sequence maxOccurs="100000"><xs:element name="b" maxOccurs="100000"/></xs:sequence>')
    ),
    "xml: derived": lambda: xml(derived(300)),
    "xml: groups that double": lambda: xml(doubled(40)),
    "xml: choices": lambda: xml(
        '<xs:element name="a"><xs:complexType><xs:choice maxOccurs="unbounded">'
        + "".join(f'<xs:element name="m{i}" type="xs:date"/>' for i in range(2_000))
        + "</xs:choice></xs:complexType></xs:element>"
    ),
    "xml: nested": lambda: xml(
        '<xs:element name="a"><xs:complexType>'
        + "<xs:sequence>" * 500
        + '<xs:element name="m"/>'
        + "</xs:sequence>" * 500
        + "</xs:complexType></xs:element>"
    ),
    "xml: substitution": lambda: xml(
        '<xs:element name="a"/>'
        + "".join(f'<xs:element name="s{i}" substitutionGroup="a"/>' for i in range(1_000))
        + element("r", '<xs:element ref="a" maxOccurs="9"/>')
    ),
    # -- GraphQL
    "graphql: a cycle of inputs": lambda: service(
        "\n".join(f"input I{i} {{ x: I{(i + 1) % 900}! }}" for i in range(900)) + "\ntype Query { f(x: I0): Int }"
    ),
    "graphql: cycles of inputs": lambda: service(
        "\n".join(f"input I{i} {{ x: I{i + 1}! }}" for i in range(900))
        + "\ninput I900 {"
        + " ".join(f"x{i}: I{i}!" for i in range(20))
        + "}\ntype Query { f(x: I0): Int }"
    ),
    "graphql: one argument again and again": lambda: service("type Query { f(" + "x: Int " * 3_000 + "): Int }"),
    "graphql: similar names": lambda: service(
        "type Query {"
        + " ".join(f"f{i}: Ab{'c' * i}" for i in range(100))
        + "}"
        + "".join(f" type Ab{'c' * i}d {{ a: Int }}" for i in range(60))
    ),
    # -- JSON Schema, in addition to its own tests
    "json: enumeration": lambda: gr.json_schema({"enum": [f"v{i * i}" for i in range(50_000)]}),
    "json: numbers enumerated": lambda: gr.json_schema(
        {"type": "number", "enum": [i * i + 0.5 for i in range(20_000)], "minimum": 3}
    ),
    "json: properties": lambda: gr.json_schema(
        {"properties": {f"k{i}": {"type": "integer", "minimum": i} for i in range(10_000)}}
    ),
    "json: patterns": lambda: gr.json_schema(
        {"allOf": [{"type": "string", "pattern": f"[a-z]{{{i}}}x"} for i in range(12)]}
    ),
    "json: multiples": lambda: gr.json_schema(
        {"allOf": [{"type": "integer", "multipleOf": p} for p in (97, 89, 83, 79, 73, 71)]}
    ),
    "json: references": lambda: gr.json_schema(
        {
            "$defs": {
                f"a{i}": {
                    "properties": {
                        "x": {"$ref": f"#/$defs/a{(i * 7 + 1) % 900}"},
                        "y": {"$ref": f"#/$defs/a{(i * 3 + 5) % 900}"},
                    }
                }
                for i in range(900)
            },
            "$ref": "#/$defs/a0",
        }
    ),
    "json: dependent": lambda: gr.json_schema(
        {"type": "object", "dependentRequired": {f"a{i}": [f"a{i + 1}", f"b{i}"] for i in range(200)}}
    ),
    "json: conditions": lambda: gr.json_schema(
        {
            "allOf": [
                {"if": {"properties": {f"a{i}": {"const": 1}}, "required": [f"a{i}"]}, "then": {"required": [f"b{i}"]}}
                for i in range(40)
            ]
        }
    ),
    "json: prefix": lambda: gr.json_schema(
        {"type": "array", "prefixItems": [{"type": "integer", "minimum": i} for i in range(3_000)]}
    ),
    "json: long constant": lambda: gr.json_schema({"const": ["x" * 1_000] * 300}),
    "json: lengths": lambda: gr.json_schema({"type": "string", "minLength": 10**6, "maxLength": 10**9}),
    "json: bounds": lambda: gr.json_schema({"type": "integer", "minimum": 10**2_000, "maximum": 10**4_000}),
    "yaml: properties": lambda: gr.json_schema(
        {"type": "object", "properties": {f"k{i}": {"type": "string"} for i in range(3_000)}}, notation="yaml"
    ),
    "python: properties": lambda: gr.json_schema(
        {"type": "object", "properties": {f"k{i}": {"type": "string"} for i in range(3_000)}}, notation="python"
    ),
    "yaml: recursion": lambda: gr.json_schema(
        {
            "$defs": {
                "n": {
                    "type": "object",
                    "properties": {"n": {"$ref": "#/$defs/n"}, "m": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
                }
            },
            "$ref": "#/$defs/n",
        },
        notation="yaml",
    ),
    # -- Python types
    "types: wide": lambda: gr.python_type(typed(3_000)),
    "types: deep": lambda: gr.python_type(nested_type(60)),
    "types: union": lambda: gr.python_type(_union(300)),
    "types: tuple": lambda: gr.python_type(tuple[tuple(int for _ in range(3_000))]),  # type: ignore[misc]
    # -- tools and structural tags
    "tools: many": lambda: gr.tool_calls(
        [tool(i, {"type": "object", "properties": {"x": {"type": "integer"}}}) for i in range(1_000)], format="hermes"
    ),
    "tools: many, by their own tags": lambda: gr.tool_calls(
        [tool(i, {"type": "object", "properties": {"x": {"type": "string"}}}) for i in range(500)], format="qwen3-coder"
    ),
    "tags: triggered": lambda: gr.structural_tag(
        {
            "type": "structural_tag",
            "format": {
                "type": "triggered_tags",
                "triggers": [f"<t{i}>" for i in range(500)],
                "tags": [tag(i, {"type": "any_text"}) for i in range(500)],
            },
        }
    ),
    "tags: nested": lambda: gr.structural_tag({"type": "structural_tag", "format": _nested_tags(200)}),
    "tags: sequence": lambda: gr.structural_tag(
        {
            "type": "structural_tag",
            "format": {"type": "sequence", "elements": [tag(i, {"type": "any_text"}) for i in range(500)]},
        }
    ),
    "tags: long end": lambda: gr.structural_tag(
        {
            "type": "structural_tag",
            "format": {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": "ab" * 5_000},
        }
    ),
    "lists": lambda: gr.separated_by(gr.regex("[a-z]+") | gr.regex("[0-9]{1,30}"), ", ", 0, 10**6),
}


def _all(constraints: Any) -> gr.Constraint:
    found = None
    for constraint in constraints:
        found = constraint if found is None else found & constraint
    assert found is not None
    return found


def _union(n: int) -> Any:
    import dataclasses
    import functools
    import operator

    return functools.reduce(
        operator.or_, [dataclasses.make_dataclass(f"T{i}", [(f"a{i}", int), ("b", str)]) for i in range(n)]
    )


def _nested_tags(n: int) -> Any:
    inner: Any = {"type": "any_text"}
    for i in range(n):
        inner = tag(i, inner)
    return inner
