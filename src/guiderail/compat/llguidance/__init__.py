"""``llguidance``'s interface over guiderail: ``import guiderail.compat.llguidance as llguidance``.

Names, arguments and results are those of llguidance 1.9; ``docs/coming_from.md`` lists the differences. Helpers for
arrays are in ``numpy``, ``torch`` and ``mlx``, those for tokenizers in ``hf`` and ``tiktoken``.
"""

from __future__ import annotations

from guiderail.compat.llguidance._executor import LLExecutor
from guiderail.compat.llguidance._interpreter import LLInterpreter
from guiderail.compat.llguidance._matcher import LLMatcher, LLParserLimits
from guiderail.compat.llguidance._sources import (
    GrammarFormat,
    JsonCompiler,
    LarkCompiler,
    RegexCompiler,
    StructTag,
    get_version,
    grammar_from,
    regex_to_lark,
)
from guiderail.compat.llguidance._tokenizer import LLTokenizer, TokenizerWrapper

__version__ = "1.9.1"  # of the interface

__all__ = [
    "GrammarFormat",
    "JsonCompiler",
    "LLExecutor",
    "LLInterpreter",
    "LLMatcher",
    "LLParserLimits",
    "LLTokenizer",
    "LarkCompiler",
    "RegexCompiler",
    "StructTag",
    "TokenizerWrapper",
    "__version__",
    "get_version",
    "grammar_from",
    "regex_to_lark",
]
