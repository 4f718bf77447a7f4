"""``guiderail serve``: an OpenAI-compatible server."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guiderail.cli._options import ModelOptions, takes_options
from guiderail.errors import ModelError
from guiderail.server.options import ServerOptions
from guiderail.support.files import text_of
from guiderail.support.packages import package

if TYPE_CHECKING:
    import uvicorn

_DEFAULT = ServerOptions()


def _limit(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, rich_help_panel="Limits")


@dataclass(frozen=True)
class Limits:
    """The limits of a server that have an option. A group of options: see :func:`takes_options`."""

    max_rows: Annotated[int, _limit("N", "Maximum number of texts generated at once.")] = _DEFAULT.max_rows
    max_queue: Annotated[int, _limit("N", "Maximum number of texts that wait for their turn.")] = _DEFAULT.max_queue
    max_cached_tokens: Annotated[int, _limit("N", "Tokens of key-value cache that all texts share.")] = (
        _DEFAULT.max_cached_tokens
    )
    max_draws: Annotated[int, _limit("N", "Maximum number of exact or weighted draws at once; 0: none.")] = (
        _DEFAULT.max_draws
    )
    max_passes: Annotated[int, _limit("N", "Maximum number of forward passes of an exact draw.")] = _DEFAULT.max_passes
    max_particles: Annotated[int, _limit("N", "Maximum number of texts in a weighted population.")] = (
        _DEFAULT.max_particles
    )
    max_body_bytes: Annotated[int, _limit("N", "Maximum size of a request, in bytes.")] = _DEFAULT.max_body_bytes
    max_json_values: Annotated[int, _limit("N", "Maximum number of values in the JSON of a request.")] = (
        _DEFAULT.max_json_values
    )
    body_seconds: Annotated[float, _limit("S", "Seconds for the body of a request to arrive.")] = _DEFAULT.body_seconds
    max_connections: Annotated[int, _limit("N", "Maximum number of connections at once.")] = _DEFAULT.max_connections
    compile_seconds: Annotated[float, _limit("S", "Seconds to compile one constraint.")] = _DEFAULT.compile_seconds
    max_nodes: Annotated[int, _limit("N", "Maximum number of expressions of one constraint.")] = _DEFAULT.max_nodes
    max_work: Annotated[int, _limit("N", "Maximum number of steps to read one constraint, about 0.1 µs each.")] = (
        _DEFAULT.max_work
    )
    max_step_work: Annotated[int, _limit("N", "Maximum number of such steps for one mask or one token.")] = (
        _DEFAULT.max_step_work
    )
    request_seconds: Annotated[float, _limit("S", "Seconds to answer one request.")] = _DEFAULT.request_seconds
    mask_seconds: Annotated[float, _limit("S", "Seconds for all masks of one text, without the model.")] = (
        _DEFAULT.mask_seconds
    )


@takes_options()
def serve_command(
    *,
    loading: ModelOptions,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0: every interface.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8000,
    name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Name of the model for clients; by default its own.")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", envvar="GUIDERAIL_API_KEY", help="API key that clients must send; by default none."
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web origin that may call the server; may be repeated. By default none."),
    ] = None,
    chat_template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Jinja chat template to use instead of the model's own.")
    ] = None,
    tool_format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Format of tool calls; by default recognized from the chat template."),
    ] = None,
    inspect: Annotated[
        str,
        typer.Option(
            metavar="off|asked|all",
            help="Texts to record for /inspect: those of requests with the header X-Guiderail-Inspect: 1, or all.",
        ),
    ] = "off",
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads; by default 1 for the embedded model, else the idle cores.")
    ] = None,
    limits: Limits,
    log_level: Annotated[str, typer.Option(metavar="NAME", help="critical, error, warning, info or debug.")] = "info",
) -> None:
    r"""Serve a model over OpenAI's API: chat completions, completions, responses.

    Requests give constraints as `response_format`, `tools` or `structured_outputs` (or its older names). `GET /metrics`
    is for Prometheus, `GET /health` and `GET /ready` are for monitoring.

    **Examples**

    - `guiderail serve`
    - `guiderail serve --model model.gguf --host 0.0.0.0 --port 8080 --name my-model`
    - `guiderail serve --inspect all`, and then open http://localhost:8000/inspect
    - `curl localhost:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}'`
    """
    uvicorn = package("uvicorn", "a server needs more packages", extra="server", error=ModelError)
    from guiderail.server import ServerOptions, create_app
    from guiderail.server.bodies import calm_collector
    from guiderail.server.connections import protocol

    if log_level not in uvicorn.config.LOG_LEVELS:
        raise ModelError(
            f"there is no log level {log_level!r}; use critical, error, warning, info or debug", code="bad-option"
        )
    template = None
    if chat_template is not None:
        what = f"the chat template {chat_template} cannot be read"
        template = text_of(chat_template, what, ModelError, "missing-file")
    options = ServerOptions(
        served_name=name,
        api_key=api_key,
        cors_origins=tuple(cors_origin or ()),
        chat_template=template,
        tool_format=tool_format,
        inspect=inspect,
        **asdict(limits),
    )
    with _bound(host, port) as listener:
        if log_level in ("info", "debug"):  # of a large model, this takes minutes
            print(f"loading {loading.model or 'the embedded model'} …", file=sys.stderr, flush=True)
        runner = loading.load(threads)
        try:
            app = create_app(runner, options)
            calm_collector()
            config = uvicorn.Config(
                app,
                host=host,
                port=port,
                log_level=log_level,
                # A connection that a client holds open must not keep the server from ending.
                timeout_graceful_shutdown=10,
                limit_concurrency=options.max_connections,
                http=protocol(head_seconds=options.head_seconds, write_seconds=options.write_seconds),
            )
            _run(config, listener)
        finally:
            runner.close()


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before anything is loaded. It accepts connections when the server is ready.

    Raises:
        ModelError: ``bad-address``: it is in use, or not an address of this machine.
    """
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        if os.name == "posix":  # reuse a port in TIME_WAIT; elsewhere this would share it
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            message = f"port {port} of {host} is in use; stop what uses it, or choose another --port (0: a free one)"
        else:
            message = f"the server cannot listen on {host} port {port}: {error}; see --host and --port"
        raise ModelError(message, code="bad-address") from None
    return listener


def _run(config: uvicorn.Config, listener: socket.socket) -> None:
    """Serves until it is told to stop; prints the address when it is ready."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            host, port = listener.getsockname()[:2]
            place = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            logging.getLogger("uvicorn.error").info("guiderail serves %s (Ctrl+C ends it)", place)

    try:
        Server(config).run([listener])
    except KeyboardInterrupt:  # uvicorn has ended by then, and has reported it
        return
