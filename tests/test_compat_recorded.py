"""The calls of XGrammar's own tests, made to ``guiderail.compat``; see ``compat_peers.py``."""

from __future__ import annotations

import pytest

import compat_peers as peers
from peer_tables import SKIP, folder

LEAST = 0.95


@pytest.mark.slow
@pytest.mark.parametrize("library", peers.PLAYERS)
def test_recorded_tests_are_answered_alike(library: str) -> None:
    place = folder(library)
    if place is None:
        pytest.skip(SKIP)
    played = peers.PLAYERS[library](place)
    assert peers.worse(library, played) == []
    assert played.share >= LEAST


def test_each_listed_case_has_a_reason() -> None:
    found = peers.ratchet()
    used = {reason for library in peers.PLAYERS for _, reason in found[library].values()}
    assert used == set(found["reasons"])
    assert all(len(reason) > 20 for reason in found["reasons"].values())
