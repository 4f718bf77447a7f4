"""Rewrites what llguidance adds to Lark's notation, so that Lark can read the rest.

Each such form becomes a declared terminal, and what it stands for is kept separately. Positions in the new text are
mapped back, so that errors point into the user's text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, PatternError
from guiderail.frontends.grammar.lark.attributes import Attributes
from guiderail.frontends.grammar.lark.embedded import EmbeddedParts, is_embedded, json_at
from guiderail.frontends.grammar.lark.patterns import IN_A_CLASS
from guiderail.frontends.grammar.lark.terms import range_ends
from guiderail.frontends.grammar.lark.tokens import Statement, Token, statements, times, tokens
from guiderail.frontends.grammar.nesting import Nesting
from guiderail.support.numerals import read_integer

__all__ = ["UNBOUNDED", "Bounded", "Cut", "Rewritten", "Stop", "rewrite"]

UNBOUNDED = 1_999_999_999
"""Stands for "without bound" in a rewritten ``~m..n``."""

_OPTIONS = ("allow_initial_skip", "allow_invalid_utf8", "ignore_once", "no_forcing", "skip_repetition")
_EMPTY = ('""', '""i')  # strings that Lark refuses
_KINDS = {"%json": ("JSON", ""), "%lark": ("LARK", "")}


@dataclass(frozen=True, slots=True)
class Cut:
    """A terminal that Lark does not see.

    Attributes:
        name: its name in the rewritten grammar.
        tokens: its definition.
        shortest: whether a lexeme ends at the first match.
        suffix: tokens of what must follow and is part of it.
        priority: as in ``NAME.2: …``.
    """

    name: str
    tokens: tuple[Token, ...]
    shortest: bool = False
    suffix: tuple[Token, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """Texts of a terminal's definition that contain no text of another one."""

    tokens: tuple[Token, ...]
    stop: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Bounded:
    """A rule whose texts are bounded, or that may end wherever one of them does: a language of its own.

    Attributes:
        rule: its name.
        tokens: its body.
        given: its attributes.
    """

    rule: str
    tokens: tuple[Token, ...]
    given: Attributes


@dataclass(slots=True)
class Rewritten:
    """A grammar that Lark can read.

    Attributes:
        text: the grammar.
        embedded: declared terminals that stand for a constraint, or for a ``Stop`` or ``Bounded``.
        cuts: terminals to be read without Lark, by name.
        renamed: names of the new text to those of the source, if they differ.
        notes: what was read and has no effect.
        foreign: whether it contained anything of llguidance's.
        ignore_once: whether ignored text may occur only once between two terminals.
        parts: where the separate languages stand in the source, by the names of their terminals.
        captures: attributes of rules whose texts are captured.
        statements: the statements of the source.
        part_at: reads a separate language, from its first token and the start of the next one; returns where it ends.
    """

    source: str
    text: str = ""
    embedded: dict[str, Constraint | Stop | Bounded] = field(default_factory=dict)
    cuts: dict[str, Cut] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    foreign: bool = False
    ignore_once: bool = False
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)
    captures: dict[str, Attributes] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    part_at: Callable[[Token, int], tuple[Constraint, int]] | None = None
    starts: list[int] = field(default_factory=lambda: [0])  # of unchanged stretches in the new text …
    shifts: list[int] = field(default_factory=lambda: [0])  # … and their distances from those of the source

    def place(self, offset: int) -> int:
        """The position in the source of an offset in the rewritten text."""
        i = bisect_right(self.starts, offset) - 1
        return max(0, min(offset + self.shifts[i], len(self.source)))


def rewrite(source: str, constraints: Mapping[str, Constraint], nested: Nesting | None = None) -> Rewritten:
    """Rewrites a grammar.

    Args:
        source: the grammar.
        constraints: what ``@name`` stands for.
        nested: makes nested grammars and schemas.

    Raises:
        PatternError: a form cannot be read.
        CompileError: a form cannot be enforced.
    """
    found = tokens(source)
    result = Rewritten(source)
    result.statements = statements(source, found)
    return _Rewriter(result, EmbeddedParts(source, constraints, nested, result.notes)).run()


