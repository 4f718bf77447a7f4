"""The constraint that a grammar stands for."""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from guiderail import _core
from guiderail.constraints.constraint import Constraint, _coerce
from guiderail.constraints.places import in_python, placing
from guiderail.constraints.reading import TEXT, Partial, Reading, Unfinished
from guiderail.errors import CompileError, LimitError, PatternError
from guiderail.frontends.grammar import productions
from guiderail.frontends.grammar.build import names
from guiderail.frontends.grammar.captures import Captures, has_captures
from guiderail.frontends.grammar.collisions import collisions
from guiderail.frontends.grammar.lower import lower
from guiderail.frontends.grammar.nesting import Nesting, as_written
from guiderail.frontends.grammar.prepare import MAX_RULES, GrammarReport, Prepared, prepare
from guiderail.frontends.grammar.productions import Productions
from guiderail.frontends.grammar.syntax import Grammar, HasRules, Indentation
from guiderail.support.arguments import checked
from guiderail.support.disk_cache import DiskCache, open_cache
from guiderail.support.files import text_of
from guiderail.support.nesting import nested
from guiderail.support.options import check_choice, check_integer
from guiderail.support.places import in_text
from guiderail.support.texts import clipped, shown
from guiderail.support.work import reading, spend, spent

if TYPE_CHECKING:
    from guiderail.frontends.grammar.lark.assembly import LarkGrammar

__all__ = ["GrammarConstraint", "grammar"]

_WORTH_KEEPING = 200_000  # steps; a grammar that takes more to read is kept on disk
_PRICES = struct.Struct("<QQ8s")  # in front of a program on disk: the steps, and a digest of both
_READERS = {
    "gbnf": "guiderail.frontends.grammar.gbnf",
    "ebnf-w3c": "guiderail.frontends.grammar.ebnf_w3c",
    "ebnf-iso": "guiderail.frontends.grammar.ebnf_iso",
}
_SUFFIXES = {".lark": "lark", ".gbnf": "gbnf", ".ebnf": "ebnf"}
_SYNTAXES = ("lark", "gbnf", "ebnf", "ebnf-w3c", "ebnf-iso", "productions")

_BNF_RULE = re.compile(r"(?m)^[ \t]*(?:\[\w+\][ \t]*)?(?:[\w.-]+|<[^<>\r\n]+>)[ \t]*::=")
_LARK_RULE = re.compile(r"(?m)^[ \t]*[!?]{0,2}_?[A-Za-z]\w*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*:(?!:=)")
_ISO_RULE = re.compile(r"(?m)^[ \t]*[A-Za-z][\w \t-]*=[^;]*[;.]", re.DOTALL)


class _DiskKey(NamedTuple):
    """The location of a grammar on disk."""

    cache: DiskCache
    value: list[Any]


def _prices(read_steps: int, lowering_steps: int) -> bytes:
    digest = hashlib.blake2b(f"{read_steps} {lowering_steps}".encode(), digest_size=8).digest()
    return _PRICES.pack(read_steps, lowering_steps, digest)


@dataclass(slots=True)
class _State:
    """What has been computed for a grammar.

    Attributes:
        read: the rules as written and as prepared; None while the program makes reading them unnecessary.
        file: its program (``docs/program_format.md``), from disk.
        key: where the program is stored, or is to be.
        read_steps, lowering_steps: what reading the grammar and lowering it cost, which is counted with `file`, too.
        captures: finds captured strings.
        written: the result of ``as_written``.
    """

    read: tuple[Grammar, Prepared] | None = None
    file: bytes | None = None
    key: _DiskKey | None = None
    read_steps: int = 0
    lowering_steps: int = 0
    captures: Captures | None = None
    written: GrammarConstraint | None = None


