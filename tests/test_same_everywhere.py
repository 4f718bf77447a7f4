"""The same request has the same expression and costs the same in every process, wherever its objects lie in memory.

Sets of texts have another order in each process; sets of objects may have another one each time they are made.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import guiderail as gr
from guiderail.constraints.program import build_program
from guiderail.support import work
from random_schemas import Schemas
from test_work import REQUESTS

pytest.importorskip("xmlschema")

XSD = Path(__file__).parent / "data" / "xsd"

ASSUMED = {
    "dependencies": {
        "a": {"anyOf": [{"if": {"patternProperties": {"^.$": True}, "multipleOf": 3}, "else": {"const": {}}}]}
    },
    "unevaluatedProperties": {"type": "null"},
}
"""Several sub-schemas are assumed at once."""

SUBSTITUTES = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="shape" abstract="true"/>
  <xs:element name="circle" substitutionGroup="shape" type="xs:int"/>
  <xs:element name="square" substitutionGroup="shape" type="xs:date"/>
  <xs:element name="line" substitutionGroup="shape" type="xs:boolean"/>
  <xs:element name="shapes">
    <xs:complexType><xs:sequence><xs:element ref="shape" maxOccurs="9"/></xs:sequence></xs:complexType>
  </xs:element>
</xs:schema>"""

IN_ONE_PROCESS: dict[str, Callable[[], gr.Constraint]] = {
    "sub-schemas that are assumed together": lambda: gr.json_schema(ASSUMED),
    "elements that may substitute for another": lambda: gr.xml_schema(SUBSTITUTES, root="shapes"),
}


def found(request: Callable[[], gr.Constraint]) -> tuple[int, str]:
    """The steps of a request, and what tells its expression, or its error, from others."""
    gr.clear_cache()
    before = work.spent()
    try:
        with work.limited(10**9):
            program = build_program(request())
        what = hashlib.sha256(program.dump(program.root).encode()).hexdigest()
    except gr.GuiderailError as error:
        what = f"{error.code}: {error}"
    return work.spent() - before, what


@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_wherever_objects_lie(name: str) -> None:
    rng = random.Random(1)
    between: list[object] = []
    results = set()
    for _ in range(60):
        between.append([object() for _ in range(rng.randrange(500))])
        results.add(found(IN_ONE_PROCESS[name]))
    assert len(results) == 1


def everything() -> dict[str, tuple[int, str]]:
    requests = dict(REQUESTS)
    requests["a large grammar"] = gr.grammars.python
    for path in sorted(XSD.glob("*.xsd")):
        requests[path.name] = lambda path=path: gr.xml_schema(path.read_text("utf-8"))  # type: ignore[misc]
    schemas = Schemas(7)
    for number in range(200):
        schema, options = schemas.document()
        requests[f"schema {number}"] = lambda schema=schema, options=options: gr.json_schema(schema, **options)  # type: ignore[misc]
    return {name: found(request) for name, request in requests.items()}


def test_in_every_process() -> None:
    results = []
    for seed in "12":
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, timeout=600, check=True,
        )  # fmt: skip
        results.append(json.loads(done.stdout))
    one, other = results
    assert {name for name in one if one[name] != other[name]} == set()
    assert len(one) > 200


if __name__ == "__main__":
    print(json.dumps(everything()))
