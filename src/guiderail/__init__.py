"""Constrained decoding: make a language model write text that provably fits a constraint.

The public names, all of them. ``import guiderail as gr`` is the convention.
"""

from guiderail import _core, errors

_core.set_error_factory(errors.from_core)

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError  # noqa: E402
from importlib.metadata import version as _version  # noqa: E402
from typing import TYPE_CHECKING as _TYPE_CHECKING  # noqa: E402

from guiderail import patterns  # noqa: E402
from guiderail.constraint import (  # noqa: E402
    Constraint,
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
from guiderail.errors import (  # noqa: E402
    BitmaskError,
    CompileError,
    GuiderailError,
    LimitError,
    MatcherError,
    ModelError,
    PatternError,
    VocabularyError,
)
from guiderail.guide import Guide, clear_cache, compile  # noqa: E402
from guiderail.matcher import Matcher, fill_next_token_bitmasks  # noqa: E402
from guiderail.vocabulary import Vocabulary  # noqa: E402

try:  # noqa: SIM105  (temporary)
    from guiderail.bitmask import (
        allocate_token_bitmask,
        apply_token_bitmask_inplace,
        bitmask_to_bool,
        bool_to_bitmask,
        reset_token_bitmask,
    )
except ImportError:
    pass
try:
    from guiderail.generate import generate, stream
    from guiderail.models import load_model
except ImportError:
    pass
from guiderail.frontends.regex import regex  # noqa: E402
from guiderail.token_automaton import TokenAutomaton  # noqa: E402

try:
    __version__ = _version("guiderail")
except _PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
