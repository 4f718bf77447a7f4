r"""GBNF, the notation of llama.cpp, and what XGrammar's EBNF adds to it.

    root  ::= "1. " move "\n"          # a text, with escapes \n \r \t \" \\ \[ \] \- \xHH \uHHHH \UHHHHHHHH
    move  ::= [a-h] [1-8] | castle     # characters; ^ negates; alternatives, also on the next line
    castle ::= "O" ("-O"){1,2}         # ? * + {m} {m,} {m,n}
    any   ::= .                        # any character
    think ::= <think> !</think>* </think>   # special tokens by text or <[id]>, and anything but one

A rule ends where the next one begins, so line breaks may stand anywhere between symbols, as in XGrammar; every grammar
that ends its rules with lines, as llama.cpp wants it, reads the same. Two notations clash at one point: ``.`` is any
character in llama.cpp and part of a name in XGrammar. Here ``a.b`` is a name if there is a rule of that name.
"""

from __future__ import annotations

import re

from guiderail.constraints.constraint import AnyText, SpecialToken, TextUntil
from guiderail.errors import GuiderailError
from guiderail.frontends.grammar.build import repetition
from guiderail.frontends.grammar.reading import ANY, Groups, Reader, characters, finish_grammar, literal
from guiderail.frontends.grammar.syntax import Characters, Embedded, Expression, Grammar, Name, Rule

__all__ = ["read"]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"-*[A-Za-z0-9_][A-Za-z0-9_-]*")
_DOTTED = re.compile(r"-*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HEAD = re.compile(r"(-*[A-Za-z0-9_][A-Za-z0-9_.-]*)[ \t]*(?:\[[^\]\r\n]*\][ \t]*)?::=")
_ATTRIBUTES = re.compile(r"\[\s*(?:max_tokens|capture)[^\]\r\n]*\]")
_COUNT = re.compile(r"[0-9]+")
_TOKEN = re.compile(r"<(?:\[([0-9]+)\]|([^\r\n>]+))>")
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
# of XGrammar
_MORE_ESCAPES = {"'": "'", "?": "?", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "e": "\x1b"}
_CLASS_ESCAPES = {c: c for c in "^$.*+?(){}|/"}
_MOST = 2**32 - 2


def read(text: str, start: str | None = None, path: str | None = None) -> Grammar:
    """Reads a grammar.

    Args:
        text: the grammar.
        start: the rule to start from; ``root`` where None.
        path: unused: this notation has no imports.

    Raises:
        PatternError: ``grammar-syntax`` or ``grammar-unsupported``, with the place.
    """
    return _Gbnf(text).grammar(start or "root")


