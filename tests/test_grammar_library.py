"""The ready-made grammars: valid and invalid texts, the languages' own parsers, random walks."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from guiderail import grammars
from guiderail.frontends.grammar import library
from language_parsers import CASES, REFUSED_STATEMENTS, STATEMENTS, prepares, takes

GOOD = [(name, text) for name, cases in CASES.items() for text in cases["good"]]
BAD = [(name, text) for name, cases in CASES.items() for text in cases["bad"]]

WIDER = {  # parts of the languages that the grammars leave out, or where the reader is lax
    "arithmetic": {"a", "()"},
    "c": {"double;", "struct { };", "void f(void) { case: ; }", "int main() { return 0 }", "int x = 0x1e+3;"},
    "regex": {"(?P<n>a)(?P<n>b)", "(?<=a|bc)d", "\\1"},
    "graphql": {"{}"},
    "xml": {"<?xml-x ?><a/>", '<?xml version="2.0"?><a/>'},
    "markdown_table": {"a | b\n--|--"},
    "python": {"(f()).a: int", "f'{(lambda: 1)}'"},
}


# -- texts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "text"), GOOD)
def test_texts_of_the_language(name: str, text: str) -> None:
    assert grammars.ready_grammar(name).matches(text)
    assert takes(name, text)


@pytest.mark.parametrize(("name", "text"), BAD)
def test_other_texts(name: str, text: str) -> None:
    assert not grammars.ready_grammar(name).matches(text)
    assert text in WIDER.get(name, ()) or not takes(name, text)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_of_sqlite(statement: str) -> None:
    assert grammars.sql().matches(statement)
    if sqlite3.sqlite_version_info >= (3, 39):
        assert prepares(statement) == ""


@pytest.mark.parametrize("statement", REFUSED_STATEMENTS)
def test_what_sqlite_refuses(statement: str) -> None:
    assert not grammars.sql().matches(statement)


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="older ones know less")
def test_sqlite_refuses_it_too() -> None:
    tables = "CREATE TABLE t (a, b); CREATE TABLE a (x); CREATE TABLE b (x)"
    taken = [text for text in REFUSED_STATEMENTS if not prepares(text) and not prepares(text, tables)]
    assert taken == []


@pytest.mark.parametrize("seed", range(4))
def test_json_as_python_reads_it(seed: int) -> None:
    """Documents and their mutations: accepted if and only if ``json.loads`` accepts them."""
    rng, constraint = random.Random(seed), grammars.json()

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth else 5)
        if kind < 2:
            return rng.choice([0, -1, 12.5, 1e300, -2.5e-7, 10**20])
        if kind == 2:
            return "".join(rng.choice('ab"\\/\n\u00e9\U0001f600 ') for _ in range(rng.randrange(5)))
        if kind < 5:
            return rng.choice([True, False, None])
        items = [value(depth - 1) for _ in range(rng.randrange(4))]
        return items if kind == 5 else {str(i): item for i, item in enumerate(items)}

    for _ in range(150):
        text = json.dumps(value(4), ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
        assert constraint.matches(text)
        at = rng.randrange(len(text) + 1)
        mutant = rng.choice([text[:at] + text[at + 1 :], text[:at] + rng.choice('{}[],:"0-.e\\ tu') + text[at:]])
        assert constraint.matches(mutant) == takes("json", mutant), mutant


# -- random walks --------------------------------------------------------------------------------------------------
def walk(constraint: gr.Constraint, rng: random.Random, limit: int, *, shortest: bool = False) -> bytes | None:
    """Returns random bytes that the constraint allows; after ``limit``, those that lead to an end. None: no end found.

    Args:
        shortest: from there on, take the shortest end.
    """
    program = constraint.program().core
    state, out = program.root, bytearray()
    while len(out) < limit + 800:
        if program.is_nullable(state) and (len(out) >= limit or rng.random() < 0.05):
            return bytes(out)
        allowed = program.first_bytes(state)
        if shortest and len(out) >= limit:
            end = program.shortest(state, 10_000)
            assert end is not None
            return bytes(out) + end
        if not allowed:
            assert program.is_nullable(state)
            return bytes(out)
        chosen = choose(program, state, bytes(allowed), out, len(out) >= limit, rng)
        out.append(chosen)
        state = program.derivative(state, bytes([chosen]))
    return None


def choose(program: Any, state: int, allowed: bytes, out: bytearray, ending: bool, rng: random.Random) -> int:
    def after(byte: int) -> int:
        return int(program.derivative(state, bytes([byte])))

    if 1 in allowed and (ending or rng.random() < 0.3):  # inside quotes or a comment
        ends = [x for x in allowed if x in b"`'\"]\n" and len(program.first_bytes(after(x))) < len(allowed)]
        return rng.choice(ends or [x for x in allowed if x in b"*/"] or list(allowed))
    if ending:
        usual = [x for x in allowed if x not in b"`'\"[({/-" and 31 < x < 128] or list(allowed)
        last = [x for x in usual if program.is_nullable(after(x))]
        if last:
            return rng.choice(last)
        for closing in b")]}":
            if closing in allowed and rng.random() < 0.8:
                return closing
        if 32 in usual and out[-1:].isalnum() and rng.random() < 0.8:
            return 32
        return rng.choice([x for x in usual if x != 32] or usual)
    calm = [x for x in allowed if x not in b"-/(\t\n\r\x0c" or rng.random() < 0.2] or list(allowed)
    if rng.random() < 0.02:
        return rng.choice(calm)
    kinds = [str.isalpha, str.isdigit, lambda c: not c.isalnum() and c.isprintable()]
    groups = [group for kind in kinds if (group := [x for x in calm if x < 128 and kind(chr(x))])]
    return rng.choice(rng.choice(groups)) if groups else rng.choice(calm)


WALKED: dict[str, Callable[[], gr.Constraint]] = {  # Python has separate tests
    **{name: (lambda name=name: grammars.ready_grammar(name)) for name in CASES if name not in ("xml", "c", "python")},
    "c": grammars.c,
    "xml": lambda: grammars.xml(elements=["a", "ab", "b-c"], attributes=["x", "y", "z"]),
}


@pytest.mark.parametrize("name", WALKED)
def test_random_walks_are_read(name: str) -> None:
    constraint, wrong = WALKED[name](), []
    for seed in range(80):
        rng = random.Random(seed)
        text = walk(constraint, rng, rng.choice([5, 20, 60, 150]), shortest=True)
        assert text is not None
        wrong += [] if takes(name, text.decode()) else [text]
    assert wrong == []


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="older ones know less")
def test_random_walks_prepare() -> None:
    """200 random statements; SQLite rejects them only for unknown names."""
    constraint, finished, wrong = grammars.sql(), 0, []
    for seed in range(1000):
        rng = random.Random(seed)
        text = walk(constraint, rng, rng.choice([30, 80, 200, 400]))
        if text is not None:
            finished += 1
            error = prepares(text.decode())
            wrong += [(error, text)] if error else []
        if finished == 200:
            break
    assert wrong == []
    assert finished == 200


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="older ones know less")
@pytest.mark.parametrize("kind", ["select", "insert", "update", "create_table"])
def test_random_words_prepare(kind: str) -> None:
    """Statements of random words, which nest deeper than those of bytes; names are used once."""
    words = (
        "SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET AS WITH RECURSIVE UNION ALL VALUES DISTINCT JOIN LEFT NATURAL ON"
    )
    words += (
        " USING NOT NULL IS IN LIKE ESCAPE BETWEEN AND OR CASE WHEN THEN ELSE END CAST EXISTS COLLATE OVER PARTITION"
    )
    words += (
        " ROWS RANGE CURRENT ROW UNBOUNDED PRECEDING FOLLOWING INSERT INTO REPLACE DEFAULT CONFLICT DO NOTHING UPDATE"
    )
    words += (
        " SET RETURNING CREATE TABLE TEMP IF PRIMARY KEY AUTOINCREMENT UNIQUE CHECK REFERENCES FOREIGN GENERATED ALWAYS"
    )
    words += " STORED WITHOUT ROWID STRICT INTEGER TEXT ASC DESC NULLS FIRST HAVING FILTER WINDOW DELETE INDEX DROP"
    pieces = [*words.split(), *"()(),,.=<+-*?;1", "||", "2.5", "'x'", *["name"] * 6]
    program, finished = grammars.sql(statements=[kind]).program().core, 0
    for seed in range(60):
        rng, state, out, names = random.Random(seed), program.root, "", 0
        for step in range(90):
            if program.is_nullable(state) and (step >= 40 or rng.random() < 0.05):
                finished += 1
                error = prepares(out)
                assert not error or error.startswith("duplicate"), out  # keywords used as names, twice
                break
            short = [")", "1", "name", "END", *pieces] if step >= 40 else rng.sample(pieces, len(pieces))
            for piece in short:
                names += piece == "name"
                text = f" n{names} " if piece == "name" else f" {piece} "
                then = program.derivative(state, text.encode())
                if program.first_bytes(then) or program.is_nullable(then):
                    state, out = then, out + text
                    break
            else:
                break
    assert finished >= 5


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="older ones know less")
def test_random_tokens_prepare(smollm2: gr.Vocabulary) -> None:
    """200 random walks through the masks of a real vocabulary: SQLite rejects them only for unknown names."""
    guide = gr.compile(grammars.sql(), smollm2)
    bitmask = gr.allocate_token_bitmask(1, smollm2.size)
    texts = [smollm2.token_bytes(token) for token in range(smollm2.size)]

    def those(pattern: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array([re.fullmatch(pattern, text) is not None for text in texts])

    words, points, closing = those(rb" ?[A-Z]+| [a-z]+"), those(rb" ?[,;.*=<>+()?0-9]+"), those(rb"[)'\"`\]]")
    stops = np.isin(np.arange(smollm2.size), list(smollm2.stop_token_ids))
    finished, tokens, wrong = 0, 0, []
    for seed in range(2000):
        rng, matcher, out = random.Random(seed), guide.matcher(), b""
        for step in range(80):
            if matcher.is_accepting() and (step > 30 or rng.random() < 0.2):
                finished += 1
                tokens += step
                error = prepares(out.decode())
                wrong += [(error, out)] if error else []
                break
            matcher.fill_next_token_bitmask(bitmask)
            allowed = gr.bitmask_to_bool(bitmask, smollm2.size)[0] & ~stops
            kinds = [allowed & closing] if step > 12 else []
            kinds += rng.sample([allowed & words, allowed & points, allowed], 3)
            some = next(kind for kind in kinds if kind.any())
            token = int(rng.choice(np.flatnonzero(some)))
            assert matcher.accept_token(token)
            out += texts[token]
        if finished == 200:
            break
    assert wrong == []
    assert finished == 200
    assert tokens > 1500


# -- options -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_json_up_to_a_depth(depth: int) -> None:
    constraint = grammars.json(max_depth=depth)
    assert constraint.matches("[" * depth + "1" + "]" * depth)
    assert not constraint.matches("[" * (depth + 1) + "]" * (depth + 1))
    if depth:
        assert constraint.matches('{"a": ' * depth + "null" + "}" * depth)
        assert constraint.matches("[" * depth + "]" * depth)
    assert not constraint.matches('{"a": ' * (depth + 1) + "null" + "}" * (depth + 1))


def test_columns_of_csv() -> None:
    assert grammars.csv(columns=2).matches('a,b\r\n"c",\r\n')
    assert not grammars.csv(columns=2).matches("a,b\nc")
    assert not grammars.csv(columns=2).matches("a,b,c")
    assert grammars.csv(columns=1).matches("a\nb\n\n")
    assert not grammars.csv(columns=1).matches("a,b")


def test_columns_of_tables() -> None:
    wide = "|" + " a |" * 12 + "\n|" + "-|" * 12
    assert grammars.markdown_table(columns=12).matches(wide)
    assert not grammars.markdown_table(columns=11).matches(wide)
    assert not grammars.markdown_table().matches(wide)


def test_elements_of_xml() -> None:
    constraint = grammars.xml(elements=["a", "ab"])
    assert constraint.matches("<a><ab x='1'/><a></a>text</a>")
    assert not constraint.matches("<a></ab>") and not constraint.matches("<b/>") and not constraint.matches("<abc/>")
    assert grammars.xml().matches("<a></b>")  # as documented: without names, end tags need not match start tags
    attributes = grammars.xml(elements="a", attributes=["x", "y", "z"])
    assert attributes.matches("<a x='1' z=\"2\"/>") and attributes.matches("<a/>")
    assert not attributes.matches("<a z='' x=''/>") and not attributes.matches("<a x='' x=''/>")
    prefixed = grammars.xml(elements=["s:a"], attributes=["xmlns:s", "xml:lang", "s:x"])
    assert prefixed.matches("<s:a xmlns:s='u' xml:lang='en' s:x='1'></s:a>") and not prefixed.matches("<a/>")
    none = grammars.xml(elements=["a"], attributes=[])
    assert none.matches("<a ></a>") and not none.matches("<a x='1'/>")


def test_statements_of_sql() -> None:
    query = grammars.sql(statements="select")
    assert query.matches("WITH a AS (SELECT 1) SELECT * FROM a") and not query.matches("DELETE FROM a")
    changes = grammars.sql(statements=["insert", "delete"])
    assert changes.matches("DELETE FROM a") and not changes.matches("SELECT 1")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cobol", {}, "there is no ready grammar 'cobol'; there are json,"),
        ("json", {"depth": 1}, "has no option 'depth'; it has max_depth"),
        ("c", {"columns": 1}, "has no options"),
        ("json", {"max_depth": -1}, "from 0 to 1,000, not -1"),
        ("csv", {"columns": True}, "from 1 to 1,000, not True"),
        ("markdown_table", {"columns": 0}, "from 1 to 200"),
        ("sql", {"statements": ["select", "merge"]}, "not 'merge'"),
        ("sql", {"statements": []}, "at least one"),
        ("xml", {"elements": ["a b"]}, "not 'a b'"),
        ("xml", {"elements": []}, "elements needs at least one name; None allows any"),
        ("xml", {"attributes": b""}, "attributes must be ASCII names that XML does not reserve, not b''"),
        ("xml", {"elements": ["xmlns"]}, "not 'xmlns'"),
        ("xml", {"attributes": ["xmlish"]}, "not 'xmlish'"),
        ("xml", {"attributes": ["x", "x"]}, "attributes lists a name twice"),
    ],
)
def test_wrong_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(gr.CompileError, match=re.escape(message)) as caught:
        grammars.ready_grammar(name, **options)
    assert caught.value.code == "bad-option"


# -- the files -----------------------------------------------------------------------------------------------------
def test_each_grammar_has_a_function_and_a_file() -> None:
    for name, ready in library.READY.items():
        assert getattr(grammars, name).__doc__
        assert (Path(library.__file__).parent / ready.file).is_file()
        assert ready.title and ready.description and ready.syntax in ("lark", "gbnf")
    assert set(grammars.__all__) == {*library.READY, "ready_grammar"}
    assert set(CASES) | {"sql"} == set(library.READY)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("regex", "python")])  # ambiguous: not LALR
def test_lark_reads_the_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lark = pytest.importorskip("lark")
    monkeypatch.setattr(sys.modules["lark.lexer"], "has_interegular", False)  # it would search for collisions
    text = (Path(library.__file__).parent / library.READY[name].file).read_text(encoding="utf-8")
    parser = lark.Lark(text, parser="lalr", lexer="contextual")
    for good in CASES[name]["good"]:
        assert parser.parse(good.strip() if name == "xml" else good).data == "start"  # LALR merges states there


@pytest.mark.slow
def test_lark_reads_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    lark = pytest.importorskip("lark")
    monkeypatch.setattr(sys.modules["lark.lexer"], "has_interegular", False)
    text = (Path(library.__file__).parent / "sql.lark").read_text(encoding="utf-8")
    parser = lark.Lark(text, parser="lalr", lexer="contextual")
    for statement in STATEMENTS:
        parser.parse(statement)


def test_keywords_are_whole_words() -> None:
    text = """start: _word
