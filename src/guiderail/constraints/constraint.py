"""What users compose: immutable descriptions of sets of strings.

A constraint is a value: hashable, picklable, comparable, with a readable repr. It knows how to *lower* itself
into an expression of the core and nothing about vocabularies. Plain strings stand for themselves wherever a
constraint is expected.

    >>> import guiderail as gr
    >>> date = gr.regex(r"\\d{4}-\\d{2}-\\d{2}")
    >>> entry = gr.literal("due: ") + (date | "never")
    >>> entry.matches("due: 2024-02-29"), entry.matches("due: soon")
    (True, False)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from inspect import isfunction
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.reading import TEXT, Reading
from guiderail.constraints.sharing import RECURRING, each, lowered
from guiderail.errors import CompileError, LimitError
from guiderail.support.arguments import checked, checked_methods
from guiderail.support.options import MOST_COUNT, check_bounds, check_flag, check_integer
from guiderail.support.other_names import CONSTRAINT, TRUTH, as_part, unknown_attributes
from guiderail.support.texts import clipped, shown, utf8

if TYPE_CHECKING:
    from guiderail.constraints.explain import Explanation
    from guiderail.constraints.program import Program
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "Constraint",
    "any_character",
    "any_text",
    "choice",
    "delimited_list",
    "empty",
    "literal",
    "nothing",
    "optional",
    "repeat",
    "separated_by",
    "sequence",
    "special_token",
    "substring_of",
    "text_until",
]


@checked_methods
class Constraint:
    """A set of strings: an immutable, hashable, picklable value.

    Combine constraints with ``+`` (concatenation), ``|`` (union), ``&`` (intersection) and ``~`` (complement). A plain
    string stands for itself. Subclasses are frozen dataclasses that implement ``_lower``.
    """

    __slots__ = ("_kept_hash",)
    _kept_hash: int

    if not TYPE_CHECKING:
        __getattr__ = unknown_attributes(**CONSTRAINT)

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name, wrapper in RECURRING.items():  # a dataclass with slots is made twice, then it has all three
            own = cls.__dict__.get(name)
            if isfunction(own) and not hasattr(own, "__wrapped__"):
                setattr(cls, name, wrapper(own))

    def _lower(self, b: _core.Builder) -> int:
        """Builds the expression of this constraint. The handle is valid only with ``b``."""
        raise NotImplementedError

    def _placed(self, error: LimitError) -> LimitError:
        """A limit error of compiling this constraint, with the place in what the user wrote, if there is one."""
        return error

    def _in_unicode(self) -> Constraint:
        """The same constraint with Unicode ``\\d \\w \\s \\b`` and case where its patterns use ASCII; may be itself."""
        return self

    def as_written(self) -> Constraint:
        """Returns the narrower constraint that a model writes under. Options that were left open are decided.

        A JSON Schema without ``property_order`` takes its properties in the order of the schema. JSON without a
        ``layout`` is spaced as ``json.dumps`` spaces it: ``{"a": 1, "b": [2, 3]}``. A keyword of a Lark grammar that
        matches in any case is written in one case. Of an intersection, the first part that can be is decided.
        """
        return self

    # -- composition -------------------------------------------------------------------------------------------
    def __add__(self, other: Constraint | str) -> Constraint:
        return sequence(self, other)

    def __radd__(self, other: str) -> Constraint:
        return sequence(other, self)

    def __or__(self, other: Constraint | str) -> Constraint:
        return AnyOf(_flat(AnyOf, (self, _coerce(other))))

    def __ror__(self, other: str) -> Constraint:
        return AnyOf(_flat(AnyOf, (_coerce(other), self)))

    def __and__(self, other: Constraint | str) -> Constraint:
        return AllOf(_flat(AllOf, (self, _coerce(other))))

    def __rand__(self, other: str) -> Constraint:
        return AllOf(_flat(AllOf, (_coerce(other), self)))

    def __invert__(self) -> Constraint:
        return self.operand if isinstance(self, Complement) else Complement(self)

    def __bool__(self) -> bool:  # `a and b` would be b alone
        raise CompileError(f"a constraint is neither true nor false; {TRUTH}", code="truth-value")

    def optional(self) -> Constraint:
        """Matches this constraint or the empty text."""
        return Repetition(self, 0, 1)

    def repeat(self, min: int = 0, max: int | None = None) -> Constraint:
        """Matches this constraint ``min`` to ``max`` times in a row; see :func:`repeat`."""
        return repeat(self, min, max)

    def separated_by(
        self, separator: Constraint | str, min: int = 0, max: int | None = None, *, trailing: bool = False
    ) -> Constraint:
        """Matches this constraint ``min`` to ``max`` times, with ``separator`` between; see :func:`separated_by`."""
        return separated_by(self, separator, min, max, trailing=trailing)

    def limited_to(self, characters: int) -> Constraint:
        """Matches the strings of this constraint that have at most ``characters`` code points.

        Raises:
            CompileError: ``bad-bound``: ``characters`` is negative or not an integer.
        """
        check_integer("limited_to", characters, 0, MOST_COUNT)
        return self & Repetition(AnyText(characters=True), 0, characters)

    # -- use without a vocabulary --------------------------------------------------------------------------------
    def program(self) -> Program:
        """Returns the compiled form, which needs no vocabulary. It is cached.

        Raises:
            CompileError: the constraint matches no text, or cannot be expressed.
            LimitError: compiling it exceeds a limit.
        """
        from guiderail.constraints.program import Program

        return Program.of(self)

    def matches(self, text: str | bytes) -> bool:
        """Whether the whole of ``text`` matches. Text that is not valid UTF-8 never does.

        In patterns, ``\\d \\w \\s \\b`` and letter case are ASCII unless the pattern asks for Unicode. If a string
        fails for that reason alone, :meth:`explain` says so.
        """
        return self.program().matches(text)

    def save(self, path: str | os.PathLike[str], *, vocabulary: Vocabulary | None = None) -> None:
        """Writes the compiled form to a file that :func:`load` and the C interface (``docs/c.md``) read.

        Args:
            path: the file to write. It is replaced atomically.
            vocabulary: where the constraint leaves open whether a marker is text or a special token (tool calls), the
                special tokens of this vocabulary are allowed, and saved by name. By default markers are plain text.

        Raises:
            CompileError: ``saved-file``: the file cannot be written; or the constraint cannot be expressed.
            LimitError: compiling it exceeds a limit.
            ArgumentError: ``vocabulary`` is not one.
        """
        from guiderail.constraints.saving import save

        save(self, path, vocabulary)

    def reading(self) -> Reading:
        """Returns the reader of matching strings: the text itself, unless the constraint describes values."""
        return TEXT

    def explain(self, prefix: str | bytes = "") -> Explanation:
        """Explains in words and examples what may follow ``prefix``."""
        from guiderail.constraints.explain import explain

        return explain(self, prefix)


def _coerce(value: Constraint | str) -> Constraint:
    if isinstance(value, Constraint):
        return value
    if isinstance(value, str):
        return Literal(value)
    raise CompileError(
        f"expected a constraint or a string, not {type(value).__name__}; {as_part(value)}", code="not-a-constraint"
    )


def _flat(kind: type[AnyOf] | type[AllOf] | type[Sequence], parts: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Parts of nested nodes of the same kind, so that ``a | b | c`` is one node.

    Long nodes stay as they are: ``a + a`` on each of forty levels has 2^40 parts.
    """
    flat: list[Constraint] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) and len(part.parts) < _SHORT else (part,))
    return tuple(flat)


