"""Examines a JSON Schema before a model writes under it: :func:`check_schema`.

Two walks produce the findings. One walks the schema objects and checks for each branch, value and property whether any
document can use it (``unreachable``). The other walks the values, from the whole to its parts, and checks what bounds
them (``unbounded``): a model that has nothing else to say may continue forever if the schema lets it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.json_schema import JsonSchema, json_schema
from guiderail.frontends.json_schema.constraint import read_schema
from guiderail.frontends.json_schema.documents.references import Document, Node, dialect_of
from guiderail.frontends.json_schema.faults import Fault, form_faults, misspelt, schemas_of
from guiderail.frontends.json_schema.normal_form.shape import (
    ANY_ARRAY,
    ANY_OBJECT,
    FALSE,
    TRUE,
    ArrayCell,
    Fixed,
    ObjectCell,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.report import Report
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.pointers import extended

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["Finding", "MaskCost", "SchemaCheck", "check_schema"]

LONG = 330
"""A string without "maxLength" that may have more characters than this counts as unbounded (a mail address has 320)."""

_MOST_PARTS = 5_000  # maximum parts of values that are examined
_MASKS, _MASK_SECONDS = 200, 2.0  # how many masks are measured, and for how long
_THOUGHTS = re.compile(r"reason(ing)?s?|rationale|explanation|thoughts?|thinking|analysis|chain_of_thought|steps", re.I)
_ANSWERS = re.compile(r"answer|result|verdict|label|score|rating|decision|category|class|conclusion|sentiment", re.I)


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a schema.

    Attributes:
        kind: ``"fault"``: a keyword or value that is wrong in itself, which makes the schema invalid; ``"typo"``: an
            unknown keyword or format that is nearly a known one; ``"unreachable"``: a part of the schema that no
            document uses; ``"unbounded"``: a value that may grow forever; ``"advice"``: a change that may help the
            model; ``"undecided"``: the search was abandoned.
        place: the location: a JSON pointer into the schema (``#/properties/a``) or a path to the value (``$.a[*]``).
        message: the finding in words.
        remedy: what to do about it; may be empty.
    """

    kind: str
    place: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class MaskCost:
    """The cost of masks over a vocabulary, measured along random allowed tokens.

    Attributes:
        bytes_per_mask: size of one mask.
        allowed_at_start: how many tokens are allowed first.
        first_microseconds: time of the first mask, for which everything is new.
        mean_microseconds, max_microseconds: times of the later masks.
        steps: number of later masks.
        guide_bytes: memory that the guide holds at the end.
    """

    bytes_per_mask: int
    allowed_at_start: int
    first_microseconds: float
    mean_microseconds: float
    max_microseconds: float
    steps: int
    guide_bytes: int


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The result of :func:`check_schema`.

    Attributes:
        name: the name of the schema, as given.
        status: ``"ok"``; ``"unsatisfiable"``: no value satisfies it; ``"unsupported"``: part of it cannot be enforced;
            ``"invalid"``: it cannot be read as a schema.
        problem: why it is not ``"ok"``; empty otherwise.
        code: the error's code; empty for ``"ok"``.
        dialect: the dialect of JSON Schema; empty if the schema cannot be read.
        keywords: number of keywords by status: enforced, annotation …
        notes: keywords that are not simply enforced: (JSON pointer, status, detail).
        findings: see :class:`Finding`.
        expressions: size of the compiled constraint.
        compile_seconds: time from the schema to the compiled constraint, without a vocabulary.
        masks: the cost of masks, if a vocabulary was given.
    """

    name: str
    status: str
    problem: str = ""
    code: str = ""
    dialect: str = ""
    keywords: dict[str, int] = field(default_factory=dict)
    notes: tuple[tuple[str, str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    expressions: int = 0
    compile_seconds: float = 0.0
    masks: MaskCost | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        made = asdict(self)
        made["notes"] = [
            {"pointer": pointer, "status": status, "detail": detail} for pointer, status, detail in self.notes
        ]
        return made


def check_schema(
    schema: Any,
    *,
    name: str = "schema",
    vocabulary: Vocabulary | None = None,
    strict: bool = False,
    **options: Any,
) -> SchemaCheck:
    """Examines a schema: what is enforced, what no document can use, what is unbounded, what it costs.

    A schema that cannot be used does not raise an error: ``status`` and ``problem`` say so.

    Args:
        schema: a schema as for :func:`json_schema`.
        name: the name for the report.
        vocabulary: measure masks over its tokens.
        strict: a probable typo, or a violation of the dialect's metaschema (if ``jsonschema`` is installed), makes the
            schema invalid.
        **options: options of :func:`json_schema`; ``property_order`` is ``"declared"`` by default, as for generating.

    Raises:
        CompileError: an option is wrong.
    """
    from guiderail.constraints.program import build_program

    options = {"property_order": "declared", **options}
    json_schema(True, **options)  # an error in the options is the caller's
    try:
        constraint = json_schema(schema, **options)
        started = time.perf_counter()
        program = build_program(JsonSchema(constraint._text, constraint.options))
        seconds = time.perf_counter() - started
    except GuiderailError as error:
        return _refused(schema, name, options, error)
    contents, dialect = constraint.schema, constraint.document().dialect
    typos = list(misspelt(contents, dialect))
    if strict and (wrong := [*typos, *form_faults(contents, dialect)]):
        return _invalid(name, dialect, wrong)
    document = constraint.document()
    builder = _core.Builder()
    try:
        report = constraint.report()
        with document.evaluating():
            constraint.lowering(builder, document).term(document.term())  # so that all is evaluated from the root
            findings = [*_Unreachable(document), *_Unbounded(document)]
    except GuiderailError as error:  # in a part that nothing refers to
        return _refused(schema, name, options, error)
    return SchemaCheck(
        name=name,
        status="ok",
        dialect=document.dialect,
        keywords=report.to_dict()["counts"],
        notes=_notes(report),
        findings=(*(_finding("typo", typo) for typo in typos), *findings),
        expressions=program.node_count(),
        compile_seconds=seconds,
        masks=None if vocabulary is None else _measure(constraint, vocabulary),
    )


def _notes(report: Report) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (one.place, one.status, one.detail)
        for one in report.entries
        if one.status in ("approximated", "ignored") or (one.status == "annotation" and one.detail)
    )


def _refused(schema: Any, name: str, options: dict[str, Any], error: GuiderailError) -> SchemaCheck:
    """The check of a schema that does not compile."""
    if error.code == "unsatisfiable-schema":
        document = json_schema(schema, **options).document()
        with document.evaluating():
            inside = tuple(finding for finding in _Unreachable(document) if finding.place != "#")
        return SchemaCheck(
            name, "unsatisfiable", error.message + error.place(), error.code, dialect=document.dialect, findings=inside
        )
    if error.code == "schema-branches":  # found after long work, which would only be repeated
        return SchemaCheck(name, "unsupported", error.message + error.place(), error.code)
    try:  # what remains without the keywords that cannot be enforced?
        constraint = json_schema(schema, **{**options, "on_unsupported": "ignore"})
        report = constraint.report()
    except GuiderailError:
        status = "unsupported" if isinstance(error, LimitError) else "invalid"
        return SchemaCheck(
            name, status, error.message + error.place(), error.code, findings=_all_faults(schema, options)
        )
    return SchemaCheck(
        name,
        "unsupported",
        error.message + error.place(),
        error.code,
        dialect=constraint.document().dialect,
        keywords=report.to_dict()["counts"],
        notes=_notes(report),
    )


def _all_faults(schema: Any, options: dict[str, Any]) -> tuple[Finding, ...]:
    """Every fault in the form of a schema that is rejected for one of them, and probable typos."""
    try:
        contents = read_schema(schema)
        declared = contents.get("$schema") if isinstance(contents, dict) else None
        dialect = dialect_of(options.get("dialect")) or dialect_of(declared) or "2020-12"
    except GuiderailError:
        return ()
    wrong = [_finding("fault", fault) for fault in form_faults(contents, dialect)]
    return (*wrong, *(_finding("typo", typo) for typo in misspelt(contents, dialect)))


def _invalid(name: str, dialect: str, faults: list[Fault]) -> SchemaCheck:
    problem = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}: {faults[0]}" + (" …" if len(faults) > 1 else "")
    findings = tuple(_finding("fault", fault) for fault in faults)
    return SchemaCheck(name, "invalid", problem, "invalid-schema", dialect=dialect, findings=findings)


def _finding(kind: str, fault: Fault) -> Finding:
    return Finding(kind, fault.pointer, fault.message, f'did you mean "{fault.suggestion}"?' * bool(fault.suggestion))


# -- what no document uses ---------------------------------------------------------------------------------------------
class _Unreachable:
    """Branches, values and properties of a schema that no document can use."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.algebra = document.algebra
        self.empty = document.algebra.emptiness.term

    def __iter__(self) -> Iterator[Finding]:
        for schema, pointer in schemas_of(self.document.contents):
            try:
                term = self.document.root.child(schema)
                if self.empty(term):
                    if schema not in ({"not": {}}, {"not": True}):  # a way to write false
                        yield Finding("unreachable", pointer, "no value satisfies this schema")
                else:
                    yield from self._parts(schema, pointer, term)
            except LimitError as error:
                yield Finding("undecided", pointer, f"whether all of it can be used: {error.message}")

    def _parts(self, schema: dict[str, Any], pointer: str, term: Term) -> Iterator[Finding]:
        child, both = self.document.root.child, self.algebra.and_terms
        if not isinstance(term, Node) or term.schema is not schema:  # only a reference, or a bare type
            return
        for keyword in ("anyOf", "oneOf"):
            for i, branch in enumerate(schema.get(keyword, ())):
                inner = child(branch)
                if inner is not FALSE and not self.empty(inner) and self.empty(both((term, inner))):
                    why = "no value satisfies both it and the rest of the schema"
                    if keyword == "oneOf":
                        why += ", or each also satisfies another branch"
                    yield Finding("unreachable", f"{pointer}/{keyword}/{i}", f"this branch is never taken: {why}")
        if "if" in schema and ("then" in schema or "else" in schema):
            test = child(schema["if"])
            if self.empty(both((term, test))):
                yield Finding("unreachable", f"{pointer}/if", 'never satisfied, so "then" has no effect')
            elif self.empty(both((term, self.algebra.not_term(test)))):
                yield Finding("unreachable", f"{pointer}/if", 'always satisfied, so "else" has no effect')
        shape = term.shape()
        if isinstance(schema.get("enum"), list):
            for i, value in enumerate(schema["enum"]):
                if not shape.accepts(value):
                    why = f"the value {value!r} is excluded by the rest of the schema"
                    yield Finding("unreachable", f"{pointer}/enum/{i}", why)
        for name, declared in schema.get("properties", {}).items():
            if declared is False or child(declared) is FALSE or self.empty(child(declared)) or not shape.objects:
                continue
            if all(name in cell.named and self.empty(cell.named[name]) for cell in shape.objects):
                yield Finding(
                    "unreachable",
                    extended(pointer, "properties", name),
                    "this property can never be written: the rest of the schema excludes all its values",
                )


