"""Runs a batch: here, or on the actors of Ray Data."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from guiderail.batch import tables
from guiderail.batch.answers import write_answers
from guiderail.batch.engines import Answer, Engine, asked_for, make_engine
from guiderail.batch.job import BatchOptions, Job, Task, begin, note
from guiderail.batch.parts import Failure, Totals, count, failures, kept, to_try, write_part
from guiderail.batch.rows import LINES, Input, Shard, as_lines, check_names, input_files, read_shard
from guiderail.batch.values import read_value
from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, GuiderailError, ModelError
from guiderail.support.arguments import checked
from guiderail.support.files import file_errors
from guiderail.support.options import check_integer
from guiderail.support.packages import package

__all__ = ["BatchProgress", "BatchReport", "run_batch"]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch.

    Attributes:
        rows: number of rows of the input.
        done: rows answered, including those of earlier runs.
        failed: of those, rows without a valid answer.
        tokens: tokens written in this run.
        seconds: duration of this run.
    """

    rows: int
    done: int
    failed: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of a batch.

    Attributes:
        output: the folder with the parts, or the file with all answers.
        rows: number of rows of the input; each has one line in the parts.
        resumed: of those, rows answered by earlier runs.
        failed: rows without a valid answer; their ``error`` says why.
        tokens: tokens written in this run.
        seconds: duration of this run, including loading models.
        retried: rows that had failed in earlier runs and were tried again.
        failures: the reasons of the failed rows, the most frequent first.
    """

    output: Path
    rows: int
    resumed: int
    failed: int
    tokens: int
    seconds: float
    retried: int = 0
    failures: tuple[Failure, ...] = ()


@checked
def run_batch(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    target: Any,
    options: BatchOptions | None = None,
    *,
    replicas: int = 1,
    shard_rows: int = 64,
    rows_at_once: int = 16,
    threads: int | None = None,
    device: str | None = None,
    gpu_layers: int | None = None,
    context_length: int | None = None,
    ray_address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    retry: bool = True,
    progress: Callable[[BatchProgress], None] | None = None,
) -> BatchReport:
    """Answers every row of a file exactly once. Repeating the call resumes where it was stopped.

    A row is a JSON object on a line of ``input``, or a row of a table. Its answer is a line of a ``part-*.jsonl`` in
    ``output``, in the order of the input: ``{"row": 0, "input": {…}, "text": "…", "value": …, "finish_reason": "…",
    "prompt_tokens": 9, "tokens": 12, "error": null}``. ``value`` is present if the target is JSON. A row that cannot be
    answered (it is not an object, its prompt is too long, the tokens ran out) has an ``error`` with ``code`` and
    ``message``, and does not delay the others. The same call tries such rows again; you may raise ``max_tokens`` for
    that. A row that is at fault itself (``bad-row``) is tried again if it was corrected in the input. Rows that have
    their answers must not change.

    Args:
        input: a file of JSON Lines (``.jsonl``), CSV (``.csv``, ``.tsv``) or Parquet (``.parquet``), or a folder of
            such files. CSV and Parquet need pyarrow.
        output: a folder, created if it does not exist; or a file that ends with one of these suffixes. A file gets all
            answers when the last row is done; the parts are in a folder next to it, ``NAME.parts``. A table has the
            columns of the input; ``value.NAME`` for each member of the answers if these are objects, otherwise
            ``value``; then ``text``, ``finish_reason``, ``prompt_tokens``, ``tokens`` and ``error``.
        target: a constraint, a JSON Schema as a dict, or a Python type. Values of a type are written as JSON; its own
            validators run when they are read from there.
        options: how the rows are answered.
        replicas: number of copies of the model; more than one needs Ray.
        shard_rows: number of rows that are written together: what a kill can cost, for each replica. For vLLM, use
            several times the number of sequences that it runs at once.
        rows_at_once: number of rows that a local model answers together.
        threads: number of threads of a local model on the CPU, for each replica.
        device: the device of a local transformers model; see :func:`guiderail.load_model`, also for the next two.
        gpu_layers: layers of a local GGUF model on a GPU.
        context_length: maximum number of tokens per row of a local model.
        ray_address: address of a cluster; by default one is started on this machine. If given, Ray is used even for one
            replica.
        cpus: number of CPUs that Ray reserves for each replica.
        gpus: number of GPUs that Ray reserves for each replica.
        retry: try again the rows that failed in earlier runs.
        progress: called after every shard.

    Raises:
        CompileError: ``batch-differs``: ``output`` belongs to another job; ``batch-running``: another run is working on
            it; or the target is rejected.
        ModelError: the input or a model cannot be read, the prompt names a column that no row has (``unknown-column``),
            pyarrow or Ray is missing, or a replica failed (``batch-failed``): finished rows stay, and the same call
            resumes.
    """
    began = time.monotonic()
    options = options or BatchOptions()
    options.check()
    for name, value in {"replicas": replicas, "shard_rows": shard_rows, "rows_at_once": rows_at_once}.items():
        check_integer(name, value, 1, error=ModelError, code="bad-option")
    constraint, is_json = _constraint(target)
    constraint.program()
    if options.engine == "vllm":
        asked_for(constraint)
    files, target_file = input_files(input), Path(output).resolve()
    is_file = target_file.suffix.lower() in (*LINES, *tables.SUFFIXES) and not target_file.is_dir()
    tables.need([*files, *([target_file] if is_file else [])])
    check_names(options.names(), files)
    folder = target_file.with_name(f"{target_file.name}.parts") if is_file else target_file
    loading = {"threads": threads, "device": device, "gpu_layers": gpu_layers, "context_length": context_length}
    loading = {name: value for name, value in loading.items() if value is not None}
    if loading and options.engine == "vllm":
        raise ModelError(
            f"{next(iter(loading))} applies to local models; for vLLM, pass engine_args", code="bad-option"
        )
    job = Job(str(folder), constraint, is_json, options, rows_at_once, loading)
    with file_errors(f"the folder {folder} for the output cannot be made", ModelError, "bad-option"):
        folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        for left in folder.glob(".*.tmp"):
            left.unlink(missing_ok=True)
        source = Input.scan(as_lines(files, folder), shard_rows)
        changed = begin(job, source, shard_rows)
        work = _Work(folder, source, retry, changed)

        def tell() -> None:
            if progress is not None:
                total = work.total
                progress(BatchProgress(source.rows, total.rows, total.failed, work.tokens, time.monotonic() - began))

        tell()
        if not work.waiting:
            made: Iterator[tuple[int, Totals]] = iter(())
        elif replicas == 1 and ray_address is None:
            made = _here(job, work.waiting)
        else:
            made = _with_ray(job, work.waiting, replicas, ray_address, cpus, gpus)
        for _ in work.done(made):
            tell()
        parts = work.parts()
        if changed and retry:
            note(job, source, shard_rows)
        if is_file:
            write_answers(target_file, parts, files)
        for line_file in folder.glob(".input-*.jsonl"):
            line_file.unlink(missing_ok=True)
    return BatchReport(
        target_file,
        source.rows,
        work.resumed,
        work.total.failed,
        work.tokens,
        time.monotonic() - began,
        work.retried,
        failures(parts) if work.total.failed else (),
    )


class _Work:
    """Which parts of a batch are done, and which remain."""

    def __init__(self, folder: Path, source: Input, retry: bool, changed: bool) -> None:
        self.folder, self.source = folder, source
        self.held = _done(folder, source.shards)  # without the rows that are to be retried
        again: dict[int, Totals] = {}
        for index, one in self.held.items():
            if changed or (retry and one.failed):
                shard = source.shards[index]
                failed = to_try(folder / shard.name, dict(_inputs(read_shard(shard))) if changed else None)
                if retry and failed.rows:
                    again[index] = failed
        self.waiting = [shard for shard in source.shards if shard.index not in self.held or shard.index in again]
        for index, one in again.items():
            self.held[index].add(one, -1)
        self.total, self.tokens = Totals(), 0
        for one in self.held.values():
            self.total.add(one)
        self.resumed = self.total.rows
        self.retried = sum(one.rows for one in again.values())

    def done(self, made: Iterator[tuple[int, Totals]]) -> Iterator[None]:
        """Records the shards as they are answered."""
        with (self.folder / "done.jsonl").open("a", encoding="utf-8") as log:
            for index, one in made:
                held = self.held.get(index, Totals())
                self.tokens += one.tokens - held.tokens
                self.total.add(one)
                self.total.add(held, -1)
                log.write(json.dumps({"shard": index, **asdict(one)}) + "\n")
                log.flush()
                yield

    def parts(self) -> list[Path]:
        """The files with the answers, in order.

        Raises:
            ModelError: ``batch-failed``: some are missing.
        """
        files = [self.folder / shard.name for shard in self.source.shards]
        missing = [file.name for file in files if not file.exists()]
        left = self.source.rows - self.total.rows
        if missing or left:
            raise ModelError(
                f"{left} rows have no answer ({', '.join(missing[:3])} …); repeat the call to resume",
                code="batch-failed",
            )
        return files


def _inputs(rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The input rows in parts; those that cannot be read are None."""
    for number, row in rows:
        yield number, None if isinstance(row, GuiderailError) else row


