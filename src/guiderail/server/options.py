"""The limits of a server, in one place: each with its unit, its default and what happens beyond it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from guiderail.errors import ModelError
from guiderail.support.work import MAX_STEP_WORK, MAX_WORK

__all__ = ["ServerOptions"]

_WHOLE = {
    "max_body_bytes": 1024,
    "max_json_values": 1000,
    "max_connections": 1,
    "compile_bytes": 16 << 20,
    "max_compile_queue": 0,
    "max_nodes": 1000,
    "fuel": 1000,
    "max_work": 1000,
    "max_step_work": 1000,
    "compile_workers": 1,
    "max_cached_guides": 1,
    "max_cached_bytes": 0,
    "max_rows": 1,
    "max_queue": 0,
    "max_cached_tokens": 32,
    "max_n": 1,
    "max_draws": 0,
    "max_passes": 1,
    "max_particles": 1,
    "default_max_tokens": 1,
    "prefill_tokens": 16,
    "inspect_texts": 1,
    "inspect_tokens": 1,
}
_SECONDS = ("body_seconds", "head_seconds", "write_seconds", "compile_seconds", "request_seconds", "mask_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server behaves.

    Attributes:
        served_name: what clients call the model; by default its own name. Other names are answered with 404.
        api_key: what clients must send as ``Authorization: Bearer …`` to paths under ``/v1``; None: nothing.
        cors_origins: origins whose pages may call the server from a browser; none by default. ``*`` means all.
        chat_template: a Jinja template to use instead of the model's own.
        tool_format: how the model writes tool calls, a format of :func:`guiderail.tool_calls`; None: found out from
            the chat template.
        max_body_bytes: of a request; beyond: 413.
        max_json_values: values in a request, more or less (its commas and brackets); beyond: 413. Bodies of
            32 KiB and more are read by the process that compiles; without it, while they are read nobody else is
            served, some 50 ms for the default.
        body_seconds: for the body of a request to arrive; beyond: 408.
        head_seconds: for the head of a request to arrive; beyond: 408. This and the next one are kept by ``guiderail
            serve``, and by other servers with :func:`guiderail.server.connections.protocol`.
        write_seconds: in which a client must take what is waiting to be sent to it; beyond, its connection is cut.
        max_connections: open at once; beyond: 503. Kept by ``guiderail serve``.
        compile_seconds: for one constraint; beyond: 400 ``compile-timeout``.
        compile_isolated: constraints are compiled in a process of their own first, which costs some milliseconds and
            keeps what is pathological away from all others. Not on Windows and macOS, where processes cannot be forked
            safely.
        compile_bytes: of memory for one compilation there; beyond: 400 ``compile-memory``.
        max_compile_queue: constraints that may wait to be compiled; beyond: 503 ``overloaded``. Clients, told apart by
            their addresses, take turns.
        max_nodes: expressions of one constraint (about 100 bytes each); beyond: 400 ``nodes``.
        fuel: states that one emptiness test may visit; beyond: 400 ``fuel``.
        max_work: steps that reading one constraint may take, some 0.1 µs each; beyond: 400 ``work``.
        max_step_work: the same steps, for one mask of a text, or one token that it reads; beyond: 400 ``step-work``,
            or an error event in a stream.
        compile_workers: constraints compiled at once; others wait, their waiting counts to ``compile_seconds``.
        max_cached_guides: compiled constraints kept for later requests.
        max_cached_bytes: that they may hold together; the longest unused go first.
        max_rows: texts being written at once; others wait in turn.
        max_queue: texts that may wait; beyond: 503 ``overloaded``.
        max_cached_tokens: tokens of key-value cache that all running texts may reserve together; what does not fit
            waits. A single text that needs more: 400 ``context-full``.
        max_n: texts that one request may ask for; beyond: 400.
        max_draws: requests with the distribution ``exact`` or ``weighted`` that are answered at once, each with up to
            256 MB of what it has learned; others wait in turn, at most ``max_queue``. 0: such requests are refused.
        max_passes: forward passes that a request may allow an exact draw; beyond: 400.
        max_particles: texts that a request may have a weighted population have; beyond: 400.
        default_max_tokens: tokens to write where a request does not say (at most what the context has room for).
        prefill_tokens: tokens of prompts read in one step of the model, between which others get their turn.
        request_seconds: from the end of compilation; beyond: 504 ``timeout``, or an error event in a stream.
        mask_seconds: that the masks of one text may take altogether; beyond: 400 ``mask-timeout``.
        inspect: which texts can be looked into at ``/inspect``: ``"off"``, none; ``"asked"``, those of requests that
            have the header ``X-Guiderail-Inspect: 1``, by whoever knows the address in the answer; ``"all"``, also all
            others, in a list, unless the header says ``0``. Prompts and texts are kept in memory for that.
        inspect_texts: that are kept, the last ones.
        inspect_tokens: of a text that are looked into, the first ones (about 3 KB each while it is written).

    Raises:
        ModelError: ``bad-option``.
    """

    served_name: str | None = None
    api_key: str | None = None
    cors_origins: tuple[str, ...] = ()
    chat_template: str | None = None
    tool_format: str | None = None
    max_body_bytes: int = 8 << 20
    max_json_values: int = 250_000
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    write_seconds: float = 60.0
    max_connections: int = 1024
    compile_seconds: float = 10.0
    compile_isolated: bool = True
    compile_bytes: int = 1 << 30
    max_compile_queue: int = 64
    max_nodes: int = 2_000_000
    fuel: int = 100_000
    max_work: int = MAX_WORK
    max_step_work: int = MAX_STEP_WORK
    compile_workers: int = 2
    max_cached_guides: int = 128
    max_cached_bytes: int = 256 << 20
    max_rows: int = 32
    max_queue: int = 256
    max_cached_tokens: int = 32_768
    max_n: int = 16
    max_draws: int = 2
    max_passes: int = 4096
    max_particles: int = 64
    default_max_tokens: int = 1024
    prefill_tokens: int = 512
    request_seconds: float = 600.0
    mask_seconds: float = 30.0
    inspect: str = "off"
    inspect_texts: int = 32
    inspect_tokens: int = 1024

    def __post_init__(self) -> None:
        for name, least in _WHOLE.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ModelError(f"{name} must be a whole number, {least} or more, not {value!r}", code="bad-option")
        for name in _SECONDS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                raise ModelError(f"{name} must be a number of seconds above 0, not {value!r}", code="bad-option")
        if self.inspect not in ("off", "asked", "all"):
            raise ModelError(f"inspect must be off, asked or all, not {self.inspect!r}", code="bad-option")
        if self.tool_format is not None:
            from guiderail.frontends.tools.errors import ToolError
            from guiderail.frontends.tools.format import read_format

            try:
                read_format(self.tool_format)
            except ToolError as error:
                raise ModelError(f"tool_format: {error.message}", code="bad-option") from None
        if self.api_key is not None and not self.api_key:
            raise ModelError("the API key is empty; leave it out to ask for none", code="bad-option")
        if isinstance(self.cors_origins, str):
            raise ModelError("cors_origins must be a tuple of origins, not a string", code="bad-option")
