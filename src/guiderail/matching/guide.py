"""A constraint compiled for a vocabulary."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.program import FUEL, MAX_NODES, build_program
from guiderail.constraints.special_tokens import special_tokens_of
from guiderail.constraints.unsatisfiable import explained
from guiderail.errors import CompileError
from guiderail.frontends.given import constraint_of
from guiderail.matching.matcher import Matcher
from guiderail.support.arguments import checked, checked_methods
from guiderail.support.caches import cached_bytes, clear_caches
from guiderail.support.locks import free_after_fork
from guiderail.support.options import check_flag, check_integer
from guiderail.support.other_names import unknown_attributes
from guiderail.support.suggestions import resembling
from guiderail.support.work import MAX_STEP_WORK, MAX_WORK, allowed
from guiderail.vocabulary.adapted import forget_vocabularies, vocabulary_of

if TYPE_CHECKING:
    from guiderail.constraints.reading import Reading
    from guiderail.matching.token_automaton import TokenAutomaton
    from guiderail.vocabulary import Vocabulary

__all__ = ["Guide", "MemoryUse", "clear_cache", "compile", "memory_use"]

MAX_MEMORY = 128 << 20
"""Default of ``max_memory``: bytes beyond which a guide starts new texts without earlier states and masks."""

PREPARE = 8
"""Default of ``prepare``: masks made while compiling, where texts are JSON."""

_MOST_PREPARED = 4096
_CONTINUATIONS = 1024  # states whose results example_continuations keeps
_CACHED_GUIDES = 128
_CACHED_BYTES = 256 << 20  # total of all cached guides, as Guide.memory_size_bytes counts
_CHECK_AFTER = 64  # uses until the bytes are counted again
_CHECK_ADDED = 8  # or new guides, of a total of this fraction of _CACHED_BYTES


class Options(NamedTuple):
    """The options of a guide: see :func:`compile`."""

    max_nodes: int = MAX_NODES
    fuel: int = FUEL
    max_memory: int = MAX_MEMORY
    prepare: int = PREPARE
    max_work: int = MAX_WORK
    max_step_work: int = MAX_STEP_WORK
    canonical: bool = False


_Key = tuple[int, Constraint, Options]
_cache: OrderedDict[_Key, Guide] = OrderedDict()
_uses = _added = 0  # since the bytes were last counted
_lock = free_after_fork(threading.Lock())


@checked_methods
class Guide:
    """A constraint compiled for a vocabulary. All generations under it share its states and masks.

    It is safe to use from many threads at once. It can be pickled; loading the pickle compiles the constraint again.

    States and masks are made when they are first needed, and those of earlier outputs make later ones fast. A guide
    keeps up to ``max_memory`` bytes of them (see :func:`compile`). Beyond that, the next matcher that is made or reset
    starts on a fresh copy of the compiled constraint. Matchers in the middle of an output keep what they have, and the
    last of them frees it.
    """

    __slots__ = ("__weakref__", "_continuations", "_options", "constraint", "core", "vocabulary")

    __getattr__ = unknown_attributes(
        **dict.fromkeys(
            ("mask", "accept_token", "fill_next_token_bitmask", "get_next_instruction", "get_tokens", "advance"),
            "matcher() makes the matcher of one text, which has the masks",
        ),
        **dict.fromkeys(
            ("matches", "explain", "read", "parse"), "it belongs to what was compiled: guide.constraint.matches(text) …"
        ),
    )

    def __init__(self, constraint: Constraint, vocabulary: Vocabulary, options: Options | None = None) -> None:
        self.constraint = constraint
        self.vocabulary = vocabulary
        self._options = options = options or Options()
        with special_tokens_of(vocabulary):  # markers of tags and tool calls may be tokens of it
            program = build_program(
                constraint,
                max_nodes=options.max_nodes,
                fuel=options.fuel,
                max_work=options.max_work,
                max_step_work=options.max_step_work,
            )
        named: set[str | int] = set()
        special = vocabulary.special_tokens
        for symbol in program.symbols():
            if isinstance(symbol, str) and symbol not in special:
                near = resembling(symbol, special)
                end = "its special_tokens lists those it has" if near is None else f"did you mean {near!r}?"
                raise CompileError(f"the vocabulary has no special token {symbol!r}; {end}", code="unknown-token")
            named.update(symbol.tokens if isinstance(symbol, _core.TokenSet) else [symbol])
        known = {name: special[name] for name in named if isinstance(name, str) and name in special}
        self._continuations: dict[tuple[int, int, int], list[str]] = {}
        try:
            self.core = _core.Guide(program, vocabulary.core, known, options.max_memory)
        except CompileError as error:
            with special_tokens_of(vocabulary):
                raise explained(error, constraint) from None
        if options.canonical:
            self.core.require(vocabulary.spelling)
        if options.prepare:
            self.core.prepare(options.prepare)

    @property
    def _program(self) -> _core.Program:
        """The program that a new matcher starts on. States of older matchers may belong to another one: see
        Matcher.program.
        """
        return self.core.program

    @property
    def is_canonical(self) -> bool:
        """Whether only canonical spellings are allowed; see ``canonical`` of :func:`compile`."""
        return self._options.canonical

    def matcher(self, stop_token_ids: Sequence[int] | int | None = None) -> Matcher:
        """Returns a new matcher at the start of the constraint.

        Args:
            stop_token_ids: the token, or tokens, that end the text wherever it may end; by default the vocabulary's.
                An empty list: no token ends it, and the matcher never terminates.

        Raises:
            VocabularyError: ``bad-token-id``: they are not token ids.
            MatcherError: ``matcher-token``: the vocabulary has no such token.
        """
        return Matcher(self, stop_token_ids)

    def reading(self) -> Reading:
        """Returns the reader of generated texts; see :meth:`Constraint.reading`."""
        return self.constraint.reading()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the constraint to a file, compiled for this vocabulary; see :meth:`Constraint.save`.

        The file does not hold the vocabulary: :meth:`Vocabulary.save` writes that.

        Raises:
            CompileError: ``saved-file``: the file cannot be written.
        """
        self.constraint.save(path, vocabulary=self.vocabulary)

    def to_token_automaton(self, max_states: int = 10_000) -> TokenAutomaton:
        """Writes the constraint out over tokens: every state, every allowed token, and the state after it.

        This is the index σ of Willard & Louf (2023, Algorithm 4) and the composition of Koo, Liu & He (2024, §3.2), for
        constraints with finitely many states.

        Args:
            max_states: maximum number of states; more raise a LimitError. A transition takes 8 bytes, and a state has
                up to one for each token.

        Raises:
            CompileError: ``canonical-automaton``: the guide allows only canonical spellings, which have no such
                automaton.
            LimitError: ``states``: see ``max_states``.
        """
        if self.is_canonical:
            raise CompileError(
                "a guide with canonical=True has no token automaton; compile the constraint without that option",
                code="canonical-automaton",
            )
        from guiderail.matching.token_automaton import TokenAutomaton

        indptr, token, next_state, accepting = self.core.token_automaton(max_states)
        return TokenAutomaton(
            indptr=indptr,
            token=token,
            next_state=next_state,
            accepting=accepting.view(bool),
            vocabulary_size=self.vocabulary.size,
            stop_token_ids=tuple(self.vocabulary.stop_token_ids),
        )

    def example_continuations(self, state: int, limit: int = 16, *, program: _core.Program | None = None) -> list[str]:
        """Returns a few short texts that may follow a state, for probing tokenizers.

        Args:
            state: a state of a matcher.
            limit: maximum number of texts.
            program: the program of that matcher; by default that of a new one.
        """
        program = self._program if program is None else program
        key = (program.serial, state, limit)
        known = self._continuations.get(key)
        if known is not None:
            return list(known)
        found: list[str] = []
        first = list(program.first_bytes(state))
        step = max(1, len(first) // limit)
        for byte in (byte for begin in range(step) for byte in first[begin::step]):  # far apart ones first
            if len(found) == limit:
                break
            after = program.derivative(state, bytes([byte]))
            rest = program.shortest(after, 4)  # longer ones take too long to search, and merge in the same way
            text = (bytes([byte]) + (rest or b"")).decode(errors="ignore")
            if text:
                found.append(text)
        if len(self._continuations) >= _CONTINUATIONS:
            self._continuations.clear()
        self._continuations[key] = found
        return list(found)

    def memory_size_bytes(self) -> int:
        """Returns how many bytes this guide holds: expressions, transitions and masks.

        This includes what matchers in the middle of an output still hold from before a renewal, but not the vocabulary
        and its caches. The call takes about a microsecond.
        """
        return self.core.memory_size_bytes()

    def dump(self, state: int | None = None) -> str:
        """Returns the expression of a state (by default the start) as readable text.

        Args:
            state: a state of a matcher made since the guide was last renewed; :meth:`Matcher.dump` knows that of any
                matcher.
        """
        return self._program.dump(self.core.root if state is None else state)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.constraint, self.vocabulary, self._options)

    def __repr__(self) -> str:
        return f"<Guide of {self.constraint!r} over {self.vocabulary!r}>"


