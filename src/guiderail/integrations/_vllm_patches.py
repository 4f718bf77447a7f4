"""The changes to vLLM, which has no registry of structured-output backends.

| place | change |
|---|---|
| ``StructuredOutputsConfig`` | ``backend`` may be ``"guiderail"``, with ``disable_any_whitespace`` |
| ``SamplingParams._validate_structured_outputs`` | compiles a request's constraint; a failure is answered with 400 |
| ``StructuredOutputManager.__init__`` | makes the vocabulary at once, on the manager's executor |
| ``StructuredOutputManager.grammar_init`` | makes the backend when the first request asks for guiderail |
| ``StructuredOutputManager._create_grammar`` | passes on a request's options and limit, not only its text |
| ``StructuredOutputManager.grammar_bitmask`` | collects the masks of a step and fills them in one native call |
| ``StructuredOutputManager.validate_tokens`` | drafts forced text in place of the engine's draft |
| checks of structural tags when a request is read | skipped, because they ask XGrammar whatever the backend is |
| ``DelegatingParser._apply_structural_tag`` | tools are strict by default: calls keep to their schemas |
| ``_xgrammar_supports`` of the parsers | tools go with any constraint of the answer, whatever XGrammar can serve |
| offline beam search | makes the backend, too |
| ``rejection_sampler.expand_batch_to_tokens``, on the CPU only | writes its result: vLLM 0.32 leaves it uninitialised |
| ``WorkerBase.__init__``, on the CPU only | has guiderail apply the masks to the logits, in place |

Requests for other backends take vLLM's own path. Everything is looked up before anything is changed, so a vLLM with
another structure stays as it is.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import typing
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from guiderail.errors import CompileError, GuiderailError
from guiderail.matching.bitmask import apply_token_bitmask_inplace

__all__ = ["NAME", "apply", "takes_auto"]

NAME = "guiderail"
_AUTO = "GUIDERAIL_VLLM_AUTO"
_FINISH = "GUIDERAIL_VLLM_FINISH"
_DRAFTS = "GUIDERAIL_VLLM_DRAFTS"
_STRICT = "GUIDERAIL_VLLM_STRICT_TOOLS"
_MOST_ON_CPU = 32  # texts written at once; with more, all cores are busy, and rejected tokens delay the others
_done: set[str] = set()  # what was changed in this process
_configured: set[str] = set()  # contains NAME once an engine of this process uses it as its backend


def takes_auto() -> bool:
    """Whether guiderail replaces vLLM's default backend, ``"auto"``: ``GUIDERAIL_VLLM_AUTO`` is set to 1."""
    return os.environ.get(_AUTO, "0") not in ("", "0")


def finishes() -> bool:
    """Whether texts are completed within their requests' tokens: unless ``GUIDERAIL_VLLM_FINISH`` is set to 0."""
    return os.environ.get(_FINISH, "1") not in ("", "0")


def drafts() -> bool:
    """Whether constraints offer drafts if the engine verifies any: unless ``GUIDERAIL_VLLM_DRAFTS`` is set to 0."""
    return os.environ.get(_DRAFTS, "1") not in ("", "0")


def strict_tools() -> bool:
    """Whether tools are strict by default: unless ``GUIDERAIL_VLLM_STRICT_TOOLS`` is set to 0."""
    return os.environ.get(_STRICT, "1") not in ("", "0")


def _most_tokens(request: Any, config: Any) -> int:
    """The number of tokens that a request may write."""
    return min(int(request.max_tokens), int(config.model_config.max_model_len) - int(request.num_prompt_tokens))


def _serves(backend: str | None) -> bool:
    return backend == NAME or (backend == "auto" and takes_auto())


def apply() -> None:
    """Patches vLLM in this process. Repeated calls change nothing.

    Raises:
        CompileError: ``engine-version``: this vLLM lacks something that is to be patched.
    """
    if not _done:
        try:
            _core()
            _cpu_sampler()
            _cpu_worker()
        except (ImportError, AttributeError, KeyError, TypeError) as error:
            raise CompileError(
                f"guiderail cannot be the structured-output backend of this version of vLLM "
                f"({type(error).__name__}: {error}); install vllm 0.32 or a newer guiderail",
                code="engine-version",
            ) from error
        _done.add("core")
    _patch_loaded()


def _patch_loaded() -> None:
    """Patches modules of front ends, which only some processes load."""
    for name, change in {
        "vllm.entrypoints.generate.beam_search.offline": _patch_beams,
        "vllm.entrypoints.generate.base.protocol": _patch_protocol,
        "vllm.parser.abstract_parser": _patch_tools,
        "vllm.parser.beam": _patch_supported,  # since 0.33, with a name of its own for it
    }.items():
        if name not in _done and name in sys.modules and change(sys.modules[name]):
            _done.add(name)


