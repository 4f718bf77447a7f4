"""Intersections of many conditions on non-ASCII characters, which are read by whole characters.

The mask of each place is compared with ``validate`` of each token, and with Python's ``re`` on all short texts. The
vocabularies have tokens that end inside characters.
"""

from __future__ import annotations

import re

import pytest

import guiderail as gr
from core_support import EVERY_BYTE, plain
from guiderail import _core
from mask_walks import Walk, check_walk

VOCABULARY = gr.Vocabulary([None, b'"', b"a"], stop_token_ids=[0])
# The text must contain a match; with !, it must not.
CONDITIONS = {
    "contexts": ["[éÿ€]", "!^b", "!b$", "!aa", "!é[₭€]", "!€(?![ab])", "!😀😀", "!^.?.?qq", "!ÿ[^ÿa]?ÿ", "!₭.*₭"],
    "pairs": ["!ab", "!bé", "!éÿ", "!ÿ€", "!€₭", "!₭😀", "!😀😁", "!😁q", "!qa", ".", "[^q]"],
    "needs-one-of-each": ["[a-z]", "[é-ÿ]", "[€₭]", "!q", "!aab", "!bba", "!éé", "!€€", "!₭₭"],
    "far": ["!a.b", "!b.a", "!é.é", "!€..", "!q", "!😁", "!ÿ.?ÿ", "^[^₭]", "[^a]$"],
    "one-end": ["€$", "!^€", "!a$|b$", "!éa", "!éb", "!ÿ", "!q", "!😀$", "!₭₭", "!😁[aé]"],
    "nothing-beyond": ["^[abq]*$", "!aa", "!bb", "!qq", "!ab", "!ba", "!é", "!€", "!😀"],
}


@pytest.mark.parametrize("counts", [(0, None), (0, 3), (2, 3), (1, 2)], ids=repr)
@pytest.mark.parametrize("name", CONDITIONS)
def test_masks_of_many_conditions(name: str, counts: tuple[int, int | None]) -> None:
    low, high = counts
    wanted = [c for c in CONDITIONS[name] if not c.startswith("!")]
    unwanted = [c[1:] for c in CONDITIONS[name] if c.startswith("!")]
    schema: dict[str, object] = {
        "type": "string",
        "allOf": [*({"pattern": c} for c in wanted), *({"not": {"pattern": c}} for c in unwanted)],
        "minLength": low,
    }
    if high is not None:
        schema["maxLength"] = high
    find = [re.compile(c, re.DOTALL) for c in wanted]
    refuse = [re.compile(c, re.DOTALL) for c in unwanted]

    def meaning(text: str) -> bool:
        return (
            len(text) >= low
            and (high is None or len(text) <= high)
            and all(p.search(text) for p in find)
            and not any(p.search(text) for p in refuse)
        )

    walk = Walk(name, gr.json_schema(schema), meaning, True, high)
    for seed in range(4):
        assert check_walk(walk, seed) is None


def _containing(words: list[str], **more: object) -> gr.Constraint:
    return gr.json_schema({"type": "string", "allOf": [{"pattern": word} for word in words], **more})


@pytest.mark.parametrize("count", [6, 12, 20])
@pytest.mark.parametrize("length", [None, 100, 200])
def test_texts_that_contain_many_words_are_found_in_few_steps(count: int, length: int | None) -> None:
    words = [f"{chr(97 + i)}{i % 10}{chr(97 + (i + 1) % 26)}" for i in range(count)]
    more = {} if length is None else {"minLength": length, "maxLength": length}
    text = "".join(words).ljust(length or 0, "-")
    with gr.max_work(300_000):  # in the order in which they come, 2 ** count sets of words would be tried
        constraint = _containing(words, **more)
        assert constraint.matches(f'"{text}"')
    assert not constraint.matches(f'"{text[1:]}"')


@pytest.mark.parametrize("size", range(3, 9))
def test_whether_words_fit_is_decided_exactly(size: int) -> None:
    constraint = _containing(["ab", "bc", "de"], minLength=size, maxLength=size)  # abcde is the shortest
    if size < 5:
        with pytest.raises(gr.CompileError, match="no value"):
            gr.compile(constraint, VOCABULARY)
    else:
        assert gr.compile(constraint, VOCABULARY).matcher().accept_token(1)


WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"]
WORDS += ["xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon"]


@pytest.mark.parametrize("parts", [WORDS, [f"x{i:02}" for i in range(30)]], ids=["words", "numbers"])
def test_a_way_to_meet_many_conditions_is_found(parts: list[str]) -> None:
    """In any order: there are 2^n sets of conditions, of which a search must not visit each."""
    with gr.max_work(2_000_000):
        wanted = gr.json_schema({"type": "string", "allOf": [{"pattern": part} for part in parts]})
        assert wanted.matches('"' + " ".join(reversed(parts)) + '"')
        assert not wanted.matches('"' + " ".join(parts[1:]) + '"')


@pytest.mark.parametrize("count", [80, 200])
def test_a_state_that_still_needs_many_words_needs_no_search(count: int) -> None:
    words = [f"{chr(97 + i % 26)}{i:03}" for i in range(count)]
    vocabulary = plain([*EVERY_BYTE, *(word.encode() for word in words)])
    matcher = gr.compile(_containing(words), vocabulary, cache=False).matcher()
    bits = gr.allocate_token_bitmask(1, vocabulary.size)
    before = _core.spent_work()
    for piece in ('"', words[0], words[1][:3], "xé", words[2]):
        assert matcher.accept_string(piece)
        matcher.fill_next_token_bitmask(bits, 0)
    assert _core.spent_work() - before < 4_000 * count
    assert not _containing(words).matches('"' + "".join(words[:-1]) + '"')
    assert _containing(words).matches('"' + "".join(words) + '"')