_word: IF NAME
// -- words
NAME: /(?!(?:if|then)\\b)[a-z]+/
IF: "if"
_never: A _never
A: /\\x00/
%ignore " "
"""
    constraint = gr.grammar(library.whole_words(text), "lark")
    assert constraint.matches("if x") and constraint.matches("if iff") and constraint.matches("if thenx")
    assert [bad for bad in ("ifx", "if if", "if then", "ifx y") if constraint.matches(bad)] == []


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (["sql", "SELECT 1", "DELETE FROM t"], 0, "match     SELECT 1"),
        (["markdown-table", "|a|"], 1, "the text ends too early"),
        (["python", "if x: pass", "if x:\npass"], 1, "no match  if x:"),
        (["{tmp}/sums.gbnf", "1+1"], 0, "match     1+1"),
        (["{tmp}/sums.lark", "1+1", "1+"], 1, "no match  1+"),
        (
            ["cobol", "x"],
            2,
            "--grammar must be a .lark, .gbnf or .ebnf file, or a ready grammar, not 'cobol'; there are json,",
        ),
    ],
)
def test_on_the_command_line(tmp_path: Path, arguments: list[str], status: int, output: str) -> None:
    (tmp_path / "sums.gbnf").write_text('root ::= [0-9] ("+" [0-9])*\n')
    (tmp_path / "sums.lark").write_text('start: N ("+" N)*\nN: /[0-9]/\n')
    given = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    source = str(Path(next(iter(importlib.util.find_spec("guiderail").submodule_search_locations))).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({source!r}); from guiderail.cli import main; main()",
         "match", "--grammar", *given],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert output in done.stdout + done.stderr


def test_a_grammar_becomes_the_same_in_every_process() -> None:
    code = "from guiderail import grammars\ng = grammars.sql()\nprint(repr(g.report()), g.program().dump())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "4", "5")
    }
    assert len(found) == 1
