"""guiderail as a structured-output backend of vLLM (V1 engine).

vLLM finds it in each of its processes, through the entry point group ``vllm.general_plugins``:

    $ vllm serve MODEL --structured-outputs-config '{"backend": "guiderail"}'

It serves all kinds of requests: ``json``, ``json_object``, ``regex``, ``grammar`` (Lark, GBNF, EBNF), ``choice`` and
``structural_tag``, and so ``response_format`` and tool calls, too. A request that cannot be served is rejected on
arrival, with 400 and the reason. In Python, call :func:`register` before ``LLM(...)``, whose arguments are read before
vLLM looks for plugins:

    >>> from guiderail.integrations.vllm import register
    >>> register()
    >>> llm = LLM(model, structured_outputs_config={"backend": "guiderail"})

``GUIDERAIL_VLLM_AUTO=1`` in the environment makes guiderail vLLM's default backend, ``"auto"``.

A text is completed, not cut off, within the tokens that its request may have (``max_tokens``, the model's length), if
these suffice for any text. ``GUIDERAIL_VLLM_FINISH=0`` switches this off.

vLLM has no registry of backends; :mod:`guiderail.integrations._vllm_patches` lists what is changed in it instead.
Reasoning is left to vLLM, which feeds and masks a backend only after the reasoning has ended.
"""

from __future__ import annotations

from guiderail.errors import CompileError
from guiderail.integrations._vllm_backend import (
    FilledTogether,
    GuiderailBackend,
    GuiderailGrammar,
    asked_of,
    logger,
    store_of,
    vocabulary_of,
)
from guiderail.integrations._vllm_patches import apply, takes_auto

__all__ = [
    "FilledTogether",
    "GuiderailBackend",
    "GuiderailGrammar",
    "asked_of",
    "register",
    "store_of",
    "vocabulary_of",
]


def register() -> None:
    """Registers the backend ``"guiderail"`` in this process. vLLM calls it, more than once.

    A vLLM that is too different is left as it is, with a message in its log, so that it can run without guiderail.

    Raises:
        CompileError: ``engine-version``, only if ``GUIDERAIL_VLLM_AUTO`` asks for guiderail.
    """
    try:
        apply()
    except CompileError as error:
        if takes_auto():
            raise
        logger.error("%s", error)
