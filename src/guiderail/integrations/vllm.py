"""guiderail as a structured-output backend of vLLM (V1 engine).

Installed beside vLLM, it is found through the entry point group ``vllm.general_plugins``, in every process of vLLM:

    $ vllm serve MODEL --structured-outputs-config '{"backend": "guiderail"}'

All kinds of requests are served: ``json``, ``json_object``, ``regex``, ``grammar`` (Lark, GBNF, EBNF), ``choice`` and
``structural_tag``, and so ``response_format`` and tool calls, too. A request that cannot be served is refused with 400
and the reason when it arrives. In Python, :func:`register` comes before ``LLM(...)``, whose arguments are read before
vLLM looks for plugins:

    >>> from guiderail.integrations.vllm import register
    >>> register()
    >>> llm = LLM(model, structured_outputs_config={"backend": "guiderail"})

``GUIDERAIL_VLLM_AUTO=1`` in the environment makes guiderail what vLLM means by its default, ``"auto"``.

A text is complete within the tokens that its request may have (``max_tokens``, the model's length), where they suffice
for any: it is completed, and not cut off. With ``GUIDERAIL_VLLM_FINISH=0`` it is cut off.

vLLM has no registry of backends; :mod:`guiderail.integrations._vllm_patches` says what is changed in it instead.
Reasoning is left to vLLM, which begins to feed and mask a backend where the reasoning ends.
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
    """Makes vLLM know the backend ``"guiderail"`` in this process; called by vLLM, more than once.

    A vLLM that is too different is left as it is, and told so in its log: it may be run without guiderail.

    Raises:
        CompileError: ``engine-version``, only where ``GUIDERAIL_VLLM_AUTO`` asks for guiderail.
    """
    try:
        apply()
    except CompileError as error:
        if takes_auto():
            raise
        logger.error("%s", error)
