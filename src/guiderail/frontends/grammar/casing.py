"""Keywords in one case: how a model writes a Lark grammar whose keywords may be spelled in any case.

``"select"i`` matches ``SeLeCt``, and a model that would rather write something else gets there by odd tokens (``In``,
then ``SerT``). So a keyword is written as in the grammar, in lower case, or in upper case. Its other spellings become
another terminal that is allowed with it and leads nowhere: if they were just missing, the lexer would read them as
names.
"""

from __future__ import annotations

from dataclasses import replace

from guiderail.constraints.constraint import AllOf, AnyOf, Choice as Texts, Complement
from guiderail.frontends.grammar.build import replacing
from guiderail.frontends.grammar.syntax import Choice, Grammar, Name, Rule, Sequence, Terminal
from guiderail.frontends.regex import Regex

__all__ = ["in_one_case"]

_ODD, _NOWHERE = "\0odd case", "\0nowhere"  # not possible as user names


def in_one_case(tree: Grammar) -> Grammar:
    """The grammar with each keyword as in the grammar, in lower case, or in upper case.

    Keywords are strings of letters with the flag ``i`` that would otherwise be names, or the like.
    """
    lexer = tree.lexer
    found = {} if lexer is None else {one.name: spelling for one in lexer.terminals if (spelling := _keyword(one))}
    if lexer is None or not found:
        return tree
    usual = {name: Texts(tuple(dict.fromkeys((word, word.lower(), word.upper())))) for name, word in found.items()}
    texts = {one.name: one.constraint for one in lexer.terminals if one.name in found and one.constraint is not None}
    other = AllOf((AnyOf(tuple(texts.values())), Complement(AnyOf(tuple(usual.values())))))
    owners = dict.fromkeys(owner for one in lexer.terminals if one.name in found for owner in one.keyword_of)
    terminals = [replace(one, constraint=usual[one.name]) if one.name in found else one for one in lexer.terminals]
    first = next(i for i, one in enumerate(terminals) if one.name in found)
    terminals.insert(first, Terminal(_ODD, other, keyword_of=tuple(owners)))

    dead = Sequence((Name(_ODD), Name(_NOWHERE)))
    fold = replacing(lambda e: Choice((e, dead)) if isinstance(e, Name) and e.name in found else e)
    rules = {name: Rule(name, fold(rule.body), rule.span) for name, rule in tree.rules.items()}
    rules[_NOWHERE] = Rule(_NOWHERE, dead)
    return replace(tree, rules=rules, lexer=replace(lexer, terminals=tuple(terminals)))


def _keyword(terminal: Terminal) -> str:
    """The word of a terminal that is a keyword in any case; otherwise empty."""
    constraint = terminal.constraint
    if not isinstance(constraint, Regex) or constraint.flags != "i" or not terminal.keyword_of:
        return ""
    word = constraint.pattern
    return word if len(word) > 1 and word.isascii() and word.replace("_", "").isalpha() else ""
