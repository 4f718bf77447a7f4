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
from guiderail.server.fair_queue import CLIENT
from guiderail.server.http import Events, Gate, while_listening
from guiderail.server.inspection import HEADER, Inspections, Kept, index_page
from guiderail.server.json_answers import answer_json
from guiderail.server.loading import load_front_ends
from guiderail.server.options import ServerOptions
from guiderail.server.responses_api import start_response
from guiderail.server.service import Service, Watches

__all__ = ["create_app"]

_LONGEST_PATH = 100  # characters of a path shown in a message

_log = logging.getLogger("guiderail.server")


def create_app(model: Any = None, options: ServerOptions | None = None) -> FastAPI:
    """See :func:`guiderail.server.create_app`."""
    options = options or ServerOptions()
    load_front_ends()
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
    _Api(service, options).add_to(app)
    _About(service, options, min(runner.context_length, options.max_cached_tokens)).add_to(app)
    if service.inspections is not None:
        _Inspect(service.inspections, service.name, options).add_to(app)
    app.add_middleware(Gate, api_key=options.api_key, metrics=service.metrics)
    if options.cors_origins:  # outermost: a browser's preflight request has no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", HEADER],
            expose_headers=[HEADER],
        )
    return app


class _Api:
    """The interfaces that generate text, and their error answers."""

    def __init__(self, service: Service, options: ServerOptions) -> None:
        self.service, self.options, self.metrics = service, options, service.metrics

    def add_to(self, app: FastAPI) -> None:
        app.add_exception_handler(ApiError, self.api_error)
        app.add_exception_handler(HTTPException, self.http_error)
        app.add_api_route("/v1/chat/completions", self.chat, methods=["POST"])
        app.add_api_route("/v1/completions", self.completions, methods=["POST"])
        app.add_api_route("/v1/responses", self.responses, methods=["POST"])

    def refuse(self, error: ApiError) -> Response:
        self.metrics.errors.labels(error.code).inc()
        if error.status in (408, 413):  # more of the body is coming
            return LastWord(JSONResponse(error.body()).body, error.status, error.headers(), "application/json")
        return JSONResponse(error.body(), error.status, error.headers())

    async def api_error(self, _: Request, error: Any) -> Response:
        return self.refuse(error)

    async def http_error(self, request: Request, error: Any) -> Response:
        code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http")
        message = str(error.detail)
        if code != "http":
            message = f"there is no {request.method} {request.url.path[:_LONGEST_PATH]!r} here; the endpoints are "
            message += "POST /v1/chat/completions, /v1/completions and /v1/responses, and GET /v1/models"
        return self.refuse(ApiError(error.status_code, message, code=code))

    def watching(self, request: Request) -> tuple[str | None, Watches]:
        """Whether the texts of a request are recorded for ``/inspect``: returns its name and its watch."""
        wish = request.headers.get(HEADER)
        if wish not in (None, "0", "1"):
            raise ApiError(
                400, f"the header {HEADER} must be 1 or 0, not {wish!r}", code="invalid-request", param=HEADER
            )
        if self.service.inspections is None:
            if wish == "1":
                raise ApiError(
                    400, "this server records no texts; start it with --inspect asked", code="inspect-off",
                    param=HEADER,
                )  # fmt: skip
            return None, None
        if wish == "1" or (wish is None and self.options.inspect == "all"):
            return self.service.inspections.begin(request.url.path)
        return None, None

    async def answer(self, request: Request, kind: str, start: Callable[..., Awaitable[Any]]) -> Response:
        """Reads a request and answers it, whole or as events."""
        CLIENT.set("" if request.client is None else request.client.host)
        try:
            body = await read_body(
                request.receive, request.headers, self.options.max_body_bytes, self.options.body_seconds
            )
            contents = await while_listening(request, self.service.contents(kind, body))
            del body
            name, watch = self.watching(request)
            headers = {} if name is None else {HEADER: f"/inspect/{name}"}

            async def begin() -> Any:
                return await start(self.service, contents, watch)

            if contents.request.stream:
                made = await while_listening(request, begin())
                self.metrics.active_streams.inc()

                def ended() -> None:
                    made.run.cancel()
                    self.metrics.active_streams.dec()

                return Events(made.events(), ended, headers)

            async def whole() -> Any:
                return await (await begin()).whole()

            answered = answer_json(await while_listening(request, whole()))
            return Response(answered, headers=headers, media_type="application/json")
        except Gone:
            self.metrics.cancelled.inc()
            return Response(status_code=499)  # nothing reads it
        except ApiError:
            raise
        except Exception as error:
            _log.exception("a request failed")
            return self.refuse(ApiError(500, f"the server failed: {type(error).__name__}", code="internal-error"))

    async def chat(self, request: Request) -> Response:
        return await self.answer(request, "chat", start_chat)

    async def completions(self, request: Request) -> Response:
        return await self.answer(request, "completions", start_completion)

    async def responses(self, request: Request) -> Response:
        return await self.answer(request, "responses", start_response)


