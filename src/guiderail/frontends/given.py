"""What users may give for a constraint: one, or a JSON Schema, a Python type, strings to choose from."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from inspect import isfunction
from itertools import islice
from typing import TYPE_CHECKING, Any

from guiderail.constraints.constraint import Constraint, choice
from guiderail.constraints.program import Program
from guiderail.errors import CompileError
from guiderail.support.callers import outside
from guiderail.support.nesting import nested
from guiderail.support.suggestions import resembling
from guiderail.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guiderail.frontends.json_schema import JsonSchema
    from guiderail.frontends.json_schema.faults import Fault

__all__ = ["are_texts", "constraint_of", "typos", "written_by_model"]

_MOST_WARNINGS = 10
_VALUES = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset, os.PathLike, re.Pattern)


def constraint_of(given: Any) -> Constraint:
    """The constraint that a user means.

    - A :class:`Constraint` is taken as it is.
    - A dict is a JSON Schema, if one of its keys is a keyword of JSON Schema; properties are written in the order in
      which they are declared. (``{}``, which allows anything, must be written explicitly: ``gr.json_schema({})``.)
    - A list of strings is a choice of them.
    - A class or another annotation (``list[int]``, ``int | None``, ``Literal[...]``) is a Python type, and a function
      stands for its parameters.

    Raises:
        CompileError: ``not-a-constraint``: it is none of these; or the schema or the type is refused.
    """
    if isinstance(given, Constraint):
        return given
    if isinstance(given, Mapping):
        return _schema(given)
    if are_texts(given):
        return choice(given)
    if given is None or isinstance(given, _VALUES):
        raise CompileError(
            "expected a constraint, a JSON Schema (a dict), a Python type or a list of strings, not "
            f"{type(given).__name__}{_way_out(given)}",
            code="not-a-constraint",
        )
    if _makes_a_constraint(given):
        raise CompileError(
            f"{given.__name__} is a function that makes a constraint; call it: {given.__name__}(…)",
            code="not-a-constraint",
        )
    if isinstance(given, Program):
        raise CompileError("expected a constraint, not its program; pass program.constraint", code="not-a-constraint")
    if isinstance(given, Vocabulary):
        raise CompileError(
            "expected a constraint, not a vocabulary; the constraint comes first: gr.compile(constraint, vocabulary)",
            code="not-a-constraint",
        )
    from guiderail.frontends.python_types import python_type

    return python_type(given)


def written_by_model(given: Any) -> Constraint:
    """The same as a model writes under it: see :meth:`Constraint.as_written`."""
    with nested("the constraint"):
        return constraint_of(given).as_written()


def are_texts(given: Any) -> bool:
    """Whether these are strings to choose from: a list or tuple of strings."""
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(one, str) for one in given)


def _makes_a_constraint(given: Any) -> bool:
    """Whether this is a function such as ``gr.patterns.date``, which would stand for its parameters."""
    if not isfunction(given):
        return False
    try:
        return given.__annotations__.get("return") in ("Constraint", Constraint)
    except Exception:  # Python 3.14 evaluates annotations here; python_type says what is wrong with them
        return False


def _way_out(given: Any) -> str:
    if isinstance(given, str):
        if given.lstrip().startswith("{"):
            return "; gr.json_schema(...) reads a schema from a string"
        return "; gr.regex(...) or gr.literal(...) make one from a string"
    if isinstance(given, os.PathLike):
        return "; gr.json_schema, gr.grammar and gr.xml_schema read files"
    if isinstance(given, re.Pattern):
        return "; pass gr.regex(pattern)"
    if isinstance(given, list | tuple | set | frozenset):
        return "; choices must be a list of one or more strings"
    return "; gr.any_text() allows any text" if given is None else ""


def _schema(schema: Mapping[str, Any]) -> Constraint:
    from guiderail.frontends.json_schema import json_schema
    from guiderail.frontends.json_schema.documents.dialects import WRAPPED, held_schema, keywords_of
    from guiderail.frontends.json_schema.options import DIALECTS

    if not any(key == "$schema" or any(key in keywords_of(dialect) for dialect in DIALECTS) for key in schema):
        if not schema:
            problem = "an empty dict, as a JSON Schema, allows any value; pass gr.json_schema({}) if you mean that"
        else:
            shown = ", ".join(repr(key) for key in list(schema)[:5])
            problem = f"a dict is read as a JSON Schema, but none of its keys ({shown}) is a keyword of JSON Schema; "
            within = held_schema(schema)
            meant = {key: resembling(key, keywords_of("2020-12")) for key in list(schema)[:5]}
            key = next((key for key, near in meant.items() if near is not None), None)
            if within is not None:
                problem += f"pass the value of {within!r}"
            elif key is not None and not isinstance(schema[key], Mapping):
                problem += f"did you mean {meant[key]!r} by {key!r}?"
            else:
                problem += 'did you mean {"type": "object", "properties": {…}}?'
        raise CompileError(problem, code="not-a-constraint")
    wrapped = WRAPPED.get(schema["type"]) if isinstance(schema.get("type"), str) else None
    if wrapped is not None:
        raise CompileError(f"this is {wrapped}", code="not-a-constraint")
    made = json_schema(schema, property_order="declared")
    for fault in typos(made):  # they would be ignored without notice
        warnings.warn(f"in the schema, {fault}", stacklevel=outside())
    return made


@lru_cache(maxsize=128)
def typos(made: JsonSchema) -> tuple[Fault, ...]:
    """The first few keywords and formats of a schema that look misspelt; they have no effect."""
    from guiderail.frontends.json_schema.documents.references import dialect_of
    from guiderail.frontends.json_schema.faults import misspelt

    schema = made.schema
    if not isinstance(schema, Mapping):
        return ()
    return tuple(islice(misspelt(schema, dialect_of(schema.get("$schema")) or "2020-12"), _MOST_WARNINGS))
