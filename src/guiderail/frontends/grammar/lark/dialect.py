"""What llguidance adds to Lark's notation, rewritten so that Lark reads the rest.

Each such form becomes a terminal that is only declared; what it stands for is kept beside the text. Places in the
new text are mapped back, so that errors point into what the user wrote.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from guiderail.constraints.constraint import Constraint, SpecialToken
from guiderail.errors import CompileError, PatternError
from guiderail.frontends.grammar.lark.tokens import Statement, Token, statements, tokens

__all__ = ["UNBOUNDED", "Cut", "Rewritten", "rewrite"]

UNBOUNDED = 1_999_999_999
"""Stands for "without bound" in a rewritten ``~m..n``."""

_ENFORCED = ("lazy", "stop", "suffix")
_NO_MEANING = {
    "capture": "what is captured is not recorded",
    "stop_capture": "what is captured is not recorded",
    "temperature": "sampling is not the grammar's",
}
_EMPTY = ('""', '""i')  # strings that Lark refuses
_SPECIAL_RANGES = 4096  # most ids that one `<[…]>` may name


@dataclass(frozen=True, slots=True)
class Cut:
    """A terminal that Lark does not see.

    Attributes:
        name: what the rewritten grammar calls it.
        tokens: its definition.
        shortest: whether a lexeme ends where it first matches.
        suffix: tokens of what must follow, as a part of it.
        priority: as in ``NAME.2: …``.
    """

    name: str
    tokens: tuple[Token, ...]
    shortest: bool = False
    suffix: tuple[Token, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """Texts of a terminal's definition that do not contain those of another."""

    tokens: tuple[Token, ...]
    stop: tuple[Token, ...]


@dataclass(slots=True)
class Rewritten:
    """A grammar that Lark reads.

    Attributes:
        text: the grammar.
        embedded: declared terminals that stand for a constraint, or for what ``Stop`` says.
        cuts: terminals to be read without Lark, by name.
        renamed: names of the new text to those of the source, where they differ.
        notes: what was read and has no meaning here.
        foreign: whether anything of llguidance's was found.
        statements: of the source.
    """

    source: str
    text: str = ""
    embedded: dict[str, Constraint | Stop] = field(default_factory=dict)
    cuts: dict[str, Cut] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    foreign: bool = False
    statements: list[Statement] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])  # of unchanged stretches in the new text …
    shifts: list[int] = field(default_factory=lambda: [0])  # … and how far they are from those of the source

    def place(self, offset: int) -> int:
        """The place in the source of an offset in the rewritten text."""
        i = bisect_right(self.starts, offset) - 1
        return max(0, min(offset + self.shifts[i], len(self.source)))


def rewrite(source: str, constraints: Mapping[str, Constraint]) -> Rewritten:
    """Rewrites a grammar.

    Args:
        source: the grammar.
        constraints: what ``@name`` stands for.

    Raises:
        PatternError: a form cannot be read.
        CompileError: it asks for what cannot be enforced.
    """
    found = tokens(source)
    result = Rewritten(source)
    result.statements = statements(source, found)
    return _Rewriter(result, constraints).run()


