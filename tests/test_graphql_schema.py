"""GraphQL for a service: graphql-core accepts whatever the grammar writes."""

from __future__ import annotations

import json
import pickle
import random
import sys
from typing import Any

import graphql
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from guiderail import grammars

SDL = """
enum Role { ADMIN USER on }
input Filter { name: String, minAge: Int!, tags: [String!], nested: Filter, role: Role = USER }
input Pick @oneOf { id: ID, name: String }
scalar Date
interface Node { id: ID! label(lang: String): String }
type User implements Node {
  id: ID! label(lang: String): String name: String! age: Int role: Role born: Date
  friends(first: Int = 10, after: ID): [User!]! posts(filter: Filter!): [Post]
}
type Post implements Node { id: ID! label(lang: String): String title: String score: Float author: User name: Int }
union Hit = User | Post
type Query {
  me: User user(by: Pick!): User node(id: ID!): Node version: String query: Int
  search(text: String!, role: Role, scores: [Float!], dates: [Date]): [Hit!]
}
type Mutation { rename(id: ID!, name: String!): User }
type Subscription { joined: User left(id: ID): User }
"""
SCHEMA = graphql.build_schema(SDL)
ALL = ["query", "mutation", "subscription"]


def faults(schema: graphql.GraphQLSchema, text: str) -> list[Any]:
    try:
        return list(graphql.validate(schema, graphql.parse(text)))
    except graphql.GraphQLError as error:
        return [error]


TAKEN = [
    "{ me { id name } }",
    "query Mine { me { friends(first: 3, after: null) { id }, role } version }",
    '{ user(by: {id: "1"}) { posts(filter: {minAge: 3, tags: ["a", "b"], nested: {minAge: -1}}) { title score } } }',
    '{ search(text: "a\\n\\u00e9", role: on, scores: [1, 2.5]) { ... on User { age } ... on Post { title } } }',
    "{ node(id: 3) { id label(lang: null) ... on User { age } } }",
    'mutation { rename(id: 1, name: "x") { id } }',
    "subscription S { joined { __typename } }",
    "{ me { age age id age } }",
]
REFUSED = [
    "{ me { nam } }",
    "{ me }",
    "{ version { id } }",
    "{ user { id } }",
    "{ me { id(x: 1) } }",
    '{ user(by: {id: "1", name: "a"}) { id } }',
    "{ user(by: {}) { id } }",
    "{ user(by: {id: null}) { id } }",
    '{ me { posts(filter: {name: "a"}) { id } } }',
    "{ search(text: 3) { __typename } }",
    '{ search(text: "a", role: GUEST) { __typename } }',
    '{ search(text: "a") { ... on Node { id } ... on Date { x } } }',
    '{ search(text: "a") { ... on User { name } ... on Post { name } } }',
    "{ me { friends(first: 1) { id } friends(first: 2) { id } } }",
    "mutation { rename(id: 1) { id } }",
    "subscription { joined { id } left { id } }",
    "{ }",
    "{ me { } }",
    "query q { me { id } } { me { id } }",
    "{ me { friends(first: 3000000000) { id } } }",
    "{ node(id: 1x) { id } }",
    "fragment F on User { id }",
]


