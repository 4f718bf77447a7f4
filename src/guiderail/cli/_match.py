"""``guiderail match``: does a text fit, and if not, where and why."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from guiderail.cli._options import Given, takes_options

_WINDOW = 60  # characters of a long text shown around the fault


@takes_options()
def match_command(
    *,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Strings to match; by default the lines of stdin.")
    ] = None,
    given: Given,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing; the exit status says whether all match.")
    ] = False,
) -> None:
    r"""Report whether strings match a constraint, and where they stop matching.

    Exit status 0 if all match, 1 if one does not.

    **Examples**

    - `guiderail match --regex "\d{4}-\d{2}" 2024-02 2024-2x`
    - `guiderail match --pattern email < addresses.txt`
    - `guiderail match --grammar sql "SELECT name FROM people"`
    """
    constraint = given.constraint("free", "any")
    if not texts and sys.stdin.isatty():
        print("matching lines of stdin; end with Ctrl+D", file=sys.stderr)
    lines = texts if texts else (line.rstrip("\r\n") for line in sys.stdin)
    good = True
    for text in lines:
        fits = constraint.matches(_bytes(text))
        good = good and fits
        if not quiet:
            print(f"match     {_shown(text)}" if fits else _fault(constraint.explain(_bytes(text)), text))
    raise typer.Exit(0 if good else 1)


def _bytes(text: str) -> bytes:
    """The bytes that were typed: those that are not UTF-8 arrive as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _fault(explanation: object, text: str) -> str:
    from guiderail.constraints.explain import Explanation

    assert isinstance(explanation, Explanation)
    at = len(text) if explanation.failed_at is None else explanation.failed_at
    cut = max(0, at - _WINDOW) if len(text) > 2 * _WINDOW else 0
    line = _shown(text)[cut : cut + 2 * _WINDOW]
    what = f"unexpected {_shown(text)[at]!r}" if at < len(text) else "the text ends too early"
    expected = list(explanation.expected)
    if explanation.failed_at is not None and explanation.accepting:
        expected.append("the end of the text")
    return (
        f"no match  {line}\n          {' ' * (at - cut)}^\n"
        f"          position {at}: {what}; expected {' or '.join(expected) or 'nothing: no text is allowed'}"
    )
