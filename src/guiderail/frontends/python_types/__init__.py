"""Python types as constraints, and their strings as values.

``walk`` (with ``fields``, ``bounds``, ``objects`` and ``pydantic_types``) turns a type into a tree of nodes (``nodes``,
``containers``, ``scalars``). Each node has a JSON Schema, which the front end of JSON Schema lowers, and reads values
back from trees of text (:mod:`guiderail.support.trees`).
"""

from guiderail.frontends.python_types.constraint import PythonType, call, python_type, read

__all__ = ["PythonType", "call", "python_type", "read"]