class _Rewriter:
    def __init__(self, result: Rewritten, constraints: Mapping[str, Constraint]) -> None:
        self.result = result
        self.source = result.source
        self.constraints = constraints
        self.edits: list[tuple[int, int, str]] = []
        self.prefix = "GR__"
        while self.prefix in self.source:
            self.prefix += "X_"
        self.same: dict[object, str] = {}

    def fail(self, message: str, start: int, end: int) -> NoReturn:
        raise PatternError(message, code="lark-syntax", source=self.source, span=(start, max(end, start + 1)))

    def refuse(self, message: str, start: int, end: int) -> NoReturn:
        raise CompileError(message, code="lark-unsupported", source=self.source, span=(start, max(end, start + 1)))

    def edit(self, start: int, end: int, text: str) -> None:
        self.edits.append((start, end, text))

    def run(self) -> Rewritten:
        result = self.result
        self.rename()
        cut = self.terminals_to_cut()
        for statement in result.statements:
            first = statement.tokens[0]
            if first.text == "%llguidance":
                self.options(statement)
            elif statement.name is not None and statement.name.text in cut and statement.defines_terminal:
                self.cut(statement)
            elif first.text == "%ignore" and _needs_reading(statement.tokens[1:], cut):
                name = self.anonymous("IGNORE", Cut("", tuple(statement.tokens[1:])))
                self.edit(statement.tokens[1].start, statement.tokens[-1].end, name)
            else:
                self.statement(statement)
        self.apply()
        return result

    def rename(self) -> None:
        """Names with ``-``, which Lark does not know."""
        taken = {token.text for statement in self.result.statements for token in statement.tokens}
        names: dict[str, str] = {}
        for statement in self.result.statements:
            for token in statement.tokens:
                if token.kind != "name" or "-" not in token.text:
                    continue
                if token.text not in names:
                    new = token.text.replace("-", "_")
                    while new in taken:
                        new += "_"
                    taken.add(new)
                    names[token.text] = new
                    self.result.renamed[new] = token.text
                self.edit(token.start, token.end, names[token.text])
        self.names = names

    def terminals_to_cut(self) -> set[str]:
        """Terminals with forms that Lark does not know, and those that are made of them."""
        cut: set[str] = set()
        defined = [s for s in self.result.statements if s.defines_terminal]
        for token in (token for statement in defined for token in statement.body if token.text == "%json"):
            self.refuse("a JSON Schema is no regular expression: define a rule, with a name in lower case", *token.span)
        while True:
            more = {s.name.text for s in defined if s.name is not None and _needs_reading(s.body, cut)} - cut
            if not more:
                break
            cut |= more
        for statement in defined:
            if statement.name is not None and statement.name.text in cut and statement.tokens[0].kind == "directive":
                self.refuse(
                    f"{statement.tokens[0].text} cannot be used with terminals that hold &, ~, {{m,n}} or %regex; "
                    "define the terminal under another name",
                    *statement.tokens[0].span,
                )
        if cut:
            self.result.foreign = True
        return cut

    def cut(self, statement: Statement) -> None:
        assert statement.name is not None
        name = self.names.get(statement.name.text, statement.name.text)
        head = statement.tokens[: statement.colon]
        priority = 0
        if len(head) >= 3 and head[-2].text == "." and head[-1].kind == "number":
            priority = int(head[-1].text)
            head = head[:-2]
        if len(head) != 1:
            self.fail(
                "a terminal's name, perhaps with a priority, was expected before ':'", head[0].start, head[-1].end
            )
        if name in self.result.cuts:
            self.fail(f"the terminal {name} is defined twice", statement.name.start, statement.name.end)
        self.result.cuts[name] = Cut(name, tuple(statement.body), priority=priority)
        begin, end = statement.tokens[0].start, statement.tokens[-1].end
        self.edits = [e for e in self.edits if not (begin <= e[0] and e[1] <= end)]
        self.edit(begin, end, f"%declare {name}")

    def anonymous(self, kind: str, what: Cut | Stop | Constraint, shown: str = "") -> str:
        """A declared terminal for ``what``; the same one for what is the same. ``shown``: its name for users."""
        key: object = what
        if isinstance(what, Cut):
            key = (_texts(what.tokens), what.shortest, _texts(what.suffix))
        elif isinstance(what, Stop):
            key = (_texts(what.tokens), _texts(what.stop))
        if key not in self.same:
            name = f"{self.prefix}{kind}_{len(self.same)}"
            self.same[key] = name
            self.result.renamed[name] = shown or f"%{kind.lower()} {len(self.same)}"
            if isinstance(what, Cut):
                self.result.cuts[name] = Cut(name, what.tokens, what.shortest, what.suffix)
            else:
                self.result.embedded[name] = what
        self.result.foreign = True
        return self.same[key]

    def options(self, statement: Statement) -> None:
        begin, end = statement.tokens[0].start, statement.tokens[-1].end
        value, stop = self.json(statement.tokens[0], statement.tokens[1:2])
        if stop != end or not isinstance(value, dict):
            self.fail("%llguidance takes one JSON object", begin, end)
        for key, chosen in value.items():
            if key == "no_forcing" or (key == "skip_repetition" and chosen == "repeat"):
                self.result.notes.append(f"the option {key!r} changes nothing: the language is the same")
            elif chosen:
                self.refuse(f"the option {key!r} is not known here; remove it", begin, end)
        self.result.foreign = True
        self.edit(begin, end, "")

    def json(self, token: Token, following: list[Token]) -> tuple[Any, int]:
        """The JSON value behind a directive, and where it ends."""
        if not following or following[0].text != "{":
            self.fail(f"{token.text} must be followed by a JSON object", token.start, token.end)
        try:
            return json.JSONDecoder().raw_decode(self.source, following[0].start)
        except json.JSONDecodeError as error:
            self.fail(f"this is not JSON: {error.msg.lower()}", error.pos, error.pos + 1)

    def statement(self, statement: Statement) -> None:
        found = statement.tokens
        if statement.name is None:
            self.body(found)
            return
        opening = statement.name.end
        at = next(i for i, token in enumerate(found) if token is statement.name)
        if not statement.defines_terminal and found[at + 1].text == "[" and found[at + 1].start == opening:
            close = next((i for i in range(at, statement.colon) if found[i].text == "]"), None)
            if close is None or close + 1 != statement.colon:
                self.fail("the attributes of a rule end in ']' before ':'", found[at + 1].start, found[at + 1].end)
            self.edit(found[at + 1].start, found[close].end, "")
            self.result.foreign = True
            if self.attributes(statement, found[at + 2 : close]):
                return
        for token in found[: statement.colon]:
            if token.text == "::":
                self.refuse("parametric rules (name::parameter) are not read; write the cases out", *token.span)
        self.body(statement.body)

    def attributes(self, statement: Statement, found: list[Token]) -> bool:
        """Reads ``name[…]``; whether the body has been replaced."""
        assert statement.name is not None
        given: dict[str, tuple[Token, Token | None]] = {}
        i = 0
        while i < len(found):
            key, value = found[i], None
            if key.kind != "name":
                self.fail('an attribute of the rule was expected, e.g. lazy or suffix="…"', key.start, key.end)
            i += 1
            if i + 1 < len(found) and found[i].text == "=":
                value = found[i + 1]
                i += 2
                while key.text == "temperature" and i < len(found) and found[i].text != ",":
                    i += 1
            if i < len(found):
                if found[i].text != ",":
                    self.fail("',' was expected between two attributes", found[i].start, found[i].end)
                i += 1
            given[key.text] = key, value
        rule = statement.name.text
        for name, (key, value) in given.items():
            if name in _NO_MEANING:
                self.result.notes.append(f"rule {rule}: {name!r} has no effect: {_NO_MEANING[name]}")
            elif name == "max_tokens":
                self.refuse(
                    "max_tokens is not enforced, as a text does not show where tokens end; limit characters in the "
                    "pattern instead, e.g. /.{0,200}/",
                    *key.span,
                )
            elif name not in _ENFORCED:
                self.refuse(f"the attribute {name!r} is not known here; remove it", *key.span)
            elif name != "lazy" and (value is None or value.kind not in ("string", "regexp", "name")):
                self.fail(f"{name} takes a string, a regular expression or a terminal", *key.span)
        if not any(name in given for name in _ENFORCED):
            return False
        body = statement.body
        if not body:
            self.fail("this rule is empty; attributes need a terminal expression", *statement.name.span)
        for token in body:
            if token.kind in ("special", "grammar") or token.text == "%json" or _is_rule(token):
                self.refuse(
                    f"lazy, stop and suffix need a body of terminals, and {token.text} is none; "
                    "use strings, regular expressions and names in capitals",
                    *token.span,
                )
        span = body[0].start, body[-1].end
        stop, suffix = given.get("stop"), given.get("suffix")
        if stop is not None and stop[1] is not None:
            if stop[1].text in ('""', "//"):
                self.refuse("an empty stop hides the end of the model's text; leave the attribute out", *stop[1].span)
            if suffix is not None:
                self.fail("a rule has a stop or a suffix, not both", *stop[0].span)
            name = self.anonymous("STOP", Stop(tuple(body), (stop[1],)))
        else:
            ending = (suffix[1],) if suffix is not None and suffix[1] is not None else ()
            name = self.anonymous("LAZY", Cut("", tuple(body), True, ending))
        self.edits = [e for e in self.edits if not (span[0] <= e[0] and e[1] <= span[1])]
        self.edit(*span, name)
        return True

    def body(self, found: list[Token]) -> None:
        """Replaces what Lark does not read in a rule or directive."""
        i = 0
        while i < len(found):
            token = found[i]
            i += 1
            if token.kind == "directive" and token.text in ("%json", "%regex"):
                value, end = self.json(token, found[i : i + 1])
                begin = i
                while i < len(found) and found[i].start < end:
                    i += 1
                if token.text == "%json":
                    name = self.anonymous("JSON", self.schema(value, token, end))
                else:
                    name = self.anonymous("REGEX", Cut("", (token, *found[begin:i])))
                self.edit(token.start, end, name)
            elif token.text in _EMPTY:
                self.edit(token.start, token.end, "()")
            elif token.kind == "special":
                self.edit(token.start, token.end, self.anonymous("TOKEN", self.special(token), token.text))
            elif token.kind == "grammar":
                if token.text[1:] not in self.constraints:
                    self.refuse(
                        f"{token.text} is not known; pass it, e.g. constraints={{{token.text[1:]!r}: …}}", *token.span
                    )
                self.edit(token.start, token.end, self.anonymous("PART", self.constraints[token.text[1:]], token.text))
            elif token.text == "{" and _counts(found[i - 1 :]):
                i = self.braces(found, i - 1)
            elif token.kind == "mark" and token.text in ("&", "::"):
                self.refuse(
                    "'&' joins terminals; define one with a name in capitals"
                    if token.text == "&"
                    else "parametric rules (name::parameter) are not read; write the cases out",
                    *token.span,
                )

    def braces(self, found: list[Token], i: int) -> int:
        """``{m,n}`` as ``~m..n``; the index behind it."""
        close = next(k for k in range(i, len(found)) if found[k].text == "}")
        inner = [t.text for t in found[i + 1 : close]]
        low = 0 if inner[0] == "," else int(inner[0])
        high = low if inner[-1] != "," and len(inner) == 1 else UNBOUNDED if inner[-1] == "," else int(inner[-1])
        if high < low:
            self.fail(f"the most ({high}) is below the least ({low}); swap them", found[i].start, found[close].end)
        self.edit(found[i].start, found[close].end, f" ~{low}..{high} ")
        self.result.foreign = True
        return close + 1

    def schema(self, value: Any, token: Token, end: int) -> Constraint:
        from guiderail.frontends.json_schema import json_schema

        if isinstance(value, dict) and "x-guidance" in value:
            self.refuse(
                f"the options under 'x-guidance' ({', '.join(map(str, value['x-guidance']))}) are not read; write "
                "@name and pass gr.json_schema(…) with options of its own under that name in constraints",
                token.start,
                end,
            )
        return json_schema(value)

    def special(self, token: Token) -> Constraint:
        """``<name>``, ``<[12]>``, ``<[10-20,30]>``."""
        inner = token.text[1:-1]
        if not (inner.startswith("[") and inner.endswith("]")):
            return SpecialToken((token.text,))
        if inner.startswith("[^") or inner == "[*]":
            self.refuse(
                "which tokens these are depends on the size of the vocabulary; name the ranges that are meant",
                *token.span,
            )
        ids: list[int] = []
        for part in inner[1:-1].split(","):
            low, dash, high = part.partition("-")
            if not low.isdecimal() or (dash and not high.isdecimal()):
                self.fail("ids of tokens look like <[12]>, <[10-20]> or <[10-20,30]>", token.start, token.end)
            first, last = int(low), int(high) if dash else int(low)
            if last < first or last - first + len(ids) >= _SPECIAL_RANGES or last >= 2**31:
                self.fail(
                    f"a range of tokens runs from the lower id to the higher, {_SPECIAL_RANGES} ids at most",
                    token.start,
                    token.end,
                )
            ids.extend(range(first, last + 1))
        return SpecialToken(tuple(dict.fromkeys(ids)))

    def apply(self) -> None:
        result = self.result
        parts: list[str] = []
        at = size = 0
        for start, end, text in sorted(self.edits):
            parts.append(self.source[at:start])
            size += start - at
            result.starts.append(size)
            result.shifts.append(start - size)
            parts.append(text)
            size += len(text)
            result.starts.append(size)
            result.shifts.append(end - size)
            at = end
        parts.append(self.source[at:])
        declared = [*result.embedded, *(name for name in result.cuts if name.startswith(self.prefix))]
        if declared:
            parts.append(f"\n%declare {' '.join(declared)}\n")
        result.text = "".join(parts)


def _needs_reading(found: list[Token], cut: set[str]) -> bool:
    for i, token in enumerate(found):
        if token.text == "%regex" or token.text in _EMPTY or (token.kind == "name" and token.text in cut):
            return True
        if token.kind == "mark":
            if token.text in ("&", "{"):
                return True
            if token.text == "~" and not (i + 1 < len(found) and found[i + 1].kind == "number"):
                return True
    return False


def _counts(found: list[Token]) -> bool:
    """Whether ``{`` begins a counted repetition and no arguments of a template."""
    inner: list[str] = []
    for token in found[1:5]:
        if token.text == "}":
            break
        inner.append(token.text)
    else:
        return False
    return "".join(inner).replace(",", "", 1).isdecimal()


def _is_rule(token: Token) -> bool:
    return token.kind == "name" and token.text.lstrip("_")[:1].islower()


def _texts(found: tuple[Token, ...]) -> tuple[str, ...]:
    return tuple(token.text for token in found)
