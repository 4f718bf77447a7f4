"""GBNF of llama.cpp, and what XGrammar's EBNF adds: every documented feature, and every rejection with its location."""

from __future__ import annotations

import re

import pytest

import guiderail as gr
from core_support import mask_of, plain


def gbnf(text: str, start: str | None = None) -> gr.GrammarConstraint:
    return gr.grammar(text, "gbnf", start=start)


# The example grammars of llama.cpp have these shapes.
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
        ('root ::= -kv --a-b\n-kv ::= "1"\n--a-b ::= "2"', ["12"], ["1", "-12"]),  # as in llama.cpp's own templates
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
    ("text", "at", "expected"),
    [
        ('root = "a"', "=", "expected ::="),
        ('root ::= "a', '"a', "never closed"),
        ("root ::= [a", "[a", "add ]"),
        ("root ::= []", "[]", "class is empty"),
        ('root ::= ("a"', "(", "add )"),
        ('root ::= ("a"\nx ::= "b"', "(", "add )"),
        ('root ::= "a")', ")", "closes nothing"),
        ('root ::= * "a"', "*", "nothing for *"),
        ('root ::= "a"{', "", "expected a number"),
        ('root ::= "a"{2', "", "expected }"),
        ('root ::= "a"{3,2}', "{3,2}", "below the minimum"),
        ('root ::= "a"{99999999999}', "99999999999", "at most"),
        (r'root ::= "\q"', r"\q", "no escape"),
        (r"root ::= [\d]", r"\d", "[0-9]"),
        (r'root ::= "\xZ1"', r"\xZ1", "2 hexadecimal digits"),
        (r'root ::= "\ud800"', r"\ud800", "surrogate"),
        (r'root ::= "\U00110000"', r"\U00110000", "no character"),
        ("root ::= [z-a]", "z-a", "backwards"),
        ('root ::= "a"\nroot ::= "b"', "root", "defined twice"),
        ("root ::= <think", "<", "expected a token"),
        ("root ::= <[2147483648]>", "<[2147483648]", "at most 2,147,483,647"),
        ("root ::= %", "%", "expected"),
        ('root ::= "a" - "b"', '- "b"', "expected"),
        ('root ::= "a" -b\nb ::= "c"', "-b", "no exceptions"),
        ("", "", "no rule"),
    ],
)
def test_syntax_errors_say_where_and_what(text: str, at: str, expected: str) -> None:
    with pytest.raises(gr.PatternError) as caught:
        gbnf(text)
    error = caught.value
    assert error.code == "grammar-syntax"
    assert expected in error.message
    assert error.source == text and error.span is not None
    assert text[error.span[0] :].startswith(at)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('root[temperature=0.5] ::= "a"', "temperature"),
        ('root ::= x\nx[wild=1] ::= "a"', "wild"),
        ('root ::= x\nx[max_tokens=3] ::= y | "a"\ny[lazy] ::= "b" x', "y[lazy"),
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
        other = "!" in text  # any other token, including special ones
        assert mask_of(matcher)[:5].tolist() == [True, True, other, True, False]
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


def test_one_token_that_is_not_another() -> None:
    vocabulary = gr.Vocabulary(
        [b"a", b"bb", b"<t>", b"<u>", b"<eos>"], special_tokens={"<t>": 2, "<u>": 3, "<eos>": 4}, stop_token_ids=[4]
    )
    matcher = gr.compile(gbnf('root ::= !<t>{2} <t> (!<[0]> | "a" "a")'), vocabulary).matcher()
    assert mask_of(matcher)[:5].tolist() == [True, True, False, True, False]
    assert matcher.accept_token(1) and matcher.accept_token(3)
    assert mask_of(matcher)[:5].tolist() == [False, False, True, False, False]
    assert matcher.accept_token(2)
    assert mask_of(matcher)[:5].tolist() == [True, True, True, True, False]
    assert matcher.accept_token(0)  # the text "a", not the token 0
    assert mask_of(matcher)[:5].tolist() == [True, False, False, False, False]


