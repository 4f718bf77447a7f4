"""An OpenAI-compatible server over any model that guiderail can run.

    app.py            routes, limits, keys: from a model and options to an ASGI application
    service.py        what the routes share: from a request's parts to a running generation
    schemas.py        what requests may contain
    chat_api.py, completions_api.py, responses_api.py    one interface each: whole answers and events
    constraints.py    response_format, structured_outputs, text.format … → a constraint
    tools.py          tools and tool_choice → a constraint and a reader of calls
    custom_tools.py   custom tools, and functions next to them: calls between tags
    reasoning.py      reasoning_effort → bounded reasoning before the text
    contents.py       the bytes of a request → its contents; large ones in another process
    messages.py       messages and items → what a chat template reads
    recipes.py        the source of a constraint, as plain data
    compiling.py      constraints → guides, off the event loop, within limits, fair to all clients (fair_queue.py)
    compile_process.py, compile_process_child.py    the process in which constraints are compiled first
    engine.py, rows.py, portions.py    the thread that runs the model: sessions in turn, rows in batches, long prompts
                      in portions
    parts.py          what a text is made of: content, reasoning, calls
    lending.py, draws.py    the model lent to draws from its own distribution, one pass at a time
    choices.py        the probabilities of given choices
    workers.py, background.py    threads for work that may take long
    bodies.py, connections.py, validation.py    requests that are large, slow or malformed
    inspection.py     /inspect: records of texts that show why they were written
    loading.py        modules that requests need, loaded before the first one comes
    metrics.py, errors.py, options.py, http.py, json_answers.py

Made by :func:`create_app`, or ``guiderail serve``. The extra ``server`` installs FastAPI, uvicorn and
prometheus-client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guiderail.errors import ModelError
from guiderail.server.options import ServerOptions
from guiderail.support.packages import install

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["ServerOptions", "create_app"]

_NEEDED = ("fastapi", "starlette", "pydantic", "prometheus_client", "jinja2")


def create_app(model: Any = None, options: ServerOptions | None = None) -> FastAPI:
    """Makes the ASGI application that serves a model.

    Args:
        model: a :class:`guiderail.generation.models.Model` or whatever :func:`guiderail.load_model` takes; None is the
            embedded model. A model that is loaded here is closed when the application ends.
        options: limits; see :class:`ServerOptions`.

    Returns:
        A ``fastapi.FastAPI`` application. Its engine starts with its lifespan; ``app.state.service`` is the
        :class:`~guiderail.server.service.Service`.

    Raises:
        ModelError: ``missing-package``: the extra ``server`` is not installed; or the model cannot be loaded.
    """
    try:
        from guiderail.server.app import create_app as create
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise ModelError(f"a server needs: {install('server')}", code="missing-package") from error
    return create(model, options)