def _rebuild(constraint: Constraint, vocabulary: Vocabulary, options: Options) -> Guide:
    return compile(constraint, vocabulary, **options._asdict())


@checked
def compile(
    constraint: Any,
    vocabulary: Any,
    *,
    cache: bool = True,
    max_nodes: int = MAX_NODES,
    fuel: int = FUEL,
    max_memory: int = MAX_MEMORY,
    prepare: int = PREPARE,
    max_work: int | None = None,
    max_step_work: int = MAX_STEP_WORK,
    canonical: bool = False,
) -> Guide:
    """Compiles a constraint for a vocabulary. This is cheap: most states and masks are made during generation.

    Args:
        constraint: the result of :func:`regex`, :func:`choice`, :func:`json_schema` …; or what :func:`generate` takes:
            a JSON Schema (a dict), a Python type, a list of strings. A dict has its properties in declared order, while
            ``json_schema(schema)`` allows any order unless you pass ``property_order``. Both allow JSON on one line,
            with or without spaces.
        vocabulary: the vocabulary of the model that will write the text; the model itself, if :func:`load_model` made
            it; or its tokenizer (of transformers, tokenizers, tiktoken, SentencePiece, mistral-common,
            llama-cpp-python, or the path of one). The vocabularies of the last 8 tokenizers are kept.
        cache: return an equal guide compiled earlier. The cache keeps the 128 most recently used, as long as they
            hold at most 256 MiB together (the last one in any case); see :func:`clear_cache`.
        max_nodes: maximum number of expressions at once, about 100 bytes each; more raise a LimitError.
        fuel: maximum number of states that one emptiness test of an intersection, complement or look-around may visit;
            more raise a LimitError.
        max_memory: bytes of states and masks that may remain from earlier outputs; beyond that, the next text starts
            without them. 0 means no limit. An output in progress is never cut short, and a constraint that is large
            from the start may grow to twice its size. Half of ``max_nodes`` counts as reaching the limit, too.
        prepare: number of masks to make while compiling JSON, some 10 µs each, 0 to 4,096. They belong to a likely
            text: everything declared, in order. Nearly every output reaches the first of them, so its first tokens do
            not wait.
        max_work: maximum number of steps for reading the constraint, some 0.1 µs each; more raise a LimitError with the
            code ``work``. Steps are counted, not timed: the same request gives the same answer everywhere. None: those
            of :class:`max_work`, by default 20,000,000.
        max_step_work: maximum number of steps for one mask or for reading one token; a search for an end may take
            forty times as many. More raise a LimitError with the code ``step-work``. Known states and masks cost
            nothing, so an output may need fewer steps after others (``docs/limits.md``).
        canonical: allow only those tokens that the tokenizer itself would make of the text, as far as the text can
            still be completed that way (``docs/canonical.md``).

    Raises:
        CompileError: the constraint matches no text, or names a special token that the vocabulary lacks; ``max_memory``
            is negative, or ``prepare`` is out of range.
        VocabularyError: ``no-spelling``: ``canonical=True``, and guiderail cannot tell how this tokenizer spells.
        LimitError: see ``max_nodes``, ``fuel`` and ``max_work``.
    """
    constraint, vocabulary = constraint_of(constraint), vocabulary_of(vocabulary)
    check_flag("cache", cache, code="bad-option")
    check_flag("canonical", canonical, code="bad-option")
    check_integer("prepare", prepare, 0, _MOST_PREPARED, meaning="masks")
    check_integer("max_memory", max_memory, 0, meaning="bytes; 0: no limit")
    work = allowed() if max_work is None else max_work
    options = Options(max_nodes, fuel, max_memory, prepare, work, max_step_work, canonical)
    if not cache:
        return Guide(constraint, vocabulary, options)
    # The guide keeps its vocabulary, so the id, alive.
    key = (id(vocabulary), constraint, options)
    with _lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
    if known is not None:
        _make_room(0)
        return known
    guide = Guide(constraint, vocabulary, options)
    with _lock:
        guide = _cache.setdefault(key, guide)
        _cache.move_to_end(key)
    _make_room(guide.core.memory_size_bytes())
    return guide


