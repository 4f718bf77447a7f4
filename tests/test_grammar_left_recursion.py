"""Left recursion, ambiguity, empty rules: a recogniser and Lark's Earley parser agree on the language."""

from __future__ import annotations

import random
import re

import pytest

import guiderail as gr
from core_support import mask_of, plain
from grammar_support import as_gbnf, as_grammar, random_rules, recognises, texts
from guiderail.frontends.grammar.analysis import ConstraintFacts, components, left_names, nullable_by, nullable_rules
from guiderail.frontends.grammar.prepare import prepare
from guiderail.frontends.grammar.syntax import Expression

WORDS = texts("ab", 5)


def gbnf(text: str, start: str = "A") -> gr.GrammarConstraint:
    return gr.grammar(text, "gbnf", start=start)


def begins_with_itself(rules: dict[str, Expression]) -> list[list[str]]:
    nullable = nullable_by(nullable_rules(rules, ConstraintFacts()), ConstraintFacts())
    left = {name: left_names(body, nullable) for name, body in rules.items()}
    return [c for c in components(left) if len(c) > 1 or c[0] in left[c[0]]]


@pytest.mark.parametrize("seed", range(0, 240, 8))
def test_random_grammars_keep_their_language(seed: int) -> None:
    seen = 0
    for s in range(seed, seed + 8):
        rng = random.Random(s)
        rules = random_rules(rng, rng.randint(1, 4), left=rng.choice([0.3, 0.6, 0.9]))
        try:
            constraint = gbnf(as_gbnf(rules))
        except gr.CompileError as error:
            assert error.code == "grammar-unproductive"
            assert not any(recognises(rules, "A", word) for word in WORDS)
            continue
        seen += 1
        assert begins_with_itself(prepare(as_grammar(rules), 20_000).rules) == []
        wrong = [word for word in WORDS if constraint.matches(word) != recognises(rules, "A", word)]
        assert wrong == [], as_gbnf(rules)
    assert seen


def test_random_grammars_of_letters_agree_with_earley() -> None:
    lark = pytest.importorskip("lark")
    agreed = recursive = 0
    for seed in range(60):
        rng = random.Random(1000 + seed)
        names = "abcd"[: rng.randint(1, 4)]
        rules = {}
        for name in names:
            alternatives = []
            for _ in range(rng.randint(1, 3)):
                parts = [rng.choice([*names, '"x"', '"y"']) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))]
                alternatives.append(" ".join(parts))
            rules[name] = alternatives
        theirs = lark.Lark(
            "\n".join(f"{name}: {' | '.join(alternatives)}" for name, alternatives in rules.items()),
            start="a",
            parser="earley",
            lexer="dynamic",
            keep_all_tokens=True,
        )
        empty = '""'
        lines = [f"{n} ::= {' | '.join(a or empty for a in alternatives)}" for n, alternatives in rules.items()]
        text = "\n".join(lines)
        mine = None
        try:
            mine = gbnf(text, "a")
            recursive += bool(mine.report().left_recursive)
        except gr.CompileError as error:
            assert error.code == "grammar-unproductive"
        for word in texts("xy", 4):
            try:
                theirs.parse(word)
                accepted = True
            except lark.exceptions.LarkError:
                accepted = False
            assert (mine is not None and mine.matches(word)) == accepted, (text, word)
            agreed += accepted
    assert agreed > 200 and recursive > 10


