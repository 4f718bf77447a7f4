"""Tools: what users may pass as one, and what a constraint needs to know of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.constraints.program import build_program
from guiderail.errors import CompileError
from guiderail.frontends.json_schema import JsonSchema, json_schema
from guiderail.frontends.python_types import PythonType, python_type
from guiderail.frontends.tools.errors import ToolError
from guiderail.frontends.tools.parameter_style import ParameterStyle
from guiderail.frontends.tools.parameters import Parameters
from guiderail.support.caches import cached
from guiderail.support.texts import shown

__all__ = ["Tool", "check", "flat", "name_of", "read_tool"]

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")
_ABOUT = {"name", "description", "strict", "title", "annotations", "outputSchema", "cache_control", "meta", "_meta",
          "response", "response_json_schema", "responseJsonSchema", "behavior"}  # fmt: skip
_AROUND = {"$schema", "$id", "id", "type", "$defs", "definitions"}
_OPEN = {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref",
         "$dynamicRef", "if", "not", "dependentSchemas", "dependencies", "minProperties"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called.

    Attributes:
        name: the name, as the model writes it.
        description: what it does, in words.
        arguments: the constraint on its arguments, as the format writes them.
        schema: the JSON Schema of its arguments.
        python: reads the arguments as Python values; None if the tool was given by a schema.
    """

    name: str
    description: str
    arguments: Constraint
    schema: Any = field(compare=False, hash=False)
    python: PythonType[Any] | None = None


_GEMINI = ("function_declarations", "functionDeclarations")


def flat(tools: Iterable[Any]) -> Iterator[Any]:
    """The tools one by one: a tool of Gemini's is a list of functions."""
    for given in tools:
        key = next((key for key in _GEMINI if isinstance(given, Mapping) and key in given), None)
        if key is None:
            yield given
        elif len(given) > 1 or not isinstance(given[key], list | tuple):
            other = next((one for one in given if one != key), None)
            message = f"{key!r} must be a list" if other is None else f"there is no key {other!r} beside {key!r}"
            raise ToolError(message, code="tool")
        else:
            yield from given[key]


def name_of(given: Any, position: int) -> str:
    """A name for a tool, valid or not."""
    if isinstance(given, Tool):
        return given.name
    if isinstance(given, Mapping):
        inner = next((given[key] for key in ("function", "custom", "toolSpec") if key in given), given)
        name = inner.get("name") if isinstance(inner, Mapping) else None
    else:
        name = getattr(given, "__name__", None)
    return name if isinstance(name, str) and name else f"tool {position}"


def read_tool(given: Any, style: ParameterStyle | None, options: Mapping[str, Any], extra: bool) -> Tool:
    """Makes a tool from whatever a user passes as one.

    Raises:
        ToolError, CompileError: it cannot be used; the message says why.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping) and given.get("type") == "custom" and "input_schema" not in given:
        return _custom(given, style, options)
    if isinstance(given, Mapping):
        name, description, schema = _declared(given)
        made: JsonSchema = json_schema(_arguments(schema, extra), **options)
        _good_name(name)
        return Tool(name, description, made if style is None else Parameters(made, style), schema)
    if callable(given):
        python = python_type(given, **options)
        name = _good_name(_called(given))
        described = _resolved(python.schema)
        if described.get("type") != "object":
            raise ToolError(
                "the arguments of a tool must be an object; pass a function or a class with fields", code="tool"
            )
        arguments: Constraint = python
        if style is not None:
            assert isinstance(python.constraint, JsonSchema)
            arguments = Parameters(python.constraint, style)
        return Tool(name, described.get("description", ""), arguments, python.schema, python)
    kind = type(given).__name__
    found = f"an instance of {kind}; pass the class" if hasattr(given, "__dict__") else kind
    raise ToolError(
        "a tool must be a dict in the form of OpenAI, Anthropic, Gemini or Bedrock, a function, a pydantic model or a "
        f"dataclass, not {found}",
        code="tool",
    )


def _called(given: Any) -> str:
    """The name of something that can be called."""
    while isinstance(given, functools.partial):
        given = given.func
    name = getattr(given, "__name__", None)
    return name if isinstance(name, str) else type(given).__name__


def _custom(given: Mapping[str, Any], style: ParameterStyle | None, options: Mapping[str, Any]) -> Tool:
    """A custom tool of OpenAI's: its only argument is the text ``input``, free or of a grammar."""
    import guiderail
    from guiderail.frontends.python_types.nodes import TEXT
    from guiderail.frontends.python_types.schema import type_schema

    inner = given.get("custom", {key: value for key, value in given.items() if key != "type"})
    if not isinstance(inner, Mapping) or set(inner) - {"name", "description", "format"}:
        raise ToolError(
            "a custom tool must be an object with no keys other than name, description and format", code="tool"
        )
    name, described = _good_name(inner.get("name")), inner.get("format") or {"type": "text"}
    text: Constraint | None = None
    if isinstance(described, Mapping) and described.get("type") == "grammar":
        described = described.get("grammar", described)
        syntax, definition = described.get("syntax"), described.get("definition")
        if syntax == "regex":
            text = guiderail.regex(definition)
        elif syntax == "lark":
            text = guiderail.grammar(definition, syntax="lark")
        else:
            raise ToolError(f"the syntax of a grammar must be 'lark' or 'regex', not {shown(syntax)}", code="tool")
    elif not isinstance(described, Mapping) or described.get("type") != "text":
        raise ToolError(
            f"the format of a custom tool must be of the type 'text' or 'grammar', not {shown(described)}", code="tool"
        )
    # minLength: a bare type is read without its other keywords
    inside: dict[str, Any] = {"type": "string"} if text is None else {"type": "string", "minLength": 0, TEXT: 0}
    schema = {"type": "object", "properties": {"input": inside}, "required": ["input"], "additionalProperties": False}
    made = type_schema(schema, () if text is None else (text,), dict(options))
    return Tool(name, str(inner.get("description") or ""), made if style is None else Parameters(made, style), schema)


