"""EBNF in both notations: what each construct means, what is rejected, and the location of every fault."""

from __future__ import annotations

import itertools
import sys

import pytest

import guiderail as gr

XML = """
[1]  document ::= element Misc*
[2]  Char     ::= #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]
[3]  S        ::= (#x20 | #x9 | #xD | #xA)+
[4]  Name     ::= [:A-Z_a-z] [:A-Z_a-z0-9.#xB7-]*   /* shortened */
[15] Comment  ::= '<!--' ((Char - '-') | ('-' (Char - '-')))* '-->'
[16] PI       ::= '<?' PITarget (S (Char* - (Char* '?>' Char*)))? '?>'
[17] PITarget ::= Name - (('X' | 'x') ('M' | 'm') ('L' | 'l'))
[27] Misc     ::= Comment | PI | S
[39] element  ::= '<' Name '/>' | '<' Name '>' content '</' Name '>'
[43] content  ::= CharData? ((element | PI | Comment) CharData?)*
[14] CharData ::= [^<&]* - ([^<&]* ']]>' [^<&]*)
"""


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (XML, ["<a/>", "<a>x<b/>y</a><!-- c-d -->", "<a><?p q?r?></a>\n"], ["", "<a>]]></a>", "<a/><!-- -- -->"]),
        (XML, ["<a><?xmlx?></a>"], ["<a><?xml?></a>", "<a><?XmL ?></a>", "<a><?p a"]),
        ("a ::= 'x' \"y\"", ["xy"], ["x"]),
        ("a ::= 'x' | b\nb ::= 'y'?", ["x", "", "y"], ["xy"]),
        ("a ::= ('x' | 'y')+ 'z'*", ["x", "yxzz"], ["", "z"]),
        ("a ::= #x41 #x1F600", ["A😀"], ["A"]),
        ("a ::= [#x41-#x43] [abc] [^abc]", ["Aad"], ["Aaa", "Dad"]),
        ("a ::= [a-cx] [^#x20-#x7E]", ["bé", "xé"], ["dé", "bb"]),
        (r"a ::= '\n'", [r"\n"], ["\n"]),
        ("a ::= 'it''s'", ["its"], ["it's"]),
        ("a ::= b - 'no' - 'never'\nb ::= [a-z]+", ["yes"], ["no", "never", "No"]),
        ("a ::= ([a-z] - [aeiou])+", ["xyz"], ["xaz"]),
        ("a ::= [a-z]+ - ([a-z]* 'x' [a-z]*)", ["abc"], ["axc", ""]),
        ("a ::= /* nothing */", [""], ["a"]),
        ("/* head */ a ::= 'x' /* tail */ b\n\nb ::= 'y'", ["xy"], ["x"]),
        ("a ::= a '+' b | b\nb ::= [0-9]+", ["1", "1+22+3"], ["+", "1+"]),
    ],
)
def test_w3c(text: str, good: list[str], bad: list[str]) -> None:
    constraint = gr.grammar(text, "ebnf")
    assert constraint.syntax == "ebnf-w3c"
    assert [t for t in good if not constraint.matches(t)] == []
    assert [t for t in bad if constraint.matches(t)] == []


# ISO/IEC 14977, section 5, gives the texts of each of these rules.
ISO_EXAMPLES = """
AA = "A";
BB = 3 * AA, "B";
CC = 3 * [AA], "C";
DD = {AA}, "D";
EE = AA, {AA}, "E";
FF = 3 * AA, 3 * [AA], "F";
GG = {3 * AA}, "G";
"""


