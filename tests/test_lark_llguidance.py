"""llguidance's additions to Lark's notation. tests/peers compares its tables."""

from __future__ import annotations

import json
import random
import re

import pytest

import guiderail as gr
from guiderail.frontends.grammar.lark import read


def ours(text: str, **options: object) -> gr.Constraint:
    return gr.grammar(text, "lark", **options)  # type: ignore[arg-type]


# -- llguidance's additions -----------------------------------------------------------------------------------------
ADDITIONS: dict[str, tuple[str, list[str], list[str]]] = {
    "header": ("%llguidance {}\nstart: A\nA: /a*/", ["", "aa"], ["b"]),
    "braces": (
        'start: A{2,} B{,2} C{3}\nA: "a"\nB: "b"\nC: "c"',
        ['aaccc', 'aaabbccc'],
        ['accc', 'aabbbccc', 'aacc'],
    ),
    "names": ('start: a-rule A-B\na-rule: "x"\nA-B: "y"', ["xy"], ["x"]),
    "and, not": ("start: A\nA: /[a-c]+/ & ~/.*bb.*/ & ~(\"a\" | \"c\")", ["b", "ab"], ["a", "c", "abb", ""]),
    "terminals of such": ("start: B\nA: ~\"a\" & /[a-c]/\nB: A{2} | \"x\"", ["bc", "x"], ["ab", "b"]),
    "chunks": (
        'start: A "!"\nA: %regex {"substring_chunks": ["ab", "c", "d"]}',
        ['ab!', 'abc!', 'cd!', '!'],
        ['a!', 'abd!'],
    ),
    "words": ('start: %regex {"substring_words": "one two, three"}', ["one two", " ", "two,"], ["on", "one three"]),
    "chars": ('start: %regex {"substring_chars": "abcd"}', ["bc", "abcd", ""], ["ac"]),
    "json": (
        'start: "f" fields "."\nfields: %json {"type": "array", "items": {"type": "integer"}}',
        ['f[1, 2].', 'f[].'],
        ['f[a].', 'f'],
    ),
    "lazy": ("start: a b\na[lazy]: /.*x/\nb: /[a-z]*/", ["aax", "xyx", "axxa"], ["aa"]),
    "lazy is the shortest": ("start: a \"!\"\na[lazy]: /x+/", ["x!"], ["xx!"]),
    "suffix": ('start: a "!"\na[capture, suffix="."]: /[^!]*/', ["ab.!", ".!"], ["a.b.!", "ab!"]),
    "stop": ('start: a "." "!"\na[stop="."]: /[^!]*/', ["ab.!", ".!"], ["a.b.!", "ab!"]),
    "stop at the end": ('start: "!" a\na[stop="."]: /[^!]*/', ["!ab", "!"], ["!a.b"]),
    "stop before something else": ('start: a ".x"\na[stop="."]: /[^!]*/', ["ab.x", ".x"], ["a.b.x", "ab"]),
    "stop=''": ('start: a "b"\na[stop=""]: /[a-z]*/', ["ab", "b", "abb"], ["a", ""]),
    "empty terminals": ("start: A B\nA: /a*/\nB: /b?/", ["", "aa", "b", "aab"], ["ba", "bb"]),
    "max_chars": (
        'start: a ">"\na[max_chars=3]: "x" b\nb: /[a-z]*/ | "(" c ")"\nc: /[0-9]/',
        ["x>", "xab>"], ["xabc>", "x(1)>"],
    ),
    "nested": ('start: /[ab]+/ c "!"\nc: %lark {\n  start: "x" "y"\n  %ignore " "\n}', ["ax y!", "bxy !"], ["a xy"]),
    "ignored once": ('%llguidance {"ignore_once": true}\nstart: "a" "b"\n%ignore / {1,2}/', ["ab", "a  b "], ["a   b"]),
    "ignored": ('%llguidance {"ignore_once": false}\nstart: "a" "b"\n%ignore / {1,2}/', ["a   b"], []),
    "whitespace of JSON": (
        'start: %json {"type": "array", "items": {"const": 1}, "x-guidance": {"whitespace_flexible": true}}',
        ["[1,\n 1 ]", "[ ]"], ["[1 1]"],
    ),
    "whitespace of a pattern": (
        'start: %json {"type": "array", "items": {"const": 1}, "x-guidance": {"whitespace_pattern": " {2}"}}',
        ["[  1,  1]", "[1]", "[  ]"], ["[ 1]", "[1,   1]"],
    ),
    "separators of JSON": (
        'start: %json {"items": {"const": 1}, "type": "array", '
        '"x-guidance": {"item_separator": " ?;", "whitespace_flexible": false}}',
        ["[1;1 ;1]"], ["[1,1]", "[1; 1]"],
    ),
    "every escape": (
        'start: %json {"type": "string", "x-guidance": {"json_allow_general_unicode_escapes": true}}',
        ['"a"', '"\\u0061"'], ['"\\u006"'],
    ),
    "permutations": (
        'start: p::0x0\np::_: "" %if is_ones([0:2])\n  | "a" p::set_bit(0) %if bit_clear(0)\n'
        '  | "b" p::set_bit(1) %if bit_clear(1)',
        ["ab", "ba"], ["", "a", "aba", "aa"],
    ),
    "counted": (
        'start: c::0\nc::_: x c::incr([1:3]) %if lt([1:3], 2)\n  | "."  %if not(eq(_, 0))\n x : "x"',
        ["x.", "xx."], [".", "xxx."],
    ),
    "values": (
        'start: (c::5 | c::0x6)\nc::_: "1" %if eq(_, 4) | "2" %if eq(_, 7) | ">" c::bit_and(4) %if bit_set(0)\n'
        '  | "<" c::bit_or(1) %if and(bit_clear(0), bit_count_ge(_, 2)) | "-" c::decr(_) %if gt(_, 5)',
        [">1", "<2", "->1"], ["1", "2"],
    ),
    "no alternative": ('start: a::0 | "x"\na::_: "a" %if gt(_, 0)', ["x"], ["a", ""]),
    "ignored nothing": ('start: "a" "b"\n%ignore ""\n%ignore /#.*\\n/', ["ab", "a#\nb"], ["a b"]),
    "tools": (
        'start: ( f | g )* end\nend: TEXT\nTEXT: /(.|\\n)*/\nfh[lazy]: TEXT "<tool"\nf: fh "=f>" /[0-9]+/ "</tool>"\n'
        'gh[lazy]: TEXT "<tool"\ng: gh "=g>" "x" "</tool>"',
        ["", "text", "a<tool=f>12</tool>b", "<tool=g>x</tool><tool=f>1</tool>"],
        ["a<tool", "a<tool=h>", "<tool=f>x</tool>"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_of_llguidance(name: str) -> None:
    text, good, bad = ADDITIONS[name]
    constraint = ours(text)
    for sample in [*good, *bad]:
        assert constraint.matches(sample) == (sample in good), sample


def test_special_tokens() -> None:
    text = "start: <think> TEXT </think> (<[20-21,23]> | <|eot|>)\nTEXT: /[a-z ]+/"
    found = {repr(t.constraint) for t in (read(text).grammar.lexer or pytest.fail("no lexer")).terminals}
    assert {
        "special_token('<think>')",
        "special_token('</think>')",
        "one_token_of(20, 21, 23)",
        "special_token('<|eot|>')",
    } <= found


def test_parts_by_name() -> None:
    parts = {"NUMBER": gr.regex("[0-9]+"), "call": gr.literal("f()")}
    constraint = ours("start: NUMBER @call\n%declare NUMBER", constraints=parts)
    assert constraint.matches("12f()")
    assert not constraint.matches("f()")


def test_what_has_no_meaning_is_said() -> None:
    reading = read('%llguidance {"no_forcing": true}\nstart: a\na: %json {"x-guidance": {"coerce_one_of": true}}')
    assert len(reading.notes) == 2
    assert [word in "".join(reading.notes) for word in ("no_forcing", "coerce_one_of")] == [True] * 2


NESTED = {
    "no braces": ("start: %lark", "lark-syntax", "in braces", "%lark"),
    "a fault": ('start: "a" %lark { start: x }', "lark-grammar", "in %lark: ", "x"),
    "never closed": ('start: "a" %lark { start: "x"', "lark-syntax", "never closed", "{"),
    "a part that is not known": ('start: "a" %lark { start: @x }', "lark-unsupported", "@x is not known", "@x"),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_errors_of_nested_grammars(name: str) -> None:
    text, code, message, shown = NESTED[name]
    with pytest.raises(gr.GuiderailError, match=re.escape(message)) as caught:
        ours(text)
    assert caught.value.code == code
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)] == shown


@pytest.mark.parametrize("kind", ["substring_words", "substring_chars"])
def test_parts_of_a_long_text_with_its_words_as_tokens(kind: str) -> None:
    """As a lexeme, such a part can continue nearly everywhere as the next one could begin. Masks stay cheap."""
    rng = random.Random(1)
    words = [f"w{rng.randrange(3000)}" for _ in range(24_000)]
    text = " ".join(words)[:120_000]
    tokens = [bytes([byte]) for byte in range(256)] + [word.encode() for word in sorted(set(words))]
    vocabulary = gr.Vocabulary(tokens, stop_token_ids=[])
    constraint = gr.grammar("start: A\nA: %regex " + json.dumps({kind: text}), "lark")
    guide = gr.compile(constraint, vocabulary, max_step_work=2_000_000)
    matcher = guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    start = text.index(" ", 1000) + 1
    for byte in text[start : start + 20].encode():
        matcher.fill_next_token_bitmask(bitmask)
        assert matcher.accept_token(byte)
    matcher.fill_next_token_bitmask(bitmask)
    after = text[start : start + 20]
    for token in rng.sample(range(len(tokens)), 60):
        fork = matcher.fork()
        accepted = fork.accept_token(token)
        assert accepted == bool(int(bitmask[0, token // 32]) >> (token % 32) & 1)
        if kind == "substring_chars":
            assert accepted == (after.encode() + tokens[token] in text.encode())
