"""Large inputs finish soon, with a constraint or an error that gives the reason, within bounded memory."""

from __future__ import annotations

import resource
import time

import pytest

import guiderail as gr
from bombs import BOMBS
from core_support import byte_vocabulary, mask_of

SOON = 20.0  # seconds of CPU time: ten times the counted work, for slow machines
MUCH = 1 << 20  # kilobytes of growth of the whole process


@pytest.mark.parametrize("name", BOMBS)
def test_large_inputs_end_soon(name: str) -> None:
    if name.startswith("xml"):
        pytest.importorskip("xmlschema")
    tokens = byte_vocabulary()
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        constraint = BOMBS[name]()
        matcher = gr.compile(constraint, tokens, cache=False).matcher()
        for _ in range(5):
            allowed = mask_of(matcher)
            token = int(allowed.argmax())
            if token == tokens.size - 1 or not allowed[token]:
                break
            assert matcher.accept_token(token)
    except gr.GuiderailError as error:
        assert error.code
        assert len(str(error)) < 5_000
    assert time.process_time() - began < SOON
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MUCH
