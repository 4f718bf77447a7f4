"""The constraints of an engine's requests, compiled once and shared.

Serving engines pass a constraint as a kind and a text. A :class:`GuideStore` compiles them. It keeps the most recently
used guides, has equal concurrent requests wait for one compilation, and gives up one that takes too long.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail.constraints.constraint import Constraint, choice
from guiderail.errors import CompileError, LimitError
from guiderail.matching.bitmask import allocate_token_bitmask
from guiderail.matching.guide import Guide, compile
from guiderail.support.json_objects import loads
from guiderail.support.work import MAX_WORK, max_work

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["KINDS", "Asked", "GuideStore", "compile_seconds", "constraint_of", "grammar_of", "within"]

KINDS = ("json", "json_object", "regex", "grammar", "choice", "structural_tag")
_SECONDS = "GUIDERAIL_COMPILE_SECONDS"


@dataclass(frozen=True, slots=True)
class Asked:
    """A constraint as a request describes it.

    Attributes:
        kind: one of ``KINDS``.
        text: a JSON Schema, a pattern, a grammar, a JSON list of strings, a structural tag; empty for ``json_object``.
        compact: JSON without whitespace between its parts, instead of that of ``json.dumps``.
        whitespace: a pattern of the whitespace between the parts of JSON, instead of that of ``json.dumps``.
    """

    kind: str
    text: str
    compact: bool = False
    whitespace: str | None = None


def constraint_of(asked: Asked, vocabulary: Vocabulary | None) -> Constraint:
    """Returns the constraint that a request describes, as a model writes under it. May take long.

    Args:
        asked: the description.
        vocabulary: the model's vocabulary, whose special tokens a structural tag may name.

    Raises:
        GuiderailError: the request is malformed, or nothing can be written under it.
    """
    return _described(asked, vocabulary).as_written()


def _described(asked: Asked, vocabulary: Vocabulary | None) -> Constraint:
    if asked.kind in ("json", "json_object"):
        from guiderail.frontends.json_schema import json_schema
        from guiderail.frontends.json_schema.lowering.layout import layout_of

        schema: Any = asked.text if asked.kind == "json" else {"type": "object"}
        return json_schema(schema, **layout_of(asked.compact, asked.whitespace))
    if asked.compact or asked.whitespace is not None:
        raise CompileError(f"only a schema can say how JSON is spaced, not {asked.kind!r}", code="bad-option")
    if asked.kind == "regex":
        from guiderail.frontends.regex import regex

        return regex(asked.text)
    if asked.kind == "grammar":
        return grammar_of(asked.text)
    if asked.kind == "choice":
        return choice(_texts(asked.text))
    if asked.kind == "structural_tag":
        from guiderail.frontends.tools import structural_tag

        return structural_tag(asked.text, vocabulary=vocabulary)
    raise CompileError(
        f"the kind of a constraint must be one of {', '.join(KINDS)}, not {asked.kind!r}", code="bad-option"
    )


def grammar_of(text: str) -> Constraint:
    """Returns the constraint of a grammar in Lark, GBNF (XGrammar's EBNF) or EBNF, recognized by its text.

    A grammar that could be GBNF or EBNF is read as GBNF, which is what serving engines mean by ``::=``.

    Raises:
        GuiderailError: the grammar is malformed.
    """
    from guiderail.frontends.grammar import grammar

    try:
        return grammar(text)
    except CompileError as error:
        if error.code != "grammar-notation" or "::=" not in text:
            raise
    return grammar(text, syntax="gbnf")


def _texts(text: str) -> list[str]:
    try:
        found = loads(text)
    except ValueError as error:
        raise CompileError(f"the choices are not a JSON list: {error}", code="not-a-constraint") from None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise CompileError("choices must be a list of one or more strings", code="not-a-constraint")
    return found


def compile_seconds() -> float:
    """Returns how long a compilation may take, in seconds, from the environment (``GUIDERAIL_COMPILE_SECONDS``);
    default 30.

    Raises:
        CompileError: the variable is not a positive number.
    """
    given = os.environ.get(_SECONDS, "30")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise CompileError(f"{_SECONDS} must be a positive number of seconds, not {given!r}", code="bad-option")
    return seconds


def limits() -> dict[str, Any]:
    """Returns the limits on the work for a constraint and its masks, from the environment; see ``docs/limits.md``.

    Raises:
        CompileError: a variable is not a positive number.
    """
    found = {}
    for option in ("max_work", "max_step_work"):
        name = f"GUIDERAIL_{option.upper()}"
        given = os.environ.get(name)
        if given is None:
            continue
        if not given.isascii() or not given.isdigit() or int(given) == 0:
            raise CompileError(f"{name} must be a positive number of steps, not {given!r}", code="bad-option")
        found[option] = int(given)
    return found


class _Interrupted(BaseException):
    """Raised in a thread that has taken too long. Not an Exception, so that no ``except Exception`` catches it."""


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """Returns or raises what a function on another thread does, and interrupts it after some seconds.

    Python code stops at once, native code when its call returns (calls of the core are bounded by ``max_nodes`` and
    ``fuel``). The caller does not wait for that.

    Raises:
        LimitError: ``compile-timeout``.
    """
    result: Future[Any] = Future()
    lock, over = threading.Lock(), False

    def run() -> None:
        nonlocal over
        try:
            try:
                value, error = function(), None
            except Exception as raised:
                value, error = None, raised
            with lock:
                over = True
        except _Interrupted:
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    thread = threading.Thread(target=run, name="guiderail-compile", daemon=True)
    thread.start()
    thread.join(seconds)
    with lock:
        late = not over
        if late and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Interrupted))
    if late:
        raise LimitError(
            f"the constraint was not compiled within {seconds:g} seconds; simplify it, or raise {_SECONDS}",
            code="compile-timeout",
        )
    return result.result()


class GuideStore:
    """Guides by request. Safe to use from many threads at once.

    Args:
        vocabulary: a function that returns the vocabulary; called once, for the first guide or by :meth:`warm`.
        max_guides: maximum number of guides to keep; the least recently used are dropped.
        max_bytes: maximum number of bytes that they may hold together, as ``Guide.memory_size_bytes`` counts. The most
            recently used guide is always kept.
    """

    def __init__(
        self, vocabulary: Callable[[], Vocabulary], *, max_guides: int = 512, max_bytes: int = 512 << 20
    ) -> None:
        self._make = vocabulary
        self._vocabulary: Vocabulary | None = None
        self._max_guides, self._max_bytes = max_guides, max_bytes
        self._guides: OrderedDict[Asked, Guide] = OrderedDict()
        self._running: dict[Asked, Future[Guide]] = {}
        self._lock = threading.Lock()
        self._vocabulary_lock = threading.Lock()

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, made on first use."""
        with self._vocabulary_lock:
            if self._vocabulary is None:
                self._vocabulary = self._make()
            return self._vocabulary

    def warm(self) -> None:
        """Makes the vocabulary, and the masks that most JSON shares, in advance."""
        self.guide(Asked("json_object", ""))

    def guide(self, asked: Asked) -> Guide:
        """Returns the guide of a request, with its first mask filled.

        Raises:
            GuiderailError: the request is malformed, nothing can be written under it, or it takes too long (see
                :func:`compile_seconds`).
        """
        with self._lock:
            known = self._guides.get(asked)
            if known is not None:
                self._guides.move_to_end(asked)
                return known
            running = self._running.get(asked)
            if running is None:
                mine = self._running[asked] = Future()
        if running is not None:
            return running.result()
        try:
            seconds = compile_seconds()
            vocabulary = self.vocabulary

            def work() -> Guide:
                bounds = limits()
                with max_work(bounds.get("max_work", MAX_WORK)):
                    guide = compile(constraint_of(asked, vocabulary), vocabulary, cache=False, **bounds)
                # The first mask of a constraint often costs most: it is made here, where only this request waits.
                guide.matcher().fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary.size), 0)
                return guide

            guide: Guide = within(seconds, work)
        except BaseException as error:
            with self._lock:
                del self._running[asked]
            mine.set_exception(error)
            raise
        with self._lock:
            self._guides[asked] = guide
            del self._running[asked]
            dropped = self._make_room()
        mine.set_result(guide)
        del dropped  # freed without the lock
        return guide

    def _make_room(self) -> Sequence[Guide]:
        dropped = []
        sizes = {asked: guide.memory_size_bytes() for asked, guide in self._guides.items()}
        total = sum(sizes.values())
        while len(self._guides) > 1 and (len(self._guides) > self._max_guides or total > self._max_bytes):
            asked, guide = self._guides.popitem(last=False)
            total -= sizes[asked]
            dropped.append(guide)
        return dropped

    def clear(self) -> None:
        """Drops all guides."""
        with self._lock:
            dropped = list(self._guides.values())
            self._guides.clear()
        del dropped  # freed without the lock