def test_masks_are_those_of_brute_force() -> None:
    """A token is allowed if the language has a text with this prefix. The languages have only short texts."""
    tokens = ["a", "b", "ab", "ba", "aa", "bbb", "aba", "c"]
    vocabulary = plain([t.encode() for t in tokens])
    checked = 0
    for seed in range(40):
        rng = random.Random(5000 + seed)
        rules = random_rules(rng, rng.randint(1, 3), left=0.7)
        try:
            constraint = gbnf(as_gbnf(rules)) & gr.regex("[ab]{0,6}")
            guide = gr.compile(constraint, vocabulary)
        except gr.CompileError as error:  # rules cannot be intersected: use the grammar's own texts
            assert error.code in ("not-regular", "unsatisfiable", "grammar-unproductive")
            continue
        language = {word for word in texts("ab", 6) if recognises(rules, "A", word)}
        matcher, written = guide.matcher(), ""
        for _ in range(6):
            mask = mask_of(matcher)
            expected = [any(word.startswith(written + token) for word in language) for token in tokens]
            assert mask[: len(tokens)].tolist() == expected, (as_gbnf(rules), written)
            assert bool(mask[len(tokens)]) == (written in language)
            checked += 1
            allowed = [i for i, ok in enumerate(expected) if ok]
            if not allowed:
                break
            choice = rng.choice(allowed)
            assert matcher.accept_token(choice)
            written += tokens[choice]
    assert checked > 30


def test_masks_of_recursive_grammars() -> None:
    """The same for languages that are not regular: all short completions are tried."""
    tokens = ["(", ")", "()", "((", "))", "+", "n+", "n", ")+(", "x"]
    vocabulary = plain([t.encode() for t in tokens])
    text = 'A ::= A "+" A | "(" A ")" | "n" | A A?'
    guide = gr.compile(gbnf(text), vocabulary)
    rng = random.Random(3)
    for _ in range(12):
        matcher, written = guide.matcher(), ""
        for _ in range(8):
            mask = mask_of(matcher)
            for i, token in enumerate(tokens):
                assert bool(mask[i]) == completable(written + token), written + token
            assert bool(mask[len(tokens)]) == matched(written)
            choice = rng.choice([i for i in range(len(tokens)) if mask[i]])
            assert matcher.accept_token(choice)
            written += tokens[choice]


def matched(text: str) -> bool:
    """Returns whether the grammar above matches, by reduction."""
    last = None
    while text != last:
        last = text
        text = re.sub(r"\(n+\)|n\+n|nn", "n", text)
    return text == "n"


def completable(text: str) -> bool:
    depth = text.count("(") - text.count(")")
    return any(matched(text + end + ")" * max(depth, 0)) for end in ("", "n"))


@pytest.mark.parametrize(
    ("text", "kind", "group", "good", "bad"),
    [
        ('A ::= A "+" n | n\nn ::= [0-9]', "direct", {"A"}, ["1", "1+2+3"], ["", "1+", "+1"]),
        ('A ::= B "x" | "y"\nB ::= A "z" | "w"', "indirect", {"A", "B"}, ["y", "wx", "yzx", "wxzx"], ["x", "yz"]),
        ('A ::= B A "x" | "y"\nB ::= "b" | ""', "hidden", {"A"}, ["y", "byx", "yxx", "bbyxx"], ["x", "b", "byxxb"]),
        ('A ::= "b"* A "x" | "y"', "hidden", {"A"}, ["y", "bbyx", "yx"], ["bby"]),
        ('A ::= (A "x")* "y" | A{2} "z"', "direct", {"A"}, ["y", "yxy", "yyz", "yyzxy"], ["yx", "yz"]),
        ('A ::= A | "a"', "direct", {"A"}, ["a"], ["", "aa"]),
        ('A ::= B | "a"\nB ::= A', "indirect", {"A", "B"}, ["a"], ["", "aa"]),
        ('A ::= A A | "a" | ""', "direct", {"A"}, ["", "a", "aaaa"], ["b"]),
        ('A ::= A? A? "a"', "direct", {"A"}, ["a", "aa", "aaa"], [""]),
    ],
)
def test_kinds_of_left_recursion(text: str, kind: str, group: set[str], good: list[str], bad: list[str]) -> None:
    constraint = gbnf(text)
    report = constraint.report()
    assert [(set(r.rules), r.kind) for r in report.left_recursive] == [(group, kind)]
    assert f"left recursion ({kind})" in str(report)
    assert [t for t in good if not constraint.matches(t)] == []
    assert [t for t in bad if constraint.matches(t)] == []


def test_sums_become_repetitions() -> None:
    report = gbnf('A ::= A "+" B | B\nB ::= B "*" n | n\nn ::= [0-9]+').report()
    assert report.compiled_rules == 0, "a regular language: no rule is left"