@pytest.mark.parametrize(
    ("start", "good", "bad"),
    [
        ("AA", ["A"], ["", "AA"]),
        ("BB", ["AAAB"], ["AAB", "AAAAB"]),
        ("CC", ["C", "AC", "AAC", "AAAC"], ["AAAAC"]),
        ("DD", ["D", "AD", "AAD", "AAAAAD"], ["A"]),
        ("EE", ["AE", "AAE"], ["E"]),
        ("FF", ["AAAF", "AAAAF", "AAAAAF", "AAAAAAF"], ["AAF", "AAAAAAAF"]),
        ("GG", ["G", "AAAG", "AAAAAAG"], ["AG", "AAAAG"]),
    ],
)
def test_examples_of_the_standard(start: str, good: list[str], bad: list[str]) -> None:
    constraint = gr.grammar(ISO_EXAMPLES, "ebnf", start=start)
    assert constraint.syntax == "ebnf-iso"
    assert [t for t in good if not constraint.matches(t)] == []
    assert [t for t in bad if constraint.matches(t)] == []


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("a = 'x', \"y\" ;", ["xy"], ["x"]),
        ("a = 'x' | 'y' / 'z' ! 'w' .", ["x", "y", "z", "w"], [""]),
        ("a = (/ 'x' /), (: 'y' :), ( 'z' ) ;", ["z", "xyyz"], ["x"]),
        ("a = 'x', ;", ["x"], ["xx"]),
        ("a = ;", [""], ["x"]),
        ("a = { 'x' }- ;", ["x", "xxx"], [""]),
        ("a = two words, 'x' ; two   words = 'y' ;", ["yx"], ["x"]),
        ("letter = 'a' | 'b' | 'c' ; ", ["a"], ["d"]),
        ("a = letter - 'b' ; letter = 'a' | 'b' | 'c' ;", ["a", "c"], ["b"]),
        ("a = {letter} - 'ab', '.' ; letter = 'a' | 'b' ;", [".", "a.", "aba."], ["ab."]),
        ("a = (* one (* nested *) *) 'x' (**) ;", ["x"], [""]),
        ("a = 2 * ('x' | 'y') ;", ["xx", "xy"], ["x"]),
        ("a = 1 0 * 'x' ;", ["x" * 10], ["x"]),
        ("a = 0 * 'x', 'y' ;", ["y"], ["xy"]),
        ("a = a, '+', b | b ; b = '1' ;", ["1", "1+1"], ["1+"]),
        (r"a = '\n' ;", [r"\n"], ["\n"]),
    ],
)
def test_iso(text: str, good: list[str], bad: list[str]) -> None:
    constraint = gr.grammar(text, "ebnf-iso")
    assert [t for t in good if not constraint.matches(t)] == []
    assert [t for t in bad if constraint.matches(t)] == []


# What the standard does not allow, and most write.
WITHOUT_THE_STANDARD = {
    "no commas": ("a = 'x' { b 'y' } [ 'z' ] ( 'w' | b ) ; b = 'q' ;", ["xw", "xqyqyzq"], ["x", "xqw"]),
    "no commas, names": ("a = b c [ b c ] ; b = 'x' ; c = 'y' ;", ["xy", "xyxy"], ["x", "xyx"]),
    "no commas, names with blanks": ("a = b c d ; b c = 'x' ; b = 'y' ; d = 'z' ;", ["xz"], ["yz", "z"]),
    "no commas, a count": ("a = 2 * b c ; b = 'x' ; c = 'y' ;", ["xxy"], ["xyxy", "xx"]),
    "no commas, an exception": ("a = b - 'x' c ; b = 'x' | 'y' ; c = 'z' ;", ["yz"], ["xz", "y"]),
    "no semicolons": ("a = b { '+', b }\nb = 'x'\n  | 'y'\n", ["x", "x+y"], ["", "x+"]),
    "no semicolons, no commas": ("a =\n  b { '+' b }\nb\n  = c c\nc = 'x'", ["xx", "xx+xx"], ["x"]),
    "full stops": ("a = b { '+' b } .\nb = 'x' | 'y' .\n", ["x", "x+y"], ["", "x+"]),
    "other signs": ("a ::= b c\nb := 'x' ; c -> d ; d : (: 'y' :) ; ", ["x", "xyy"], [""]),
    "names in brackets": ("<a> ::= <b c> { '+' <b c> }\n<b c> ::= 'x'", ["x", "x+x"], ["+"]),
    "stars": ("a = b* ('+' b)+ ;b = 'x'+ ;", ["xx+x", "+x+xx"], ["x", ""]),
    "ranges": ("a = { 'a' .. 'c' | \"0\"...\"9\" | 'x'…'z' } .", ["b5y", ""], ["d", "."]),
    "comments of C": (
        "// one\n/* two * / */ a = b ; // three\nb = 'x' / 'y' // 'z' ;\n/**/",
        ["x", "y", "z", ""],
        ["xy"],
    ),
    "comments": ("# the whole\na = 'x' # and so on\n  'y' ;", ["xy"], ["x"]),
}


@pytest.mark.parametrize("name", WITHOUT_THE_STANDARD)
def test_iso_as_most_write_it(name: str) -> None:
    text, good, bad = WITHOUT_THE_STANDARD[name]
    constraint = gr.grammar(text, "ebnf-iso")
    assert [t for t in good if not constraint.matches(t)] == []
    assert [t for t in bad if constraint.matches(t)] == []


