"""Ways to write a grammar: ``grammar_from``, ``StructTag``, the older compilers, ``regex_to_lark``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guiderail.compat._errors import CompatAssertionError, CompatTypeError, CompatValueError, json_of
from guiderail.compat.llguidance._grammars import grammar_from_json_schema, grammar_from_lark, grammar_from_regex
from guiderail.compat.llguidance._matcher import LLMatcher
from guiderail.compat.llguidance.gbnf_to_lark import any_to_lark
from guiderail.support.arguments import checked, checked_methods
from guiderail.support.json_objects import loads
from guiderail.support.numerals import read_integer
from guiderail.support.texts import shown

__all__ = [
    "GrammarFormat", "JsonCompiler", "LarkCompiler", "RegexCompiler", "StructTag", "get_version", "grammar_from",
    "regex_to_lark",
]  # fmt: skip

GrammarFormat = Literal[
    "lark", "gbnf", "ebnf", "cfg", "grammar", "json_schema", "json", "regex", "choice", "llguidance"
]


@checked
def grammar_from(format: GrammarFormat, text: str) -> str:
    """Returns the grammar of a text in some format.

    Args:
        format: ``"lark"``; ``"gbnf"``, ``"ebnf"``, ``"cfg"`` or ``"grammar"`` for GBNF or Lark; ``"json_schema"`` or
            ``"json"``; ``"regex"``; ``"choice"``, a JSON list of strings; ``"llguidance"``, which is already a grammar.
        text: the text.

    Raises:
        CompatTypeError: the text is none.
        CompatValueError: there is no such format, or the text is malformed.
    """
    kinds = str | Mapping if format in ("json_schema", "json") else str | list | tuple if format == "choice" else str
    if not isinstance(text, kinds):
        raise CompatTypeError(f"text must be a string, not {type(text).__name__}")
    if format in ("gbnf", "ebnf", "cfg", "grammar"):
        return _gbnf(text)
    if format in ("json_schema", "json"):
        return grammar_from_json_schema(text)
    if format == "choice":
        try:
            options = loads(text, parse_int=read_integer) if isinstance(text, str) else text
        except ValueError as error:
            raise CompatValueError(f"the choices are not JSON: {error}", code="compat-json") from None
        if not isinstance(options, list | tuple) or not all(isinstance(one, str) for one in options):
            raise CompatValueError(f"choices must be a list of strings, not {shown(options)}")
        return "start: " + " | ".join(json.dumps(option) for option in options)
    if format == "regex":
        return grammar_from_regex(text)
    if format in ("lark", "llguidance"):
        return text
    raise CompatValueError(f"Unknown grammar type: {format if isinstance(format, str) else shown(format)}")


def _gbnf(text: str) -> str:
    """A grammar in GBNF, for :func:`read_grammar`; one in Lark stays as it is.

    Raises:
        CompatValueError: it is in GBNF, and cannot be read.
    """
    return any_to_lark(text) if "::=" in text else grammar_from_lark(text)


@dataclass
class StructTag:
    """A part of a text that begins with a trigger.

    Attributes:
        trigger: the text or special token that begins it.
        begin: its beginning, starting with the trigger.
        grammar: a JSON Schema (a dict or JSON text), or a Lark grammar.
        end: the text that ends it.
    """

    trigger: str
    begin: str
    grammar: str | Mapping[str, Any]
    end: str

    def __post_init__(self) -> None:
        for name in ("trigger", "begin", "end"):
            if not isinstance(getattr(self, name), str):
                raise CompatTypeError(f"{name} must be a string, not {shown(getattr(self, name))}")
        if not self.trigger:
            raise CompatAssertionError("trigger must not be empty")
        if not self.begin.startswith(self.trigger):
            raise CompatAssertionError("begin must start with trigger")

    @staticmethod
    def to_grammar(tags: Sequence[StructTag], *, assume_special: bool = True, text_regex: str = r"(.|\n)*") -> str:
        """Returns the grammar of free text with these tags in it.

        Args:
            tags: the tags, at least one.
            assume_special: whether a trigger ``<…>`` is a special token.
            text_regex: a pattern for the free text, without ``/``.

        Raises:
            AssertionError: there are no tags, or ``text_regex`` contains a ``/``, as in llguidance.
        """
        if not tags or "/" in text_regex:
            raise CompatAssertionError("tags must not be empty" if not tags else "text_regex must not contain /")
        names = [f"tag_{i}" for i in range(len(tags))]
        lines = ["%llguidance {}", f"start: ({' | '.join(names)})* tag_end", "tag_end: TAG_TEXT"]
        lines.append(f"TAG_TEXT: /{text_regex}/")
        others = []
        for name, tag in zip(names, tags, strict=True):
            grammar = tag.grammar
            if isinstance(grammar, str) and not grammar.lstrip().startswith("{"):
                inside = f"@{name}_grm"
                others.append({"name": f"{name}_grm", "lark_grammar": grammar})
            else:
                inside = f"%json {grammar if isinstance(grammar, str) else json_of('the schema', grammar)}"
            rest = [json.dumps(text) for text in (tag.begin[len(tag.trigger) :],) if text]
            body = " ".join([*rest, inside, *([json.dumps(tag.end)] if tag.end else [])])
            if assume_special and tag.trigger.startswith("<") and tag.trigger.endswith(">"):
                lines.append(f"{name}: TAG_TEXT {tag.trigger} {body}")
            else:
                lines.append(f"{name}_trig[lazy]: TAG_TEXT {json.dumps(tag.trigger)}")
                lines.append(f"{name}: {name}_trig {body}")
        text = "\n".join(lines) + "\n"
        if not others:
            return text
        return json.dumps({"grammars": [{"name": "struct_tag", "lark_grammar": text}, *others]})


@checked_methods
class JsonCompiler:
    """The older way to make the grammar of a JSON Schema; options are those of ``x-guidance``."""

    def __init__(
        self,
        separators: tuple[str, str] | None = None,
        whitespace_flexible: bool = False,
        coerce_one_of: bool = False,
        whitespace_pattern: str | None = None,
        json_allowed_escapes: str | None = None,
        json_allow_general_unicode_escapes: bool = False,
    ) -> None:
        pair = separators is None or (isinstance(separators, tuple | list) and len(separators) == 2)
        if not pair:
            raise CompatTypeError(f"separators must be a tuple of two patterns, not {shown(separators)}")
        comma, colon = separators or ((",", ":") if whitespace_flexible or whitespace_pattern else (", ", ": "))
        self._options = {
            "item_separator": comma,
            "key_separator": colon,
            "whitespace_flexible": whitespace_flexible,
            "whitespace_pattern": whitespace_pattern,
            "coerce_one_of": coerce_one_of,
            "lenient": False,
            "json_allowed_escapes": json_allowed_escapes,
            "json_allow_general_unicode_escapes": json_allow_general_unicode_escapes,
        }

    def compile(self, schema: str, check: bool = True) -> str:
        """Returns the grammar of a schema.

        Raises:
            ValueError: the schema cannot be used.
        """
        return _checked(grammar_from_json_schema(_text(schema), overrides=self._options), check)


@checked_methods
class LarkCompiler:
    """The older way to make the grammar of a Lark text."""

    def compile(self, lark: str, check: bool = True) -> str:
        """Returns the grammar of a Lark text.

        Raises:
            ValueError: the text cannot be used.
        """
        return _checked(json.dumps({"grammars": [{"name": "lark_grammar", "lark_grammar": _text(lark)}]}), check)


@checked_methods
class RegexCompiler:
    """The older way to make the grammar of a regular expression."""

    def compile(self, regex: str, check: bool = True) -> str:
        """Returns the grammar of a regular expression.

        Raises:
            ValueError: the expression cannot be used.
        """
        return _checked(grammar_from_regex(_text(regex)), check)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise CompatTypeError(f"the source of a grammar must be a string, not {type(given).__name__}")
    return given


def _checked(grammar: str, check: bool) -> str:
    if check:
        wrong, messages = LLMatcher.validate_grammar_with_warnings(grammar)
        if wrong:
            raise CompatValueError(messages[0])
    return grammar


_CLASSES = {"d": "0-9", "w": "0-9a-zA-Z_", "s": r" \t\n\r\f\v"}


@checked
def regex_to_lark(regex: str, use_ascii: str | None = None) -> str:
    r"""Returns a regular expression as written between ``/`` in Lark.

    Args:
        regex: the expression.
        use_ascii: which of ``\d``, ``\w``, ``\s`` (and their opposites) to expand to ASCII: ``"dw"`` …; None: ``"d"``.
    """

    use_ascii = "d" if use_ascii is None else use_ascii

    def written(found: re.Match[str]) -> str:
        text = found[0]
        if text == "/":
            return "\\/"
        letter = text[1:]
        if letter.lower() not in use_ascii or letter.lower() not in _CLASSES:
            return text
        return f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"

    return re.sub(r"\\.|/", written, regex, flags=re.DOTALL)


def get_version() -> str:
    """Returns the name and the version of this interface."""
    import guiderail

    return f"guiderail {guiderail.__version__}, as llguidance 1.9"