def test_right_recursion_at_the_end_becomes_a_repetition() -> None:
    constraint = gbnf('A ::= ws "x" ws\nws ::= [ \\n] ws | ""\n')
    assert constraint.report().repetitions == ("ws",) and constraint.report().compiled_rules == 0
    states = gbnf('A ::= "a" B | ""\nB ::= "b" A | "c" B | "d"')
    assert states.report().compiled_rules == 0
    assert (states & gr.regex(".{3}")).matches("acd") and not (states & gr.regex(".{3}")).matches("accd")


@pytest.mark.parametrize(
    ("text", "inputs", "most"),
    [
        ('A ::= A A | "a" | ""', ["a" * 1000], 10),
        ('A ::= A A A | A A | "a"', ["a" * 1000], 10),
        ('A ::= A [+*] A | "-" A | A "!" | "(" A ")" | "n"', ["n" + "+n" * 500, "-" * 300 + "n" + "!" * 300], 2_000),
        ('A ::= "a" A A | "a" A | "a"', ["a" * 500], 3_000),
        ('A ::= "i" A | "i" A "e" A | "x"', ["i" * 200 + "x" + "ex" * 200], 3_000),
    ],
)
def test_ambiguous_grammars_stay_small(text: str, inputs: list[str], most: int) -> None:
    program = gbnf(text).program().core
    before = program.node_count()
    for one in inputs:
        assert program.is_nullable(program.derivative(program.root, one.encode()))
    assert program.node_count() - before < most


def test_deep_nesting_of_the_text() -> None:
    for text in ('A ::= ("(" A ")" | "[" A "]")*', 'A ::= A "(" A ")" | ""'):
        constraint = gbnf(text)
        assert constraint.matches("(" * 10_000 + ")" * 10_000)
        assert not constraint.matches("(" * 10_000 + ")" * 9_999)


def test_large_components_end_in_a_limit() -> None:
    count = 1000
    text = "\n".join(f'r{i} ::= r{(i + 1) % count} "a" | "y" r{(i * 7) % count} | "z"' for i in range(count))
    with pytest.raises(gr.LimitError) as caught:
        gr.grammar(text, "gbnf", start="r0", max_rules=5_000)
    assert caught.value.code == "grammar-size"
    assert "max_rules" in caught.value.message


def test_long_chains_at_the_left() -> None:
    count = 400
    text = "\n".join(f'r{i} ::= r{i + 1} "x" | "y" r0' for i in range(count)) + f'\nr{count} ::= "e" r0 | "f"'
    assert gr.grammar(text, "gbnf", start="r0").matches("f" + "x" * count)
    deep = "\n".join(f'r{i} ::= r{i + 1} "x" | "y" r0' for i in range(2_000)) + '\nr2000 ::= "e" r0 | "f"'
    with pytest.raises(gr.LimitError) as caught:
        gr.grammar(deep, "gbnf", start="r0").matches("f")
    assert caught.value.code == "grammar-depth"


@pytest.mark.parametrize("item", ['"a"', '"a"?', '"a"*', '"a"+', "B", "(B B)*", "A", "A?", "(A B)*"])
@pytest.mark.parametrize("body", ["A ::= {item} A | {end}", "A ::= {item} A B | {end}", "A ::= {item} {end} | A B"])
def test_what_comes_zero_times_before_recursion(item: str, body: str) -> None:
    once, without = (gbnf(body.format(item=part, end='"b"') + '\nB ::= "a"') for part in (f"({item}){{0}}", ""))
    assert [once.matches(word) for word in WORDS] == [without.matches(word) for word in WORDS]


def test_terminals_that_come_zero_times() -> None:
    grammar = gr.grammar('start: (A*)~0 start | B\nA: "a"\nB: "b"', "lark")
    assert [word for word in WORDS if grammar.matches(word)] == ["b"]
    assert gr.grammar({"S": [[gr.Ref("A").repeat().repeat(0, 0), gr.Ref("S")], "b"], "A": ["a"]}).matches("b")
