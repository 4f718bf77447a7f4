r"""GBNF, the notation of llama.cpp, and what XGrammar's EBNF adds to it.

    root  ::= "1. " move "\n"          # a string, with escapes \n \r \t \" \\ \[ \] \- \xHH \uHHHH \UHHHHHHHH
    move  ::= [a-h] [1-8] | castle     # characters; ^ negates; alternatives, also on the next line
    castle ::= "O" ("-O"){1,2}         # ? * + {m} {m,} {m,n}
    any   ::= .                        # any character
    think ::= <think> !</think>* </think>   # tokens by text or <[id]>, and any token except one
    tags  ::= TagDispatch(("<a>", move))    # XGrammar's functions, see :mod:`.gbnf_functions`
    few[max_chars=3, lazy] ::= [a-z]+       # bounds of a rule

A rule ends where the next one begins, so line breaks may stand anywhere between symbols, as in XGrammar. Every grammar
that ends its rules with lines, as llama.cpp requires, reads the same. The two notations disagree in one point: ``.`` is
any character in llama.cpp and part of a name in XGrammar. Here ``a.b`` is a name if there is a rule of that name.
"""

from __future__ import annotations

import re
from dataclasses import replace

from guiderail.constraints.constraint import Constraint, SpecialToken, TextUntil, TokenSet
from guiderail.errors import CompileError
from guiderail.frontends.grammar.analysis import reachable_rules
from guiderail.frontends.grammar.bounds import BOUND, WAY_OUT, shortest, within
from guiderail.frontends.grammar.build import repetition
from guiderail.frontends.grammar.gbnf_functions import FUNCTIONS, OtherTokens, function
from guiderail.frontends.grammar.reader import ANY, Groups, Reader, characters, finish_grammar, literal
from guiderail.frontends.grammar.single_rule import SingleRule
from guiderail.frontends.grammar.syntax import Capture, Characters, Embedded, Expression, Grammar, Name, Rule, Span
from guiderail.support.work import spend

__all__ = ["read"]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"-*[A-Za-z0-9_][A-Za-z0-9_-]*")
_DOTTED = re.compile(r"-*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HEAD = re.compile(r"(-*[A-Za-z0-9_][A-Za-z0-9_.-]*)[ \t]*(?:\[[^\]\r\n]*\][ \t]*)?::=")
_ATTRIBUTE = re.compile(r"""\s*([a-z_]+)\s*(?:=\s*("[^"\r\n]*"|[^",\s\]]+)\s*)?(,|\])""")
_COUNTS = ("max_tokens", "max_chars")
_HIDDEN = "capture_hidden_"  # attributes that XGrammar prints for itself
_COUNT = re.compile(r"[0-9]+")
_PLAIN = re.compile(r'[^"\\\r\n]+')
_TOKEN = re.compile(r"<(?:\[([0-9]+)\]|([^\r\n>]+))>")
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
# of XGrammar
_MORE_ESCAPES = {"'": "'", "?": "?", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "e": "\x1b", "/": "/"}
_CLASS_ESCAPES = {c: c for c in "^$.*+?(){}|/"}
_MOST = 2**32 - 2
_ONE = 10  # steps that reading a character takes, alone


def read(text: str, start: str | None = None) -> Grammar:
    """Reads a grammar.

    Args:
        text: the grammar.
        start: the rule to start from; ``root`` where None.

    Raises:
        PatternError: ``grammar-syntax`` or ``grammar-unsupported``, with the place.
    """
    return _Gbnf(text).grammar(start or "root")