@dataclass(frozen=True, slots=True)
class GrammarConstraint(HasRules):
    """Matches the strings of a context-free grammar. Made by :func:`grammar`.

    Attributes:
        text: the grammar as written, or production rules as constraints.
        syntax: ``"lark"``, ``"gbnf"``, ``"ebnf-w3c"``, ``"ebnf-iso"`` or ``"productions"``.
        start: the start rule; None: the notation's default.
        max_rules: maximum number of rules, and steps between them, that removing left recursion may create.
        path: the file that holds the grammar, for relative imports, or None.
        imports: directories in which a Lark grammar looks for imports.
        indentation: how line breaks become INDENT and DEDENT in a Lark grammar.
        constraints: what ``@name`` and declared terminals of a Lark grammar stand for.
        schema_options: options of ``json_schema`` for each ``%json`` of a Lark grammar.
        written: whether this is the result of :meth:`Constraint.as_written`.
    """

    text: str | Productions
    syntax: str
    start: str | None = None
    max_rules: int = MAX_RULES
    path: str | None = None
    imports: tuple[str, ...] = ()
    indentation: Indentation | None = None
    constraints: tuple[tuple[str, Constraint], ...] = ()
    schema_options: tuple[tuple[str, Any], ...] = ()
    written: bool = False
    _imported: tuple[tuple[str, str], ...] = field(init=False, repr=False, default=())  # files as they were read
    _state: _State = field(init=False, repr=False, compare=False, default_factory=_State)

    def __post_init__(self) -> None:
        state = self._state
        key = self._disk_key()
        if key is not None:
            state.key = key
            self._load(key)
        begun = spent()
        with placing(self), nested("the grammar"), reading():
            if state.file is not None:
                spend(state.read_steps)
                return
            object.__setattr__(self, "_imported", self._read())
        state.read_steps = spent() - begun
        if state.read_steps < _WORTH_KEEPING or self._imported:
            state.key = None

    def _load(self, key: _DiskKey) -> None:
        state, stored = self._state, key.cache.load(key.value)
        if stored is None or len(stored) < _PRICES.size:
            return
        read_steps, lowering_steps, _ = _PRICES.unpack_from(stored)
        if stored.startswith(_prices(read_steps, lowering_steps)):
            state.read_steps, state.lowering_steps, state.file = read_steps, lowering_steps, stored[_PRICES.size :]

    def as_written(self) -> GrammarConstraint:
        state = self._state
        if self.written or not self._is_written_otherwise():
            return self
        if state.written is None:
            given = (*self._given(), True)
            state.written = GrammarConstraint(*given)
        return state.written

    def _is_written_otherwise(self) -> bool:
        """Whether the grammar may contain a schema or case-insensitive keywords; does not parse the text."""
        if not isinstance(self.text, str) or self.constraints:
            return True
        return self.syntax == "lark" and ("%json" in self.text or '"i' in self.text)

    def _given(self) -> tuple[Any, ...]:
        given = (self.text, self.syntax, self.start, self.max_rules, self.path, self.imports, self.indentation)
        return (*given, self.constraints, self.schema_options)

    def _read(self) -> tuple[tuple[str, str], ...]:
        """Reads the grammar; returns the user's files that it imports, with their digests."""
        state = self._state
        if self.syntax == "lark":
            reading = self._read_lark()
            tree = replace(reading.grammar, notes=(*reading.grammar.notes, *reading.notes), captures=reading.captures)
            if self.written:
                tree = as_written(tree)
            prepared = prepare(tree, self.max_rules)
            report = replace(prepared.report, unused_terminals=reading.unused, late=_Late(self))
            state.read = tree, replace(prepared, report=report)
            return reading.imported
        if isinstance(self.text, str):
            reader = cast(Callable[..., Grammar], import_module(_READERS[self.syntax]).read)
            tree = reader(self.text, self.start)
        else:
            tree = productions.read(self.text, self.start)
            if self.written:
                tree = as_written(tree)
        state.read = tree, prepare(tree, self.max_rules)
        return ()

    def _read_lark(self) -> LarkGrammar:
        from guiderail.frontends.grammar import lark

        assert isinstance(self.text, str)
        return lark.read(
            self.text,
            start=self.start or "start",
            import_paths=self.imports,
            indenter=self.indentation,
            constraints=dict(self.constraints),
            path=self.path,
            nested=Nesting(self._nested, self.schema_options),
        )

    def _nested(self, text: str, constraints: dict[str, Constraint]) -> Constraint:
        """A grammar within this one."""
        given = tuple(constraints.items())
        return GrammarConstraint(
            text, "lark", None, self.max_rules, self.path, self.imports, None, given, self.schema_options
        )

    def _disk_key(self) -> _DiskKey | None:
        """The location where the grammar may be on disk; None: nowhere."""
        if not isinstance(self.text, str) or self.constraints or self.imports or self.schema_options:
            return None
        cache = open_cache()
        if cache is None:
            return None
        lines = None if self.indentation is None else list(astuple(self.indentation))
        value = ["grammar", self.text, self.syntax, self.start, self.max_rules, self.path, lines, self.written]
        return _DiskKey(cache, value)

    @property
    def _grammar(self) -> Grammar:
        if self._state.read is None:
            self._read()
        assert self._state.read is not None
        return self._state.read[0]

    @property
    def _prepared(self) -> Prepared:
        if self._state.read is None:
            self._read()
        assert self._state.read is not None
        return self._state.read[1]

    @property
    def tree(self) -> Grammar:
        """The rules as written, parsed."""
        return self._grammar

    def report(self) -> GrammarReport:
        """Reports rules without effect, left recursion, and what was rewritten.

        For a Lark grammar it also lists unused terminals, colliding terminals, and conflicts of Lark's LALR parser.
        """
        return self._prepared.report

    @checked
    def captures(self, text: str) -> dict[str, list[str]]:
        r"""Returns what each captured rule matched in a text.

        A rule is captured with ``name[capture]: …`` in Lark and ``name[capture="x"] ::= …`` in GBNF.

            >>> import guiderail as gr
            >>> date = gr.grammar('start: day "." /[0-9]+/ "."\nday[capture]: /[0-9]+/', syntax="lark")
            >>> date.captures("24.12.")
            {'day': ['24']}

        A match begins as early, and is as long, as the grammar allows. It leaves out the rule's stop or suffix, which
        ``stop_capture`` captures.

        Args:
            text: a text of the grammar. If it is incomplete, only the rules that have ended are found.

        Returns:
            A dict from names to matched strings, in the order in which the matches end. A rule that was not used has an
            empty list.

        Raises:
            LimitError: ``captures``: the text can be parsed in too many ways.
        """
        state = self._state
        if state.captures is None:
            if not has_captures(self.tree):
                return {}
            state.captures = Captures(self.tree, lambda tree: _Tree(tree, self.max_rules))
        return state.captures.find(text)

    def reading(self) -> Reading:
        """Returns a reader that leaves the text unchanged and offers ``captures``."""
        return _GrammarReading(self)

    def _placed(self, error: LimitError) -> LimitError:
        if isinstance(self.text, str):
            return in_text(error, self.text)
        part = getattr(error, "part", None)
        for name, rule in self.text:  # the rule in which it was reached
            if part is not None and repr(part) in repr(rule):
                return in_python(error, rule, f"{name} = ")
        return error

    def _lower(self, b: _core.Builder) -> int:
        state = self._state
        if state.file is not None:
            spend(state.lowering_steps)
            try:
                return b.replay(state.file)
            except CompileError:  # damaged
                state.file = None
        key, state.key = state.key, None
        if key is None:
            return lower(self._prepared, b)
        prepared, begun = self._prepared, spent()
        recorder = _core.Builder(records=True)
        state.file = recorder.recorded(lower(prepared, recorder))
        state.lowering_steps = spent() - begun
        key.cache.store(key.value, _prices(state.read_steps, state.lowering_steps) + state.file)
        return b.replay(state.file)

    def __reduce__(self) -> tuple[object, ...]:
        return GrammarConstraint, (*self._given(), self.written)

    def __repr__(self) -> str:
        text: Any = self.text
        if isinstance(text, str):
            shown = repr(clipped(text, 60))
        else:
            names = [repr(name) for name, _ in text[:6]]
            shown = f"{{{', '.join(f'{name}: …' for name in names)}{', …' if len(text) > 6 else ''}}}"
        more = "" if self.start is None else f", start={self.start!r}"
        return f"grammar({shown}, syntax={self.syntax!r}{more})"


