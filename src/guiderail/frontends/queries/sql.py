"""SELECT statements over the tables, columns and functions of a database.

The meaning of a name depends on the FROM clause, which comes after the columns that use it. So "the table" is a
variable (see `Symbols.binding`): each column restricts it to the tables that have this column, and the FROM clause
names one of these. There is one grammar for all tables. Two forms make the meaning of each name exact:

- **one table, bare columns**: ``SELECT name FROM people WHERE age > 30``. It has one variable.
- **tables with aliases**: ``SELECT t1.name FROM people AS t1 JOIN … AS t2 ON …``, the first table ``t1``, the second
  ``t2`` and so on. It has a variable for each alias.

Subqueries and the query of a common table have the first form. Their names are independent, so they are ordinary
rules, each with its own variable. A common table is ``q1`` with the columns ``c1`` to ``c4``, as many as its query has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint, choice, literal
from guiderail.errors import LimitError
from guiderail.frontends.queries.database import AGGREGATES, FUNCTIONS, Database
from guiderail.frontends.queries.symbols import WORD, Symbols
from guiderail.frontends.regex import regex
from guiderail.support.options import check_integer

__all__ = ["SqlQuery", "sql_query"]

_DEPTH = 3
"""Levels of expressions, including the outermost: parentheses nest one level less. Subqueries do not count."""

_MOST_JOINED = 8
_COMMON_COLUMNS = 4


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TYPES = _words("INTEGER REAL TEXT NUMERIC")
_KEYWORDS = _words(
    """SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS JOIN INNER LEFT OUTER CROSS ON AND OR NOT IN IS
    NULL LIKE BETWEEN EXISTS CASE WHEN THEN ELSE END CAST ASC DESC INTEGER REAL TEXT NUMERIC WITH"""
)
# Every keyword of SQLite. As a name it needs quotes.
_RESERVED = frozenset(
    _words(
        """abort action add after all alter always analyze and as asc attach autoincrement before begin between by
        cascade case cast check collate column commit conflict constraint create cross current current_date current_time
        current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape
        except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
        groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join
        key last left like limit match materialized natural no not nothing notnull null nulls of offset on or order
        others outer over partition plan pragma preceding primary query raise range recursive references regexp reindex
        release rename replace restrict returning right rollback row rows savepoint select set table temp temporary then
        ties to transaction trigger true false unbounded union unique update using vacuum values view virtual when where
        window with within without"""
    )
)
_WORD = r"[A-Za-z_][A-Za-z0-9_$]*"
_PUNCTUATION = ("||", "==", "<>", "!=", "<=", ">=", *"().,*+-/%=<>;")  # longer ones first: they have priority
_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_OPERATORS = ("+", "-", "*", "/", "%", "||")
_COLUMN, _TABLE = range(2)  # relations of a name to a table
_MOST_CALLS = 100
"""Groups of functions with the same arguments. A lexer has at most 253 terminals besides identifiers."""


def _plain(name: str) -> bool:
    """Returns whether a name needs no quotes."""
    first, rest = name[:1], name[1:]
    letters = first.isascii() and (first.isalpha() or first == "_")
    return letters and all(c.isascii() and (c.isalnum() or c == "_") for c in rest) and name.lower() not in _RESERVED


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _called(name: str) -> str:
    """A function's name in a call: SQLite takes its own functions without quotes, even those named like keywords."""
    return name if name not in _RESERVED or name in FUNCTIONS or name in AGGREGATES else _quoted(name)


def _one_of(names: list[str]) -> Constraint:
    return choice([name if _plain(name) else _quoted(name) for name in names])


