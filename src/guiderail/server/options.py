"""The options of a server: each with its unit, its default and what happens beyond it."""

from __future__ import annotations

from dataclasses import dataclass

from guiderail.errors import ModelError
from guiderail.support.options import check_choice, check_integer, is_real
from guiderail.support.texts import shown
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
    """Options of a server.

    Attributes:
        served_name: the model's name for clients; by default its own name. Other names are answered with 404.
        api_key: what clients must send as ``Authorization: Bearer …`` to paths under ``/v1``; None: nothing.
        cors_origins: origins whose pages may call the server from a browser; none by default. ``*`` means all.
        chat_template: a Jinja template to use instead of the model's own.
        tool_format: the format of the model's tool calls, as for :func:`guiderail.tool_calls`; None: recognized from
            the chat template.
        max_body_bytes: maximum size of a request; beyond: 413.
        max_json_values: approximate maximum number of values in a request (its commas and brackets); beyond: 413.
            Bodies of 32 KiB and more are read by the process that compiles. Without that process, nobody else is served
            while they are read, some 50 ms for the default.
        body_seconds: maximum time for the body of a request to arrive; beyond: 408.
        head_seconds: maximum time for the head of a request to arrive; beyond: 408. ``guiderail serve`` enforces this
            option and the next; other servers do with :func:`guiderail.server.connections.protocol`.
        write_seconds: maximum time for a client to read what is waiting to be sent; beyond: its connection is cut.
        max_connections: maximum number of open connections; beyond: 503. Enforced by ``guiderail serve``.
        compile_seconds: maximum time for one constraint; beyond: 400 ``compile-timeout``.
        compile_isolated: compile constraints in a separate process first, which costs some milliseconds and protects
            everyone else from pathological ones. Not on Windows and macOS, where processes cannot be forked safely.
        compile_bytes: maximum memory of one compilation there; beyond: 400 ``compile-memory``.
        max_compile_queue: maximum number of constraints that wait to be compiled; beyond: 503 ``overloaded``. Clients,
            distinguished by address, take turns.
        max_nodes: maximum number of expressions of one constraint (about 100 bytes each); beyond: 400 ``nodes``.
        fuel: maximum number of states that one emptiness test may visit; beyond: 400 ``fuel``.
        max_work: maximum number of steps to read one constraint, some 0.1 µs each; beyond: 400 ``work``.
        max_step_work: maximum number of steps for one mask of a text, or for reading one token; beyond: 400
            ``step-work``, or an error event in a stream.
        compile_workers: number of constraints compiled at once. Others wait, and the wait counts towards
            ``compile_seconds``.
        max_cached_guides: maximum number of compiled constraints kept for later requests.
        max_cached_bytes: maximum number of bytes that they hold together. Those above their equal share are dropped
            first, in each group the least recently used.
        max_rows: maximum number of texts being written at once; others wait in turn.
        max_queue: maximum number of texts that wait; beyond: 503 ``overloaded``.
        max_cached_tokens: maximum number of tokens of key-value cache that all running texts reserve together; others
            wait. A single text that needs more: 400 ``context-full``.
        max_n: maximum number of texts of one request; beyond: 400.
        max_draws: maximum number of requests with the distribution ``exact`` or ``weighted`` that are answered at once,
            each with up to 256 MB of what it has learned. Others wait in turn, at most ``max_queue``. 0: such requests
            are rejected.
        max_passes: maximum number of forward passes that a request may allow an exact draw; beyond: 400.
        max_particles: maximum size of a weighted population in a request; beyond: 400.
        default_max_tokens: maximum number of tokens to write if a request does not say; never more than the context has
            room for.
        prefill_tokens: number of prompt tokens read in one step of the model; others get their turn between steps.
        request_seconds: maximum time from the end of compilation; beyond: 504 ``timeout``, or an error event in a
            stream.
        mask_seconds: maximum time for all masks of one text; beyond: 400 ``mask-timeout``.
        inspect: which texts ``/inspect`` shows: ``"off"``: none; ``"asked"``: those of requests with the header
            ``X-Guiderail-Inspect: 1``, to whoever knows the address in the answer; ``"all"``: also all others, in a
            list, unless the header says ``0``. Their prompts and texts are kept in memory.
        inspect_texts: number of texts kept, the latest ones.
        inspect_tokens: number of tokens recorded per text, the first ones (about 3 KB each while the text is written).

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
            check_integer(name, getattr(self, name), least, error=ModelError, code="bad-option")
        for name in _SECONDS:
            value = getattr(self, name)
            if not is_real(value) or value <= 0:
                raise ModelError(f"{name} must be a number of seconds above 0, not {shown(value)}", code="bad-option")
        check_choice("inspect", self.inspect, ("off", "asked", "all"), error=ModelError, code="bad-option")
        if self.tool_format is not None:
            from guiderail.frontends.tools.errors import ToolError
            from guiderail.frontends.tools.format import read_format

            try:
                read_format(self.tool_format)
            except ToolError as error:
                raise ModelError(f"tool_format: {error.message}", code="bad-option") from None
        if self.api_key is not None and not self.api_key:
            raise ModelError("the API key is empty; omit it to require none", code="bad-option")
        if isinstance(self.cors_origins, str):
            raise ModelError("cors_origins must be a tuple of origins, not a string", code="bad-option")
