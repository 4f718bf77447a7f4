"""``guiderail batch``: a file of rows, answered by one model or many."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guiderail.cli._options import Given, ModelOptions, SamplingOptions, takes_options
from guiderail.errors import ModelError
from guiderail.support.json_objects import loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guiderail.batch import BatchProgress, Failure

_SPREAD = "Parallelism"
_REASONS = 8  # maximum shown


@takes_options(without=("xsd", "root", "tools", "tool_format", "tool_choice"))
def batch_command(
    *,
    input: Annotated[
        Path,
        typer.Option(
            "--input", "-i", metavar="FILE|FOLDER", help="Rows to answer: .jsonl, .csv, .tsv or .parquet, or a folder."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE|FOLDER", help="Folder for the answers, or a file of one of these types."
        ),
    ],
    prompt: Annotated[
        str, typer.Option("--prompt", "-P", metavar="TEXT", help="Prompt, with columns of the row in braces.")
    ] = "{prompt}",
    given: Given,
    loading: ModelOptions,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System message.")] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Use the model's chat template, or continue the prompt.")
    ] = True,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="Maximum number of tokens of an answer.")] = 1024,
    sampling: SamplingOptions,
    engine: Annotated[str, typer.Option(metavar="guiderail|vllm", help="Engine that runs the model.")] = "guiderail",
    engine_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="Argument for vLLM, e.g. max_model_len=4096; may be repeated."),
    ] = None,
    replicas: Annotated[
        int,
        typer.Option(
            metavar="N", help="Number of copies of the model; more than one needs Ray.", rich_help_panel=_SPREAD
        ),
    ] = 1,
    shard_rows: Annotated[
        int, typer.Option(metavar="N", help="Rows in each part of the output.", rich_help_panel=_SPREAD)
    ] = 64,
    rows_at_once: Annotated[
        int, typer.Option(metavar="N", help="Rows that a local model answers in one batch.", rich_help_panel=_SPREAD)
    ] = 16,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads of a local model, per replica.", rich_help_panel=_SPREAD),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of a running Ray cluster, e.g. auto.", rich_help_panel=_SPREAD),
    ] = None,
    cpus: Annotated[
        float, typer.Option(metavar="N", help="CPUs that Ray reserves for a replica.", rich_help_panel=_SPREAD)
    ] = 1.0,
    gpus: Annotated[
        float, typer.Option(metavar="N", help="GPUs that Ray reserves for a replica.", rich_help_panel=_SPREAD)
    ] = 0.0,
    retry: Annotated[
        bool, typer.Option("--retry/--no-retry", help="Retry the rows that failed in earlier runs.")
    ] = True,
) -> None:
    r"""Answer every row of a file under one constraint.

    A row is a line with a JSON object, or a row of a table. Answers go to `part-*.jsonl` in the output folder, or to
    the file that you name (CSV and Parquet need pyarrow). Repeat the command to resume: no row is lost or answered
    twice, and rows that failed are retried. With --replicas, Ray Data distributes the work.

    Exit status: 1 if rows have no valid answer (their `error` says why).

    **Examples**

    - `guiderail batch --schema person.json --input rows.jsonl --output out/ --prompt "Describe {name}." --replicas 2`
    - `guiderail batch --choice yes --choice no -i reviews.csv -o judged.csv -P "Is this kind? {review}"`
    - `guiderail batch --schema s.json -i rows.jsonl -o out/ --engine vllm --model MODEL --gpus 1 --replicas 8`
    """
    constraint = given.constraint()
    from guiderail.batch import BatchOptions, run_batch

    options = BatchOptions(
        prompt=prompt,
        system=system,
        chat=chat,
        max_tokens=max_tokens,
        **asdict(sampling),
        engine=engine,
        model=loading.model,
        engine_args=_arguments(engine_arg),
    )
    show = _Progress()
    with show:
        report = run_batch(
            input,
            output,
            constraint,
            options,
            replicas=replicas,
            shard_rows=shard_rows,
            rows_at_once=rows_at_once,
            threads=threads,
            device=loading.device,
            gpu_layers=loading.gpu_layers,
            context_length=loading.context_length,
            ray_address=ray_address,
            cpus=cpus,
            gpus=gpus,
            retry=retry,
            progress=show.update,
        )
    again = f", {report.retried} retried" if report.retried else ""
    print(
        f"{report.rows} {'row' if report.rows == 1 else 'rows'} in {report.output}: "
        f"{report.rows - report.failed} answered, {report.failed} failed, "
        f"{report.resumed} from an earlier run{again}; {report.tokens} tokens in {report.seconds:.1f} s",
        file=sys.stderr,
    )
    _say_why(report.failures)
    if report.failed:
        raise typer.Exit(1)


def _say_why(failures: Sequence[Failure]) -> None:
    """Prints the reasons of failed rows to stderr."""
    for one in failures[:_REASONS]:
        rows = ", ".join(map(str, one.rows)) + (" …" if one.count > len(one.rows) else "")
        word = "row" if one.count == 1 else "rows"
        print(
            f"  {one.count} {word} failed ({word} {rows}, counted from 0): {one.message:.400} [{one.code}]",
            file=sys.stderr,
        )
    if len(failures) > _REASONS:
        rest = sum(one.count for one in failures[_REASONS:])
        print(f"  {rest} more failed for other reasons; each answer has its `error`", file=sys.stderr)


def _arguments(given: list[str] | None) -> dict[str, Any]:
    found = {}
    for one in given or ():
        name, sign, value = one.partition("=")
        try:
            found[name] = loads(value)
        except ValueError:
            found[name] = value
        if not sign or not name.isidentifier():
            raise ModelError(f"--engine-arg must be NAME=JSON, not {one!r}", code="bad-option")
    return found


class _Progress:
    """A bar on a terminal, otherwise an occasional line; all on stderr."""

    SECONDS = 10.0  # between two lines

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._next = 0.0

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[more]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, now: BatchProgress) -> None:
        """Shows the progress of the batch."""
        more = f"{now.failed} failed  {now.tokens / max(now.seconds, 1e-9):.0f} tokens/s"
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task("", total=now.rows, completed=now.done, more=more)
            self._bar.update(self._task, completed=now.done, more=more)
        elif time.monotonic() >= self._next or now.done == now.rows:
            self._next = time.monotonic() + self.SECONDS
            print(f"{now.done}/{now.rows} rows  {more}", file=sys.stderr, flush=True)
