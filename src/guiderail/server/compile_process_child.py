"""The process in which untrusted constraints are compiled first; run by :mod:`guiderail.server.compile_process`.

It loads the vocabulary once and forks for each constraint. The child inherits everything, has its own limits of time
and memory, which the system enforces at any point, and leaves nothing behind.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import GuiderailError, LimitError
from guiderail.matching.bitmask import allocate_token_bitmask
from guiderail.matching.guide import Guide, Options
from guiderail.server.constraints import Ask
from guiderail.server.contents import Manner, read_light
from guiderail.server.errors import ApiError, from_guiderail
from guiderail.server.loading import load_front_ends
from guiderail.server.recipes import Recipe
from guiderail.support.work import max_work

START, KILL = 1, 2
CONTROL = struct.Struct("!BI")  # what to do, number of the job; a start comes with the job's socket
LENGTH = struct.Struct("!Q")


class _Recording(Constraint):
    """A constraint, and the file of its program."""

    __slots__ = ("file", "inner", "limits")

    def __init__(self, inner: Constraint, limits: Options) -> None:
        self.inner, self.limits = inner, limits
        self.file = b""

    def _lower(self, b: _core.Builder) -> int:
        limits = self.limits
        builder = _core.Builder(limits.max_nodes, limits.fuel, limits.max_step_work, records=True)
        self.file = builder.recorded(self.inner._lower(builder))
        return b.replay(self.file)


def compile_recipe(recipe: Recipe, vocabulary: Any, limits: Options) -> tuple[Any, Constraint, bytes]:
    """The plan, the constraint and the file of its program; its first mask and its end have been found once."""
    with max_work(limits.max_work):
        plan, constraint = recipe.build(vocabulary)
    recording = _Recording(constraint, limits)
    matcher = Guide(recording, vocabulary, limits).matcher()
    matcher.fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary.size), 0)
    matcher.least_tokens(thorough=False)
    return plan, constraint, recording.file


def _answer(job: dict[str, Any], vocabulary: Any, manner: Manner) -> tuple[str, Any]:
    try:
        if "body" in job:
            return "made", read_light(job["kind"], job["body"], manner)
        plan, constraint, file = compile_recipe(job["recipe"], vocabulary, job["limits"])
        # Unpickling can be work (it reads a grammar again), so the thread that serves all others must not do it.
        protocol = pickle.HIGHEST_PROTOCOL
        return "made", (plan and pickle.dumps(plan, protocol), pickle.dumps(constraint, protocol), file)
    except GuiderailError as error:
        refusal = from_guiderail(error, job["param"])
    except ApiError as error:
        refusal = error
    except MemoryError:
        refusal = from_guiderail(
            LimitError(
                f"{'the request' if 'body' in job else 'the constraint'} takes more than {job['memory'] >> 20} MiB of "
                "memory to compile; simplify it",
                code="compile-memory",
            ),
            job["param"],
        )
    return "refused", (refusal.status, refusal.message, refusal.code, refusal.param, refusal.place)


def _read(connection: socket.socket) -> bytes:
    def exactly(count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = connection.recv(min(1 << 20, count - len(found)))
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)

    (length,) = LENGTH.unpack(exactly(LENGTH.size))
    return exactly(length)


def _limit(seconds: float, memory: int) -> None:
    """Sets limits that also apply inside native code: the system ends the process."""
    signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process
    with open("/proc/self/statm", "rb") if os.path.exists("/proc/self/statm") else open(os.devnull, "rb") as file:
        fields = file.read().split()
    if fields:
        size = int(fields[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _child(connection: socket.socket, vocabulary: Any, manner: Any) -> None:
    """Compiles one constraint, or reads a request, and ends the process."""
    status = 1
    try:
        job = pickle.loads(_read(connection))
        _limit(job["seconds"], job["memory"])
        try:
            answer = pickle.dumps(_answer(job, vocabulary, manner), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # a bug in guiderail: reported as such, with its type
            answer = pickle.dumps(("failed", f"{type(error).__name__}: {error}"[:500]))
        connection.sendall(LENGTH.pack(len(answer)) + answer)
        status = 0
    finally:
        os._exit(status)


_USUAL = [
    ("json", '{"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\\\w+x"}, "b": {"type": "array", '
             '"items": {"type": "number", "maximum": 9.5}, "uniqueItems": true}, "c": {"format": "date"}}, '
             '"required": ["a"]}'),
    ("regex", r"(?<!a)\b[^\W\d]{2,9}$"),
    ("grammar", 'start: "a" start | NAME\nNAME: /[b-d]+/\n%ignore " "'),
    ("grammar", 'root ::= "(" root ")" | [a-z]*'),
    ("structural_tag", '{"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": '
                       '{"type": "json_schema", "json_schema": {}}, "end": "</a>"}}'),
]  # fmt: skip


def _warm_up(vocabulary: Any) -> None:
    """Does once what each child would do: makes modules, tables and class masks, which children inherit."""
    for kind, value in _USUAL:
        try:
            compile_recipe(Recipe(Ask(kind, value, "")), vocabulary, Options())
        except (GuiderailError, ApiError):
            continue  # a vocabulary that lacks a character


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    (restore, parts), manner = pickle.loads(_read(control))
    vocabulary = restore(*parts)
    load_front_ends()  # once for all children
    os.nice(10)  # running texts have priority
    _warm_up(vocabulary)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server ends us
    ended, tell = os.pipe()
    for end in (ended, tell):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell)
    gc.collect()
    gc.freeze()  # pages that are not written stay shared
    control.sendall(b"+")
    children: dict[int, int] = {}
    while True:
        waiting: list[Any] = [control, ended]
        ready, _, _ = select.select(waiting, [], [])
        if ended in ready:
            os.read(ended, 4096)
            for number, pid in list(children.items()):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del children[number]
        if control in ready:
            message, handles, _, _ = socket.recv_fds(control, CONTROL.size, 1)
            if len(message) < CONTROL.size:
                break  # the server has ended
            what, number = CONTROL.unpack(message)
            if what == KILL and number in children:
                os.kill(children[number], signal.SIGKILL)
            elif what == START:
                connection = socket.socket(fileno=handles[0])
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    control.close()
                    _child(connection, vocabulary, manner)
                connection.close()
                children[number] = pid
    for pid in children.values():
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
