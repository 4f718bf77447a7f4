# The public names, all of them, and where each lives. `__init__.py` loads a name from here when it is first used.
from . import inspect as inspect
from .constraints.constraint import (
    Constraint as Constraint,
    any_character as any_character,
    any_text as any_text,
    choice as choice,
    delimited_list as delimited_list,
    empty as empty,
    literal as literal,
    nothing as nothing,
    optional as optional,
    repeat as repeat,
    separated_by as separated_by,
    sequence as sequence,
    special_token as special_token,
    substring_of as substring_of,
    text_until as text_until,
)
from .constraints.explain import Explanation as Explanation
from .constraints.saved import load as load
from .errors import (
    ArgumentError as ArgumentError,
    BitmaskError as BitmaskError,
    CompileError as CompileError,
    GuiderailError as GuiderailError,
    LimitError as LimitError,
    MatcherError as MatcherError,
    ModelError as ModelError,
    PatternError as PatternError,
    ReadError as ReadError,
    VocabularyError as VocabularyError,
)
from .frontends import grammars as grammars, patterns as patterns
from .frontends.extensions import (
    delimited_subsequence_of as delimited_subsequence_of,
    image as image,
    paragraph_token as paragraph_token,
    quoted_text as quoted_text,
    text_token as text_token,
    unquoted_text as unquoted_text,
)
from .frontends.grammar import (
    GrammarConstraint as GrammarConstraint,
    GrammarReport as GrammarReport,
    Ref as Ref,
    grammar as grammar,
)
from .frontends.infill import infill as infill
from .frontends.json_schema import (
    JsonSchema as JsonSchema,
    SchemaError as SchemaError,
    SchemaLimitError as SchemaLimitError,
    SchemaOptions as SchemaOptions,
    json_schema as json_schema,
)
from .frontends.prompts import prompt_of as prompt_of
from .frontends.python_types import (
    PythonType as PythonType,
    call as call,
    python_type as python_type,
    read as read,
)
from .frontends.regex import regex as regex
from .frontends.tools import (
    Tool as Tool,
    ToolCall as ToolCall,
    ToolCallReader as ToolCallReader,
    ToolCalls as ToolCalls,
    ToolDelta as ToolDelta,
    ToolError as ToolError,
    ToolText as ToolText,
    ToolTextError as ToolTextError,
    ToolWarning as ToolWarning,
    tool_formats as tool_formats,
)
from .frontends.tools.structural_tag import structural_tag as structural_tag
from .frontends.tools.tool_calls import tool_calls as tool_calls
from .frontends.xml_schema import (
    XmlReadError as XmlReadError,
    XmlSchema as XmlSchema,
    XmlSchemaError as XmlSchemaError,
    XmlSchemaLimitError as XmlSchemaLimitError,
    XmlSchemaOptions as XmlSchemaOptions,
    xml_schema as xml_schema,
)
from .generation.awaiting import agenerate as agenerate, agenerations as agenerations
from .generation.distribution.outcome import (
    Draw as Draw,
    Estimate as Estimate,
    Particle as Particle,
    PassesError as PassesError,
)
from .generation.generate import (
    Generation as Generation,
    IncompleteError as IncompleteError,
    ShortenedError as ShortenedError,
    ShortenedWarning as ShortenedWarning,
    Snapshot as Snapshot,
    Stream as Stream,
    ValueStream as ValueStream,
    generate as generate,
    generations as generations,
    stream as stream,
)
from .generation.logprobs import TokenLogprob as TokenLogprob
from .generation.mass import Mass as Mass, mass as mass
from .generation.models import load_model as load_model
from .generation.probabilities import Probabilities as Probabilities, probabilities as probabilities
from .matching.bitmask import (
    allocate_token_bitmask as allocate_token_bitmask,
    apply_token_bitmask as apply_token_bitmask,
    apply_token_bitmask_inplace as apply_token_bitmask_inplace,
    bitmask_to_bool as bitmask_to_bool,
    bool_to_bitmask as bool_to_bitmask,
    reset_token_bitmask as reset_token_bitmask,
)
from .matching.guide import (
    Guide as Guide,
    MemoryUse as MemoryUse,
    clear_cache as clear_cache,
    compile as compile,
    memory_use as memory_use,
)
from .matching.matcher import (
    Matcher as Matcher,
    fill_next_token_bitmasks as fill_next_token_bitmasks,
)
from .matching.token_automaton import TokenAutomaton as TokenAutomaton
from .support.disk_cache import set_cache_dir as set_cache_dir
from .support.work import max_work as max_work
from .vocabulary import Vocabulary as Vocabulary

__version__: str
