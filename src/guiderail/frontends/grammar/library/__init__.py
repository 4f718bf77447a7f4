"""Ready grammars: data files in Lark's notation or GBNF, their options, and how they are read.

Lark's lexer does not know whole words: ``SELECTa`` is ``SELECT`` and ``a`` if no name is allowed there, and ``from`` is
a name if no keyword is. :func:`whole_words` adds both rules to a grammar, as tree-sitter's ``word`` does to its lexers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from guiderail.errors import CompileError, LimitError
from guiderail.frontends.grammar.syntax import Indentation
from guiderail.support.options import check_integer
from guiderail.support.suggestions import suggestion
from guiderail.support.texts import shown

__all__ = ["READY", "ReadyGrammar", "grammar_text", "whole_words"]

_FOLDER = Path(__file__).parent
_MOST_ATTRIBUTES = 400
_XML_NAME = re.compile(r"(?!xml)[a-z_][\w.-]*(?::[a-z_][\w.-]*)?", re.ASCII | re.IGNORECASE)
_XML_OWN_ATTRIBUTE = re.compile(r"xmlns(?::(?!xml)[A-Za-z_][\w.-]*)?|xml:(?:lang|space|base|id)", re.ASCII)


class ReadyGrammar(NamedTuple):
    """A ready grammar.

    Attributes:
        file: name of the data file.
        title: its title.
        description: what it matches, in one line.
        options: names and meanings of its options.
        words: whether keywords are whole words (:func:`whole_words`).
        change: applies options to the text.
        indentation: how line breaks become INDENT and DEDENT, if the language is indented.
    """

    file: str
    title: str
    description: str
    options: dict[str, str]
    words: bool = False
    change: Callable[..., str] | None = None
    indentation: Indentation | None = None

    @property
    def syntax(self) -> str:
        """The notation, as ``gr.grammar`` names it."""
        return Path(self.file).suffix[1:]


def grammar_text(name: str, **options: Any) -> str:
    """The text of a ready grammar, in its notation, with its options applied; options that are None have no effect.

    Raises:
        CompileError: ``bad-option``: there is no such grammar, it has no such option, or a value is wrong.
    """
    known = READY.get(name.replace("-", "_").lower())
    if known is None:
        raise CompileError(f"there is no ready grammar {name!r}; {suggestion(name, READY)}", code="bad-option")
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known.options:
            options_words = f"has {', '.join(known.options)}" if known.options else "has no options"
            raise CompileError(f"the grammar {name!r} has no option {option!r}; it {options_words}", code="bad-option")
    text = _read(known.file)
    if given and known.change is not None:
        text = known.change(text, **given)
    return whole_words(text) if known.words else text


@lru_cache(maxsize=32)
def _read(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")


_SECTION = "// -- words"
_KEYWORD = re.compile(r'(?m)^([A-Z][A-Z_]*): "([A-Za-z_]+)"i?$')
_TERMINAL = re.compile(r'("(?:[^"\\]|\\.)*"|(?<!\w)[A-Z][A-Z_0-9]*(?!\w))')


def whole_words(text: str, word: str = "NAME") -> str:
    """A grammar in which keywords are whole words, and reserved words are not names.

    After the line that begins with ``// -- words`` stand the terminals: keywords as strings, the terminal ``word`` that
    matches them all, and a rule ``_never`` that nothing satisfies. Where a keyword is expected, ``word`` is too, and
    takes the longer text; what must follow it never comes. Reserved words, which a look-ahead at the beginning of
    ``word`` excludes, become terminals that are allowed with it and lead nowhere. Both are defined once for each word,
    in a rule that replaces it everywhere.
    """
    rules, _, terminals = text.partition(_SECTION)
    spelled = {value.lower(): name for name, value in _KEYWORD.findall(terminals)}
    keywords = frozenset(spelled.values())
    excluded = re.search(rf"(?m)^{word}: /\(\?!\(\?:([^)]*)\)\\b\)", terminals)
    reserved = excluded[1].split("|") if excluded is not None else []
    more = []
    for value in reserved:
        if value.lower() not in spelled:
            spelled[value.lower()] = f"RESERVED_{value.upper().strip('_')}"
            flag = "i" if "(?-i:" in terminals else ""
            more.append(f'{spelled[value.lower()]}: "{value}"{flag}\n')
    if excluded is not None:
        terminals = terminals.replace(excluded[0], f"{word}: /", 1)

    instead = {name: f"_whole_{name.lower()}" for name in keywords}
    if reserved:
        instead[word] = f"_whole_{word.lower()}"
    pieces = _TERMINAL.split(re.sub(r"(?m)^//.*$", "", rules))
    found = pieces[1::2]
    pieces[1::2] = [instead.get(name, name) for name in found]
    changed = "".join(pieces)
    for name in dict.fromkeys(found):
        if name in instead:
            otherwise = "_longer" if name in keywords else "_reserved _never"
            more.append(f"{instead[name]}: {name} | {otherwise}\n")
    more.append(f"_longer: {word} _never\n")
    if reserved:
        changed += f"_reserved: {' | '.join(spelled[value.lower()] for value in reserved)}\n"
    return "".join([changed, _SECTION, terminals, *more])


def _json(text: str, max_depth: int) -> str:
    """JSON with a maximum nesting of objects and arrays (Koo, Liu & He 2024, §5.1)."""
    check_integer("max_depth", max_depth, 0, 1000, code="bad-option")
    rules = ["start: value_0", "?scalar: STRING | NUMBER | TRUE | FALSE | NULL"]
    for level in range(max_depth):
        inner = level + 1
        rules += [
            f"?value_{level}: object_{level} | array_{level} | scalar",
            f'object_{level}: "{{" (member_{level} ("," member_{level})*)? "}}"',
            f'member_{level}: STRING ":" value_{inner}',
            f'array_{level}: "[" (value_{inner} ("," value_{inner})*)? "]"',
        ]
    rules.append(f"?value_{max_depth}: scalar")
    return "\n".join(rules) + "\n" + text[text.index("\nSTRING:") :]


def _csv(text: str, columns: int) -> str:
    check_integer("columns", columns, 1, 1000, code="bad-option")
    if columns == 1:  # a record may be empty, and the last line break is one more empty record
        return text.replace('record: _field? ("," _field?)*', "record: _field?")
    rules = f'_records: record (LINE_END record)* LINE_END?\nrecord: _field? ("," _field?)~{columns - 1}\n'
    return re.sub(r"(?m)^_records:.*\nrecord:.*\n", rules, text)


def _markdown_table(text: str, columns: int) -> str:
    check_integer("columns", columns, 1, 200, code="bad-option")
    rules = (
        "start: row LINE_END delimiters (LINE_END row)* LINE_END?\n"
        f'row: "|" (CELL "|")~{columns}\ndelimiters: "|" (DELIMITER "|")~{columns}\n'
    )
    return rules + text[text.index("\nCELL:") :]


def _xml(text: str, elements: Iterable[str] | None = None, attributes: Iterable[str] | None = None) -> str:
    tags = None if elements is None else _names("elements", elements)
    names = None if attributes is None else _names("attributes", attributes)
    if tags == []:
        raise CompileError("elements needs at least one name; None allows any", code="bad-option")
    if names is not None:
        text = text.replace("_attributes: SPACE attribute\n", _attributes(names))
        if not names:
            text = text.replace(" _attributes?", "")
    if names is not None:
        text = text.replace('attribute: NAME SPACE? "=" SPACE? VALUE\n', "")
    if tags is None:
        return text
    own = re.search(r"(?m)^element: .*\n", text)
    assert own is not None
    has = " _attributes?" if "_attributes?" in own[0] else ""
    rules = f"?element: {' | '.join(f'element_{i}' for i in range(len(tags)))}\n" + "".join(
        f'element_{i}: "<{tag}"{has} (SPACE? "/>" | SPACE? ">" _content "</{tag}" SPACE? ">") -> element\n'
        for i, tag in enumerate(tags)
    )
    return text.replace(own[0], rules)


def _attributes(names: list[str]) -> str:
    """Some of these attributes, in this order: `_attributes` begins anywhere, `_after_i` after the i-th."""
    if not names:
        return ""
    one = "".join(f'attribute_{i}: "{name}" SPACE? "=" SPACE? VALUE -> attribute\n' for i, name in enumerate(names))
    if len(names) > _MOST_ATTRIBUTES:
        raise LimitError(
            f"attributes has {len(names):,} names, and the grammar grows with their square; pass at most "
            f"{_MOST_ATTRIBUTES}, or None for any",
            code="grammar-size",
        )
    count = range(len(names))
    first = " | ".join(f"SPACE attribute_{i}" + (f" _after_{i}?" if i + 1 < len(names) else "") for i in count)
    after = "".join(
        f"_after_{i}: "
        + " | ".join(f"SPACE attribute_{j}" + (f" _after_{j}?" if j + 1 < len(names) else "") for j in count[i + 1 :])
        + "\n"
        for i in count[:-1]
    )
    return f"_attributes: {first}\n{after}{one}"


def _sql(text: str, statements: Iterable[str]) -> str:
    known = {
        "select": "select_statement",
        "insert": "insert_statement",
        "update": "update_statement",
        "delete": "delete_statement",
        "create_table": "create_table",
        "create_index": "create_index",
        "drop": "drop_statement",
    }
    wanted = [statements] if isinstance(statements, str) else list(statements)
    for one in wanted:
        if not isinstance(one, str) or one not in known:
            raise CompileError(f"statements must be some of {', '.join(known)}, not {shown(one)}", code="bad-option")
    if not wanted:
        raise CompileError(f"statements needs at least one of {', '.join(known)}", code="bad-option")
    rule = f"?statement: {' | '.join(known[one] for one in dict.fromkeys(wanted))}\n"
    return re.sub(r"(?m)^\?statement:.*\n(?:[ ]+\|.*\n)*", rule, text)


def _names(option: str, names: Iterable[str]) -> list[str]:
    found = [names] if isinstance(names, str | bytes) else list(names)
    for name in found:
        own = option == "attributes" and isinstance(name, str) and _XML_OWN_ATTRIBUTE.fullmatch(name)
        if not own and (not isinstance(name, str) or not _XML_NAME.fullmatch(name)):
            raise CompileError(
                f"{option} must be ASCII names that XML does not reserve, not {shown(name)}", code="bad-option"
            )
    if len(set(found)) != len(found):
        raise CompileError(f"{option} lists a name twice; leave one out", code="bad-option")
    return found


_PYTHON_LINES = Indentation(
    newline="_NEWLINE",
    indent="_INDENT",
    dedent="_DEDENT",
    opening=("LPAR", "LSQB", "LBRACE"),
    closing=("RPAR", "RSQB", "RBRACE"),
    strict_tabs=True,
    final_newline=True,
    initial_newline=True,
)
READY: dict[str, ReadyGrammar] = {
    "json": ReadyGrammar(
        "json.lark", "JSON", "any JSON value (RFC 8259)",
        {"max_depth": "maximum nesting of objects and arrays"}, change=_json,
    ),
    "arithmetic": ReadyGrammar("arithmetic.lark", "Arithmetic", "an arithmetic expression, as Python reads it", {}),
    "csv": ReadyGrammar(
        "csv.lark", "CSV", "comma-separated values (RFC 4180)",
        {"columns": "the number of fields in each record"}, change=_csv,
    ),
    "sql": ReadyGrammar(
        "sql.lark", "SQL", "one statement of SQLite",
        {"statements": "some of select, insert, update, delete, create_table, create_index, drop"},
        words=True, change=_sql,
    ),
    "python": ReadyGrammar(
        "python.lark", "Python", "a module of Python 3.11, including indentation", {}, indentation=_PYTHON_LINES,
    ),
    "xml": ReadyGrammar(
        "xml.lark", "XML", "an XML 1.0 document; well-formed if its elements are listed",
        {"elements": "names of the elements", "attributes": "names of the attributes, in order"},
        change=_xml,
    ),
    "graphql": ReadyGrammar("graphql.lark", "GraphQL", "an executable GraphQL document", {}, words=True),
    "c": ReadyGrammar(
        "c.lark", "C", "a subset of C99: declarations, functions, statements, expressions", {}, words=True
    ),
    "regex": ReadyGrammar("regex.gbnf", "Regular expressions", "a Python regular expression that compiles", {}),
    "markdown_table": ReadyGrammar(
        "markdown_table.lark", "Markdown table", "a GitHub Flavored Markdown table with rows of equal length",
        {"columns": "the number of cells in each row; by default 1 to 8"}, change=_markdown_table,
    ),
}  # fmt: skip
