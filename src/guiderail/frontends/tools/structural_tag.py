"""Structural tags: the JSON in which XGrammar and the servers built on it describe strings with structured parts.

The format is read as its documentation has it (XGrammar 0.2, "Structural Tag Usage"); docs/tools.md lists where the
meaning is narrower here, and why. Every part becomes a constraint; errors carry the JSON pointer of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.constraint import AnyOf, Constraint, Repetition, SeparatedBy, SpecialToken, sequence
from guiderail.constraints.special_tokens import SpecialTokens
from guiderail.frontends.tools.errors import ToolError, placed
from guiderail.frontends.tools.markers import Dispatch, ForVocabulary, FreeText, Marker
from guiderail.frontends.tools.parameter_style import builtin_styles
from guiderail.frontends.tools.parameters import Parameters
from guiderail.frontends.tools.tokens import TokenDispatch, Tokens
from guiderail.support.arguments import checked
from guiderail.support.json_objects import document
from guiderail.support.nesting import nested, too_large
from guiderail.support.pointers import extended
from guiderail.support.suggestions import suggestion
from guiderail.support.texts import has_surrogate, shown

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["structural_tag"]

_MISSING = object()


@checked
def structural_tag(
    spec: Mapping[str, Any] | str, *, vocabulary: Vocabulary | None = None, **options: Any
) -> Constraint:
    """Matches the strings that one of XGrammar's structural tags describes.

        >>> import guiderail as gr
        >>> tag = gr.structural_tag({
        ...     "type": "structural_tag",
        ...     "format": {
        ...         "type": "triggered_tags",
        ...         "triggers": ["<function="],
        ...         "tags": [{
        ...             "type": "tag",
        ...             "begin": "<function=weather>",
        ...             "content": {"type": "json_schema", "json_schema": {"type": "object"}},
        ...             "end": "</function>",
        ...         }],
        ...     },
        ... })
        >>> tag.matches('Let me look. <function=weather>{"city": "Paris"}</function>')
        True
        >>> tag.matches("<function=time>{}</function>")
        False

    Args:
        spec: the tag, as a dict, JSON text or XGrammar's own ``StructuralTag``: ``{"type": "structural_tag", "format":
            …}``, the older form with ``structures`` and ``triggers``, or a format alone.
        vocabulary: the vocabulary of the model that will write the text. Where a string of the tag contains the text of
            a special token, the model may write that token. By default the vocabulary is that of the guide. If you pass
            one, a token that it lacks is an error at once.
        **options: options of :func:`json_schema`, for the JSON in the tag. The defaults are those of XGrammar:
            ``layout="free"`` and ``escapes="all"``.

    Raises:
        ToolError: the tag is malformed; ``pointer`` says where. An error in a schema, pattern or grammar inside it
            keeps the code of its own front end.
    """
    from guiderail.frontends.json_schema import SchemaOptions

    SchemaOptions.of(options, structural_tag)
    spec = _read(spec)
    if problem := too_large(spec):
        raise ToolError(f"the tag {problem}; leave something out", code="structural-tag")
    reader = _Reader(vocabulary, options)
    with nested("the tag"):
        made = reader.root(spec)
    return made if vocabulary is None else ForVocabulary(made, SpecialTokens.of(vocabulary))


def _read(spec: Any) -> dict[str, Any]:
    if isinstance(spec, str | bytes):
        spec = document(spec, "the structural tag", ToolError, "structural-tag")
    elif hasattr(spec, "model_dump"):
        spec = spec.model_dump(by_alias=True)
    if not isinstance(spec, Mapping):
        raise ToolError(
            f"a structural tag must be an object, a JSON text or a StructuralTag, not {type(spec).__name__}",
            code="structural-tag",
        )
    return dict(spec)


@dataclass(frozen=True, slots=True)
class Placed(Constraint):
    """A part that is fully read only when it is lowered. Errors then carry its location."""

    constraint: Constraint
    pointer: str

    def _lower(self, b: _core.Builder) -> int:
        with placed(self.pointer):
            return self.constraint._lower(b)

    def __repr__(self) -> str:
        return repr(self.constraint)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The end markers of the nearest enclosing tag, which free text inside must not contain."""

    texts: tuple[str, ...] = ()
    tokens: tuple[str | int, ...] = ()