def test_backus() -> None:
    text = "<sum> ::= <one term> | <sum> '+' <one term>\n<one term> ::= 'x' | (<sum>)\n"
    constraint = gr.grammar(text)
    assert constraint.syntax == "ebnf-w3c"
    assert constraint.matches("x+x") and not constraint.matches("x+")
    assert gr.grammar(text, start="one term").matches("x")
    assert gr.grammar("<sum> ::= 'x' { '+' 'x' } ;").syntax == "ebnf-iso"
    assert gr.grammar("sum ::= 'x' { '+' 'x' }\n").matches("x+x")


# Without the empty text, though what is repeated is recursive: in ISO's notation, and the same in GBNF.
ONCE_OR_MORE = {
    "repetition": ("s = { t }- ; t = 'a' | '(', s, ')' ;", "root ::= t+\nt ::= 'a' | '(' root ')'"),
    "one in the other": (
        "s = { t, { 'b', [ s ] }- }- | 'a' ; t = 'a' | '(', s, ')' ;",
        "root ::= (t ('b' root?)+)+ | 'a'\nt ::= 'a' | '(' root ')'",
    ),
    "of parts that may be empty": (
        "s = { [ t ], [ 'b' ] }- ; t = 'a' | '(', s, ')' ;",
        "root ::= (t 'b'? | 'b')+\nt ::= 'a' | '(' root ')'",
    ),
    "option": (
        "s = [ 'b' ], [ t, [ 'b' ] ] - ; t = 'a' | '(', s, ')' ;",
        "root ::= 'b'? t 'b'?\nt ::= 'a' | '(' root ')'",
    ),
    "alternatives": (
        "s = ( { t } | [ 'b' ] | ) - ; t = 'a' | '(', s, ')' ;",
        "root ::= t+ | 'b'\nt ::= 'a' | '(' root ')'",
    ),
}


@pytest.mark.parametrize("name", ONCE_OR_MORE)
def test_iso_once_or_more_of_what_is_recursive(name: str) -> None:
    iso, gbnf = ONCE_OR_MORE[name]
    once, same = gr.grammar(iso, "ebnf-iso"), gr.grammar(gbnf.replace("'", '"'), "gbnf")
    texts = ["".join(letters) for n in range(7) for letters in itertools.product("ab()", repeat=n)]
    assert [text for text in texts if once.matches(text) != same.matches(text)] == []
    assert any(once.matches(text) for text in texts) and not once.matches("")


def test_iso_recursive_rules_that_may_be_empty_are_refused() -> None:
    with pytest.raises(gr.PatternError, match="must be free of recursion"):
        gr.grammar("s = { t }- ; t = 'a' | '(', s, ')' | ;", "ebnf-iso")


