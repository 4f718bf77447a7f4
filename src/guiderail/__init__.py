"""Constrained decoding: make a language model write text that provably fits a constraint.

The public names, all of them. ``import guiderail as gr`` is the convention. A name is loaded when it is first used,
so that importing the package costs little.
"""

import typing as _typing
from importlib import import_module as _import_module

if _typing.TYPE_CHECKING:
    from guiderail import inspect, patterns
    from guiderail.bitmask import (
        allocate_token_bitmask,
        apply_token_bitmask,
        apply_token_bitmask_inplace,
        bitmask_to_bool,
        bool_to_bitmask,
        reset_token_bitmask,
    )
    from guiderail.constraint import (
        Constraint,
        any_character,
        any_text,
        choice,
        delimited_list,
        empty,
        literal,
        nothing,
        optional,
        repeat,
        separated_by,
        sequence,
        special_token,
        substring_of,
        text_until,
    )
    from guiderail.disk_cache import set_cache_dir
    from guiderail.errors import (
        ArgumentError,
        BitmaskError,
        CompileError,
        GuiderailError,
        LimitError,
        MatcherError,
        ModelError,
        PatternError,
        VocabularyError,
    )
    from guiderail.explain import Explanation
    from guiderail.extensions import (
        delimited_subsequence_of,
        image,
        paragraph_token,
        quoted_text,
        text_token,
        unquoted_text,
    )
    from guiderail.frontends.grammar import GrammarConstraint, GrammarReport, Ref, grammar
    from guiderail.frontends.json_schema import JsonSchema, SchemaError, SchemaLimitError, SchemaOptions, json_schema
    from guiderail.frontends.python_types import PythonType, ReadError, call, python_type, read
    from guiderail.frontends.regex import regex
    from guiderail.frontends.tools import (
        Tool,
        ToolCall,
        ToolCallReader,
        ToolCalls,
        ToolDelta,
        ToolError,
        ToolText,
        ToolTextError,
        ToolWarning,
        tool_formats,
    )
    from guiderail.frontends.tools.structural_tag import structural_tag
    from guiderail.frontends.tools.tool_calls import tool_calls
    from guiderail.frontends.xml_schema import (
        XmlReadError,
        XmlSchema,
        XmlSchemaError,
        XmlSchemaLimitError,
        XmlSchemaOptions,
        xml_schema,
    )
    from guiderail.generation import (
        Generation,
        IncompleteError,
        Snapshot,
        Stream,
        ValueStream,
        generate,
        generations,
        stream,
    )
    from guiderail.guide import Guide, MemoryUse, clear_cache, compile, memory
    from guiderail.matcher import Matcher, fill_next_token_bitmasks
    from guiderail.models import load_model
    from guiderail.token_automaton import TokenAutomaton
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "ArgumentError",
    "BitmaskError",
    "CompileError",
    "Constraint",
    "Explanation",
    "Generation",
    "GrammarConstraint",
    "GrammarReport",
    "Guide",
    "GuiderailError",
    "IncompleteError",
    "JsonSchema",
    "LimitError",
    "Matcher",
    "MatcherError",
    "MemoryUse",
    "ModelError",
    "PatternError",
    "PythonType",
    "ReadError",
    "Ref",
    "SchemaError",
    "SchemaLimitError",
    "SchemaOptions",
    "Snapshot",
    "Stream",
    "TokenAutomaton",
    "Tool",
    "ToolCall",
    "ToolCallReader",
    "ToolCalls",
    "ToolDelta",
    "ToolError",
    "ToolText",
    "ToolTextError",
    "ToolWarning",
    "ValueStream",
    "Vocabulary",
    "VocabularyError",
    "XmlReadError",
    "XmlSchema",
    "XmlSchemaError",
    "XmlSchemaLimitError",
    "XmlSchemaOptions",
    "allocate_token_bitmask",
    "any_character",
    "any_text",
    "apply_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_to_bool",
    "bool_to_bitmask",
    "call",
    "choice",
    "clear_cache",
    "compile",
    "delimited_list",
    "delimited_subsequence_of",
    "empty",
    "fill_next_token_bitmasks",
    "generate",
    "generations",
    "grammar",
    "image",
    "inspect",
    "json_schema",
    "literal",
    "load_model",
    "memory",
    "nothing",
    "optional",
    "paragraph_token",
    "patterns",
    "python_type",
    "quoted_text",
    "read",
    "regex",
    "repeat",
    "reset_token_bitmask",
    "separated_by",
    "sequence",
    "set_cache_dir",
    "special_token",
    "stream",
    "structural_tag",
    "substring_of",
    "text_token",
    "text_until",
    "tool_calls",
    "tool_formats",
    "unquoted_text",
    "xml_schema",
]

