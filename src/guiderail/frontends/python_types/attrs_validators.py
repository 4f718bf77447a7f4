"""What validators of attrs say of a field, as bounds. attrs itself is not imported for it.

A validator that no bound of the type can express remains code: the class runs it when a value is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from guiderail.constraints.constraint import choice
from guiderail.errors import CompileError, PatternError
from guiderail.frontends.python_types.bounds import Bounds, number_bound, of_re
from guiderail.frontends.python_types.nodes import Literals, Node, Union
from guiderail.frontends.python_types.number_nodes import Integers
from guiderail.support.trees import Mismatch

__all__ = ["validated", "validators_of"]

_COMPARISONS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le"}
_MOST_OPTIONS = 1_000
_MODES = {"fullmatch": "match", "search": "search"}


def validators_of(owner: type[Any]) -> dict[str, Any]:
    """The validators of the parameters of an ``__init__`` that attrs made for a class.

    The validator of a field with a converter sees only what the converter makes, and is left out.
    """
    fields = vars(owner).get("__attrs_attrs__", ())
    if hasattr(owner, "__attrs_init__"):  # the class has its own __init__
        return {}
    return {
        getattr(one, "alias", None) or one.name.lstrip("_"): one.validator
        for one in fields
        if one.init and one.converter is None and one.validator is not None
    }


def validated(node: Node, validator: Any) -> Node:
    """The node with the bounds of a validator that it can have."""
    for part in sorted(_parts(validator), key=lambda part: _kind(part) == "_InValidator"):  # after the bounds
        if _kind(part) == "_InValidator":
            node = _narrowed(node, part.options)
        try:
            node = node.constrained(_bounds(part))
        except PatternError:
            continue
        except CompileError as error:
            if error.code != "type-metadata":
                raise
    return node


def _narrowed(node: Node, options: Any) -> Node:
    """A node of values given one by one, or of integers, without the values that are no options."""
    if not isinstance(options, list | tuple | set | frozenset | range) or len(options) > _MOST_OPTIONS:
        return node
    if isinstance(node, Union):
        return replace(node, branches=tuple(_narrowed(branch, options) for branch in node.branches))
    if isinstance(node, Literals):
        kept = tuple(pair for pair in node.values if pair[1] is None or pair[1] in options)
        return replace(node, values=kept) if kept else node
    if isinstance(node, Integers) and node.make is None and all(type(one) is int for one in options):
        within = tuple((one, one) for one in sorted(options) if _is_within(node, one))
        return Literals(node.name, within) if within else node
    return node


def _is_within(node: Integers, value: int) -> bool:
    try:
        node.within(value)
        node.multiple(value)
    except Mismatch:
        return False
    return True


def _parts(validator: Any) -> Iterator[Any]:
    """The validators all of which have to accept a value."""
    kind = _kind(validator)
    if kind == "_AndValidator":
        for one in validator._validators:
            yield from _parts(one)
    elif kind == "_OptionalValidator":  # bounds leave None alone
        yield from _parts(validator.validator)
    elif kind:
        yield validator


def _kind(validator: Any) -> str:
    kind = type(validator)
    return kind.__name__ if kind.__module__.partition(".")[0] in ("attr", "attrs") else ""


def _bounds(validator: Any) -> Bounds:
    kind = _kind(validator)
    if kind == "_NumberValidator" and validator.compare_op in _COMPARISONS:
        name = _COMPARISONS[validator.compare_op]
        return Bounds(**{name: number_bound(name, validator.bound)})
    if kind == "_MinLengthValidator":
        return Bounds(min_length=validator.min_length)
    if kind == "_MaxLengthValidator":
        return Bounds(max_length=validator.max_length)
    if kind == "_MatchesReValidator" and validator.match_func.__name__ in _MODES:
        pattern = validator.pattern
        return of_re(pattern.pattern, pattern.flags, _MODES[validator.match_func.__name__])
    if kind == "_InValidator" and isinstance(validator.options, list | tuple | set | frozenset):
        options = sorted(validator.options) if all(type(one) is str for one in validator.options) else []
        return Bounds(texts=(choice(options),)) if options else Bounds()
    return Bounds()