@dataclass(frozen=True, slots=True, eq=False)
class _Tree(Constraint):
    """A grammar derived from another."""

    tree: Grammar
    max_rules: int

    def _lower(self, b: _core.Builder) -> int:
        return lower(prepare(self.tree, self.max_rules), b)


class _GrammarReading:
    """Reads a string as itself, with its captures."""

    is_text = True
    bounds = TEXT.bounds

    def __init__(self, constraint: GrammarConstraint) -> None:
        self._constraint = constraint

    def read(self, text: str) -> str:
        return text

    def partial(self, *, growing_strings: bool) -> Partial:
        return Unfinished(as_text=True)

    def captures(self, text: str) -> dict[str, list[str]]:
        return self._constraint.captures(text)


class _Late:
    """The parts of a Lark grammar's report that are computed on request."""

    def __init__(self, constraint: GrammarConstraint) -> None:
        self.constraint = constraint
        self.known: dict[str, tuple[str, ...]] = {}

    def collisions(self) -> tuple[str, ...]:
        if "collisions" not in self.known:
            lexer = self.constraint.tree.lexer
            self.known["collisions"] = () if lexer is None else collisions(lexer)
        return self.known["collisions"]

    def conflicts(self) -> tuple[str, ...]:
        if "conflicts" not in self.known:
            self.known["conflicts"] = tuple(self.constraint._read_lark().conflicts())
        return self.known["conflicts"]