EVERY_CHARACTER = _core.CharSet([(0, 0x10FFFF)])
_SHORT = 1024  # nodes with fewer parts become part of the node around them


@dataclass(frozen=True, slots=True)
class Literal(Constraint):
    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise CompileError(f"literal takes a string, not {type(self.text).__name__}", code="not-a-constraint")
        utf8(self.text)

    def _lower(self, b: _core.Builder) -> int:
        return b.literal(self.text.encode())

    def __repr__(self) -> str:
        return f"literal({self.text!r})"


@dataclass(frozen=True, slots=True)
class Choice(Constraint):
    options: tuple[str, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.choice([option.encode() for option in self.options])

    def __repr__(self) -> str:
        if len(self.options) > 8:
            head = ", ".join(map(repr, self.options[:6]))
            return f"choice([{head}, … {len(self.options)} in all])"
        return f"choice([{', '.join(map(repr, self.options))}])"


_IN_UNICODE, _AS_WRITTEN = methodcaller("_in_unicode"), methodcaller("as_written")


class _Composed(Constraint):
    """A constraint made of others; it passes requests on to its parts."""

    __slots__ = ()

    def _in_unicode(self) -> Constraint:
        return self._with_parts(_IN_UNICODE)

    def as_written(self) -> Constraint:
        return self._with_parts(_AS_WRITTEN)

    def _with_parts(self, change: Callable[[Constraint], Constraint]) -> Constraint:
        changes: dict[str, Any] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, Constraint):
                changed: Any = each((value,), change, change)[0]
            elif isinstance(value, tuple):
                changed = tuple(each(value, change, change))
            else:
                continue
            if changed is not value and changed != value:
                changes[one.name] = changed
        return replace(self, **changes) if changes else self  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Sequence(_Composed):
    parts: tuple[Constraint, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.concat(lowered(self.parts, b))

    def __repr__(self) -> str:
        return " + ".join(f"({p!r})" if isinstance(p, AnyOf | AllOf) else repr(p) for p in self.parts) or "empty()"


@dataclass(frozen=True, slots=True)
class AnyOf(_Composed):
    parts: tuple[Constraint, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.union(lowered(self.parts, b))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.parts)) or "nothing()"


