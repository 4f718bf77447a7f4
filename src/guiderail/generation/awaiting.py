"""Generation with ``await``: it runs on threads of its own, so that the event loop keeps running."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from guiderail.generation.conversation import Prompt
from guiderail.generation.generate import finished, run, values_of
from guiderail.generation.options import MISSING, options_of, takes_options
from guiderail.generation.result import Generation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from guiderail.frontends.python_types import PythonType
    from guiderail.frontends.tools import ToolCalls, ToolText
    from guiderail.generation.generate import _Text, _Valued
    from guiderail.generation.options import GenerateOptions

__all__ = ["agenerate", "agenerations"]

T = TypeVar("T")


@overload
async def agenerate(model: Any, prompt: Prompt, target: type[T], **options: Unpack[GenerateOptions]) -> T: ...
@overload
async def agenerate(model: Any, prompt: Prompt, target: PythonType[T], **options: Unpack[GenerateOptions]) -> T: ...
@overload
async def agenerate(model: Any, prompt: Prompt, target: ToolCalls, **options: Unpack[GenerateOptions]) -> ToolText: ...
@overload
async def agenerate(
    model: Any, prompt: Prompt, target: Mapping[str, Any] | _Valued, **options: Unpack[GenerateOptions]
) -> Any: ...
@overload
async def agenerate(model: Any, prompt: Prompt, target: _Text, **options: Unpack[GenerateOptions]) -> str: ...
@overload
async def agenerate(
    model: Any, prompt: Prompt | Sequence[Prompt], target: Any, *, n: int | None = None,
    **options: Unpack[GenerateOptions],
) -> Any: ...  # fmt: skip
@takes_options()
async def agenerate(model: Any, prompt: Any, target: Any = MISSING, **options: Any) -> Any:
    """Like :func:`generate`, but awaitable: other tasks run meanwhile.

        >>> dates = await asyncio.gather(*(gr.agenerate(model, ask, gr.patterns.date()) for ask in questions))

    If you have many prompts at once, pass them as a list: that is faster, because they share the forward passes. If a
    task is cancelled, the model stops after its current pass.
    """
    chosen = options_of("agenerate", options, target)
    results, single = await _in_thread(lambda stop: run(model, prompt, target, chosen, single=True, stop=stop))
    return values_of(finished(results, chosen), chosen, single=single)


@takes_options(on_incomplete="return", log_weight=True)
async def agenerations(
    model: Any,
    prompts: Sequence[Prompt],
    target: Any = MISSING,
    *,
    n: int | None = None,
    **options: Unpack[GenerateOptions],
) -> list[Generation]:
    """Like :func:`generations`, but awaitable."""
    chosen = options_of("agenerations", {**options, "n": n}, target, on_incomplete="return", log_weight=True)
    results, _ = await _in_thread(lambda stop: run(model, prompts, target, chosen, single=False, stop=stop))
    return finished(results, chosen, on_shortened="return")


async def _in_thread(function: Callable[[threading.Event], T]) -> T:
    """Runs a function on a thread, and returns or raises what it does.

    If the task is cancelled, sets the event and waits for the end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    stop = threading.Event()

    def tell(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        try:
            result, error = function(stop), None
        except BaseException as raised:
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(tell, result, error)
        except RuntimeError:  # the loop was closed: there is no waiter
            return

    threading.Thread(
        target=contextvars.copy_context().run, args=(work,), name="guiderail-generate", daemon=True
    ).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([done])
        if not done.cancelled():
            done.exception()  # marks the exception as retrieved
        raise
