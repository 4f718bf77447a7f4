"""``xgrammar.structural_tag``: the pydantic models of structural tags.

These are the parts of a tag as classes. ``guiderail.structural_tag`` defines what a tag means and checks it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from guiderail.compat._errors import CompatValueError
from guiderail.support.json_objects import loads
from guiderail.support.numerals import read_integer

__all__ = [
    "AnyTextFormat", "AnyTokensFormat", "ConstStringFormat", "DispatchFormat", "ExcludeTokenFormat", "Format",
    "GrammarFormat", "JSONSchemaFormat", "OptionalFormat", "OrFormat", "PlusFormat", "QwenXMLParameterFormat",
    "RegexFormat", "RepeatFormat", "SequenceFormat", "StarFormat", "StructuralTag", "StructuralTagItem", "TagFormat",
    "TagsWithSeparatorFormat", "TokenDispatchFormat", "TokenFormat", "TokenTriggeredTagsFormat", "TriggeredTagsFormat",
]  # fmt: skip

_Token = int | str
_Count = Annotated[int, Field(ge=0, le=2_147_483_647)]


class ConstStringFormat(BaseModel):
    """A fixed text."""

    type: Literal["const_string"] = "const_string"
    value: str


class JSONSchemaFormat(BaseModel):
    """The values of a JSON Schema, as JSON or in the parameter style of a model family."""

    type: Literal["json_schema"] = "json_schema"
    json_schema: bool | dict[str, Any]
    style: str = "json"
    any_order: bool = False
    max_whitespace_cnt: int | None = None
    excludes: list[str] = []


class QwenXMLParameterFormat(BaseModel):
    """The older name of ``json_schema`` in the style ``qwen_xml``."""

    type: Literal["qwen_xml_parameter"] = "qwen_xml_parameter"
    json_schema: bool | dict[str, Any]


class AnyTextFormat(BaseModel):
    """Any text that contains none of ``excludes`` and not the end of the enclosing tag."""

    type: Literal["any_text"] = "any_text"
    excludes: list[str] = []
    max_tokens: _Count | None = None
    max_chars: _Count | None = None


class GrammarFormat(BaseModel):
    """The texts of a grammar in EBNF."""

    type: Literal["grammar"] = "grammar"
    grammar: str


class RegexFormat(BaseModel):
    """The texts that match a pattern."""

    type: Literal["regex"] = "regex"
    pattern: str


class TokenFormat(BaseModel):
    """One token."""

    type: Literal["token"] = "token"
    token: _Token


class ExcludeTokenFormat(BaseModel):
    """Any one token except these."""

    type: Literal["exclude_token"] = "exclude_token"
    exclude_tokens: list[_Token] = []


class AnyTokensFormat(BaseModel):
    """Any number of tokens except these."""

    type: Literal["any_tokens"] = "any_tokens"
    exclude_tokens: list[_Token] = []
    max_tokens: _Count | None = None


class SequenceFormat(BaseModel):
    """The elements in sequence."""

    type: Literal["sequence"] = "sequence"
    elements: list[Format]


class OrFormat(BaseModel):
    """One of the elements."""

    type: Literal["or"] = "or"
    elements: list[Format]


class OptionalFormat(BaseModel):
    """The content or nothing."""

    type: Literal["optional"] = "optional"
    content: Format


class PlusFormat(BaseModel):
    """The content one or more times."""

    type: Literal["plus"] = "plus"
    content: Format


class StarFormat(BaseModel):
    """The content any number of times."""

    type: Literal["star"] = "star"
    content: Format


class RepeatFormat(BaseModel):
    """The content ``min`` to ``max`` times; -1: no maximum."""

    type: Literal["repeat"] = "repeat"
    min: int
    max: int
    content: Format


class TagFormat(BaseModel):
    """Content between a beginning and an end."""

    type: Literal["tag"] = "tag"
    begin: str | TokenFormat
    content: Format
    end: str | list[str] | TokenFormat


class TriggeredTagsFormat(BaseModel):
    """Free text in which a trigger begins a tag."""

    type: Literal["triggered_tags"] = "triggered_tags"
    triggers: list[str]
    tags: list[TagFormat]
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: list[str] = []


class TokenTriggeredTagsFormat(BaseModel):
    """Free tokens in which one of the triggers begins a tag."""

    type: Literal["token_triggered_tags"] = "token_triggered_tags"
    trigger_tokens: list[_Token]
    tags: list[TagFormat]
    exclude_tokens: list[_Token] = []
    at_least_one: bool = False
    stop_after_first: bool = False


class TagsWithSeparatorFormat(BaseModel):
    """Tags with a text between them."""

    type: Literal["tags_with_separator"] = "tags_with_separator"
    tags: list[TagFormat]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


class DispatchFormat(BaseModel):
    """Free text in which each pattern is followed by its content."""

    type: Literal["dispatch"] = "dispatch"
    rules: list[tuple[str, Format]]
    loop: bool = True
    excludes: list[str] = []


class TokenDispatchFormat(BaseModel):
    """Free tokens in which each of these tokens is followed by its content."""

    type: Literal["token_dispatch"] = "token_dispatch"
    rules: list[tuple[_Token, Format]]
    loop: bool = True
    exclude_tokens: list[_Token] = []


Format = Annotated[
    AnyTextFormat
    | AnyTokensFormat
    | ConstStringFormat
    | DispatchFormat
    | ExcludeTokenFormat
    | GrammarFormat
    | JSONSchemaFormat
    | OptionalFormat
    | OrFormat
    | PlusFormat
    | QwenXMLParameterFormat
    | RegexFormat
    | RepeatFormat
    | SequenceFormat
    | StarFormat
    | TagFormat
    | TagsWithSeparatorFormat
    | TokenDispatchFormat
    | TokenFormat
    | TokenTriggeredTagsFormat
    | TriggeredTagsFormat,
    Field(discriminator="type"),
]
"""Any part of a tag, told apart by ``type``."""


class StructuralTagItem(BaseModel):
    """A tag of the older form: its beginning, the schema of its content, and its end."""

    begin: str
    schema_: str | type[BaseModel] | dict[str, Any] = Field(alias="schema")
    end: str


class StructuralTag(BaseModel):
    """A whole structural tag."""

    type: Literal["structural_tag"] = "structural_tag"
    format: Format

    @staticmethod
    def from_legacy_structural_tag(tags: list[StructuralTagItem], triggers: list[str]) -> StructuralTag:
        """Makes a tag of items and triggers."""
        from guiderail.compat.xgrammar.grammar import schema_text

        made = [
            TagFormat(
                begin=tag.begin,
                content=JSONSchemaFormat(json_schema=json.loads(schema_text(tag.schema_), parse_int=read_integer)),
                end=tag.end,
            )
            for tag in tags
        ]
        return StructuralTag(format=TriggeredTagsFormat(triggers=triggers, tags=made))

    @staticmethod
    def from_json(json_str: str | dict[str, Any]) -> StructuralTag:
        """Makes a tag of JSON text, or of parsed JSON.

        Raises:
            CompatValueError: it is neither text nor an object, or no JSON.
            pydantic.ValidationError: it is no tag.
        """
        if not isinstance(json_str, str | dict):
            raise CompatValueError("Invalid JSON string or dictionary", code="compat-json")
        if isinstance(json_str, str):
            try:
                json_str = loads(json_str, parse_int=read_integer)
            except ValueError as error:
                raise CompatValueError(f"the structural tag is not JSON: {error}", code="compat-json") from None
        made: StructuralTag = StructuralTag.model_validate(json_str)
        return made


for _kind in (SequenceFormat, OrFormat, OptionalFormat, PlusFormat, StarFormat, RepeatFormat, TagFormat,
              TriggeredTagsFormat, TokenTriggeredTagsFormat, TagsWithSeparatorFormat, DispatchFormat,
              TokenDispatchFormat, StructuralTag):  # fmt: skip
    _kind.model_rebuild()