@checked
def grammar(
    source: str | Path | Mapping[str, Any],
    syntax: str | None = None,
    *,
    start: str | None = None,
    max_rules: int = MAX_RULES,
    imports: Iterable[str | Path] = (),
    indenter: Any = None,
    constraints: Mapping[str, Constraint | str] | None = None,
    schema_options: Mapping[str, Any] | None = None,
) -> GrammarConstraint:
    r"""Matches the strings of a context-free grammar, in any of five notations.

        >>> import guiderail as gr
        >>> sums = gr.grammar('root ::= root "+" number | number\nnumber ::= [0-9]+', syntax="gbnf")
        >>> sums.matches("1+23+4"), sums.matches("1+")
        (True, False)
        >>> gr.grammar({"S": [["Hello ", gr.Ref("name")]], "name": ["Ada", "Bob"]}).matches("Hello Ada")
        True

    Any context-free grammar works. Left recursion of every kind is rewritten, and ambiguity is allowed.
    :meth:`GrammarConstraint.report` lists unused rules.

    Args:
        source: the grammar as text; a ``pathlib.Path`` to it; or production rules: a mapping from names to lists of
            alternatives, each a list of strings, :class:`Ref` and constraints.
        syntax: ``"lark"``, ``"gbnf"`` (llama.cpp, XGrammar), ``"ebnf-w3c"``, ``"ebnf-iso"``, ``"ebnf"`` (W3C if the
            text contains ``::=``, ISO otherwise) or ``"productions"``. None: recognize it by the suffix of the path,
            or by the text if only one notation fits.
        start: the start rule; by default ``start`` in Lark, ``root`` in GBNF, the first rule elsewhere.
        max_rules: maximum number of rules, and steps between them, that removing left recursion may create.
        imports: Lark only: directories in which ``%import`` looks for grammars, besides that of the path.
        indenter: Lark only: an ``Indenter`` of the ``lark`` package, which turns line breaks into INDENT and DEDENT.
        constraints: Lark only: what ``@name`` and declared terminals (``%declare NAME``) stand for.
        schema_options: Lark only: options of ``json_schema`` for each ``%json``, such as ``{"closed": True}``. The
            schema's own ``x-guidance`` takes precedence.

    Raises:
        PatternError: the grammar is malformed, or names a rule that does not exist; ``span`` says where.
        CompileError: no text matches the grammar, or an argument is wrong.
        LimitError: ``max_rules`` was reached.
    """
    check_choice("syntax", syntax, _SYNTAXES, optional=True, code="grammar-notation")
    if start is not None and not isinstance(start, str):
        raise CompileError(f"start must be the name of a rule, not {type(start).__name__}", code="grammar-start")
    check_integer("max_rules", max_rules, 1)
    if isinstance(source, Mapping):
        if syntax not in (None, "productions"):
            raise CompileError(f"a mapping holds production rules, not {shown(syntax)}", code="grammar-notation")
        _only_lark(imports=tuple(imports), indenter=indenter, constraints=constraints, schema_options=schema_options)
        return GrammarConstraint(productions.read_productions(source), "productions", start, max_rules)
    path = None
    if isinstance(source, Path):
        path = str(source)
        syntax = syntax or _SUFFIXES.get(source.suffix.lower())
        source = text_of(source, f"the grammar {path} cannot be read", CompileError, "grammar-file")
    if not isinstance(source, str):
        raise CompileError(
            f"a grammar must be a string, a pathlib.Path or a mapping, not {type(source).__name__}",
            code="not-a-constraint",
        )
    if syntax == "productions":
        raise CompileError("production rules must be a mapping, not a string; pass a dict", code="grammar-notation")
    if syntax is None:
        syntax = _guess(source)
    if syntax == "ebnf":
        syntax = "ebnf-w3c" if "::=" in source else "ebnf-iso"
    if syntax != "lark":
        _only_lark(imports=tuple(imports), indenter=indenter, constraints=constraints, schema_options=schema_options)
        return GrammarConstraint(source, syntax, start, max_rules)
    from guiderail.frontends.grammar.lark.assembly import indentation_of

    given = tuple((name, _coerce(one)) for name, one in (constraints or {}).items())
    folders = _folders(imports)
    options = _checked_options(schema_options or {})
    return GrammarConstraint(source, "lark", start, max_rules, path, folders, indentation_of(indenter), given, options)


