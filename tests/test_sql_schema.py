"""SQL for a database: SQLite prepares everything that the grammar writes, and only names of the schema are written."""

from __future__ import annotations

import pickle
import random
import sqlite3
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from core_support import mask_of, plain
from guiderail import grammars
from guiderail.frontends.queries.database import AGGREGATES, FUNCTIONS

SHOP = {
    "people": ["id", "name", "age", "order"],
    "orders": ["id", "person_id", "total", "date"],
    "my items": ["id", "order_id", "unit price"],
}


def database(tables: Any) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    for table, columns in tables.items():
        listed = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
        made.execute(f'CREATE TABLE "{table.replace(chr(34), chr(34) * 2)}" ({listed})')
    return made


def prepares(made: sqlite3.Connection, text: str) -> str:
    """Returns why SQLite rejects a statement, or an empty text."""
    try:
        made.execute("EXPLAIN " + text)
    except sqlite3.Error as error:
        return str(error)
    return ""


TAKEN = """
SELECT name FROM people WHERE age > 30
select Name as n, age + 1 as older from people where name like 'A%' order by age desc, name limit 10 offset 5;
SELECT * FROM people
SELECT DISTINCT name, age FROM people WHERE NOT age IS NULL AND (age < 3 OR age BETWEEN 5 AND 7)
SELECT "order" FROM people
SELECT "unit price" FROM "my items"
SELECT date FROM orders WHERE date(date) >= '2024-01-01'
SELECT count(*) FROM orders
SELECT person_id, sum(total) AS spent FROM orders GROUP BY person_id HAVING sum(total) > 10 ORDER BY sum(total) DESC
SELECT round(avg(age), 2), count(DISTINCT name), group_concat(name, ', ') FROM people
SELECT max(age), max(age, 3) FROM people
SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END, CAST(age AS TEXT) FROM people
SELECT name FROM people WHERE id IN (SELECT person_id FROM orders WHERE total > (SELECT avg(total) FROM orders))
SELECT name FROM people WHERE EXISTS (SELECT * FROM orders) AND age IN (1, 2, 3)
SELECT t1.name, t2.total FROM people AS t1 JOIN orders AS t2 ON t1.id = t2.person_id WHERE t2.total > 3
SELECT t1.* FROM people t1
SELECT t1.name, t3."unit price" FROM people AS t1 LEFT JOIN orders AS t2 ON t1.id = t2.person_id
  INNER JOIN "my items" AS t3 ON t2.id = t3.order_id GROUP BY t1.name ORDER BY count(*) DESC LIMIT 3
SELECT t1.name FROM people AS t1 CROSS JOIN people AS t2 WHERE t1.age < t2.age
WITH q1(c1, c2) AS (SELECT name, count(*) FROM people GROUP BY name) SELECT c1 FROM q1 WHERE c2 > 3
WITH q1(c1) AS (SELECT name FROM people) SELECT t2.age FROM q1 AS t1 JOIN people AS t2 ON t1.c1 = t2.name
SELECT name||'-', 1.5 FROM people WHERE age > 0.25
"""
REFUSED = """
SELECT nam FROM people
SELECT total FROM people
SELECT name FROM persons
SELECT order FROM people
SELECT soundex(name) FROM people
SELECT lower(name, age) FROM people
SELECT name FROM people WHERE max(age) > 3
SELECT sum(count(*)) FROM people
SELECT name FROM people HAVING count(*) > 1
SELECT name FROM people ORDER BY count(*)
SELECT name FROM people ORDER BY 2
SELECT name FROM people GROUP BY 1
SELECT t1.total FROM people AS t1
SELECT t2.name, t1.total FROM people AS t1 JOIN orders AS t2 ON t1.id = t2.person_id
SELECT t3.id FROM people AS t1 JOIN orders AS t2 ON 1 = 1
SELECT t1.id FROM people AS t1 JOIN orders AS t2 ON t1.id = t3.id JOIN orders AS t3 ON 1 = 1
SELECT name FROM people AS t1 JOIN orders AS t2 ON t1.id = t2.id
SELECT name FROM people WHERE id IN (SELECT person_id, id FROM orders)
SELECT name FROM people WHERE total IN (SELECT total FROM orders)
SELECT c1 FROM q1
WITH q1(c1, c2) AS (SELECT name FROM people) SELECT c1 FROM q1
WITH q1(c1) AS (SELECT name FROM people) SELECT c2 FROM q1
WITH q1(c1) AS (SELECT name FROM people) SELECT t1.c2 FROM q1 AS t1
SELECT nameFROM people
SELECT t1.nameFROM people AS t1
SELECT name FROM people WHERE 3AND age
SELECT name FROM people WHERE 1.5AND age
SELECT 1.5.2 FROM people
SELECT age AS from FROM people
SELECT name FROM people; SELECT 1
SELECT name FROM people -- all
DELETE FROM people
"""


