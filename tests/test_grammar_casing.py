"""Keywords that match in any case are written in one case, and what is written matches."""

from __future__ import annotations

import itertools
import pickle
import random
import re

import pytest

import guiderail as gr
from core_support import byte_vocabulary
from guiderail import grammars
from language_parsers import STATEMENTS

NAMES = '\nNAME: /[a-z_]+/i\n%ignore " "'
GRAMMARS = {
    "keyword and name": 'start: "set"i NAME "to"i NAME' + NAMES,
    "keyword or name": 'start: ("not"i | NAME)+' + NAMES,
    "keyword alone": 'start: "yes"i | "no"i',
    "where no name may stand": 'start: ("if"i WORD)+ NAME?\nWORD: /[A-Z]+/\nNAME: /[a-z_]+/i\n%ignore " "',
    "as it is spelled": 'start: "Begin"i NAME "End"i' + NAMES,
    "other names": 'start: ("ab"i | LOWER | UPPER)+\nLOWER: /[a-z]+/\nUPPER: /[A-Z]+/\n%ignore " "',
    "names of rules": 'start: (odd_case | nowhere | "ab"i)+ NAME\nodd_case: "x"\nnowhere: "y"' + NAMES,
}
WORDS = [
    "set",
    "SET",
    "Set",
    "sEt",
    "to",
    "To",
    "TO",
    "a",
    "B",
    "cD",
    "not",
    "NOT",
    "Not",
    "yes",
    "yEs",
    "NO",
    "if",
    "IF",
    "iF",
    "XY",
    "begin",
    "BEGIN",
    "Begin",
    "beGin",
    "End",
    "END",
    "eND",
    "ab",
    "AB",
    "aB",
    "Ab",
    "x",
    "y",
]
SPELLED = {"begin": "Begin", "end": "End"}
KEYWORDS = {"set", "to", "not", "yes", "no", "if", "begin", "end", "ab"}


def is_odd(word: str) -> bool:
    return word.lower() in KEYWORDS and word not in (word.lower(), word.upper(), SPELLED.get(word.lower()))


@pytest.mark.parametrize("name", GRAMMARS)
def test_written_is_what_matches_without_odd_cases(name: str) -> None:
    constraint = gr.grammar(GRAMMARS[name], "lark")
    written = constraint.as_written()
    texts = [" ".join(words) for n in (1, 2) for words in itertools.product(WORDS, repeat=n)]
    rng = random.Random(1)
    texts += [" ".join(rng.choices(WORDS, k=rng.randint(3, 4))) for _ in range(3000)]
    found = 0
    for text in texts:
        if written.matches(text):
            assert constraint.matches(text), text
            found += 1
        elif constraint.matches(text):
            assert any(map(is_odd, text.split())) or name == "keyword alone", text
    assert found


def test_no_keyword_in_an_odd_case() -> None:
    for name, text in (("keyword and name", "Set a to b"), ("as it is spelled", "bEgin a end")):
        constraint = gr.grammar(GRAMMARS[name], "lark")
        assert constraint.matches(text) and not constraint.as_written().matches(text)
    spelled = gr.grammar(GRAMMARS["as it is spelled"], "lark").as_written()
    assert [spelled.matches(text) for text in ("Begin a END", "begin a End", "BEGIN a end")] == [True] * 3


def test_what_has_no_keywords_is_written_as_it_is() -> None:
    for text in ('start: "a"', 'start: "select"', "start: /ab/i"):
        constraint = gr.grammar(text, "lark")
        assert constraint.as_written() is constraint
    written = gr.grammar(GRAMMARS["keyword and name"], "lark").as_written()
    assert written.as_written() is written and pickle.loads(pickle.dumps(written)) == written


def in_case(statement: str, case: str) -> str:
    """Returns a statement with its words in another case; quoted texts do not change."""
    change = {"upper": str.upper, "lower": str.lower, "title": str.title}[case]
    parts = re.split(r"""('[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\])""", statement)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))


def test_sql_is_written_in_one_case() -> None:
    sql = grammars.sql()
    written = sql.as_written()
    for statement in STATEMENTS:
        assert not written.matches(in_case(statement, "title")) or not re.search("[a-zA-Z]{2}", statement), statement
        for case in ("upper", "lower"):
            text = in_case(statement, case)
            if not re.search(r"(?i)\bx'|\b0x|\de[+-]?\d|--|/\*", text):
                assert written.matches(text) == sql.matches(text), text


def test_a_mask_leads_to_no_odd_case() -> None:
    """Byte by byte, capitals may come exactly where a statement in capitals needs them."""
    vocabulary = byte_vocabulary()
    matcher = gr.compile(grammars.sql().as_written(), vocabulary).matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    for byte in b"SELECT a FROM":
        matcher.fill_next_token_bitmask(bitmask, 0)
        assert gr.bitmask_to_bool(bitmask, vocabulary.size)[0][byte]
        assert matcher.accept_token(byte)
    matcher.reset()
    for byte in b"SEL":
        matcher.accept_token(byte)
    matcher.fill_next_token_bitmask(bitmask, 0)
    assert gr.bitmask_to_bool(bitmask, vocabulary.size)[0].nonzero()[0].tolist() == [ord("E")]


def test_places_and_captures_of_what_is_written() -> None:
    vocabulary = byte_vocabulary()
    grammar = gr.grammar('start: "set"i name "to"i NAME\nname[capture]: NAME' + NAMES, "lark")
    found = gr.inspect.replay(grammar, "set a to b", vocabulary=vocabulary)
    places = [step.place for step in found.steps]
    assert [place.terminals for place in places if place is not None][1:4] == [("SET",), ("SET",), ("NAME",)]
    assert "\\u0000" not in found.to_json() and "terminal" not in (places[0].rest if places[0] else "")
    assert grammar.as_written().captures("SET x to b") == {"name": ["x"]}
    assert "nowhere" not in str(grammar.as_written().report())
    assert gr.inspect.replay(grammars.sql(), "SELECT a FROM b", vocabulary=vocabulary).finish == "open"
