"""``xgrammar``'s interface over guiderail: ``import guiderail.compat.xgrammar as xgr``.

Names, arguments and results are those of XGrammar 0.2; ``docs/coming_from.md`` lists the differences. Bitmasks are
torch tensors, as in XGrammar. torch is loaded when the first one is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from guiderail.compat.xgrammar import exception
from guiderail.compat.xgrammar.bitmasks import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from guiderail.compat.xgrammar.compiler import CompiledGrammar, GrammarCompiler
from guiderail.compat.xgrammar.config import (
    get_max_recursion_depth,
    get_serialization_version,
    max_recursion_depth,
    set_max_recursion_depth,
)
from guiderail.compat.xgrammar.exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    InvalidStructuralTagError,
)
from guiderail.compat.xgrammar.grammar import Grammar
from guiderail.compat.xgrammar.matcher import BatchGrammarMatcher, GrammarMatcher
from guiderail.compat.xgrammar.tokenizer_info import TokenizerInfo, VocabType

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "TokenizerInfo",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "exception",
    "get_bitmask_shape",
    "get_builtin_structural_tag",
    "get_max_recursion_depth",
    "get_model_structural_tag",
    "get_serialization_version",
    "max_recursion_depth",
    "normalize_tool_choice",
    "register_model_structural_tag",
    "reset_token_bitmask",
    "set_max_recursion_depth",
]

_LATER = {  # needs torch, transformers or pydantic, or is rarely used
    "StructuralTag": "structural_tag",
    "StructuralTagItem": "structural_tag",
    "builtin_structural_tag": "",
    "contrib": "",
    "get_builtin_structural_tag": "builtin_structural_tag",
    "get_model_structural_tag": "builtin_structural_tag",
    "hf": "contrib",
    "normalize_tool_choice": "builtin_structural_tag",
    "openai_tool_call_schema": "",
    "register_model_structural_tag": "builtin_structural_tag",
    "structural_tag": "",
    "testing": "",
}


def __getattr__(name: str) -> Any:
    if name == "bitmask_dtype":
        return import_module("torch").int32
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _LATER[name].endswith("structural_tag"):
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return import_module(".".join(filter(None, (__name__, _LATER[name], name))))
