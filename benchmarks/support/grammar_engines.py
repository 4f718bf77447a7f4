"""The engines of ``engines.py`` on grammars: the grammar that each one gets for the same language.

A contender is an engine with one grammar. Times are around ``fill`` and ``accept`` together, as in ``engines.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import Accept, Engine, Fill, Guiderail, LLGuidance, XGrammar

DATA = Path(__file__).parent.parent / "data"

# The same language in each notation: any JSON value.
JSON_LARK = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
%ignore /[ \t\n\r]+/
"""
JSON_GBNF = r"""
root ::= ws value ws
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( string ws ":" ws value ws ("," ws string ws ":" ws value ws)* )? "}"
array ::= "[" ws ( value ws ("," ws value ws)* )? "]"
string ::= "\"" ( [^"\\\x00-\x1f] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
ws ::= [ \t\n\r]*
"""


@dataclass
class Contender:
    """An engine with one grammar, compiled once.

    Attributes:
        name: its name in the tables.
        engine: the adapter whose ``bits`` receive the masks.
        compile: makes a guide; raises if the engine does not support the grammar.
        guide: the result of ``compile``.
    """

    name: str
    engine: Engine
    compile: Callable[[], Any]
    guide: Any = None

    def start(self) -> tuple[Fill, Accept]:
        return self.engine.start(self.guide)

    def allows(self, token: int) -> bool:
        """Returns whether the last mask contains the token."""
        return bool(int(self.engine.bits[0, token // 32]) >> (token % 32) & 1)


class GuiderailGrammars(Guiderail):
    """The ready-made grammars. A saved vocabulary (``Vocabulary.save``) replaces reading the tokenizer again."""

    def __init__(self, tokenizer: Any, size: int, vocabulary: Path | None = None) -> None:
        if vocabulary is None:
            super().__init__(tokenizer, size)
            return
        import guiderail as gr

        self.gr = gr
        self.vocabulary = gr.Vocabulary.load(vocabulary)
        self.bits = gr.allocate_token_bitmask(1, self.vocabulary.size)
        self.warm_up()

    def of(self, name: str, make: Callable[[], Any]) -> Contender:
        return Contender(name, self, lambda: self.gr.compile(make(), self.vocabulary, cache=False))


def python_text() -> str:
    """Returns the package's grammar of Python 3.11, in Lark's notation."""
    from guiderail.frontends.grammar.library import grammar_text

    return grammar_text("python")


def python_grammar() -> Any:
    from guiderail import grammars

    return grammars.python()


def sql_grammar() -> Any:
    from guiderail import grammars

    return grammars.sql()


def json_grammar() -> Any:
    from guiderail import grammars

    return grammars.json()


def json_gbnf() -> Any:
    import guiderail as gr

    return gr.grammar(JSON_GBNF, syntax="gbnf")


GRAMMARS: dict[str, Callable[[], Any]] = {
    "JSON": json_grammar,
    "JSON, GBNF": json_gbnf,
    "SQL": sql_grammar,
    "Python": python_grammar,
}


def lark_for_llguidance(engine: LLGuidance, text: str) -> Any:
    matcher = engine.llg.LLMatcher(engine.tokenizer, engine.llg.grammar_from("lark", text))
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    return matcher


class Makers:
    """Makes the contenders over one vocabulary. An engine is set up once, on first use."""

    def __init__(self, tokenizer: Any, size: int, vocabulary: Path | None, rivals: bool) -> None:
        self.guiderail = GuiderailGrammars(tokenizer, size, vocabulary)
        self.llguidance = LLGuidance(tokenizer, size) if rivals else None
        self.xgrammar = XGrammar(tokenizer, size) if rivals else None

    def json(self) -> list[Contender]:
        found = [
            self.guiderail.of("guiderail", json_grammar),
            self.guiderail.of("guiderail, GBNF", json_gbnf),
        ]
        if xgrammar := self.xgrammar:
            found.append(Contender("xgrammar, built-in", xgrammar, xgrammar.compiler.compile_builtin_json_grammar))
        if llguidance := self.llguidance:
            found.append(Contender("llguidance", llguidance, lambda: lark_for_llguidance(llguidance, JSON_LARK)))
        return found

    def python(self) -> list[Contender]:
        found = [self.guiderail.of("guiderail", python_grammar)]
        if llguidance := self.llguidance:
            # It has no indenter, so the report shows its error for the same grammar.
            found.append(Contender("llguidance", llguidance, lambda: lark_for_llguidance(llguidance, python_text())))
        return found

    def sql(self) -> list[Contender]:
        found = [self.guiderail.of("guiderail", sql_grammar)]
        if llguidance := self.llguidance:
            path = DATA / "sql_llguidance.lark"
            found.append(
                Contender(
                    "llguidance", llguidance, lambda: lark_for_llguidance(llguidance, path.read_text(encoding="utf-8"))
                )
            )
        return found
