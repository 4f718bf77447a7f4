"""Options that the commands share, and the constraint that they describe."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from guiderail.constraint import Constraint, choice
from guiderail.errors import CompileError

__all__ = [
    "ChoiceOption",
    "DialectOption",
    "FlagsOption",
    "MaxLengthOption",
    "ModelOption",
    "PatternOption",
    "RegexOption",
    "SearchOption",
    "build_constraint",
]

_WHAT = "The constraint (exactly one kind)"

RegexOption = Annotated[
    str | None,
    typer.Option("--regex", "-r", metavar="PATTERN", help="A regular expression for the whole text.",
                 rich_help_panel=_WHAT),
]  # fmt: skip
ChoiceOption = Annotated[
    list[str] | None,
    typer.Option("--choice", "-c", metavar="TEXT", help="One of these texts; give it several times.",
                 rich_help_panel=_WHAT),
]  # fmt: skip
PatternOption = Annotated[
    str | None,
    typer.Option("--pattern", "-p", metavar="NAME", help="A ready pattern: date, email, uuid, ipv4, url …",
                 rich_help_panel=_WHAT),
]  # fmt: skip
DialectOption = Annotated[
    str, typer.Option("--dialect", metavar="python|ecma", help="What --regex means.", rich_help_panel=_WHAT)
]
FlagsOption = Annotated[
    str, typer.Option("--flags", metavar="LETTERS", help="Flags of --regex, e.g. ix.", rich_help_panel=_WHAT)
]
SearchOption = Annotated[
    bool, typer.Option("--search", help="Any text may stand around --regex.", rich_help_panel=_WHAT)
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option("--max-length", metavar="N", help="At most so many characters.", rich_help_panel=_WHAT),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="PATH",
                 help="A GGUF file, or the folder or hub name of a transformers model; by default the embedded one."),
]  # fmt: skip


def build_constraint(
    regex: str | None,
    choices: list[str] | None,
    pattern: str | None,
    *,
    dialect: str = "python",
    flags: str = "",
    search: bool = False,
    max_length: int | None = None,
) -> Constraint:
    """The constraint of the options.

    Raises:
        CompileError: ``bad-option``: no kind or several are given, or an option does not go with the kind.
        PatternError: the regular expression is malformed.
    """
    given = [
        name
        for name, value in (("--regex", regex), ("--choice", choices), ("--pattern", pattern))
        if value not in (None, [])
    ]
    if len(given) != 1:
        said = " and ".join(given) + " were given" if given else "none was given"
        raise CompileError(f"give one of --regex, --choice and --pattern: {said}", code="bad-option")
    if regex is not None:
        from guiderail.frontends.regex import regex as make

        return make(regex, dialect=dialect, flags=flags, mode="search" if search else "match", max_length=max_length)
    if dialect != "python" or flags or search:
        raise CompileError(f"--dialect, --flags and --search belong to --regex, not to {given[0]}", code="bad-option")
    constraint = choice(choices) if choices else _named(pattern or "")
    return constraint if max_length is None else constraint.limited_to(max_length)


def _named(name: str) -> Constraint:
    from guiderail import patterns

    functions: dict[str, Any] = {known: getattr(patterns, known) for known in patterns.__all__}
    function = functions.get(name.replace("-", "_").lower())
    if function is None:
        raise CompileError(f"there is no pattern {name!r}; known are {', '.join(sorted(functions))}", code="bad-option")
    made: Constraint = function()
    return made