@pytest.mark.parametrize(
    ("syntax", "text", "at", "code"),
    [
        ("ebnf-w3c", "a = 'x'", "=", "grammar-syntax"),
        ("ebnf-w3c", "a ::= 'x", "'x", "grammar-syntax"),
        ("ebnf-w3c", "a ::= [x", "[x", "grammar-syntax"),
        ("ebnf-w3c", "a ::= []", "[]", "grammar-syntax"),
        ("ebnf-w3c", "a ::= [b-a]", "b-a", "grammar-syntax"),
        ("ebnf-w3c", "a ::= ('x'", "(", "grammar-syntax"),
        ("ebnf-w3c", "a ::= 'x')", ")", "grammar-syntax"),
        ("ebnf-w3c", "a ::= 'x' -", "-", "grammar-syntax"),
        ("ebnf-w3c", "a ::= ('x' - | 'y')", "-", "grammar-syntax"),
        ("ebnf-w3c", "a ::= - 'x'", "-", "grammar-syntax"),
        ("ebnf-w3c", "a ::= #xD800", "#xD800", "grammar-syntax"),
        ("ebnf-w3c", "a ::= #x110000", "#x110000", "grammar-syntax"),
        ("ebnf-w3c", "a ::= #y", "#y", "grammar-syntax"),
        ("ebnf-w3c", "a ::= /* x", "/*", "grammar-syntax"),
        ("ebnf-w3c", "a ::= 'x'\na ::= 'y'", "a ::= 'y'", "grammar-syntax"),
        ("ebnf-w3c", "a ::= b", "b", "grammar-undefined"),
        ("ebnf-w3c", "a ::= 'x' [ wfc: unique names ]", "[ wfc", "grammar-unsupported"),
        ("ebnf-w3c", "a ::= b - 'x'\nb ::= '(' b ')' | 'x'", "- 'x'", "grammar-unsupported"),
        ("ebnf-iso", "a ; 'x' ;", ";", "grammar-syntax"),
        ("ebnf-iso", "a = 'x ;", "'x", "grammar-syntax"),
        ("ebnf-iso", "a = '' ;", "''", "grammar-syntax"),
        ("ebnf-iso", "a = ('x' ;", "('x'", "grammar-syntax"),
        ("ebnf-iso", "a = ['x') ;", ")", "grammar-syntax"),
        ("ebnf-iso", "a = ['x'", "['x'", "grammar-syntax"),
        ("ebnf-iso", "a = ('x' b = 'y' ;", "=", "grammar-syntax"),
        ("ebnf-iso", "a = 3 'x' ;", "'x'", "grammar-syntax"),
        ("ebnf-iso", "a = [0-9], 'x' ;", "-", "grammar-syntax"),
        ("ebnf-iso", "a = { 'x' }+ ;", "+", "grammar-syntax"),
        ("ebnf-iso", "a = 'x'? ;", "?", "grammar-syntax"),
        ("ebnf-iso", "a = 'b' .. 'a' ;", "'b' .. 'a'", "grammar-syntax"),
        ("ebnf-iso", "a = 'bc' .. 'd' ;", "'bc' .. 'd'", "grammar-syntax"),
        ("ebnf-iso", "a = '0' | ... | '9' ;", ".", "grammar-syntax"),
        ("ebnf-iso", "a = b c d ; b = 'x' ; c d = 'y' ; b c = 'z' ; d = 'w' ;", "b c d", "grammar-undefined"),
        ("ebnf-w3c", "a ::= { 'x' }", "{", "grammar-syntax"),
        ("ebnf-w3c", "a ::= 'x' ;", ";", "grammar-syntax"),
        ("ebnf-w3c", "a ::= <b>\nb ::= 'x'", "<", "grammar-syntax"),
        ("ebnf-iso", "a = (* x ;", "(*", "grammar-syntax"),
        ("ebnf-iso", "a = ? a letter ? ;", "? a letter ?", "grammar-unsupported"),
        ("ebnf-iso", "a = 'x' ; a = 'y' ;", "a = 'y'", "grammar-syntax"),
        ("ebnf-iso", "a = bee ; be = 'x' ;", "bee", "grammar-undefined"),
    ],
)
def test_faults_have_a_place(syntax: str, text: str, at: str, code: str) -> None:
    with pytest.raises(gr.PatternError) as caught:
        gr.grammar(text, syntax)
    error = caught.value
    assert error.code == code
    assert error.source == text and error.span is not None
    assert text[error.span[0] :].startswith(at), error


def test_rules_used_in_exceptions_are_not_called_unreachable() -> None:
    assert gr.grammar(XML, "ebnf").report().unreachable == ()
    assert gr.grammar("a ::= 'x'\nb ::= 'y'", "ebnf").report().unreachable == ("b",)


def test_deeply_nested_grammars() -> None:
    limit = sys.getrecursionlimit()
    deep = 10 * limit
    assert gr.grammar("a ::= " + "('x' " * deep + ")" * deep, "ebnf").matches("x" * deep)
    assert gr.grammar("a = " + "('x', " * deep + "'y'" + ")" * deep + ";", "ebnf").matches("x" * deep + "y")


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("a ::= b - 'x'\nb ::= [a-z] - 'y'", "z", "xy"),
        ("a ::= (b - 'x') c\nb ::= c - 'y'\nc ::= ([a-z] - 'z') | 'yy'", "wyy", "wz"),
        ("a = b - 'x'; b = ('x' | 'y' | c) - 'y'; c = 'z' | 'y';", "z", "y"),
    ],
)
def test_an_exception_may_use_rules_with_exceptions_that_come_later(text: str, good: str, bad: str) -> None:
    made = gr.grammar(text, "ebnf")
    assert made.matches(good)
    assert not made.matches(bad)


@pytest.mark.parametrize(
    ("text", "at", "name"),
    [
        ("a ::= b - 'x'\nb ::= [a-z] - c\nc ::= 'y' b", "[a-z] - c", "'b'"),
        ("a ::= b - 'x'\nb ::= 'y' a", "b - 'x'", "'a'"),
        ("a ::= (b - 'x') - 'y'\nb ::= 'z' b", "b - 'x'", "'b'"),
        ("a ::= b - 'x'\nb ::= [a-z] - none", "[a-z] - none", "'none'"),
    ],
)
def test_recursion_in_an_exception_names_the_rule_and_the_innermost_exception(text: str, at: str, name: str) -> None:
    with pytest.raises(gr.PatternError, match=f"{name} refers back to itself or is not defined") as caught:
        gr.grammar(text, "ebnf")
    assert caught.value.code == "grammar-unsupported"
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)].strip() in at
