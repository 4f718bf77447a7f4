"""Answers the rows of a shard with one of guiderail's models or with vLLM."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from guiderail.batch.job import Job, Task
from guiderail.constraints.constraint import Choice, Constraint
from guiderail.constraints.reading import TEXT
from guiderail.errors import CompileError, GuiderailError, LimitError, ModelError
from guiderail.support.packages import package

if TYPE_CHECKING:
    from guiderail.generation.result import Generation
    from guiderail.integrations._requests import Asked

__all__ = ["Answer", "Engine", "LocalEngine", "VllmEngine", "asked_for", "make_engine"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a row.

    Attributes:
        text: the text.
        finish_reason: as for a generation; None: nothing was written.
        prompt_tokens: number of tokens of the prompt.
        tokens: number of tokens written.
        error: why there is no valid answer, or None.
    """

    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int = 0
    tokens: int = 0
    error: GuiderailError | None = None


class Engine(Protocol):
    """Answers rows."""

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """Returns one answer per row. A faulty row gets an error of its own and does not affect the others."""

    def close(self) -> None:
        """Frees the model."""


def make_engine(job: Job) -> Engine:
    """Makes the engine of a job and loads its model.

    Raises:
        GuiderailError: the model cannot be loaded, or the constraint cannot be compiled for it.
    """
    return VllmEngine(job) if job.options.engine == "vllm" else LocalEngine(job)


def unfinished(limit: int) -> ModelError:
    """The error of a text that ``max_tokens`` has cut."""
    return ModelError(
        f"the text is not complete after {limit} tokens; raise max_tokens, or bound the constraint (maxLength, "
        "maxItems)",
        code="incomplete",
    )


def stopped(stop: str) -> ModelError:
    """The error of a value that a stop string has cut."""
    return ModelError(
        f"the stop string {stop!r} ended the value before it was complete; leave it out, or choose one that no value "
        "can contain",
        code="incomplete",
    )


class LocalEngine:
    """A model that ``gr.load_model`` loads, with several rows in lockstep."""

    def __init__(self, job: Job) -> None:
        from guiderail.generation.models import load_model
        from guiderail.matching.guide import compile

        options = job.options
        self.options = options
        self.model = load_model(options.model, **job.loading)
        self.guide = compile(job.constraint, self.model.vocabulary)
        self.rows = min(job.rows_at_once, self.model.max_batch or job.rows_at_once)
        self.asked = options.generation
        self.is_text = job.constraint.reading().is_text

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """See :class:`Engine`."""
        answers: dict[int, Answer] = {}
        ready: list[tuple[int, int, list[int]]] = []
        room = self.model.context_length
        for place, task in enumerate(tasks):
            try:
                tokens = self.model.encode(task.prompt, chat=self.options.chat, system=self.options.system)
            except GuiderailError as error:
                answers[place] = Answer(error=error)
                continue
            if not 0 < len(tokens) < room:
                message = (
                    f"the prompt has {len(tokens)} tokens; it must have 1 to {room - 1}, because the context of "
                    f"{self.model.name} holds {room}"
                )
                answers[place] = Answer(prompt_tokens=len(tokens), error=ModelError(message, code="context-full"))
                continue
            ready.append((place, task.row, tokens))
        ready.sort(key=lambda one: len(one[2]))  # rows of a batch are as long as its longest
        for begin in range(0, len(ready), self.rows):
            part = ready[begin : begin + self.rows]
            answers |= zip((place for place, _, _ in part), self._batch(part), strict=True)
        return [answers[place] for place in range(len(tasks))]

    def _batch(self, part: Sequence[tuple[int, int, list[int]]]) -> list[Answer]:
        """Answers rows together; one by one if a text reaches a limit, which ends only that row."""
        try:
            return self._together(part)
        except LimitError as error:
            if len(part) == 1:
                return [Answer(prompt_tokens=len(part[0][2]), error=error)]
        return [answer for one in part for answer in self._batch([one])]

    def _together(self, part: Sequence[tuple[int, int, list[int]]]) -> list[Answer]:
        from guiderail.generation.decoding import Batch
        from guiderail.generation.sampling import Sampler

        prompts = [tokens for _, _, tokens in part]
        batch = Batch(self.model, prompts, [self.guide] * len(part), [TEXT] * len(part), options=self.asked)
        for writing, (_, row, _) in zip(batch.rows, part, strict=True):
            writing.sampler = Sampler(self.asked.sampling, row)  # by its number in the input, for any batch size
        for _ in batch.steps():
            continue
        answers = []
        for made in map(batch.generation, range(len(part))):
            error = self._judge(made)
            answers.append(Answer(made.text, made.finish_reason, made.prompt_tokens, len(made.tokens), error))
        return answers

    def _judge(self, made: Generation) -> ModelError | None:
        if made.stop_string is not None:
            return None if made.matched or self.is_text else stopped(made.stop_string)
        cut = made.finish_reason == "length" and not self.is_text  # for example a number without its last digits
        return unfinished(len(made.tokens)) if cut or not made.matched else None

    def close(self) -> None:
        """See :class:`Engine`."""
        self.model.close()