def lines(text: str) -> list[str]:
    return text.strip().replace("\n  ", " ").split("\n")


@pytest.mark.parametrize("statement", lines(TAKEN))
def test_queries_of_the_database(statement: str) -> None:
    query = grammars.sql(schema=SHOP)
    if statement.startswith("select Name"):
        statement = statement.replace("Name", "name")  # names are written as the schema writes them
    assert query.matches(statement), query.explain(statement)
    assert prepares(database(SHOP), statement) == ""


@pytest.mark.parametrize("statement", lines(REFUSED))
def test_what_is_not_of_the_database(statement: str) -> None:
    assert not grammars.sql(schema=SHOP).matches(statement)


@pytest.mark.parametrize("table", [f"table{i}" for i in range(0, 90, 11)])
def test_joins_of_many_tables(table: str) -> None:
    """More than 254 terminals, and names that are prefixes of each other."""
    tables = {f"table{i}": ["id", f"col{i}", f"col{i}_1", *(f"c{i}_{j}" for j in range(3))] for i in range(90)}
    query, made = grammars.sql(schema=tables), database(tables)
    for other in tables:
        column = tables[other][1]
        good = f"SELECT t2.{column}, t1.id FROM {table} AS t1 JOIN {other} AS t2 ON t1.id = t2.{column}_1"
        assert query.matches(good) and prepares(made, good) == ""
        assert query.matches(f"SELECT {column} FROM {other}")
        assert query.matches(f"SELECT t1.{column} FROM {table} AS t1") is (other == table)
        assert query.matches(good.replace(f"JOIN {other} ", f"JOIN {table} ")) is (other == table)


# -- random texts --------------------------------------------------------------------------------------------------
NAMES = st.sampled_from(
    ["id", "name", "total", "date", "count", "order", "t1", "max", "a", "b", "Abc", "_x", "weird name", 'q"uote',
     "größe", "select", "key", "value", "x", "as1", "status", "c1", "q1", "lower", "in", "integer", "t_2", "idx",
     "name2"]
)  # fmt: skip
SCHEMAS = st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=5, unique=True), min_size=1, max_size=5)


def ending(program: Any, state: int, written: bytes, rng: random.Random) -> str:
    """Returns a text with this prefix. If the search for an end gives up, it is repeated some bytes later."""
    for _ in range(60):
        rest = program.shortest(state, 4000)
        if rest is not None:
            return (written + rest).decode()
        allowed = program.first_bytes(state)
        assert allowed, written
        byte = rng.choice([b for b in allowed if 0x20 < b < 0x7F] or list(allowed))
        state, written = program.derivative(state, bytes([byte])), written + bytes([byte])
    raise AssertionError(written)


def random_text(program: Any, rng: random.Random) -> str:
    """Returns a random walk from the state, and an end from there."""
    state, written = program.root, b""
    for _ in range(rng.randrange(3, 150)):
        allowed = program.first_bytes(state)
        if not allowed:
            break
        byte = rng.choice([b for b in allowed if 0x20 <= b < 0x7F] or list(allowed))
        state, written = program.derivative(state, bytes([byte])), written + bytes([byte])
    return ending(program, state, written, rng)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables=SCHEMAS, joined=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_every_complete_text_prepares(tables: dict[str, list[str]], joined: int, seed: int) -> None:
    """Names that are equal in SQL (`a` and `A`) do not occur."""
    program, made = grammars.sql(schema=tables, max_joined=joined).program().core, database(tables)
    rng = random.Random(seed)
    for _ in range(3):
        text = random_text(program, rng)
        assert prepares(made, text) == "", text