@pytest.mark.parametrize("text", TAKEN)
def test_operations_of_the_service(text: str) -> None:
    query = grammars.graphql(schema=SCHEMA, operations=ALL)
    assert query.matches(text), query.explain(text)
    assert not faults(SCHEMA, text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_of_the_service(text: str) -> None:
    assert not grammars.graphql(schema=SCHEMA, operations=ALL).matches(text)


def random_text(program: Any, rng: random.Random) -> str:
    state, written = program.root, b""
    for _ in range(rng.randrange(2, 250)):
        allowed = program.first_bytes(state)
        if not allowed:
            break
        byte = rng.choice([b for b in allowed if 0x20 < b < 0x7F] or list(allowed))
        state, written = program.derivative(state, bytes([byte])), written + bytes([byte])
    rest = program.shortest(state, 4000)
    assert rest is not None, written
    return (written + rest).decode()


def test_random_texts_are_valid() -> None:
    program = grammars.graphql(schema=SCHEMA, operations=ALL).program().core
    for seed in range(150):
        text = random_text(program, random.Random(seed))
        assert not faults(SCHEMA, text), text


@st.composite
def services(draw: st.DrawFn) -> str:
    """SDL of a few types that share names of fields, with interfaces and a union."""
    rng = draw(st.randoms(use_true_random=False))
    objects = [f"T{i}" for i in range(rng.randint(2, 4))]
    kinds = ["Int", "String!", "[Float]", "E", "ID!", *objects, "[T0!]!", "I", "U", "[I]"]
    arguments = ["", "", "(a: Int)", "(a: In!, b: E)", "(a: [String!]! = [], b: Boolean!)"]

    def fields(count: int) -> dict[str, str]:
        return {f"f{i}": rng.choice(arguments) + ": " + rng.choice(kinds) for i in rng.sample(range(6), count)}

    shared = fields(rng.randint(1, 2))
    parts = [
        "enum E { A B true_ }",
        "input In { x: Int!, y: [In!], z: E = A }",
        "union U = " + " | ".join(rng.sample(objects, 2)),
        "interface I {" + " ".join(f"{k}{v}" for k, v in shared.items()) + "}",
    ]
    for name in objects:
        mine = {**fields(rng.randint(1, 4)), **shared}
        parts.append(f"type {name} implements I {{" + " ".join(f"{k}{v}" for k, v in mine.items()) + "}")
    return "\n".join([*parts, "type Query { i: I u: U t: T0 j(a: In): [I] v: Int! }"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sdl=services(), seed=st.integers(0, 2**32))
def test_random_texts_of_random_services_are_valid(sdl: str, seed: int) -> None:
    schema = graphql.build_schema(sdl)
    program = grammars.graphql(schema=sdl).program().core
    rng = random.Random(seed)
    for _ in range(12):
        text = random_text(program, rng)
        assert not faults(schema, text), text


def test_masks_of_a_real_vocabulary(smollm2: gr.Vocabulary) -> None:
    """Each token of a mask has a continuation."""
    query = grammars.graphql(schema=SCHEMA)
    guide, program = gr.compile(query, smollm2), query.program().core
    bitmask = gr.allocate_token_bitmask(1, smollm2.size)
    for seed in range(12):
        rng, matcher, state, written = random.Random(seed), guide.matcher(), program.root, b""
        for _ in range(40):
            matcher.fill_next_token_bitmask(bitmask)
            allowed = [t for t in range(smollm2.size) if bitmask[0, t // 32] >> (t % 32) & 1]
            token = rng.choice(allowed)
            assert matcher.accept_token(token)
            if matcher.is_terminated():
                break
            for byte in smollm2.token_bytes(token):
                state, written = program.derivative(state, bytes([byte])), written + bytes([byte])
        rest = program.shortest(state, 4000)
        assert rest is not None and not faults(SCHEMA, (written + rest).decode()), written


# -- the schema ----------------------------------------------------------------------------------------------------
def test_forms_of_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    query = grammars.graphql(schema=SDL)
    assert grammars.graphql(schema=SCHEMA) == query == grammars.ready_grammar("graphql", schema=SCHEMA)
    assert pickle.loads(pickle.dumps(query)) == query and repr(query).startswith("grammars.graphql(schema=<")
    introspection = graphql.introspection_from_schema(SCHEMA, input_value_deprecation=True)
    monkeypatch.setitem(sys.modules, "graphql", None)
    for form in (introspection, {"data": introspection}, json.loads(json.dumps(introspection["__schema"]))):
        assert grammars.graphql(schema=form).matches(TAKEN[0])
    with pytest.raises(gr.CompileError) as caught:
        grammars.graphql(schema=SDL)
    assert caught.value.code == "missing-package"


def test_operations() -> None:
    assert grammars.graphql(schema=SDL).operations == ("query",)
    assert not grammars.graphql(schema=SDL, operations="mutation").matches("{ version }")


@pytest.mark.parametrize(
    ("schema", "options", "code", "message"),
    [
        ("type Query {", {}, "query-schema", "Syntax Error"),
        ("type Query { a: Nope }", {}, "query-schema", "Nope"),
        ("scalar S", {}, "query-schema", "root type"),
        (3, {}, "query-schema", "not int"),
        ({}, {}, "query-schema", "introspection"),
        ({"__schema": {"types": [{"name": "A"}]}}, {}, "query-schema", "introspection"),
        ("type Query { a: Int }", {"operations": "mutation"}, "bad-option", "no mutation"),
        ("type Query { a: Int }", {"operations": ["get"]}, "bad-option", "some of"),
        ("type Query { a: Int }", {"operations": []}, "bad-option", "some of"),
        (None, {"operations": ["query"]}, "bad-option", "need a schema"),
    ],
)
def test_errors(schema: Any, options: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(gr.GuiderailError, match=message) as caught:
        grammars.graphql(schema=schema, **options)
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["a b", "a}{b", "", "é", "1", None, 5])
def test_an_introspection_names_only_what_can_be_written(name: Any) -> None:
    fields = [{"name": name, "args": [], "type": {"kind": "SCALAR", "name": "Int"}}]
    types = [{"name": "Query", "kind": "OBJECT", "fields": fields}, {"name": "Int", "kind": "SCALAR"}]
    with pytest.raises(gr.CompileError, match="is not a name in GraphQL") as caught:
        grammars.graphql(schema={"__schema": {"queryType": {"name": "Query"}, "types": types}})
    assert caught.value.code == "query-schema"


def test_a_schema_of_too_many_fields() -> None:
    fields = [{"name": f"f{i}", "args": [], "type": {"kind": "SCALAR", "name": "Int"}} for i in range(20_001)]
    types = [{"name": "Query", "kind": "OBJECT", "fields": fields}, {"name": "Int", "kind": "SCALAR"}]
    with pytest.raises(gr.LimitError) as caught:
        grammars.graphql(schema={"__schema": {"queryType": {"name": "Query"}, "types": types}})
    assert caught.value.code == "query-schema-size"


@pytest.mark.parametrize(
    ("strings", "valid"),
    [('"" "x"', True), ('"""x"', False), ('"a"""', True), ('""""', False), ('"a""b"', True), ('"","x"', True)],
)
def test_three_quotes_begin_a_block_string(strings: str, valid: bool) -> None:
    sdl = "type Query { f(a: [String!]!): Int }"
    text = f"{{f(a:[{strings}])}}"
    assert (not faults(graphql.build_schema(sdl), text)) is valid
    assert grammars.graphql(schema=sdl).matches(text) is valid


@pytest.mark.parametrize("kind", ["Int", "Float", "ID", "Any"])
@pytest.mark.parametrize(
    ("numbers", "valid"),
    [
        ("1 2", True),
        ("1,-2", True),
        ("1-2", True),
        ("123456789 0", True),
        ("01", False),
        ("00", False),
        ("1,02", False),
        ("-01", False),
        ("0.5 01", False),
        ("00.5", False),
        ("1.5.5", False),
    ],
)
def test_the_digits_of_a_number_are_not_several_numbers(kind: str, numbers: str, valid: bool) -> None:
    sdl = f"scalar Any type Query {{ f(a: [{kind}!]!): Int }}"
    text = f"{{f(a:[{numbers}])}}"
    assert (not faults(graphql.build_schema(sdl), text)) is valid
    assert grammars.graphql(schema=sdl).matches(text) is valid


def test_numbers_of_too_many_digits_are_not_written() -> None:
    query = grammars.graphql(schema="type Query { f(a: [Int!]!, b: [Float!]): Int }")
    for numbers in (
        "a:[99999999999]",
        "a:[1234567890]",
        "a:[1] b:[1.1234567890123456]",
        "a:[1] b:[1234567890123456.5]",
    ):
        assert not query.matches(f"{{f({numbers})}}")
    assert query.matches("{f(a:[999999999 -999999999] b:[123456789012345.123456789012345])}")


LONG = "Z" * 30
UNKNOWN = " ".join(f"a{i}: {LONG}{i}" for i in range(900))
KNOWN = " ".join(f"type {LONG}b{i} {{ a: Int }}" for i in range(300))


@pytest.mark.parametrize(
    ("sdl", "code"),
    [
        (f"type Query {{ {UNKNOWN} }} {KNOWN}", "work"),
        ("type T { a: Int } type Query { a: U } union U = " + " | ".join(["T"] * 5000), "work"),
        ("type T { a: Int } type Query { a: U } union U = T " + "extend union U = T " * 2000, "work"),
        ("type Query {\n" + "a: Int\n" * 5000 + "}", "query-schema"),
        (f"type Query {{ a: {'[' * 20_000}Int{']' * 20_000} }}", "query-schema"),
    ],
    ids=["unknown names", "a member again and again", "in extensions", "a field again and again", "nested lists"],
)
def test_many_faults_are_counted_and_some_are_told(sdl: str, code: str) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        grammars.graphql(schema=sdl)
    assert caught.value.code == code
    assert len(str(caught.value)) < 1_000


def test_few_faults_are_told_with_their_places() -> None:
    with pytest.raises(gr.CompileError, match=r"(?s)Unknown type 'Nope'.*GraphQL request:1:17.*Unknown type 'No'"):
        grammars.graphql(schema="type Query { a: Nope b: No }")
