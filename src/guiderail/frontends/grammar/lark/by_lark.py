"""Lets Lark read a grammar: turns its definitions into rules and terminals, and its errors into located ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, GuiderailError, LimitError, PatternError
from guiderail.frontends.grammar.lark.assembly import Assembly, LarkGrammar
from guiderail.frontends.grammar.lark.bodies import Bodies
from guiderail.frontends.grammar.lark.dialect import UNBOUNDED, Rewritten, rewrite
from guiderail.frontends.grammar.lark.notation import ImportFault, grammar_builder
from guiderail.frontends.grammar.lark.quick import Parts
from guiderail.frontends.grammar.lark.terms import literal_text, regex_of
from guiderail.frontends.grammar.lark.tokens import Token
from guiderail.frontends.grammar.lark.wording import mixed_case, not_found, not_in_import, reworded
from guiderail.frontends.grammar.nesting import Nesting
from guiderail.frontends.grammar.syntax import Name, Rule
from guiderail.support.numerals import is_digit_limit
from guiderail.support.packages import package
from guiderail.support.suggestions import suggestion
from guiderail.support.texts import clipped
from guiderail.support.work import spend

__all__ = ["compiled", "read"]

_COPIED = 700  # steps of each token of a terminal that is copied
_UNEXPECTED = {
    '"': 'this string is never closed; add " before the end of the line',
    "'": "strings are written in double quotes",
    "/": "this regular expression is never closed; add / before the end of the line",
}
_DIRECTIVES = ("%import", "%ignore", "%declare", "%override", "%extend", "%json", "%lark", "%regex")
_BESIDE = re.compile(r" at (?= *in )")
_PLACE = re.compile(r"\bline (\d+),? col(?:umn)? (\d+)")
_QUOTED = re.compile(
    r"['`]([A-Za-z_][A-Za-z_0-9]*)['`]|\b(?:rule|terminal|Terminal|Rule|template|(?:in|for)(?! rule)) ([A-Za-z_]\w*)"
)


_LONGEST = 640  # digits that `int` always reads
_LONGEST_WORDS = 1_000  # characters
_NOWHERE = os.path.join(os.devnull, "grammar")
"""The path of a text that has no file. Without one, Lark would look for relative imports next to the main program."""


def read(
    text: str,
    start: str,
    import_paths: Sequence[str | os.PathLike[str] | Callable[..., Any]],
    indenter: Any,
    constraints: dict[str, Constraint],
    path: str | os.PathLike[str] | None,
    nested: Nesting | None = None,
) -> LarkGrammar:
    """Like :func:`guiderail.frontends.grammar.lark.read`."""
    lark = _lark()
    assembly = _LarkAssembly(lark, rewrite(text, constraints, nested), start, constraints, indenter)
    paths = [p if callable(p) else os.fspath(p) for p in import_paths]
    return assembly.run(assembly.parts(paths, _NOWHERE if path is None else os.fspath(path)))


def compiled(text: str, start: str, kept: set[str]) -> Any:
    """Lark's rules of a grammar that needs nothing beyond Lark."""
    _lark()
    builder = grammar_builder()(False, [])
    builder.load_grammar(text, "<string>")
    return builder.build().compile([start], kept)


def _lark() -> Any:
    needs = "this grammar has an error, or a form that only the lark package reads"
    return package("lark.load_grammar", needs, get="pip install lark")