def _core() -> None:
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config import structured_outputs as config_module
    from vllm.sampling_params import SamplingParams
    from vllm.v1.structured_output import StructuredOutputManager

    config = config_module.StructuredOutputsConfig
    validate = SamplingParams._validate_structured_outputs
    begin, grammar_init = StructuredOutputManager.__init__, StructuredOutputManager.grammar_init
    create, fill = StructuredOutputManager._create_grammar, StructuredOutputManager.grammar_bitmask
    check = StructuredOutputManager.validate_tokens
    validators = config.__pydantic_decorators__.model_validators["_validate_structured_output_config"]
    known = typing.get_args(config_module.StructuredOutputsBackend)
    if "auto" not in known:
        raise TypeError("the names of the backends are not where guiderail expects them")

    wider = typing.Literal.__getitem__((*known, NAME))
    config_module.StructuredOutputsBackend = wider
    config.__annotations__["backend"] = wider
    config.__dataclass_fields__["backend"].type = wider
    validators.func = _config_validator(validators.func)
    rebuild_dataclass(config, force=True)
    SamplingParams._validate_structured_outputs = _validator(validate)
    StructuredOutputManager.__init__ = _manager_init(begin)
    StructuredOutputManager.grammar_init = _grammar_init(grammar_init)
    StructuredOutputManager._create_grammar = _create_grammar(create)
    StructuredOutputManager.grammar_bitmask = _grammar_bitmask(fill)
    StructuredOutputManager.validate_tokens = _validate_tokens(check)


def _on_cpu() -> bool:
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def _cpu_sampler() -> None:
    """Corrects the temperatures of drafted texts.

    In vLLM 0.32's CPU build, the kernel writes to a copy, and the logits are divided by memory that nobody has written.
    A text then gets tokens that its mask forbids.
    """
    if _on_cpu():
        from vllm.v1.sample import rejection_sampler

        rejection_sampler.expand_batch_to_tokens = _expand(rejection_sampler.expand_batch_to_tokens)