FUNCTIONS: dict[str, tuple[str, list[str], list[str]]] = {  # grammar, texts of it, texts that are none
    "tags": (
        'root ::= TagDispatch(("<a>", x), ("<b>", y))\nx ::= "1" | "(" x ")"\ny ::= "2"',
        ["", "text", "t<a>((1))u<b>2", "<a", "<<a>1"], ["<a>", "<a>2", "x<b>1"],
    ),
    "tags once": ('root ::= TagDispatch(("<a>", x), loop_after_dispatch=false)\nx ::= "1"', ["t", "t<a>1"], ["<a>1t"]),
    "tags and what is excluded": (
        'root ::= TagDispatch(\n  ("<a>", x),\n  excludes=("no", "never"),\n  loop_after_dispatch=true\n) '
        '"no"\nx ::= "1"',
        ["no", "t<a>1no"], ["nono", "t", "never no"],
    ),
    "tags up to a stop": (
        'root ::= TagDispatch(("<a>", x), stop_eos=false, stop_str=("."))\nx ::= "1"', ["t<a>1u."], ["t", "t.."],
    ),
    "free text": ("root ::= TagDispatch(loop_after_dispatch=true)", ["", "any"], []),
    "tags that end together": (
        'root ::= TagDispatch(("ab", x), ("b", y))\nx ::= "1"\ny ::= "2"', ["ab1", "b2", "cb2"], ["ab2", "cb1"],
    ),
    "a tag inside another": (
        'root ::= TagDispatch(("b", x), ("abca", y))\nx ::= "1"\ny ::= "2"',
        ["b1", "ab1", "abca2", "a abca2 b1"], ["b2", "bca2", "abca1", "abc2", "abca", "b"],
    ),
    "chunks": ('root ::= "x" Substring("ab", "cd") "y"', ["xy", "xaby", "xabcdy"], ["xbcy", "xacdy"]),
    "no chunks": ("root ::= Substring()", [""], ["a"]),
    "pattern in JSON": (r'root ::= Regex("\\S+", json_string=true)', ["ab"], ['a"b', "a b", r"a\n"]),
    "pattern with flags": ('root ::= Regex("a.", flags="i")', ["A.", "ab"], ["A\n"]),
    "pattern with flags inside": ('root ::= Regex("(?i)a.")', ["A.", "A\n"], ["b."]),
    "pattern as it is printed": (r'root ::= ((Regex("(\?:a|\x62)+")))', ["ab"], ["c"]),
    "lazy": ('root ::= "<" r ">"\nr[lazy] ::= [a-z] [a-z]*', ["<a>"], ["<ab>", "<>"]),
    "lazy as it is printed": (
        'root ::= (("<" r ">"))\nr[lazy] ::= ((root_0))\nroot_0 ::= (([a-z] root_0) | ([a-z]))', ["<a>"], ["<ab>"],
    ),
    "lazy on the left": ('root ::= r "!"\nr[lazy] ::= r2\nr2 ::= r2 [a-z] | "xy"', ["xy!"], ["xya!"]),
    "characters": ('root ::= r "."\nr[max_chars=2, capture="r"] ::= [a-z]*', [".", "ab."], ["abc."]),
    "bounds in bounds": (
        'root ::= r "."\nr[max_chars=4] ::= s s | "x"\ns[max_chars=3] ::= [a-z]+', ["x.", "ab."], ["abcde."],
    ),
    "look-ahead": ('root ::= a "b"\na ::= ("a" | "c") (="b")', ["ab", "cb"], ["a"]),
    "escapes": (r'root ::= "a\/b"', ["a/b"], []),
    "names": ('root ::= -x Regex\n-x ::= "a"\nRegex ::= "b"', ["ab"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_xgrammar_writes(name: str) -> None:
    text, good, bad = FUNCTIONS[name]
    constraint = gbnf(text)
    for sample in [*good, *bad]:
        assert constraint.matches(sample) == (sample in good), sample


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root ::= Token()", "one or more tokens"),
        ("root ::= Token(-1)", "an argument of Token"),
        ("root ::= Token(99999999999)", "too large"),
        ("root ::= ExcludeToken(root)", "tokens must be numbers"),
        ("root ::= Substring(1)", "strings in quotes"),
        ('root ::= Regex("a", "b")', "one pattern"),
        ('root ::= Regex("a", json_string=1)', "true or false"),
        ('root ::= Regex("a", wild=true)', "no argument 'wild'"),
        ('root ::= Regex("a", flags="i", flags="i")', "given twice"),
        ('root ::= Regex(flags="i", "a")', "come first"),
        ('root ::= Regex("a"', "expected ')'"),
        ('root ::= Regex("a" "b")', "expected ')'"),
        (r'root ::= Regex("(a+)+\\1")', "backreference"),
        ('root ::= TagDispatch("a")', "expected a tag and the rule"),
        ('root ::= TagDispatch(("", root))', "at least one character"),
        ('root ::= TagDispatch(("a", root), excludes=("a"))', "cannot be excluded"),
        ("root ::= TokenTagDispatch((3, root), excludes=(3,))", "a tag and excluded"),
        ('root ::= (="a") "b"', "at the end of a rule"),
        ('root[lazy, lazy] ::= "a"', "given twice"),
        ('root[max_chars=x] ::= "a"', "an integer"),
        ('root[] ::= "a"', "an attribute"),
    ],
)
def test_functions_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(gr.PatternError, match=re.escape(message)) as caught:
        gbnf(text)
    assert caught.value.code == "grammar-syntax"


def test_bounds_need_regular_rules() -> None:
    with pytest.raises(gr.CompileError) as caught:
        gbnf('root ::= x\nx[max_chars=9] ::= "(" x ")" | ""')
    assert caught.value.code == "grammar-bound"
    assert caught.value.span == (11, 12)


def test_tokens_of_functions() -> None:
    """Tags that are tokens, excluded tokens, and a bound in tokens."""
    vocabulary = gr.Vocabulary(
        [b"a", b"b", b"ab", b"<t>", b"<u>", b"<eos>"],
        special_tokens={"<t>": 3, "<u>": 4, "<eos>": 5},
        stop_token_ids=[5],
    )

    def masks(text: str, tokens: list[int]) -> list[set[int]]:
        matcher = gr.compile(gbnf(text), vocabulary).matcher()
        found = []
        for token in [*tokens, -1]:
            found.append({i for i, allowed in enumerate(mask_of(matcher)[:6].tolist()) if allowed})
            assert token < 0 or matcher.accept_token(token)
        return found

    tags = 'root ::= TokenTagDispatch((3, x), excludes=(4,))\nx ::= "b"'
    assert masks(tags, [0, 3, 1]) == [{0, 1, 2, 3, 5}, {0, 1, 2, 3, 5}, {1}, {0, 1, 2, 3, 5}]
    assert masks("root ::= ExcludeToken(0, 4) Token(2)", [3]) == [{1, 2, 3}, {2}]
    assert masks('root ::= r "b"\nr[max_tokens=2] ::= "a"*', [0, 0]) == [{0, 1, 2}, {0, 1, 2}, {1}]


def test_what_xgrammar_prints_is_read_back() -> None:
    xgrammar = pytest.importorskip("xgrammar")
    not_there = ("tags up to a stop", "names")  # absent from earlier versions of XGrammar, and from llama.cpp
    some = [case for name, case in FUNCTIONS.items() if name not in not_there]
    for text, good, bad in ((JSON, ['{"a": [1]}'], ['{"a": 01}']), *some):
        printed = str(xgrammar.Grammar.from_ebnf(text.replace("::= |", '::= "" |')))
        again = gbnf(printed)
        for sample in [*good, *bad]:
            assert again.matches(sample) == (sample in good), (printed, sample)


def test_tokens_that_the_vocabulary_does_not_have() -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(gbnf("root ::= <think> .*"), plain([b"a"]))
    assert caught.value.code == "unknown-token"


def test_xgrammar_agrees() -> None:
    """XGrammar gives the grammars above the same meaning, if it reads them."""
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
