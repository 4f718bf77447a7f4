"""Small random grammars, most of them ambiguous: masks as a naive recognizer reads them, at a polynomial cost."""

from __future__ import annotations

import pytest

import guiderail as gr
from ambiguous_support import NOTATIONS, Recognizer, random_grammar
from guiderail import Vocabulary
from guiderail.support import work

TOKENS = ["a", "b", "ab", "ba", "aab"]
STOP = len(TOKENS)
DEPTH = 4
"""Length of the texts up to which all masks are compared."""

GROUPS = 10
SEEDS_PER_GROUP = 12


def _vocabulary() -> Vocabulary:
    return Vocabulary([*(token.encode() for token in TOKENS), b"</s>"], stop_token_ids=[STOP])


@pytest.fixture(scope="module")
def letters() -> Vocabulary:
    return _vocabulary()


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("group", range(GROUPS))
def test_masks_as_a_naive_recognizer_reads_them(group: int, notation: str, letters: Vocabulary) -> None:
    for seed in range(group * SEEDS_PER_GROUP, (group + 1) * SEEDS_PER_GROUP):
        grammar = random_grammar(seed)
        wanted = Recognizer(grammar)
        text = NOTATIONS[notation](grammar)
        matcher = gr.compile(gr.grammar(text, notation), letters).matcher()
        mask = gr.allocate_token_bitmask(1, letters.size)

        def compare(read: str) -> None:
            matcher.fill_next_token_bitmask(mask, 0)  # noqa: B023
            allowed = [token for i, token in enumerate(TOKENS) if mask[0, 0] >> i & 1]  # noqa: B023
            assert allowed == [token for token in TOKENS if wanted.begins(read + token)], (seed, text, read)  # noqa: B023
            assert matcher.is_accepting() == wanted.matches(read), (seed, text, read)  # noqa: B023
            assert bool(mask[0, 0] >> STOP & 1) == matcher.is_accepting(), (seed, text, read)  # noqa: B023
            for token in ("a", "b"):
                if len(read) < DEPTH and token in allowed:
                    assert matcher.accept_token(TOKENS.index(token))  # noqa: B023
                    compare(read + token)
                    matcher.rollback(1)  # noqa: B023

        compare("")


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_limit_within_a_few_dozen_tokens(group: int, notation: str, letters: Vocabulary) -> None:
    for seed in range(group * SEEDS_PER_GROUP, (group + 1) * SEEDS_PER_GROUP):
        _read_on(NOTATIONS[notation](random_grammar(seed)), notation, 60, seed)


def _read_on(text: str, notation: str, tokens: int, seed: int) -> list[int]:
    """The steps of work of each token and its mask, for one text of single letters."""
    letters = _vocabulary()
    matcher = gr.compile(gr.grammar(text, notation), letters, cache=False).matcher()
    mask = gr.allocate_token_bitmask(1, letters.size)
    spent = []
    for i in range(tokens):
        before = work.spent()
        matcher.fill_next_token_bitmask(mask, 0)
        allowed = [token for token in (0, 1) if mask[0, 0] >> token & 1]
        if not allowed:
            break
        assert matcher.accept_token(allowed[(i * i + i // 3 + seed) % len(allowed)])
        spent.append(work.spent() - before)
    return spent


DOUBLED: dict[str, tuple[str, str]] = {  # the work doubled with every token
    "what-may-follow-a-terminal": ("lark", 'start: | x\nx: y+ A\ny: | A? x* A*\nA: "a"\n'),
    "unions-of-tails": ("gbnf", 'root ::= root{0,3} (root root? | "b"){2,2} root{2,2} | "a"?\n'),
    "loops-of-loops": (
        "gbnf",
        'root ::= "b"+ | "b" ("a"+ "a" | "a" x?)\nx ::= x{1,2} root* | root x | "a"* root* x*\n',
    ),
}


@pytest.mark.parametrize("name", DOUBLED)
def test_the_work_of_a_text_is_at_most_cubic(name: str) -> None:
    notation, text = DOUBLED[name]
    spent = _read_on(text, notation, 80, 0)
    assert len(spent) == 80
    assert sum(spent[40:]) < 10 * sum(spent[:40]) + 20_000


def test_a_left_recursive_rule_that_matches_only_the_empty_text() -> None:
    constraint = gr.grammar('root ::= root{2,3} | root* x\nx ::= ""', "gbnf")
    assert constraint.matches("")
    assert not constraint.matches("a")
