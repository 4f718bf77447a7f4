"""Answers the page's questions, as JSON: reads a constraint, and examines a text under it.

The package ``guiderail.inspect`` needs NumPy and the generation modules. Here only its modules that follow a text
through a constraint are used, so this module creates the package without running its ``__init__``.
"""

from __future__ import annotations

import json
import sys
import time
import types
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import guiderail as gr

_folder = Path(gr.__file__).parent / "inspect"
if "guiderail.inspect" not in sys.modules:
    _package = types.ModuleType("guiderail.inspect")
    _package.__path__ = [str(_folder)]
    sys.modules["guiderail.inspect"] = _package

from places import span_of  # noqa: E402

from guiderail.constraints.constraint import Constraint  # noqa: E402  after the package exists
from guiderail.constraints.program import Program  # noqa: E402
from guiderail.errors import GuiderailError  # noqa: E402
from guiderail.inspect.where import Where, source_of  # noqa: E402

__all__ = ["look", "program_handle", "read", "warm"]

_LONGEST_FORCED = 400
_WARM = (
    "guiderail.inspect.grammar_location", "guiderail.inspect.json_location", "guiderail.inspect.regex_location",
    "jsonschema_specifications", "lark.common", "lark.indenter", "lark.load_grammar", "lark.parsers.lalr_analysis",
    "referencing.jsonschema",
)  # fmt: skip
_COLD = {"saved", "python_types", "xml_schema", "queries", "disk_cache"}  # the page uses none of them
_current: Constraint | None = None
_source = ""  # its text


def read(kind: str, text: str, options: str = "{}") -> str:
    """Compiles a constraint, which later calls use.

    Args:
        kind: ``"schema"``, ``"regex"`` or ``"grammar"``.
        text: as the user wrote it.
        options: keyword options of the front end, as JSON.
    """
    global _current, _source
    began = time.perf_counter()
    answer: dict[str, Any] = {"ok": False, "kind": kind}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = _made(kind, text, json.loads(options))
            program = Program.of(made)
            _current, _source = made, text
            answer.update(ok=True, empty=not program.start, nodes=program.core.node_count())
            answer["rules"] = [list(rule) for rule in source_of(made).rules]
            if kind == "grammar":
                answer["notation"] = getattr(made, "syntax", "")
        except json.JSONDecodeError as error:
            answer["error"] = {"message": error.msg, "code": "json", "span": [error.pos, error.pos + 1]}
        except GuiderailError as error:
            answer["error"] = _fault(error, text)
        except RecursionError:
            answer["error"] = {"message": "this is nested too deeply for a browser", "code": "depth"}
    answer["warnings"] = [str(one.message) for one in caught][:5]
    answer["milliseconds"] = 1000 * (time.perf_counter() - began)
    return json.dumps(answer)


def warm() -> None:
    """Imports everything that a constraint may need, for the snapshot."""
    for name in _WARM:
        import_module(name)
    root = Path(gr.__file__).parent
    for floor in ("constraints", "frontends", "support"):
        for path in sorted((root / floor).rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            if not _COLD.intersection(parts):
                import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def _made(kind: str, text: str, options: dict[str, Any]) -> Constraint:
    if kind == "schema":
        return gr.json_schema(json.loads(text), **options)
    if kind == "regex":
        return gr.regex(text, **options)
    return gr.grammar(text, **options)


def _fault(error: GuiderailError, text: str) -> dict[str, Any]:
    told: dict[str, Any] = {"message": error.message, "code": error.code}
    if error.span is not None and error.source == text:
        told["span"] = list(error.span)
    elif error.span is not None:
        told["message"] = error.render()
    pointer = getattr(error, "pointer", None)
    if isinstance(pointer, str) and text:
        found = span_of(text, pointer)
        if found is not None:
            told["span"] = list(found)
    told["conflict"] = [[one, json.dumps(value)] for one, value in getattr(error, "conflict", ())]
    return told


def look(text: str) -> str:
    """Returns what may come after a text, or where and why it fails."""
    began = time.perf_counter()
    if _current is None:
        return json.dumps({"ok": False})
    try:
        told = _current.explain(text)
        place = _place(told.prefix if told.failed_at is None else told.prefix[: told.failed_at])
    except GuiderailError as error:
        return json.dumps({"ok": False, "error": _fault(error, "")})
    answer = {
        "ok": True,
        "valid": told.valid,
        "failed_at": told.failed_at,
        "accepting": told.accepting,
        "complete": told.complete,
        "expected": list(told.expected),
        "forced": told.forced[:_LONGEST_FORCED],
        "examples": list(told.examples),
        "hint": told.hint,
        "place": place,
        "schema_span": _schema_span(place),
        "milliseconds": 1000 * (time.perf_counter() - began),
    }
    return json.dumps(answer)


def _schema_span(place: dict[str, Any] | None) -> list[int] | None:
    """Returns the span of the constraint's text that describes the location, if a single part of the schema does."""
    if not place or len(place.get("schema", ())) != 1 or place["schema"] == ("#",):  # all of it
        return None
    found = span_of(_source, place["schema"][0])
    return None if found is None else list(found)


def _place(read: str) -> dict[str, Any] | None:
    assert _current is not None
    where = Where(_current)
    where.feed(read.encode())
    program = Program.of(_current)
    state = program.read(program.start, read)
    found = where.place(program.dump(state) if state and len(read) < 10_000 else "")
    return None if found is None else found.as_dict()


def program_handle() -> int:
    """Returns the core's handle of the current program, or 0 if there is none."""
    if _current is None:
        return 0
    core: Any = Program.of(_current).core
    return int(core.handle)
