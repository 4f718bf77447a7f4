"""Look-arounds at the edges of Lark's terminals, against Lark's own LALR parser and the slow oracle."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from typing import Any

import lark
import pytest

import guiderail as gr
from guiderail.frontends.grammar.lark import read
from lexer_oracle import accepts

# What undoes a match may be a part of a longer one: grammar, pieces of texts.
PENDING = {
    "digits up to the end of a word": ('start: INT INT ";" | ";"+\nINT: /\\d+\\b/', "1a ;"),
    "numbers without a point": ("start: (INT | FLOAT)+\nINT: /\\d+(?![\\w.])/\nFLOAT: /\\d+\\.\\d+/", "1.a "),
    "numbers that are no beginning of names": (
        'start: (INT | NAME | "-")+\nINT: /\\d+(?![a-z0-9])/\nNAME: /[a-z0-9]+/', "1a- ",
    ),
    "to the end of the line": ("start: A+\nA: /a/\nCOMMENT: /#.*$/m\n%ignore COMMENT", "a#b\n"),
    "as few as possible": ('start: (NAME ";")+\nNAME: /[a-z]+?(?![a-z])/', "ab; "),
    "the first that counts": ('start: (A ";")+\nA: /(?:a|aab|ab)(?!b)/', "ab; "),
    "the first quote that no other follows": ('start: (S ";")+\nS: /".*?"(?!")/', 'a"; '),
    "the first word that counts, and names": ('start: (A ";" | N "-")+\nA.1: /(?:a|aab|ab)\\b/\nN: /[ab]+/', "ab;-"),
    "signed": ('start: (INT ";")+\nINT: ["-"] DIGITS\nDIGITS: /[0-9]+(?![a-z_])/', "1-a;"),
}  # fmt: skip


def _lark_accepts(parser: Any, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def _compare(text: str, pieces: Sequence[str], longest: int) -> None:
    """Compares the verdicts of Lark, of the slow oracle and of the constraint on all texts of these pieces."""
    tree, constraint = read(text).grammar, gr.grammar(text, "lark")
    parser = lark.Lark(text, parser="lalr", g_regex_flags=re.ASCII)
    program = constraint.program()
    verdicts = {}
    for sample in ("".join(parts) for n in range(longest + 1) for parts in itertools.product(pieces, repeat=n)):
        verdicts[sample] = verdict = _lark_accepts(parser, sample)
        assert constraint.matches(sample) == verdict, sample
        assert len(sample) > 4 or accepts(tree, sample) == verdict, sample
    assert len(set(verdicts.values())) == 2
    begun = {sample[:i] for sample, good in verdicts.items() if good for i in range(len(sample) + 1)}
    assert all(program.read(program.start, sample) for sample in begun)


@pytest.mark.parametrize("name", PENDING)
def test_a_match_that_a_longer_one_replaces_is_not_undone(name: str) -> None:
    text, pieces = PENDING[name]
    _compare(text + ("" if "\n" in pieces else '\n%ignore " "'), pieces, 6)


# Look-aheads that need something after the lexeme, or a character of some set or the end.
NEEDED = {
    "a blank after a keyword": ('start: (IF NUM ";")*\nIF: /if(?=\\s)/\nNUM: /1+/', ("if", "1", " ", ";")),
    "a bracket after a name": ('start: (CALL "(" "1" ")")*\nCALL: /[a-z]+(?=\\()/', ("a", "(", ")", " ", "1")),
    "next to what it needs": ("start: A B\nA: /a(?=b)/\nB: /b|c/", ("a", "b", "c", " ")),
    "as Lark's own modifiers": (
        'start: (MODIFIERS? NAME ";")+\nMODIFIERS: /(!|![?]?|[?]!?)(?=[a-z])/\nNAME: /[a-z]+/', "a?!; ",
    ),
    "a blank or the end": ("start: (INT | NAME)+\nINT: /\\d+(?=\\s|$)/\nNAME: /[a-z]+/", ("1", "a", " ", "\n")),
    "next to what begins like it": ('start: (N ";" | X ";")*\nN: /x!(?=[ ;])/\nX: /x(?=[ ;])/', "x!; "),
    "no blank and no end": ('start: (A ";")+\nA: /a(?!\\s|$)/', ("a", ";", " ", "b")),
    "a line break or the end": ("start: A+\nA: /a/\nC: /#.*(?=\\n|$)/\n%ignore C\n%ignore /\\n/", "a#\n "),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_what_must_follow_a_match(name: str) -> None:
    text, pieces = NEEDED[name]
    _compare(text + '\n%ignore " "', pieces, 6)


# Look-behinds at the beginning of a terminal: what precedes it never ends so, or takes the next character, too.
PRECEDED = {
    "whole words": ('start: (IF NAME | NAME ";")*\nIF.1: /\\bif\\b/\nNAME: /[a-z]\\w*/', ("if", "a", " ", ";")),
    "whole words in any case": (
        'start: (IF NAME ";")*\nIF.1: /(?:\\bif\\b)/i\nNAME: /\\b[a-z]+/i', ("If", "a", " ", ";"),
    ),
    "keywords": ('start: ("if" NAME | NAME ";")*\nNAME: /\\b[a-z]\\w*/', ("if", "a", " ", ";", "1")),
    "keywords in rules of their own": (
        'start: (x | y)*\nx: "if" NAME "(" ")"\ny: NAME ";"\nNAME: /\\b[a-z]\\w*/', ("if", "a", " ", ";", "()"),
    ),
    "names without reserved words": (
        'start: ("if" NAME | NAME ";")*\nNAME: /\\b(?!(if|a)\\b)[a-z]\\w*\\b/i', ("if", "a", " ", ";", "B"),
    ),
    "no name after a number": ('start: (INT | NAME | "-")*\nINT: /\\d+\\b/\nNAME: /\\b[a-z]+/', "1a- "),
    "no number after a point": ('start: (INT "-" | "." NAME)*\nINT: /(?<!\\.)\\d+/\nNAME: /[a-z]+/', "1a.- "),
    "no number after a name": ('start: (INT "-" | NAME "-")*\nINT: /(?<![a-z])\\d+/\nNAME: /[a-z]\\w*/', "1a- "),
    "beginning of a line": ("start: (HEAD NAME | NAME)*\nHEAD: /^#/m\nNAME: /[a-z]+\\n/", "#a\n"),
    "beginning of the text": ("start: HEAD? NAME+\nHEAD: /^#/\nNAME: /[a-z]+\\n/", "#a\n"),
    "some of several": (
        'start: (OP NAME | NAME ";")*\nOP.1: /\\b(?:in|is)\\b|!/\nNAME: /[a-z]+/', ("in", "is", "!", " ", ";", "s"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRECEDED)
def test_what_must_not_precede_a_match(name: str) -> None:
    text, pieces = PRECEDED[name]
    _compare(text + ("" if "\n" in pieces else '\n%ignore " "'), pieces, 6 if len(pieces) < 6 else 5)


# A lexeme that may precede the terminal ends with what its look-behind excludes. Nothing else may follow it there.
KEPT_APART = {
    "numbers and words": (
        'start: (NAME | INT | IF INT)*\nINT: /\\d+/\nIF.1: /\\bif\\b/\nNAME: /\\b[a-z]\\w*\\b/', ("if", "a", "1", " "),
    ),
    "ignored": ('start: (X ";")*\nX: /\\bx/\n%ignore "1"', "x1; "),
    "string": ('start: ("a" X ";")*\nX: /\\bx/', "ax; "),
    "keyword where no name may be": ('start: NAME ("in" NAME)*\nNAME: /\\b[a-z]+/', ("in", "a", " ", "n")),
    "keyword at the beginning": ('start: ("if" NAME | ";" NAME)\nNAME: /\\b[a-z]+/', ("if", "x", " ", ";")),
    "point": ('start: (N ".")+ N?\nN: /(?<!\\.)1+/', "1. "),
    "some of the characters": ('start: (N | X | "-")*\nN: /1a?/\nX: /(?<!1)[x2]/', "1ax2-"),
    "in any case": ('start: (N | ON N)*\nN: /[1a]+/i\nON: /\\bon/i', ("1", "A", "on", "ON", " ")),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT_APART)
def test_what_must_not_precede_a_match_is_kept_apart(name: str) -> None:
    text, pieces = KEPT_APART[name]
    _compare(text + '\n%ignore " "', pieces, 6 if len(pieces) < 5 else 5)


# Something else may follow it there, or its end is not known at the next character.
WRONGLY_PRECEDED = {
    "number": ("start: N (X | Y)\nN: /1+/\nX: /\\bx/\nY: /xy/", "N"),
    "some of the matches": ("start: N (X | Y)\nN: /1+/\nX: /\\bx/\nY: /\\by|x/", "N"),
    "other characters": ("start: N (X | Y)\nN: /1+/\nX: /\\bx/\nY: /(?<!2)x/", "N"),
    "longer matches": ("start: N X\nN: /1+(x1)?/\nX: /\\bx/", "N"),
    "name that is a keyword": ('start: ("a" | NAME) X\nNAME: /[a-z]+/\nX: /\\b1/', "A"),
    "after a keyword": ('start: "b" "b" | N+ ";"\nN: /\\ba*b/', "N"),
    "shortest": ("start: N X\nN: /x+?/\nX: /\\bx/", "N"),
    "cut short by a look-ahead": ("start: N X\nN: /x+(?!y)/\nX: /\\b[xy]+/", "N"),
    "another language": ("start: <tool> X\nX: /\\bx/", "<tool>"),
    "and another language": ("start: N (X | <tool>)\nN: /1/\nX: /\\bx/", "N"),
}


@pytest.mark.parametrize("name", WRONGLY_PRECEDED)
def test_what_may_precede_a_match_wrongly(name: str) -> None:
    text, before = WRONGLY_PRECEDED[name]
    with pytest.raises(gr.CompileError, match=f"the terminal {before} may end") as caught:
        gr.grammar(text, "lark").program()
    assert caught.value.code == "lark-look-around"


# Alternatives that begin with one another, each a whole word.
BRANCHES = {
    "types": ('start: (TYPE NAME ";")*\nTYPE.1: /(?:in|int)\\b/\nNAME: /[a-z]+/', ("int", "in", "o", " ", ";")),
    "types, each for itself": (
        'start: (TYPE NAME ";" | NAME "=")*\nTYPE.1: "in" /\\b/ | I\nI: /into\\b/i\nNAME: /[a-z]+/i',
        ("in", "to", "To", " ", ";", "="),
    ),
    "ignored": ("start: NAME+\nNAME: /[a-z]\\w*;/\nA.1: /(in|into)(?!\\w)/\n%ignore A", ("in", "to", ";", " ")),
    "with what they have in common": (
        'start: (OP ";"+)*\nOP: /not (in|into)\\b/', ("not ", "in", "to", " ", ";"),
    ),
    "a look-ahead, and what it excludes": ('start: A ";"\nA: /a(?!b)|abb/', "ab; "),
    "not alike": ('start: (KEY | NAME ";")*\nKEY.1: /\\b(?:a|ab1?|abc)\\b/\nNAME: /[a-z]+1*/', "ab1; "),
}  # fmt: skip


@pytest.mark.parametrize("name", BRANCHES)
def test_alternatives_that_begin_with_one_another(name: str) -> None:
    text, pieces = BRANCHES[name]
    _compare(text + '\n%ignore " "', pieces, 5)


# Terminals that never come in the same place: what one looks at does not concern the other.
APART = {
    "as in Lark's own grammars": (
        'start: (MODIFIERS? NAME ":" (NAME OP?)+ ";")+\nMODIFIERS: /(!|[?]!?)(?=[a-z])/\nOP: /[+*]|[?](?![a-z])/\n'
        "NAME: /[a-z]+/", "a?:; ",
    ),
    "numbers and versions": (
        'start: (INT ";" | "v" VERSION ";")+\nINT: /\\d+(?!\\.)/\nVERSION: /\\d[.\\d]*/', "v1.; ",
    ),
    "at the end": ('start: "(" A ")" B?\nA: /ab(?=[)])/\nB: /a/', ("a", "b", "(", ")", " ")),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_terminals_that_never_come_in_the_same_place(name: str) -> None:
    text, pieces = APART[name]
    _compare(text + '\n%ignore " "', pieces, 7 if len(pieces) < 6 else 6)


# Terminals that match the empty text, which Lark refuses, are optional.
OPTIONAL = {
    "look-ahead": ("start: X SP Y\nSP: / */\nX: /a(?!b)/\nY: /b/", ("a b",), ("ab",)),
    "never": ("start: X NO Y\nNO: /(?:)/\nX: /a(?!b)/\nY: /-|b/", ("a-",), ("ab",)),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_follows_an_optional_terminal(name: str) -> None:
    text, good, bad = OPTIONAL[name]
    constraint = gr.grammar(text, "lark")
    assert all(map(constraint.matches, good)) and not any(map(constraint.matches, bad))


@pytest.mark.parametrize("end", [r"\b", r"(?!\w)"])
def test_a_long_list_of_words(end: str) -> None:
    random_ = random.Random(end)
    words = ["".join(random_.choices("abcdefgh", k=random_.randint(2, 9))) for _ in range(120)]
    words += [word + "ing" for word in words[:40]]
    text = (
        f'start: (WORD NAME ";" | NAME ";")*\nWORD.1: /\\b(?:{"|".join(words)}){end}/\nNAME: /[a-z_]\\w*/\n%ignore " "'
    )
    constraint, parser = gr.grammar(text, "lark"), lark.Lark(text, parser="lalr", g_regex_flags=re.ASCII)
    forms = ("{0} x;", "{0};", "{0}_;", "{0}s x;", "{0} {0};", "x{0}; {0} x;")
    for sample in (form.format(word) for word in words[:20] + words[-20:] for form in forms):
        assert constraint.matches(sample) == _lark_accepts(parser, sample), sample


# A text may end where the look-ahead needs more, or another terminal takes the match there.
NEEDED_AT_THE_END = [
    'start: A "b"?\nA: /a(?=b)/',
    "start: IF NAME | NAME\nIF.1: /if(?=\\s)/\nNAME: /[a-z]+/",
    'start: A ";"\nA.1: /ab(?=c)/\nB: /a/\n%ignore B',
    "start: A\nA: /a(?=b|$)/",
    "start: A B\nA: /a(?=b)/\nB: /b*/",
]


@pytest.mark.parametrize("text", NEEDED_AT_THE_END)
def test_what_must_follow_a_match_where_a_text_may_end(text: str) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.grammar(text, "lark").program()
    assert caught.value.code == "lark-look-around"