def _expand(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def expand(x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0) -> Any:
        counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
        return x.masked_fill(x == replace_from, replace_to).repeat_interleave(counts, output_size=num_tokens)

    return expand


def _cpu_worker() -> None:
    """Has workers on the CPU apply masks as :func:`_apply_masks` does, if guiderail is their engine's backend."""
    if _on_cpu():
        from vllm.v1.worker.worker_base import WorkerBase

        WorkerBase.__init__ = _worker_init(WorkerBase.__init__)


def _worker_init(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        runner = sys.modules.get("vllm.v1.worker.gpu_model_runner")  # the one on the CPU is derived from it
        apply_masks = getattr(runner, "apply_grammar_bitmask", None)
        if apply_masks is None or "masks" in _done:
            return
        if _serves(self.vllm_config.structured_outputs_config.backend):
            runner.apply_grammar_bitmask = _apply_masks(apply_masks)  # type: ignore[union-attr]
            _done.add("masks")
            logging.getLogger("vllm.guiderail").info("guiderail applies the masks to the logits of this worker")

    return begin


def _apply_masks(original: Callable[..., None]) -> Callable[..., None]:
    """Applies masks to logits on the CPU in the logits' own type.

    vLLM converts all of them to float32 and back, and XGrammar writes forbidden tokens one by one. The model waits: for
    56 rows of 49,152 tokens 1.8 to 12.7 ms, here 0.2 to 0.6.
    """

    @functools.wraps(original)
    def apply_masks(scheduled: Any, grammars: Any, batch: Any, logits: Any) -> None:
        if not logits.is_cpu:
            return original(scheduled, grammars, batch, logits)
        drafts = scheduled.scheduled_spec_decode_tokens
        first, row = {}, 0
        for id in batch.req_ids:
            first[id] = row
            row += 1 + len(drafts.get(id, ()))
        source: list[int] = []
        target: list[int] = []
        for id, rows in _mask_rows(grammars, drafts):
            if id in first:
                source += rows
                target += range(first[id], first[id] + len(rows))
        masks = np.empty((logits.shape[0], grammars.grammar_bitmask.shape[1]), np.int32)
        masks[target] = grammars.grammar_bitmask[source]
        apply_token_bitmask_inplace(logits, masks, indices=target)
        return None

    return apply_masks


def _mask_rows(grammars: Any, drafts: Any) -> list[tuple[str, range]]:
    """The rows of each request's masks: one for each token of its draft, and one more.

    vLLM 0.32 leaves no rows between those of two requests. Since 0.33, all requests have equally many, for the longest
    draft, and a request uses the first of its own.
    """
    ids = grammars.structured_output_request_ids
    counts = [1 + len(drafts.get(id, ())) for id in ids]
    rows = grammars.grammar_bitmask.shape[0]
    if rows == sum(counts):
        starts = list(accumulate(counts, initial=0))
    else:
        starts = [i * (rows // len(ids)) for i in range(len(ids))]
    return [(id, range(start, start + count)) for id, start, count in zip(ids, starts, counts, strict=False)]


def _config_validator(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def check(self: Any) -> Any:
        if _serves(self.backend):
            _configured.add(NAME)
            _patch_loaded()
            if not self.disable_additional_properties:
                return self
        return original(self)

    return check


def _validator(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def validate(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        given = self.structured_outputs
        if given is None or structured_outputs_config is None or not _serves(structured_outputs_config.backend):
            return original(self, model_config, structured_outputs_config, tokenizer)
        _check(given, model_config, structured_outputs_config, tokenizer)
        return None

    return validate


def _check(given: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Rejects a request that cannot be served, with the original message."""
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import check_json_nesting

    from guiderail.integrations._vllm_backend import asked_of, store_of

    if getattr(model_config, "is_diffusion", False):
        raise VLLMValidationError("Structured outputs are not yet supported for diffusion language models.")
    if tokenizer is None:
        raise VLLMValidationError("Structured outputs need a tokenizer: they do not go with 'skip_tokenizer_init'.")
    if given._backend not in (None, NAME):
        raise VLLMValidationError(
            f"The backend is chosen for the server ({NAME}), not by a request ({given._backend})."
        )
    if given.json_object is False:
        raise VLLMValidationError("structured_outputs.json_object must be True if set; omit it for free text")
    check_json_nesting(given.json)
    check_json_nesting(given.structural_tag, structural_tag=True)
    given.__post_init__()  # exactly one kind
    try:
        store_of(tokenizer, model_config.get_vocab_size()).guide(asked_of(given, compact=config.disable_any_whitespace))
    except GuiderailError as error:
        raise VLLMValidationError(f"structured_outputs: {error}") from error
    given._backend = NAME
    given._backend_was_auto = config.backend == "auto"


def _manager_init(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def begin(self: Any, vllm_config: Any) -> None:
        original(self, vllm_config)
        if _serves(vllm_config.structured_outputs_config.backend) and hasattr(self, "tokenizer"):
            self.executor.submit(_backend(self).store.warm)

    return begin


def _backend(manager: Any) -> Any:
    from guiderail.integrations._vllm_backend import GuiderailBackend

    config = manager.vllm_config
    return GuiderailBackend(config, tokenizer=manager.tokenizer, vocab_size=config.model_config.get_vocab_size())


def _grammar_init(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def grammar_init(self: Any, request: Any) -> None:
        asked = request.structured_output_request
        if asked is not None:
            ours = _serves(self.vllm_config.structured_outputs_config.backend)
            if asked.params._backend is None and ours:  # no front end in Python has checked it
                asked.params._backend = NAME
            if self.backend is None and asked.params._backend == NAME:
                self.backend = _backend(self)
                self.backend_name = NAME  # since 0.33, vLLM refuses requests for another backend than this
        original(self, request)

    return grammar_init


def _create_grammar(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(self: Any, request: Any) -> Any:
        from guiderail.integrations._vllm_backend import GuiderailBackend, asked_of, logger

        if not isinstance(self.backend, GuiderailBackend):
            return original(self, request)
        params = request.sampling_params
        stops = params.all_stop_token_ids if params is not None else None
        try:
            asked = asked_of(request.structured_output_request.params, compact=self.backend.compact)
            most = _most_tokens(request, self.vllm_config) if finishes() else None
            return self.backend.compile_asked(asked, stops, most, lambda: int(request.num_output_tokens))
        except Exception:
            logger.exception("request %s: its constraint cannot be compiled", request.request_id)
            raise

    return create


def _grammar_bitmask(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def grammar_bitmask(self: Any, requests: Any, ids: Any, *args: Any, **kwargs: Any) -> Any:
        together = getattr(self.backend, "together", None)
        if together is None:
            return original(self, requests, ids, *args, **kwargs)
        self.backend.habits.running = len(ids)
        with together:  # the returned array shares its memory with the one that is filled
            return original(self, requests, ids, *args, **kwargs)

    return grammar_bitmask


def _validate_tokens(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def validate_tokens(self: Any, request: Any, spec_tokens: list[int]) -> Any:
        return original(self, request, _drafted(self, request) or spec_tokens)

    return validate_tokens


def _drafted(manager: Any, request: Any) -> list[int]:
    """The draft of a request's constraint, which replaces that of the engine's own proposer; empty if there is none.

    With asynchronous scheduling, and in the V2 model runner, the worker verifies the draft that it has itself. A draft
    that replaced it would have masks for other tokens than those verified.
    """
    from guiderail.integrations._vllm_backend import GuiderailGrammar

    asked = request.structured_output_request
    grammar = None if asked is None else asked.grammar
    if not isinstance(grammar, GuiderailGrammar) or not drafts():
        return []
    if manager.reasoner_cls is not None and not asked.reasoning_ended:
        return []
    config = manager.vllm_config
    if config.scheduler_config.async_scheduling or config.use_v2_model_runner:
        return []
    if manager.backend.habits.running > _MOST_ON_CPU and _on_cpu():
        return []
    return grammar.draft(int(config.num_speculative_tokens))


def _patch_protocol(module: Any) -> bool:
    original = getattr(module, "validate_structural_tag_payload", None)
    if original is None:  # the module is being loaded now, or is of another vLLM, in which XGrammar checks tags as well
        return False

    @functools.wraps(original)
    def validate(payload: Any, *, parameter: str) -> None:
        if NAME not in _configured or not isinstance(payload, str) or not payload:
            original(payload, parameter=parameter)

    module.validate_structural_tag_payload = validate
    return True


def _patch_tools(module: Any) -> bool:
    owner = getattr(module, "DelegatingParser", None)
    original = vars(owner).get("_apply_structural_tag") if isinstance(owner, type) else None
    if original is None:  # the module is being loaded now, or is of another vLLM
        return False

    @functools.wraps(original)
    def apply_tag(self: Any, request: Any) -> Any:
        tools = request.tools
        if not tools or NAME not in _configured or not strict_tools():
            return original(self, request)
        try:
            request.tools = [_stricter(tool) for tool in tools]
            return original(self, request)
        finally:
            request.tools = tools  # as the client sent them: the prompt shows them

    owner._apply_structural_tag = apply_tag  # type: ignore[union-attr]
    _patch_supported(module)
    return True


def _patch_supported(module: Any) -> bool:
    """Has vLLM combine tools with any constraint of the answer, not only with those that XGrammar can serve.

    What guiderail cannot serve is rejected when the request is checked.
    """
    original = getattr(module, "_xgrammar_supports", None)
    if original is None:
        return False

    @functools.wraps(original)
    def supports(structured_outputs: Any) -> bool:
        return NAME in _configured or bool(original(structured_outputs))

    module._xgrammar_supports = supports
    return True


def _stricter(tool: Any) -> Any:
    """A tool that is strict unless its client says otherwise."""
    nested = hasattr(tool, "function")  # as chat completions have them; responses have them flat
    inner = tool.function if nested else tool
    if getattr(inner, "strict", False) is not None:
        return tool
    strict = inner.model_copy(update={"strict": True})
    return tool.model_copy(update={"function": strict}) if nested else strict


def _patch_beams(module: Any) -> bool:
    found = False
    for owner in vars(module).values():
        original = vars(owner).get("_init_beam_search_structured_output") if isinstance(owner, type) else None
        if original is not None:
            owner._init_beam_search_structured_output = _init_beams(original)
            found = True
    return found


def _init_beams(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def begin(self: Any, structured_outputs: Any, tokenizer: Any) -> Any:
        config = self.llm_engine.vllm_config
        settings = config.structured_outputs_config
        if settings is None or not _serves(structured_outputs._backend or settings.backend):
            return original(self, structured_outputs, tokenizer)
        from vllm.v1.structured_output.request import get_structured_output_key

        from guiderail.integrations._vllm_backend import GuiderailBackend

        _check(structured_outputs, self.model_config, settings, tokenizer)
        if structured_outputs.disable_any_whitespace and not settings.disable_any_whitespace:
            raise ValueError("for beam search, set disable_any_whitespace for the engine, not for a request")
        if getattr(structured_outputs, "whitespace_pattern", None) is not None:
            raise ValueError("beam search takes no whitespace_pattern; leave it out")
        backend = GuiderailBackend(config, tokenizer=tokenizer, vocab_size=self.model_config.get_vocab_size())
        return backend, get_structured_output_key(structured_outputs), backend.allocate_token_bitmask(1)

    return begin