class _Rewriter:
    def __init__(self, result: Rewritten, parts: EmbeddedParts) -> None:
        self.result = result
        self.source = result.source
        self.parts = parts
        result.part_at = self.parts.read
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
            if first.text in ("%llguidance", "%grammar_options"):
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
        for token in (token for statement in defined for token in statement.body if token.text in ("%json", "%lark")):
            what = "a JSON Schema" if token.text == "%json" else "a grammar"
            self.refuse(f"{what} is not a regular expression: define a rule, with a name in lower case", *token.span)
        while True:
            more = {s.name.text for s in defined if s.name is not None and _needs_reading(s.body, cut)} - cut
            if not more:
                break
            cut |= more
        for statement in defined:
            if statement.name is not None and statement.name.text in cut and statement.tokens[0].kind == "directive":
                self.refuse(
                    f"{statement.tokens[0].text} cannot be used with terminals that contain &, ~, {{m,n}} or %regex; "
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
            priority = read_integer(head[-1].text)
            head = head[:-2]
        if len(head) != 1:
            self.fail("expected a terminal's name, optionally with a priority, before ':'", head[0].start, head[-1].end)
        if name in self.result.cuts:
            self.fail(
                f"the terminal {name} is defined twice; join both with |", statement.name.start, statement.name.end
            )
        self.result.cuts[name] = Cut(name, tuple(statement.body), priority=priority)
        begin, end = statement.tokens[0].start, statement.tokens[-1].end
        self.drop_edits(begin, end)
        self.edit(begin, end, f"%declare {name}")

    def anonymous(self, kind: str, what: Cut | Stop | Bounded | Constraint, shown: str = "") -> str:
        """A declared terminal for ``what``, one for equal values. ``shown``: its name for users."""
        key: object = what
        if isinstance(what, Cut):
            key = (_texts(what.tokens), what.shortest, _texts(what.suffix))
        elif isinstance(what, Stop):
            key = (_texts(what.tokens), _texts(what.stop))
        elif isinstance(what, Bounded):
            key = ("bounded", what.rule)
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
        head = statement.tokens[0]
        value, stop = json_at(self.source, head, statement.tokens[1].start if statement.tokens[1:] else head.end)
        if stop != end or not isinstance(value, dict):
            self.fail("%llguidance takes one JSON object", begin, end)
        for key, chosen in value.items():
            if key == "skip_repetition" and chosen in ("once", "repeat"):
                self.result.ignore_once = chosen == "once"
            elif key not in _OPTIONS:
                self.refuse(f"there is no option {key!r}; there are {', '.join(_OPTIONS)}", begin, end)
            elif not isinstance(chosen, bool):
                self.fail(f"the option {key!r} must be true or false", begin, end)
            elif key == "ignore_once":
                self.result.ignore_once = chosen
            elif key == "allow_invalid_utf8" and chosen:
                self.refuse("guiderail allows only valid UTF-8; remove 'allow_invalid_utf8'", begin, end)
            elif key == "no_forcing":
                self.result.notes.append(f"the option {key!r} changes nothing: the language is the same")
        self.result.foreign = True
        self.edit(begin, end, "")

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
                self.fail("the attributes of a rule must end in ']' before ':'", found[at + 1].start, found[at + 1].end)
            self.edit(found[at + 1].start, found[close].end, "")
            self.result.foreign = True
            if self.attributes(statement, found[at + 2 : close]):
                return
        self.body(statement.body)

    def attributes(self, statement: Statement, found: list[Token]) -> bool:
        """Reads ``name[…]``. Returns whether the body has been replaced."""
        assert statement.name is not None
        given = Attributes.read(self.source, found)
        rule = statement.name.text
        if given.temperature is not None:
            self.refuse(
                "temperature belongs to sampling, not to a grammar: remove it, and pass temperature=… "
                "where you generate",
                *given.temperature.span,
            )
        if given.capture is not None or given.stop_capture is not None:
            self.result.captures[rule] = given
        if not given.change_texts:
            return False
        body = statement.body
        if not body:
            self.fail("this rule is empty; attributes need a terminal expression", *statement.name.span)
        other = next((token for token in body if _is_no_terminal(token)), None)
        if other is not None and given.end_early:
            self.refuse(
                f"lazy, stop and suffix need a body of terminals, and {other.text} is not one; "
                "use strings, regular expressions and names in capitals",
                *other.span,
            )
        span = body[0].start, body[-1].end
        if given.most is not None or given.open_end:
            name = self.anonymous("PART", Bounded(rule, tuple(body), given), f"{rule}[…]")
        elif given.stop:
            name = self.anonymous("STOP", Stop(tuple(body), given.stop))
        else:
            name = self.anonymous("LAZY", Cut("", tuple(body), True, given.suffix))
        self.drop_edits(*span)
        self.edit(*span, name)
        return True

    def drop_edits(self, begin: int, end: int) -> None:
        """Drops edits inside a range that is replaced as a whole."""
        self.edits = [e for e in self.edits if not (begin <= e[0] and e[1] <= end)]

    def body(self, found: list[Token]) -> None:
        """Replaces what Lark does not read in a rule or directive."""
        i = 0
        while i < len(found):
            token = found[i]
            i += 1
            if is_embedded(token):
                part, end = self.parts.read(token, found[i].start if i < len(found) else token.end)
                while i < len(found) and found[i].start < end:
                    i += 1
                kind, shown = _KINDS.get(token.text, ("TOKEN" if token.kind == "special" else "PART", token.text))
                self.drop_edits(token.start, end)
                name = self.anonymous(kind, part, shown)
                self.result.parts.setdefault(name, (token.start, end))
                self.edit(token.start, end, name)
            elif token.text == "%regex":
                _, end = json_at(self.source, token, found[i].start if i < len(found) else token.end)
                begin = i
                while i < len(found) and found[i].start < end:
                    i += 1
                self.edit(token.start, end, self.anonymous("REGEX", Cut("", (token, *found[begin:i]))))
            elif token.text == ".." and 1 < i < len(found) and found[i - 2].kind == found[i].kind == "string":
                self.range(found[i - 2], found[i])
            elif token.text in _EMPTY:
                self.edit(token.start, token.end, "()")
            elif token.text == "{" and _counts(found[i - 1 :]):
                i = self.braces(found, i - 1)
            elif token.text == "&" and token.kind == "mark":
                self.refuse("'&' works only between terminals; define one, with a name in capitals", *token.span)

    def range(self, first: Token, last: Token) -> None:
        """For ``"^".."z"``, Lark makes the class ``[^-z]``, any but two characters. So its ends are escaped here."""
        ends = range_ends(first, last, self.source)
        if not IN_A_CLASS.isdisjoint(ends):
            low, high = (f"\\{c}" if c in IN_A_CLASS else c if c.isprintable() else f"\\U{ord(c):08x}" for c in ends)
            self.edit(first.start, last.end, f"/[{low}-{high}]/")

    def braces(self, found: list[Token], i: int) -> int:
        """Rewrites ``{m,n}`` as ``~m..n``. Returns the index after it."""
        close = next(k for k in range(i, len(found)) if found[k].text == "}")
        inner = [t.text for t in found[i + 1 : close]]
        low = 0 if inner[0] == "," else times(inner[0])
        high = UNBOUNDED if inner[-1] == "," else low if len(inner) == 1 else times(inner[-1])
        if high < low:
            self.fail(f"the maximum ({high}) is below the minimum ({low}); swap them", found[i].start, found[close].end)
        self.edit(found[i].start, found[close].end, f" ~{low}..{high} ")
        self.result.foreign = True
        return close + 1

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


def _is_no_terminal(token: Token) -> bool:
    return is_embedded(token) or (token.kind == "name" and token.text.lstrip("_")[:1].islower())


def _texts(found: tuple[Token, ...]) -> tuple[str, ...]:
    return tuple(token.text for token in found)