class _Object:
    """An object of the tag being read. Each key is taken once; keys left over are rejected."""

    def __init__(self, value: Any, pointer: str) -> None:
        if not isinstance(value, Mapping):
            raise ToolError(f"expected an object, not {_words(value)}", code="structural-tag", pointer=pointer)
        self.values = dict(value)
        self.pointer = pointer
        self.kind = self.values.get("type")

    def fail(self, message: str, code: str = "structural-tag", key: str | int | None = None) -> ToolError:
        return ToolError(message, code=code, pointer=self.pointer if key is None else extended(self.pointer, key))

    def take(self, key: str, check: Callable[[Any], bool], what: str, default: Any = _MISSING) -> Any:
        value = self.values.pop(key, default)
        if value is _MISSING:
            raise self.fail(f"{self.kind!r} needs {key!r}, {what}" if self.kind else f"{key!r} is missing: {what}")
        if value is not default and not check(value):
            raise self.fail(f"{key} must be {what}, not {_words(value)}", key=key)
        for text in value if isinstance(value, list | tuple) else (value,):
            if isinstance(text, str) and has_surrogate(text):
                raise self.fail(
                    f"{_words(text)} contains a lone surrogate, which is not a character; remove it",
                    "lone-surrogate",
                    key,
                )
        return value

    def text(self, key: str, default: Any = _MISSING) -> str:
        value: str = self.take(key, lambda v: isinstance(v, str), "a string", default)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value: bool = self.take(key, lambda v: isinstance(v, bool), "true or false", default)
        return value

    def count(self, key: str, default: Any = _MISSING, least: int = 0) -> Any:
        def good(v: Any) -> bool:
            return (v is None and default is None) or (_is_int(v) and least <= v < 2**31)

        return self.take(key, good, f"an integer from {least} to {2**31 - 1:,}", default)

    def items(self, key: str, default: Any = _MISSING) -> list[Any]:
        return list(self.take(key, lambda v: isinstance(v, list | tuple), "a list", default))

    def texts(self, key: str, default: Any = _MISSING) -> tuple[str, ...]:
        found = self.items(key, default)
        for i, text in enumerate(found):
            if not isinstance(text, str) or not text:
                raise ToolError(
                    f"expected a string of at least one character, not {_words(text)}",
                    code="structural-tag",
                    pointer=extended(self.pointer, key, i),
                )
        return tuple(found)

    def done(self) -> None:
        self.values.pop("type", None)
        if self.values:
            key = min(self.values, key=str)
            raise self.fail(f"{self.kind or 'it'!r} has no key {key!r}; remove or correct it", key=key)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_token(value: Any) -> bool:
    return (isinstance(value, str) and bool(value)) or (_is_int(value) and 0 <= value < 2**31)


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool)


def _words(value: Any) -> str:
    return shown(value)


