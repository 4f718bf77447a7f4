"""Streams of a generation in progress: pieces of text, or values that grow."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from guiderail.constraints.reading import Reading
from guiderail.errors import MatcherError
from guiderail.generation.decoding import Batch
from guiderail.generation.models import Model
from guiderail.generation.options import Options
from guiderail.generation.result import FinishReason, Generation, check_ends

__all__ = ["Drawn", "Snapshot", "Stream", "ValueStream"]

T = TypeVar("T")
Item = TypeVar("Item")
_END = object()


@dataclass
class _Row:
    tokens: tuple[int, ...] = ()
    text: list[str] = field(default_factory=list)
    finish: FinishReason | None = None


class Drawn:
    """A text from the model's own distribution, in place of a batch.

    It is known only when complete, and comes in one piece.
    """

    def __init__(
        self, model: Model, reading: Reading, prompt: int, draw: Callable[[Callable[[], bool]], Iterator[Generation]]
    ) -> None:
        """Draws nothing before the first step.

        Args:
            prompt: the number of tokens of the prompt.
            draw: yields the text. It gets a function that returns True once the text is no longer wanted.
        """
        self.model, self.readings, self.rows = model, [reading], [_Row()]
        self._draw, self._prompt = draw, prompt
        self._closed = False
        self._found: Generation | None = None

    def steps(self) -> Generator[tuple[int, str], None, None]:
        for found in self._draw(lambda: self._closed):
            self._found = found
            self.rows[0] = _Row(found.tokens, [found.text], found.finish_reason)
            yield 0, found.text

    def generation(self, row: int) -> Generation:
        """The text; an empty one before it is drawn."""
        return self._found or Generation("", (), "length", False, self._prompt, 0, 0.0, 0.0)

    @property
    def session(self) -> Drawn:
        """What ``close`` is called on: the draw itself, which ends at its next prefix."""
        return self

    def close(self) -> None:
        self._closed = True


class _Run(Generic[Item]):
    """A generation of one prompt, step by step. A context manager: leaving it stops the generation.

    ``for`` and ``async for`` both iterate over it; ``with`` and ``async with`` both close it. One thread at a time may
    take items; any thread may close it.
    """

    def __init__(self, batch: Batch | Drawn, options: Options, close: bool) -> None:
        self._batch, self._options, self._close = batch, options, close
        self._stopped = False
        self._items = self._run()
        self._thread: ThreadPoolExecutor | None = None

    def _pieces(self) -> Generator[str, None, None]:
        steps = self._batch.steps()
        try:
            for _, piece in steps:
                if self._stopped:
                    return
                if piece:
                    yield piece
        finally:
            steps.close()
            if self._close:
                self._batch.model.close()
        check_ends([self.result], self._options.on_incomplete, self._options.on_shortened)

    def _run(self) -> Generator[Item, None, None]:
        raise NotImplementedError

    def __next__(self) -> Item:
        try:
            return next(self._items)
        except ValueError as error:
            if str(error) != "generator already executing":
                raise
        raise MatcherError(
            "another thread is taking the next item of this stream: take items on one thread at a time",
            code="stream-shared",
        )

    async def __anext__(self) -> Item:
        """The next item, made on a thread; a task that is cancelled stops the model after its current pass."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="guiderail-stream")
        step = self._thread.submit(next, self._items, _END)
        done = asyncio.wrap_future(step)
        try:
            item = await asyncio.shield(done)
        except asyncio.CancelledError:
            self._stopped = True
            try:
                await asyncio.wait([done])
            finally:  # the task may be cancelled again while it waits
                step.add_done_callback(lambda _: self.close())
            raise
        except BaseException:
            self._end_thread()
            raise
        if item is _END:
            self._end_thread()
            raise StopAsyncIteration
        return cast("Item", item)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Token ids so far."""
        return tuple(self._batch.rows[0].tokens)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._batch.rows[0].text)

    @property
    def finish_reason(self) -> FinishReason | None:
        """None while it runs; see :class:`Generation`."""
        return self._batch.rows[0].finish

    @property
    def result(self) -> Generation:
        """The generation so far."""
        return self._batch.generation(0)

    def close(self) -> None:
        """Stops early and frees the session.

        If another thread is taking an item, the stream ends there, after the model's current pass.
        """
        self._stopped = True
        if inspect.getgeneratorstate(self._items) == inspect.GEN_RUNNING:
            if isinstance(self._batch, Drawn):
                self._batch.close()
            return
        self._items.close()
        self._batch.session.close()
        if self._close:
            self._batch.model.close()
        self._end_thread()

    def __repr__(self) -> str:
        state = "running" if self.finish_reason is None else self.finish_reason
        return f"<{type(self).__name__} after {len(self.tokens)} tokens, {state}>"

    def __del__(self) -> None:
        items = getattr(self, "_items", None)
        if items is not None and inspect.getgeneratorstate(items) == inspect.GEN_CREATED:  # nothing was taken from it
            self.close()

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Stream(_Run[str]):
    """An iterator over pieces of text, each valid UTF-8, which together are the whole text. Made by :func:`stream`."""

    def _run(self) -> Generator[str, None, None]:
        return self._pieces()

    def __iter__(self) -> Iterator[str]:
        return self

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    def __enter__(self) -> Stream:
        return self

    async def __aenter__(self) -> Stream:
        return self


class Snapshot(Generic[T]):
    """A value at one moment of its generation. It does not change while the stream continues.

    The snapshots of a stream share its finished parts, so do not modify them.

    Attributes:
        value: as much of the value as is known; None before there is anything. With ``done``, it is the final value,
            read from the whole text and validated.
        delta: the text since the previous snapshot.
        finished: JSON pointers (RFC 6901) of the values that ``delta`` finished, inner ones first: ``("/name",)``.
        path: JSON pointer of the innermost unfinished value, or None.
        done: whether this is the last snapshot.
    """

    __slots__ = ("_count", "_parts", "delta", "done", "finished", "path", "value")

    def __init__(
        self,
        value: T,
        delta: str,
        finished: tuple[str, ...],
        path: str | None,
        done: bool,
        parts: list[str],
    ) -> None:
        self.value, self.delta, self.finished, self.path, self.done = value, delta, finished, path, done
        self._parts, self._count = parts, len(parts)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts[: self._count])

    def __repr__(self) -> str:
        return f"Snapshot({self.value!r}, delta={self.delta!r}, finished={self.finished!r}, done={self.done})"


class ValueStream(_Run[Snapshot[T]]):
    """An iterator over snapshots of a growing value, one for each piece of text. Made by :func:`stream`.

    The last :class:`Snapshot` has ``done`` set and holds the finished, validated value. There is no such snapshot if
    the tokens run out under ``on_incomplete="return"``, or if the value was shortened, which raises a
    ShortenedError.
    """

    def __init__(self, batch: Batch | Drawn, options: Options, close: bool, growing_strings: bool) -> None:
        self._growing_strings = growing_strings
        super().__init__(batch, options, close)

    def _run(self) -> Generator[Snapshot[T], None, None]:
        partial = self._batch.readings[0].partial(growing_strings=self._growing_strings)
        parts: list[str] = []
        for piece in self._pieces():
            partial.feed(piece)
            parts.append(piece)
            yield Snapshot(partial.snapshot(), piece, tuple(partial.finished), partial.path, False, parts)
        result = self.result
        if result.matched and not self._stopped:
            finished = () if partial.is_complete else ("",)  # a bare number ends with the text
            yield Snapshot(result.value, "", finished, None, True, parts)

    def __iter__(self) -> Iterator[Snapshot[T]]:
        return self

    def __aiter__(self) -> AsyncIterator[Snapshot[T]]:
        return self

    def __enter__(self) -> ValueStream[T]:
        return self

    async def __aenter__(self) -> ValueStream[T]:
        return self

    def values(self) -> Iterator[T]:
        """Iterates over the values of the snapshots."""
        return (snapshot.value for snapshot in self)

    def pieces(self) -> Iterator[str]:
        """Iterates over the pieces of text."""
        return (snapshot.delta for snapshot in self if snapshot.delta)
