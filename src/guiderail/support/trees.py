"""Texts of values as trees: JSON as ``json`` reads it, except that numbers keep their spelling.

A tree is None, a bool, a str, a :class:`Number`, a list or a dict of trees. Nothing is rounded before the type decides
what a number becomes: ``1.10`` is exact as a ``Decimal``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import MIN_ETINY, Decimal, InvalidOperation
from typing import Any, TypeAlias

from guiderail.errors import ReadError
from guiderail.support.json_objects import TooDeep, loads
from guiderail.support.numerals import read_integer
from guiderail.support.pointers import extended

__all__ = ["Called", "Mismatch", "Number", "Tree", "dump", "members_of", "parse_json", "plain", "type_name"]


class Mismatch(Exception):
    """A value does not fit its node. Containers add their step to ``path`` (innermost first) and pass it on."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.path: list[str | int] = []

    def error(self) -> ReadError:
        pointer = extended("", *reversed(self.path))
        where = f" at {pointer}" if pointer else ""
        if self.cause is None:
            return ReadError(f"the value{where} {self.message}", code="read-mismatch", pointer=pointer)
        return ReadError(
            f"the value{where} {self.message}: {self.cause}; the type allows it, but the type's own code does not",
            code="read-refused",
            pointer=pointer,
            cause=self.cause,
        )


@dataclass(frozen=True, slots=True)
class Number:
    """A number by its JSON spelling."""

    text: str

    def integer(self) -> int | None:
        """The value, if it is an integer (``1.0`` and ``1e2`` too)."""
        if self.text.lstrip("-").isdigit():
            return read_integer(self.text)
        value = self.decimal()
        if not value:
            return 0
        if value.adjusted() > 4299 or value != value.to_integral_value():
            return None
        return int(value)

    def decimal(self) -> Decimal:
        """The exact value."""
        try:
            return Decimal(self.text)
        except InvalidOperation:
            if not any(digit in "123456789" for digit in self.text.lower().partition("e")[0]):
                return Decimal(0)
            if "e-" in self.text.lower():  # nearer to 0 than any Decimal but 0
                return Decimal((self.text.startswith("-"), (1,), MIN_ETINY))
            raise Mismatch(f"is beyond the exponents of a Decimal ({self.text[:40]})") from None

    def plain(self) -> int | float:
        """An int if it is spelled as one, otherwise a float: what ``json.loads`` returns."""
        return read_integer(self.text) if self.text.lstrip("-").isdigit() else float(self.text)


class Called(dict[str, Any]):
    """The arguments of a call, by name, as the members of an object.

    Attributes:
        function: the name of the function.
    """

    def __init__(self, function: str, members: dict[str, Any]) -> None:
        super().__init__(members)
        self.function = function


Tree: TypeAlias = Any  # None | bool | str | Number | list[Tree] | dict[str, Tree]


def members_of(pairs: list[tuple[str, Tree]]) -> dict[str, Tree]:
    """An object by its members; raises Mismatch if two have one name."""
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise Mismatch(f"has two members named {again!r}")
    return members


def _constant(name: str) -> Tree:
    raise Mismatch(f"contains {name}, which is not JSON")


def parse_json(text: str | bytes) -> Tree:
    """The tree of a JSON text (RFC 8259).

    Raises:
        ReadError: the text is not JSON, names a member twice or is nested too deeply for the interpreter.
    """
    try:
        return loads(text, parse_int=Number, parse_float=Number, parse_constant=_constant, object_pairs_hook=members_of)
    except Mismatch as error:
        raise error.error() from None
    except TooDeep as error:
        raise ReadError(
            f"the text is nested too deeply for this interpreter (line {error.lineno} column {error.colno}); cap the "
            "nesting of the type (max_depth)",
            code="read-depth",
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReadError(f"the text is not JSON ({error})", code="read-syntax") from error


def plain(tree: Tree) -> Any:
    """A tree as ``json.loads`` would have returned it."""
    if isinstance(tree, Number):
        return tree.plain()
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    if isinstance(tree, dict):
        return {name: plain(value) for name, value in tree.items()}
    return tree


def dump(tree: Tree) -> str:
    """A tree as JSON text, with numbers as they were spelled."""
    if isinstance(tree, Number):
        return tree.text
    if isinstance(tree, list):
        return f"[{','.join(map(dump, tree))}]"
    if isinstance(tree, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{dump(value)}" for name, value in tree.items()) + "}"
    return json.dumps(tree)


def type_name(tree: Tree) -> str:
    """The JSON type of a tree, for messages."""
    if tree is None:
        return "null"
    for kind, name in ((bool, "a boolean"), (str, "a string"), (Number, "a number"), (list, "an array")):
        if isinstance(tree, kind):
            return name
    return "an object"