class _About:
    """The routes about the model and the server."""

    def __init__(self, service: Service, options: ServerOptions, context: int) -> None:
        self.service, self.options, self.context = service, options, context

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/v1/models", self.models, methods=["GET"])
        app.add_api_route("/v1/models/{name:path}", self.model, methods=["GET"])
        app.add_api_route("/health", self.health, methods=["GET"])
        app.add_api_route("/ready", self.ready, methods=["GET"])
        app.add_api_route("/metrics", self.metrics, methods=["GET"])

    def card(self) -> dict[str, Any]:
        return {
            "id": self.service.name,
            "object": "model",
            "created": self.service.created,
            "owned_by": "guiderail",
            "max_model_len": self.context,
        }

    async def models(self) -> dict[str, Any]:
        return {"object": "list", "data": [self.card()]}

    async def model(self, name: str) -> dict[str, Any]:
        self.service.check_model(name)
        return self.card()

    async def health(self) -> JSONResponse:
        running, waiting = self.service.engine.load
        alive = self.service.engine.is_alive
        body = {
            "status": "ok" if alive else "stopped",
            "model": self.service.name,
            "running": running,
            "waiting": waiting,
        }
        return JSONResponse(body, 200 if alive else 503)

    async def ready(self) -> JSONResponse:
        _, waiting = self.service.engine.load
        ready = self.service.engine.is_alive and waiting < max(1, self.options.max_queue)
        return JSONResponse({"ready": ready, "waiting": waiting, "time": int(time.time())}, 200 if ready else 503)

    async def metrics(self) -> Response:
        text, kind = self.service.metrics.render()
        return Response(text, media_type=kind)


class _Inspect:
    """The routes of recorded texts."""

    def __init__(self, inspections: Inspections, model: str, options: ServerOptions) -> None:
        self.inspections, self.model, self.options = inspections, model, options

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/inspect", self.index, methods=["GET"])
        app.add_api_route("/inspect/{name}", self.of, methods=["GET"])
        app.add_api_route("/inspect/{name}/{number}", self.text, methods=["GET"])
        app.add_api_route("/inspect/{name}/{number}/json", self.json, methods=["GET"])

    async def index(self) -> Response:
        if self.options.inspect == "all":
            texts = self.inspections.recent()
            note = f"The last {len(texts)} texts of {self.model}, the newest first." if texts else "No text yet."
        else:
            texts = []
            note = f"A request with the header {HEADER}: 1 is answered with the address of its page in that header."
        text, headers = index_page(texts, note)
        return Response(text, headers=headers)

    async def kept(self, name: str, number: str | None) -> list[Kept]:
        found = await asyncio.to_thread(self.inspections.of, name, seconds=30.0)
        found = [one for one in found if number is None or str(one.number) == number]
        if not found:
            raise ApiError(404, "there is no such text, or it is no longer kept", code="not-found")
        return found

    async def of(self, name: str) -> Response:
        texts = await self.kept(name, None)
        if len(texts) == 1:
            return await self.text(name, str(texts[0].number))
        text, headers = index_page(texts, f"The {len(texts)} texts of one request.")
        return Response(text, headers=headers)

    async def text(self, name: str, number: str) -> Response:
        (one,) = await self.kept(name, number)
        return Response(await asyncio.to_thread(lambda: page(one.json())), headers=page_headers())

    async def json(self, name: str, number: str) -> Response:
        (one,) = await self.kept(name, number)
        return Response(one.json(), headers={**page_headers(), "Content-Type": "application/json"})
