"""Constraints for continuous batching of transformers, one for each request.

    >>> from guiderail.integrations.transformers_batching import continuous_batching
    >>> with continuous_batching(model, tokenizer) as batching:
    ...     first = batching.add_request(tokenizer.encode("When?"), gr.patterns.date())
    ...     second = batching.add_request(tokenizer.encode("Who?"))  # unconstrained
    ...     for output in batching:
    ...         ...

Continuous batching does not call the logits processors of ``generate``: they would see only the last token of each
request. It has its own interface, ``ContinuousBatchingLogitsProcessor``. Its ``prepare_tensor_args`` sees the requests
that are about to get a token; its call then changes the scores. The first fills the masks on the CPU. The second reads
them from a buffer at a fixed address, so that the step may be a CUDA graph. What a request has written is read from the
request, so forks (several returned sequences), requests that are evicted and restarted, and offloaded ones need no
code.

Asynchronous batching is not supported: it prepares a step before the tokens of the previous one are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar

import torch
from transformers import LogitsProcessorList
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
    ContinuousBatchingLogitsProcessorList,
)

from guiderail.errors import MatcherError, ModelError
from guiderail.frontends.given import are_texts
from guiderail.integrations._rows import RowState, as_guides, check_width, fill_rows
from guiderail.matching.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.matching.matcher import Matcher
from guiderail.support.arguments import checked, checked_methods
from guiderail.vocabulary import Vocabulary
from guiderail.vocabulary._ids import stop_ids
from guiderail.vocabulary.adapted import vocabulary_of

__all__ = ["ConstrainedBatching", "constrain", "continuous_batching", "generate_batch"]

_KEY = "guiderail"  # among the request's arguments for logits processors


class _Request:
    """State of a request: how long its prompt is, and the state of its text."""

    __slots__ = ("prompt", "row")

    def __init__(self, row: RowState, prompt: int) -> None:
        self.row = row
        self.prompt = prompt

    def __deepcopy__(self, memo: dict[int, Any]) -> _Request:
        """Copies the state for a request that is forked or restarted: transformers copies its arguments."""
        return _Request(self.row.fork(), self.prompt)


class _Masks(ContinuousBatchingLogitsProcessor):
    """The masks of the requests in a step. Rows without a constraint pass unchanged.

    Args:
        width: the number of tokens that a mask covers: those of the model, including padding, which rows without a
            constraint keep.
        rows: maximum number of requests in a step.
        device: the model's device.
    """

    supported_kwargs: ClassVar[dict[str, type]] = {_KEY: _Request}
    ignored_kwargs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, width: int, rows: int, device: Any) -> None:
        self._width = width
        self._bitmask = allocate_token_bitmask(rows, width)
        self._bitmask[:] = -1
        self._on_device = torch.from_numpy(self._bitmask).to(device, copy=True)

    def fill_defaults(self, int32_tensor: Any) -> None:
        """The argument for rows that are not requests; their result is discarded."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Any:
        """Fills the masks of a step.

        Args:
            requests_with_new_token: the requests whose next token this step samples, in the order of its scores.

        Returns:
            int32, one for each request; nothing reads them.
        """
        states: list[Matcher] = []
        rows: list[int] = []
        count = len(requests_with_new_token)
        self._bitmask[:count] = -1
        for row, future in enumerate(requests_with_new_token):
            request = future.state.logit_processor_kwargs.get(_KEY)
            if request is not None:
                # A request that was evicted has its earlier tokens after its prompt.
                request.row.follow(future.state.initial_tokens[request.prompt :] + future.state.generated_tokens)
                states.append(request.row.matcher)
                rows.append(row)
        if states:
            masks = allocate_token_bitmask(len(states), self._width)
            fill_rows(states, masks)
            self._bitmask[rows] = masks
        self._on_device[:count].copy_(torch.from_numpy(self._bitmask[:count]))
        return torch.zeros(count, dtype=torch.int32)

    def __call__(self, scores: Any, tensor_arg: Any) -> Any:
        """Sets the scores of forbidden tokens to -inf.

        Args:
            scores: float tensor, shape ``(rows, width)``, changed in place.
            tensor_arg: unused.
        """
        rows, width = scores.shape
        apply_token_bitmask_inplace(scores, self._on_device[:rows], vocab_size=min(width, self._width))
        return scores