@dataclass(frozen=True, slots=True)
class SqlQuery(Constraint):
    """One SELECT statement that SQLite prepares; made by ``grammars.sql(schema=…)``.

    Attributes:
        database: the available names.
        max_joined: the maximum number of tables in one FROM clause.
    """

    database: Database
    max_joined: int = 3

    def _lower(self, b: _core.Builder) -> int:
        return _Select(b, self).statement()

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases of the tables of a FROM clause, in order: ``t1``, ``t2`` …, unless a name is taken."""
        return self._free("t", self.max_joined)

    @property
    def common_table(self) -> tuple[str, tuple[str, ...]]:
        """The name and the columns of a common table: ``q1`` with ``c1`` to ``c4``, unless a name is taken."""
        return self._free("q", 1)[0], self._free("c", _COMMON_COLUMNS)

    def _free(self, letter: str, count: int) -> tuple[str, ...]:
        taken = {name.lower() for table, columns in self.database.tables for name in (table, *columns)}
        stem = letter
        while not taken.isdisjoint(f"{stem}{i + 1}" for i in range(count)):
            stem += "_"
        return tuple(f"{stem}{i + 1}" for i in range(count))

    def __repr__(self) -> str:
        names = [name for name, _ in self.database.tables]
        shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        return f"grammars.sql(schema=<{len(names)} tables: {shown}>)"


def sql_query(schema: Any, functions: Any, max_joined: int) -> SqlQuery:
    """Makes a constraint for queries of the database that a user describes.

    Raises:
        CompileError: ``query-schema``: the schema cannot be read; ``bad-option``: an option is wrong.
        LimitError: ``query-schema-size``: it has too many tables or columns.
    """
    check_integer("max_joined", max_joined, 1, _MOST_JOINED, code="bad-option")
    query = SqlQuery(Database.of(schema, functions), max_joined)
    if len(_calls(query.database)) > _MOST_CALLS:
        raise LimitError(
            f"the functions have more than {_MOST_CALLS} different argument counts; pass only those that queries may "
            "call",
            code="query-schema-size",
        )
    return query


def _calls(database: Database) -> list[tuple[str, list[str]]]:
    """Returns the terminals of functions that take the same arguments, such as ``min max 2``, with their names."""
    counts = {name: (least, most) for name, least, most in database.functions}
    found: dict[str, list[str]] = {}
    for name in sorted({*counts, *database.aggregates}):
        least, most = counts.get(name, (-1, None))
        way = name if name in ("count", "group_concat") else "aggregate"
        kind = way if name in database.aggregates else "function"
        found.setdefault(f"{kind} {least} {-1 if most is None else most}", []).append(name)
    return list(found.items())


class _Scope:
    """The expressions over some columns, by nesting depth of parentheses, without and with aggregates.

    Attributes:
        plain: an expression without aggregates; whole: one that may contain them.
        plain_term, whole_term: the same where a number alone would be a column's position (ORDER BY, GROUP BY).
    """

    def __init__(self, select: _Select, column: int) -> None:
        self.column = column
        self._select = select
        plain, whole = self._level(None, None), self._level(None, None)
        for _ in range(_DEPTH - 1):
            whole = self._level(whole[0], plain[0])
            plain = self._level(plain[0], None)
        self.plain, self.plain_term = plain
        self.whole, self.whole_term = whole

    def _level(self, inner: int | None, of_aggregates: int | None) -> tuple[int, int]:
        """One level. ``inner``: the contents of parentheses; ``of_aggregates``: the argument of aggregates. None:
        not allowed.
        """
        s, select = self._select.s, self._select
        subqueries = None if inner is None else select.subqueries
        heads = [self.column]
        atoms = [s.any_of(["integer", "decimal", "text"]), s.words(["NULL"])]
        if inner is not None:
            heads += [
                *select.calls(inner),
                self._case(inner),
                s.seq("CAST", "(", inner, "AS", s.any_of(_TYPES), ")"),
            ]
            atoms += [s.seq("(", inner, ")")]
        if of_aggregates is not None:
            heads += select.aggregates(of_aggregates)
        if subqueries is not None:
            atoms.append(subqueries[1])
        head = s.alt(*heads)
        atom = s.alt(head, *atoms)
        more = s.star(s.any_of(_OPERATORS), atom)
        side = s.seq(s.opt("-"), atom, more)
        members = s.seq("(", s.listed(side), ")")
        if subqueries is not None:
            members = s.alt(members, subqueries[1])
        between = s.seq("BETWEEN", side, "AND", side)
        compared = s.opt(
            s.alt(
                s.seq(s.any_of(_COMPARISONS), side),
                s.seq("IS", s.opt("NOT"), "NULL"),
                s.seq(s.opt("NOT"), s.alt(s.seq("LIKE", side), between, s.seq("IN", members))),
            )
        )
        test = s.seq(side, compared)
        if subqueries is not None:
            test = s.alt(test, s.seq("EXISTS", subqueries[0]))
        test = s.seq(s.opt("NOT"), test)
        return s.listed(test, "AND OR"), s.seq(s.opt("-"), head, more)

    def _case(self, inner: int) -> int:
        s = self._select.s
        when = s.seq("WHEN", inner, "THEN", inner)
        return s.seq("CASE", when, s.star(when), s.opt("ELSE", inner), "END")


class _Select:
    """Builds the grammar."""

    def __init__(self, b: _core.Builder, query: SqlQuery) -> None:
        self.b = b
        self.query = query
        self.tables = query.database.tables
        self.groups = _calls(query.database)
        numbers = [
            ("bad number", regex(r"[0-9]+(?:[A-Za-z_$]|\.[0-9]+[A-Za-z_$.])")),
            ("decimal", regex(r"[0-9]{1,15}\.[0-9]{1,15}")),
            ("integer", regex(r"[0-9]{1,18}")),
        ]
        calls = [(name, regex(rf"(?i:{'|'.join(map(_called, names))})[ \t]*\(")) for name, names in self.groups]
        self.alias_names = query.aliases
        self.s = s = Symbols(b, _WORD, r"[ \t\n\r]+", [*calls, *numbers], ["bad number"], ["reserved"])
        for keyword in _KEYWORDS:
            s.add_word(keyword, [keyword], any_case=True)
        for alias in self.alias_names:
            s.add_word(alias, [alias], any_case=True)
        s.add_word("reserved", sorted(_RESERVED), any_case=True)
        s.add("text", regex(r"'(?:[^'\x00]|'')*'"))
        for text in _PUNCTUATION:
            s.add(text, literal(text))
        self._names()
        s.add_identifiers(self._identifiers())
        s.finish()
        self.new_name = s.alt(s.symbol(WORD), s.refused("reserved"))
        self.subqueries: tuple[int, int] | None = None  # in parentheses: with any columns, and with one

    def _names(self) -> None:
        """Adds placeholders for the columns and the name of each table: the only table, and those with aliases."""
        common, columns = self.query.common_table
        self.s.add_word("common table", [common])
        for number, column in enumerate(columns):
            self.s.add_word(f"common column {number}", [column])
        for variable in range(len(self.alias_names) + 1):
            at = max(variable - 1, 0)  # its number in the binding
            self.s.add_placeholder(f"column {variable}", at, _COLUMN)
            self.s.add_placeholder(f"table {variable}", at, _TABLE)

    def _identifiers(self) -> Iterator[tuple[int, list[int], Constraint, bool]]:
        """Yields all names, each with the numbers of its tables. Columns of the same tables share a terminal.

        The common tables of one column, of two and so on follow the tables of the database.
        """
        owners: dict[str, list[int]] = {}
        named: list[tuple[list[int], str]] = []
        for at, (table, columns) in enumerate(self.tables):
            named.append(([at], table))
            for column in columns:
                owners.setdefault(column, []).append(at)
        common, wanted = self.query.common_table
        every = [self.common(count) for count in range(1, _COMMON_COLUMNS + 1)]
        named.append((every, common))
        owners |= {column: every[number:] for number, column in enumerate(wanted)}
        groups: dict[tuple[tuple[int, ...], bool], list[str]] = {}
        for column, having in owners.items():
            groups.setdefault((tuple(having), _plain(column)), []).append(column)
        for (of, plain), names in groups.items():
            yield _COLUMN, list(of), _one_of(names), plain
        for numbers, table in named:
            yield _TABLE, numbers, _one_of([table]), _plain(table)

    def common(self, columns: int) -> int:
        """The number of the common table with this many columns."""
        return len(self.tables) + columns - 1

    def domain(self, columns: int = 0) -> list[int]:
        """The tables of the database and, given columns, the common table with this many."""
        return [*range(len(self.tables)), *([self.common(columns)] if columns else [])]

    # -- parts ---------------------------------------------------------------------------------------------------
    def calls(self, inner: int) -> list[int]:
        """Calls of functions."""
        return [call for name, _ in self.groups for call in self._call(name, inner)]

    def _call(self, name: str, inner: int) -> Iterator[int]:
        least, most = map(int, name.split()[1:])
        if least < 0:
            return
        s = self.s
        more = s.seq(",", inner)
        if least == 0:
            few = s.b.repeat(more, 0, -1 if most < 0 else most - 1)
            inside = s.alt(s.b.EPSILON, s.seq(inner, few)) if most else s.b.EPSILON
        else:
            inside = s.seq(inner, s.b.repeat(more, least - 1, -1 if most < 0 else most - 1))
        yield s.seq(name, inside, ")")

    def aggregates(self, inner: int) -> list[int]:
        """Calls of aggregates."""
        s, found = self.s, []
        for name, _ in self.groups:
            kind = name.split()[0]
            if kind == "function":
                continue
            ways = [s.seq(s.opt("DISTINCT"), inner)]
            if kind == "count":
                ways.append(s.symbol("*"))
            elif kind == "group_concat":
                ways.append(s.seq(inner, ",", inner))
            found.append(s.seq(name, s.alt(*ways), ")"))
        return found

    def _listed(self, scope: _Scope, stars: int) -> int:
        """The columns of a result; ``stars``: ways to write all columns."""
        s = self.s
        return s.seq(s.opt("DISTINCT"), s.listed(s.alt(self._item(scope), stars)))

    def _item(self, scope: _Scope) -> int:
        return self.s.seq(scope.whole, self.s.opt("AS", self.new_name))

    def _counted(self, scope: _Scope, after: int) -> list[int]:
        """Results of one column, of two, and so on, each followed by the rest."""
        s, found, item = self.s, [], self._item(scope)
        for _ in range(_COMMON_COLUMNS):
            after = s.seq(item, after)
            found.append(s.seq(s.opt("DISTINCT"), after))
            after = s.seq(",", after)
        return found

    def _tail(self, scope: _Scope) -> int:
        """The clauses from WHERE to LIMIT."""
        s = self.s
        where = s.opt("WHERE", scope.plain)
        order = [
            s.opt("ORDER", "BY", s.listed(s.seq(term, s.opt("ASC DESC"))))
            for term in (scope.plain_term, scope.whole_term)
        ]
        group = s.seq("GROUP", "BY", s.listed(scope.plain_term), s.opt("HAVING", scope.whole), order[1])
        number = s.alt(s.symbol("integer"), s.refused())
        limit = s.opt("LIMIT", number, s.opt("OFFSET", number))
        return s.seq(where, s.alt(order[0], group), limit)

    # -- one table -----------------------------------------------------------------------------------------------
    def _single(self) -> list[int]:
        """Queries of one table, after SELECT: with any columns, with one, with two and so on."""
        s = self.s
        scope = _Scope(self, s.words(["column 0"]))
        after = s.seq("FROM", s.words(["table 0"]), self._tail(scope))
        return [s.seq(self._listed(scope, s.symbol("*")), after), *self._counted(scope, after)]

    # -- tables with aliases ---------------------------------------------------------------------------------------
    def _joined(self) -> int:
        """Queries of tables with aliases, after SELECT."""
        s, names = self.s, self.alias_names
        most = len(names)
        columns = [s.seq(name, ".", s.words([f"column {at}"])) for at, name in enumerate(names, 1)]
        scopes = [_Scope(self, s.alt(*columns[: count + 1])) for count in range(most)]
        item = [s.seq(s.words([f"table {at}"]), s.opt("AS"), name) for at, name in enumerate(names, 1)]
        join = s.seq(s.alt(s.opt("INNER CROSS"), s.seq("LEFT", s.opt("OUTER"))), "JOIN")
        ways = []
        for least in range(most):  # the results use aliases up to this one, so at least this many tables follow
            rest = s.b.EMPTY
            for at in range(most - 1, -1, -1):
                ends = [self._tail(scopes[at])] if at >= least else []
                joined = [] if at == most - 1 else [s.seq(join, item[at + 1], s.opt("ON", scopes[at + 1].plain), rest)]
                rest = s.alt(*ends, *joined)
            stars = s.alt("*", *(s.seq(name, ".", "*") for name in names[: least + 1]))
            ways.append(s.seq(self._listed(scopes[least], stars), "FROM", item[0], rest))
        return s.alt(*ways)

    # -- queries -----------------------------------------------------------------------------------------------------
    def statement(self) -> int:
        s, b = self.s, self.b
        joined = self._joined()
        self.subqueries = b.rule("subquery"), b.rule("subquery of a column")
        single = self._single()
        for way, rule in enumerate(self.subqueries):
            b.define(rule, s.binding([self.domain()], "(", "SELECT", single[way], ")"))
        ways = self._queries(single[0], joined, self.domain())
        for count in range(1, _COMMON_COLUMNS + 1):
            names = [f"common column {number}" for number in range(count)]
            head = s.seq("WITH", "common table", "(", *self._between(names), ")", "AS")
            inner = s.binding([self.domain()], "(", "SELECT", single[count], ")")
            ways.append(s.seq(head, inner, s.alt(*self._queries(single[0], joined, self.domain(count)))))
        return s.lexed(s.alt(*ways))

    def _queries(self, single: int, joined: int, tables: list[int]) -> list[int]:
        """Complete queries of these tables."""
        s = self.s
        return [
            s.binding([tables], "SELECT", single, s.opt(";")),
            s.binding([tables] * len(self.alias_names), "SELECT", joined, s.opt(";")),
        ]

    @staticmethod
    def _between(names: list[str]) -> list[str]:
        return [part for name in names for part in (",", name)][1:]
