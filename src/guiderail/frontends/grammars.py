"""Ready grammars: JSON, SQL, Python, XML, GraphQL, a part of C, CSV, arithmetic, regular expressions, Markdown tables.

    >>> from guiderail import grammars
    >>> grammars.sql(statements=["select"]).matches("SELECT name FROM people WHERE age > 30")
    True

Each function returns a constraint like any other. What a grammar leaves out is said where it is defined.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from guiderail.frontends.grammar.constraint import GrammarConstraint, grammar
from guiderail.frontends.grammar.library import READY, grammar_text
from guiderail.frontends.grammar.syntax import Indentation

__all__ = [
    "arithmetic",
    "c",
    "csv",
    "graphql",
    "json",
    "markdown_table",
    "python",
    "ready_grammar",
    "regex",
    "sql",
    "xml",
]


def ready_grammar(name: str, **options: Any) -> GrammarConstraint:
    """The ready grammar of this name, with its options.

    Raises:
        CompileError: ``bad-option``: there is no such grammar, it has no such option, or a value is wrong.
    """
    text = grammar_text(name, **options)
    ready = READY[name.replace("-", "_").lower()]
    return _read(text, ready.syntax, ready.indentation)


@lru_cache(maxsize=32)
def _read(text: str, syntax: str, indentation: Indentation | None) -> GrammarConstraint:
    return grammar(text, syntax, indenter=indentation)


def json(*, max_depth: int | None = None) -> GrammarConstraint:
    """JSON: what ``json.loads`` takes, without NaN and Infinity.

    Args:
        max_depth: the most objects and arrays in each other, 0 to 1000 (Koo, Liu & He 2024, §5.1); None: any number.
    """
    return ready_grammar("json", max_depth=max_depth)


def sql(*, statements: Iterable[str] | None = None) -> GrammarConstraint:
    """One statement of SQLite that its parser takes.

    Args:
        statements: some of ``select``, ``insert``, ``update``, ``delete``, ``create_table``, ``create_index`` and
            ``drop``; None: all of them. ``["select"]`` is for queries only.
    """
    return ready_grammar("sql", statements=statements)


def python() -> GrammarConstraint:
    """A module of Python 3.11: what ``ast.parse`` takes, its indentation included."""
    return ready_grammar("python")


def xml(*, elements: Iterable[str] | None = None, attributes: Iterable[str] | None = None) -> GrammarConstraint:
    """An XML 1.0 document without DOCTYPE.

    Args:
        elements: names of the elements. Only with them do end tags agree with start tags, as well-formed documents
            demand: without, the document has balanced tags of any names.
        attributes: names of the attributes, each at most once in a tag and in this order; none: ``[]``. None: at most
            one attribute, of any name.
    """
    return ready_grammar("xml", elements=elements, attributes=attributes)


def csv(*, columns: int | None = None) -> GrammarConstraint:
    """Comma-separated values, as RFC 4180 has them.

    Args:
        columns: fields of each record; None: any number, each record its own.
    """
    return ready_grammar("csv", columns=columns)


def markdown_table(*, columns: int | None = None) -> GrammarConstraint:
    """A table of GitHub Flavored Markdown.

    Args:
        columns: cells of each row; None: 1 to 8, as many in each row as in the header.
    """
    return ready_grammar("markdown_table", columns=columns)


def arithmetic() -> GrammarConstraint:
    """A calculation with numbers: + - * / // % ** and brackets, as Python reads it."""
    return ready_grammar("arithmetic")


def graphql() -> GrammarConstraint:
    """An executable document of GraphQL: operations and fragments."""
    return ready_grammar("graphql")


def c() -> GrammarConstraint:
    """A part of C99 after preprocessing: declarations, functions, statements, expressions; no typedef."""
    return ready_grammar("c")


def regex() -> GrammarConstraint:
    """A regular expression that ``re.compile`` takes."""
    return ready_grammar("regex")
