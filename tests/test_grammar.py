"""gr.grammar: arguments, production rules, composition, reports. The notations have separate tests."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest

import guiderail as gr
from guiderail.frontends.grammar import grammar as direct

SUMS = 'root ::= root "+" n | n\nn ::= [0-9]+'


def test_a_constraint_is_a_value() -> None:
    a, b = gr.grammar(SUMS, "gbnf"), gr.grammar(SUMS, "gbnf")
    assert a == b and hash(a) == hash(b) and a != gr.grammar(SUMS, "gbnf", start="n")
    again = pickle.loads(pickle.dumps(a))
    assert again == a and again.matches("1+2")
    assert repr(a) == f"grammar({SUMS!r}, syntax='gbnf')"
    assert repr(gr.grammar({"S": ["a"]})) == "grammar({'S': …}, syntax='productions')"
    assert direct is gr.grammar


@pytest.mark.parametrize(
    ("text", "syntax"),
    [
        ('root ::= "a"', "gbnf"),
        ("root ::= [\\n]+", None),
        ("root ::= 'a'", "ebnf-w3c"),
        ('root ::= "a"{2}', "gbnf"),
        ("root ::= #x41", None),
        ("root = 'a', [ 'b' ] ;", "ebnf-iso"),
        ('start: "a" start | "b"', "lark"),
        ('!start: _x\n_x.2: "b"', "lark"),
        ("just words", None),
        ("", None),
    ],
)
def test_the_notation_is_guessed_where_it_is_certain(text: str, syntax: str | None) -> None:
    if syntax is None:
        with pytest.raises(gr.CompileError) as caught:
            gr.grammar(text)
        assert caught.value.code == "grammar-notation"
    else:
        assert gr.grammar(text).syntax == syntax


def test_a_text_in_no_notation_has_the_fault_of_the_nearest() -> None:
    with pytest.raises(gr.PatternError) as caught:
        gr.grammar('root ::= "a" (')
    assert caught.value.code == "grammar-syntax" and caught.value.span == (13, 14)


def test_files(tmp_path: Path) -> None:
    for name, text in (("a.gbnf", SUMS), ("a.ebnf", "a = '1' ;"), ("b.EBNF", "a ::= '1'"), ("c.txt", "a = '1' ;")):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        assert gr.grammar(path).matches("1")
    with pytest.raises(gr.CompileError) as caught:
        gr.grammar(tmp_path / "none.gbnf")
    assert caught.value.code == "grammar-file"


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        ((SUMS, "bnf"), {}, "grammar-notation"),
        ((SUMS, "productions"), {}, "grammar-notation"),
        (({"S": ["a"]}, "gbnf"), {}, "grammar-notation"),
        ((3,), {}, "not-a-constraint"),
        ((SUMS, "gbnf"), {"start": 3}, "grammar-start"),
        ((SUMS, "gbnf"), {"max_rules": 0}, "bad-bound"),
        ((SUMS, "gbnf"), {"constraints": {"x": "y"}}, "grammar-option"),
        (({},), {}, "grammar-productions"),
        (({1: ["a"]},), {}, "grammar-productions"),
        (({"S": 1},), {}, "grammar-productions"),
        (({"S": [1]},), {}, "grammar-productions"),
        (({"S": [["a", ["b"]]]},), {}, "grammar-productions"),
        (({"S": ["a"]},), {"start": "T"}, "grammar-start"),
        (({"S": [gr.Ref("T")]},), {}, "grammar-undefined"),
        (({"S": [["a", gr.Ref("S")]]},), {}, "grammar-unproductive"),
        (({"S": [gr.nothing()]},), {}, "grammar-unproductive"),
        (({"S": [gr.regex(r"a\bb")]},), {}, "grammar-unproductive"),
        (({"S": [~gr.Ref("T")], "T": ["a"]},), {}, "grammar-reference"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], options: dict[str, object], code: str) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        gr.grammar(*arguments, **options).matches("")  # type: ignore[arg-type]
    assert caught.value.code == code


def test_references_outside_of_rules() -> None:
    with pytest.raises(gr.CompileError) as caught:
        (gr.Ref("x") + "a").matches("a")
    assert caught.value.code == "grammar-reference"
    with pytest.raises(gr.CompileError):
        gr.Ref(3)  # type: ignore[arg-type]


def test_production_rules() -> None:
    rules = {
        "list": [["[", gr.Ref("item").separated_by(", "), "]"]],
        "item": [gr.Ref("number"), gr.Ref("list"), "none", gr.choice(["yes", "no"])],
        "number": gr.regex(r"-?\d+", flags="a"),
        "pair": [[gr.Ref("item") | "?", gr.Ref("item").optional(), ("-" + gr.Ref("item")).repeat(0, 2)]],
    }
    constraint = gr.grammar(rules)
    assert constraint.matches("[1, [none, -2], [], yes]") and not constraint.matches("[1,]")
    pair = gr.grammar(rules, start="pair")
    assert pair.matches("?") and pair.matches("1[]-no-2") and not pair.matches("?-1-2-3-4")
    assert gr.grammar({"S": [["Hello ", gr.Ref("Name")]], "Name": ["Ada", "Bob"]}).matches("Hello Bob")
    assert gr.grammar({"S": []} | {"T": ["a"]}, start="T").matches("a")


def test_reports() -> None:
    report = gr.grammar(
        'root ::= a | dead "x"\na ::= "1" a | ""\ndead ::= dead2\ndead2 ::= dead "y"\nunused ::= "u"', "gbnf"
    ).report()
    assert report.start == "root" and report.rules == 5
    assert report.unproductive == ("dead", "dead2") and report.unreachable == ("unused",)
    assert report.repetitions == ("a",) and report.compiled_rules == 0
    assert "unproductive, left out: dead, dead2" in str(report)
    assert gr.grammar('root ::= "a"', "gbnf").report().left_recursive == ()


# -- composition -----------------------------------------------------------------------------------------------------
def test_grammars_in_constraints() -> None:
    sums = gr.grammar(SUMS, "gbnf")
    lists = gr.grammar("root ::= '(' root ')' | 'n'", "ebnf")  # another rule named root
    line = gr.sequence("sum: ", sums, "; list: ", lists)
    assert line.matches("sum: 1+2; list: ((n))") and not line.matches("sum: 1+2; list: (n))")
    assert (sums | lists).matches("(n)") and (lists + lists).matches("(n)n")
    assert lists.separated_by(",", 2).matches("n,(n)")
    assert sums.limited_to(3).matches("1+2") and not sums.limited_to(3).matches("11+2")


def test_constraints_in_grammars() -> None:
    schema = gr.json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False})
    inner = gr.grammar('root ::= "<" root ">" | ""', "gbnf")
    outer = gr.grammar({"root": [[gr.Ref("root"), ";", gr.Ref("one")], gr.Ref("one")], "one": [schema, inner]})
    assert outer.matches('{"a": 1};<<>>;{}') and outer.matches(";") and not outer.matches("<>{}")
    assert outer.report().left_recursive[0].rules == ("root",)
    nested = gr.grammar({"S": [[outer, "!", outer, gr.Ref("S").optional()]]})
    assert nested.matches("{}!<>;<><>!<>".replace("<>;<><>", "<>;<>;<>") + ";<>")


def test_left_recursion_through_a_grammar_that_may_be_empty() -> None:
    blank = gr.grammar('root ::= " " root | ""', "gbnf")
    constraint = gr.grammar({"S": [[blank, gr.Ref("S"), "x"], "y"]})
    assert constraint.report().left_recursive[0].kind == "hidden"
    assert constraint.matches("  yxx") and constraint.matches("y") and not constraint.matches("  y")
    maybe = gr.regex("(?:ab)?")
    constraint = gr.grammar({"S": [[maybe, gr.Ref("S"), "x"], "y"]})
    assert constraint.matches("ababyxx") and constraint.matches("abyxxx") and not constraint.matches("ababyx")


# -- size ------------------------------------------------------------------------------------------------------------
def test_large_grammars() -> None:
    count = 2_000
    rules = [f'r{i} ::= "{i};" (r{(i * 7 + 1) % count} | r{(i * 3 + 2) % count} "." | "")' for i in range(count)]
    constraint = gr.grammar("\n".join(rules), "gbnf", start="r0")
    assert constraint.matches("0;1;8;57;") and constraint.matches("0;2;.") and not constraint.matches("0;3;")


@pytest.mark.parametrize(
    ("opening", "whole"),
    [('("a" ', "a" * 10_000 + "b"), ('("a" | ', "b"), ('("a")* (', "aab"), ("(x ", "x" * 10_000 + "b")],
)
def test_deeply_nested_texts(opening: str, whole: str) -> None:
    text = "root ::= " + opening * 10_000 + '"b"' + ")" * 10_000 + '\nx ::= "x"'
    constraint = gr.grammar(text, "gbnf")
    assert constraint.matches(whole)
    assert constraint == pickle.loads(pickle.dumps(constraint)) and repr(constraint)


def test_nesting_that_is_too_deep_for_the_core_is_a_limit() -> None:
    with pytest.raises(gr.LimitError) as caught:
        gr.grammar("root ::= " + '("a" ' * 5_000 + '"b"' + ")*" * 5_000, "gbnf").matches("b")
    assert caught.value.code == "depth"


def test_rules_that_double_stay_small() -> None:
    text = "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(40)) + '\nr40 ::= "a"'
    program = gr.grammar(text, "gbnf", start="r0").program().core
    assert program.node_count() < 5_000
    assert program.derivative(program.root, b"a" * 100)


def test_random_texts_are_read_or_refused() -> None:
    """Only our own errors, for any text."""
    rng = random.Random(11)
    pieces = ["root", "::=", "=", ";", "|", '"a"', "'b'", "[a-z]", "[^", "]", "(", ")", "*", "+", "{2,3}", "{", "}"]
    pieces += ["-", ",", "#x41", "/*", "*/", "(*", "*)", "?", "<t>", "!<t>*", "\\", ".", "~", "1"]
    read = 0
    for _ in range(1_500):
        text = rng.choice(["", " ", "\n"]).join(rng.choice(pieces) for _ in range(rng.randint(1, 4)))
        text = rng.choice(["root ::= ", "root = ", "", text + "\n"]) + text + rng.choice(["", ";", " \t\n\r"])
        syntax = rng.choice(["gbnf", "ebnf", "ebnf-w3c", "ebnf-iso"])
        try:
            gr.grammar(text, syntax).program()
            read += 1
        except gr.GuiderailError as error:
            assert error.code != "error"
            if isinstance(error, gr.PatternError) and error.span is not None:
                assert error.source == text and 0 <= error.span[0] <= error.span[1] <= len(text) + 1
    assert read > 10