def test_masks_of_a_real_vocabulary(smollm2: gr.Vocabulary) -> None:
    """Random walks through masks: each token of a mask has a continuation, and every prefix can be completed."""
    query, made = grammars.sql(schema=SHOP), database(SHOP)
    guide, program = gr.compile(query, smollm2), query.program().core
    bitmask = gr.allocate_token_bitmask(1, smollm2.size)
    for seed in range(12):
        rng, matcher, written = random.Random(seed), guide.matcher(), b""
        for _ in range(rng.randrange(3, 40)):
            matcher.fill_next_token_bitmask(bitmask)
            allowed = [t for t in range(smollm2.size) if bitmask[0, t // 32] >> (t % 32) & 1]
            assert allowed, written
            token = rng.choice(allowed)
            assert matcher.accept_token(token)
            if matcher.is_terminated():
                break
            written += smollm2.token_bytes(token)
        state = program.root
        for byte in written:
            state = program.derivative(state, bytes([byte]))
        text = ending(program, state, written, rng)
        assert prepares(made, text) == "", text


BESIDE = {  # names of both tables and columns
    "a": ["id", "a", "ab", "abc", "max", "sel"],
    "ab": ["id", "abc", "name", "names", "o"],
    "or_": ["id", "count", "ab", "a b", "select"],
}
PIECES = [bytes([b]) for b in b'abcdeilmnorst_"(),.;*=<1 '] + [
    b"SELECT", b"SELECT ", b" a", b" ab", b"ab", b"abc", b"a,", b"id", b" id", b"id,", b"id ", b", id", b",ab", b"(ab",
    b"(a)", b"max", b"max(", b" max (", b"count", b"count(", b"count(*", b"(*)", b" count ", b"name", b"names",
    b"name s", b"sel", b"select", b'"select"', b'"a', b' b"', b" FROM", b" FROM ", b"FROM a", b" from or_",
    b"or", b" OR", b" OR id", b"or_", b"or_ ", b" AS", b" AS t", b" AS t1", b"t1", b"t1.", b" t1.", b"t2",
    b".id", b".ab,", b" JOIN", b" JOIN ab", b" ON t1.", b" WHERE", b" WHERE ",
    b"WHERE id", b"=id", b" = ", b"= ab",
    b" IN (SELECT ", b" GROUP BY ", b" x", b"xid", b" ORDER", b"ORDER BY o",
    b"id\n", b"\nWHERE", b"ida", b" ida", b"a(", b"1,", b"1a",
]  # fmt: skip


@pytest.mark.parametrize("wide", [0, 300])
def test_masks_say_what_can_be_accepted(wide: int) -> None:
    """Names that share prefixes with each other, with keywords and with functions; in a small and a large schema."""
    tables = {**BESIDE, **{f"t_{i}": ["id", f"c{i}", f"c{i}_a"] for i in range(wide // 3)}}
    vocabulary = plain([*PIECES, *(f"{c}{i}".encode() for c in ("t_", "c", " c", ",c") for i in (1, 10, 100))])
    guide = gr.compile(grammars.sql(schema=tables, max_joined=2), vocabulary, cache=False)
    for seed in range(12):
        rng, matcher = random.Random(seed), guide.matcher()
        for _ in range(25):
            mask = mask_of(matcher)
            allowed = [matcher.fork().accept_token(token) for token in range(vocabulary.size)]
            assert mask.tolist()[: vocabulary.size] == allowed, matcher.history()
            some = [token for token, is_allowed in enumerate(allowed[:-1]) if is_allowed]
            if not some:
                break
            longer = [token for token in some if len(vocabulary.token_bytes(token)) > 1]
            matcher.accept_token(rng.choice(longer or some))


# -- the schema ----------------------------------------------------------------------------------------------------
def test_forms_of_a_schema() -> None:
    query = grammars.sql(schema=SHOP)
    typed = {table: dict.fromkeys(columns, "TEXT") for table, columns in SHOP.items()}
    assert grammars.sql(schema=typed) == query
    assert grammars.sql(schema={t: [{"name": c, "type": int} for c in columns] for t, columns in SHOP.items()}) == query
    assert grammars.sql(schema=database(SHOP)) == query
    assert grammars.ready_grammar("sql", schema=SHOP) == query
    assert pickle.loads(pickle.dumps(query)) == query and hash(query) == hash(grammars.sql(schema=SHOP))
    assert repr(query) == "grammars.sql(schema=<3 tables: people, orders, my items>)"
    assert grammars.sql(schema=SHOP, statements=["select"]) == query


def test_a_schema_from_sqlalchemy() -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    metadata = sqlalchemy.MetaData()
    for table, columns in SHOP.items():
        sqlalchemy.Table(table, metadata, *(sqlalchemy.Column(column, sqlalchemy.Text) for column in columns))
    metadata.create_all(engine)
    want = dict(grammars.sql(schema=SHOP).database.tables)
    for schema in (engine, engine.connect(), sqlalchemy.inspect(engine), metadata):
        assert dict(grammars.sql(schema=schema).database.tables) == want


def test_aliases_and_common_tables_take_free_names() -> None:
    query = grammars.sql(schema={"t1": ["id", "q1", "c2"], "t2": ["id"]}, max_joined=2)
    assert (query.aliases, query.common_table) == (("t_1", "t_2"), ("q_1", ("c_1", "c_2", "c_3", "c_4")))
    assert query.matches("SELECT t_1.q1, t_2.id FROM t1 AS t_1 JOIN t2 AS t_2 ON t_1.id = t_2.id")


def test_functions() -> None:
    few = grammars.sql(schema=SHOP, functions=["count", "lower"])
    assert few.matches("SELECT count(*), lower(name) FROM people") and not few.matches("SELECT upper(name) FROM people")
    mine = grammars.sql(schema=SHOP, functions={"near": (2, None), "now_ms": 0, "max": None})
    assert mine.matches("SELECT near(id, age, 3), now_ms(), max(id), max(id, age) FROM people")
    assert not mine.matches("SELECT near(id) FROM people") and not mine.matches("SELECT count(*) FROM people")
    many = grammars.sql(schema=SHOP, functions={f"f{i}": i for i in range(100)}, max_joined=8)
    assert many.matches("SELECT f2(name, f1(id)), f0() FROM people") and not many.matches("SELECT f2(name) FROM people")
    odd = grammars.sql(schema=SHOP, functions={"select": 1, "left": 2, "replace": 3})
    made = database(SHOP)
    for name, count in (("select", 1), ("left", 2)):  # in quotes, as names of columns
        made.create_function(name, count, lambda *_: 1)
    text = "SELECT \"select\"(id), \"LEFT\" (id, age), replace(name, 'a', 'b') FROM people"
    assert odd.matches(text) and prepares(made, text) == "" and not odd.matches("SELECT select(id) FROM people")
    none = grammars.sql(schema=SHOP, functions=[])
    assert none.matches("SELECT name FROM people") and not none.matches("SELECT abs(age) FROM people")
    made = database(SHOP)
    for name, (least, most) in FUNCTIONS.items():  # SQLite takes as many arguments as the table says
        for count in {least, least + 2 if most is None else most}:
            text = f"SELECT {name}({', '.join(['name'] * count)}) FROM people"
            assert prepares(made, text) == "" and grammars.sql(schema=SHOP).matches(text)
    for name in AGGREGATES:
        assert prepares(made, f"SELECT {name}(DISTINCT age) FROM people") == ""


@pytest.mark.parametrize(
    ("schema", "options", "code", "message"),
    [
        ({}, {}, "query-schema", "no tables"),
        (3, {}, "query-schema", "not int"),
        ("people", {}, "query-schema", "not str"),
        ({"a": []}, {}, "query-schema", "no columns"),
        ({"a": "id"}, {}, "query-schema", "list of names"),
        ({"a": ["id", "ID"]}, {}, "query-schema", "the same name"),
        ({"a": ["x"], "A": ["x"]}, {}, "query-schema", "the same name"),
        ({"a": [3]}, {}, "query-schema", "is not a name"),
        ({"a": [""]}, {}, "query-schema", "is not a name"),
        ({"a\n": ["b"]}, {}, "query-schema", "is not a name"),
        ({f"t{i}": ["a"] for i in range(1001)}, {}, "query-schema-size", "more than 1,000 tables"),
        (SHOP, {"max_joined": 0}, "bad-option", "1 to 8"),
        (SHOP, {"max_joined": True}, "bad-option", "1 to 8"),
        (SHOP, {"statements": ["select", "insert"]}, "bad-option", "only SELECT"),
        (SHOP, {"functions": "lower"}, "query-schema", "list of names"),
        (SHOP, {"functions": ["nope"]}, "query-schema", "say how many"),
        (SHOP, {"functions": {"f": -1}}, "query-schema", "0 to 100"),
        (SHOP, {"functions": {"f": (3, 1)}}, "query-schema", "at least 3"),
        (SHOP, {"functions": {"a b": 1}}, "query-schema", "is not the name"),
        (SHOP, {"functions": {"f": 1, "F": 2}}, "query-schema", "twice"),
        (SHOP, {"functions": {f"f{i}": i for i in range(101)}}, "query-schema-size", "more than 100 different"),
        (None, {"functions": ["lower"]}, "bad-option", "need a schema"),
    ],
)
def test_errors(schema: Any, options: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(gr.GuiderailError, match=message) as caught:
        grammars.sql(schema=schema, **options)
    assert caught.value.code == code