@checked_methods
class ConstrainedBatching:
    """A ``ContinuousBatchingManager`` whose requests may each have a constraint. Made by :func:`constrain`.

    Attributes:
        manager: the manager of transformers.
        vocabulary: the model's vocabulary.
    """

    def __init__(self, manager: Any, vocabulary: Vocabulary) -> None:
        self.manager = manager
        self.vocabulary = vocabulary

    def add_request(
        self,
        input_ids: Sequence[int],
        constraint: Any = None,
        *,
        stop_token_ids: int | Sequence[int] | None = None,
        **options: Any,
    ) -> str:
        """Adds a request.

        Args:
            input_ids: the prompt.
            constraint: a constraint or a guide for its text; None: anything.
            stop_token_ids: the tokens that end the text; by default the vocabulary's for a constraint, the generation
                config's without one.
            **options: the other arguments of the manager's ``add_request``: ``request_id``, ``max_new_tokens``,
                ``streaming`` …

        Returns:
            The id of the request.

        Raises:
            CompileError: see :func:`guiderail.compile`; ``other-vocabulary``: a guide is for another model.
            MatcherError: ``bad-prompt``: the prompt has no tokens; ``bad-batch``: more than one constraint.
            ModelError: ``engine-failed``: the manager no longer takes requests.
        """
        prompt = [int(token) for token in input_ids]
        if not prompt:
            raise MatcherError("a prompt has at least one token", code="bad-prompt")
        stops = None if stop_token_ids is None else stop_ids(stop_token_ids)
        if constraint is not None:
            guides = as_guides(constraint, self.vocabulary)
            if len(guides) != 1:
                raise MatcherError(f"a request has one constraint, not {len(guides)}", code="bad-batch")
            row = RowState(guides[0], stops)
            stops = tuple(row.matcher.stop_token_ids())
            options[_KEY] = _Request(row, len(prompt))
        if stops is not None:
            options["eos_token_id"] = list(stops)
        request_id = self.manager.add_request(prompt, **options)
        if request_id is None:
            raise ModelError("the manager takes no requests: it was stopped, or has failed", code="engine-failed")
        return str(request_id)

    def __iter__(self) -> Iterator[Any]:
        """Yields the outputs of finished requests (of streaming ones, each token) as they arrive; ends with the
        manager.
        """
        yield from self.manager
        while (output := self.manager.get_result(timeout=0)) is not None:  # the requests that its thread left
            yield output


@checked
def constrain(manager: Any, vocabulary: Any) -> ConstrainedBatching:
    """Adds constraints to a manager that has not started yet.

    Args:
        manager: the result of ``model.init_continuous_batching``.
        vocabulary: the model's tokenizer, its folder, or a Vocabulary.

    Raises:
        ModelError: ``manager-running``: it has started, was warmed up, or was passed here before; ``bad-option``: it
            batches asynchronously.
        VocabularyError: ``vocabulary-mismatch``: the model has fewer tokens than the vocabulary.
    """
    ours = any(isinstance(processor, _Masks) for processor in manager.logit_processor.logits_processor)
    if ours or manager.is_running() or manager.batch_processor is not None:
        raise ModelError(
            "the manager already has constraints"
            if ours
            else "the manager has already started; pass it before "
            "warmup and start (a persistent manager of an earlier call must be destroyed first)",
            code="manager-running",
        )
    settings = manager.continuous_batching_config
    if settings.use_async_batching:
        raise ModelError(
            "asynchronous batching prepares a step before the last tokens are known, so masks would come too late; "
            "pass ContinuousBatchingConfig(use_async_batching=False)",
            code="bad-option",
        )
    vocabulary = vocabulary_of(vocabulary)
    width = manager.model.config.get_text_config().vocab_size
    check_width(vocabulary, width)
    masks = _Masks(max(width, vocabulary.size), settings.max_requests_per_batch, manager.model.device)
    before = manager.logit_processor
    # First, so that temperature, top-k and top-p choose among the allowed tokens.
    processors = ContinuousBatchingLogitsProcessorList(
        LogitsProcessorList([masks, *before.logits_processor]),
        per_request_processors=False,  # they are already complete
        drop_unsupported_processors=False,
    )
    processors.tensors_required = before.tensors_required + 1
    manager.logit_processor = processors
    return ConstrainedBatching(manager, vocabulary)


