"""``GrammarCompiler`` and ``CompiledGrammar``: a grammar compiled for a tokenizer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from guiderail.compat._errors import CompatError, CompatValueError, integer, raised_as
from guiderail.compat.xgrammar._recipe import Recipe, schema_recipe
from guiderail.compat.xgrammar._serialized import read_serialized, write_serialized
from guiderail.compat.xgrammar.exception import DeserializeFormatError, InvalidStructuralTagError
from guiderail.compat.xgrammar.grammar import Grammar, ebnf_recipe, lark_recipe, recipe_of, schema_text, tag_recipe
from guiderail.compat.xgrammar.tokenizer_info import TokenizerInfo
from guiderail.matching.guide import Guide, compile
from guiderail.support.arguments import checked_methods
from guiderail.support.texts import shown

__all__ = ["CompiledGrammar", "GrammarCompiler"]

_OTHERS = 4  # sets of stop tokens for which a grammar keeps the guide


@checked_methods
class CompiledGrammar:
    """A grammar compiled for a tokenizer. Made by :class:`GrammarCompiler`; ``guide`` is guiderail's own object."""

    __slots__ = ("_grammar", "_lock", "_others", "_tokenizer_info", "guide")

    def __init__(self, grammar: Grammar, tokenizer_info: TokenizerInfo, guide: Guide) -> None:
        """For :class:`GrammarCompiler` only."""
        self._grammar, self._tokenizer_info, self.guide = grammar, tokenizer_info, guide
        self._others: OrderedDict[tuple[int, ...], Guide] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<CompiledGrammar of {self._grammar!r} for {self._tokenizer_info!r}>"

    def guide_of(self, stops: tuple[int, ...]) -> Guide:
        """The guide for texts with other stop tokens. An ordinary token among them is not matched as text.

        Raises:
            CompatError: ``bad-token-id``.
        """
        with self._lock:
            found = self._others.get(stops)
            if found is None:
                vocabulary = self._tokenizer_info.with_stops(stops)
                if vocabulary is self._tokenizer_info.vocabulary:
                    found = self.guide
                else:
                    with raised_as():
                        found = compile(self._grammar.constraint, vocabulary, cache=False)
                self._others[stops] = found
                while len(self._others) > _OTHERS:
                    self._others.popitem(last=False)
            self._others.move_to_end(stops)
            return found

    @property
    def grammar(self) -> Grammar:
        """The grammar it was compiled from."""
        return self._grammar

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer."""
        return self._tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """The bytes that it holds now. It grows while texts are written, up to the limit of ``guiderail.compile``."""
        return self.guide.memory_size_bytes()

    def serialize_json(self) -> str:
        """Returns its source as JSON, without the tokenizer. The format differs from XGrammar's."""
        fields = {"grammar": self._grammar._recipe.to_json(), "tokenizer": self._tokenizer_info.vocabulary.fingerprint}
        return write_serialized("compiled_grammar", fields)

    @classmethod
    def deserialize_json(cls, json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """Reads the result of :meth:`serialize_json`, for the same tokenizer, and compiles it again, which is cheap.

        Raises:
            InvalidJSONError, DeserializeVersionError, DeserializeFormatError: the text is something else, or for
                another tokenizer.
        """
        fields = read_serialized("compiled_grammar", json_str)
        if fields.get("tokenizer") != tokenizer_info.vocabulary.fingerprint:
            raise DeserializeFormatError("this was compiled for another tokenizer; compile it again for this one")
        return _compiled(recipe_of(fields.get("grammar")), tokenizer_info)


def _compiled(recipe: Recipe, info: TokenizerInfo, grammar: Grammar | None = None) -> CompiledGrammar:
    grammar = grammar or Grammar(recipe, info.vocabulary)
    with raised_as():
        return CompiledGrammar(grammar, info, compile(grammar.constraint, info.vocabulary, cache=False))


@checked_methods
class GrammarCompiler:
    """Compiles grammars for a tokenizer and caches them. Safe to use from many threads at once.

    Args:
        tokenizer_info: the tokenizer.
        max_threads: at least 1. guiderail makes masks when they are needed, so compiling uses no threads.
        cache_enabled: cache compiled grammars by their source.
        cache_limit_bytes: bytes that cached grammars may hold together; the least recently used are dropped. -1: no
            limit.

    Raises:
        ValueError: ``tokenizer_info`` is not a TokenizerInfo.
        CompatError: ``compat-option``: a number is out of range.
    """

    def __init__(
        self,
        tokenizer_info: TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
    ) -> None:
        if not isinstance(tokenizer_info, TokenizerInfo):
            raise CompatValueError(
                "Please convert the tokenizer to TokenizerInfo before passing it to GrammarCompiler.", code="argument"
            )
        if integer("max_threads", max_threads) < 1:
            raise CompatError(f"max_threads must be 1 or more, not {shown(max_threads)}", code="compat-option")
        if integer("cache_limit_bytes", cache_limit_bytes) < -1:
            raise CompatError(
                f"cache_limit_bytes must be -1 for no limit, or a number of bytes, not {shown(cache_limit_bytes)}",
                code="compat-option",
            )
        self._info, self._limit, self._keep = tokenizer_info, cache_limit_bytes, bool(cache_enabled)
        self._known: OrderedDict[Recipe, CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<GrammarCompiler for {self._info!r}, {len(self._known)} cached>"

    def _compile(self, recipe: Recipe, grammar: Grammar | None = None) -> CompiledGrammar:
        with self._lock:
            known = self._known.get(recipe)
            if known is not None:
                self._known.move_to_end(recipe)
                return known
        made = _compiled(recipe, self._info, grammar)
        if not self._keep:
            return made
        dropped = []  # freed without the lock
        with self._lock:
            made = self._known.setdefault(recipe, made)
            if self._limit >= 0:
                sizes = {one: kept.memory_size_bytes for one, kept in self._known.items()}
                total = sum(sizes.values())
                while self._known and total > self._limit:
                    oldest, kept = self._known.popitem(last=False)
                    total -= sizes[oldest]
                    dropped.append(kept)
        return made

    def compile_json_schema(
        self,
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """Compiles the JSON values that a schema allows. Every keyword means what its specification says.

        Args:
            schema: JSON text, a dict, or a pydantic model class.
            any_whitespace: allow whitespace wherever JSON does; ``indent`` and ``separators`` have no effect then.
            indent: spaces per level, as for ``json.dumps``; None: one line.
            separators: as for ``json.dumps``; None: ``(", ", ": ")``, or ``(",", ": ")`` with ``indent``.
            strict_mode: objects and arrays hold only what the schema declares, unless it says otherwise.
            max_whitespace_cnt: maximum number of whitespace characters at one position; None: no maximum.
            any_order: properties in any order. Required ones stay required, and none comes twice.

        Raises:
            ValueError: ``schema`` has another type.
            CompatError: the schema cannot be read or no value satisfies it; or an option is wrong.
        """
        return self._compile(
            schema_recipe(
                schema_text(schema),
                any_whitespace=any_whitespace,
                indent=indent,
                separators=separators,
                strict_mode=strict_mode,
                max_whitespace_cnt=max_whitespace_cnt,
                any_order=any_order,
            )
        )

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compiles any JSON object or array."""
        return self._compile(Recipe("json"))

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compiles an ECMAScript regular expression that must match the whole text.

        Raises:
            CompatError: the expression cannot be read.
        """
        return self._compile(Recipe("regex", regex))

    def compile_lark(
        self, lark_string: str, *, named_grammars: Mapping[str, Grammar | str] | None = None
    ) -> CompiledGrammar:
        """Compiles a Lark grammar; see :meth:`Grammar.from_lark`.

        Raises:
            TypeError, CompatError: see there.
        """
        return self._compile(lark_recipe(lark_string, named_grammars))

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """Compiles a structural tag; see :meth:`Grammar.from_structural_tag`.

        Raises:
            TypeError, InvalidJSONError, InvalidStructuralTagError: see there.
        """
        recipe = tag_recipe(args, kwargs)
        try:
            return self._compile(recipe)
        except CompatError as error:
            raise InvalidStructuralTagError(error.message, code=error.code) from (error.__cause__ or error)

    def compile_grammar(self, grammar: str | Grammar, *, root_rule_name: str = "root") -> CompiledGrammar:
        """Compiles EBNF (GBNF), or a :class:`Grammar`.

        Raises:
            ValueError: it is neither.
            CompatError: it cannot be read, or no text matches it.
        """
        if isinstance(grammar, str):
            return self._compile(ebnf_recipe(grammar, root_rule_name))
        if isinstance(grammar, Grammar):
            tokens = grammar._recipe.kind in ("structural_tag", "concat", "union")  # they may name tokens of this one
            return self._compile(grammar._recipe, None if tokens else grammar)
        raise CompatValueError("Invalid grammar type. Please pass a string or a Grammar object.", code="argument")

    def clear_cache(self) -> None:
        """Drops all cached grammars."""
        with self._lock:
            dropped = list(self._known.values())
            self._known.clear()
        del dropped

    def get_cache_size_bytes(self) -> int:
        """Returns the bytes that the cached grammars hold now."""
        with self._lock:
            kept = list(self._known.values())
        return sum(one.memory_size_bytes for one in kept)

    @property
    def cache_limit_bytes(self) -> int:
        """The limit, as given."""
        return self._limit