# -- what has no bound -------------------------------------------------------------------------------------------------
class _Unbounded:
    """Values that may grow without end, and advice on caps and order."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.options = document.options
        self.algebra = document.algebra
        self.emptiness = document.algebra.emptiness
        self.found: dict[tuple[str, str], Finding] = {}

    def __iter__(self) -> Iterator[Finding]:
        self._walk(self.document.term())
        return iter(self.found.values())

    def _say(self, kind: str, path: str, message: str, remedy: str = "") -> None:
        self.found.setdefault((path, message), Finding(kind, path, message, remedy))

    def _walk(self, root: Term) -> None:
        """Depth first; a term that is met again inside itself is a recursion."""
        above: set[Term] = set()
        done: set[Term] = set()
        stack: list[tuple[Term, str, bool]] = [(root, "$", False)]
        while stack:
            term, path, leaving = stack.pop()
            if leaving:
                above.discard(term)
                done.add(term)
            elif term in above:
                if self.options.max_depth is None and self.options.layout != "indented":
                    self._say("unbounded", path, "can nest without limit", "use the option max_depth")
            elif term is TRUE:
                self._say("unbounded", path, "any JSON value at all", 'set "type", and what it needs')
            elif term not in done:
                if len(done) > _MOST_PARTS:
                    self._say("undecided", path, f"only the first {_MOST_PARTS:,} parts of the value were examined")
                    return
                try:
                    if self.emptiness.term(term):
                        continue
                    inner = self._part(term.shape(), path)
                except LimitError as error:
                    self._say("undecided", path, f"whether it is bounded: {error.message}")
                    continue
                if not isinstance(term, Fixed):  # bare types are shared by all places, and have no parts of their own
                    above.add(term)
                    stack.append((term, path, True))
                stack += [(one, place, False) for one, place in reversed(inner)]

    def _part(self, shape: Shape, path: str) -> list[tuple[Term, str]]:
        """Reports the findings about a value. Returns its parts with their paths."""
        inner: list[tuple[Term, str]] = []
        anything = shape.null and shape.booleans == 3 and shape.numbers.is_all() and shape.strings.is_all()
        if anything:
            kind = "object" if any(cell is not ANY_OBJECT for cell in shape.objects) else "array"
            self._say(
                "unbounded", path, "no type is given, so values of other types are allowed", f'set "type": "{kind}"'
            )
        else:
            self._string(shape.strings, path)
            self._number(shape.numbers, path)
        for array in shape.arrays:
            if not (anything and array is ANY_ARRAY):
                inner += self._array(array, path)
        for cell in shape.objects:
            if not (anything and cell is ANY_OBJECT):
                inner += self._object(cell, path)
        if len(shape.objects) > 1:
            self._discriminator(shape.objects, path)
        return inner

    def _string(self, strings: Strings, path: str) -> None:
        if self.options.max_string_length is not None or strings.finite_texts() is not None:
            return
        if strings.is_all():
            self._say("unbounded", path, "a string of any length", 'set "maxLength" (or "enum", "pattern", "format")')
        elif not _has_length(strings) and not (strings & Strings.length(LONG + 1)).is_empty():
            self._say("unbounded", path, f"a string of more than {LONG} characters", 'set "maxLength"')

    def _number(self, numbers: Numbers, path: str) -> None:
        for cell in numbers.cells():
            if (cell.low is None or cell.high is None) and self.options.max_integer_digits is None:
                low = [] if cell.low is not None else ['"minimum"']
                high = [] if cell.high is not None else ['"maximum"']
                remedy = f"set {' and '.join(low + high)}, or the option max_integer_digits"
                self._say("unbounded", path, "a number with any number of digits", remedy)
                return
        dense = any(cell.multiple_of is None and cell.low != cell.high for cell in numbers.cells())
        if dense and self.options.max_fraction_digits is None:
            remedy = 'set "multipleOf" (0.01), or the option max_fraction_digits'
            self._say("unbounded", path, "a number with any number of digits after the point", remedy)

    def _array(self, cell: ArrayCell, path: str) -> list[tuple[Term, str]]:
        open_end = (cell.max is None or cell.max > len(cell.prefix)) and not self.emptiness.term(cell.rest)
        if open_end and cell.max is None and self.options.max_items is None:
            values = self.emptiness.count(cell.rest) if cell.unique else None
            if values is None:
                self._say(
                    "unbounded", path, "an array of any number of items", 'set "maxItems", or the option max_items'
                )
        inner = [(term, f"{path}[{i}]") for i, term in enumerate(cell.prefix)]
        return [*inner, (cell.rest, f"{path}[*]")] if open_end else inner

    def _object(self, cell: ObjectCell, path: str) -> list[tuple[Term, str]]:
        inner = [(term, f"{path}{_step(name)}") for name, term in cell.named.items()]
        for keys, term in self.algebra.regions(cell):
            if self.emptiness.term(term) or keys.is_empty():
                continue
            if cell.max is None and keys.finite_texts() is None:
                if term is TRUE:
                    remedy = 'set "additionalProperties": false (or a schema for them, and "maxProperties")'
                    self._say("unbounded", path, "further members, with any names and values", remedy)
                    continue
                self._say("unbounded", path, "any number of members", 'set "maxProperties"')
            inner.append((term, f"{path}.*"))
        self._order(cell, path)
        return inner

    # -- advice
    def _order(self, cell: ObjectCell, path: str) -> None:
        written = [name for name, term in cell.named.items() if not self.emptiness.term(term)]
        optional = [name for name in written if name not in cell.required]
        if len(optional) >= 3:
            self._say(
                "advice",
                path,
                f"{len(optional)} of {len(written)} members are optional, and small models often leave them out",
                'list those that are wanted in "required"',
            )
        answers = [i for i, name in enumerate(written) if _ANSWERS.fullmatch(name)]
        thoughts = [i for i, name in enumerate(written) if _THOUGHTS.fullmatch(name)]
        if answers and thoughts and answers[0] < thoughts[0]:
            self._say(
                "advice",
                path,
                f"{written[answers[0]]!r} is written before {written[thoughts[0]]!r}, which then cannot lead to it",
                f"declare {written[thoughts[0]]!r} first",
            )

    def _discriminator(self, cells: tuple[ObjectCell, ...], path: str) -> None:
        """Advises to write a member that tells alternatives apart first."""
        common = frozenset.intersection(*(cell.required for cell in cells))
        for name in cells[0].named:
            if name not in common:
                continue
            texts = [cell.named[name].shape().strings.finite_texts() for cell in cells]
            known = [one for one in texts if one]
            if len(known) == len(cells) and sum(map(len, known)) == len(frozenset.union(*known)):
                if any(next(iter(cell.named)) != name for cell in cells):
                    self._say(
                        "advice",
                        path,
                        f"{name!r} tells {len(cells)} alternatives apart, but is not written first in all of them",
                        f"declare {name!r} first, so that the model chooses before it writes the rest",
                    )
                return


def _has_length(strings: Strings) -> bool:
    """Whether the schema states a maximum length."""
    kind, parts = strings._kind, strings._parts
    if kind == "length":
        return parts[1] is not None
    if kind in ("and", "or"):
        found = map(_has_length, parts)
        return any(found) if kind == "and" else all(found)
    return kind in ("texts", "none")


def _step(name: str) -> str:
    return f".{name}" if re.fullmatch(r"\w+", name) else f"[{name!r}]"


# -- masks -------------------------------------------------------------------------------------------------------------
def _measure(constraint: JsonSchema, vocabulary: Vocabulary) -> MaskCost:
    """Walks through random allowed tokens, always the same ones."""
    import random

    import numpy as np

    from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool
    from guiderail.matching.guide import compile

    assert vocabulary.core.size == vocabulary.size  # its trie is made before the clock starts
    guide = compile(constraint, vocabulary, cache=False)
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    matcher = guide.matcher()
    first = _timed(lambda: matcher.fill_next_token_bitmask(bitmask))
    stops = list(vocabulary.stop_token_ids)
    draw = random.Random(0)
    times: list[float] = []
    start = bitmask_to_bool(bitmask, vocabulary.size)[0]
    start[stops] = False
    allowed = start
    deadline = time.perf_counter() + _MASK_SECONDS
    while len(times) < _MASKS and time.perf_counter() < deadline:
        candidates = np.flatnonzero(allowed)
        if len(candidates) == 0:
            matcher.reset()
        else:
            matcher.accept_token(int(candidates[draw.randrange(len(candidates))]))
        times.append(_timed(lambda: matcher.fill_next_token_bitmask(bitmask)))
        allowed = bitmask_to_bool(bitmask, vocabulary.size)[0]
        allowed[stops] = False
    return MaskCost(
        bytes_per_mask=bitmask.nbytes,
        allowed_at_start=int(start.sum()),
        first_microseconds=first,
        mean_microseconds=sum(times) / max(1, len(times)),
        max_microseconds=max(times, default=0.0),
        steps=len(times),
        guide_bytes=guide.memory_size_bytes(),
    )


def _timed(run: Callable[[], object]) -> float:
    """Microseconds."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1e6
