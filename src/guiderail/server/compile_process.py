"""Compiles constraints in a separate process first, so that only harmless ones are compiled in this one.

Front ends are Python, the core is native, and neither can be interrupted safely while it holds up everybody. So a
new constraint is first compiled by a child (:mod:`guiderail.server.compile_process_child`), within limits of time and
memory that the system keeps. The child sends back the program, as in a file. Reading that here takes a fraction of the
time, and no more memory than it took there. Large requests are read by a child, too.

Where processes cannot fork (Windows), constraints are compiled on threads, and these limits are enforced as well as
threads can.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from guiderail.errors import LimitError, ModelError
from guiderail.matching.guide import Options
from guiderail.server.errors import ApiError

if TYPE_CHECKING:
    from guiderail.server.contents import Contents, Manner
    from guiderail.server.options import ServerOptions
    from guiderail.server.recipes import Recipe
    from guiderail.vocabulary import Vocabulary

__all__ = ["CompileProcess"]

_START_SECONDS = 120.0
_PIECE = 256 << 10  # bytes that are sent to a child at a time
_LARGE = 64 << 10  # bytes of an answer that is read on a thread


class _Frames:
    """A pickle as a file. It is read frame by frame, 64 KiB each, and between two of them other threads run."""

    def __init__(self, told: bytes) -> None:
        self._told, self._at = told, 0

    def read(self, size: int) -> bytes:
        self._at += size
        return self._told[self._at - size : self._at]

    def readline(self) -> bytes:
        end = self._told.find(b"\n", self._at) + 1 or len(self._told)
        return self.read(end - self._at)


class CompileProcess:
    """For use from one event loop."""

    available = hasattr(os, "fork") and hasattr(socket, "send_fds") and sys.platform != "darwin"

    def __init__(self, vocabulary: Vocabulary, options: ServerOptions, manner: Manner | None) -> None:
        self._vocabulary, self._options, self._manner = vocabulary, options, manner
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._number = 0
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Starts the process, or restarts it if it has ended."""
        async with self._starting:
            if self._process is None or self._process.poll() is not None:
                self._drop()
                await asyncio.to_thread(self._start)

    def _start(self) -> None:
        from guiderail.server.compile_process_child import LENGTH

        ours, theirs = socket.socketpair()
        try:
            path = os.pathsep.join(place for place in sys.path if place)
            process = subprocess.Popen(
                [sys.executable, "-m", "guiderail.server.compile_process_child", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError as error:
            ours.close()
            raise ModelError(f"the process for compilation could not be started: {error}", code="closed") from error
        finally:
            theirs.close()
        try:
            ours.settimeout(_START_SECONDS)
            restore, (kind, state, rest, _) = self._vocabulary.__reduce__()
            bare = restore, (kind, state, {**rest, "encode": None, "decode": None}, None)  # tokenizers are not needed
            message = pickle.dumps((bare, self._manner), pickle.HIGHEST_PROTOCOL)
            ours.sendall(LENGTH.pack(len(message)) + message)
            if ours.recv(1) != b"+":
                raise OSError("it ended at once")
        except OSError as error:
            process.kill()
            process.wait()
            ours.close()
            raise ModelError(f"the process for compilation could not be started: {error}", code="closed") from error
        ours.settimeout(5.0)
        self._process, self._control = process, ours

    async def compile(self, recipe: Recipe, param: str, seconds: float) -> tuple[bytes, bytes, bytes]:
        """See :func:`guiderail.server.compile_process_child.compile_recipe`; the plan and the constraint are pickled.

        Raises:
            ApiError: it cannot be compiled.
            LimitError: ``compile-memory``, ``compile-crash``.
            TimeoutError: it takes longer.
        """
        names = ("max_nodes", "fuel", "max_work", "max_step_work")
        limits = Options(**{name: getattr(self._options, name) for name in names})
        job = {"recipe": recipe, "param": param, "seconds": seconds, "memory": self._options.compile_bytes,
               "limits": limits}  # fmt: skip
        plan, constraint, file = await self._done(job, "the constraint", seconds)
        return plan, constraint, file

    async def read(self, kind: str, body: bytes, seconds: float) -> Contents:
        """See :func:`guiderail.server.contents.read_light`.

        Raises:
            ApiError: the request is wrong.
            LimitError, TimeoutError: as in :meth:`compile`.
        """
        job = {"kind": kind, "body": body, "seconds": seconds, "memory": self._options.compile_bytes, "param": None}
        contents: Contents = await self._done(job, "the request", seconds)
        return contents

    async def _done(self, job: dict[str, Any], what: str, seconds: float) -> Any:
        """Returns the result of a job in a child."""
        await self.start()
        assert self._control is not None
        from guiderail.server.compile_process_child import CONTROL, KILL, LENGTH, START

        self._number = number = (self._number + 1) % 2**32
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [CONTROL.pack(START, number)], [theirs.fileno()])
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours)
        began = time.monotonic()

        async def talk() -> bytes:
            packed = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
            writer.write(LENGTH.pack(len(packed)))
            for start in range(0, len(packed), _PIECE):  # a write that finds room is done at once
                writer.write(packed[start : start + _PIECE])
                await writer.drain()
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            return await reader.readexactly(length)

        try:
            answer = await asyncio.wait_for(talk(), seconds)
            if len(answer) < _LARGE:
                status, made = pickle.loads(answer)
            else:  # thousands of messages, which would hold up the loop
                status, made = await asyncio.to_thread(pickle.load, _Frames(answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            if time.monotonic() - began > seconds - 0.1:  # the system's clock was a little faster
                raise TimeoutError from None
            raise LimitError(
                f"{what} could not be read and compiled: the system ended the process, probably because it took too "
                "much memory; simplify it",
                code="compile-crash",
            ) from None
        finally:
            writer.close()
            if self._control is not None:
                try:
                    self._control.send(CONTROL.pack(KILL, number))  # no effect if the child has ended
                except OSError:
                    self._drop()
        if status == "made":
            return made
        if status == "refused":
            status, message, code, of, place = made
            raise ApiError(status, message, code=code, param=of, place=place)
        raise RuntimeError(f"a process for compilation failed: {made}")

    def _drop(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()  # this ends the process
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Ends the process and its compilations."""
        self._drop()
