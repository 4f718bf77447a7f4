r"""The regular-expression extensions of Koo, Liu & He (2024), "Automata-based constraints for language model
decoding", Table 1: as functions, and as named groups inside the patterns of :func:`guiderail.regex`.

The paper gives each extension one line. This module decides and documents what it leaves open. In a pattern, an
extension is a named group: ``(?P<NAME>arguments)`` in the Python dialect, ``(?<NAME>arguments)`` in ECMA. Arguments
are separated by ``|`` and are patterns themselves; a ``|`` inside an argument needs a group, ``(?:a|b)``. Where an
argument is a *text*, escape special characters as usual. An extension may occur any number of times; its name cannot
be referred to.

============================ ================================================ =============================
name                         matches                                          arguments
============================ ================================================ =============================
``QUOTED_TEXT``              a quoted text with backslash escapes             the quote, ``"`` by default
``UNQUOTED_TEXT``            a plain scalar of YAML on one line               none, or ``flow``
``IMAGE``                    one image, a special token of the vocabulary     tokens, ``<image>`` by default
``TEXT_TOKEN``               a run of text without whitespace                none
``PARAGRAPH_TOKEN``          a run of text without line breaks                none
``TEXT_UNTIL``               any text up to and including the first stop string the stop string
``SUBSTRING_OF``             any substring                                    one or more strings
``DELIMITED_LIST``           one or more items with delimiters between them   item, delimiter, maybe end
``DELIMITED_SUBSEQUENCE_OF`` some of the items, in their order                items, then the delimiter
============================ ================================================ =============================

    >>> import guiderail as gr
    >>> gr.regex(r"colours: (?P<DELIMITED_SUBSEQUENCE_OF>red|green|blue|, )").matches("colours: red, blue")
    True
    >>> gr.quoted_text().matches('"a \\"b\\" c"')
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail.constraints.constraint import (
    Constraint,
    SpecialToken,
    SubstringOf,
    TextUntil,
    _coerce,
    _Composed,
    special_token,
)
from guiderail.constraints.sharing import lowered
from guiderail.errors import CompileError, PatternError
from guiderail.frontends.regex.syntax import Cat, Ext, Lit, Node, Rep
from guiderail.support.arguments import checked
from guiderail.support.options import check_flag
from guiderail.support.texts import shown
from guiderail.support.work import spend

__all__ = [
    "GROUP_NAMES",
    "delimited_subsequence_of",
    "image",
    "paragraph_token",
    "quoted_text",
    "text_token",
    "unquoted_text",
]

_CELL = 40  # steps for each minimum that is told apart after an item
_LINE_BREAKS = [(10, 13), (0x85, 0x85), (0x2028, 0x2029)]
_WHITE_SPACE = [
    (9, 13), (28, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
]  # fmt: skip


@lru_cache(maxsize=64)
def _except(ranges: tuple[tuple[int, int], ...]) -> _core.CharSet:
    return ~_core.CharSet(ranges)


@dataclass(frozen=True, slots=True)
class QuotedText(Constraint):
    quote: str = '"'

    def _lower(self, b: _core.Builder) -> int:
        quote = ord(self.quote)
        line = ((10, 10), (13, 13))
        plain = b.char_class(_except(((quote, quote), (92, 92), *line)))
        escaped = b.concat([b.literal(b"\\"), b.char_class(_except(line))])
        mark = b.literal(self.quote.encode())
        return b.concat([mark, b.repeat(b.union([plain, escaped]), 0, -1), mark])

    def __repr__(self) -> str:
        return f"quoted_text({self.quote!r})"


@dataclass(frozen=True, slots=True)
class UnquotedText(Constraint):
    flow: bool = False

    def _lower(self, b: _core.Builder) -> int:
        # YAML 1.2.2, 7.3.3: words of safe characters with blanks between them; no word ends in ':' (what
        # follows it must be safe), none but the first begins with '#', and the first begins with no
        # indicator, except for '-', '?' and ':' where another safe character follows
        excluded = [
            (0, 32),
            (0x7F, 0xA0),
            (0x2028, 0x2029),
            (0xFEFF, 0xFEFF),
            (0xFFFE, 0xFFFF),
        ]  # not ns-char
        excluded += [(ord(c), ord(c)) for c in ",[]{}"] if self.flow else []
        colon, hash_sign = (58, 58), (35, 35)
        safe = b.repeat(b.char_class(_except(tuple(excluded))), 0, -1)
        last = b.char_class(_except((*excluded, colon)))
        rest = b.concat([safe, last])
        indicators = [(ord(c), ord(c)) for c in "-?:,[]{}#&*!|>'\"%@`"]
        first = b.union(
            [
                b.concat([b.char_class(_except((*excluded, *indicators))), b.repeat(rest, 0, 1)]),
                b.concat([b.byte_class(b"-?:"), rest]),
            ]
        )
        later = b.union(
            [
                b.char_class(_except((*excluded, colon, hash_sign))),
                b.concat([b.char_class(_except((*excluded, hash_sign))), rest]),
            ]
        )
        return b.concat([first, b.repeat(b.concat([b.repeat(b.byte_class(b" \t"), 1, -1), later]), 0, -1)])

    def __repr__(self) -> str:
        return f"unquoted_text({'flow=True' if self.flow else ''})"


@dataclass(frozen=True, slots=True)
class RunOfText(Constraint):
    """One or more characters, without line breaks (a paragraph) or without whitespace (a token)."""

    paragraph: bool

    def _lower(self, b: _core.Builder) -> int:
        return b.repeat(b.char_class(_except(tuple(_LINE_BREAKS if self.paragraph else _WHITE_SPACE))), 1, -1)

    def __repr__(self) -> str:
        return "paragraph_token()" if self.paragraph else "text_token()"


@dataclass(frozen=True, slots=True)
class DelimitedSubsequenceOf(_Composed):
    items: tuple[Constraint, ...]
    delimiter: Constraint
    min: int = 0

    def _lower(self, b: _core.Builder) -> int:
        *items, delimiter = lowered((*self.items, self.delimiter), b)
        return _subsequence(b, items, delimiter, self.min)

    def __repr__(self) -> str:
        items = ", ".join(map(repr, self.items))
        least = f", min={self.min}" if self.min else ""
        return f"delimited_subsequence_of([{items}], {self.delimiter!r}{least})"


def _subsequence(b: _core.Builder, items: list[int], delimiter: int, least: int) -> int:
    """Items in order, each at most once, with ``delimiter`` between them. Takes O(items · (least + 1)) nodes.

    ``more[m]`` is what may follow an item if at least m of the later items must still come.
    """
    more = [b.EPSILON] + [b.EMPTY] * least
    start = [b.EPSILON] + [b.EMPTY] * least
    for item in reversed(items):
        spend(_CELL * (least + 1))
        taken = [b.concat([item, more[max(m - 1, 0)]]) for m in range(least + 1)]
        start = [b.union([taken[m], start[m]]) for m in range(least + 1)]
        more = [b.union([b.concat([delimiter, taken[m]]), more[m]]) for m in range(least + 1)]
    return start[least]


# -- constructors
@checked
def quoted_text(quote: str = '"') -> Constraint:
    """Matches a quoted text with backslash escapes (Koo, Liu & He 2024, Table 1, QUOTED_TEXT).

    Between the quotes, any character may appear except the quote, the backslash and line breaks (``\\n``, ``\\r``), or
    a backslash followed by any character except a line break. Escapes have no fixed meaning here. For JSON strings
    use :func:`json_schema`.

    Raises:
        CompileError: ``quote`` is not one character, or is a backslash or a line break.
    """
    if not isinstance(quote, str) or len(quote) != 1 or quote in "\\\n\r" or "\ud800" <= quote <= "\udfff":
        raise CompileError(
            f"quoted_text takes one character as the quote, not {shown(quote)}; for example '\"'", code="bad-quote"
        )
    return QuotedText(quote)


@checked
def unquoted_text(*, flow: bool = False) -> Constraint:
    """Matches a plain (unquoted) YAML 1.2 scalar on one line.

    This is UNQUOTED_TEXT of Koo, Liu & He (2024, Table 1), as in YAML 1.2.2, section 7.3.3. The scalar is not empty,
    has no whitespace at its ends, does not begin with an indicator (``- ? :`` are allowed before another character),
    and contains neither ``: `` nor `` #``. Document markers (``---``) and words that YAML reads as other types
    (``true``, ``12``) match.

    Args:
        flow: exclude ``,[]{}`` too, as YAML does inside brackets.
    """
    check_flag("flow", flow, code="bad-option")
    return UnquotedText(flow)


@checked
def image(*names: str | int) -> Constraint:
    """Matches one image that the model makes: a special token of the vocabulary (Koo, Liu & He 2024, Table 1, IMAGE).

    If an image is a run of tokens, write ``image("<img_0>", "<img_1>", …).repeat(256, 256)``.

    Args:
        names: strings or ids of the tokens that stand for an image; one of them matches. ``<image>`` by default.
    """
    return special_token(*(names or ("<image>",)))


@checked
def text_token() -> Constraint:
    """Matches a word: one or more characters without whitespace (Koo, Liu & He 2024, Table 1, TEXT_TOKEN).

    In the paper this is any one token of the vocabulary. Constraints here mean the same for every vocabulary, so the
    closest equivalent is a word. Whitespace is what ``\\s`` of ``re`` matches in Unicode.
    """
    return RunOfText(paragraph=False)


@checked
def paragraph_token() -> Constraint:
    """Matches a paragraph: one or more characters without line breaks (Koo, Liu & He 2024, Table 1, PARAGRAPH_TOKEN).

    In the paper this is one token without newlines, and ``(?P<PARAGRAPH_TOKEN>)+`` is a paragraph. Here it already is
    a whole paragraph, and repeating it changes nothing. Line breaks are ``\\n \\v \\f \\r``, U+0085, U+2028 and
    U+2029.
    """
    return RunOfText(paragraph=True)


@checked
def delimited_subsequence_of(
    items: Iterable[Constraint | str], delimiter: Constraint | str, *, min: int = 0
) -> Constraint:
    """Matches some of ``items`` in their order, each at most once, with ``delimiter`` between them.

    An example is the keyword arguments of a call. This is DELIMITED_SUBSEQUENCE_OF of Koo, Liu & He (2024, Table 1).

    Args:
        items: the items, in order.
        delimiter: what separates two items.
        min: the minimum number of items.

    Raises:
        CompileError: there are no items, or fewer than ``min``.
    """
    if isinstance(items, str | Constraint):
        raise CompileError("delimited_subsequence_of takes a collection of items", code="bad-items")
    parts = tuple(map(_coerce, items))
    if not isinstance(min, int) or isinstance(min, bool) or not 0 <= min <= len(parts) or not parts:
        raise CompileError(
            f"delimited_subsequence_of needs one or more items, and min from 0 to their number, not {len(parts)} items "
            f"and min={min!r}",
            code="bad-items",
        )
    return DelimitedSubsequenceOf(parts, _coerce(delimiter), min)


# -- groups of patterns
class _Call:
    """One extension group in a pattern: its arguments, and errors that point to it."""

    def __init__(self, name: str, arguments: list[Node], source: str, span: tuple[int, int]) -> None:
        self.name, self.arguments, self.source, self.span = name, arguments, source, span

    def error(self, message: str) -> PatternError:
        return PatternError(f"{self.name}: {message}", code="regex-extension", source=self.source, span=self.span)

    def texts(self) -> list[str]:
        """The arguments as strings."""
        out = []
        for node in self.arguments:
            parts = node.items if isinstance(node, Cat) else [node]
            text = ""
            for part in parts:
                if not isinstance(part, Lit):
                    raise self.error(
                        "the argument must be plain text; escape special characters, and do not ignore case here"
                    )
                text += part.text
            out.append(text)
        return out

    def text(self, default: str) -> str:
        texts = self.texts()
        if len(texts) > 1:
            raise self.error("expected one argument; escape the '|' to match it literally")
        return texts[0] or default

    def leaf(self, constraint: Constraint) -> Node:
        return Ext(lambda b, _: constraint._lower(b), [], *self.span)


def _quoted(call: _Call) -> Node:
    quote = call.text('"')
    if len(quote) != 1 or quote in "\\\n\r":
        raise call.error("the argument must be one character, the quote")
    return call.leaf(QuotedText(quote))


def _unquoted(call: _Call) -> Node:
    style = call.text("block")
    if style not in ("block", "flow"):
        raise call.error("the argument must be 'flow', or empty")
    return call.leaf(UnquotedText(style == "flow"))


def _image(call: _Call) -> Node:
    names = call.texts()
    if "" in names and len(names) > 1:
        raise call.error("the name of a token is missing")
    return call.leaf(SpecialToken(tuple(names) if names != [""] else ("<image>",)))


def _run(paragraph: bool) -> Callable[[_Call], Node]:
    def build(call: _Call) -> Node:
        if call.text(""):
            raise call.error("no argument is expected")
        return call.leaf(RunOfText(paragraph))

    return build


def _until(call: _Call) -> Node:
    stop = call.text("")
    if not stop:
        raise call.error("the stop string is missing; write it inside the group, (?P<TEXT_UNTIL>END)")
    return call.leaf(TextUntil(stop))


def _substring(call: _Call) -> Node:
    return call.leaf(SubstringOf(tuple(call.texts())))


def _list(call: _Call) -> Node:
    if len(call.arguments) not in (2, 3):
        raise call.error("the arguments must be item|delimiter or item|delimiter|end")
    item, delimiter, *end = call.arguments
    more = Rep(Cat([delimiter, item], *call.span), 0, -1, "greedy", *call.span)
    return Cat([item, more, *end], *call.span)


def _some(call: _Call) -> Node:
    if len(call.arguments) < 2:
        raise call.error("the arguments must be item|item|…|delimiter")
    from guiderail.frontends.regex.facts import Facts

    facts = Facts()
    if any(facts(node).special for node in call.arguments):
        raise call.error("anchors and look-arounds are not allowed in the items; move them out of the group")
    return Ext(lambda b, handles: _subsequence(b, handles[:-1], handles[-1], 0), call.arguments, *call.span)


_GROUPS: dict[str, Callable[[_Call], Node]] = {
    "QUOTED_TEXT": _quoted,
    "UNQUOTED_TEXT": _unquoted,
    "IMAGE": _image,
    "TEXT_TOKEN": _run(False),
    "PARAGRAPH_TOKEN": _run(True),
    "TEXT_UNTIL": _until,
    "SUBSTRING_OF": _substring,
    "DELIMITED_LIST": _list,
    "DELIMITED_SUBSEQUENCE_OF": _some,
}
GROUP_NAMES = frozenset(_GROUPS)


def group_node(name: str, arguments: list[Node], source: str, span: tuple[int, int]) -> Node:
    """The node of the extension ``name`` with the alternatives found in its group.

    Raises:
        PatternError: the arguments do not fit; ``code`` is ``regex-extension``.
    """
    return _GROUPS[name](_Call(name, arguments, source, span))
