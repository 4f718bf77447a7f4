"""The fast parser of Lark's notation: the same trees as Lark's own parser, or none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lark")
import lark
import lark.load_grammar

import guiderail as gr
from guiderail.frontends.grammar.lark import notation
from guiderail.frontends.grammar.library import READY, grammar_text

LARK: Any = lark.load_grammar
GRAMMARS = [
    *(p.read_text(encoding="utf-8") for p in sorted((Path(lark.__file__).parent / "grammars").glob("*.lark"))),
    *(grammar_text(name) for name in READY if READY[name].syntax == "lark"),
]
SMALL = [
    'start: "a"i~2 b~1..3 | /x\\/[y]/imx -> name\n  | ("b" [c] d)? // comment\n# another\n\nb.2: c+ d*\n',
    '?start: _x{a, "b"} | y{/z/}\n_x{p,q}: p q\n!?r.-3: s? (t | u)\n\n\n%ignore WS\n%declare A _B c\nT.5: "0".."9"\n',
    "%import common.WS\n%import .a.b (C, d)\n%import a.B -> D\n%override e: f\n%extend G: H\n",
    "start:\n  | a\n  |\n\n  | b // x\n\n\\\nc: d\\\n e\n",
    "start: a\r\n\r\nb: c\r\n  | d\r\n",
    'start: /a#b/ "c//d" \'\n',
    "",
    "\n",
    "\\",
    "// only a comment",
]
PIECES = [
    *'abAB_ \t\n|()[]{}~.,:"/\\?!+*->%i#$0',
    *[
        "//x",
        "\n\n",
        "..",
        "->",
        "%ignore ",
        "%import ",
        "%declare ",
        ".2",
        "{a}",
        "\r\n",
        "?a",
        "/a/x",
        " # c\n",
        "\n|",
    ],
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, lark.Tree):
        return (
            type(a) is type(b)
            and str(a.data) == str(b.data)
            and len(a.children) == len(b.children)
            and all(map(same, a.children, b.children))
        )
    if isinstance(a, lark.Token):
        return isinstance(b, lark.Token) and (a.type, str(a)) == (b.type, str(b))
    return type(a) is type(b) and (a.name, getattr(a, "filter_out", None)) == (b.name, getattr(b, "filter_out", None))


def agrees(text: str) -> bool:
    """Returns whether the text was read; fails if the result differs from Lark's."""
    try:
        ours = notation._tree(text, LARK)
    except notation._Unusual:
        return False
    assert same(LARK._parse_grammar(text, "<string>"), ours), text
    return True


@pytest.mark.parametrize("text", GRAMMARS, ids=lambda text: text[:30])
def test_grammars_are_read_as_by_lark(text: str) -> None:
    assert agrees(text)


def test_every_form_is_read_as_by_lark() -> None:
    assert [agrees(text) for text in SMALL] == [True] * 5 + [False, True, True, False, True]


def mutants(texts: list[str], seed: int, count: int) -> Iterator[str]:
    """Yields texts of grammars with one to three pieces removed, added or swapped."""
    rng = random.Random(seed)
    for _ in range(count):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(["", rng.choice(PIECES)]) + text[at + rng.choice([0, 0, 1, 1, 3]) :]
        yield text


def test_mutated_grammars_are_read_as_by_lark_or_left_to_it() -> None:
    assert sum(map(agrees, mutants(SMALL, 7, 2500))) > 300


def test_deep_parentheses_are_left_to_lark() -> None:
    assert not agrees("start: " + "(" * 60 + '"a"' + ")" * 60 + "\n")
    assert gr.grammar("start: " + "(" * 60 + '"a"' + ")" * 60 + "\n", "lark").matches("a")


def test_it_is_in_use_for_this_version_of_lark() -> None:
    assert notation.grammar_builder() is not LARK.GrammarBuilder


def test_another_notation_is_left_to_lark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LARK, "TERMINALS", {**LARK.TERMINALS, "RULE": "[a-z]+"})
    notation.grammar_builder.cache_clear()
    try:
        assert notation.grammar_builder() is LARK.GrammarBuilder
    finally:
        monkeypatch.undo()
        notation.grammar_builder.cache_clear()


def test_a_template_that_uses_itself_with_more_and_more_is_refused() -> None:
    with pytest.raises(gr.CompileError, match="ever larger") as caught:
        gr.grammar('start: l{A}\nl{x}: x l{p{x}} | x\np{y}: y y\nA: "a"\n', "lark")
    assert caught.value.code == "lark-grammar"


def _error(main: Path) -> gr.GuiderailError:
    with pytest.raises(gr.GuiderailError) as caught:
        gr.grammar(main).program()
    return caught.value


def test_imports_in_a_circle_and_files_that_are_not_grammars(tmp_path: Path) -> None:
    for name, text in {
        "one": "%import .two.b\na: b?",
        "two": "%import .one.a\nb: a",
        "itself": "%import .itself.a\na: a?",
        "open": 'a: "a',
    }.items():
        (tmp_path / f"{name}.lark").write_text(f"{text}\n", encoding="utf-8")
    (tmp_path / "binary.lark").write_bytes(b"a: \xff")
    main = tmp_path / "main.lark"
    for name, message in {
        "one": "in a circle: one.lark -> two.lark -> one.lark;",
        "itself": "in a circle: itself.lark -> itself.lark;",
        "main": "in a circle: main.lark -> main.lark;",
        "binary": "the grammar 'binary' to import is not UTF-8",
        "open": f"in {tmp_path / 'open.lark'} (line 1, column 4 of an imported grammar)",
    }.items():
        main.write_text(f"%import .{name}.a\nstart: a\n", encoding="utf-8")
        error = _error(main)
        assert message in error.message
        assert error.code == ("lark-syntax" if name == "open" else "lark-import")
        assert "; expected" not in error.message
        if name != "open":
            assert error.span is not None and main.read_text()[slice(*error.span)] == "%import"


@pytest.mark.parametrize("imports", ["folder", b"folder", [5], [None], [lambda base, path: (path, "")], [["folder"]]])
def test_imports_are_a_list_of_directories(imports: Any) -> None:
    with pytest.raises(gr.CompileError, match="imports takes a list of directories") as caught:
        gr.grammar('start: "a"', "lark", imports=imports)
    assert caught.value.code == "grammar-option"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("%import common.NONE", "the grammar 'common' has no terminal 'NONE' to import"),
        ("%import common.none -> NONE", "the grammar 'common' has no rule 'none' to import"),
        ("%import common (INT, NONE)", "the grammar 'common' has no terminal 'NONE' to import"),
        ("%import common.INT", "there is no terminal 'NONE', which 'start' uses; define it, or correct the name"),
    ],
)
def test_names_that_an_imported_grammar_lacks(statement: str, message: str) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.grammar(f"start: NONE\n{statement}", "lark").program()
    assert caught.value.message.partition("; there are DIGIT, HEXDIGIT, INT")[0] == message