def _constraint(target: Any) -> tuple[Constraint, bool]:
    from guiderail.generation.targets import as_constraint, uncompiled

    made = as_constraint(target)
    constraint = uncompiled(made)
    from guiderail.frontends.json_schema import JsonSchema
    from guiderail.frontends.python_types import PythonType

    if isinstance(constraint, PythonType):
        constraint = constraint.constraint  # replicas need not have the user's modules
    return constraint, isinstance(constraint, JsonSchema) and constraint.options.notation == "json"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Prevents a second run with the same output. A run that was killed does not prevent the next one."""
    with (folder / "job.lock").open("a") as lock:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CompileError(f"another run is working in {folder}", code="batch-running") from None
        yield


def _done(folder: Path, shards: Sequence[Shard]) -> dict[int, Totals]:
    """The shards that exist, with their counts: as recorded, or counted if a kill came before the record."""
    noted: dict[int, Totals] = {}
    log = folder / "done.jsonl"
    if log.exists():
        data = log.read_bytes()
        whole, _, torn = data.rpartition(b"\n")
        if torn:  # the process was killed in the middle of a line
            log.write_bytes(whole + b"\n" if whole else b"")
        for line in whole.splitlines():
            with suppress(ValueError, TypeError, KeyError):  # damaged, as after a power failure: counted below
                row = json.loads(line)
                noted[row["shard"]] = Totals(row["rows"], row["failed"], row["tokens"])
    there = [shard for shard in shards if (folder / shard.name).exists()]
    return {shard.index: noted.get(shard.index) or count(folder / shard.name) for shard in there}


class Replica:
    """A model that answers shards one at a time; called by Ray Data, or here.

    Args:
        job: the job.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine with its model, loaded on first use."""
        if self._engine is None:
            self._engine = make_engine(self.job)
        return self._engine

    def close(self) -> None:
        """Frees the model, if one was loaded."""
        if self._engine is not None:
            self._engine.close()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[int]]:
        """Answers the shards of a batch of columns; returns a column of each count."""
        shards = [
            Shard(
                index=int(batch["index"][i]),
                path=str(batch["path"][i]),
                start=int(batch["start"][i]),
                end=int(batch["end"][i]),
                first_row=int(batch["first_row"][i]),
                rows=int(batch["rows"][i]),
            )
            for i in range(len(batch["index"]))
        ]
        totals = [self.answer(shard) for shard in shards]
        return {
            "shard": [shard.index for shard in shards],
            "rows": [one.rows for one in totals],
            "failed": [one.failed for one in totals],
            "tokens": [one.tokens for one in totals],
        }

    def answer(self, shard: Shard) -> Totals:
        """Answers a shard, or its rows that failed before, and writes its part."""
        found = list(read_shard(shard))
        held = kept(Path(self.job.output) / shard.name, dict(_inputs(found)))
        tasks: list[Task] = []
        made: dict[int, Answer] = {}
        for number, row in found:
            if number in held:
                continue
            if isinstance(row, GuiderailError):
                made[number] = Answer(error=row)
                continue
            try:
                tasks.append(Task(number, self.job.options.asked(row)))
            except GuiderailError as error:
                made[number] = Answer(error=error)
        if tasks:
            made |= zip((task.row for task in tasks), self.engine.answer(tasks), strict=True)
        rows = [held.get(number) or self._row(number, row, made[number]) for number, row in found]
        write_part(self.job.output, shard, rows)
        return Totals(len(rows), sum(row["error"] is not None for row in rows), sum(row["tokens"] for row in rows))

    def _row(self, number: int, row: Any, answer: Answer) -> dict[str, Any]:
        wrong, value = answer.error, None
        if self.job.is_json and wrong is None:
            try:
                value = read_value(answer.text)
            except ValueError as error:  # nested too deep, or a number too long, for Python's reader
                wrong = ModelError(
                    f"the JSON fits the schema, but Python cannot read it: {error}", code="read-mismatch"
                )
        return {
            "row": number,
            "input": None if isinstance(row, GuiderailError) else row,
            "text": answer.text,
            **({"value": value} if self.job.is_json else {}),
            "finish_reason": answer.finish_reason,
            "prompt_tokens": answer.prompt_tokens,
            "tokens": answer.tokens,
            "error": None if wrong is None else {"code": wrong.code, "message": wrong.message},
        }


def _here(job: Job, shards: Sequence[Shard]) -> Iterator[tuple[int, Totals]]:
    replica = Replica(job)
    try:
        for shard in shards:
            yield shard.index, replica.answer(shard)
    finally:
        replica.close()


def _with_ray(
    job: Job, shards: Sequence[Shard], replicas: int, address: str | None, cpus: float, gpus: float
) -> Iterator[tuple[int, Totals]]:
    ray = package("ray", "several replicas need Ray", extra="ray", error=ModelError)
    package("ray.data", "several replicas need Ray", extra="ray", error=ModelError)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    started = not ray.is_initialized()
    if started and address is not None:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    elif started:
        # Ray counts processors and does not measure them. With fewer than requested, a batch would wait forever.
        enough = max(os.cpu_count() or 1, int(replicas * cpus) + 2)
        ray.init(num_cpus=enough, log_to_driver=False, logging_level="error", include_dashboard=False)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

        class OfJob(Replica):
            """Carries the job, so that an actor can be restarted after its machine was lost."""

            def __init__(self) -> None:
                super().__init__(job)
                _ = self.engine  # before the first shard, so that an error of the model is raised at once

        rows = ray.data.from_items([asdict(shard) for shard in shards], override_num_blocks=len(shards))
        done = rows.map_batches(
            OfJob,
            batch_size=1,
            num_cpus=cpus,
            num_gpus=gpus,
            compute=ray.data.ActorPoolStrategy(size=min(replicas, len(shards)), max_tasks_in_flight_per_actor=2),
        )
        for row in done.iter_rows():
            yield int(row["shard"]), Totals(int(row["rows"]), int(row["failed"]), int(row["tokens"]))
    except ray.exceptions.RayError as error:
        raise ModelError(
            f"a replica failed; finished rows are kept, and repeating the call resumes: {str(error).strip():.2000}",
            code="batch-failed",
        ) from error
    finally:
        if started:
            ray.shutdown()
