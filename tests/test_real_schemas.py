"""Published schemas, with other validators' verdicts on values: a sample of `benchmarks/real_schemas.py`.

The sample has schemas of GitHub's OpenAPI description (MIT), CycloneDX and AsyncAPI (both Apache-2.0).
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail.constraints.program import build_program

SAMPLE = Path(__file__).parent / "data" / "real_schemas.json.gz"


@lru_cache(maxsize=1)
def sample() -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(gzip.decompress(SAMPLE.read_bytes()))}


@pytest.mark.parametrize("name", list(sample()))
def test_verdicts(name: str) -> None:
    row = sample()[name]
    old = row["dialect"] == "openapi-3.0" or "draft-04" in str(row["schema"].get("$schema"))
    integers = "plain" if old else "any"
    constraint = gr.json_schema(row["schema"], dialect=row["dialect"], format="annotate", integers=integers)
    program = build_program(constraint)
    for value, valid in row["values"]:
        text = json.dumps(value, ensure_ascii=False)
        read = program.is_nullable(program.derivative(program.root, text.encode()))
        assert read == valid == constraint.accepts(value), text


def test_the_sample_has_both_verdicts() -> None:
    verdicts = [valid for row in sample().values() for _, valid in row["values"]]
    assert verdicts.count(True) > 100 and verdicts.count(False) > 50
