"""Ready grammars: JSON, SQL, Python, XML, GraphQL, a subset of C, CSV, arithmetic, regular expressions, Markdown
tables.

    >>> from guiderail import grammars
    >>> grammars.sql(statements=["select"]).matches("SELECT name FROM people WHERE age > 30")
    True

Each function returns a constraint like any other. ``docs/ready_grammars.md`` says what each grammar leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.grammar.constraint import GrammarConstraint, grammar
from guiderail.frontends.grammar.library import READY, grammar_text
from guiderail.frontends.grammar.syntax import Indentation
from guiderail.support.arguments import checked
from guiderail.support.caches import cached
from guiderail.support.other_names import names_of_module

if TYPE_CHECKING:
    from guiderail.frontends.queries.graphql import GraphqlQuery
    from guiderail.frontends.queries.sql import SqlQuery

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

if not TYPE_CHECKING:  # a type checker would take any name for known
    __getattr__, __dir__ = names_of_module("guiderail.grammars", __all__)


@checked
def ready_grammar(name: str, **options: Any) -> Constraint:
    """Returns the ready grammar with this name.

    Raises:
        CompileError: ``bad-option``: there is no such grammar, it has no such option, or a value is wrong.
    """
    if options.get("schema") is not None and name.lower() in ("sql", "graphql"):
        query: Constraint = sql(**options) if name.lower() == "sql" else graphql(**options)
        return query
    return _ready(name, **options)


def _ready(name: str, **options: Any) -> GrammarConstraint:
    text = grammar_text(name, **options)
    ready = READY[name.replace("-", "_").lower()]
    return _read(text, ready.syntax, ready.indentation)


@cached(16 << 20)
def _read(text: str, syntax: str, indentation: Indentation | None) -> GrammarConstraint:
    return grammar(text, syntax, indenter=indentation)


@checked
def json(*, max_depth: int | None = None) -> GrammarConstraint:
    """Matches JSON as ``json.loads`` reads it, without NaN and Infinity.

    Args:
        max_depth: maximum nesting of objects and arrays, 0 to 1000 (Koo, Liu & He 2024, §5.1); None: no maximum.
    """
    return _ready("json", max_depth=max_depth)


@overload
def sql(*, statements: Iterable[str] | None = None) -> GrammarConstraint: ...


@overload
def sql(
    *, schema: Any, functions: Any = None, max_joined: int = 3, statements: Iterable[str] | None = None
) -> SqlQuery: ...


@checked
def sql(
    *, statements: Iterable[str] | None = None, schema: Any = None, functions: Any = None, max_joined: int | None = None
) -> Constraint:
    """Matches one statement of SQLite; with a schema, one SELECT that is valid for that database.

    Without a schema, SQLite's parser accepts every match. With a schema, SQLite can also prepare it on a database with
    these tables.

    Args:
        statements: some of ``select``, ``insert``, ``update``, ``delete``, ``create_table``, ``create_index`` and
            ``drop``; None: all of them. ``["select"]`` allows queries only. With a schema, no other value is possible.
        schema: tables and their columns: a dict ``{table: [columns]}`` or ``{table: {column: type}}``; an engine, an
            inspector or a MetaData of SQLAlchemy; or a connection of sqlite3. Only these names are written.
        functions: with a schema, the functions that may be called: names of SQLite's own, or a dict from names to
            numbers of arguments. Each is a number, or a pair of minimum and maximum (None: no maximum).
        max_joined: with a schema, the maximum number of tables in one FROM clause, 1 to 8; 3 by default.

    Raises:
        CompileError: ``query-schema``: the schema cannot be read, or contains an invalid name; ``bad-option``.
        LimitError: ``query-schema-size``: the schema has too many tables or columns.
    """
    if schema is None:
        if functions is not None or max_joined is not None:
            raise CompileError("functions and max_joined need a schema; pass schema=…", code="bad-option")
        return _ready("sql", statements=statements)
    wanted = None if statements is None else [statements] if isinstance(statements, str) else list(statements)
    if wanted not in (None, ["select"]):
        raise CompileError(
            "with a schema only SELECT is written; leave statements out, or pass ['select']", code="bad-option"
        )
    from guiderail.frontends.queries.sql import sql_query

    return sql_query(schema, functions, 3 if max_joined is None else max_joined)


@checked
def python() -> GrammarConstraint:
    """Matches a module of Python 3.11 as ``ast.parse`` reads it, including indentation."""
    return _ready("python")


@checked
def xml(*, elements: Iterable[str] | None = None, attributes: Iterable[str] | None = None) -> GrammarConstraint:
    """Matches an XML 1.0 document without DOCTYPE.

    Args:
        elements: names of the elements. Only if you pass them do end tags agree with start tags, as well-formed
            documents require. Without them, tags are balanced but may have any names.
        attributes: names of the attributes; each occurs at most once in a tag, in this order. ``[]``: no attributes.
            None: at most one attribute per tag, with any name.

    Raises:
        LimitError: ``grammar-size``: ``attributes`` has more than 400 names.
    """
    return _ready("xml", elements=elements, attributes=attributes)


@checked
def csv(*, columns: int | None = None) -> GrammarConstraint:
    """Matches comma-separated values as in RFC 4180.

    Args:
        columns: the number of fields in each record; None: any number, which may differ between records.
    """
    return _ready("csv", columns=columns)


@checked
def markdown_table(*, columns: int | None = None) -> GrammarConstraint:
    """Matches a table of GitHub Flavored Markdown.

    Args:
        columns: the number of cells in each row; None: 1 to 8, the same in each row as in the header.
    """
    return _ready("markdown_table", columns=columns)


@checked
def arithmetic() -> GrammarConstraint:
    """Matches an arithmetic expression: numbers, ``+ - * / // % **`` and parentheses, as Python reads it."""
    return _ready("arithmetic")


@overload
def graphql() -> GrammarConstraint: ...


@overload
def graphql(*, schema: Any, operations: Iterable[str] | None = None) -> GraphqlQuery: ...


@checked
def graphql(*, schema: Any = None, operations: Iterable[str] | None = None) -> Constraint:
    """Matches an executable GraphQL document; with a schema, one operation that is valid for it.

    Args:
        schema: the schema of the service: SDL text or a GraphQLSchema (both need graphql-core), or the result of the
            introspection query as a dict.
        operations: with a schema, some of ``query``, ``mutation`` and ``subscription``; None: queries only.

    Raises:
        CompileError: ``query-schema``: the schema cannot be read; ``bad-option``: it has no such operation;
            ``missing-package``: SDL needs graphql-core.
        LimitError: ``query-schema-size``: the schema has too many fields.
    """
    if schema is None:
        if operations is not None:
            raise CompileError("operations need a schema; pass schema=…", code="bad-option")
        return _ready("graphql")
    from guiderail.frontends.queries.graphql import graphql_query

    return graphql_query(schema, operations)


@checked
def c() -> GrammarConstraint:
    """Matches a subset of C99 after preprocessing: declarations, functions, statements, expressions; no typedef."""
    return _ready("c")


@checked
def regex() -> GrammarConstraint:
    """Matches a regular expression that ``re.compile`` accepts."""
    return _ready("regex")
