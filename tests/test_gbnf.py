"""GBNF of llama.cpp, and what XGrammar's EBNF adds: every documented feature, and every refusal with its place."""

from __future__ import annotations

import pytest

import guiderail as gr
from core_support import mask_of, plain


def gbnf(text: str, start: str | None = None) -> gr.GrammarConstraint:
    return gr.grammar(text, "gbnf", start=start)


# The example grammars of llama.cpp are of these shapes.
JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
"""
CHESS = r"""
root ::= (
    # it must start with the characters "1. "
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
"""
ARITHMETIC = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""
JAPANESE = "root ::= jp-char+\njp-char ::= hiragana | [ァ-ヿ] | [、-〾]\nhiragana ::= [ぁ-ゟ]"


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (JSON, ['{"a": [1, 2.5e3, {"b": null}], "ü": "\\u00e9"}', "{}"], ["[]", '{"a": 01}', '{"a": 1,}', '{"a"}']),
        (CHESS, ["1. e4 e5\n2. Nf3 O-O-O\n"], ["1. e4 e5\n", "2. e4 e5\n2. Nf3 Nc6\n"]),
        (ARITHMETIC, ["1+2*(x-3)= 4\n", "a=b\nc=d\n"], ["1+=2\n", "", "1=2"]),
        (JAPANESE, ["こんにちは", "、ア"], ["hello", ""]),
        ('root ::= "a" "b"', ["ab"], ["a", "b", "ba"]),
        ('root ::= "a" | "b" |\n "c"', ["a", "b", "c"], ["d", ""]),
        ('root ::= ("a" |\n# a comment\n "b")', ["a", "b"], ["ab"]),
        ('root ::= "a"* "b"+ "c"?', ["b", "aabbc"], ["", "ac", "bcc"]),
        ('root ::= "a"{2}', ["aa"], ["a", "aaa"]),
        ('root ::= "a"{2,}', ["aa", "aaaaa"], ["a"]),
        ('root ::= "a"{1,3}', ["a", "aa", "aaa"], ["", "aaaa"]),
        ('root ::= "a" { 0 , 2 }', ["", "aa"], ["aaa"]),
        ('root ::= ("a" "b"){2,3} "c"', ["ababc", "abababc"], ["abc", "ababababc"]),
        ('root ::= "a"{3000}', ["a" * 3000], ["a" * 2999, "a" * 3001]),
        ('root ::= "a"? *', ["", "aaa"], ["b"]),
        (r'root ::= "\n\t\r\\\"\[\]\-"', ['\n\t\r\\"[]-'], ["n"]),
        (r'root ::= "\x41\u00e9\U0001F600"', ["Aé😀"], ["A"]),
        (r"root ::= [\x41\u00e9\U0001F600-\U0001F602]", ["A", "é", "😁"], ["B", "😃"]),
        ("root ::= [a-c]", ["a", "b", "c"], ["d", "ab", ""]),
        ("root ::= [-a]", ["-", "a"], ["b"]),
        ("root ::= [a-]", ["-", "a"], ["b"]),
        (r"root ::= [\]\[^]", ["]", "[", "^"], ["\\"]),
        (r"root ::= [\^\$\.\*\+\?\(\)\{\}\|\/\-]", list("^$.*+?(){}|/-"), ["\\", "a"]),
        (r"root ::= [^\n]+", ["abc€"], ["a\nb", ""]),
        ("root ::= .", ["a", "\n", "😀"], ["", "ab"]),
        ("root ::= .{2}", ["ab", "\n😀"], ["a"]),
        ('root ::= ""', [""], ["a"]),
        ("root ::= ()", [""], ["a"]),
        ("root ::=", [""], ["a"]),
        ('root ::= a_b check-mate A1\na_b ::= "1"\ncheck-mate ::= "2"\nA1 ::= "3"', ["123"], ["1"]),
        ('root ::= -kv --a-b\n-kv ::= "1"\n--a-b ::= "2"', ["12"], ["1", "-12"]),  # as llama.cpp's own templates
        ('root ::= a.b\na ::= "1"\nb ::= "2"', ["1x2", "1\n2"], ["12"]),  # any character in between
        ('root ::= a.b\na.b ::= "1"', ["1"], ["a1b"]),  # a name, as in XGrammar
        ('root ::= "a"\n  "b"\n  | "c"\n', ["ab", "c"], ["a"]),  # lines as in XGrammar
        ('root ::= Regex("[a-z]{2,3}") "!"', ["ab!", "abc!"], ["a!", "ab"]),
        ('root ::= "a"{2,-1}', ["aa", "aaa"], ["a"]),
        (r'root ::= "\'\?\a\b\f\v\0\e"', ["'?\a\b\f\v\0\x1b"], ["'"]),
        ('# only a comment\n\nroot ::= x # more\r\nx ::= "1"\r\n', ["1"], ["x"]),
    ],
)
def test_features(text: str, good: list[str], bad: list[str]) -> None:
    constraint = gbnf(text)
    assert [t for t in good if not constraint.matches(t)] == []
    assert [t for t in bad if constraint.matches(t)] == []


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ('root = "a"', "=", "::= was expected"),
        ('root ::= "a', '"a', "never closed"),
        ("root ::= [a", "[a", "] was expected"),
        ("root ::= []", "[]", "empty class"),
        ('root ::= ("a"', "(", ") was expected"),
        ('root ::= ("a"\nx ::= "b"', "(", ") was expected"),
        ('root ::= "a")', ")", "closes nothing"),
        ('root ::= * "a"', "*", "nothing for *"),
        ('root ::= "a"{', "", "a number was expected"),
        ('root ::= "a"{2', "", "} was expected"),
        ('root ::= "a"{3,2}', "{3,2}", "below the least"),
        ('root ::= "a"{99999999999}', "99999999999", "at most"),
        (r'root ::= "\q"', r"\q", "no escape"),
        (r"root ::= [\d]", r"\d", "[0-9]"),
        (r'root ::= "\xZ1"', r"\xZ1", "2 hexadecimal digits"),
        (r'root ::= "\ud800"', r"\ud800", "surrogate"),
        (r'root ::= "\U00110000"', r"\U00110000", "no character"),
        ("root ::= [z-a]", "z-a", "backwards"),
        ('root ::= "a"\nroot ::= "b"', "root", "defined twice"),
        ("root ::= <think", "<", "a token was expected"),
        ("root ::= %", "%", "was expected"),
        ('root ::= "a" - "b"', '- "b"', "was expected"),
        ('root ::= "a" -b\nb ::= "c"', "-b", "no exceptions"),
        ("", "", "no rule"),
    ],
)
def test_syntax_errors_say_where_and_what(text: str, at: str, said: str) -> None:
    with pytest.raises(gr.PatternError) as caught:
        gbnf(text)
    error = caught.value
    assert error.code == "grammar-syntax"
    assert said in error.message
    assert error.source == text and error.span is not None
    assert text[error.span[0] :].startswith(at)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('root ::= "a" (= "b")', "(="),
        ('root ::= TagDispatch(("<t>", x))\nx ::= "1"', "TagDispatch("),
        ("root ::= ExcludeToken(1)", "ExcludeToken("),
        ('root[max_tokens=10] ::= "a"', "[max_tokens=10]"),
        ('root ::= x\nx[capture="n"] ::= "a"', "[capture"),
        ("root ::= !<[7]>*", "!<[7]>"),
        ("root ::= <t> !<t>", "!<t>"),
        ("root ::= <t> (!<t>)", "!<t>"),
        ('root ::= <t> (!<t> | "a")*', "!<t>"),
        ("root ::= <t> (!<t>){2}", "{2}"),
        ("root ::= <t> !<t>{3}", "{3}"),
    ],
)
def test_what_cannot_be_enforced_is_refused(text: str, at: str) -> None:
    with pytest.raises(gr.PatternError) as caught:
        gbnf(text)
    assert caught.value.code == "grammar-unsupported"
    assert caught.value.span is not None
    assert text[caught.value.span[0] :].startswith(at)


def test_undefined_names_have_a_place_and_a_suggestion() -> None:
    text = 'root ::= "(" expresion ")"\nexpression ::= "1"'
    with pytest.raises(gr.PatternError, match="did you mean 'expression'") as caught:
        gbnf(text)
    assert caught.value.code == "grammar-undefined"
    assert caught.value.span == (13, 22)
    assert "line 1, column 14" in str(caught.value)
    with pytest.raises(gr.PatternError, match="'main'") as caught:
        gbnf('root ::= "a"', start="main")
    assert caught.value.code == "grammar-start"


def test_another_start() -> None:
    assert gbnf('root ::= x x\nx ::= "1"', start="x").matches("1")


def test_tokens() -> None:
    vocabulary = gr.Vocabulary(
        [b"a", b"b", b"<think>", b"</think>", b"<eos>"],
        special_tokens={"<think>": 2, "</think>": 3, "<eos>": 4},
        stop_token_ids=[4],
    )
    for text in (
        "root ::= <think> !</think>* </think> .*",
        "root ::= <[2]> !<[3]>* <[3]> .*",
        'root ::= Token("<think>") [^<]* Token(3) .*',
    ):
        matcher = gr.compile(gbnf(text), vocabulary).matcher()
        assert mask_of(matcher)[:5].tolist() == [False, False, True, False, False]
        assert matcher.accept_token(2)
        assert mask_of(matcher)[:5].tolist() == [True, True, False, True, False]
        assert matcher.accept_token(0) and matcher.accept_token(3)
        assert mask_of(matcher)[:5].tolist() == [True, True, False, False, True]


def test_a_negated_token_in_brackets() -> None:
    assert gbnf("root ::= <t> (!<t>)* <t>") == gbnf("root ::= <t> (!<t>)* <t>")
    bare, grouped = (gbnf(f"root ::= <t> {text} <t>").tree.rules for text in ("!<t>*", "(!<t>)*"))
    assert bare == grouped


def test_a_negated_token_that_is_asked_for_nowhere_is_a_text_without_it() -> None:
    constraint = gbnf('root ::= !</b>* "."')
    assert constraint.matches("some text.")
    assert not constraint.matches("some </b> text.")


def test_tokens_that_the_vocabulary_does_not_have() -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(gbnf("root ::= <think> .*"), plain([b"a"]))
    assert caught.value.code == "unknown-token"


def test_xgrammar_agrees() -> None:
    """The grammars above mean the same to XGrammar, where it reads them."""
    xgrammar = pytest.importorskip("xgrammar")
    for text, good, bad in ((JSON, ['{"a": [1]}'], ['{"a": 01}']), (ARITHMETIC, ["1+2= 4\n"], ["1+=2\n"])):
        info = xgrammar.TokenizerInfo([chr(i) for i in range(128)] + ["</s>"], stop_token_ids=[128])
        compiled = xgrammar.GrammarCompiler(info).compile_grammar(
            xgrammar.Grammar.from_ebnf(text.replace("::= |", '::= "" |'))
        )
        mine = gbnf(text)
        for example in good + bad:
            matcher = xgrammar.GrammarMatcher(compiled)
            theirs = matcher.accept_string(example) and matcher.accept_token(128)
            assert theirs == mine.matches(example)
