r"""SELECT statements over the tables, columns and functions that a database has.

A name means something only by the FROM clause, which comes after the columns that need it. Two forms make this exact:

- **one table, bare columns**: ``SELECT name FROM people WHERE age > 30``. There is a grammar for each table, and the
  first columns tell which of them are left. All copies share terminals, and a copy is some hundred nodes.
- **tables with aliases**: ``SELECT t1.name FROM people AS t1 JOIN … AS t2 ON …``, the first table ``t1``, the second
  ``t2`` and so on. So what has to be remembered is one table for each alias, and the aliases know nothing of each
  other: the grammar is intersected with one condition for each. A condition is a union over the tables; each of its
  members is two loops (before the alias is bound and after it), and a column that a table lacks ends that member.

Subqueries and the query of a common table are of the first form: their names are their own, and they are rules like
any others. A common table is ``q1`` with the columns ``c1`` to ``c4``, as many as its query has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint, literal
from guiderail.errors import CompileError
from guiderail.frontends.queries.database import Database
from guiderail.frontends.queries.symbols import WORD, Symbols
from guiderail.frontends.regex import regex
from guiderail.support.texts import shown

__all__ = ["SqlQuery", "sql_query"]

_DEPTH = 3
"""Levels of expressions, the outermost included, so parentheses nest one less deep. Subqueries do not count."""

_MOST_JOINED = 8
_COMMON_COLUMNS = 4


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TYPES = _words("INTEGER REAL TEXT NUMERIC")
_KEYWORDS = _words(
    """SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS JOIN INNER LEFT OUTER CROSS ON AND OR NOT IN IS
    NULL LIKE BETWEEN EXISTS CASE WHEN THEN ELSE END CAST ASC DESC INTEGER REAL TEXT NUMERIC WITH"""
)
# Every keyword of SQLite: as a name it stands in quotes.
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
_PUNCTUATION = ("||", "==", "<>", "!=", "<=", ">=", *"().,*+-/%=<>;")  # the longer first, which then win
_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_OPERATORS = ("+", "-", "*", "/", "%", "||")
_LATER = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")  # what stands after the FROM clause


def _plain(name: str) -> bool:
    """Whether a name needs no quotes."""
    first, rest = name[:1], name[1:]
    letters = first.isascii() and (first.isalpha() or first == "_")
    return letters and all(c.isascii() and (c.isalnum() or c == "_") for c in rest) and name.lower() not in _RESERVED


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class SqlQuery(Constraint):
    """One SELECT statement that SQLite prepares; made by ``grammars.sql(schema=…)``.

    Attributes:
        database: the names that it may use.
        max_joined: the most tables in one FROM clause.
    """

    database: Database
    max_joined: int = 3

    def _lower(self, b: _core.Builder) -> int:
        return _Select(b, self).statement()

    @property
    def aliases(self) -> tuple[str, ...]:
        """What the tables of a FROM clause are called, in their order: ``t1``, ``t2`` …, unless a name is taken."""
        return self._free("t", self.max_joined)

    @property
    def common_table(self) -> tuple[str, tuple[str, ...]]:
        """What a common table is called, and its columns: ``q1`` with ``c1`` to ``c4``, unless a name is taken."""
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


def sql_query(schema: Any, functions: Any = None, max_joined: int = 3) -> SqlQuery:
    """A query of the database that a user describes.

    Raises:
        CompileError: ``query-schema``: the schema cannot be read; ``bad-option``: an option is wrong.
        LimitError: ``query-schema-size``: it has too many tables or columns.
    """
    if not isinstance(max_joined, int) or isinstance(max_joined, bool) or not 1 <= max_joined <= _MOST_JOINED:
        raise CompileError(
            f"max_joined must be a whole number from 1 to {_MOST_JOINED}, not {shown(max_joined)}", code="bad-option"
        )
    return SqlQuery(Database.of(schema, functions), max_joined)


class _Scope:
    """The expressions over some columns: by how deep brackets nest, without aggregates and with them.

    Attributes:
        plain: an expression without aggregates; whole: one that may have them.
        plain_term, whole_term: the same where a number alone would be the place of a column (ORDER BY, GROUP BY).
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
        """One level: ``inner`` is what stands in brackets, ``of_aggregates`` what is aggregated, None: nothing is."""
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
        self.groups = self._functions()
        numbers = [
            ("bad number", regex(r"[0-9]+(?:[A-Za-z_$]|\.[0-9]+[A-Za-z_$.])")),
            ("decimal", regex(r"[0-9]{1,15}\.[0-9]{1,15}")),
            ("integer", regex(r"[0-9]{1,18}")),
        ]
        calls = [(name, regex(rf"(?i:{'|'.join(names)})[ \t]*\(")) for name, names in self.groups]
        self.alias_names = query.aliases
        self.s = s = Symbols(b, _WORD, r"[ \t\n\r]+", [*calls, *numbers], ["bad number"], ["reserved"])
        for keyword in _KEYWORDS:
            s.add_word(keyword, [keyword], any_case=True)
        for alias in self.alias_names:
            s.add_word(alias, [alias], any_case=True)
        s.add_word("reserved", sorted(_RESERVED), any_case=True)
        self._names()
        s.add("text", regex(r"'(?:[^'\x00]|'')*'"))
        for text in _PUNCTUATION:
            s.add(text, literal(text))
        s.finish()
        self.new_name = s.alt(s.symbol(WORD), s.refused("reserved"))
        self.subqueries: tuple[int, int] | None = None  # in brackets: of any columns, and of one

    def _functions(self) -> list[tuple[str, list[str]]]:
        """Terminals of functions that are called alike: ``min max 2``, with their names."""
        database = self.query.database
        counts = {name: (least, most) for name, least, most in database.functions}
        found: dict[str, list[str]] = {}
        for name in sorted({*counts, *database.aggregates}):
            least, most = counts.get(name, (-1, None))
            way = name if name in ("count", "group_concat") else "aggregate"
            kind = way if name in database.aggregates else "function"
            found.setdefault(f"{kind} {least} {-1 if most is None else most}", []).append(name)
        return list(found.items())

    def _names(self) -> None:
        """A terminal for each table, and one for all columns that the same tables have."""
        owners: dict[str, list[int]] = {}
        for at, (table, columns) in enumerate(self.tables):
            if _plain(table):
                self.s.add_word(f"table {at}", [table])
            else:
                self.s.add(f"table {at}", literal(_quoted(table)))
            for column in columns:
                owners.setdefault(column, []).append(at)
        groups: dict[tuple[tuple[int, ...], bool], list[str]] = {}
        for column, of in owners.items():
            groups.setdefault((tuple(of), _plain(column)), []).append(column)
        self.columns: list[list[str]] = [[] for _ in self.tables]
        for number, ((has, plain), names) in enumerate(groups.items()):
            name = f"columns {number}"
            for at in has:
                self.columns[at].append(name)
            if plain:
                self.s.add_word(name, names)
            else:
                self.s.add(name, regex("|".join(re.escape(_quoted(one)) for one in names)))
        self.all_columns = [f"columns {number}" for number in range(len(groups))]
        self.all_tables = [f"table {at}" for at in range(len(self.tables))]
        common, wanted = self.query.common_table
        self.common_columns = [f"columns of {column}" for column in wanted]
        for name, column in zip(self.common_columns, wanted, strict=True):
            self.s.add_word(name, [column])
        self.s.add_word("common table", [common])
        self.all_columns += self.common_columns
        self.all_tables.append("common table")

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
        """Calls that aggregate."""
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
        """The columns of a result; ``stars``: what may stand for all columns."""
        s = self.s
        return s.seq(s.opt("DISTINCT"), s.listed(s.alt(self._item(scope), stars)))

    def _item(self, scope: _Scope) -> int:
        return self.s.seq(scope.whole, self.s.opt("AS", self.new_name))

    def _counted(self, scope: _Scope, after: int) -> list[int]:
        """Results of one column, of two, and so on, each with what comes after."""
        s, found, item = self.s, [], self._item(scope)
        for _ in range(_COMMON_COLUMNS):
            after = s.seq(item, after)
            found.append(s.seq(s.opt("DISTINCT"), after))
            after = s.seq(",", after)
        return found

    def _tail(self, scope: _Scope) -> int:
        """From WHERE to LIMIT."""
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
    def _single(self, table: str, columns: list[str]) -> list[int]:
        """A query of one table: with any columns, with one, with two and so on."""
        s = self.s
        scope = _Scope(self, s.words(columns))
        after = s.seq("FROM", table, self._tail(scope))
        return [s.seq(self._listed(scope, s.symbol("*")), after), *self._counted(scope, after)]

    # -- tables with aliases ---------------------------------------------------------------------------------------
    def _joined(self) -> list[int]:
        """A query of tables with aliases: without a common table, and beside one of one column, of two and so on."""
        s, names = self.s, self.alias_names
        some = s.words(self.all_columns)
        scopes = [
            _Scope(self, s.alt(*(s.seq(name, ".", some) for name in names[: count + 1]))) for count in range(len(names))
        ]
        item = [s.seq(s.words(self.all_tables), s.opt("AS"), name) for name in names]
        on = [s.opt("ON", scope.plain) for scope in scopes]
        join = s.seq(s.alt(s.opt("INNER CROSS"), s.seq("LEFT", s.opt("OUTER"))), "JOIN")
        rest = self._tail(scopes[-1])
        for count in range(len(names) - 2, -1, -1):
            rest = s.alt(self._tail(scopes[count]), s.seq(join, item[count + 1], on[count + 1], rest))
        after = s.seq("FROM", item[0], rest)
        stars = s.alt("*", *(s.seq(name, ".", "*") for name in names))
        conditions = [self._bound(at) for at in range(len(names))]
        query = s.seq(self._listed(scopes[-1], stars), after)
        found = [self.b.intersection([query, *(s.alt(*ways) for ways, _ in conditions)])]
        for number in range(_COMMON_COLUMNS):  # the table q1 with so many columns is one more
            found.append(self.b.intersection([query, *(s.alt(*ways, more[number]) for ways, more in conditions)]))
        return found

    def _bound(self, at: int) -> tuple[list[int], list[int]]:
        """What an alias stands for: the table of its place in the FROM clause, which has all columns read by it.

        Tables, FROM and JOIN come one by one in a condition, so that a table without the columns ends its way at once:
        what is left of the intersection can always be finished, and nothing has to be searched for.

        Returns the ways for the tables of the database, and those for common tables of one column, of two and so on.
        """
        s, names = self.s, self.alias_names
        me, dot, as_ = s.symbol(names[at]), s.symbol("."), s.opt(s.symbol("AS"))
        others = s.any_of(name for name in names if name != names[at])
        named = {*self.all_columns, *self.all_tables, *names, *_LATER, ".", "AS", "FROM", "JOIN", "reserved"}
        table, column = s.any_of(self.all_tables), s.any_of(self.all_columns)
        plain = s.alt(
            s.any_of(name for name in s.names() if name not in named),
            s.seq(others, dot, s.alt(column, s.symbol("*"))),
            s.seq(s.symbol("AS"), s.any_of([WORD, *_TYPES])),
        )
        late = s.any_of(_LATER)
        word = s.refusal(s.taking)  # one that is longer, wherever one may stand
        words = s.alt(word, s.seq(s.alt(others, me), dot, word), s.refusal(s.seq(s.symbol("AS"), s.symbol("reserved"))))

        def item(tables: int, alias: int, then: int) -> int:
            """A table of the FROM clause."""
            return s.alt(word, s.seq(tables, as_, s.alt(word, s.seq(alias, then))))

        def items(count: int, last: int, ending: int | None) -> int:
            """So many tables and then the last part; with ``ending`` the clause may end before, too."""
            found = last
            for number in range(count - 1, -1, -1):
                ways = [words, s.seq(s.symbol("JOIN"), found)] if found != s.b.EMPTY else [words]
                ways += [] if ending is None else [ending]
                found = item(table, s.symbol(names[number]), s.seq(s.star(plain), s.alt(*ways)))
            return found

        def bound(of: str, columns: list[str]) -> int:
            own = s.seq(me, dot, s.any_of([*columns, "*"]))
            more = s.star(s.alt(plain, own, late, s.seq(s.symbol("JOIN"), table, as_, others)))
            rest = s.seq(more, s.opt(s.alt(words, s.seq(s.symbol("JOIN"), s.alt(word, s.seq(table, as_, word))))))
            clause = items(at, item(s.symbol(of), me, rest), None)
            return s.seq(s.star(s.alt(plain, own)), s.alt(words, s.seq(s.symbol("FROM"), clause)))

        ways = [bound(f"table {number}", columns) for number, columns in enumerate(self.columns)]
        if at:
            rest = s.seq(s.opt(s.seq(late, s.star(s.alt(plain, late)))), s.opt(words))
            ways.append(s.seq(s.star(plain), s.alt(words, s.seq(s.symbol("FROM"), items(at, s.b.EMPTY, rest)))))
        counts = range(1, _COMMON_COLUMNS + 1)
        return ways, [bound("common table", self.common_columns[:count]) for count in counts]

    # -- the whole -------------------------------------------------------------------------------------------------
    def statement(self) -> int:
        s, b = self.s, self.b
        joined = self._joined()
        self.subqueries = b.rule("subquery"), b.rule("subquery of a column")
        singles = [self._single(f"table {at}", columns) for at, columns in enumerate(self.columns)]
        for way, rule in enumerate(self.subqueries):
            b.define(rule, s.seq("(", "SELECT", s.alt(*(one[way] for one in singles)), ")"))
        single = s.alt(*(one[0] for one in singles))
        ways = [s.seq("SELECT", s.alt(single, joined[0]))]
        for count in range(1, _COMMON_COLUMNS + 1):
            names = list(self.common_columns[:count])
            head = s.seq("WITH", "common table", "(", *self._between(names), ")", "AS", "(", "SELECT")
            inner = s.alt(*(one[count] for one in singles))
            own = self._single("common table", names)[0]
            ways.append(s.seq(head, inner, ")", "SELECT", s.alt(single, own, joined[count])))
        return s.lexed(s.seq(s.alt(*ways), s.opt(";")))

    @staticmethod
    def _between(names: list[str]) -> list[str]:
        return [part for name in names for part in (",", name)][1:]
