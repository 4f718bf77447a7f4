"""How to write here what other libraries call by another name, for messages about unknown names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from guiderail.support.suggestions import suggestion

__all__ = [
    "CONSTRAINT",
    "LIBRARY",
    "NEEDED",
    "TARGETS",
    "TRUTH",
    "as_part",
    "instead",
    "names_of_module",
    "unknown_attributes",
]


def _by_name(*rows: tuple[str, str]) -> dict[str, str]:
    return {name: said for names, said in rows for name in names.split()}


_REPEATED = "gr.repeat(item, least, most) repeats"

LIBRARY = _by_name(
    ("json JSON Json JsonSchemaParser", "gr.json_schema(schema) makes a constraint from a schema"),
    ("select either one_of Literal Enum Choice", "gr.choice([…]) takes one of several strings"),
    ("gen Generator generator text complete", "gr.generate(model, prompt, target) generates"),
    ("cfg CFG lark gbnf ebnf Lark Grammar LlamaGrammar GrammarCompiler", 'gr.grammar(text, "lark") reads a grammar'),
    ("Regex RegexParser RegexConstraint pattern", "gr.regex(pattern) makes a constraint from a pattern"),
    ("models from_transformers from_pretrained from_llamacpp Transformers LlamaCpp", "gr.load_model(…) loads a model"),
    (
        "patch from_openai from_anthropic from_provider from_litellm OpenAI",
        "guiderail constrains models that run here; `guiderail serve` offers them through OpenAI's interface",
    ),
    ("one_or_more zero_or_more at_least at_most between exactly", _REPEATED),
    ("matcher GrammarMatcher LLMatcher TokenEnforcer", "gr.compile(constraint, vocabulary).matcher() follows one text"),
    ("types integer boolean number string", "gr.python_type(int) makes a constraint from a type"),
    ("date time datetime email url uuid ipv4", "gr.patterns has what is ready, such as gr.patterns.date()"),
    ("generate_many batch_generate generate_batch", "gr.generate takes a list of prompts"),
    ("tool tools function functions", "gr.tool_calls(tools, format=…) makes a constraint from tools"),
    ("LogitsProcessor build_logits_processor", "guiderail.integrations has a logits processor for each engine"),
    ("TokenizerInfo Tokenizer", "gr.Vocabulary has a constructor for each kind of tokenizer"),
)
"""What attributes of the package itself are answered with."""

_CLASS = "gr.generate(model, prompt, Person) takes a class, a type or a constraint"
_SCHEMA = "gr.generate(model, prompt, schema) takes a schema"

TARGETS = _by_name(
    ("schema json json_schema guided_json", _SCHEMA),
    ("response_format", f"{_SCHEMA}, without what is around it"),
    ("regex pattern guided_regex", "gr.generate(model, prompt, gr.regex(pattern)) follows a pattern"),
    ("grammar cfg lark gbnf ebnf guided_grammar", "gr.generate(model, prompt, gr.grammar(text)) follows a grammar"),
    ("choice choices options enum guided_choice", 'gr.generate(model, prompt, ["yes", "no"]) chooses'),
    ("pydantic pydantic_object response_model output_type type model_class output constraint guide", _CLASS),
    ("tools functions", "gr.generate(model, prompt, gr.tool_calls(tools, format=…)) calls tools"),
)
"""What a function that generates is given by name, in place of a target."""

CONSTRAINT = _by_name(
    ("compile", "gr.compile(constraint, vocabulary) compiles it"),
    ("matcher", "gr.compile(constraint, vocabulary).matcher() follows one text"),
    (
        "read parse load loads",
        "matches(text) checks a text; json.loads reads JSON, gr.read(type, text) a type, and tool_calls(…).parse calls",
    ),
    (
        "match fullmatch search is_match validate validate_text",
        "matches(text) says whether the whole of a text matches, and explain(text) why not",
    ),
)
"""What attributes of a constraint are answered with."""

NEEDED = {
    "format": "gr.tool_formats() lists those that are known",
    "vocabulary": "gr.Vocabulary.from_huggingface and others make one, and a model has its own: model.vocabulary",
}
"""Where an argument that was left out comes from."""

TRUTH = "write a & b for both, a | b for either, ~a for what it does not match, and compare with None by 'is None'"
"""What a constraint in a condition is answered with."""

_RENAMED = _by_name(
    ("max_new_tokens max_length n_predict num_predict max_completion_tokens", "max_tokens"),
    ("stop_at stop_strings stop_sequences", "stop"),
    ("do_sample greedy", "temperature=0, which always takes the likeliest token"),
    ("num_return_sequences samples best_of", "n"),
    ("repeat_penalty", "repetition_penalty"),
    ("system_prompt", "system"),
    ("n_gpu_layers", "gpu_layers"),
    ("n_ctx max_model_len", "context_length"),
    ("n_threads num_threads", "threads"),
    ("vocab_size vocabulary_size n_vocab", "size, the width of the model's logits"),
    ("eos_token_id eos_token_ids eos_token end_token_id", "stop_token_ids"),
    ("token_bytes vocab", "tokens"),
    ("additional_properties additionalProperties", "closed=True, which forbids what is not declared"),
    ("tool_choice", "choice"),
    ("parallel_tool_calls", "parallel"),
    ("whitespace_pattern any_whitespace whitespace_flexible", "layout, which says how JSON is spaced"),
    ("strict strict_mode", "closed=True, which forbids what is not declared; a schema is enforced exactly anyway"),
    ("ignore_case ignorecase case_insensitive", 'flags="i"'),
    ("type kind notation", "syntax"),
    ("at_least minimum least", "min"),
    ("at_most maximum most", "max"),
    ("tokenizer tokenizer_info", "vocabulary"),
)


def instead(name: object, known: list[str]) -> str:
    """The end of a message about an unknown argument: how to write it here, or the known name that it resembles."""
    said = _RENAMED.get(str(name), "")
    return f"write {said}" if said.replace("=", ",").split(",")[0] in known else suggestion(name, known)


def as_part(value: object) -> str:
    """The end of a message about a value that is no part of a constraint: how to make one of it."""
    if isinstance(value, list | tuple | set | frozenset):
        return "pass its items one by one, or gr.choice(…)"
    if isinstance(value, re.Pattern):
        return "pass gr.regex(pattern)"
    if isinstance(value, Mapping):
        return "pass gr.json_schema(schema)"
    if isinstance(value, bytes | bytearray):
        return "pass value.decode()"
    if value is None:
        return "leave it out, or pass gr.empty() for the empty text"
    if isinstance(value, type):
        return "pass gr.python_type(…) for the values of a type"
    return "wrap it, e.g. gr.literal(str(value))"


def unknown_attributes(**there: str) -> Callable[[object, str], NoReturn]:
    """The ``__getattr__`` of a class whose methods have other names elsewhere."""

    def missing(self: object, name: str) -> NoReturn:
        if name.startswith("_"):  # asked for by guiderail and by Python: must be quick
            raise AttributeError(name, name=name, obj=self)
        said = f"; {there[name]}" if name in there else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{said}", name=name, obj=self)

    return missing


def names_of_module(module: str, known: list[str]) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module that users read names from."""

    def missing(name: str) -> NoReturn:
        said = "" if name.startswith("_") else f"; {suggestion(name, known)}"
        raise AttributeError(f"module {module!r} has no attribute {name!r}{said}")

    return missing, lambda: known
