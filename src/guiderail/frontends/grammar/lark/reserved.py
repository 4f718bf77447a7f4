r"""Names that exclude reserved words: ``/(?!(?:if|else)\b)[a-z]\w*/``.

Such a look-ahead looks past the end of the lexeme, but only at whether the word ends there, and a name takes all of a
word. So the names are those of the rest of the pattern without the words. The lexer must not cut a reserved word short
and take its beginning for a name. So the terminal takes all words, and the reserved ones are keywords of it: those that
the grammar has, or a guard, which the parser refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import AllOf, AnyOf, Complement, Constraint
from guiderail.errors import PatternError
from guiderail.frontends.regex import Regex, regex
from guiderail.frontends.regex.syntax import Alt, Boundary, Cat, Look, Node, Set

__all__ = ["Reserved", "reserved_words"]


@dataclass(frozen=True, slots=True)
class Reserved:
    """Words that a terminal for names excludes.

    Attributes:
        rest: all words.
        words: those that are excluded.
        chars: what words consist of.
    """

    rest: Regex
    words: Constraint
    chars: CharSet


def _word_end(node: Node) -> CharSet | None:
    """The characters of words, if ``node`` says that a word ends."""
    if isinstance(node, Boundary) and not node.negated:
        return node.chars
    if isinstance(node, Look) and node.negative and not node.behind and isinstance(node.item, Set):
        return node.item.chars
    return None


def _pieces(look: Node, text: str) -> tuple[list[str], list[CharSet]] | None:
    """The patterns of the words that a look-ahead excludes, and which characters each says that words have."""
    if not (isinstance(look, Look) and look.negative and not look.behind):
        return None
    at = look.start + len("(?!")
    pieces, ends = [], []
    for branch in look.item.items if isinstance(look.item, Alt) else (look.item,):
        if not isinstance(branch, Cat) or (chars := _word_end(branch.items[-1])) is None:
            return None
        last = branch.items[-1]
        pieces.append(text[at : last.start])
        ends.append(chars)
        at = last.end + len("|")
    return pieces, ends


def reserved_words(constraint: Regex, flags: str) -> Reserved | None:
    """Splits a pattern that begins with look-aheads into words and those that are excluded; None if it is another."""
    text, tree = constraint.pattern, constraint._parsed.tree
    if not isinstance(tree, Cat) or "x" in flags:
        return None
    pieces: list[str] = []
    chars: list[CharSet] = []
    count = 0
    while count < len(tree.items) and (found := _pieces(tree.items[count], text)) is not None:
        pieces += found[0]
        chars += found[1]
        count += 1
    if not count or count == len(tree.items) or any(one != chars[0] for one in chars):
        return None
    begin, end = tree.items[0].start, tree.items[count - 1].end
    try:
        rest = regex(text[:begin] + text[end:])
        excluded = AnyOf(tuple([regex(f"(?:{piece})", flags=flags) for piece in pieces]))
    except PatternError:  # a reference from one part to the other
        return None
    b = _core.Builder()
    words, word = rest._lower(b), b.char_class(chars[0])
    run = b.repeat(word, 1, -1)
    within = b.union([excluded._lower(b), words])
    if not b.is_empty(b.intersection([within, b.complement(run)])):  # other characters
        return None
    if not b.is_empty(b.intersection([b.concat([words, word]), b.complement(words)])):  # it ends within a word
        return None
    return Reserved(rest, AllOf((rest, Complement(constraint))), chars[0])
