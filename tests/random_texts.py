"""Texts that a guide could have produced, from random walks under a constraint."""

from __future__ import annotations

import random

import guiderail as gr

MOST_BYTES = 100_000


def random_text(constraint: gr.Constraint, rng: random.Random, steps: int) -> str:
    """Returns a text of ``steps`` random bytes, then mostly closing ones, until it may end."""
    core = constraint.program().core
    state, out = core.root, bytearray()
    for step in range(MOST_BYTES):
        if core.is_nullable(state) and (step >= steps or rng.random() < 0.25):
            break
        choices = core.first_bytes(state)
        if not choices:
            break
        closing = [byte for byte in b'"]})' if byte in choices] if step >= steps and rng.random() < 0.7 else []
        byte = closing[0] if closing else rng.choice(choices)
        out.append(byte)
        state = core.derivative(state, bytes([byte]))
    assert core.is_nullable(state), f"no end of {out[:200]!r}"
    return out.decode()