class _LarkAssembly(Assembly):
    def __init__(
        self, lark: Any, rewritten: Rewritten, start: str, constraints: dict[str, Constraint], indenter: Any
    ) -> None:
        super().__init__(rewritten, start, constraints, indenter)
        self.lark = lark

    def parts(self, import_paths: list[Any], name: str) -> Parts:
        errors: Any = import_module("lark.exceptions")
        looked: set[str] = set()
        for statement in self.rewritten.statements:
            for token in statement.tokens:
                if token.kind not in ("regexp", "string") or token.text in looked:
                    continue
                looked.add(token.text)
                if token.kind == "regexp":
                    regex_of(token, self.source)
                else:
                    literal_text(token, self.source)
        self.count_copies()
        builder = grammar_builder()(False, import_paths)
        try:
            builder.load_grammar(self.rewritten.text, name)
            grammar = builder.build()
        except (errors.LarkError, AssertionError) as error:
            raise self.translated(error, bool(builder.used_files)) from error  # its own text is parsed first
        except TypeError as error:  # in a message of Lark's about another error
            if not isinstance(error.__context__, errors.UnexpectedInput):
                raise
            raise self.translated(error.__context__, bool(builder.used_files)) from error
        except OSError as error:
            raise self.not_found(error) from error
        except ImportFault as error:
            raise self.not_imported(str(error)) from error
        except ValueError as error:
            if not is_digit_limit(error):
                raise
            raise self.too_long() from None
        names = {rule[0] for rule in grammar.rule_defs}
        if self.start in names:
            self.all_asked_for(grammar)
        try:
            rules, terminals = self.expand(grammar) if self.start in names else ({}, [])
        except (errors.LarkError, re.error, AssertionError) as error:
            raise self.translated(_cause(error), False) from error
        except ValueError as error:
            if not is_digit_limit(error):
                raise
            raise self.too_long() from None
        mentioned = {use for name, uses in self.uses.items() for use in uses if use != name}
        defined = [s.name.text for s in self.statements if s.name is not None]
        bounded = str(UNBOUNDED) not in self.rewritten.text
        return Parts(
            rules,
            names,
            terminals,
            grammar.ignore,
            mentioned,
            [name for name in defined if name.lstrip("_")[:1].isupper()],
            tuple((str(f), str(h)) for f, h in builder.used_files.items() if getattr(f, "pkg_name", "") != "lark"),
            (lambda: grammar.compile([self.start], self.kept())) if bounded else None,
        )

    def count_copies(self) -> None:
        """Counts the work of Lark, which copies each terminal into those that name it."""
        bodies: dict[str, list[Token]] = {}
        for statement in self.rewritten.statements:
            if statement.name is not None and statement.defines_terminal:
                bodies[statement.name.text] = list(statement.body)
        for name in self.rewritten.cuts:  # not for Lark to read
            bodies.pop(name, None)
        sizes: dict[str, int] = {}
        begun: set[str] = set()
        stack = list(bodies)
        while stack:
            name = stack[-1]
            named = [token.text for token in bodies[name] if token.text in bodies]
            missing = [one for one in named if one not in sizes and one not in begun]
            if name in sizes or not missing:
                stack.pop()
            else:
                begun.add(name)
                stack += missing
                continue
            if name not in sizes:
                copied = sum(sizes.get(one, 0) for one in named)  # one that contains itself is an error of its own
                sizes[name] = len(bodies[name]) + copied
                with self.counted(name):
                    spend(_COPIED * copied)

    def all_asked_for(self, grammar: Any) -> None:
        """Rejects constraints that the grammar does not name."""
        declared = {name for name, (tree, _) in grammar.term_defs if tree is None}
        named = {t.text[1:] for s in self.statements for t in s.tokens if t.kind == "grammar"}
        for name in sorted(self.constraints.keys() - declared - named):
            raise CompileError(
                f"the grammar does not use the constraint {name!r}: write @{name} in a rule, or %declare {name} "
                "for a terminal",
                code="lark-constraint",
            )

    def too_long(self) -> PatternError:
        """The error for a number of more digits than Lark reads."""
        message = "this number has more digits than Lark reads; use a smaller one"
        numbers = [t for s in self.statements for t in s.tokens if t.kind == "number" and len(t.text) > _LONGEST]
        if not numbers:
            return PatternError(f"{message} (in an imported grammar)", code="lark-syntax")
        return PatternError(message, code="lark-syntax", source=self.source, span=numbers[0].span)

    def translated(self, error: Exception, in_file: bool) -> GuiderailError:
        """Converts an error of Lark's, with its location in the source."""
        if is_digit_limit(error):
            return self.too_long()
        message = str(error).split("\n\n")[0].strip().rstrip(":").strip()
        cause = error if hasattr(error, "pos_in_stream") else error.__context__
        expected = sorted(getattr(cause, "accepts", None) or getattr(cause, "expected", None) or ())
        expected = expected or sorted(getattr(cause, "allowed", None) or ())
        found = _PLACE.search(message)
        if found is not None and getattr(error, "token", None) is not None:
            message = f"unexpected {str(error.token)!r} at {found[0]}"  # type: ignore[attr-defined]
        if found is not None or hasattr(cause, "line"):
            line, column = (int(found[1]), int(found[2])) if found else (cause.line, cause.column)  # type: ignore[union-attr]
            message = _PLACE.sub("", message.splitlines()[0]).replace(" in <string>", "").strip(" ,:at")
            if type(cause).__name__ == "UnexpectedCharacters":  # it expects any token
                text, at = self.rewritten.text, _offset(self.rewritten.text, line, column)
                message, expected = _BESIDE.sub("", message) if in_file else _unexpected(text, at), []
            if expected:
                message += f"; expected {_readable(expected)}"
            if in_file:
                return PatternError(
                    f"{message} (line {line}, column {column} of an imported grammar)", code="lark-syntax"
                )
            at = self.rewritten.place(_offset(self.rewritten.text, line, column))
            message, where = mixed_case(self.source, at) or (clipped(message, _LONGEST_WORDS), (at, at + 1))
            return PatternError(message, code="lark-syntax", source=self.source, span=where)
        message = message or "Lark cannot read a text, a range or a pattern of this grammar"
        names = [a or b for a, b in _QUOTED.findall(message)]
        span = next((s for s in map(self.use, names) if s is not None), None)
        if "more than once" in message:
            heads = [s.name.span for s in self.statements if s.name is not None and s.name.text in names]
            span = heads[-1] if heads else span
        for name, old in self.rewritten.renamed.items():
            message = message.replace(name, old)
        known = [s.name.text for s in self.statements if s.name is not None]
        message = reworded(message, known, self.imported())
        return CompileError(clipped(message, _LONGEST_WORDS), code="lark-grammar", source=self.source, span=span)

    def not_found(self, error: OSError) -> CompileError:
        missing = str(error.filename or error)
        stem = os.path.splitext(os.path.basename(missing))[0]
        return self.not_imported(f"the grammar {missing!r} to import was not found; {not_found(stem)}", stem)

    def not_imported(self, message: str, stem: str | None = None) -> CompileError:
        """The error for a grammar that cannot be imported; ``stem``: its name in an import, else all imports count."""
        at = [
            token.span
            for statement in self.statements
            if statement.tokens[0].text == "%import"
            for token in statement.tokens
            if token.text == (stem or "%import")
        ]
        span = at[0] if len(at) == 1 or (at and stem) else None
        return CompileError(message, code="lark-import", source=self.source, span=span)

    def imported(self) -> dict[str, str]:
        """What to say of names that an import should have defined."""
        said = {}
        for statement in self.statements:
            words = [token.text for token in statement.tokens]
            if words[0] != "%import":
                continue
            begin = words.index("(") if "(" in words else len(words) - (4 if "->" in words else 2)
            for name in words[begin + 1 :: 2] if "(" in words else words[-1:]:
                said[name] = not_in_import("".join(words[1:begin]), words[-3] if "->" in words else name)
        return said

    # -- rules
    def expand(self, grammar: Any) -> tuple[dict[str, Rule], list[Any]]:
        """The rules before Lark turns repetitions into recursion, and all terminals."""
        lark = self.lark
        terminals = [
            lark.TerminalDef(name, self.pattern(name, tree), priority)
            for name, (tree, priority) in grammar.term_defs
            if tree is not None
        ]
        bodies = Bodies(lark, grammar.rule_defs, terminals, self.name_in, self.counted)
        rules: dict[str, Rule] = {}
        for name, body in bodies:
            if body is None:
                raise CompileError(
                    f"the rule {name} is declared but not defined; give it alternatives",
                    code="lark-declared",
                    **self.place(name),
                )
            rules[name] = Rule(name, body, self.spans.get(self.rewritten.renamed.get(name, name)))
        return rules, terminals

    def pattern(self, name: str, tree: Any) -> Any:
        """Lark's pattern of a terminal."""
        lark, here = self.lark, tree
        while len(here.children) == 1 and here.data in ("expansions", "expansion", "value"):
            here = here.children[0]
        if here.data == "literal":
            return lark._literal_to_pattern(here.children[0])
        expansions = list(tree.find_data("expansion"))
        if len(expansions) == 1 and not expansions[0].children:
            raise lark.GrammarError(f"Terminals cannot be empty ({name})")
        return (lark.PrepareLiterals() * lark.TerminalTreeToPattern()).transform(lark.nr_deepcopy_tree(tree))

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Gives the place of a definition where it takes too much work."""
        try:
            yield
        except LimitError as error:
            raise LimitError(error.message, code=error.code, **self.place(name)) from error

    def name_in(self, rule: str, name: str) -> Name:
        """A name, with the location of its use in a rule."""
        renamed = self.rewritten.renamed
        return Name(name, self.uses.get(renamed.get(rule, rule), {}).get(renamed.get(name, name)))


def _cause(error: Exception) -> Exception:
    """What went wrong within a transformation of Lark's."""
    inner = error.__context__
    return inner if type(error).__name__ == "VisitError" and isinstance(inner, Exception) else error


