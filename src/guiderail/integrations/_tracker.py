"""From token histories to constraint states, for libraries that show a mask function nothing but the tokens
so far.

Such a library calls ``f(input_ids, scores)`` once a step and says nothing of beams that were reordered, rows
that are finished, candidates that were rejected, or a new prompt that has begun. But the state of a row is a
function of what was generated in it, so that is what is kept: a table from generated suffixes to matchers. A
row is looked up by its suffix, or made from the entry of its parent (one token less) by a fork, which is
cheap because a state is one integer. Reordering, rejecting and repeating then need no code at all.

A call begins a new prompt when it descends from no known rows: the prompt differs, a parent was never seen, every row
had ended, or none of the new tokens is one that the constraint allows. The last few prompts are kept, because
speculative decoding also shows rows that were never drawn, and then goes back. One case cannot be told from outside: a
prompt that is the last prompt and an allowed text after it counts as a continuation. ``reset`` says otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.constraint import Constraint
from guiderail.errors import CompileError, MatcherError
from guiderail.guide import Guide, compile
from guiderail.matcher import Matcher, fill_next_token_bitmasks
from guiderail.vocabulary import Vocabulary

__all__ = ["StateTracker", "as_guides"]

_KEPT_STEPS = 64  # histories kept a row: more than speculative decoding ever goes back
_KEPT_PROMPTS = 4
_Key = tuple[int, tuple[int, ...]]


@dataclass(slots=True, eq=False)
class _Run:
    """One prompt and what is known of the texts after it. None: the row has left the constraint."""

    prompt: NDArray[np.int64]
    known: OrderedDict[_Key, Matcher | None] = field(default_factory=OrderedDict)


class StateTracker:
    """Matchers for the rows of a batch, found by what each row has generated.

    Args:
        guides: one for all rows, or one for each prompt; rows ``i * n .. (i + 1) * n - 1`` (beams, returned
            sequences) then belong to guide ``i``.
        stop_token_ids: what ends a text; by default what the vocabularies say.
    """

    def __init__(self, guides: Sequence[Guide], stop_token_ids: Sequence[int] | None = None) -> None:
        self.guides = list(guides)
        self.vocabulary = self.guides[0].vocabulary
        self._starts = [guide.matcher(stop_token_ids) for guide in self.guides]
        self.stop_token_ids: list[int] = self._starts[0].stop_token_ids()
        self._runs: list[_Run] = []  # the one used last is last

    def reset(self) -> None:
        """The next call begins a new prompt."""
        self._runs.clear()

    def fill(self, ids: NDArray[np.int64], bitmask: NDArray[np.int32]) -> None:
        """Writes the masks of the next token.

        Rows that have ended, or left the constraint (beams of probability 0 do), may only stop; if they go on
        regardless, the stop tokens they have not used yet are offered.

        Args:
            ids: tokens so far, shape ``(rows, width)``, prompt and left padding included.
            bitmask: int32, shape ``(rows, >= ceil(vocabulary.size / 32))``.

        Raises:
            MatcherError: ``bad-batch`` if the rows cannot be shared out among the guides.
        """
        rows = len(ids)
        if rows == 0 or rows % len(self.guides):
            raise MatcherError(
                f"{rows} rows cannot be shared out among {len(self.guides)} constraints; give one constraint, or "
                "one for each prompt of the batch",
                code="bad-batch",
            )
        share = rows // len(self.guides)
        for run in reversed(self._runs):
            found = self._continued(run, ids, share)
            if found is not None:
                self._runs.remove(run)
                break
        else:
            run = _Run(ids.copy())
            keys: list[_Key] = [(row // share, ()) for row in range(rows)]
            found = keys, [self._state(run, key) for key in keys]
        self._runs = [*self._runs[1 - _KEPT_PROMPTS :], run]
        keys, matchers = found
        open_rows = [row for row, m in enumerate(matchers) if m is not None and not m.is_terminated()]
        if open_rows:
            running: list[Any] = [matchers[row] for row in open_rows]
            fill_next_token_bitmasks(running, bitmask, open_rows)
        for row in set(range(rows)).difference(open_rows):
            used = set(keys[row][1])
            left = [token for token in self.stop_token_ids if token not in used]
            self._only(bitmask[row], left or self.stop_token_ids)
        while len(run.known) > _KEPT_STEPS * rows:
            run.known.popitem(last=False)

    def _continued(
        self, run: _Run, ids: NDArray[np.int64], share: int
    ) -> tuple[list[_Key], list[Matcher | None]] | None:
        """The rows as continuations of known ones, or None if they are not."""
        width = run.prompt.shape[1]
        if len(ids) != len(run.prompt) or ids.shape[1] <= width or not np.array_equal(ids[:, :width], run.prompt):
            return None
        keys: list[_Key] = [(row // share, tuple(t)) for row, t in enumerate(ids[:, width:].tolist())]
        parents: list[_Key] = [(guide, suffix[:-1]) for guide, suffix in keys]
        if not all(parent in run.known for parent in parents):
            return None
        before = [run.known[parent] for parent in parents]
        running = [m is not None and not m.is_terminated() for m in before]
        if not any(running):
            return None
        fresh = [key for key in keys if key not in run.known]
        states = [self._state(run, key) for key in keys]
        for guide in range(len(self.guides)):
            rows = [row for row in range(guide * share, (guide + 1) * share) if running[row]]
            if rows and all(states[row] is None for row in rows):
                for key in fresh:  # drawn tokens are allowed ones: these were not drawn
                    run.known.pop(key, None)
                return None
        return keys, states

    def _state(self, run: _Run, key: _Key) -> Matcher | None:
        if key in run.known:
            run.known.move_to_end(key)
            return run.known[key]
        guide, suffix = key
        if not suffix:
            state: Matcher | None = self._starts[guide].fork()
        else:
            parent = run.known[guide, suffix[:-1]]
            if parent is None or parent.is_terminated():
                state = parent  # what follows an end is padding
            else:
                child = parent.fork()
                known_token = 0 <= suffix[-1] < self.vocabulary.size
                state = child if known_token and child.accept_token(suffix[-1]) else None
        run.known[key] = state
        return state

    @staticmethod
    def _only(words: NDArray[np.int32], tokens: Iterable[int]) -> None:
        bits = words.view(np.uint32)
        bits[:] = 0
        for token in tokens:
            bits[token >> 5] |= np.uint32(1 << (token & 31))


def as_guides(constraint: Any, vocabulary: Any) -> list[Guide]:
    """Guides of what a user passes: guides or constraints, one or several, and the tokenizer to compile them
    for.

    Args:
        constraint: a guide, a constraint, or a sequence of them.
        vocabulary: a Vocabulary or a tokenizer of transformers; needed unless only guides are given.

    Raises:
        CompileError: something is neither guide nor constraint, the vocabulary is missing, or guides differ
        in it.
    """
    several = list(constraint) if isinstance(constraint, list | tuple) else [constraint]
    if not several:
        raise CompileError("at least one guide or constraint is needed", code="not-a-constraint")
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.from_huggingface(vocabulary)
    guides = []
    for one in several:
        if isinstance(one, Constraint) and vocabulary is None:
            raise CompileError(
                "a constraint needs the vocabulary or tokenizer it is for; pass vocabulary=...",
                code="no-vocabulary",
            )
        guides.append(one if isinstance(one, Guide) else compile(one, vocabulary))
    first = guides[0].vocabulary if vocabulary is None else vocabulary
    if any(guide.vocabulary is not first and guide.vocabulary != first for guide in guides):
        raise CompileError("the guides were compiled for different vocabularies", code="other-vocabulary")
    return guides