class _Reader:
    """From the JSON of a tag to constraints."""

    def __init__(self, vocabulary: Vocabulary | None, options: Mapping[str, Any]) -> None:
        self.tokens = Tokens(vocabulary)
        self.options = {"layout": "free", "escapes": "all", **options}

    def root(self, spec: dict[str, Any]) -> Constraint:
        kind = spec.get("type")
        if not isinstance(kind, str) or kind != "structural_tag":
            return self.format(spec, "#", _Ends())
        top = _Object(spec, "#")
        if "structures" in spec:
            return self.legacy(top)
        value = top.take("format", lambda v: isinstance(v, Mapping), "the format of the text, an object")
        top.done()
        return self.format(value, "#/format", _Ends())

    def legacy(self, top: _Object) -> Constraint:
        tags = []
        for i, value in enumerate(top.items("structures")):
            item = _Object(value, f"#/structures/{i}")
            begin, end = item.text("begin"), item.text("end")
            schema = item.take(
                "schema", lambda v: isinstance(v, Mapping | bool | str), "a JSON Schema (an object, or JSON text)"
            )
            item.done()
            content = self.schema(schema, "json", {}, extended(item.pointer, "schema"))
            tags.append((begin, sequence(content, Marker(end))))
        triggers = top.texts("triggers")
        top.done()
        return self.dispatch(top, tags, triggers, key="structures")

    def format(self, value: Any, pointer: str, ends: _Ends) -> Constraint:
        item = _Object(value, pointer)
        read = _FORMATS.get(item.kind) if isinstance(item.kind, str) else None
        if read is None:
            found = "no type" if item.kind is None else f"the unknown type {_words(item.kind)}"
            raise item.fail(f"the format has {found}; {suggestion(item.kind, _FORMATS)}", "structural-tag-type")
        made = read(self, item, ends)
        item.done()
        return made

    # -- one chunk -----------------------------------------------------------------------------------------------
    def const_string(self, item: _Object, ends: _Ends) -> Constraint:
        return Marker(item.text("value"))

    def json_schema(self, item: _Object, ends: _Ends) -> Constraint:
        schema = item.take("json_schema", _is_schema, "a JSON Schema: an object or a boolean")
        style = item.text("style", "json")
        options: dict[str, Any] = {"property_order": "any" if item.flag("any_order") else "declared"}
        spaces = item.count("max_whitespace_cnt", None)
        if spaces is not None:
            options["max_whitespace"] = spaces
        excludes = item.texts("excludes", [])
        if excludes:
            if style in ("cohere_xml", "minimax_m3_xml") or (style != "json" and any(t != t.strip() for t in excludes)):
                raise item.fail(
                    f"{style} cannot enforce them: nested tags take none, other XML none with whitespace at its ends",
                    "structural-tag-unsupported",
                    "excludes",
                )
            options["excludes"] = excludes
        return self.schema(schema, style, options, extended(item.pointer, "json_schema"))

    def qwen_xml_parameter(self, item: _Object, ends: _Ends) -> Constraint:
        schema = item.take("json_schema", _is_schema, "a JSON Schema: an object or a boolean")
        return self.schema(schema, "qwen_xml", {"property_order": "declared"}, extended(item.pointer, "json_schema"))

    def schema(self, schema: Any, style: str, options: dict[str, Any], pointer: str) -> Constraint:
        from guiderail.frontends.json_schema import json_schema

        if style != "json" and style not in builtin_styles():
            known = suggestion(style, ["json", *builtin_styles()])
            raise ToolError(f"there is no style {_words(style)}; {known}", code="structural-tag-style", pointer=pointer)
        with placed(pointer):
            made = json_schema(schema, **{"property_order": "declared", **self.options, **options})
        if style == "json":
            return Placed(made, pointer)
        return Placed(Parameters(made, builtin_styles()[style], options.get("property_order") == "any"), pointer)

    def grammar(self, item: _Object, ends: _Ends) -> Constraint:
        import guiderail

        text = item.text("grammar")
        pointer = extended(item.pointer, "grammar")
        with placed(pointer):
            return Placed(guiderail.grammar(text, syntax="gbnf"), pointer)

    def regex(self, item: _Object, ends: _Ends) -> Constraint:
        from guiderail.frontends.regex import regex

        text = item.text("pattern")
        pointer = extended(item.pointer, "pattern")
        with placed(pointer):
            return Placed(regex(text, dialect="ecma"), pointer)

    def any_text(self, item: _Object, ends: _Ends) -> Constraint:
        excludes = item.texts("excludes", [])
        return FreeText((*excludes, *ends.texts), item.count("max_chars", None), item.count("max_tokens", None))

    # -- composition ---------------------------------------------------------------------------------------------
    def elements(self, item: _Object, ends: _Ends) -> list[Constraint]:
        found = item.items("elements")
        if not found:
            raise item.fail("at least one element is needed", key="elements")
        pointer = extended(item.pointer, "elements")
        return [self.format(value, extended(pointer, i), ends) for i, value in enumerate(found)]

    def content(self, item: _Object, ends: _Ends) -> Constraint:
        value = item.take("content", lambda v: isinstance(v, Mapping), "a format, an object")
        return self.format(value, extended(item.pointer, "content"), ends)

    def sequence(self, item: _Object, ends: _Ends) -> Constraint:
        return sequence(*self.elements(item, ends))

    def either(self, item: _Object, ends: _Ends) -> Constraint:
        return AnyOf(tuple(self.elements(item, ends)))

    def optional(self, item: _Object, ends: _Ends) -> Constraint:
        return Repetition(self.content(item, ends), 0, 1)

    def plus(self, item: _Object, ends: _Ends) -> Constraint:
        return Repetition(self.content(item, ends), 1, None)

    def star(self, item: _Object, ends: _Ends) -> Constraint:
        return Repetition(self.content(item, ends), 0, None)

    def repeat(self, item: _Object, ends: _Ends) -> Constraint:
        low, high = item.count("min"), item.count("max", least=-1)
        if 0 <= high < low:
            raise item.fail(f"max ({high}) is below min ({low}); -1 stands for no bound", key="max")
        return Repetition(self.content(item, ends), low, None if high < 0 else high)

    # -- tags ----------------------------------------------------------------------------------------------------
    def tag(self, item: _Object, ends: _Ends) -> Constraint:
        begin, rest = self.tag_parts(item)
        return sequence(Marker(begin) if isinstance(begin, str) else begin, rest)

    def tag_parts(self, item: _Object) -> tuple[str | SpecialToken | Constraint, Constraint]:
        """What a tag begins with, and the rest of it."""
        begin = item.take("begin", lambda v: isinstance(v, str | Mapping), "a string or a token")
        end = item.take("end", lambda v: isinstance(v, str | list | tuple | Mapping), "a string, some, or a token")
        start: str | Constraint = begin
        if isinstance(begin, Mapping):
            start = self.tag_token(begin, extended(item.pointer, "begin"))[0]
        if isinstance(end, Mapping):
            close, token = self.tag_token(end, extended(item.pointer, "end"))
            ends = _Ends(tokens=(token,))
        else:
            texts = (end,) if isinstance(end, str) else tuple(end)
            if not texts or not all(isinstance(text, str) for text in texts):
                raise item.fail("end must be a string, or a list of one or more strings", key="end")
            close = AnyOf(tuple(map(Marker, texts))) if len(texts) > 1 else Marker(texts[0])
            ends = _Ends(texts=tuple(text for text in texts if text))
        return start, sequence(self.content(item, ends), close)

    def tag_token(self, value: Any, pointer: str) -> tuple[Constraint, str | int]:
        item = _Object(value, pointer)
        if not isinstance(item.kind, str) or item.kind != "token":
            raise item.fail("begin and end must be strings, or of the type 'token'")
        name = item.take("token", _is_token, "the text or the id of a token")
        item.done()
        return self.tokens.one(name, pointer), name

    def tags(self, item: _Object) -> list[tuple[str | Constraint, Constraint, _Object, Any]]:
        found = []
        pointer = extended(item.pointer, "tags")
        values = item.items("tags")
        if not values:
            raise item.fail("at least one tag is needed", key="tags")
        for i, value in enumerate(values):
            tag = _Object(value, extended(pointer, i))
            if "type" in tag.values and not (isinstance(tag.kind, str) and tag.kind == "tag"):
                raise tag.fail(f"expected a tag, not {_words(tag.kind)}")
            begin_value = tag.values.get("begin")
            begin, rest = self.tag_parts(tag)
            tag.done()
            found.append((begin, rest, tag, begin_value))
        return found

    def tags_with_separator(self, item: _Object, ends: _Ends) -> Constraint:
        tags = [sequence(Marker(t[0]) if isinstance(t[0], str) else t[0], t[1]) for t in self.tags(item)]
        separator = item.text("separator")
        least = 1 if item.flag("at_least_one") else 0
        most = 1 if item.flag("stop_after_first") else None
        return SeparatedBy(AnyOf(tuple(tags)), Marker(separator), least, most)

    def triggered_tags(self, item: _Object, ends: _Ends) -> Constraint:
        triggers = item.texts("triggers")
        tags = []
        for begin, rest, tag, _ in self.tags(item):
            if not isinstance(begin, str):
                raise tag.fail("a trigger is text, so the tag must begin with a string; see token_triggered_tags")
            tags.append((begin, rest))
        required, once = item.flag("at_least_one"), item.flag("stop_after_first")
        excludes = (*self.excludes(item, triggers), *ends.texts)
        return self.dispatch(item, tags, triggers, excludes, required=required, loop=not once)

    def dispatch(
        self,
        item: _Object,
        tags: list[tuple[str, Constraint]],
        triggers: tuple[str, ...],
        excludes: tuple[str, ...] = (),
        *,
        required: bool = False,
        loop: bool = True,
        key: str = "tags",
    ) -> Constraint:
        if not triggers:
            raise item.fail("at least one trigger is needed", "structural-tag-trigger", "triggers")
        for i, (begin, _) in enumerate(tags):
            matching = [trigger for trigger in triggers if begin.startswith(trigger)]
            if len(matching) != 1:
                what = "no trigger" if not matching else f"the triggers {', '.join(map(repr, matching))}"
                raise ToolError(
                    f"begin {_words(begin)} starts with {what}; it must start with exactly one",
                    code="structural-tag-trigger",
                    pointer=extended(item.pointer, key, i),
                )
        return Dispatch(tuple(tags), triggers, excludes, loop=loop, required=required)

    def pattern_dispatch(self, item: _Object, ends: _Ends) -> Constraint:
        rules: list[tuple[str, Constraint]] = []
        for i, (pattern, content) in enumerate(self.rules(item, ends)):
            if not isinstance(pattern, str) or not pattern or any(pattern == known for known, _ in rules):
                raise item.fail(
                    f"the pattern of rule {i} must be a string of its own, not {_words(pattern)}",
                    "structural-tag-trigger",
                )
            if has_surrogate(pattern):
                raise item.fail(
                    f"the pattern of rule {i} contains a lone surrogate; remove it", "lone-surrogate", "rules"
                )
            rules.append((pattern, content))
        loop = item.flag("loop", True)
        patterns = tuple(pattern for pattern, _ in rules)
        excludes = (*self.excludes(item, patterns), *ends.texts)
        return Dispatch(tuple(rules), patterns, excludes, loop=loop)

    @staticmethod
    def excludes(item: _Object, triggers: tuple[str, ...]) -> tuple[str, ...]:
        found = item.texts("excludes", [])
        for i, text in enumerate(found):
            if text in triggers:
                raise ToolError(
                    f"{_words(text)} is a trigger, so it cannot be excluded; leave it out of one of the two",
                    code="structural-tag-trigger",
                    pointer=extended(item.pointer, "excludes", i),
                )
        return found

    def rules(self, item: _Object, ends: _Ends) -> list[tuple[Any, Constraint]]:
        pointer = extended(item.pointer, "rules")
        found = []
        for i, rule in enumerate(item.items("rules")):
            if not isinstance(rule, list | tuple) or len(rule) != 2:
                raise ToolError(
                    "a rule must be a list of two: a pattern, and the format of what follows it",
                    code="structural-tag",
                    pointer=extended(pointer, i),
                )
            found.append((rule[0], self.format(rule[1], extended(pointer, i, 1), ends)))
        if not found:
            raise item.fail("at least one rule is needed", key="rules")
        return found

    # -- tokens --------------------------------------------------------------------------------------------------
    def token(self, item: _Object, ends: _Ends) -> Constraint:
        name = item.take("token", _is_token, "the text or the id of a token")
        return self.tokens.one(name, item.pointer)

    def token_list(self, item: _Object, key: str, default: Any = _MISSING) -> tuple[str | int, ...]:
        found = item.items(key, default)
        for i, name in enumerate(found):
            if not _is_token(name):
                raise ToolError(
                    f"expected the text or the id of a token, not {_words(name)}",
                    code="structural-tag",
                    pointer=extended(item.pointer, key, i),
                )
        return tuple(found)

    def exclude_token(self, item: _Object, ends: _Ends) -> Constraint:
        excluded = self.token_list(item, "exclude_tokens", [])
        return self.tokens.any_but((*excluded, *ends.tokens), item.pointer)

    def any_tokens(self, item: _Object, ends: _Ends) -> Constraint:
        excluded = self.token_list(item, "exclude_tokens", [])
        one = self.tokens.any_but((*excluded, *ends.tokens), item.pointer)
        return Repetition(one, 0, item.count("max_tokens", None))

    def token_triggered_tags(self, item: _Object, ends: _Ends) -> Constraint:
        triggers = self.token_list(item, "trigger_tokens")
        rules = []
        for begin, rest, tag, begin_value in self.tags(item):
            if isinstance(begin, str):
                raise tag.fail("a trigger is a token, so the tag must begin with a token; see triggered_tags")
            if not any(self.tokens.same(begin_value["token"], trigger) for trigger in triggers):
                raise tag.fail(
                    f"{_words(begin_value['token'])} is not one of the trigger_tokens",
                    "structural-tag-trigger",
                    "begin",
                )
            rules.append((begin, rest))
        excluded = (*self.token_list(item, "exclude_tokens", []), *ends.tokens, *triggers)
        required, once = item.flag("at_least_one"), item.flag("stop_after_first")
        return TokenDispatch(tuple(rules), self.tokens.any_but(excluded, item.pointer), not once, required)

    def token_dispatch(self, item: _Object, ends: _Ends) -> Constraint:
        rules = []
        names = []
        for i, (name, content) in enumerate(self.rules(item, ends)):
            if not _is_token(name):
                raise item.fail(f"the pattern of rule {i} must be the text or the id of a token, not {_words(name)}")
            names.append(name)
            rules.append((self.tokens.one(name, item.pointer), content))
        loop = item.flag("loop", True)
        excluded = (*self.token_list(item, "exclude_tokens", []), *ends.tokens, *names)
        return TokenDispatch(tuple(rules), self.tokens.any_but(excluded, item.pointer), loop)


_FORMATS: dict[str, Callable[[_Reader, _Object, _Ends], Constraint]] = {
    "const_string": _Reader.const_string,
    "json_schema": _Reader.json_schema,
    "grammar": _Reader.grammar,
    "regex": _Reader.regex,
    "any_text": _Reader.any_text,
    "sequence": _Reader.sequence,
    "or": _Reader.either,
    "optional": _Reader.optional,
    "plus": _Reader.plus,
    "star": _Reader.star,
    "repeat": _Reader.repeat,
    "tag": _Reader.tag,
    "triggered_tags": _Reader.triggered_tags,
    "tags_with_separator": _Reader.tags_with_separator,
    "dispatch": _Reader.pattern_dispatch,
    "token": _Reader.token,
    "exclude_token": _Reader.exclude_token,
    "any_tokens": _Reader.any_tokens,
    "token_triggered_tags": _Reader.token_triggered_tags,
    "token_dispatch": _Reader.token_dispatch,
    "qwen_xml_parameter": _Reader.qwen_xml_parameter,
}
