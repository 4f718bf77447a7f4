"""The official JSON-Schema-Test-Suite, file by file, compared with ``data/schema_suite_ratchet.json``."""

from __future__ import annotations

import pytest

from schema_suite import DRAFTS, RATCHET, results, suite

FILES = [(draft, file) for draft in DRAFTS for file in suite(draft)["files"]]


@pytest.mark.parametrize(("draft", "file"), FILES, ids=[f"{draft}/{file}" for draft, file in FILES])
def test_file_of_the_suite(draft: str, file: str) -> None:
    """Fails for a wrong case that is not listed, and for a listed one that is right or wrong in another way."""
    expected = {key: verdict for key, (verdict, _) in RATCHET.listed(draft).items() if key.split(" | ")[0] == file}
    wrong = {r.key: f"{r.verdict} ({r.detail})" for r in results(draft, file) if r.verdict != "right"}
    new = {key: what for key, what in wrong.items() if key not in expected}
    assert not new, "wrong, and not listed"
    assert not set(expected) - set(wrong), "right now: take these out (python tests/schema_suite.py --write)"
    changed = {key: what for key, what in wrong.items() if not what.startswith(expected[key])}
    assert not changed, "wrong in another way than the list says"


def test_the_list_names_cases_that_exist() -> None:
    for draft in RATCHET.content():
        files = suite(draft)["files"]
        for key in RATCHET.listed(draft):
            file, case, *test = key.split(" | ")
            cases = [c for c in files.get(file, []) if c["description"] == case]
            assert cases, f"{draft}: {key}"
            assert not test or any(t["description"] == test[0] for c in cases for t in c["tests"]), f"{draft}: {key}"


def test_the_list_gives_reasons_and_permits_no_false_accept() -> None:
    for draft in RATCHET.content():
        for key, (verdict, reason) in RATCHET.listed(draft).items():
            assert verdict in ("refused", "unsatisfiable", "false reject", "false accept"), key
            assert verdict != "false accept" or key.startswith("optional/"), key
            assert len(reason) > 10 and "TODO" not in reason, f"{draft}: {key}: a reason is missing"


@pytest.mark.parametrize("draft", DRAFTS)
def test_at_least_97_percent_are_right(draft: str) -> None:
    """Of the required part; a rejected schema counts for all its instances."""
    files = {name: cases for name, cases in suite(draft)["files"].items() if not name.startswith("optional/")}
    total = sum(len(case["tests"]) for cases in files.values() for case in cases)
    wrong = 0
    for key in RATCHET.listed(draft):
        file, case, *test = key.split(" | ")
        if file in files:
            wrong += 1 if test else next(len(c["tests"]) for c in files[file] if c["description"] == case)
    assert wrong <= 0.03 * total


@pytest.mark.parametrize("draft", DRAFTS)
def test_formats_can_be_left_as_annotations(draft: str) -> None:
    """``format`` asserts by default. The required part of the suite needs it as an annotation, which is an option."""
    if "format" in suite(draft)["files"]:
        wrong = [r.key for r in results(draft, "format", format="annotate") if r.verdict != "right"]
        assert wrong == []


@pytest.mark.parametrize("draft", DRAFTS)
def test_integers_may_be_written_with_a_point(draft: str) -> None:
    """The cases that the list attributes to the spelling of integers pass with the option."""
    spellings = [key for key, (_, reason) in RATCHET.listed(draft).items() if reason.startswith("integers are written")]
    for file in {key.split(" | ")[0] for key in spellings}:
        wrong = {r.key for r in results(draft, file, integers="any") if r.verdict != "right"}
        assert not wrong & set(spellings)