@checked
@contextmanager
def continuous_batching(
    model: Any,
    vocabulary: Any,
    *,
    generation_config: Any = None,
    continuous_batching_config: Any = None,
    workload_hints: Any = None,
    warmup: bool = True,
    timeout: float | None = None,
) -> Iterator[ConstrainedBatching]:
    """Runs continuous batching of a model, with constraints for requests that want one.

    Args:
        model: a generative transformers model.
        vocabulary: its tokenizer, its folder, or a Vocabulary.
        generation_config: by default the model's.
        continuous_batching_config: a ``ContinuousBatchingConfig``; asynchronous batching is off unless it asks for it.
        workload_hints: a ``WorkloadHints``, for the sizes that the config leaves open.
        warmup: capture CUDA graphs before the first request.
        timeout: seconds to wait for the generation thread at the end; None: no limit.

    Raises:
        ModelError, VocabularyError: see :func:`constrain`.
    """
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    settings = ContinuousBatchingConfig() if continuous_batching_config is None else copy(continuous_batching_config)
    if settings.use_async_batching is None:
        settings.use_async_batching = False
    with torch.no_grad():
        manager = model.init_continuous_batching(
            generation_config=generation_config, continuous_batching_config=settings, workload_hints=workload_hints
        )
        batching = constrain(manager, vocabulary)
        if warmup:
            manager.warmup()
    manager.start()
    try:
        yield batching
    finally:
        manager.stop(block=True, timeout=timeout)
        manager.destroy()


@checked
def generate_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    constraint: Any,
    vocabulary: Any = None,
    *,
    stop_token_ids: int | Sequence[int] | None = None,
    max_new_tokens: int | None = None,
    generation_config: Any = None,
    continuous_batching_config: Any = None,
    warmup: bool = True,
) -> list[Any]:
    """Like ``model.generate_batch``, under constraints.

    Args:
        model: a generative transformers model.
        prompts: token ids.
        constraint: a constraint or guide for all prompts (a list of strings is a choice), or a list with one (or None)
            for each.
        vocabulary: the model's tokenizer, its folder, or a Vocabulary; guides need none.
        stop_token_ids: as for :meth:`ConstrainedBatching.add_request`.
        max_new_tokens: by default the generation config's.
        generation_config: by default the model's.
        continuous_batching_config: as for :func:`continuous_batching`.
        warmup: as for :func:`continuous_batching`.

    Returns:
        The ``GenerationOutput`` of each prompt, in order; with ``num_return_sequences``, all of a prompt together.

    Raises:
        MatcherError: ``bad-batch``: the numbers of constraints and prompts differ.
        ModelError: ``engine-failed``: a request failed.
    """
    several = isinstance(constraint, list | tuple) and not are_texts(constraint)  # a list of strings is one choice
    each = list(constraint) if several else [constraint] * len(prompts)
    if len(each) != len(prompts):
        raise MatcherError(
            f"{len(each)} constraints for {len(prompts)} prompts; give one, or one for each", code="bad-batch"
        )
    if not prompts:
        return []
    if vocabulary is None:
        guides = [one for one in each if one is not None]
        vocabulary = as_guides(guides, None)[0].vocabulary
    from transformers.generation.continuous_batching.utils import WorkloadHints

    settings = model.generation_config if generation_config is None else generation_config
    copies = settings.num_return_sequences or 1
    hints = WorkloadHints(
        max_prompt_length=max(map(len, prompts)),
        max_generated_length=(settings.max_new_tokens if max_new_tokens is None else max_new_tokens) or 0,
        num_requests=len(prompts) * copies,
    )
    outputs: dict[str, Any] = {}
    with continuous_batching(
        model, vocabulary, generation_config=generation_config, continuous_batching_config=continuous_batching_config,
        workload_hints=hints, warmup=warmup,
    ) as batching:  # fmt: skip
        options: dict[str, Any] = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
        asked = [
            batching.add_request(prompt, one, stop_token_ids=stop_token_ids, **options)
            for prompt, one in zip(prompts, each, strict=True)
        ]
        names = [name for one in asked for name in (one, *(f"{one}__child#{i}" for i in range(copies - 1)))]
        for output in batching:
            if output.is_finished():
                outputs[output.request_id] = output
                if len(outputs) == len(names):
                    break
    failed = [name for name in names if name not in outputs or outputs[name].error is not None]
    if failed:
        error = outputs[failed[0]].error if failed[0] in outputs else "the generation thread ended"
        raise ModelError(f"{len(failed)} of {len(names)} requests failed: {error}", code="engine-failed")
    return [outputs[name] for name in names]