def _resolved(schema: Any) -> Mapping[str, Any]:
    """A schema without the references that it consists of."""
    seen = 0
    while isinstance(schema, Mapping) and "$ref" in schema and seen < 8:
        label = str(schema["$ref"]).removeprefix("#/$defs/")
        schema, seen = {**schema.get("$defs", {}).get(label, {}), "$defs": schema.get("$defs", {})}, seen + 1
    return schema if isinstance(schema, Mapping) else {}


def _good_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ToolError(
            f"{shown(name)} is not a valid tool name; use 1 to 128 letters, digits and _ . : / -", code="tool-name"
        )
    return name


def _declared(given: Mapping[str, Any]) -> tuple[str, str, Any]:
    """The name, description and schema in one of the common forms."""
    kind = given.get("type", "function")
    if kind != "function" and not (kind == "custom" and "input_schema" in given):  # a custom tool of Anthropic's
        raise ToolError(
            f"a tool of the type {shown(kind)} has no arguments that a schema describes; leave it out, or pass "
            "a tool of the type 'function'",
            code="tool-type",
        )
    inner: Any = given
    for key in ("function", "toolSpec"):
        if key not in given:
            continue
        unknown = sorted(set(given) - {"type", key, "cache_control"}, key=str)
        inner = given[key]
        if unknown or not isinstance(inner, Mapping):
            message = f"there is no key {unknown[0]!r} beside {key!r}" if unknown else f"{key!r} must be an object"
            raise ToolError(message, code="tool")
        break
    schemas = [key for key in _SCHEMA_KEYS if inner.get(key) is not None]
    unknown = sorted(set(inner) - _ABOUT - {"type"} - set(_SCHEMA_KEYS), key=str)
    if unknown:
        raise ToolError(
            f"a tool has no key {unknown[0]!r}; there are name, description, parameters, strict", code="tool"
        )
    if len(schemas) > 1:
        raise ToolError(f"{schemas[0]!r} and {schemas[1]!r} mean the same; keep one", code="tool")
    description = inner.get("description") or ""
    if not isinstance(description, str):
        raise ToolError("the description must be a string", code="tool")
    schema = inner[schemas[0]] if schemas else {"type": "object"}
    if "toolSpec" in given and isinstance(schema, Mapping) and set(schema) == {"json"}:
        schema = schema["json"]
    return _good_name(inner.get("name")), description, schema


def _arguments(schema: Any, extra: bool) -> Any:
    """The schema of an object. It is closed if it names properties and does not mention others."""
    if schema is True:
        return {"type": "object"}
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool | str) else _no_object(type(schema).__name__)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list | tuple) and "object" in kind):
        from guiderail.frontends.json_schema.documents.dialects import nearest_type

        _no_object(f"of the type {shown(kind)}" + "; did you mean 'object'?" * (nearest_type(kind) == "object"))
    closed = {**schema, "type": "object"}
    if "$ref" in schema and re.search(
        r"/draft-0[3-7]/", str(schema.get("$schema"))
    ):  # what stands beside it is ignored
        closed = {key: value for key, value in closed.items() if key in _AROUND}
        closed["allOf"] = [{"$ref": schema["$ref"]}]
    names = schema.get("properties")
    required = schema.get("required", [])
    if extra or not isinstance(names, Mapping) or _OPEN & set(schema) or not isinstance(required, list | tuple):
        return closed
    if not all(isinstance(name, str) for name in required):
        return closed  # raises, with the position
    return {**closed, "additionalProperties": False} if set(required) <= set(names) else closed


def _no_object(what: str) -> Any:
    raise ToolError(f"the parameters of a tool must be the schema of an object, not {what}", code="tool")


@cached(8 << 20)
def check(arguments: Constraint) -> None:
    """Raises the errors that compiling the arguments would raise. Success is cached.

    Raises:
        CompileError, LimitError: the arguments cannot be compiled.
    """
    program = build_program(arguments)
    if not program.is_live(program.root):
        raise CompileError("no value satisfies the schema of the arguments", code="unsatisfiable")
