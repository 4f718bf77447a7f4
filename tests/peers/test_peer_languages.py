"""Grammars and schemas of other libraries' tests, compared with ``data/peers_ratchet.json`` if available."""

from __future__ import annotations

import pytest

from peer_tables import SKIP, folder
from peers.languages import RATCHET, TABLES, results

needs_tables = pytest.mark.skipif(folder("llguidance") is None, reason=SKIP)


@needs_tables
@pytest.mark.parametrize("table", TABLES)
def test_table(table: str) -> None:
    """Fails for a difference that is not listed, and for a listed case that is right or differs in another way."""
    expected = {key: verdict for key, (verdict, _) in RATCHET.listed(table).items()}
    every = list(results(table))
    differing = {one.key: one for one in every if one.verdict != "right"}
    assert not {key: one for key, one in differing.items() if key not in expected}, "differ, and are not listed"
    equal = sorted(set(expected) - set(differing))
    assert not equal, "equal now: take these out (python tests/peers/languages.py --write)"
    changed = {key: one for key, one in differing.items() if one.verdict != expected[key]}
    assert not changed, "differ in another way than the list says"


@needs_tables
@pytest.mark.parametrize("library", ["llguidance", "llama.cpp"])
def test_at_least_95_percent_are_equal(library: str) -> None:
    total = differing = 0
    for table in TABLES:
        if table.startswith(library):
            total += sum(1 for _ in results(table))
            differing += len(RATCHET.listed(table))
    assert differing <= 0.05 * total


def test_every_case_that_differs_has_a_reason() -> None:
    for table, verdicts in RATCHET.content().items():
        assert table in TABLES
        for verdict, reasons in verdicts.items():
            assert verdict in ("refused", "not refused", "false accept", "false reject"), (table, verdict)
            for reason, keys in reasons.items():
                assert len(reason) > 20 and "TODO" not in reason, (table, keys)