def _make_room(added: int) -> None:
    """Drops guides for which the cache has no room, the least recently used first.

    All bytes are counted from time to time, after uses too, because guides grow without being compiled.

    Args:
        added: the bytes of a guide that is new.
    """
    global _uses, _added
    dropped = []  # to be freed without the lock
    with _lock:
        while len(_cache) > _CACHED_GUIDES:
            dropped.append(_cache.popitem(last=False)[1])
        _uses += 1
        _added += added
        if _uses >= _CHECK_AFTER or _added >= _CACHED_BYTES // _CHECK_ADDED:
            _uses = _added = 0
            sizes = {key: guide.core.memory_size_bytes() for key, guide in _cache.items()}
            total = sum(sizes.values())
            while total > _CACHED_BYTES and len(_cache) > 1:
                key, guide = _cache.popitem(last=False)
                total -= sizes[key]
                dropped.append(guide)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What the process holds, in bytes.

    Attributes:
        cached_guides: the guides that :func:`compile` keeps, as :meth:`Guide.memory_size_bytes` counts; at most 256
            MiB.
        parsed: parsed schemas, patterns, types and numbers, and programs, that are kept for later, approximately. Each
            kind is bounded, at most 232 MiB in total.
        character_sets: sets of characters and their automata. Guides and patterns share them; a set lives as long as
            one of these.
        native: the heap and the large pages in use: all of the above, guides, vocabularies, and everything else in the
            process. The heap is known only on Linux. Free memory stays with the process for later use;
            :func:`clear_cache` gives it back.
    """

    cached_guides: int
    parsed: int
    character_sets: int
    native: int


@checked
def memory_use() -> MemoryUse:
    """Returns how much memory the process holds. :meth:`Guide.memory_size_bytes` returns that of one guide.

    Guides that nobody uses any more are freed first; otherwise a thread frees them 16 at a time.

    >>> import guiderail as gr
    >>> gr.clear_cache()
    >>> gr.memory_use().cached_guides
    0
    """
    with _lock:
        guides = list(_cache.values())
    sizes = sum(guide.memory_size_bytes() for guide in guides)
    native = _core.heap_in_use() + _core.pages_in_use()
    return MemoryUse(sizes, cached_bytes(), _core.character_sets_bytes(), native)


@checked
def clear_cache() -> None:
    """Drops the guides and vocabularies that :func:`compile` keeps, and parsed schemas, and frees their memory."""
    with _lock:
        dropped = list(_cache.values())
        _cache.clear()
    forget_vocabularies()
    del dropped  # freed without the lock
    clear_caches()
    _core.trim_heap()
