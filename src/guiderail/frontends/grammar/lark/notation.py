"""Reads texts in Lark's notation into the trees that Lark's own parser makes of them, in a tenth of the time.

Lark reads grammars with an LALR parser of its own, whose tables each process builds anew. This module makes the same
trees by recursive descent. Texts of an unusual form, including faulty ones, are left to Lark, which has the messages;
and so are versions of Lark with another notation.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from types import FunctionType
from typing import Any

__all__ = ["ImportFault", "grammar_builder"]

_NOTATION = "e852eff4c6290c7b"  # versions with the notation that is read here
_DEEPEST = 40  # nested parentheses

# Comments and blanks are consumed as a whole: a look-ahead prevents backtracking into them.
_SKIP = r"(?=(?P<skip>(?:\s*//[^\n]*|\s*#[^\n]*|[ \t]+|\\[ ]*\n)*))(?P=skip)"


def _token(**kinds: str) -> re.Pattern[str]:
    return re.compile(_SKIP + "(?:" + "|".join(f"(?P<{kind}>{text})" for kind, text in kinds.items()) + ")")


_RULE, _TERMINAL = r"_?[a-z][_a-z0-9]*", r"_?[A-Z][_A-Z0-9]*"
_STRING, _REGEXP = r'"(?:\\"|\\\\|[^"\n])*?"i?', r"/(?!/)(?:\\/|\\\\|[^/])*?/[imslux]*"
_NL = r"(?:\r?\n)+\s*"
_NUMBER = r"[+-]?\d+"
_ITEM = _token(
    RULE=_RULE, TERMINAL=_TERMINAL, MODIFIERS=r"(?:!|![?]?|[?]!?)(?=[_a-z])", IGNORE="%ignore", IMPORT="%import",
    DECLARE="%declare", OVERRIDE="%override", EXTEND="%extend", NL=_NL,
)  # fmt: skip
_ATOM = _token(
    RULE=_RULE, TERMINAL=_TERMINAL, STRING=_STRING, OR=r"\|", NL_OR=_NL + r"\|", NL=_NL, LPAR=r"\(", RPAR=r"\)",
    LBRA=r"\[", RBRA=r"\]", TO="->", REGEXP=_REGEXP,
)  # fmt: skip
_AFTER = _token(OP=r"[+*]|[?](?![a-z_])", TILDE="~", LBRACE=r"\{", DOTDOT=r"\.\.")
_HEAD = _token(COLON=":", DOT=r"\.(?!\.)", LBRACE=r"\{")
_MORE = _token(COMMA=",", RBRACE=r"\}", RPAR=r"\)")
_PATH = _token(DOT=r"\.(?!\.)", LPAR=r"\(", TO="->", NL=_NL)
_NAMES = _token(RULE=_RULE, TERMINAL=_TERMINAL, NL=_NL)
_NAME = _token(RULE=_RULE, TERMINAL=_TERMINAL)
_RULES = _token(RULE=_RULE)
_NUMBERS = _token(NUMBER=_NUMBER)
_DOTDOT = _token(DOTDOT=r"\.\.")
_STRINGS = _token(STRING=_STRING)


class _Unusual(Exception):
    """Lark itself must read the text."""


class _Notation:
    def __init__(self, text: str, lark: Any) -> None:
        self.text, self.at = text + "\n", 0
        self.tree, self.token = lark.Tree, lark.Token
        self.terminal_class, self.nonterminal = lark.Terminal, lark.NonTerminal
        self.kind = ""  # of the last token

    def next(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _Unusual
        self.kind = found.lastgroup or ""
        self.at = found.end()
        return found[self.kind]

    def expect(self, pattern: re.Pattern[str], kind: str) -> str:
        text = self.next(pattern)
        if self.kind != kind:
            raise _Unusual
        return text

    def run(self) -> Any:
        """The tree of a whole grammar."""
        items, ignored, text = [], re.compile(_SKIP), self.text
        while True:
            found = ignored.match(text, self.at)
            if found is not None and found.end() == len(text):
                break
            word = self.next(_ITEM)
            if self.kind != "NL":
                items.append(self.item(self.kind, word))
        if not self.kind:  # nothing, not even the end of a line
            raise _Unusual
        return self.tree("start", items)

    def item(self, kind: str, word: str) -> Any:
        if kind in ("RULE", "TERMINAL", "MODIFIERS"):
            return self.definition(kind, word)
        if kind in ("OVERRIDE", "EXTEND"):
            word = self.next(_ITEM)
            if self.kind not in ("RULE", "TERMINAL", "MODIFIERS"):
                raise _Unusual
            return self.tree(kind.lower(), [self.definition(self.kind, word)])
        if kind == "IGNORE":
            return self.tree("ignore", [self.expansions("NL")])
        if kind == "DECLARE":
            names = [self.symbol(self.next(_NAME))]
            while True:
                name = self.next(_NAMES)
                if self.kind == "NL":
                    return self.tree("declare", names)
                names.append(self.symbol(name))
        return self.imported()

    def symbol(self, name: str) -> Any:
        if self.kind == "RULE":
            return self.nonterminal(name)
        return self.terminal_class(name, filter_out=name.startswith("_"))

    def definition(self, kind: str, word: str) -> Any:
        tree, token = self.tree, self.token
        if kind == "TERMINAL":
            children = [token("TERMINAL", word)]
            self.next(_HEAD)
            if self.kind == "DOT":
                children.append(token("NUMBER", self.next(_NUMBERS)))
                self.expect(_HEAD, "COLON")
            elif self.kind != "COLON":
                raise _Unusual
            return tree("term", [*children, self.expansions("NL")])
        modifiers, parameters, priority = [], [], []
        if kind == "MODIFIERS":
            modifiers.append(token("RULE_MODIFIERS", word))
            word = self.next(_RULES)
        self.next(_HEAD)
        if self.kind == "LBRACE":
            while self.kind != "RBRACE":
                parameters.append(token("RULE", self.next(_RULES)))
                self.next(_MORE)
                if self.kind == "RPAR":
                    raise _Unusual
            self.next(_HEAD)
        if self.kind == "DOT":
            priority.append(token("NUMBER", self.next(_NUMBERS)))
            self.next(_HEAD)
        if self.kind != "COLON":
            raise _Unusual
        head = [("rule_modifiers", modifiers), ("template_params", parameters), ("priority", priority)]
        first, *rest = (tree(name, children) for name, children in head)
        return tree("rule", [first, token("RULE", word), *rest, self.expansions("NL")])

    def imported(self) -> Any:
        tree, token = self.tree, self.token
        found = _PATH.match(self.text, self.at)
        relative = found is not None and found.lastgroup == "DOT"
        if relative:
            self.next(_PATH)
        path = []
        while True:
            name = self.next(_NAME)
            path.append(token(self.kind, name))
            self.next(_PATH)
            if self.kind != "DOT":
                break
        children = [tree("import_rel" if relative else "import_lib", path)]
        if self.kind == "LPAR":
            names = []
            while self.kind != "RPAR":
                name = self.next(_NAME)
                names.append(token(self.kind, name))
                self.next(_MORE)
                if self.kind == "RBRACE":
                    raise _Unusual
            children.append(tree("name_list", names))
            self.expect(_PATH, "NL")
        elif self.kind == "TO":
            name = self.next(_NAME)
            children.append(token(self.kind, name))
            self.expect(_PATH, "NL")
        return tree("import", children)

    def expansions(self, end: str, depth: int = 0) -> Any:
        """Alternatives up to and including the token ``end``."""
        if depth > _DEEPEST:
            raise _Unusual
        tree, text, atom = self.tree, self.text, _ATOM
        found = []
        while True:
            parts: list[Any] = []
            while True:
                match = atom.match(text, self.at)
                if match is None:
                    raise _Unusual
                kind = match.lastgroup or ""
                self.at = match.end()
                if kind == "LPAR":
                    part = self.expansions("RPAR", depth + 1)
                elif kind == "LBRA":
                    part = tree("maybe", [self.expansions("RBRA", depth + 1)])
                elif kind in ("RULE", "TERMINAL", "STRING", "REGEXP"):
                    part = self.value(kind, match[kind])
                else:
                    break
                parts.append(self.repeated(part))
            expansion = tree("expansion", parts)
            if kind == "TO":
                expansion = tree("alias", [expansion, self.nonterminal(self.next(_RULES))])
                self.next(atom)
                kind = self.kind
            found.append(expansion)
            if kind == end:
                return tree("expansions", found)
            if kind not in ("OR", "NL_OR"):
                raise _Unusual

    def value(self, kind: str, word: str) -> Any:
        tree, token = self.tree, self.token
        if kind == "TERMINAL":
            return tree("value", [self.terminal_class(word, filter_out=word.startswith("_"))])
        after = _AFTER.match(self.text, self.at)
        following = after.lastgroup if after is not None else None
        if kind == "RULE":
            name = self.nonterminal(word)
            if following != "LBRACE":
                return tree("value", [name])
            self.next(_AFTER)
            used = [name]
            while self.kind != "RBRACE":
                word = self.next(_ATOM)
                if self.kind not in ("RULE", "TERMINAL", "STRING", "REGEXP"):
                    raise _Unusual
                used.append(self.value(self.kind, word))
                self.next(_MORE)
                if self.kind == "RPAR":
                    raise _Unusual
            return tree("value", [tree("template_usage", used)])
        if kind == "STRING" and following == "DOTDOT":
            self.next(_DOTDOT)
            return tree("value", [tree("range", [token("STRING", word), token("STRING", self.next(_STRINGS))])])
        return tree("value", [tree("literal", [token(kind, word)])])

    def repeated(self, part: Any) -> Any:
        """The item with the operator after it."""
        found = _AFTER.match(self.text, self.at)
        if found is None:
            return part
        kind = found.lastgroup or ""
        self.at = found.end()
        if kind == "OP":
            return self.tree("expr", [part, self.token("OP", found["OP"])])
        if kind != "TILDE":
            raise _Unusual
        bounds = [self.token("NUMBER", self.next(_NUMBERS))]
        if _DOTDOT.match(self.text, self.at):
            self.next(_DOTDOT)
            bounds.append(self.token("NUMBER", self.next(_NUMBERS)))
        return self.tree("expr", [part, self.token("TILDE", "~"), *bounds])


def _tree(text: str, lark: Any) -> Any:
    """The tree of a grammar, as Lark's ``_parse_grammar`` makes it.

    Raises:
        _Unusual: Lark must read it.
    """
    return _Notation(text, lark).run()


def _sound(builder: Any, lark: Any) -> bool:
    """Whether everything that Lark's ``validate`` checks certainly holds, in one walk through the trees."""
    known, tree, symbol = builder._definitions, lark.Tree, lark.Symbol
    for definition in known.values():
        parameters = definition.params
        if len(set(parameters)) < len(parameters) or not known.keys().isdisjoint(parameters):
            return False
        if definition.tree is None:
            continue
        # names of alternatives (a -> name) are no symbols in use
        stack = [one.children[0] if one.data == "alias" else one for one in definition.tree.children]
        shared = definition.is_term  # a terminal is part of all that name it
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if shared:
                if id(node) in seen:
                    continue
                seen.add(id(node))
            children = node.children
            if node.data == "template_usage":
                template = known.get(children[0].name)
                if template is None or len(template.params) != len(children) - 1:
                    return False
            for child in children:
                if isinstance(child, tree):
                    stack.append(child)
                elif isinstance(child, symbol) and child.name not in known and child.name not in parameters:
                    return False
    return all(name in known for name in builder._ignore_names)