class _Gbnf(Reader):
    notation = "GBNF"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.defined = {found[1] for found in re.finditer(rf"(?m)^[ \t]*{_HEAD.pattern}", text)}
        self.bounded: dict[str, tuple[dict[str, str], Span]] = {}  # attributes of rules, and where the rules are
        self.captures: dict[str, Capture] = {}
        self.notes: list[str] = []

    def grammar(self, start: str) -> Grammar:
        self.match(_SPACE)
        rules = self.rules()
        whole = finish_grammar(self.text, rules, start, self.notation)
        return replace(
            whole, rules=self.with_bounds(rules), notes=tuple(self.notes), captures=tuple(self.captures.items())
        )

    def rule(self) -> Rule:
        begin = self.at
        head = self.match(_DOTTED)
        if not head:
            self.fail(f"expected the name of a rule, found {self.found()}")
        span = (begin, self.at)
        self.match(_SPACE)
        if self.take("["):
            self.attributes(head[0], span)
            self.match(_SPACE)
        if not self.take("::="):
            self.fail(f"expected ::= after the name {head[0]!r}, found {self.found()}")
        self.match(_SPACE)
        groups = Groups()
        while not self._ended(groups):
            self.symbol(groups)
            self.match(_SPACE)
        return Rule(head[0], groups.close(), span)

    def attributes(self, rule: str, span: Span) -> None:
        """Reads ``[lazy, max_chars=3] ``, up to the closing bracket."""
        given: dict[str, str] = {}
        while True:
            begin = self.at
            found = self.match(_ATTRIBUTE)
            if not found:
                self.fail("expected an attribute of the rule, such as lazy or max_chars=9", begin)
            name, value = found[1], found[2] or ""
            at = found.span(1)
            if name in given:
                self.fail(f"the attribute {name} is given twice; leave one out", *at)
            given[name] = value
            if name == "temperature":
                self.refuse(
                    "temperature belongs to sampling; remove it, and pass temperature=… where you generate", *at
                )
            if name in _COUNTS and not (value.isdecimal() and len(value) < 11 and int(value) < _MOST):
                self.fail(f"{name} must be an integer, 0 or more", *at)
            if name == "capture":
                self.captures[rule] = Capture(value.strip('"') or rule)
            elif name.startswith(_HIDDEN) or name == "stop_capture":
                self.notes.append(f"rule {rule}: {name!r} has no effect: what ended a text is not recorded")
            elif name not in (*_COUNTS, "lazy"):
                self.refuse(f"there is no attribute {name!r}; there are capture, lazy, max_chars, max_tokens", *at)
            if found[3] == "]":
                break
        if given.keys() & {*_COUNTS, "lazy"}:
            self.bounded[rule] = given, span

    def with_bounds(self, rules: dict[str, Rule]) -> dict[str, Rule]:
        """The rules, those with bounds as constraints."""
        done: dict[str, Rule] = {}
        bodies = {name: rule.body for name, rule in rules.items()}

        def bounded(name: str, path: tuple[str, ...]) -> None:
            given, span = self.bounded[name]
            needed = reachable_rules(bodies, name)
            for other in sorted(self.bounded.keys() & needed - {name}):
                if other in path:
                    self.refuse(f"{BOUND}, and {name!r} contains itself; {WAY_OUT}", *span)
                if other not in done:
                    bounded(other, (*path, other))
            part = {one: done.get(one, rules[one]) for one in needed if one in rules}
            left = reachable_rules({one: rule.body for one, rule in part.items()}, name)
            part = {one: rule for one, rule in part.items() if one in left}
            texts: Constraint = SingleRule(tuple(part[one] for one in sorted(part)), name)
            most_tokens, most_chars = (int(given[key]) if key in given else None for key in ("max_tokens", "max_chars"))
            try:
                texts = within(shortest(texts) if "lazy" in given else texts, most_tokens, most_chars)
            except CompileError as error:
                if error.code != "grammar-bound":
                    raise
                raise CompileError(error.message, code=error.code, source=self.text, span=span) from error
            done[name] = Rule(name, Embedded(texts), span)

        for name in self.bounded:
            if name not in done:
                bounded(name, (name,))
        return {name: done.get(name, rule) for name, rule in rules.items()}

    def _ended(self, groups: Groups) -> bool:
        over = self.at >= len(self.text)
        if not over:
            head = _HEAD.match(self.text, self.at)
            over = bool(head) and (not groups.depth or self._begins_line())
        if over and groups.depth:
            self.fail("this bracket is never closed; add )", groups.opened)
        return over

    def _begins_line(self) -> bool:
        return not self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at].strip()

    def symbol(self, groups: Groups) -> None:
        begin = self.at
        c = self.text[begin]
        parts = groups.parts
        if c == "(":
            if self.take("(="):
                groups.open("(=", begin)
                return
            groups.open("(", begin)
            self.at += 1
        elif c == ")":
            if not groups.depth:
                self.fail("this ) closes nothing; remove it, or open a group")
            self.at += 1
            bracket, opened = groups.bracket, groups.opened
            inner = groups.close()
            if bracket == "(=":
                self.look_ahead(groups, opened)
            else:
                groups.parts.append(inner)
        elif c == "|":
            self.at += 1
            groups.bar()
        elif c in "*+?{":
            if not parts:
                self.fail(f"there is nothing for {c} to repeat; write a string, a class, a name or a group before it")
            least, most = self.counts()
            parts[-1] = self.repeated(parts[-1], least, most)
        elif c == '"':
            parts.append(self.string())
        elif c == "[":
            parts.append(self.character_class())
        elif c in "<!":
            parts.append(self.token())
        elif c == ".":
            self.at += 1
            parts.append(Characters(ANY))
        elif _DOTTED.match(self.text, begin):
            parts.append(self.name())
        else:
            self.fail(f"expected a string, a class, a name, a token or a bracket, found {self.found()}")

    def look_ahead(self, groups: Groups, begin: int) -> None:
        """Reads ``(= …)``, which ends a rule. It has no effect, because the other rules say what follows."""
        end = self.at
        self.match(_SPACE)
        if not self._ended(groups) or groups.depth:
            self.fail("a look-ahead (= …) must be at the end of a rule; move it there, or leave it out", begin, end)
        self.notes.append("look-ahead (= …) has no effect: the other rules say what may follow a rule")

    # -- symbols ------------------------------------------------------------------------------------------------
    def name(self) -> Expression:
        begin = self.at
        found = self.match(_DOTTED)
        assert found
        if found[0] not in self.defined:
            self.at = begin
            found = self.match(_NAME)
            assert found
            if found[0].startswith("-") and found[0] not in self.defined:
                self.fail(f"there is no rule {found[0]!r}; GBNF has no exceptions with -", begin)
        if self.peek("(") and found[0] in FUNCTIONS and found[0] not in self.defined:
            return function(found[0], self, self.quoted, begin)
        return Name(found[0], (begin, self.at))

    def counts(self) -> tuple[int, int | None]:
        begin = self.at
        c = self.text[begin]
        self.at += 1
        if c != "{":
            return (1 if c == "+" else 0), (1 if c == "?" else None)
        self.match(_SPACE)
        least = self.count()
        most: int | None = least
        self.match(_SPACE)
        if self.take(","):
            self.match(_SPACE)
            most = None
            if not self.take("-1") and not self.peek("}"):  # {m,-1}: as XGrammar prints {m,}
                most = self.count()
            self.match(_SPACE)
        if not self.take("}"):
            self.fail(f"expected }} after the counts, found {self.found()}")
        if most is not None and most < least:
            self.fail(f"the maximum ({most}) is below the minimum ({least}); swap them", begin, self.at)
        return least, most

    def count(self) -> int:
        found = self.match(_COUNT)
        if not found:
            self.fail(f"expected a number, found {self.found()}")
        value = int(found[0]) if len(found[0]) < 11 else _MOST + 1
        if value > _MOST:
            self.fail(f"a count may be at most {_MOST:,}", found.start(), found.end())
        return value

    def repeated(self, item: Expression, least: int, most: int | None) -> Expression:
        if isinstance(item, Embedded) and isinstance(item.constraint, OtherTokens) and (least, most) == (0, None):
            (name,) = item.constraint.names if len(item.constraint.names) == 1 else (0,)
            if isinstance(name, str) and name not in re.sub(rf"!{re.escape(name)}", "", self.text):
                return Embedded(TextUntil(name, False))  # not referenced: perhaps it is ordinary text
        return repetition(item, least, most)

    def string(self) -> Expression:
        return literal(self.quoted())

    def quoted(self) -> str:
        begin = self.at
        self.at += 1
        out: list[str] = []
        while True:
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                self.fail('this string is never closed; add " before the end of the line', begin, self.at)
            if self.take('"'):
                return "".join(out)
            plain = self.match(_PLAIN)
            out.append(plain[0] if plain else self.one({}))

    def one(self, more: dict[str, str]) -> str:
        """One character, which may be escaped."""
        spend(_ONE)
        begin = self.at
        c = self.text[begin]
        self.at += 1
        if c != "\\":
            return c
        c = self.text[self.at : self.at + 1]
        self.at += 1
        if c in _HEX:
            digits = self.text[self.at : self.at + _HEX[c]]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{_HEX[c]}}}", digits):
                self.fail(f"\\{c} needs {_HEX[c]} hexadecimal digits", begin, self.at + len(digits))
            self.at += _HEX[c]
            return self.character(int(digits, 16), begin)
        known = _ESCAPES.get(c) or _MORE_ESCAPES.get(c) or more.get(c)
        if known is None:
            hint = "; classes such as \\d are written [0-9]" if c in "dDsSwW" and c else ""
            self.fail(
                f'there is no escape \\{c}; there are \\n \\r \\t \\" \\\\ \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH{hint}',
                begin,
                self.at,
            )
        return known

    def character_class(self) -> Expression:
        begin = self.at
        self.at += 1
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.peek("]"):
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                self.fail("this class is never closed; add ] before the end of the line", begin, self.at)
            place = self.at
            low = high = ord(self.one(_CLASS_ESCAPES))
            if self.peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = ord(self.one(_CLASS_ESCAPES))
                if high < low:
                    self.fail("this range runs backwards; swap its ends", place, self.at)
            ranges.append((low, high))
        self.at += 1
        if not ranges:
            self.fail("this class is empty; write its characters, or . for any character", begin, self.at)
        return characters(ranges, negated)

    def token_id(self, digits: str, begin: int) -> int:
        if len(digits) > 10 or int(digits) >= 2**31:
            self.fail(f"a token id may be at most {2**31 - 1:,}", begin, self.at)
        return int(digits)

    def token(self) -> Expression:
        begin = self.at
        negated = self.take("!")
        found = self.match(_TOKEN)
        if not found:
            self.fail(f"expected a token, <text> or <[number]>, found {self.found()}")
        token: str | int = self.token_id(found[1], begin) if found[1] else found[0]
        if negated:
            return Embedded(OtherTokens((token,)))
        return Embedded(SpecialToken((token,)) if isinstance(token, str) else TokenSet((token,)))
