"""``Grammar``: the allowed texts, independent of a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guiderail.compat._errors import CompatError, CompatTypeError, CompatValueError, json_of
from guiderail.compat.xgrammar._recipe import Recipe, combined, schema_recipe
from guiderail.compat.xgrammar._serialized import read_serialized, write_serialized
from guiderail.compat.xgrammar.exception import DeserializeFormatError, InvalidJSONError, InvalidStructuralTagError
from guiderail.constraints.constraint import Constraint
from guiderail.support.arguments import checked_methods
from guiderail.support.json_objects import loads
from guiderail.support.numerals import read_integer
from guiderail.support.texts import shown

if TYPE_CHECKING:
    from guiderail.compat.xgrammar.tokenizer_info import TokenizerInfo

__all__ = ["Grammar"]


@checked_methods
class Grammar:
    """A set of allowed texts. Made by its class methods, which raise an error if the source cannot be read.

    ``Grammar.constraint`` is guiderail's own constraint. ``str`` returns the source: guiderail does not turn schemas
    into EBNF.
    """

    __slots__ = ("_constraint", "_recipe")

    def __init__(self, recipe: Recipe, vocabulary: Any = None, *, constraint: Constraint | None = None) -> None:
        """For the class methods only."""
        self._recipe = recipe
        self._constraint = recipe.constraint(vocabulary) if constraint is None else constraint

    @property
    def constraint(self) -> Constraint:
        """guiderail's constraint."""
        return self._constraint

    @classmethod
    def from_ebnf(cls, ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """Makes a grammar from EBNF as XGrammar and llama.cpp write it (GBNF).

        Raises:
            CompatError: the text cannot be read; the message has line and column.
        """
        return _whole(cls(ebnf_recipe(ebnf_string, root_rule_name)))

    @classmethod
    def from_json_schema(cls, schema: Any, *, print_converted_ebnf: bool = False, **options: Any) -> Grammar:
        """Makes a grammar from a JSON Schema: JSON text, a dict, or a pydantic model class.

        Options are those of ``GrammarCompiler.compile_json_schema``.

        Raises:
            CompatError: the schema or an option cannot be used; the message says where.
        """
        _no_ebnf(print_converted_ebnf)
        return _whole(cls(schema_recipe(schema_text(schema), **options)))

    @classmethod
    def from_regex(cls, regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """Makes a grammar from an ECMAScript regular expression that must match the whole text.

        Raises:
            CompatError: the expression cannot be read.
        """
        _no_ebnf(print_converted_ebnf)
        return _whole(cls(Recipe("regex", regex_string)))

    @classmethod
    def from_lark(
        cls,
        lark_string: str,
        *,
        tokenizer_info: TokenizerInfo | None = None,
        named_grammars: Mapping[str, Grammar | str] | None = None,
    ) -> Grammar:
        """Makes a grammar from Lark text. ``@name`` refers to one of ``named_grammars``, where a text is Lark, too.

        Raises:
            TypeError: ``named_grammars`` is not a dict of grammars and texts.
            CompatError: the grammar cannot be read.
        """
        vocabulary = None if tokenizer_info is None else tokenizer_info.vocabulary
        return cls(lark_recipe(lark_string, named_grammars), vocabulary)

    @classmethod
    def from_structural_tag(cls, *args: Any, **kwargs: Any) -> Grammar:
        """Makes a grammar from a structural tag.

        The arguments are ``(structural_tag)``, a ``StructuralTag``, a dict or JSON text; or ``(tags, triggers)``.

        Raises:
            InvalidJSONError: the text is not JSON.
            InvalidStructuralTagError: the tag is malformed; the message has the JSON pointer.
            TypeError: the arguments have other types.
        """
        recipe = tag_recipe(args, kwargs)
        try:
            return cls(recipe)
        except CompatError as error:
            raise InvalidStructuralTagError(error.message, code=error.code, source=error.source, span=error.span) from (
                error.__cause__ or error
            )

    @classmethod
    def builtin_json_grammar(cls) -> Grammar:
        """Makes a grammar of any JSON object or array."""
        return cls(Recipe("json"))

    @classmethod
    def concat(cls, *grammars: Grammar) -> Grammar:
        """Concatenates grammars."""
        return _combined("concat", grammars)

    @classmethod
    def union(cls, *grammars: Grammar) -> Grammar:
        """Makes the union of grammars."""
        return _combined("union", grammars)

    def serialize_json(self) -> str:
        """Returns its source as JSON that :meth:`deserialize_json` reads. The format differs from XGrammar's."""
        return write_serialized("grammar", {"grammar": self._recipe.to_json()})

    @classmethod
    def deserialize_json(cls, json_string: str) -> Grammar:
        """Reads the result of :meth:`serialize_json`.

        Raises:
            InvalidJSONError, DeserializeVersionError, DeserializeFormatError: the text is something else.
        """
        return cls(recipe_of(read_serialized("grammar", json_string).get("grammar")))

    def __str__(self) -> str:
        recipe = self._recipe
        return recipe.text if recipe.kind in ("ebnf", "lark") else json.dumps(recipe.to_json())

    def __repr__(self) -> str:
        return f"<Grammar of {self._constraint!r}>"


def _combined(kind: str, grammars: Sequence[Grammar]) -> Grammar:
    for one in grammars:
        if not isinstance(one, Grammar):
            raise CompatTypeError(f"a grammar must be a Grammar, not {type(one).__name__}")
    recipe = Recipe(kind, parts=tuple(one._recipe for one in grammars))
    return Grammar(recipe, constraint=combined(kind, [one._constraint for one in grammars]))


def _whole(grammar: Grammar) -> Grammar:
    """The grammar after compiling it once, so that errors in its parts are raised now."""
    from guiderail.compat._errors import raised_as

    with raised_as():
        grammar.constraint.program()
    return grammar


def _no_ebnf(wanted: bool) -> None:
    if wanted:
        raise CompatError(
            "print_converted_ebnf: guiderail does not write schemas and patterns as EBNF; leave it out, and look at "
            "print(grammar.constraint.explain())",
            code="compat-option",
        )


def schema_text(schema: Any) -> str:
    """A schema as JSON.

    Raises:
        ValueError: it is neither JSON text, nor a dict, nor a pydantic model class.
    """
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        return json.dumps(schema.model_json_schema())
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        return json_of("the schema", dict(schema))
    raise CompatValueError(
        f"The schema should be a string, a dict or a Pydantic model, not {type(schema).__name__}.", code="argument"
    )


def ebnf_recipe(text: str, root: str) -> Recipe:
    """The recipe of a grammar in EBNF."""
    return Recipe("ebnf", text, (("root", root),))


def lark_recipe(text: str, named: Mapping[str, Grammar | str] | None) -> Recipe:
    """The recipe of a Lark grammar and the grammars that it names."""
    named = {} if named is None else named
    if not isinstance(named, Mapping):
        raise CompatTypeError("named_grammars must be a dictionary")
    parts = []
    for name, grammar in named.items():
        if not isinstance(name, str):
            raise CompatTypeError("named grammar names must be strings")
        if isinstance(grammar, str):
            parts.append(Recipe("lark", grammar, (("names", ()),)))
        elif isinstance(grammar, Grammar):
            parts.append(grammar._recipe)
        else:
            raise CompatTypeError("named grammar values must be Grammar instances or Lark strings")
    return Recipe("lark", text, (("names", tuple(named)),), tuple(parts))


def tag_recipe(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Recipe:
    """The recipe of a structural tag, from either form of the arguments."""
    if len(args) == 1 and not kwargs:
        given = args[0]
    elif not args and set(kwargs) == {"structural_tag"}:
        given = kwargs["structural_tag"]
    elif len(args) == 2 and not kwargs and isinstance(args[0], list) and isinstance(args[1], list):
        given = _legacy(*args)
    elif not args and set(kwargs) == {"tags", "triggers"}:
        given = _legacy(kwargs["tags"], kwargs["triggers"])
    else:
        raise CompatTypeError("a structural tag is given as (structural_tag) or as (tags, triggers)")
    if isinstance(given, str):
        try:
            loads(given, parse_int=read_integer)
        except ValueError as error:
            raise InvalidJSONError(f"the structural tag is not JSON: {error}") from None
        return Recipe("structural_tag", given)
    if hasattr(given, "model_dump"):
        given = given.model_dump(by_alias=True)
    if not isinstance(given, Mapping):
        raise CompatTypeError(
            f"a structural tag must be a StructuralTag, a dict or JSON text, not {type(given).__name__}"
        )
    return Recipe("structural_tag", json_of("the structural tag", dict(given)))


def _legacy(tags: Sequence[Any], triggers: Sequence[str]) -> dict[str, Any]:
    """A tag in the older form: items with ``begin``, ``schema``, ``end``."""
    structures = []
    for tag in tags:
        item = tag.model_dump(by_alias=True) if hasattr(tag, "model_dump") else tag
        if not isinstance(item, Mapping):
            raise CompatTypeError(f"a tag must be a StructuralTagItem or a dict, not {shown(tag)}")
        item = dict(item)
        schema = getattr(tag, "schema_", item.get("schema"))
        item["schema"] = (
            schema if isinstance(schema, Mapping | bool) else json.loads(schema_text(schema), parse_int=read_integer)
        )
        structures.append(item)
    return {"type": "structural_tag", "structures": structures, "triggers": list(triggers)}


def recipe_of(data: Any) -> Recipe:
    """The recipe in a serialized text.

    Raises:
        DeserializeFormatError: there is none.
    """
    try:
        return Recipe.from_json(data)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DeserializeFormatError(f"this is not a serialized grammar: {error!r}") from None
