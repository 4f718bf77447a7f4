"""What a batch is to do, cut into shards; what of it is done; how a shard becomes a file."""

from __future__ import annotations

import hashlib
import json
import os
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, ModelError

__all__ = ["BatchOptions", "Input", "Job", "Shard", "Task", "Totals", "described", "read_shard", "write_shard"]

ENGINES = ("guiderail", "vllm")


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How the rows of a batch are answered. What differs between two runs of one output is refused.

    Attributes:
        prompt: what is asked, with members of the row in braces (``"Describe {name}."``; ``{{`` and ``}}`` are
            braces).
        system: the system message.
        chat: ask by the model's chat template; False continues the prompt.
        max_tokens: the most tokens of an answer.
        temperature: 0 takes the most likely token.
        top_p: sample among the likeliest tokens up to this probability.
        top_k: sample among so many of the likeliest.
        seed: makes sampling repeatable, row by row, however the rows are spread.
        engine: ``"guiderail"`` runs what ``gr.load_model`` takes, ``"vllm"`` a vLLM with guiderail as its backend.
        model: of the engine; None is the embedded one.
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
    engine: str = "guiderail"
    model: str | None = None
    engine_args: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            ModelError: ``bad-option``.
        """
        from guiderail.generation.sampling import Sampling

        Sampling(self.temperature, self.top_p, self.top_k, self.seed)
        if self.engine not in ENGINES:
            raise ModelError(f"the engine is one of {', '.join(ENGINES)}, not {self.engine!r}", code="bad-option")
        if self.engine == "vllm" and self.model is None:
            raise ModelError("vLLM needs a model: a folder or a hub name", code="bad-option")
        if self.engine != "vllm" and self.engine_args:
            raise ModelError("engine_args are for vLLM", code="bad-option")
        if isinstance(self.max_tokens, bool) or not isinstance(self.max_tokens, int) or self.max_tokens < 1:
            raise ModelError(f"max_tokens must be a whole number from 1, not {self.max_tokens!r}", code="bad-option")
        if self.system is not None and not self.chat:
            raise ModelError("a system message needs the chat template: leave chat=True", code="bad-option")
        self.names()

    def names(self) -> list[str]:
        """The members of a row that the prompt is made of.

        Raises:
            ModelError: ``bad-option``: the braces of the prompt are not paired, or hold something else than a name.
        """
        try:
            parts = list(string.Formatter().parse(self.prompt))
        except ValueError as error:
            raise ModelError(
                f"the prompt {self.prompt!r}: {error}; write {{{{ for a brace", code="bad-option"
            ) from None
        names = [name for _, name, _, _ in parts if name is not None]
        plain = all(not form and not conversion for _, name, form, conversion in parts if name is not None)
        if not names or not plain or not all(name and not set(".[]") & set(name) for name in names):
            raise ModelError(
                f"the prompt must name members of the row in braces, such as {{prompt}}; {self.prompt!r} does not",
                code="bad-option",
            )
        return names

    def asked(self, row: Mapping[str, Any]) -> str:
        """The prompt of a row.

        Raises:
            ModelError: ``bad-row``: a member is not there, or is not a text or a number.
        """
        values = {}
        for name in self.names():
            value = row.get(name)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                found = f"{name!r} is {json.dumps(value)[:40]}" if name in row else f"there is no {name!r}"
                raise ModelError(f"the prompt needs a string or a number; in this row {found}", code="bad-row")
            values[name] = value
        return "".join(
            text + ("" if name is None else str(values[name]))
            for text, name, _, _ in string.Formatter().parse(self.prompt)
        )


@dataclass(frozen=True, slots=True)
class Shard:
    """Some rows of one file that are answered and written together.

    Attributes:
        index: of all shards.
        path: of the file.
        start: its first byte.
        end: behind its last.
        first_row: of all rows of the input, from 0.
        rows: how many.
    """

    index: int
    path: str
    start: int
    end: int
    first_row: int
    rows: int

    @property
    def name(self) -> str:
        """Of the file in the output."""
        return f"part-{self.index:06}.jsonl"


@dataclass(frozen=True, slots=True)
class Input:
    """The rows to be answered.

    Attributes:
        shards: all of them, in order.
        rows: of all together.
        sha256: of all bytes.
    """

    shards: tuple[Shard, ...]
    rows: int
    sha256: str

    @classmethod
    def scan(cls, source: str | os.PathLike[str], shard_rows: int) -> Input:
        """Reads through a ``.jsonl`` file, or all of a folder; blank lines are no rows.

        Raises:
            ModelError: ``missing-file``, or ``bad-option`` where there is nothing to do.
        """
        path = Path(source).resolve()
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        digest = hashlib.sha256()
        shards: list[Shard] = []
        total = 0
        for file in files:
            start = end = rows = 0
            try:
                with file.open("rb") as lines:
                    for line in lines:
                        digest.update(line)
                        end += len(line)
                        if line.strip():
                            rows += 1
                        if rows == shard_rows:
                            shards.append(Shard(len(shards), str(file), start, end, total, rows))
                            total, start, rows = total + rows, end, 0
            except OSError as error:
                reason = error.strerror or str(error)
                raise ModelError(f"the rows of {file} cannot be read: {reason}", code="missing-file") from None
            if rows:
                shards.append(Shard(len(shards), str(file), start, end, total, rows))
                total += rows
        if not shards:
            raise ModelError(f"there are no rows in {path} (a .jsonl file, or a folder of them)", code="bad-option")
        return cls(tuple(shards), total, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class Task:
    """A row as an engine gets it.

    Attributes:
        row: of all rows, from 0.
        prompt: the question.
    """

    row: int
    prompt: str


@dataclass(slots=True)
class Totals:
    """Counts over rows.

    Attributes:
        rows: answered, with an answer that fits or without.
        failed: those without.
        tokens: written.
    """

    rows: int = 0
    failed: int = 0
    tokens: int = 0

    def add(self, other: Totals) -> None:
        """Counts those of another, too."""
        self.rows += other.rows
        self.failed += other.failed
        self.tokens += other.tokens


@dataclass(frozen=True, slots=True)
class Job:
    """What replicas need to know.

    Attributes:
        output: the folder.
        constraint: of every answer.
        is_json: an answer is JSON, and its value is written beside its text.
        options: how rows are answered.
        rows_at_once: how many a local model answers together.
        threads: of a local model on the CPU; None: what it chooses.
    """

    output: str
    constraint: Constraint
    is_json: bool
    options: BatchOptions
    rows_at_once: int
    threads: int | None = None

    def manifest(self, source: Input, shard_rows: int) -> dict[str, Any]:
        """What may not differ between two runs of one output."""
        return {
            "format": 1,
            "rows": source.rows,
            "input_sha256": source.sha256,
            "shard_rows": shard_rows,
            "constraint_sha256": hashlib.sha256(json.dumps(described(self.constraint)).encode()).hexdigest(),
            **{name: value for name, value in asdict(self.options).items() if name != "engine_args"},
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


def begin(job: Job, source: Input, shard_rows: int) -> None:
    """Notes in the output what is done there, or compares.

    Raises:
        CompileError: ``batch-differs``: something else was begun there.
    """
    folder = Path(job.output)
    file = folder / "job.json"
    wanted = json.loads(json.dumps(job.manifest(source, shard_rows)))
    if not file.exists():
        if any(folder.glob("part-*.jsonl")):
            raise CompileError(f"{folder} has parts but no job.json; name another output", code="batch-differs")
        _write(file, json.dumps(wanted, indent=1).encode())
        return
    try:
        known = json.loads(file.read_bytes())
    except ValueError as error:
        raise CompileError(f"{file} is damaged ({error}); name another output", code="batch-differs") from None
    different = sorted(name for name in {*wanted, *known} if wanted.get(name) != known.get(name))
    if different:
        shown = "; ".join(f"{name} was {known.get(name)!r}, is {wanted.get(name)!r}" for name in different)
        raise CompileError(
            f"{folder} was begun with other options, so its rows would not match: {shown:.600}. Use the same "
            "options, or name another output",
            code="batch-differs",
        )


def read_shard(shard: Shard) -> Iterator[tuple[int, Any]]:
    """The rows of a shard with their numbers; a row that is no JSON object is the error that says so."""
    with open(shard.path, "rb") as file:
        file.seek(shard.start)
        data = file.read(shard.end - shard.start)
    number = shard.first_row
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                row = ModelError(f"a row is a JSON object, not {line[:60]!r}", code="bad-row")
        except (ValueError, RecursionError) as error:
            row = ModelError(f"the row is not JSON: {error}", code="bad-row")
        yield number, row
        number += 1


def write_shard(folder: str, shard: Shard, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the answers of a shard, all or none.

    Raises:
        ModelError: ``batch-failed``: they are not as many as the rows of the shard.
    """
    if [row["row"] for row in rows] != list(range(shard.first_row, shard.first_row + shard.rows)):
        raise ModelError(
            f"{shard.path} has changed while it was read (rows {shard.first_row} to {shard.first_row + shard.rows})",
            code="batch-failed",
        )
    _write(Path(folder) / shard.name, b"".join(map(_line, rows)))


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        return json.dumps(row).encode() + b"\n"


def _write(file: Path, data: bytes) -> None:
    # Readers, and this program after a crash, see the whole file or none.
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


def count(file: Path) -> Totals:
    """What a finished part holds."""
    totals = Totals()
    with file.open("rb") as lines:
        for line in lines:
            row = json.loads(line)
            totals.add(Totals(1, int(row["error"] is not None), row["tokens"]))
    return totals