class ImportFault(Exception):
    """A grammar that cannot be imported; the text says which and why."""


_loading: ContextVar[tuple[Any, ...]] = ContextVar("_loading", default=())
"""The names of the grammars that are being loaded, each imported by the one before."""


def _imports(load: Any, do_import: Any) -> dict[str, Any]:
    """Lark's methods that load and import grammars. Lark would follow imports in a circle until the stack is full."""

    def load_grammar(builder: Any, text: str, name: Any = "<?>", *rest: Any) -> None:
        above = _loading.get()
        if name in above:
            circle = " -> ".join(os.path.basename(str(one)) for one in (*above[above.index(name) :], name))
            raise ImportFault(
                f"grammars import each other in a circle: {circle}; move what they share into a third one"
            )
        token = _loading.set((*above, name))
        try:
            load(builder, text, name, *rest)
        finally:
            _loading.reset(token)

    def imported(builder: Any, path: tuple[str, ...], *rest: Any) -> None:
        try:
            do_import(builder, path, *rest)
        except UnicodeDecodeError as error:
            raise ImportFault(f"the grammar {'.'.join(path)!r} to import is not UTF-8: {error}") from error

    return {"load_grammar": load_grammar, "do_import": imported}


@lru_cache(maxsize=1)
def grammar_builder() -> Any:
    """Lark's ``GrammarBuilder``, with the faster parser for what it loads and imports."""
    lark: Any = import_module("lark.load_grammar")
    try:
        content = json.dumps([lark.TERMINALS, lark.RULES]).encode()
        if hashlib.sha256(content).hexdigest()[:16] != _NOTATION:
            return lark.GrammarBuilder
        usual = lark._parse_grammar
        names = dict(vars(lark))

        def parse(text: str, name: str, start: str = "start") -> Any:
            try:
                return _tree(text, lark)
            except _Unusual:
                return usual(text, name, start)

        def rebound(method: FunctionType) -> FunctionType:
            """A method that finds the parser, and the builder for imports, among its global names."""
            return FunctionType(method.__code__, names, method.__name__, method.__defaults__)

        methods: dict[str, Any] = {
            name: rebound(getattr(lark.GrammarBuilder, name)) for name in ("load_grammar", "do_import")
        }

        def validate(builder: Any) -> None:
            if not _sound(builder, lark):
                lark.GrammarBuilder.validate(builder)  # raises, with the message

        methods["validate"] = validate
        methods.update(_imports(methods["load_grammar"], methods["do_import"]))
        names["_parse_grammar"] = parse
        names["GrammarBuilder"] = type("GrammarBuilder", (lark.GrammarBuilder,), methods)
    except AttributeError:  # a version of Lark with other names inside
        return lark.GrammarBuilder
    return names["GrammarBuilder"]