def _folders(imports: Iterable[str | Path]) -> tuple[str, ...]:
    folders = (imports,) if isinstance(imports, str | bytes) else tuple(imports)
    for folder in folders:
        if isinstance(imports, str | bytes) or not isinstance(folder, str | os.PathLike):
            raise CompileError(
                f"imports takes a list of directories, not {shown(folder)}; write imports=[folder]",
                code="grammar-option",
            )
    return tuple(str(folder) for folder in folders)


def _checked_options(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Schema options as a hashable value.

    Raises:
        CompileError: ``bad-schema-option``: one is unknown or has a wrong value.
    """
    from guiderail.frontends.json_schema import SchemaOptions

    if options.get("registry") is not None:
        raise CompileError(
            "a grammar takes no registry for its schemas; pass gr.json_schema(…, registry=…) in constraints and write "
            "@name for %json",
            code="grammar-option",
        )
    checked = SchemaOptions.of(dict(options))
    return tuple((name, getattr(checked, name)) for name in sorted(options))


def _only_lark(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise CompileError(f"{name} applies only to Lark grammars; leave it out", code="grammar-option")


def _guess(text: str) -> str:
    """The notation of a string, if only one fits."""
    if _BNF_RULE.search(text):
        return _guess_bnf(text)
    if _LARK_RULE.search(text):
        return "lark"
    if _ISO_RULE.search(text):
        return "ebnf-iso"
    raise CompileError(
        "the notation of this grammar cannot be recognized; pass syntax=…, one of "
        f"{', '.join(map(repr, _SYNTAXES[:-1]))}, or a file as pathlib.Path(…)",
        code="grammar-notation",
    )


def _is_iso(text: str) -> bool:
    """Whether a text with ``::=`` is a whole grammar in the notation of ISO, and has no backslash to be mistaken."""
    if "\\" in text:
        return False
    try:
        tree = import_module(_READERS["ebnf-iso"]).read(text)
    except PatternError:
        return False
    return all(used.name in tree.rules for rule in tree.rules.values() for used in names(rule.body))


def _guess_bnf(text: str) -> str:
    """GBNF or W3C EBNF: the one that can read the text, or either if both read the same rules; ISO's if none can."""
    trees: list[Grammar | None] = []
    errors: list[PatternError] = []
    for syntax in ("gbnf", "ebnf-w3c"):
        try:
            trees.append(import_module(_READERS[syntax]).read(text, "root"))
        except PatternError as error:
            trees.append(None)
            errors.append(error)
    first, second = trees
    if first is None and second is None:
        if _is_iso(text):
            return "ebnf-iso"
        # The notation that read further is more likely the intended one.
        raise max(errors, key=lambda error: error.span or (0, 0))
    if first is None or second is None:
        return "ebnf-w3c" if first is None else "gbnf"
    try:
        same = first.rules == second.rules
    except RecursionError:
        same = False
    if same:
        return "gbnf" if "root" in first.rules else "ebnf-w3c"
    raise CompileError(
        "this grammar means one thing as GBNF (llama.cpp, XGrammar) and another as W3C EBNF, where a backslash is "
        "an ordinary character; pass syntax='gbnf' or syntax='ebnf-w3c'",
        code="grammar-notation",
    )