# Where the public names live.
_HOME = {
    "guiderail.bitmask": (
        "allocate_token_bitmask",
        "apply_token_bitmask",
        "apply_token_bitmask_inplace",
        "bitmask_to_bool",
        "bool_to_bitmask",
        "reset_token_bitmask",
    ),
    "guiderail.constraint": (
        "Constraint",
        "any_character",
        "any_text",
        "choice",
        "delimited_list",
        "empty",
        "literal",
        "nothing",
        "optional",
        "repeat",
        "separated_by",
        "sequence",
        "special_token",
        "substring_of",
        "text_until",
    ),
    "guiderail.disk_cache": ("set_cache_dir",),
    "guiderail.errors": (
        "ArgumentError",
        "BitmaskError",
        "CompileError",
        "GuiderailError",
        "LimitError",
        "MatcherError",
        "ModelError",
        "PatternError",
        "VocabularyError",
    ),
    "guiderail.explain": ("Explanation",),
    "guiderail.extensions": (
        "delimited_subsequence_of",
        "image",
        "paragraph_token",
        "quoted_text",
        "text_token",
        "unquoted_text",
    ),
    "guiderail.frontends.grammar": (
        "GrammarConstraint",
        "GrammarReport",
        "Ref",
        "grammar",
    ),
    "guiderail.frontends.json_schema": (
        "JsonSchema",
        "SchemaError",
        "SchemaLimitError",
        "SchemaOptions",
        "json_schema",
    ),
    "guiderail.frontends.python_types": (
        "PythonType",
        "ReadError",
        "call",
        "python_type",
        "read",
    ),
    "guiderail.frontends.regex": ("regex",),
    "guiderail.frontends.tools": (
        "Tool",
        "ToolCall",
        "ToolCallReader",
        "ToolCalls",
        "ToolDelta",
        "ToolError",
        "ToolText",
        "ToolTextError",
        "ToolWarning",
        "structural_tag",
        "tool_calls",
        "tool_formats",
    ),
    "guiderail.frontends.xml_schema": (
        "XmlReadError",
        "XmlSchema",
        "XmlSchemaError",
        "XmlSchemaLimitError",
        "XmlSchemaOptions",
        "xml_schema",
    ),
    "guiderail.generation": (
        "Generation",
        "IncompleteError",
        "Snapshot",
        "Stream",
        "ValueStream",
        "generate",
        "generations",
        "stream",
    ),
    "guiderail.guide": (
        "Guide",
        "MemoryUse",
        "clear_cache",
        "compile",
        "memory",
    ),
    "guiderail.matcher": (
        "Matcher",
        "fill_next_token_bitmasks",
    ),
    "guiderail.models": ("load_model",),
    "guiderail.token_automaton": ("TokenAutomaton",),
    "guiderail.vocabulary": ("Vocabulary",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> object:
    if name in ("inspect", "patterns"):
        return _import_module(f"guiderail.{name}")
    if name in _MODULE_OF:
        value = globals()[name] = getattr(_import_module(_MODULE_OF[name]), name)
        return value
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("guiderail")
        except PackageNotFoundError:  # run from a source tree that was never installed
            return "0+unknown"
    raise AttributeError(f"module 'guiderail' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
