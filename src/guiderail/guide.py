"""A constraint compiled for a vocabulary."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.matcher import Matcher
from guiderail.program import FUEL, MAX_NODES, build_program

if TYPE_CHECKING:
    from guiderail.token_automaton import TokenAutomaton
    from guiderail.vocabulary import Vocabulary

__all__ = ["Guide", "clear_cache", "compile"]

_CACHED_GUIDES = 128

_Key = tuple[int, Constraint, int, int]
_cache: OrderedDict[_Key, Guide] = OrderedDict()
_lock = threading.Lock()


class Guide:
    """What all generations under one constraint share: derivatives and masks, found as they are needed.

    Safe to use from many threads at once. Picklable (it is compiled again where it is loaded).
    """

    __slots__ = ("__weakref__", "_limits", "_program", "constraint", "core", "vocabulary")

    def __init__(
        self, constraint: Constraint, vocabulary: Vocabulary, *, max_nodes: int = MAX_NODES, fuel: int = FUEL
    ) -> None:
        self.constraint = constraint
        self.vocabulary = vocabulary
        self._limits = (max_nodes, fuel)
        self._program = build_program(constraint, max_nodes=max_nodes, fuel=fuel)
        named = self._program.symbols()
        known = {
            n: vocabulary.special_tokens[n] for n in named if isinstance(n, str) and n in vocabulary.special_tokens
        }
        self.core = _core.Guide(self._program, vocabulary.core, known)

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

    def example_continuations(self, state: int, limit: int = 16) -> list[str]:
        """A few short texts that may follow in a state, for probing tokenizers."""
        found: list[str] = []
        for byte in self._program.first_bytes(state):
            after = self._program.derivative(state, bytes([byte]))
            rest = self._program.shortest(after, 16)
            text = (bytes([byte]) + (rest or b"")).decode(errors="ignore")
            if text:
                found.append(text)
        step = max(1, len(found) // limit)
        return found[::step][:limit]

    def memory_size_bytes(self) -> int:
        """Bytes held by this guide: expressions, transitions and masks (not the vocabulary and what it caches)."""
        return self.core.memory_size_bytes()

    def dump(self, state: int | None = None) -> str:
        """The expression of a state (the start by default), for people."""
        return self._program.dump(self.core.root if state is None else state)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.constraint, self.vocabulary, *self._limits)

    def __repr__(self) -> str:
        return f"<Guide of {self.constraint!r} over {self.vocabulary!r}>"


def _rebuild(constraint: Constraint, vocabulary: Vocabulary, max_nodes: int, fuel: int) -> Guide:
    return compile(constraint, vocabulary, max_nodes=max_nodes, fuel=fuel)


def compile(
    constraint: Constraint,
    vocabulary: Vocabulary,
    *,
    cache: bool = True,
    max_nodes: int = MAX_NODES,
    fuel: int = FUEL,
) -> Guide:
    """Compiles a constraint for a vocabulary. Cheap: states and masks are found while texts are generated.

    Args:
        constraint: what :func:`regex`, :func:`choice` … return.
        vocabulary: of the model that is to write the text.
        cache: return an equal guide compiled earlier (the 128 most recent are kept; see :func:`clear_cache`).
        max_nodes: expressions the guide may hold, about 100 bytes each; beyond, a LimitError.
        fuel: states that one emptiness test of an intersection, complement or look-around may visit; beyond, a
            LimitError.

    Raises:
        CompileError: the constraint matches no text, or names a special token that the vocabulary lacks.
        LimitError: see ``max_nodes`` and ``fuel``.
    """
    if not isinstance(constraint, Constraint):
        hint = "; gr.regex(...) or gr.literal(...) make one of a string" if isinstance(constraint, str) else ""
        raise CompileError(
            f"compile takes a constraint, not {type(constraint).__name__}{hint}", code="not-a-constraint"
        )
    if not cache:
        return Guide(constraint, vocabulary, max_nodes=max_nodes, fuel=fuel)
    key = (
        id(vocabulary),
        constraint,
        max_nodes,
        fuel,
    )  # the guide keeps its vocabulary, and so the id, alive
    with _lock:
        if (known := _cache.get(key)) is not None:
            _cache.move_to_end(key)
            return known
    guide = Guide(constraint, vocabulary, max_nodes=max_nodes, fuel=fuel)
    with _lock:
        guide = _cache.setdefault(key, guide)
        while len(_cache) > _CACHED_GUIDES:
            _cache.popitem(last=False)
    return guide


def clear_cache() -> None:
    """Forgets the compiled guides that :func:`compile` keeps."""
    with _lock:
        _cache.clear()
