"""Intersections of many conditions on non-ASCII characters, which are read by whole characters.

The mask of each place is compared with ``validate`` of each token, and with Python's ``re`` on all short texts. The
vocabularies have tokens that end inside characters.
"""

from __future__ import annotations

import re

import pytest

import guiderail as gr
from mask_walks import Walk, check_walk

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


WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"]
WORDS += ["xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon"]


@pytest.mark.parametrize("parts", [WORDS, [f"x{i:02}" for i in range(30)]], ids=["words", "numbers"])
def test_a_way_to_meet_many_conditions_is_found(parts: list[str]) -> None:
    """In any order: there are 2^n sets of conditions, of which a search must not visit each."""
    with gr.max_work(2_000_000):
        wanted = gr.json_schema({"type": "string", "allOf": [{"pattern": part} for part in parts]})
        assert wanted.matches('"' + " ".join(reversed(parts)) + '"')
        assert not wanted.matches('"' + " ".join(parts[1:]) + '"')
