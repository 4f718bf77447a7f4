"""The location of a text in its constraint, for any kind of constraint.

Nothing is guessed: what is not known exactly is left out.
"""

from __future__ import annotations

import codecs
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail.constraints.constraint import Constraint
from guiderail.inspect.place import Place
from guiderail.support.texts import clipped

if TYPE_CHECKING:
    from guiderail.inspect.grammar_location import EarleyRules
    from guiderail.inspect.json_location import JsonWhere
    from guiderail.inspect.regex_location import RegexWhere

__all__ = ["Source", "Where", "source_of"]

_LONGEST_REST = 300  # characters shown of what remains


@dataclass(frozen=True, slots=True)
class Source:
    """What a constraint was made from.

    Attributes:
        kind: ``"json-schema"``, ``"regex"``, ``"grammar"`` or ``"other"``.
        text: the pattern, the grammar as written, or the constraint in words; "" for a schema.
        schema: the schema as plain data, or None.
        rules: the names of a grammar's rules and terminals, with the span in ``text`` where each is defined.
    """

    kind: str
    text: str
    schema: Any = None
    rules: tuple[tuple[str, int, int], ...] = ()


def _made_by(constraint: Constraint, module: str, name: str) -> bool:
    # The constraint exists only if its module is loaded; otherwise do not load it.
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(constraint, getattr(loaded, name))


def _schema_of(constraint: Constraint) -> Any:
    """The JSON Schema of a constraint, or None."""
    if _made_by(constraint, "guiderail.frontends.python_types", "PythonType"):
        constraint = constraint.constraint  # type: ignore[attr-defined]
    return constraint if _made_by(constraint, "guiderail.frontends.json_schema", "JsonSchema") else None


def source_of(constraint: Constraint) -> Source:
    """What a constraint was made from, for display."""
    schema = _schema_of(constraint)
    if schema is not None:
        return Source("json-schema", "", schema.schema)
    made: Any = constraint
    if _made_by(constraint, "guiderail.frontends.regex.constraint", "Regex"):
        return Source("regex", made.pattern)
    if _made_by(constraint, "guiderail.frontends.grammar", "GrammarConstraint"):
        if not isinstance(made.text, str):
            return Source("grammar", repr(made))
        rules = made.tree.rules.values() if made.tree.source == made.text else ()
        places = {rule.name: rule.span for rule in rules if rule.span}
        if made.syntax == "lark":
            for terminal in made.tree.lexer.terminals if made.tree.lexer is not None else ():
                defined = re.search(rf"(?m)^[ \t]*({re.escape(terminal.name)})(?:\.-?\d+)?[ \t]*:", made.text)
                if defined:
                    places.setdefault(terminal.name, defined.span(1))
        return Source("grammar", made.text, None, tuple((name, *span) for name, span in places.items()))
    return Source("other", repr(constraint))


class Where:
    """Follows a text through a constraint, byte by byte.

    Args:
        constraint: the constraint that the text is written under.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._json: JsonWhere | None = None
        self._regex: RegexWhere | None = None
        self._rules: EarleyRules | None = None
        self._names: list[str] | None = None
        self._ignored: frozenset[str] = frozenset()
        made: Any = constraint
        schema = _schema_of(constraint)
        if schema is not None:
            if schema.options.notation == "json":
                from guiderail.inspect.json_location import JsonWhere

                self._json = JsonWhere(schema)
        elif _made_by(constraint, "guiderail.frontends.regex.constraint", "Regex"):
            from guiderail.inspect.regex_location import RegexWhere

            self._regex = RegexWhere(made)
        elif _made_by(constraint, "guiderail.frontends.grammar", "GrammarConstraint"):
            if made.tree.lexer is None:
                from guiderail.inspect.grammar_location import EarleyRules

                self._rules = EarleyRules(made)
            else:
                self._names = [terminal.name for terminal in made.tree.lexer.terminals]
                self._ignored = made.tree.lexer.ignore

    def feed(self, data: bytes) -> None:
        """Reads more bytes. A character counts once its last byte has come."""
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError:  # not UTF-8: there are no locations to report
            self._json = self._regex = self._rules = None
            return
        for follower in (self._json, self._regex, self._rules):
            if follower is not None and text:
                follower.feed(text)

    def place(self, dump: str = "") -> Place | None:
        """Returns the location after what was read, or None if nothing is known.

        Args:
            dump: the dump of the state there (:meth:`Matcher.dump`).
        """
        if self._json is not None:
            found = self._json.place()
            if found is not None:
                return found
        if self._regex is not None:
            spans = self._regex.spans() or ()
            return Place(spans=spans, rest=_short(dump)) if spans or dump else None
        if self._names is not None and dump:
            from guiderail.inspect.grammar_location import terminals_of

            terminals = terminals_of(dump, self._names, self._ignored)
            if terminals is not None:
                names = terminals.names if terminals.complete or not terminals.names else (*terminals.names, "…")
                return Place(terminals=names, inside=terminals.inside, rest=_short(terminals.rest))
        rules = self._rules.open_rules() if self._rules is not None else None
        return Place(rules=rules or (), rest=_short(dump)) if rules or dump else None


# A character class: the letters worth showing, and then the others.
_LONG_CLASS = re.compile(r"\[((?:[^\]\\]|\\u\{\w+\}|\\.){12})(?:[^\]\\]|\\.){3,}\]")


def _short(text: str) -> str:
    return clipped(_LONG_CLASS.sub(r"[\1…]", text), _LONGEST_REST)
