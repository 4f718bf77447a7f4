"""Finds the constraint states of rows for libraries that show a mask function only the tokens so far.

Such a library calls ``f(input_ids, scores)`` once per step. It says nothing about beams that were reordered, rows that
are finished, candidates that were rejected, or a new prompt. But the state of a row is a function of what was generated
in it. So the tracker keeps a table from generated suffixes to matchers. It looks a row up by its suffix, or forks the
entry of its parent (one token shorter), which is cheap because a state is one integer. Reordering, rejecting and
repeating then need no code at all.

A call begins a new prompt if it descends from no known rows: the prompt differs, a parent is unknown, every row had
ended, or the constraint allows none of the new tokens. Many prompts are kept, because speculative decoding also shows
rows that were never sampled and then goes back, and a batch may be shown row by row. One case is ambiguous: a prompt
that equals an earlier prompt and all that was written after it, or part of that and one allowed token, counts as a
continuation. Call ``reset`` if it is not.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import MatcherError
from guiderail.integrations._rows import as_guides, fill_rows, rows_of_each
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher

__all__ = ["StateTracker", "single_tracker"]

_KEPT_STEPS = 64  # histories kept per row: more than speculative decoding ever goes back
_KEPT_PROMPTS = 512  # more texts than anybody generates at once, for callers that pass them one by one
_MOST_HISTORIES = 4096  # of one prompt, which may have begun many times at once
_Key = tuple[int, bytes]  # guide, and the generated tokens as int64
_TOKEN = np.dtype(np.int64).itemsize


@dataclass(slots=True, eq=False)
class _Run:
    """One prompt and what is known of the texts after it. None: the row has left the constraint."""

    prompt: NDArray[np.int64]
    begun: int = 1  # the count: this many texts may be in progress
    known: OrderedDict[_Key, Matcher | None] = field(default_factory=OrderedDict)


class StateTracker:
    """Finds matchers for the rows of a batch by what each row has generated. Safe to use from many threads.

    Args:
        guides: one for all rows, or one for each prompt; rows ``i * n .. (i + 1) * n - 1`` (beams, returned sequences)
            then belong to guide ``i``.
        stop_token_ids: the tokens that end a text; by default those of the vocabularies.
    """

    def __init__(self, guides: Sequence[Guide], stop_token_ids: int | Sequence[int] | None = None) -> None:
        self.guides = list(guides)
        self.vocabulary = self.guides[0].vocabulary
        self.stop_token_ids: list[int] = self.guides[0].matcher(stop_token_ids).stop_token_ids()
        self._runs: list[_Run] = []  # the most recently used is last
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        guides = repr(self.guides[0]) if len(self.guides) == 1 else f"{len(self.guides)} guides"
        return f"<StateTracker of {guides}>"

    def reset(self) -> None:
        """The next call begins a new prompt."""
        with self._lock:
            self._runs.clear()

    def fill(self, ids: NDArray[np.int64], bitmask: NDArray[np.int32]) -> None:
        """Writes the masks of the next token.

        Rows that have ended, or left the constraint (as beams of probability 0 do), may only stop. If they continue
        anyway, they are offered the stop tokens that they have not used yet.

        Args:
            ids: the tokens so far, shape ``(rows, width)``, including prompt and left padding.
            bitmask: int32, shape ``(rows, >= ceil(vocabulary.size / 32))``.

        Raises:
            MatcherError: ``bad-batch``: the rows cannot be divided among the guides.
        """
        share = rows_of_each(len(self.guides), len(ids))
        with self._lock:
            keys, states = self._find(np.ascontiguousarray(ids, np.int64), share)
        after_end = []
        for (_, suffix), state in zip(keys, states, strict=True):
            left: list[int] = []
            if state is None or state.is_terminated():
                used = set(np.frombuffer(suffix, np.int64).tolist())
                left = [token for token in self.stop_token_ids if token not in used] or self.stop_token_ids
            after_end.append(left)
        fill_rows(states, bitmask, after_end)

    def _find(self, ids: NDArray[np.int64], share: int) -> tuple[list[_Key], list[Matcher | None]]:
        """The keys and states of the rows, as continuations of known rows or else as the start of a prompt."""
        for run in reversed(self._runs):
            found = self._continued(run, ids, share)
            if found is not None:
                break
        else:
            for run in self._runs:
                if np.array_equal(run.prompt, ids):
                    run.begun += 1
                    break
            else:
                run = _Run(ids.copy())
                self._runs.append(run)
            keys: list[_Key] = [(row // share, b"") for row in range(len(ids))]
            for key in keys:  # a new one: making a matcher lets the guide free the data of old texts
                run.known.pop(key, None)
            found = keys, [self._state(run, key) for key in keys]
        self._runs.remove(run)
        self._runs = [*self._runs[1 - _KEPT_PROMPTS :], run]
        most = _KEPT_STEPS * len(ids)
        while len(run.known) > max(most, min(most * run.begun, _MOST_HISTORIES)):
            run.known.popitem(last=False)
        return found

    def _continued(
        self, run: _Run, ids: NDArray[np.int64], share: int
    ) -> tuple[list[_Key], list[Matcher | None]] | None:
        """The rows as continuations of known ones, or None."""
        rows, width = run.prompt.shape
        if len(ids) != rows or ids.shape[1] <= width or not np.array_equal(ids[:, :width], run.prompt):
            return None
        keys: list[_Key] = [(row // share, ids[row, width:].tobytes()) for row in range(rows)]
        parents: list[_Key] = [(guide, suffix[:-_TOKEN]) for guide, suffix in keys]
        if not all(parent in run.known for parent in parents):
            return None
        before = [run.known[parent] for parent in parents]
        running = [m is not None and not m.is_terminated() for m in before]
        if not any(running):
            return None
        fresh = [key for key in keys if key not in run.known]
        states = [self._state(run, key) for key in keys]
        for guide in range(len(self.guides)):
            mine = [row for row in range(guide * share, (guide + 1) * share) if running[row]]
            if mine and all(states[row] is None for row in mine):
                for key in fresh:  # sampled tokens are allowed ones, so these were not sampled
                    run.known.pop(key, None)
                return None
        return keys, states

    def _state(self, run: _Run, key: _Key) -> Matcher | None:
        if key in run.known:
            run.known.move_to_end(key)
            return run.known[key]
        guide, suffix = key
        if not suffix:
            state: Matcher | None = self.guides[guide].matcher(self.stop_token_ids)
        else:
            parent = run.known[guide, suffix[:-_TOKEN]]
            if parent is None or parent.is_terminated():
                state = parent  # tokens after an end are padding
            else:
                child = parent.fork()
                token = int(np.frombuffer(suffix[-_TOKEN:], np.int64)[0])
                state = child if 0 <= token < self.vocabulary.size and child.accept_token(token) else None
        run.known[key] = state
        return state


def single_tracker(constraint: Any, vocabulary: Any, stop_token_ids: int | Sequence[int] | None) -> StateTracker:
    """A tracker for engines that show one row per call.

    Raises:
        CompileError: see :func:`guiderail.integrations._rows.as_guides`.
        MatcherError: ``bad-batch``: there is more than one constraint.
    """
    guides = as_guides(constraint, vocabulary)
    if len(guides) != 1:
        raise MatcherError(
            f"this engine shows its processor one row per call, so {len(guides)} constraints need as many processors",
            code="bad-batch",
        )
    return StateTracker(guides, stop_token_ids)
