"""Python types as constraints, and their texts as values.

The way of a type: ``walk`` (with ``fields``, ``bounds``, ``objects`` and ``pydantic_types``) turns it into a tree of
nodes (``nodes``, ``containers``, ``scalars``); each node says its JSON Schema, which the front end of JSON Schema
lowers, and reads values back from trees of text (:mod:`guiderail.support.trees`).
"""

from guiderail.frontends.python_types.constraint import PythonType, call, python_type, read

__all__ = ["PythonType", "call", "python_type", "read"]