@dataclass(frozen=True, slots=True)
class AllOf(_Composed):
    parts: tuple[Constraint, ...]
    usual: Constraint | None = None  # narrower, and matched in its place if that leaves any text

    def _lower(self, b: _core.Builder) -> int:
        usual = b.EMPTY if self.usual is None else lowered((self.usual,), b)[0]
        return b.intersection(lowered(self.parts, b)) if b.is_empty(usual) else usual

    def as_written(self) -> Constraint:
        # Only one part decides: schemas may differ in their orders, and a pattern may have no room for usual spaces.
        for at, part in enumerate(self.parts if self.usual is None else ()):
            written = each((part,), _AS_WRITTEN, _AS_WRITTEN)[0]
            if written is not part and written != part:
                return replace(self, usual=AllOf((*self.parts[:at], written, *self.parts[at + 1 :])))
        return self

    def __repr__(self) -> str:
        return " & ".join(f"({p!r})" if isinstance(p, AnyOf) else repr(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Complement(Constraint):
    operand: Constraint

    def _lower(self, b: _core.Builder) -> int:
        return b.complement(self.operand._lower(b))

    def __repr__(self) -> str:
        return f"~({self.operand!r})"


@dataclass(frozen=True, slots=True)
class Repetition(_Composed):
    item: Constraint
    min: int
    max: int | None

    def _lower(self, b: _core.Builder) -> int:
        return b.repeat(self.item._lower(b), self.min, -1 if self.max is None else self.max)

    def __repr__(self) -> str:
        return f"repeat({self.item!r}, {self.min}, {self.max})"


@dataclass(frozen=True, slots=True)
class SeparatedBy(_Composed):
    item: Constraint
    separator: Constraint
    min: int
    max: int | None
    trailing: bool = False

    def _lower(self, b: _core.Builder) -> int:
        if self.max == 0:
            return b.EPSILON
        item, separator = lowered((self.item, self.separator), b)
        more = b.repeat(b.concat([separator, item]), max(self.min - 1, 0), -1 if self.max is None else self.max - 1)
        end = b.repeat(separator, 0, 1) if self.trailing else b.EPSILON
        some = b.concat([item, more, end])
        return b.union([b.EPSILON, some]) if self.min == 0 else some

    def __repr__(self) -> str:
        return f"separated_by({self.item!r}, {self.separator!r}, {self.min}, {self.max}, trailing={self.trailing})"


@dataclass(frozen=True, slots=True)
class AnyText(Constraint):
    """Any text, or (``characters``) any one character."""

    characters: bool = False

    def _lower(self, b: _core.Builder) -> int:
        one = b.char_class(EVERY_CHARACTER)
        return one if self.characters else b.repeat(one, 0, -1)

    def __repr__(self) -> str:
        return "any_character()" if self.characters else "any_text()"


@dataclass(frozen=True, slots=True)
class TextUntil(Constraint):
    stop: str
    include_stop: bool = True

    def _lower(self, b: _core.Builder) -> int:
        # Koo, Liu, He 2024, Table 1: any text in which `stop` occurs once, at the very end.
        stop = b.literal(self.stop.encode())
        anything = b.repeat(b.char_class(EVERY_CHARACTER), 0, -1)
        without = b.complement(b.concat([anything, stop, anything]))
        if not self.include_stop:
            return without
        # nothing before the last character of `stop` contains all of `stop`, not even overlapping
        some = b.repeat(b.char_class(EVERY_CHARACTER), 1, -1)
        return b.intersection([b.concat([anything, stop]), b.complement(b.concat([anything, stop, some]))])

    def __repr__(self) -> str:
        return f"text_until({self.stop!r}{'' if self.include_stop else ', include_stop=False'})"


@dataclass(frozen=True, slots=True)
class SubstringOf(Constraint):
    texts: tuple[str, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.substring_of([text.encode() for text in self.texts])

    def __repr__(self) -> str:
        texts = ", ".join(repr(clipped(text, 40)) for text in self.texts)
        return f"substring_of({texts})"


@dataclass(frozen=True, slots=True)
class SpecialToken(Constraint):
    names: tuple[str | int, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.token(list(self.names))

    def __repr__(self) -> str:
        return f"special_token({', '.join(map(repr, self.names))})"


@dataclass(frozen=True, slots=True)
class TokenSet(Constraint):
    """One token out of these, special or ordinary; or any token except these and the stop tokens.

    Attributes:
        names: strings or ids. A string names a special token if there is one, otherwise an ordinary one.
        but: whether ``names`` are excluded.
    """

    names: tuple[str | int, ...]
    but: bool = False

    def _lower(self, b: _core.Builder) -> int:
        return b.token_set(list(self.names), but=self.but)

    def __repr__(self) -> str:
        return f"{'any_token_but' if self.but else 'one_token_of'}({', '.join(map(repr, self.names))})"


# -- constructors ------------------------------------------------------------------------------------------------
@checked
def literal(text: str) -> Constraint:
    """Matches exactly ``text``."""
    return Literal(text)


@checked
def empty() -> Constraint:
    """Matches the empty text only."""
    return Literal("")


@checked
def nothing() -> Constraint:
    """Matches no text at all. Compiling it is an error, because nothing could be generated."""
    return AnyOf(())


@checked
def any_text() -> Constraint:
    """Matches any text, line breaks included."""
    return AnyText()


@checked
def any_character() -> Constraint:
    """Matches any single character (code point), line breaks included."""
    return AnyText(characters=True)


@checked
def choice(options: Iterable[str]) -> Constraint:
    """Matches one of ``options``.

    The options become one minimal acyclic automaton, so 10,000 of them compile in milliseconds.

    Raises:
        CompileError: there are no options, or one is not a string.
    """
    if isinstance(options, str) or not isinstance(options, Iterable):
        raise CompileError("choice takes a collection of strings, e.g. gr.choice(['yes', 'no'])", code="bad-choice")
    items = tuple(options)
    for at, item in enumerate(items):
        if not isinstance(item, str):
            hint = "pass its value" if isinstance(item, Enum) else "write it as a string"
            raise CompileError(f"choice takes strings, but option {at} is {shown(item)}; {hint}", code="bad-choice")
        utf8(item)
    if not items:
        raise CompileError("choice needs at least one option", code="bad-choice")
    return Choice(tuple(dict.fromkeys(items)))


@checked
def sequence(*parts: Constraint | str) -> Constraint:
    """Matches the parts in sequence."""
    return Sequence(_flat(Sequence, map(_coerce, parts)))


@checked
def optional(item: Constraint | str) -> Constraint:
    """Matches ``item`` or the empty text."""
    return Repetition(_coerce(item), 0, 1)


@checked
def repeat(item: Constraint | str, min: int = 0, max: int | None = None) -> Constraint:
    """Matches ``item`` ``min`` to ``max`` times in a row; ``max=None`` means no upper bound.

    The repetition is a counter and is never unrolled.

    Raises:
        CompileError: a bound is negative or not an integer, or ``max`` is below ``min``.
    """
    check_bounds("repeat", min, max)
    return Repetition(_coerce(item), min, max)


@checked
def separated_by(
    item: Constraint | str,
    separator: Constraint | str,
    min: int = 0,
    max: int | None = None,
    *,
    trailing: bool = False,
) -> Constraint:
    """Matches ``min`` to ``max`` items with ``separator`` between them; ``max=None`` means no upper bound.

    ``trailing=True`` also allows a separator after the last item.

    Raises:
        CompileError: a bound is negative or not an integer, or ``max`` is below ``min``.
    """
    check_bounds("separated_by", min, max)
    check_flag("trailing", trailing, code="bad-option")
    return SeparatedBy(_coerce(item), _coerce(separator), min, max, trailing)


@checked
def text_until(stop: str, *, include_stop: bool = True) -> Constraint:
    """Matches any text up to and including the first ``stop`` (Koo, Liu & He 2024, Table 1, TEXT_UNTIL).

    With ``include_stop=False``, the text may end anywhere and never contains ``stop``.

    Raises:
        CompileError: ``stop`` is empty or not a string.
    """
    if not isinstance(stop, str) or not stop:
        raise CompileError("text_until needs a stop string of at least one character", code="bad-stop")
    utf8(stop)
    check_flag("include_stop", include_stop, code="bad-option")
    return TextUntil(stop, include_stop)


@checked
def substring_of(*texts: str) -> Constraint:
    """Matches any substring of one of ``texts``, the empty one included (Koo, Liu & He 2024, Table 1, SUBSTRING_OF).

    It compiles to a suffix automaton whose size is linear in the length of the strings.

    Raises:
        CompileError: there are no texts, or one is not a string.
    """
    if not texts or not all(isinstance(text, str) for text in texts):
        raise CompileError("substring_of takes one or more strings", code="bad-substring")
    for text in texts:
        utf8(text)
    return SubstringOf(texts)


@checked
def delimited_list(item: Constraint | str, delimiter: Constraint | str, end: Constraint | str) -> Constraint:
    """Matches one or more items with ``delimiter`` between them and ``end`` after the last.

    This is DELIMITED_LIST of Koo, Liu & He (2024, Table 1).
    """
    return separated_by(item, delimiter, 1) + end


@checked
def special_token(*names: str | int) -> Constraint:
    """Matches one of these special tokens of the vocabulary, named by text or id.

    The token itself must come. Ordinary tokens that spell out its text do not match.

    Raises:
        CompileError: there are no names, or one is neither a string nor a token id.
    """
    good = [isinstance(n, str) or (isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**31) for n in names]
    if not names or not all(good):
        raise CompileError("special_token takes one or more tokens, each by its text or its id", code="bad-token")
    for name in (name for name in names if isinstance(name, str)):
        utf8(name)
    return SpecialToken(names)
