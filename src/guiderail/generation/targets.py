"""What a user may ask a model to write, as a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.matching.guide import Guide

__all__ = ["as_constraint"]

_VALUES = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset)


def as_constraint(target: Any) -> Constraint | Guide:
    """What a user asks a model to write.

    - A :class:`Constraint` or a compiled :class:`Guide` is taken as it is.
    - A dict is a JSON Schema, if one of its keys is a keyword of JSON Schema; properties are written in the order in
      which they are declared. (``{}``, which allows anything, has to be said: ``gr.json_schema({})``.)
    - A class or another annotation (``list[int]``, ``int | None``, ``Literal[...]``) is a Python type, and a function
      stands for its parameters.

    Raises:
        CompileError: ``not-a-constraint``: it is none of these; or the schema or the type is refused.
    """
    if isinstance(target, Constraint | Guide):
        return target
    if isinstance(target, Mapping):
        return _schema(target)
    if target is None or isinstance(target, _VALUES):
        hint = "; gr.regex(...) or gr.literal(...) make one of a string" if isinstance(target, str) else ""
        raise CompileError(
            f"expected a constraint, a JSON Schema (a dict) or a Python type, not {type(target).__name__}{hint}",
            code="not-a-constraint",
        )
    from guiderail.frontends.python_types import python_type

    return python_type(target)


def _schema(schema: Mapping[str, Any]) -> Constraint:
    from guiderail.frontends.json_schema import json_schema
    from guiderail.frontends.json_schema.options import DIALECTS
    from guiderail.frontends.json_schema.vocabulary import keywords_of

    if not any(key == "$schema" or any(key in keywords_of(dialect) for dialect in DIALECTS) for key in schema):
        if not schema:
            problem = "an empty dict, as a JSON Schema, allows any value; say gr.json_schema({}) if that is meant"
        else:
            shown = ", ".join(repr(key) for key in list(schema)[:5])
            problem = f"a dict is taken for a JSON Schema, and none of its keys ({shown}) is a keyword of JSON Schema"
            if all(isinstance(value, Mapping) for value in schema.values()):
                problem += '; did you mean {"type": "object", "properties": {…}}?'
        raise CompileError(problem, code="not-a-constraint")
    return json_schema(schema, property_order="declared")
