"""Queries a model about what follows prefixes, in any order.

Texts that branch share their beginnings. A session has some rows, and each remembers what it has read. A prefix is read
by the row that has already read most of it, or by a copy of that row. If a session can neither cut nor copy its rows,
it is reopened whenever a text does not continue the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from guiderail.errors import ModelError
from guiderail.generation.models import Logits, Model, Session
from guiderail.generation.models.base import feed_rows

__all__ = ["Reader"]


class Reader:
    """Reads prefixes after one prompt. Close it when done.

    Attributes:
        passes: number of prefixes that the model was queried about: rows of its forward passes.
        tokens: number of tokens that it has read for them, including the prompt's.
    """

    def __init__(self, model: Model, prompt: Sequence[int], length: int, rows: int = 1) -> None:
        """Opens no session yet.

        Args:
            length: number of tokens of the prompt and the longest prefix together.
            rows: maximum number of prefixes to read in one pass.
        """
        self._model, self._prompt, self._length = model, tuple(prompt), length
        self._count = max(1, min(rows, model.max_batch or rows))
        self._session: Session | None = None
        self._read: list[tuple[int, ...]] = []  # what each row has read
        self._used: list[int] = []  # when each row was last asked
        self._clock = 0
        self.passes = self.tokens = 0

    def read(self, prefixes: Sequence[tuple[int, ...]]) -> list[Logits]:
        """The logits after each of some different prefixes.

        Returns:
            float32, one array of shape ``(logits_size,)`` a prefix; they are the caller's.
        """
        found: list[Logits] = []
        if self._session is None:
            self._open()
        for start in range(0, len(prefixes), self._count):
            found += self._read_some([self._prompt + prefix for prefix in prefixes[start : start + self._count]])
        return found

    def close(self) -> None:
        """Frees the session. May be called more than once."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _open(self) -> None:
        self.close()
        session = self._model.new_session(self._count, self._length)
        if self._count > 1 and not (hasattr(session, "cut_row") and hasattr(session, "copy_rows")):
            session.close()
            self._count = 1
            session = self._model.new_session(1, self._length)
        self._session = session
        self._read = [()] * self._count
        self._used = [0] * self._count

    def _read_some(self, texts: list[tuple[int, ...]]) -> list[Logits]:
        rows = self._places(texts)
        fed: list[Sequence[int]] = [()] * self._count
        for row, text in zip(rows, texts, strict=True):
            fed[row] = text[len(self._read[row]) :]
            self._read[row] = text
            self.tokens += len(fed[row])
        self.passes += len(texts)
        assert self._session is not None
        logits = feed_rows(self._session, fed, rows)
        return [logits[row].copy() for row in rows]

    def _places(self, texts: list[tuple[int, ...]]) -> list[int]:
        """A row for each text; the row has read a prefix of it and nothing else."""
        self._clock += 1
        best = [max(range(self._count), key=lambda row: (_common(self._read[row], text), -row)) for text in texts]
        places: list[int | None] = [None] * len(texts)
        taken: set[int] = set()
        for i, row in enumerate(best):
            if row not in taken:
                places[i] = row
                taken.add(row)
        free = sorted(set(range(self._count)) - taken, key=lambda row: (self._used[row], row))
        copies: list[tuple[int, int]] = []
        chosen: list[int] = []
        spare = len(free) - places.count(None)
        for i, place in enumerate(places):
            if place is None:
                chosen.append(free.pop(0))
            elif spare > 0 and len(self._read[place]) > _common(self._read[place], texts[i]) > 0:
                chosen.append(free.pop(0))  # this row's tokens may be needed again: cut a copy instead
                spare -= 1
            else:
                chosen.append(place)
            if chosen[-1] != place:
                copies.append((best[i], chosen[-1]))
        if copies:
            self._session.copy_rows(copies)  # type: ignore[union-attr]
            for source, target in copies:
                self._read[target] = self._read[source]
        for row, text in zip(chosen, texts, strict=True):
            self._used[row] = self._clock
            self._cut(row, _common(self._read[row], text))
        return chosen

    def _cut(self, row: int, length: int) -> None:
        if length == len(self._read[row]):
            return
        cut = getattr(self._session, "cut_row", None)
        if cut is None:
            self._open()
            return
        try:
            cut(row, length)
        except ModelError as error:
            if error.code != "decode":
                raise
            cut(row, length := 0)  # the model's cache is not one of positions: the text is read from its start
        self._read[row] = self._read[row][:length]


def _common(read: tuple[int, ...], text: tuple[int, ...]) -> int:
    """The common prefix of both; the last token of the text is left to be read."""
    most = min(len(read), len(text) - 1)
    if read[:most] == text[:most]:
        return most
    return next(i for i in range(most) if read[i] != text[i])
