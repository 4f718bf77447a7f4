"""The ready-made grammars on real text, whole or mutated, against the languages' own parsers."""

from __future__ import annotations

import ast
import json
import random
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail import grammars
from guiderail.support.work import spent
from language_parsers import CASES, REFUSED_STATEMENTS, STATEMENTS, mutants, prepares, takes

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
REAL = DATA / "grammars" / "real"


# -- JSON ----------------------------------------------------------------------------------------------------------
def any_json(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice([0, -1, 12.5, 1e300, -2.5e-7, 10**20, rng.random(), rng.getrandbits(40)])
    if kind < 3:
        return "".join(rng.choice('ab"\\/\n\t\x7f\u2028é\U0001f600 ') for _ in range(rng.randrange(6)))
    if kind < 5:
        return rng.choice([True, False, None])
    items = [any_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    return items if kind == 5 else {any_json(rng, 0) if i % 2 else str(i): item for i, item in enumerate(items)}


def test_thousands_of_json_documents() -> None:
    """3,000 documents are accepted; of 21,000 mutants, exactly those that ``json.loads`` accepts."""
    rng, constraint, broken = random.Random(3), grammars.json(), 0
    for _ in range(3000):
        text = json.dumps(any_json(rng, 4), ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1, "\t"]))
        assert constraint.matches(text)
        for mutant in mutants(text, rng, '{}[],:"0-+.eE\\ tu\n\x0b\u00a01'):
            read = takes("json", mutant)
            assert constraint.matches(mutant) == read, mutant
            broken += not read
    assert broken > 8000


def test_json_files() -> None:
    files = sorted(DATA.rglob("*.json"))
    assert len(files) > 20
    for file in files[:200]:
        text = file.read_text(encoding="utf-8")
        if len(text) < 200_000:
            assert grammars.json().matches(text)
            assert not grammars.json().matches(text.rstrip()[:-1])