class _Gbnf(Reader):
    notation = "GBNF"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.defined = {found[1] for found in re.finditer(rf"(?m)^[ \t]*{_HEAD.pattern}", text)}
        self.positive: set[str | int] = set()  # tokens that the grammar asks for
        self.negated: list[tuple[str | int, int, int]] = []
        self.single: dict[int, tuple[Embedded, int, int]] = {}  # of these, those that nothing repeats, by identity

    def grammar(self, start: str) -> Grammar:
        rules: dict[str, Rule] = {}
        self.match(_SPACE)
        while self.at < len(self.text):
            rule = self.rule()
            if rule.name in rules:
                assert rule.span is not None
                self.fail(f"rule {rule.name!r} is defined twice; join both with |", *rule.span)
            rules[rule.name] = rule
        for _, begin, end in self.single.values():
            self.refuse("!<token> is read with * or + after it, as a text; one token alone cannot be said", begin, end)
        for token, begin, end in self.negated:
            if isinstance(token, int) and token not in self.positive:
                self.refuse(
                    f"!<[{token}]> names a token that the grammar never asks for, so that nobody can tell whether it "
                    "is text; ask for it somewhere, or write the token's text",
                    begin,
                    end,
                )
        return finish_grammar(self.text, rules, start, self.notation)

    def rule(self) -> Rule:
        begin = self.at
        head = self.match(_DOTTED)
        if not head:
            self.fail(f"the name of a rule was expected, not {self.found()}")
        span = (begin, self.at)
        self.match(_SPACE)
        attributes = _ATTRIBUTES.match(self.text, self.at)
        if attributes:
            self.refuse(
                "max_tokens and capture belong to a sampler, not to a grammar; remove them, or bound it with {m,n}",
                *attributes.span(),
            )
        if not self.take("::="):
            self.fail(f"::= was expected after the name {head[0]!r}, not {self.found()}")
        self.match(_SPACE)
        groups = Groups()
        while not self._ended(groups):
            self.symbol(groups)
            self.match(_SPACE)
        return Rule(head[0], groups.close(), span)

    def _ended(self, groups: Groups) -> bool:
        over = self.at >= len(self.text)
        if not over:
            head = _HEAD.match(self.text, self.at)
            over = bool(head) and (not groups.depth or self._begins_line())
        if over and groups.depth:
            self.fail("this bracket is never closed; ) was expected", groups.opened)
        return over

    def _begins_line(self) -> bool:
        return not self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at].strip()

    def symbol(self, groups: Groups) -> None:
        begin = self.at
        c = self.text[begin]
        parts = groups.parts
        if c == "(":
            if self.peek("(="):
                self.refuse(
                    "look-ahead assertions (= …) are not enforced by grammars; leave it out, or put what must follow "
                    "into the rules",
                    begin,
                    begin + 2,
                )
            groups.open("(", begin)
            self.at += 1
        elif c == ")":
            if not groups.depth:
                self.fail("this ) closes nothing; remove it, or open a group")
            self.at += 1
            inner = groups.close()
            groups.parts.append(inner)
        elif c == "|":
            self.at += 1
            groups.bar()
        elif c in "*+?{":
            if not parts:
                self.fail(f"there is nothing for {c} to repeat; a text, a class, a name or a group was expected")
            least, most = self.counts()
            parts[-1] = self.repeated(parts[-1], least, most, begin)
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
            self.fail(f"a text, a class, a name, a token or a bracket was expected, not {self.found()}")

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
        if self.peek("(") and found[0] in ("TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex"):
            return self.macro(found[0], begin)
        return Name(found[0], (begin, self.at))

    def macro(self, name: str, begin: int) -> Expression:
        """XGrammar's functions: those that name tokens or a pattern are read."""
        if name not in ("Token", "Regex"):
            self.at += 1
            self.refuse(
                f"{name}(…) is not read; write the tags as alternatives, with gr.text_until for the text between them "
                '(for example as productions: {"root": [[gr.text_until("<tag>"), …]]})'
                if "Dispatch" in name
                else f"{name}(…) is not read; write !<token>* for any text without a token",
                begin,
            )
        self.at += 1
        tokens: list[str | int] = []
        while True:
            self.match(_SPACE)
            at = self.at
            count = self.match(_COUNT)
            if count and name == "Token":
                tokens.append(self.token_id(count[0], at))
            elif self.peek('"'):
                tokens.append(self.quoted())
            else:
                self.fail(f"an argument of {name} was expected, not {self.found()}", at)
            self.match(_SPACE)
            if self.take(")"):
                break
            if name == "Regex" or not self.take(","):
                self.fail(f") was expected, not {self.found()}")
        if name == "Token":
            self.positive.update(tokens)
            return Embedded(SpecialToken(tuple(tokens)))
        from guiderail.frontends.regex import regex

        try:
            return Embedded(regex(str(tokens[0]), dialect="ecma", flags="u"))
        except GuiderailError as error:
            self.fail(f"in this pattern: {error.message}", begin, self.at)

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
            self.fail(f"}} was expected after the counts, not {self.found()}")
        if most is not None and most < least:
            self.fail(f"the most ({most}) is below the least ({least}); swap them", begin, self.at)
        return least, most

    def count(self) -> int:
        found = self.match(_COUNT)
        if not found:
            self.fail(f"a number was expected, not {self.found()}")
        value = int(found[0]) if len(found[0]) < 11 else _MOST + 1
        if value > _MOST:
            self.fail(f"a count may be {_MOST:,} at most", found.start(), found.end())
        return value

    def repeated(self, item: Expression, least: int, most: int | None, begin: int) -> Expression:
        if isinstance(item, Embedded) and isinstance(item.constraint, AnyText | TextUntil):
            self.single.pop(id(item), None)
            if most is not None or least > 1:  # "any token but" stands for a text, not for a number of tokens
                self.refuse(
                    "!<token> can be followed by * or + only: how many tokens a text has is up to the model", begin
                )
            if isinstance(item.constraint, TextUntil) and least:
                self.refuse("!<token>+ of a token that the grammar never asks for; write !<token>*", begin)
            return repetition(Characters(ANY), least, None) if isinstance(item.constraint, AnyText) else item
        return repetition(item, least, most)

    def string(self) -> Expression:
        return literal(self.quoted())

    def quoted(self) -> str:
        begin = self.at
        self.at += 1
        out: list[str] = []
        while True:
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                self.fail('this text is never closed; " was expected before the end of the line', begin, self.at)
            if self.take('"'):
                return "".join(out)
            out.append(self.one({}))

    def one(self, more: dict[str, str]) -> str:
        """One character, which may be escaped."""
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
                self.fail(f"\\{c} is followed by {_HEX[c]} hexadecimal digits", begin, self.at + len(digits))
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
                self.fail("this class is never closed; ] was expected before the end of the line", begin, self.at)
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
            self.fail("an empty class; write . for any character, or the characters it should contain", begin, self.at)
        return characters(ranges, negated)

    def token_id(self, digits: str, begin: int) -> int:
        if len(digits) > 10 or int(digits) >= 2**31:
            self.fail("there is no token with such a number", begin, self.at)
        return int(digits)

    def token(self) -> Expression:
        begin = self.at
        negated = self.take("!")
        found = self.match(_TOKEN)
        if not found:
            self.fail(f"a token was expected, <text> or <[number]>, not {self.found()}")
        token: str | int = self.token_id(found[1], begin) if found[1] else found[0]
        if not negated:
            self.positive.add(token)
            return Embedded(SpecialToken((token,)))
        self.negated.append((token, begin, self.at))
        if isinstance(token, str) and f"{token}" not in re.sub(rf"!{re.escape(token)}", "", self.text):
            made = Embedded(TextUntil(token, False))  # asked for nowhere: perhaps it is ordinary text
        else:
            made = Embedded(AnyText())
        self.single[id(made)] = made, begin, self.at
        return made