def _offset(text: str, line: int, column: int) -> int:
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))


_READABLE = {
    "RULE": "a rule's name", "TERMINAL": "a terminal's name", "STRING": "a string", "REGEXP": "a regular expression",
    "_COLON": "':'", "_OR": "'|'", "_NL": "the end of the line", "_NL_OR": "'|' in the next line", "_LPAR": "'('",
    "_RPAR": "')'", "_LBRA": "'['", "_RBRA": "']'", "_LBRACE": "'{'", "_RBRACE": "'}'", "OP": "'?', '*' or '+'",
    "TILDE": "'~'", "_TO": "'->'", "_DOT": "'.'", "_DOTDOT": "'..'", "_COMMA": "','", "NUMBER": "a number",
    "$END": "the end", "_IGNORE": "%ignore", "_IMPORT": "%import", "_DECLARE": "%declare", "_OVERRIDE": "%override",
    "_EXTEND": "%extend", "RULE_MODIFIERS": "'?' or '!'",
}  # fmt: skip


def _unexpected(text: str, at: int) -> str:
    """What is wrong where Lark finds a character that no token begins with."""
    found = text[at : at + 1]
    directive = re.match(r"%\w*", text[at:])
    if directive:
        return f"there is no directive {directive[0]}; {suggestion(directive[0], _DIRECTIVES)}"
    return _UNEXPECTED.get(found, f"unexpected character {found!r}")


def _readable(expected: list[str]) -> str:
    words = [_READABLE[name] for name in expected if name in _READABLE]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0] if words else "something else"
