"""Reads a grammar of the usual form in Lark's notation directly into rules and terminals.

Lark itself makes tokens, trees, definitions, trees without literals, and trees without templates. This module does all
of that in one pass, without importing Lark, and gets the same rules and terminals, with the same names in the same
order. Everything else is left to Lark and the modules around it (``by_lark``, ``dialect``), which also have the
messages: faults, imports, ``%override`` and ``%extend``, and what llguidance adds.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.grammar.lark.dialect import UNBOUNDED
from guiderail.frontends.grammar.lark.patterns import (
    IN_A_CLASS,
    AnonymousNames,
    Definition,
    Pattern,
    RegexPattern,
    TextPattern,
    copied,
    joined,
    unescaped,
)
from guiderail.frontends.grammar.syntax import Choice, Expression, Name, Repetition, Rule, Sequence, Span, Text
from guiderail.frontends.regex import regex
from guiderail.support.work import out_of_work, spend

__all__ = ["Parts", "quick"]

_DEEPEST = 40  # nested parentheses
_LONGEST = 10_000  # characters of a name of a template in use
_CHARACTER, _TOKEN_FOUND = 1, 8  # steps of finding the tokens
_INSTANCE, _TOKEN_STEPS = 200, 12  # steps of a template in use; and of each token, whenever its body is read
_EMPTY = Text("")
_UNNAMED = Name("")
_PLACE = itemgetter(0, 1)
_TOKEN = re.compile(
    r"""((?:[ \t]+|//[^\n]*|\#[^\n]*|\\[ ]*\n)*)
    (?:
    ( \n(?:[ \t\n]+|//[^\n]*|\#[^\n]*|\\[ ]*\n)*
    | [_A-Za-z][_A-Za-z0-9]*
    | "(?:\\[^\n]|[^"\\\n])*"i?
    | /(?![/*])(?:\\.|[^/\\])*/[imslux]*
    | [+-]?[0-9]+
    | %[a-z]+ | -> | \.\. | [^"/] | /(?=[/*])
    )
    | "(?:\\[^\n]|[^"\\\n])* | /(?:\\.|[^/\\])*
    )""",
    re.VERBOSE | re.DOTALL,
)
"""Blanks and a token; no token where a text or a pattern is never closed."""

_RULE = re.compile(r"_?[a-z][_a-z0-9]*")
_TERMINAL = re.compile(r"_?[A-Z][_A-Z0-9]*")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_BOUNDS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_WORD = frozenset("_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = frozenset("_abcdefghijklmnopqrstuvwxyz")


class Parts(NamedTuple):
    """The contents of a grammar, whichever reader read it.

    Attributes:
        rules: by name, including templates in use.
        names: the names of all rules that the text defines, including templates.
        definitions: terminals, including those of literals.
        ignore: terminals that are ignored.
        mentioned: names that the text mentions outside their own definitions.
        named: names of the terminals that the text defines.
        imported: the grammars that it imports, except Lark's own: path and digest of each.
        compiled: compiles it into Lark's rules; None: impossible.
    """

    rules: dict[str, Rule]
    names: set[str]
    definitions: list[Any]
    ignore: list[str]
    mentioned: set[str]
    named: list[str]
    imported: tuple[tuple[str, str], ...] = ()
    compiled: Callable[[], Any] | None = None


class _Unusual(Exception):
    """The text is not for this module to read."""


def quick(text: str) -> Parts | None:
    """Reads a grammar; None: it has another form, or is faulty."""
    if "\r" in text or "\f" in text or str(UNBOUNDED) in text:
        return None
    reader = _Reader(text)
    try:
        return reader.run()
    except (_Unusual, GuiderailError, ValueError, SyntaxError, IndexError) as error:
        if not (isinstance(error, LimitError) and out_of_work(error)):
            return None
        raise LimitError(error.message, code=error.code, source=text, span=reader.place) from error


class _Head(NamedTuple):
    """A definition: its name, and where its body begins and ends."""

    name: str
    begin: int
    end: int
    parameters: tuple[str, ...] = ()
    priority: int = 0


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text = text + "\n"
        found = _TOKEN.findall(text)
        spend(_CHARACTER * len(text) + _TOKEN_FOUND * len(found))
        self.tokens = list(map(itemgetter(1), found))
        self.ends = list(accumulate(map(len, map("".join, found))))
        self.tokens.append(" ")  # so that each line break has something after it
        self.rules: dict[str, _Head] = {}
        self.terminals: dict[str, _Head | None] = {}  # None: only declared
        self.ignore: list[str] = []
        self.places: dict[str, Span] = {}
        self.place: Span | None = None  # of the definition that is being read
        self.mentioned: set[str] = set()
        self.patterns: dict[str, Pattern] = {}  # of terminals
        self.open: list[str] = []  # terminals whose patterns are being made
        self.literals: dict[str, Pattern] = {}

    def run(self) -> Parts:
        if "" in self.tokens:
            raise _Unusual
        for begin, end in self.lines():
            self.statement(begin, end)
        if not self.rules:
            raise _Unusual
        definitions: list[Definition] = []
        for name, head in self.terminals.items():
            if head is not None:
                self.place = self.places.get(name)
                definitions.append(Definition(name, self.pattern(name), head.priority))
        named = [name for name in self.terminals if name in self.places]
        if not self.terminals.keys() >= set(self.ignore):
            raise _Unusual
        rules = _Rules(self, definitions).run()
        names = set(self.rules)
        return Parts(rules, names, definitions, self.ignore, self.mentioned, named)

    # -- statements
    def lines(self) -> Iterable[tuple[int, int]]:
        """Where statements begin and end: at line breaks, unless ``|`` follows."""
        tokens = self.tokens
        begin = 0
        for at in [i for i, token in enumerate(tokens) if token[0] == "\n"]:
            if tokens[at + 1] == "|":
                continue
            if at > begin:
                yield begin, at
            begin = at + 1

    def statement(self, i: int, end: int) -> None:
        tokens = self.tokens
        word = tokens[i]
        if word == "%ignore":
            return self.ignored(i + 1, end)
        if word == "%declare":
            for name in tokens[i + 1 : end]:
                if not _TERMINAL.fullmatch(name):
                    raise _Unusual
                self.mentioned.add(name)
                self.define(name)
                self.terminals[name] = None
            if i + 1 == end:
                raise _Unusual
            return None
        modifiers = ""
        while word in ("?", "!"):
            modifiers += word
            if self.ends[i] + len(tokens[i + 1]) != self.ends[i + 1]:
                raise _Unusual
            i += 1
            word = tokens[i]
        place = self.ends[i] - len(word), self.ends[i]
        i += 1
        parameters: list[str] = []
        is_rule = _RULE.fullmatch(word) is not None
        if is_rule:
            if modifiers not in ("", "?", "!", "?!", "!?") or ("?" in modifiers and word[0] == "_"):
                raise _Unusual
            if tokens[i] == "{":
                i = self.parameters(i + 1, end, parameters)
        elif modifiers or not _TERMINAL.fullmatch(word):
            raise _Unusual
        priority = 0
        if tokens[i] == ".":
            priority = self.number(i + 1)
            i += 2
        if i >= end or tokens[i] != ":":
            raise _Unusual
        self.define(word)
        self.places[word] = place
        head = _Head(word, i + 1, end, tuple(parameters), priority)
        if is_rule:
            self.rules[word] = head
        else:
            self.terminals[word] = head
        return None

    def define(self, name: str) -> None:
        if name in self.rules or name in self.terminals or name.startswith("__"):
            raise _Unusual

    def parameters(self, i: int, end: int, found: list[str]) -> int:
        """The names of parameters up to ``}``, and the index after it."""
        tokens = self.tokens
        while i + 1 < end:
            if not _RULE.fullmatch(tokens[i]) or tokens[i] in found:
                raise _Unusual
            found.append(tokens[i])
            i += 2
            if tokens[i - 1] == "}":
                return i
            if tokens[i - 1] != ",":
                break
        raise _Unusual

    def number(self, i: int) -> int:
        if not _NUMBER.fullmatch(self.tokens[i]):
            raise _Unusual
        return int(self.tokens[i])

    def ignored(self, begin: int, end: int) -> None:
        if end - begin == 1 and _TERMINAL.fullmatch(self.tokens[begin]):
            self.mentioned.add(self.tokens[begin])
            self.ignore.append(self.tokens[begin])
            return
        name = f"__IGNORE_{len(self.ignore)}"
        self.ignore.append(name)
        self.terminals[name] = _Head(name, begin, end)

    # -- terminals
    def literal(self, token: str) -> Pattern:
        """The pattern of a string or a regular expression."""
        known = self.literals.get(token)
        if known is not None:
            return known
        cut = token.rindex(token[0])
        flags = token[cut + 1 :]
        value = unescaped(token[1:cut])
        if not value or cut == 0:
            raise _Unusual
        found: Pattern
        if token[0] == '"':
            found = TextPattern(value.replace("\\\\", "\\"), flags, token)
        else:
            if "\n" in token and "x" not in flags:
                raise _Unusual
            regex(value, flags=flags)  # it is valid by itself
            if "x" in flags:
                regex(f"(?x:{value})")  # it ends in no comment
            found = RegexPattern(value, flags, token)
        self.literals[token] = found
        return found

    def span(self, first: str, last: str) -> Pattern:
        """The pattern of ``"a".."z"``."""
        if first[-1] != '"' or last[-1] != '"' or last[0] != '"':
            raise _Unusual
        low, high = first[1:-1], last[1:-1]
        ends = unescaped(low), unescaped(high)
        if not len(ends[0]) == len(ends[1]) == 1 or ends[0] > ends[1] or not IN_A_CLASS.isdisjoint(ends):
            raise _Unusual
        return RegexPattern(f"[{low}-{high}]")

    def pattern(self, name: str) -> Pattern:
        """The pattern of a terminal."""
        known = self.patterns.get(name)
        if known is not None:
            return known
        head = self.terminals.get(name)
        if head is None or name in self.open or len(self.open) > _DEEPEST:
            raise _Unusual
        first = self.tokens[head.begin]
        if head.end - head.begin == 1 and first[0] == '"':
            found = self.literal(first)
        else:
            self.open.append(name)
            found, i = self.alternatives(head.begin, head.end, 0)
            self.open.pop()
            if i != head.end or found.value == "":
                raise _Unusual
        self.patterns[name] = found
        return found

    def alternatives(self, i: int, end: int, depth: int) -> tuple[Pattern, int]:
        """Alternatives of patterns up to a closing bracket or the end, and the index there."""
        if depth > _DEEPEST:
            raise _Unusual
        tokens = self.tokens
        ways: list[Pattern] = []
        parts: list[Pattern] = []
        while True:
            token = tokens[i] if i < end else ")"
            first = token[0]
            if token in (")", "]", "|") or first == "\n":
                if first == "\n":
                    i += 1
                if not parts:
                    ways.append(TextPattern(""))
                else:
                    one = len(parts) == 1
                    ways.append(parts[0] if one else RegexPattern("".join(part.to_regexp() for part in parts)))
                parts = []
                if token in (")", "]"):
                    return joined(ways), i
                i += 1
                continue
            i += 1
            item: Pattern
            if token == "(" or token == "[":
                item, i = self.alternatives(i, end, depth + 1)
                if i >= end or tokens[i] != (")" if token == "(" else "]"):
                    raise _Unusual
                i += 1
                if token == "[":
                    item = RegexPattern(f"(?:{item.to_regexp()})?", item.flags)
            elif first == '"' and i < end and tokens[i] == "..":
                item = self.span(token, tokens[i + 1] if i + 1 < end else "")
                i += 2
            elif first == '"' or (first == "/" and len(token) > 1):
                item = self.literal(token)
            elif _TERMINAL.fullmatch(token):
                self.mentioned.add(token)
                item = copied(self.pattern(token))
            else:
                raise _Unusual
            if i < end:
                operator = tokens[i]
                if operator in _BOUNDS:
                    if operator == "?" and self.text[self.ends[i]] in _LOWER:
                        raise _Unusual  # it would belong to a rule after it
                    item = RegexPattern(f"(?:{item.to_regexp()}){operator}", item.flags)
                    i += 1
                elif operator == "~":
                    low = high = self.number(i + 1)
                    many = f"{{{low}}}"
                    i += 2
                    if i < end and tokens[i] == "..":
                        high = self.number(i + 1)
                        many = f"{{{low},{high}}}"
                        i += 2
                    if low > high or low < 0:
                        raise _Unusual
                    item = RegexPattern(f"(?:{item.to_regexp()}){many}", item.flags)
            parts.append(item)


class _Pending(NamedTuple):
    """A literal without a name so far, or a template in use, in the order in which Lark reaches them: deepest first.

    Attributes:
        height: minus the depth in Lark's tree.
        at: index of the token.
        written: the literal as written, or the name that the template gets.
        pattern: the pattern of the literal.
        template: the template in use.
        arguments: names of rules and terminals.
    """

    height: int
    at: int
    written: str
    pattern: Pattern | None = None
    template: str = ""
    arguments: tuple[str, ...] = ()


class _Rules:
    """Reads the bodies of rules.

    Attributes:
        known: names of rules and terminals, and named literals, by how they are written.
        given: what the parameters of the current template stand for.
        literals: literals without a name so far, in the current body.
        calls: templates in use in it.
    """

    def __init__(self, reader: _Reader, definitions: list[Definition]) -> None:
        self.reader = reader
        self.name = AnonymousNames(definitions)
        self.known: dict[str, Name] = {}
        self.given: dict[str, Name] = {}
        self.pending: list[_Pending] = []
        self.instances: dict[str, tuple[_Head, dict[str, Name]]] = {}
        self.order: deque[str] = deque()  # of those whose bodies are still to be made

    def run(self) -> dict[str, Rule]:
        reader = self.reader
        found: dict[str, Rule] = {}
        for name, head in reader.rules.items():
            if head.parameters:
                if any(one in reader.rules or one in reader.terminals for one in head.parameters):
                    raise _Unusual
                self.parse(head, {one: Name(one) for one in head.parameters})  # to report its errors
            else:
                found[name] = Rule(name, self.body(head, {}), reader.places[name])
        while self.order:  # more are added as they are met
            name = self.order.popleft()
            found[name] = Rule(name, self.body(*self.instances[name]))
        reader.mentioned.update(self.known)
        return found

    def parse(self, head: _Head, given: dict[str, Name]) -> Expression:
        spend(_TOKEN_STEPS * (head.end - head.begin))
        self.given, self.pending = given, []
        found, i = self.alternatives(head.begin, 0)
        if i != head.end:
            raise _Unusual
        return found

    def body(self, head: _Head, given: dict[str, Name]) -> Expression:
        """The body of a rule, with its literals named; yields the templates used in it."""
        found = self.parse(head, given)
        literals = [one for one in self.pending if one.pattern is not None]
        if literals:
            for one in sorted(literals, key=_PLACE):
                if one.written not in self.known and one.pattern is not None:
                    self.known[one.written] = Name(self.name(one.pattern))
            found = self.parse(head, given)
        for one in sorted(self.pending, key=_PLACE):
            if one.written not in self.instances:
                template = self.reader.rules[one.template]
                if len(one.written) > _LONGEST:
                    raise _Unusual
                self.reader.place = self.reader.places[one.template]
                spend(_INSTANCE + len(one.written) // 8)
                names = map(Name, one.arguments)
                self.instances[one.written] = template, dict(zip(template.parameters, names, strict=True))
                self.order.append(one.written)
        return found

    def alternatives(self, i: int, depth: int) -> tuple[Expression, int]:
        """Alternatives up to a closing bracket or the end of the line, and the index there.

        ``depth``: the depth of their node in Lark's tree.
        """
        if depth > 5 * _DEEPEST:
            raise _Unusual
        tokens, known, given, pending = self.reader.tokens, self.known, self.given, self.pending
        ways: list[Expression] = []
        parts: list[Expression] = []
        alternative = len(pending)  # where what it holds begins
        while True:
            token = tokens[i]
            item: Expression | None = known.get(token) if token not in given else given[token]
            before = -1
            if item is None or (token[0] == '"' and tokens[i + 1] == ".."):
                before = len(pending)
                first = token[0]
                if first in "|)]\n":
                    if first == "\n" and tokens[i + 1] == "|":
                        i += 1
                    ways.append(parts[0] if len(parts) == 1 else Sequence(tuple(parts)) if parts else _EMPTY)
                    if tokens[i] != "|":
                        return (ways[0] if len(ways) == 1 else Choice(tuple(ways))), i
                    parts = []
                    alternative = before
                    i += 1
                    continue
                if first == "(":
                    item, i = self.alternatives(i + 1, depth + 2)
                    if tokens[i] != ")":
                        raise _Unusual
                elif first == "[":
                    item, i = self.alternatives(i + 1, depth + 3)
                    if tokens[i] != "]":
                        raise _Unusual
                    item = Repetition(item, 0, 1)
                elif token == "->":
                    if depth or not _RULE.fullmatch(tokens[i + 1]):
                        raise _Unusual  # within brackets Lark takes it for a rule's name
                    self.deeper(alternative)
                    i += 2
                    if tokens[i][0] not in "|\n":
                        raise _Unusual
                    continue
                else:
                    item, i = self.value(i, depth + 3)
            i += 1
            operator = tokens[i]
            if operator in _BOUNDS:
                if operator == "?" and self.reader.text[self.reader.ends[i]] in _LOWER:
                    raise _Unusual  # it would belong to a rule after it
                if before >= 0:
                    self.deeper(before)
                item = Repetition(item, *_BOUNDS[operator])
                i += 1
            elif operator == "~":
                low = high = self.reader.number(i + 1)
                i += 2
                if tokens[i] == "..":
                    high = self.reader.number(i + 1)
                    i += 2
                if high < low or low < 0:
                    raise _Unusual
                if before >= 0:
                    self.deeper(before)
                item = Repetition(item, low, high)
            parts.append(item)

    def deeper(self, since: int) -> None:
        """Marks that everything found since then lies one level deeper."""
        pending = self.pending
        for k in range(since, len(pending)):
            pending[k] = pending[k]._replace(height=pending[k].height - 1)

    def value(self, i: int, depth: int) -> tuple[Name, int]:
        """A name, literal, range or template in use, and the index of its last token.

        ``depth``: the depth of the value in Lark's tree.
        """
        reader, tokens = self.reader, self.reader.tokens
        token = tokens[i]
        if token[0] in '"/' and len(token) > 1:
            pattern = None
            if token[0] == '"' and tokens[i + 1] == "..":
                pattern = reader.span(token, tokens[i + 2])
                token = f"{token}..{tokens[i + 2]}"
                i += 2
            known = self.known.get(token)
            if known is None:
                known = _UNNAMED
                self.pending.append(_Pending(-depth, i, token, pattern or reader.literal(token)))
            return known, i
        found = self.given.get(token) or self.known.get(token)
        if found is None:
            head = reader.rules.get(token)
            if head is not None and head.parameters:
                return self.template(token, head, i, depth)
            if head is None and token not in reader.terminals:
                raise _Unusual
            found = self.known[token] = Name(token)
        return found, i

    def template(self, name: str, head: _Head, i: int, depth: int) -> tuple[Name, int]:
        """A template in use, whose name is the token at ``i``."""
        tokens, begin = self.reader.tokens, i
        i += 1
        if tokens[i] != "{":
            raise _Unusual
        arguments: list[str] = []
        while tokens[i] != "}":
            argument, i = self.value(i + 1, depth + 2)
            arguments.append(argument.name)
            i += 1
            if tokens[i] not in (",", "}"):
                raise _Unusual
        if len(arguments) != len(head.parameters):
            raise _Unusual
        instance = f"{name}{{{','.join(arguments)}}}"
        self.pending.append(_Pending(-depth, begin, instance, None, name, tuple(arguments)))
        return Name(instance), i
