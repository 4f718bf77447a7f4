"""Languages inside a Lark grammar, lazy rules, special tokens after texts: against the slow lexer, and by walks."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import byte_vocabulary, mask_of, plain
from guiderail import grammars
from lexer_oracle import holds

WORDS = " ".join(f"w{i}" for i in range(1000))
LARK = '%ignore " "\nstart: "{" word ("," word)* "}"\nword: NAME | "if"\nNAME: /[a-z]+/'


def lark(text: str, **constraints: gr.Constraint) -> Any:
    return gr.grammar(text, "lark", constraints=constraints or None)


def texts(alphabet: str, most: int) -> list[str]:
    return ["".join(p) for n in range(most + 1) for p in itertools.product(alphabet, repeat=n)]


# -- tables: accepted and rejected texts ------------------------------------------------------------------------------
CASES: dict[str, tuple[Any, list[str], list[str]]] = {
    "a Lark grammar": (lambda: lark("start: @s", s=lark("start: /b+/ /Q/?")), ["b", "bbQ"], ["", "Q", "bQQ"]),
    "what is ignored within is not ignored outside": (
        lambda: lark('start: "<" @s ">"', s=lark(LARK)),
        ["<{a}>", "<{ a , if }>", "< {a} >"],
        ["<{a}> ", " <{a}>", "<{a b}>"],
    ),
    "what is ignored outside is not ignored within": (
        lambda: lark('start: "<" @s ">"\n%ignore " "', s=lark('start: "a" "b"')),
        ["<ab>", "< ab >"],
        ["<a b>"],
    ),
    "three levels": (
        lambda: lark("start: @s /x/", s=lark('start: "(" @t ")"', t=lark('start: "[" /a+/ "]" @u?', u=gr.regex("b+")))),
        ["([aa])x", "([a]bb)x"],
        ["([a]", "([a])", "(a)x"],
    ),
    "a ready grammar": (lambda: lark("start: @s", s=grammars.arithmetic()), ["1+2", "(1 * 2)"], ["1+", "+"]),
    "a ready grammar, twice": (
        lambda: lark('start: @s ";" @s', s=grammars.arithmetic()),
        ["1+2;3", "1 ; 2"],
        ["1+2", ";"],
    ),
    "it may be empty": (lambda: lark('start: "a" @s "c"', s=gr.regex("b*")), ["ac", "abbc"], ["a", "abb"]),
    "a grammar that may be empty": (
        lambda: lark('start: "a" @s', s=gr.grammar('root ::= "(" root ")" | ""', "gbnf")),
        ["a", "a(())"],
        ["a(", "("],
    ),
    "a declared terminal": (
        lambda: lark('start: "a" X\n%declare X', X=gr.grammar('root ::= "(" root ")" | "b"', "gbnf")),
        ["ab", "a((b))"],
        ["a", "a(b"],
    ),
    "it ends where it likes": (lambda: lark('start: @s "b" "c"', s=gr.regex("b+")), ["bbc", "bbbc"], ["bc"]),
    "a name in front is read to its end": (
        lambda: lark("start: NAME @s\nNAME: /[a-z]+/", s=gr.regex("[a-z0-9]+")),
        ["ab1", "a0b"],
        ["ab", "a", "1"],
    ),
    "one of two": (
        lambda: lark("start: @s | NAME\nNAME: /[a-z]+/", s=gr.regex("ab|[0-9]")),
        ["ab", "abc", "1"],
        ["12", "ab1"],
    ),
    "none of it left": (lambda: lark('start: "a" | @s', s=gr.regex("b") & gr.regex("c")), ["a"], ["b", "c", ""]),
    "two objects": (
        lambda: lark(
            "start: a | b\n"
            'a: %json {"type":"object","properties":{"x":{},"t":{"const":1}},"required":["t"]}\n'
            'b: %json {"type":"object","properties":{"y":{},"t":{"const":2}},"required":["t"]}'
        ),
        ['{"t": 1}', '{"t": 2, "q": {"t": 3}}'],
        ['{"t": 3}', "{}"],
    ),
    "objects in a list": (
        lambda: lark('start: "<" o+ ">"\no: %json {"type":"object"}'),
        ["<{}>", '<{"a": {}}{"b": 1}>'],
        ["<>", "<{}"],
    ),
    "json on the next line": (lambda: lark('start: %json\n  {"type": "null"} "x"'), ["nullx"], ["null"]),
    "regex on the next line": (lambda: lark('start: %regex\n\n  {"substring_chars": "ab"}\n'), ["ab", ""], ["ba"]),
    "many words": (
        lambda: lark("start: %regex " + json.dumps({"substring_words": WORDS})),
        ["", "w5", " ", "w998 w999", "w41 w42 "],
        ["w1 w3", "w99 w999", "41"],
    ),
    "chunks that repeat": (
        lambda: lark('start: %regex {"substring_chunks": ["ab", "a", "", "bab", "ab", "a"]}'),
        ["", "ab", "aba", "ababab", "a", "bab", "babab", "ababababa"],
        ["b", "aa", "ba"],
    ),
    "an empty string": (lambda: lark('%llguidance {}\nstart: "a" ("b" | "")'), ["a", "ab"], ["", "b"]),
    "an empty terminal": (lambda: lark('%llguidance {}\nstart: "a" B\nB: "b" | ""'), ["a", "ab"], ["", "abb"]),
    "nothing but an empty terminal": (lambda: lark('%llguidance {}\nstart: "a" B\nB: ""'), ["a"], ["", "ab"]),
    "an empty start": (lambda: lark("start:"), [""], ["a", " "]),
    "an empty start, something ignored": (lambda: lark('start:\n%ignore " "'), ["", "  "], ["a"]),
    "a terminal that no text is": (lambda: lark('start: "foo" | ST\nST: /ab/ & /b/'), ["foo"], ["ab", "b"]),
    "a pattern that no text fits": (lambda: lark('start: "foo" | "a" ST\nST: /x[^\\s\\S]/'), ["foo"], ["a", "ax"]),
    "two lazy rules": (
        lambda: lark(
            'start: (f | t)* TEXT\nf: fh "=" /[a-z]+/ "</f>"\nfh[lazy]: TEXT "<f"\nt: th "=" /[0-9]+/ "</t>"\n'
            'th[lazy]: TEXT "<t"\nTEXT: /(\\n|.)*/'
        ),
        ["", "x", "x<f=abc</f>y<t=1</t>", "<t=1</t><t=2</t>z", "x<", "x<g"],
        ["x<t=garbage<f=abc</f>", "x<f", "x<t=1", "<f=abc</f><t", "<f=1</f>"],
    ),
    "a string with rules of its own": (
        lambda: gr.json_schema({"type": "string", "x": 1}) | gr.literal("!"),
        ['"a"', "!"],
        ['"'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_texts(name: str) -> None:
    make, good, bad = CASES[name]
    constraint = make()
    matcher_of = gr.compile(constraint, byte_vocabulary(), cache=False).matcher
    for text in [*good, *bad]:
        assert constraint.matches(text) == (text in good), text
        matcher = matcher_of()
        assert (matcher.accept_string(text) and matcher.is_accepting()) == (text in good), text


REFUSED: dict[str, tuple[str, str, str]] = {
    "a terminal that no text is": ("start: ST\nST: /ab/ & /b/", "grammar-unproductive", "'start'"),
    "a pattern that no text fits": ("start: ST\nST: /a[^\\s\\S]/", "grammar-unproductive", "'start'"),
    "a rule that needs itself": ('start: a\na: "x" a', "grammar-unproductive", "'start'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_text_is_refused(name: str) -> None:
    text, code, message = REFUSED[name]
    with pytest.raises(gr.GuiderailError, match=message) as caught:
        lark(text).program()
    assert caught.value.code == code


# -- random grammars --------------------------------------------------------------------------------------------------
TERMINALS = ["/a+/", "/b+/", "/[ab]+/", "/a*b/", '"a"', '"ab"', '"("', "/b?a/", '"b"', "/a(ba)?/", "/[a(]*b/", "/ab*/"]
LAZY = ['/[ab]*/ "("', '/[ab(]*/ "b"', '/a*/ "b"', '/[ab]*/ "ab"']


def random_grammar(rng: random.Random, depth: int) -> Any:
    parts: dict[str, gr.Constraint] = {}
    lines: list[str] = []
    names = []
    for i in range(rng.randint(1, 2)):
        if depth and rng.random() < 0.7:
            parts[f"s{i}"] = rng.choice(
                [lambda: random_grammar(rng, depth - 1), lambda: gr.regex(rng.choice(["a", "b+", "ab?", "(ba)*"]))]
            )()
            names.append(f"@s{i}")
        elif rng.random() < 0.3:
            lines.append(f"lazy{i}[lazy]: {rng.choice(LAZY)}")
            names.append(f"lazy{i}")
    names += rng.sample(TERMINALS, 2)

    def sequence() -> str:
        return " ".join(rng.choice(names) + rng.choice(["", "", "", "?", "+", "*"]) for _ in range(rng.randint(1, 3)))

    body = " | ".join(sequence() for _ in range(rng.randint(1, 3)))
    asked = " | ".join(f"@{name}" for name in parts if f"@{name}" not in body)
    if asked:
        body += f" | {asked}"
    if rng.random() < 0.3:
        lines.append('%ignore " "')
    return lark("\n".join([f"start: {body}", *lines]), **parts)


def random_grammars(count: int, depth: int) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    seed = 0
    while len(found) < count:
        seed += 1
        try:
            found.append((seed, random_grammar(random.Random(seed), depth)))
        except gr.GuiderailError as error:
            assert error.code in ("grammar-unproductive", "lark-first-match"), error
    return found


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_random_grammars_against_the_slow_lexer(depth: int) -> None:
    every = texts("ab( ", 4)
    for seed, constraint in random_grammars(40, depth):
        for text in every:
            assert constraint.matches(text) == holds(constraint, text), (seed, text, constraint)


def ends(core: Any, state: int) -> bool:
    """Returns whether some text leads from a state to an end; also true if it is too far to decide."""
    seen, queue = {state}, [state]
    for here in queue:
        if core.is_nullable(here):
            return True
        for byte in core.first_bytes(here):
            there = core.derivative(here, bytes([byte]))
            if there and there not in seen:
                seen.add(there)
                queue.append(there)
        if len(seen) > 2000:
            return True
    return False


@pytest.mark.parametrize("depth", [0, 1])
def test_every_state_has_an_end(depth: int) -> None:
    for seed, constraint in random_grammars(60, depth):
        core = constraint.program().core
        if not ends(core, core.root):  # such as /a+/ "a"
            assert not any(holds(constraint, text) for text in texts("ab(", 4)), seed
            continue
        queue: list[tuple[int, bytes]] = [(core.root, b"")]
        seen = {core.root}
        for here, path in queue:
            assert ends(core, here), (seed, path, constraint)
            for byte in b"ab( ":
                there = core.derivative(here, bytes([byte]))
                if there and there not in seen and len(seen) < 60:
                    seen.add(there)
                    queue.append((there, path + bytes([byte])))


PIECES = [bytes([b]) for b in b"ab( "] + [b"ab", b"ba", b"aa", b"bb", b"(a", b"b(", b"a b", b" a", b"aba", b"bab("]


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_masks_of_random_grammars(depth: int) -> None:
    vocabulary = plain(PIECES)
    for seed, constraint in random_grammars(30, depth):
        walk(constraint, vocabulary, seed)


def walk(constraint: Any, vocabulary: gr.Vocabulary, seed: int, steps: int = 10) -> None:
    """Compares masks with accepted tokens on random texts; forks and rollbacks change nothing."""
    try:
        guide = gr.compile(constraint, vocabulary, cache=False)
    except gr.CompileError as error:
        assert error.code == "unsatisfiable", error
        return
    for number in range(4):
        rng = random.Random(seed * 10 + number)
        matcher = guide.matcher()
        for _ in range(steps):
            mask = mask_of(matcher)
            allowed = [matcher.fork().accept_token(token) for token in range(vocabulary.size)]
            wrong = [vocabulary.token_bytes(t) for t in np.flatnonzero(mask[: vocabulary.size] != allowed)]
            assert not wrong, (seed, matcher.history(), wrong, constraint)
            some = [token for token in np.flatnonzero(allowed).tolist() if token != vocabulary.size - 1]
            if not some:
                break
            token = rng.choice(some)
            other = matcher.fork()
            assert other.accept_token(token)
            other.rollback(1)
            assert (mask_of(other) == mask).all()
            assert matcher.accept_token(token)


@pytest.mark.parametrize(
    ("text", "behind"),
    [("start: /a+/", "ab"), ("start: /ab*/", "(b\\(a?)*"), ('start: "(" /ab*/', "b\\("), ("start: /a*b/+", "a?b*\\(")],
)
def test_masks_where_what_is_behind_may_go_on_like_a_lexeme(text: str, behind: str) -> None:
    vocabulary = plain([word.encode() for word in texts("ab(", 3) if word])
    for seed in range(3):
        walk(lark(text) + gr.regex(behind), vocabulary, seed)
        walk(lark("start: @s @t", s=lark(text), t=gr.regex(behind)), vocabulary, seed)


# -- nested constraints other than Lark, special tokens ---------------------------------------------------------------
JSON = [b'{"', b'":', b'"', b'a"', b"a", b"t", b'{"t": 1', b"}", b'"}', b"1}", b", ", b',"', b"1", b"2", b"{", b"}}",
        b'1, "', b":", b" ", b"[", b"]", b"}]", b"<", b">", b"<{", b"}>", b"x", b"xx", b"x{", b"}x", b"n"]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'start: %json {"type": "object", "properties": {"a": {"type": "integer"}}}',
        'start: "<" %json {"type": "object"} ">"',
        'start: (NAME | o)*\nNAME: /[ax]+/\no: %json {"type": "object", "properties": {"t": {}}, "required": ["t"]}',
        'start: "[" (a | b) "]"\na: %json {"type": "object", "properties": {"t": {"const": 1}}, "required": ["t"]}\n'
        'b: %json {"type": "object", "properties": {"t": {"const": 2}}, "required": ["t"]}\n%ignore " "',
        'start: n+\nn: %json {"type": "integer"}\n%ignore " "',
        'start: TEXT %json {"type": "array"}\nTEXT: /[^\\[{]+/',
    ],
)
def test_masks_with_json_within(text: str) -> None:
    walk(lark(text), plain(JSON), 1, 14)


LETTERS = "abfo!<|x>"
TOKENS = gr.Vocabulary(
    [*(c.encode() for c in LETTERS), b"foo", b"<|", b"fo", b"<|x|>", b"<|y|>", b"</s>"],
    special_tokens={"<|x|>": 12, "<|y|>": 13},
    stop_token_ids=[14],
)


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("start: /.*/ <|x|>", ["foo|", "|", "<x>|"], ["foo", "foo||"]),
        ("start: /[a-z]+/ <|x|>", ["foo|"], ["|", "foo", "foo||"]),
        ('start: (/[a-z]+/ <|x|>)* "!"', ["foo|ab|!", "!"], ["foo!", "foo|ab!"]),
        ('start: a <|x|> | b\na[lazy]: /[a-z]*/ "!"\nb: /[a-z]+/', ["a!|", "ab"], ["a!", "a|"]),
        ("start: @s /.*/ <|x|>", ["b|", "foo|"], ["b", "|"]),
        ("start: /f+/ /[a-z]*/ <|x|>", ["fo|", "foo|"], ["o|", "f"]),
    ],
)
def test_a_special_token_ends_what_stands_before_it(text: str, good: list[str], bad: list[str]) -> None:
    constraint = lark(text, **({"s": gr.regex("[a-z]+")} if "@s" in text else {}))
    guide = gr.compile(constraint, TOKENS, cache=False)
    for sample in [*good, *bad]:
        matcher = guide.matcher()
        read = [12 if c == "|" else LETTERS.index(c) for c in sample]
        accepted = all(matcher.accept_token(token) for token in read) and matcher.is_accepting()
        assert accepted == (sample in good), sample
    walk(constraint, TOKENS, 5)
