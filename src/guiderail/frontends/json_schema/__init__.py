"""JSON Schema as a constraint: every keyword, exactly."""

from guiderail.frontends.json_schema.constraint import JsonSchema, json_schema
from guiderail.frontends.json_schema.errors import SchemaError, SchemaLimitError
from guiderail.frontends.json_schema.options import SchemaOptions

__all__ = ["JsonSchema", "SchemaError", "SchemaLimitError", "SchemaOptions", "json_schema"]
