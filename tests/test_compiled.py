"""Front ends as machine code: what the interpreter does for Python, and mypyc's code must get elsewhere."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import guiderail as gr
from compiled import ROOT, compiled_modules, library_of

FORMS: dict[str, Any] = {
    "allOf": lambda inner: {"allOf": [inner, {"minLength": 1}]},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "number"}]},
    "oneOf": lambda inner: {"oneOf": [inner, {"required": ["z"]}]},
    "not": lambda inner: {"not": inner},
    "if": lambda inner: {"if": inner, "then": {"maxLength": 7}, "else": {"type": "integer"}},
    "properties": lambda inner: {"properties": {"x": inner}, "required": ["x"], "type": "object"},
    "patternProperties": lambda inner: {"patternProperties": {"^a": inner}, "type": "object"},
    "items": lambda inner: {"items": inner, "uniqueItems": True, "minItems": 2},
    "contains": lambda inner: {"contains": inner, "type": "array"},
    "unevaluatedProperties": lambda inner: {"allOf": [inner], "unevaluatedProperties": False},
    "propertyNames": lambda inner: {"propertyNames": inner},
}
CHAINS = [[form] for form in FORMS] + [["not", "items"], ["anyOf", "properties", "if"], ["contains", "oneOf"]]

ON_A_SMALL_STACK = """
import json, sys, threading
import guiderail as gr
def work():
    for schema in map(json.loads, sys.stdin):
        try:
            gr.json_schema(schema).program()
            print("compiled")
        except gr.LimitError as error:
            print(error.code)
threading.stack_size(512 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def chain(forms: list[str], length: int) -> dict[str, Any]:
    """Definitions of which each refers to the next."""
    definitions: dict[str, Any] = {
        f"d{i}": FORMS[forms[i % len(forms)]]({"$ref": f"#/$defs/d{i + 1}"}) for i in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": {"type": "string", "pattern": "a"}}}


@pytest.mark.parametrize("length", [100, 3_000, 30_000])
def test_recursion_ends_before_the_stack_does(length: int) -> None:
    lines = "\n".join(json.dumps(chain(forms, length)) for forms in CHAINS)
    done = subprocess.run(
        [sys.executable, "-c", ON_A_SMALL_STACK], input=lines, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = done.stdout.split()
    assert len(answers) == len(CHAINS)
    assert {*answers} <= {"compiled", "depth", "work"}
    found = dict(zip(map("-".join, CHAINS), answers, strict=True))
    assert [found.pop(name) for name in ("allOf", "unevaluatedProperties")] == ["compiled"] * 2  # followed in a loop
    assert ("compiled" in found.values()) is (length == 100) and ("depth" in found.values()) is (length != 100)


def test_other_threads_run_while_a_schema_compiles() -> None:
    members = {f"n{i}": {"type": "integer", "minimum": i} for i in range(1_000)}
    constraint = gr.json_schema({"allOf": [{"properties": {name: member}} for name, member in members.items()]})
    turns = 0
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        thread = threading.Thread(target=constraint.program)
        thread.start()
        while thread.is_alive():
            thread.join(1e-5)
            turns += 1
    finally:
        sys.setswitchinterval(before)
    assert turns > 10


def test_sources_and_machine_code_agree() -> None:
    """On random schemas, malformed ones among them: the same expressions or errors, and the same work."""
    if not compiled_modules() or library_of(compiled_modules()[0]) is None:
        pytest.skip("front ends are not compiled")
    for seed in (1, 2):
        lines = [fates(seed), fates(seed, "interpreted")]
        for one, other in zip(*lines, strict=True):
            assert one == other
        assert any('["compiled"' in line for line in lines[0])


def fates(seed: int, *form: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "random_schemas.py", str(seed), "300", *form],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def frontends() -> ModuleType:
    pytest.importorskip("mypyc")
    spec = importlib.util.spec_from_file_location("frontends", ROOT / "cmake" / "frontends.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_mypyc_mistranslates_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "some.py"
    source.write_text("class Set:\n    def __contains__(self, value: object) -> bool:\n        return True\n")
    (complaint,) = frontends().mistaken(str(source))
    assert complaint.startswith(f"{source}:2: mypyc mistranslates __contains__")
    for module in compiled_modules():
        assert [*frontends().mistaken(str(ROOT / "src" / f"{module}.py"))] == []