@pytest.mark.parametrize("text", ["[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000])
def test_deep_json(text: str, smollm2: gr.Vocabulary) -> None:
    """10,000 levels deep: the end is right, and a token costs the same as near the top."""
    assert grammars.json().matches(text)
    assert not grammars.json().matches(text[:-1])
    assert not grammars.json().matches(text + text[-1])
    matcher = gr.compile(grammars.json(), smollm2).matcher()
    bitmask = gr.allocate_token_bitmask(1, smollm2.size)
    bytes_ = {smollm2.token_bytes(token): token for token in range(smollm2.size)}
    work = []
    for at in range(0, len(text), 500):
        before = spent()
        for character in text[at : at + 500]:
            matcher.fill_next_token_bitmask(bitmask)
            assert matcher.accept_token(bytes_[character.encode()])
        work.append(spent() - before)
    assert matcher.is_accepting()
    half = len(work) // 2
    for level in (work[:half], work[half:]):  # while it opens, and while it closes
        assert max(level[half // 2 :]) <= max(level[: half // 2])


@pytest.mark.parametrize("depth", [1, 3, 20])
def test_generated_json_up_to_a_depth(depth: int) -> None:
    """Koo, Liu & He (2024), §5.1: JSON is regular once its depth is bounded."""
    rng, constraint = random.Random(depth), grammars.json(max_depth=depth)

    def deep(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(deep, inner), default=0)

    seen = set()
    for _ in range(400):
        value = any_json(rng, rng.randrange(7))
        for _ in range(rng.choice([0, 0, 1, depth - 1])):
            value = [value] if rng.random() < 0.5 else {"a": value}
        assert constraint.matches(json.dumps(value)) == (deep(value) <= depth)
        seen.add(deep(value) <= depth)
    assert seen == {True, False}


# -- the other languages -------------------------------------------------------------------------------------------
def real(name: str) -> list[str]:
    return [file.read_bytes().decode() for file in sorted(REAL.glob(f"{name}_*"))]


def tables_of_the_documentation() -> list[str]:
    pages = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
    found = [re.findall(r"(?m)(?:^\|.*\|\n){3,}", page.read_text(encoding="utf-8")) for page in pages]
    return [table for tables in found for table in tables if takes("markdown_table", table)]


def names_of(text: str) -> tuple[list[str], list[str]]:
    """Returns the elements and the attributes of a document."""
    tags = re.findall(r"<[A-Za-z][^>]*>", text)
    attributes = re.findall(r"\s([A-Za-z][\w.:-]*)\s*=", " ".join(tags))
    return list(dict.fromkeys(re.findall(r"<([A-Za-z][\w.:-]*)", text))), list(dict.fromkeys(attributes))


def judged(
    name: str, constraint: gr.Constraint, texts: list[str], rounds: int, others: str
) -> tuple[int, int, list[str]]:
    """Counts the mutants that both accept or both reject; lists those that only the language's parser accepts."""
    rng, both, neither, missing = random.Random(5), 0, 0, []
    for text in texts:
        assert constraint.matches(text), text
        assert takes(name, text), text
        for _ in range(rounds):
            for mutant in mutants(text, rng, others):
                ours, theirs = constraint.matches(mutant), takes(name, mutant)
                assert theirs or not ours, mutant
                both += ours
                neither += not theirs
                missing += [mutant] if theirs and not ours else []
    return both, neither, missing


OTHERS = {
    "arithmetic": "+-*/%().0123e ",
    "csv": ',"\n\ra ',
    "graphql": '{}()[]:$@!."#,a0-\n ',
    "c": "{}()[];,*&+-=<>\"'/0xa \n",
    "regex": "()[]{}|*+?^$.\\-,0a",
}
# Parts of the languages that the grammars leave out.
LEFT_OUT = {
    "arithmetic": r"(?<![\d.])e|\b0+[0-9]|(?<!\d)\.|\.(?!\d)|[\d)]\s*\(|\(\s*\)",
    "csv": r"(?!)",
    "graphql": r"\{[\s,\ufeff]*\}",  # graphql-core accepts it if it stands alone
    "c": r"",
    "regex": r"",
}


@pytest.mark.parametrize("name", OTHERS)
def test_real_text_and_its_mutants(name: str) -> None:
    """Real text is accepted; so are those of its mutants that are valid, except for what the grammar leaves out."""
    texts = real(name) + CASES[name]["good"]
    rounds = max(6, 120 // len(texts))
    both, neither, missing = judged(name, grammars.ready_grammar(name), texts, rounds, OTHERS[name])
    assert [text for text in missing if not re.search(LEFT_OUT[name], text)] == []
    assert min(both, neither) > 60
    assert len(missing) < both


def test_tables_of_the_documentation() -> None:
    tables, broken = tables_of_the_documentation(), 0
    assert len(tables) >= 8
    for table in tables:
        columns = len(re.findall(r"(?<!\\)\|", table.split("\n")[0])) - 1
        constraint = grammars.markdown_table(columns=columns)
        both, neither, missing = judged("markdown_table", constraint, [table], 10, "|-:\\ \na")
        assert both > 5
        # Rows with another number of columns do not belong to these tables.
        assert [text for text in missing if len(re.findall(r"(?<!\\)\|", text.split("\n")[0])) == columns + 1] == []
        broken += neither
    assert broken > 100


@pytest.mark.parametrize("text", real("xml"), ids=lambda text: text[:12])
def test_real_xml_and_its_mutants(text: str) -> None:
    """expat and libxml2 read every accepted text. Mutants that only they accept have names that were not given."""
    etree = pytest.importorskip("lxml.etree")
    elements, attributes = names_of(text)
    constraint = grammars.xml(elements=elements, attributes=attributes)
    both, neither, missing = judged("xml", constraint, [text], 90, "<>/&;=\"'!?-[]a0 \n")
    assert min(both, neither) > 60

    def same_names(document: str) -> bool:
        return names_of(document) == (elements, attributes)

    unlike = [document for document in missing if same_names(document)]
    assert [document for document in unlike if not re.search(r"<\?xml|[\s:]\w+\s*=\s*['\"]", document)] == []
    assert len(unlike) <= both / 10
    rng = random.Random(1)
    for mutant in (one for _ in range(20) for one in mutants(text, rng, "<>/&;=\"'a ")):
        if constraint.matches(mutant):
            try:
                etree.fromstring(mutant.encode())
            except etree.XMLSyntaxError as error:  # XML 1.0 has no namespaces
                assert str(error).startswith("xmlns:") and "not a valid URI" in str(error), mutant


def test_mutants_of_sql() -> None:
    rng, constraint, both, neither, wrong = random.Random(2), grammars.sql(), 0, 0, []
    for statement in STATEMENTS:
        for mutant in mutants(statement, rng, "(),.*;='\"<>+-|1ax \n"):
            ours, error = constraint.matches(mutant), prepares(mutant)
            both += ours and not error
            neither += bool(error) and not ours
            wrong += [(error, mutant)] if ours and error else []
    assert wrong == []
    assert min(both, neither) > 150


def test_patterns_of_the_standard_library() -> None:
    """Nearly all: those without named groups and verbose mode."""
    found = set()
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr="compile" | "match" | "search" | "sub" | "split"),
                    args=[ast.Constant(value=str(pattern)), *_],
                ):
                    found.add(pattern)
    plain = [pattern for pattern in found if takes("regex", pattern) and not re.search(r"\(\?P|\n *", pattern)]
    refused = [pattern for pattern in plain if not grammars.regex().matches(pattern)]
    assert len(plain) > 40
    assert len(refused) <= 3, refused


def test_llguidance_takes_the_statements_in_its_dialect() -> None:
    llguidance = pytest.importorskip("llguidance")
    text = (ROOT / "benchmarks" / "data" / "sql_llguidance.lark").read_text(encoding="utf-8")
    tokenizer = llguidance.LLTokenizer("byte")
    whole = llguidance.LLMatcher(tokenizer, llguidance.grammar_from("lark", text), log_level=0)
    assert not whole.is_error(), whole.get_error()

    def accepted(statement: str) -> bool:
        matcher, tokens = whole.deep_copy(), list(statement.encode())
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    assert [statement for statement in STATEMENTS if not accepted(statement)] == []
    assert len([statement for statement in REFUSED_STATEMENTS if accepted(statement)]) <= 5


def test_generate_on_the_command_line(smollm2_path: Path) -> None:
    """The model of the vocabulary's file writes a statement; if it has too few tokens, the command says so."""
    pytest.importorskip("xllamacpp")
    program = f"import sys; sys.path.append({str(ROOT / 'src')!r}); from guiderail.cli import main; main()"
    prompt = "Answer in SQL: how many rows are in the table people?"
    arguments = ["--grammar", "sql", "--model", str(smollm2_path), "--prompt", prompt, "--max-tokens", "60"]
    done = subprocess.run(
        [sys.executable, "-c", program, "generate", *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert prepares(done.stdout.removesuffix("\n")) == ""