def asked_for(constraint: Constraint) -> Asked:
    """A constraint as vLLM's requests can say it.

    Raises:
        CompileError: ``bad-option``: they cannot.
    """
    from guiderail.frontends.grammar import GrammarConstraint
    from guiderail.frontends.json_schema import JsonSchema
    from guiderail.frontends.regex.constraint import Regex
    from guiderail.integrations._requests import Asked, constraint_of

    asked: list[Asked] = []
    constraint = constraint.as_written()
    if isinstance(constraint, JsonSchema):
        text = json.dumps(constraint.schema)
        asked = [Asked("json", text), Asked("json", text, compact=True)]
    elif isinstance(constraint, Regex):
        asked = [Asked("regex", constraint.pattern)]
    elif isinstance(constraint, Choice):
        asked = [Asked("choice", json.dumps(constraint.options))]
    elif isinstance(constraint, GrammarConstraint) and isinstance(constraint.text, str):
        constraint = replace(constraint, path=None)
        asked = [Asked("grammar", str(constraint.text))]
    for one in asked:
        if constraint_of(one, None) == constraint:
            return one
    raise CompileError(
        f"{constraint!r:.80} cannot be expressed in a request to vLLM, which takes a JSON Schema (layout spaced or "
        "compact, members in declared order), a regular expression without options, a choice, or a grammar given as "
        "one string",
        code="bad-option",
    )


class VllmEngine:
    """vLLM in this process, with guiderail as its structured-output backend."""

    def __init__(self, job: Job) -> None:
        asked = asked_for(job.constraint)
        # The engine runs in this process, so that it ends when this process is killed.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["GUIDERAIL_VLLM_FINISH"] = "0"  # a row is the model's answer or an error
        package("vllm", "the engine vllm needs vLLM", extra="vllm", error=ModelError)
        from vllm import LLM, SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        from guiderail.generation.models.transformers_prompts import TransformersPrompts
        from guiderail.integrations.vllm import register

        register()
        self.options = options = job.options
        self.constraint = job.constraint
        self.engine = LLM(
            model=options.model, structured_outputs_config={"backend": "guiderail"}, **options.engine_args
        )
        self.room = self.engine.llm_engine.model_config.max_model_len
        self.prompts = TransformersPrompts(str(options.model), self.engine.get_tokenizer())
        value = json.loads(asked.text) if asked.kind == "choice" else asked.text
        # one for each row: vLLM writes into them
        self._structure: Any = lambda: StructuredOutputsParams(
            **{asked.kind: value}, disable_any_whitespace=asked.compact
        )
        self._sampling: Any = SamplingParams

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """See :class:`Engine`."""
        answers: dict[int, Answer] = {}
        places, prompts, sampling = [], [], []
        for place, task in enumerate(tasks):
            tokens = self.prompts.encode(task.prompt, chat=self.options.chat, system=self.options.system)
            if not 0 < len(tokens) < self.room:
                message = (
                    f"the prompt has {len(tokens)} tokens; it must have 1 to {self.room - 1}, because the context of "
                    f"the model holds {self.room}"
                )
                answers[place] = Answer(prompt_tokens=len(tokens), error=ModelError(message, code="context-full"))
                continue
            places.append(place)
            prompts.append({"prompt_token_ids": tokens})
            sampling.append(self._params(task.row))
        if places:
            for place, made in zip(places, self.engine.generate(prompts, sampling, use_tqdm=False), strict=True):
                (one,) = made.outputs
                answers[place] = Answer(
                    one.text, one.finish_reason, len(made.prompt_token_ids), len(one.token_ids), self._judge(one)
                )
        return [answers[place] for place in range(len(tasks))]

    def _judge(self, made: Any) -> ModelError | None:
        matched = self.constraint.matches(made.text)
        if isinstance(made.stop_reason, str):  # a stop string; the id of a token otherwise
            return None if matched or self.constraint.reading().is_text else stopped(made.stop_reason)
        if made.finish_reason == "length" and not (matched and self.constraint.reading().is_text):
            return unfinished(len(made.token_ids))
        if matched:
            return None
        return ModelError(  # some tokenizers drop the space that begins a text
            "the tokens match the constraint, but the text that vLLM decodes from them does not; use a constraint "
            "whose matches do not begin with a space",
            code="read-mismatch",
        )

    def _params(self, row: int) -> Any:
        options = self.options
        return self._sampling(
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k or 0,
            stop=list(options.generation.stops),
            presence_penalty=options.presence_penalty,
            frequency_penalty=options.frequency_penalty,
            repetition_penalty=options.repetition_penalty,
            seed=None if options.seed is None else (options.seed * 1_000_003 + row) % 2**63,
            structured_outputs=self._structure(),
        )

    def close(self) -> None:
        """See :class:`Engine`."""
        del self.engine
