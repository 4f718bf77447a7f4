"""The definition of a batch, and what must be the same in two runs with the same output."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guiderail.batch.files import write_whole
from guiderail.batch.rows import Input
from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, ModelError
from guiderail.support.numerals import json_text
from guiderail.support.options import check_choice
from guiderail.support.texts import clipped, has_surrogate

if TYPE_CHECKING:
    from guiderail.generation.options import Options

__all__ = ["BatchOptions", "Job", "Task", "begin", "described", "note"]

ENGINES = ("guiderail", "vllm")
_MAY_DIFFER = frozenset({"max_tokens"})  # it does not change complete rows, and rows that it cut off get more tokens
_OTHER = {"input_sha256": "the input has changed", "constraint_sha256": "the constraint has changed"}


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How the rows of a batch are answered.

    Two runs with the same output must not differ in them, except in ``max_tokens``: a higher value completes the rows
    that had too few.

    Attributes:
        prompt: the prompt, with columns (members) of the row in braces (``"Describe {name}."``; write ``{{`` and ``}}``
            for braces).
        system: the system message.
        chat: use the model's chat template; False continues the prompt.
        max_tokens: maximum number of tokens of an answer.
        temperature: 0 takes the most likely token.
        top_p: sample among the most likely tokens whose probabilities reach this sum.
        top_k: sample among this many of the most likely tokens.
        seed: makes sampling repeatable, row by row, however the rows are distributed.
        stop: stop strings, which are not part of an answer. An answer that is a value must be complete by then.
        presence_penalty: as for :func:`guiderail.generate`, and so are the next two.
        frequency_penalty: subtracted once for each time that the answer has the token.
        repetition_penalty: makes tokens of the prompt and the answer less likely; 1 changes nothing.
        engine: ``"guiderail"`` runs what ``gr.load_model`` takes, ``"vllm"`` a vLLM with guiderail as its backend.
        model: the engine's model; None is the embedded one.
        engine_args: keyword arguments of ``vllm.LLM``.
    """

    prompt: str = "{prompt}"
    system: str | None = None
    chat: bool = True
    max_tokens: int = 1024
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    engine: str = "guiderail"
    model: str | None = None
    engine_args: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Rejects options that make no sense.

        Raises:
            ModelError: ``bad-option``.
        """
        _ = self.generation
        check_choice("engine", self.engine, ENGINES, error=ModelError, code="bad-option")
        if self.engine == "vllm" and self.model is None:
            raise ModelError("vLLM needs a model; pass a folder or a hub name", code="bad-option")
        if self.engine != "vllm" and self.engine_args:
            raise ModelError("engine_args apply only to vLLM; leave them out, or choose that engine", code="bad-option")
        self.names()

    @property
    def generation(self) -> Options:
        """Returns the same as options of a generation. A text is the model's own, or has failed: none is
        shortened.

        Raises:
            ModelError: ``bad-option``.
        """
        from guiderail.generation.options import Options

        named = {one.name: getattr(self, one.name) for one in fields(Options) if hasattr(self, one.name)}
        return Options(**named, on_incomplete="return")

    def names(self) -> list[str]:
        """Returns the members of a row that the prompt uses.

        Raises:
            ModelError: ``bad-option``: it is no text, or its braces are unbalanced or contain more than a name.
        """
        try:
            parts = list(string.Formatter().parse(self.prompt))
        except ValueError as error:
            raise ModelError(
                f"the prompt {self.prompt!r} cannot be read: {error}; write {{{{ or }}}} for a literal brace",
                code="bad-option",
            ) from None
        names = [name for _, name, _, _ in parts if name is not None]
        plain = all(not form and not conversion for _, name, form, conversion in parts if name is not None)
        if has_surrogate(self.prompt):
            raise ModelError(
                f"the prompt {self.prompt!r} contains half of a surrogate pair, which is not a character; remove it",
                code="bad-option",
            )
        if not names or not plain or not all(name and not set(".[]") & set(name) for name in names):
            raise ModelError(
                f"the prompt must name members of the row in braces, such as {{prompt}}; {self.prompt!r} does not",
                code="bad-option",
            )
        return names

    def asked(self, row: Mapping[str, Any]) -> str:
        """The prompt of a row.

        Raises:
            ModelError: ``bad-row``: a member is missing, is neither a string nor a number, or is no text.
        """
        values = {}
        for name in self.names():
            value = row.get(name)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                found = f"it is {clipped(json_text(value), 40)}" if name in row else "it is missing"
                raise ModelError(
                    f"the prompt needs {name!r} as a string or a number, but in this row {found}", code="bad-row"
                )
            values[name] = value if isinstance(value, str) else json_text(value)
            if has_surrogate(values[name]):
                raise ModelError(
                    f"in this row, {name!r} contains half of a surrogate pair, which is not a character; remove it",
                    code="bad-row",
                )
        return "".join(
            text + ("" if name is None else values[name]) for text, name, _, _ in string.Formatter().parse(self.prompt)
        )


@dataclass(frozen=True, slots=True)
class Task:
    """A row as an engine gets it.

    Attributes:
        row: of all rows, from 0.
        prompt: the question.
    """

    row: int
    prompt: str


@dataclass(frozen=True, slots=True)
class Job:
    """What replicas need to know.

    Attributes:
        output: the folder.
        constraint: of every answer.
        is_json: an answer is JSON, and its value is written in addition to its text.
        options: how rows are answered.
        rows_at_once: how many a local model answers together.
        loading: options of ``gr.load_model`` for a local model.
    """

    output: str
    constraint: Constraint
    is_json: bool
    options: BatchOptions
    rows_at_once: int
    loading: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self, source: Input, shard_rows: int) -> dict[str, Any]:
        """What must be the same in two runs with the same output."""
        return {
            "format": 1,
            "rows": source.rows,
            "input_sha256": source.sha256,
            "shard_rows": shard_rows,
            "constraint_sha256": hashlib.sha256(json.dumps(described(self.constraint)).encode()).hexdigest(),
            **{name: value for name, value in asdict(self.options).items() if name != "engine_args"},
            "stop": list(self.options.generation.stops),
            "engine_args": dict(self.options.engine_args),
        }


def described(value: Any) -> Any:
    """A constraint, or a part of one, as plain data: equal for equal ones, in every process."""
    from guiderail.frontends.json_schema import JsonSchema

    kind = type(value).__name__
    if isinstance(value, JsonSchema):
        return [kind, described(value.schema), described(value.options)]
    if is_dataclass(value) and not isinstance(value, type):
        return [kind, *([one.name, described(getattr(value, one.name))] for one in fields(value) if one.compare)]
    if isinstance(value, Mapping):
        return [kind, *([described(key), described(item)] for key, item in value.items())]
    if isinstance(value, tuple | list):
        return [kind, *map(described, value)]
    if isinstance(value, frozenset | set):
        return [kind, *sorted(map(repr, value))]
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def note(job: Job, source: Input, shard_rows: int) -> None:
    """Records the job in the output."""
    text = json.dumps(job.manifest(source, shard_rows), indent=1)
    write_whole(Path(job.output) / "job.json", [text.encode()])


def begin(job: Job, source: Input, shard_rows: int) -> bool:
    """Records the job in the output, or compares. True: only the input has changed, and has as many rows.

    Raises:
        CompileError: ``batch-differs``: the output belongs to another job.
    """
    folder = Path(job.output)
    file = folder / "job.json"
    if not file.exists():
        if any(folder.glob("part-*.jsonl")):
            raise CompileError(f"{folder} has parts but no job.json; choose another output", code="batch-differs")
        note(job, source, shard_rows)
        return False
    wanted = json.loads(json.dumps(job.manifest(source, shard_rows)))
    try:
        known = json.loads(file.read_bytes())
    except ValueError as error:
        raise CompileError(f"{file} is damaged ({error}); choose another output", code="batch-differs") from None
    different = sorted(name for name in {*wanted, *known} - _MAY_DIFFER if wanted.get(name) != known.get(name))
    if different in ([], ["input_sha256"]):
        return bool(different)
    shown = "; ".join(
        _OTHER.get(name) or f"{name} was {known.get(name)!r} and is now {wanted.get(name)!r}" for name in different
    )
    raise CompileError(
        f"{folder} was started with another job, so its rows would not match: {shown:.600}. Use the same "
        "input and options, or choose another output",
        code="batch-differs",
    )
