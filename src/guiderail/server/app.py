"""Routes, limits and keys: the ASGI application."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from guiderail.generation.models import load_model
from guiderail.inspect import page, page_headers
from guiderail.server.bodies import Gone, LastWord, read_body
from guiderail.server.chat_api import start_chat
from guiderail.server.completions_api import start_completion
from guiderail.server.errors import ApiError
from guiderail.server.fair import CLIENT
from guiderail.server.http import Events, Gate, while_listening
from guiderail.server.inspection import HEADER, Kept, index_page
from guiderail.server.options import ServerOptions
from guiderail.server.responses_api import start_response
from guiderail.server.service import Service, Watches
from guiderail.server.written import told

__all__ = ["create_app"]

_log = logging.getLogger("guiderail.server")


def create_app(model: Any = None, options: ServerOptions | None = None) -> FastAPI:
    """See :func:`guiderail.server.create_app`."""
    options = options or ServerOptions()
    runner = load_model(model)
    service = Service(runner, options)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.engine.start()
        ready = asyncio.ensure_future(service.compiler.start())
        try:
            yield
        finally:
            ready.cancel()
            with suppress(asyncio.CancelledError):
                await ready
            service.close()
            if runner is not model:
                runner.close()

    app = FastAPI(title="guiderail", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    metrics = service.metrics

    def refuse(error: ApiError) -> Response:
        metrics.errors.labels(error.code).inc()
        if error.status in (408, 413):  # more of the body is coming
            return LastWord(JSONResponse(error.body()).body, error.status, error.headers(), "application/json")
        return JSONResponse(error.body(), error.status, error.headers())

    async def _api_error(_: Request, error: Any) -> Response:
        return refuse(error)

    async def _http_error(_: Request, error: Any) -> Response:
        code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http")
        return refuse(ApiError(error.status_code, str(error.detail), code=code))

    def looked_into(request: Request) -> tuple[str | None, Watches]:
        """Whether the texts of a request are to be watched: its name, and the watch."""
        wish = request.headers.get(HEADER)
        if wish not in (None, "0", "1"):
            raise ApiError(400, f"the header {HEADER} is 1 or 0, not {wish!r}", code="invalid-request", param=HEADER)
        if service.inspections is None:
            if wish == "1":
                raise ApiError(
                    400, "this server records no texts; start it with --inspect asked", code="inspect-off",
                    param=HEADER,
                )  # fmt: skip
            return None, None
        if wish == "1" or (wish is None and options.inspect == "all"):
            return service.inspections.begin(request.url.path)
        return None, None

    async def answer(request: Request, kind: str, start: Callable[..., Awaitable[Any]]) -> Response:
        """Reads a request, and answers it whole or as events."""
        CLIENT.set("" if request.client is None else request.client.host)
        try:
            body = await read_body(request.receive, request.headers, options.max_body_bytes, options.body_seconds)
            said = await while_listening(request, service.said(kind, body))
            del body
            name, watch = looked_into(request)
            headers = {} if name is None else {HEADER: f"/inspect/{name}"}

            async def begin() -> Any:
                return await start(service, said, watch)

            if said.request.stream:
                made = await while_listening(request, begin())
                metrics.active_streams.inc()

                def ended() -> None:
                    made.run.cancel()
                    metrics.active_streams.dec()

                return Events(made.events(), ended, headers)

            async def whole() -> Any:
                return await (await begin()).whole()

            answered = told(await while_listening(request, whole()))
            return Response(answered, headers=headers, media_type="application/json")
        except Gone:
            metrics.cancelled.inc()
            return Response(status_code=499)  # nobody reads it
        except ApiError:
            raise
        except Exception as error:
            _log.exception("a request failed")
            return refuse(ApiError(500, f"the server failed: {type(error).__name__}", code="internal-error"))

    async def _chat(request: Request) -> Response:
        return await answer(request, "chat", start_chat)

    async def _completions(request: Request) -> Response:
        return await answer(request, "completions", start_completion)

    async def _responses(request: Request) -> Response:
        return await answer(request, "responses", start_response)

    def card() -> dict[str, Any]:
        return {
            "id": service.name,
            "object": "model",
            "created": service.created,
            "owned_by": "guiderail",
            "max_model_len": min(runner.context_length, options.max_cached_tokens),
        }

    async def _models() -> dict[str, Any]:
        return {"object": "list", "data": [card()]}

    async def _model(name: str) -> dict[str, Any]:
        service.check_model(name)
        return card()

    async def _health() -> JSONResponse:
        running, waiting = service.engine.load
        alive = service.engine.is_alive
        body = {"status": "ok" if alive else "stopped", "model": service.name, "running": running, "waiting": waiting}
        return JSONResponse(body, 200 if alive else 503)

    async def _ready() -> JSONResponse:
        _, waiting = service.engine.load
        ready = service.engine.is_alive and waiting < max(1, options.max_queue)
        return JSONResponse({"ready": ready, "waiting": waiting, "time": int(time.time())}, 200 if ready else 503)

    async def _inspect() -> Response:
        assert service.inspections is not None
        if options.inspect == "all":
            texts = service.inspections.recent()
            note = f"The last {len(texts)} texts of {service.name}, the newest first." if texts else "No text yet."
        else:
            texts = []
            note = f"A request with the header {HEADER}: 1 is answered with the address of its page in that header."
        text, headers = index_page("Look inside", texts, note)
        return Response(text, headers=headers)

    async def kept(name: str, number: int | None) -> list[Kept]:
        assert service.inspections is not None
        found = await asyncio.to_thread(service.inspections.of, name, seconds=30.0)
        found = [one for one in found if number is None or one.number == number]
        if not found:
            raise ApiError(404, "there is no such text, or it is no longer kept", code="not-found")
        return found

    async def _inspected(name: str) -> Response:
        texts = await kept(name, None)
        if len(texts) == 1:
            return await _inspected_text(name, texts[0].number)
        text, headers = index_page("Look inside", texts, f"The {len(texts)} texts of one request.")
        return Response(text, headers=headers)

    async def _inspected_text(name: str, number: int) -> Response:
        (one,) = await kept(name, number)
        return Response(await asyncio.to_thread(lambda: page(one.json())), headers=page_headers())

    async def _inspected_json(name: str, number: int) -> Response:
        (one,) = await kept(name, number)
        return Response(one.json(), headers={**page_headers(), "Content-Type": "application/json"})

    async def _metrics() -> Response:
        text, kind = metrics.render()
        return Response(text, media_type=kind)

    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_api_route("/v1/chat/completions", _chat, methods=["POST"])
    app.add_api_route("/v1/completions", _completions, methods=["POST"])
    app.add_api_route("/v1/responses", _responses, methods=["POST"])
    app.add_api_route("/v1/models", _models, methods=["GET"])
    app.add_api_route("/v1/models/{name:path}", _model, methods=["GET"])
    app.add_api_route("/health", _health, methods=["GET"])
    app.add_api_route("/ready", _ready, methods=["GET"])
    app.add_api_route("/metrics", _metrics, methods=["GET"])
    if service.inspections is not None:
        app.add_api_route("/inspect", _inspect, methods=["GET"])
        app.add_api_route("/inspect/{name}", _inspected, methods=["GET"])
        app.add_api_route("/inspect/{name}/{number:int}", _inspected_text, methods=["GET"])
        app.add_api_route("/inspect/{name}/{number:int}/json", _inspected_json, methods=["GET"])
    app.add_middleware(Gate, api_key=options.api_key, metrics=metrics)
    if options.cors_origins:  # outermost: a browser's question before the request has no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", HEADER],
            expose_headers=[HEADER],
        )
    return app
