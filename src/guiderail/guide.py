"""A constraint compiled for a vocabulary."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.arguments import checked, checked_methods
from guiderail.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.kept import clear_kept
from guiderail.matcher import Matcher
from guiderail.program import FUEL, MAX_NODES, build_program
from guiderail.special_tokens import special_tokens_of
from guiderail.work import MAX_WORK

if TYPE_CHECKING:
    from guiderail.token_automaton import TokenAutomaton
    from guiderail.vocabulary import Vocabulary

__all__ = ["Guide", "clear_cache", "compile"]

MAX_MEMORY = 128 << 20
"""Default of ``max_memory``: bytes beyond which a guide starts new texts without what earlier ones left behind."""

PREPARE = 12
"""Default of ``prepare``: masks made while compiling, where texts are JSON."""

_MOST_PREPARED = 4096
_CONTINUATIONS = 1024  # states of which example_continuations keeps what it found
_CACHED_GUIDES = 128
_CACHED_BYTES = 256 << 20  # of all cached guides together, as Guide.memory_size_bytes counts
_CHECK_AFTER = 64  # hits until the bytes are counted again; a miss counts as 8
_MISS = 8

_Key = tuple[int, Constraint, int, int, int, int, int]
_cache: OrderedDict[_Key, Guide] = OrderedDict()
_since_check = 0
_lock = threading.Lock()


@checked_methods
class Guide:
    """What all generations under one constraint share: derivatives and masks, found as they are needed.

    Safe to use from many threads at once. Picklable (it is compiled again where it is loaded).

    What texts leave behind makes later ones fast, and is kept up to ``max_memory`` bytes (see :func:`compile`). The
    first matcher that is made or reset beyond that starts on a fresh copy of the compiled constraint; those that are
    in the middle of a text keep what they have, and the last of them frees it.
    """

    __slots__ = ("__weakref__", "_continuations", "_limits", "constraint", "core", "vocabulary")

    def __init__(
        self,
        constraint: Constraint,
        vocabulary: Vocabulary,
        *,
        max_nodes: int = MAX_NODES,
        fuel: int = FUEL,
        max_memory: int = MAX_MEMORY,
        prepare: int = PREPARE,
        max_work: int = MAX_WORK,
    ) -> None:
        if not 0 <= prepare <= _MOST_PREPARED:
            raise CompileError(
                f"prepare is a number of masks up to {_MOST_PREPARED}, or 0 for none, not {prepare}", code="bad-bound"
            )
        if max_memory < 0:
            raise CompileError(
                f"max_memory is a number of bytes, or 0 for no limit, not {max_memory}", code="bad-bound"
            )
        self.constraint = constraint
        self.vocabulary = vocabulary
        self._limits = (max_nodes, fuel, max_memory, prepare, max_work)
        with special_tokens_of(vocabulary):  # markers of tags and tool calls may be tokens of it
            program = build_program(constraint, max_nodes=max_nodes, fuel=fuel, max_work=max_work)
        named: set[str | int] = set()
        for symbol in program.symbols():
            named.update(symbol.tokens if isinstance(symbol, _core.TokenSet) else [symbol])
        special = vocabulary.special_tokens
        known = {name: special[name] for name in named if isinstance(name, str) and name in special}
        self._continuations: dict[tuple[int, int, int], list[str]] = {}
        self.core = _core.Guide(program, vocabulary.core, known, max_memory)
        if prepare:
            self.core.prepare(prepare)

    @property
    def _program(self) -> _core.Program:
        """What a matcher made now starts on; the states of an older one may belong to another: see Matcher.program."""
        return self.core.program

    def matcher(self, stop_token_ids: Sequence[int] | None = None) -> Matcher:
        """A new matcher at the start of the constraint.

        Args:
            stop_token_ids: tokens that end the text where it may end; by default the vocabulary's.
        """
        return Matcher(self, stop_token_ids)

    def to_token_automaton(self, max_states: int = 10_000) -> TokenAutomaton:
        """The constraint written out over tokens: every state, every allowed token and where it leads.

        This is the index σ of Willard & Louf (2023, Algorithm 4) and the composition of Koo, Liu & He (2024, §3.2),
        for constraints with finitely many states.

        Args:
            max_states: beyond so many states a LimitError is raised. Memory: 8 bytes a transition, of which a state
                has up to one per token.
        """
        from guiderail.token_automaton import TokenAutomaton

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
        """A few short texts that may follow in a state, for probing tokenizers.

        Args:
            state: of a matcher.
            limit: how many at most.
            program: that of the matcher; by default that of a matcher made now.
        """
        program = self._program if program is None else program
        key = (program.serial, state, limit)
        known = self._continuations.get(key)
        if known is not None:
            return list(known)
        found: list[str] = []
        for byte in program.first_bytes(state):
            after = program.derivative(state, bytes([byte]))
            rest = program.shortest(after, 16)
            text = (bytes([byte]) + (rest or b"")).decode(errors="ignore")
            if text:
                found.append(text)
        step = max(1, len(found) // limit)
        found = found[::step][:limit]
        if len(self._continuations) >= _CONTINUATIONS:
            self._continuations.clear()
        self._continuations[key] = found
        return list(found)

    def memory_size_bytes(self) -> int:
        """Bytes held by this guide: expressions, transitions and masks (not the vocabulary and what it caches).

        What matchers in the middle of a text still hold from before a renewal is counted, too. Costs a microsecond.
        """
        return self.core.memory_size_bytes()

    def dump(self, state: int | None = None) -> str:
        """The expression of a state (the start by default), for people.

        Args:
            state: of a matcher made since the guide was last renewed; :meth:`Matcher.dump` knows that of any.
        """
        return self._program.dump(self.core.root if state is None else state)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.constraint, self.vocabulary, *self._limits)

    def __repr__(self) -> str:
        return f"<Guide of {self.constraint!r} over {self.vocabulary!r}>"


def _rebuild(
    constraint: Constraint,
    vocabulary: Vocabulary,
    max_nodes: int,
    fuel: int,
    max_memory: int,
    prepare: int,
    max_work: int,
) -> Guide:
    return compile(
        constraint,
        vocabulary,
        max_nodes=max_nodes,
        fuel=fuel,
        max_memory=max_memory,
        prepare=prepare,
        max_work=max_work,
    )


@checked
def compile(
    constraint: Constraint,
    vocabulary: Vocabulary,
    *,
    cache: bool = True,
    max_nodes: int = MAX_NODES,
    fuel: int = FUEL,
    max_memory: int = MAX_MEMORY,
    prepare: int = PREPARE,
    max_work: int = MAX_WORK,
) -> Guide:
    """Compiles a constraint for a vocabulary. Cheap: states and masks are found while texts are generated.

    Args:
        constraint: what :func:`regex`, :func:`choice` … return.
        vocabulary: of the model that is to write the text.
        cache: return an equal guide compiled earlier. The 128 used last are kept, as long as they hold no more than
            256 MiB together (the one used last is kept in any case); see :func:`clear_cache`.
        max_nodes: expressions that may be needed at once, about 100 bytes each; beyond, a LimitError.
        fuel: states that one emptiness test of an intersection, complement or look-around may visit; beyond, a
            LimitError.
        max_memory: bytes of states and masks beyond which the next text starts without those that earlier texts left
            behind; 0: never. Soft: a text in progress is never cut short by it, and a constraint that is large from
            the start may grow to twice its size. Passing half of ``max_nodes`` counts as well.
        prepare: of JSON, the masks of so many states are made at once, some 10 µs each: those of a text that writes
            what is declared, in order. Nearly every text comes to the first of them, so its first tokens do not wait.
            At most 4,096; 0: none.
        max_work: steps that reading the constraint may take, some 0.1 µs each; beyond, a LimitError with the code
            ``work``. They are counted, not timed: the same request gives the same answer everywhere.

    Raises:
        CompileError: the constraint matches no text, or names a special token that the vocabulary lacks; max_memory is
            negative or prepare out of range.
        LimitError: see ``max_nodes``, ``fuel`` and ``max_work``.
    """
    if not isinstance(constraint, Constraint):
        hint = "; gr.regex(...) or gr.literal(...) make one of a string" if isinstance(constraint, str) else ""
        raise CompileError(
            f"compile takes a constraint, not {type(constraint).__name__}{hint}", code="not-a-constraint"
        )

    def make() -> Guide:
        return Guide(
            constraint,
            vocabulary,
            max_nodes=max_nodes,
            fuel=fuel,
            max_memory=max_memory,
            prepare=prepare,
            max_work=max_work,
        )

    if not cache:
        return make()
    # The guide keeps its vocabulary, so the id, alive.
    key = (id(vocabulary), constraint, max_nodes, fuel, max_memory, prepare, max_work)
    with _lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
    if known is not None:
        _make_room(1)
        return known
    guide = make()
    with _lock:
        guide = _cache.setdefault(key, guide)
        _cache.move_to_end(key)
    _make_room(_MISS)
    return guide


def _make_room(weight: int) -> None:
    """Drops what the cache has no room for, the longest unused first.

    The bytes are counted after every ``_CHECK_AFTER`` of ``weight``: guides grow without being compiled, so that hits
    must count, too.
    """
    global _since_check
    dropped = []  # to be freed without the lock
    with _lock:
        while len(_cache) > _CACHED_GUIDES:
            dropped.append(_cache.popitem(last=False)[1])
        _since_check += weight
        if _since_check >= _CHECK_AFTER:
            _since_check = 0
            sizes = {key: guide.memory_size_bytes() for key, guide in _cache.items()}
            total = sum(sizes.values())
            while total > _CACHED_BYTES and len(_cache) > 1:
                key, guide = _cache.popitem(last=False)
                total -= sizes[key]
                dropped.append(guide)


def clear_cache() -> None:
    """Forgets what :func:`compile` keeps and what was read of schemas; the memory goes back to the system."""
    with _lock:
        dropped = list(_cache.values())
        _cache.clear()
    del dropped  # freed without the lock
    clear_kept()
    _core.trim_heap()
