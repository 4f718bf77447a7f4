"""Errors for arguments of the wrong type, which are checked only after a call has failed."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from guiderail.errors import ArgumentError, GuiderailError
from guiderail.support.nesting import too_many_digits
from guiderail.support.numerals import is_digit_limit
from guiderail.support.other_names import NEEDED, instead
from guiderail.support.texts import clipped, has_surrogate

__all__ = ["checked", "checked_methods"]

_LISTS = ("Iterable", "Sequence", "Collection", "list", "tuple")
_OWN = ("self", "cls")  # what a method is called on

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function. If it fails with a Python error, its arguments are compared with their annotations.

    An error that no annotation explains is raised as it is: its cause may be a callback, or a bug here.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ArgumentError as error:  # of an inner function, which names its own parameters
            wrong = _wrong(function, args, kwargs)
            if wrong is None:
                raise
            raise ArgumentError(f"{_name(function)} takes {wrong}") from error
        except GuiderailError:
            raise
        except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError) as error:
            _check_names(function, args, kwargs)
            wrong = _wrong(function, args, kwargs)
            if wrong is None and is_digit_limit(error):
                raise too_many_digits(f"an argument of {_name(function)}") from None
            if wrong is None:
                raise
            raise ArgumentError(f"{_name(function)} takes {wrong}") from error

    return call


def checked_methods(kind: C) -> C:
    """The class, with its constructor and public methods checked, static ones too."""
    for name, value in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(value, classmethod):
            setattr(kind, name, classmethod(checked(value.__func__)))
        elif isinstance(value, staticmethod):
            setattr(kind, name, staticmethod(checked(value.__func__)))
        elif inspect.isfunction(value):
            setattr(kind, name, checked(value))
    return kind


def _name(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _check_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises an ArgumentError for arguments that a function does not have, has twice, or lacks."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in _OWN]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for name in kwargs:
            if name not in named:
                end = instead(name, named) if named else "it takes none by name"
                raise ArgumentError(f"{_name(function)} has no argument {name!r}; {end}") from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for parameter, _ in zip(positional, args, strict=False):
        if parameter.name in kwargs:
            raise ArgumentError(
                f"{_name(function)} has {parameter.name!r} twice: by its position, and by its name; leave one out"
            ) from None
    if inspect.Parameter.VAR_POSITIONAL not in kinds and len(args) > len(positional):
        first = [parameter.name for parameter in positional if parameter.name not in _OWN]
        is_list = len(first) == 1 and str(positional[-1].annotation).startswith(_LISTS)
        others = [name for name in named if name not in first]
        more = "; pass several values as one list" if is_list else "; pass the others by name" if others else ""
        takes = (
            f"{len(first)} argument{'s' * (len(first) > 1)} by position ({', '.join(first)})"
            if first
            else "no argument by position"
        )
        given = len(args) - len(positional) + len(first)
        raise ArgumentError(f"{_name(function)} takes {takes}, and was given {given}{more}") from None
    lacks = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in (*kwargs, *(one.name for one, _ in zip(positional, args, strict=False)))
    ]
    if lacks:
        them = " and ".join(f"{name}=…" for name in lacks)
        hint = "".join(f"; {NEEDED[name]}" for name in lacks if name in NEEDED)
        raise ArgumentError(f"{_name(function)} needs {' and '.join(map(repr, lacks))}; pass {them}{hint}") from None


def _wrong(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    for name, value in bound.arguments.items():
        parameter = inspect.signature(function).parameters[name]
        wanted = parameter.annotation
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if wanted is inspect.Parameter.empty or not isinstance(wanted, str):
            continue
        for one in value if several else (value,):
            if not _fits(one, wanted):
                return f"{name}: {wanted}, not {_shown(one)}"
    return None


def _fits(value: object, annotation: str) -> bool:
    """Whether a value may fit an annotation, judged by its outermost type."""
    if isinstance(value, str) and has_surrogate(value):
        return False  # no text
    return any(_is(value, one) for one in _alternatives(annotation))


def _is(value: object, annotation: str) -> bool:
    name, _, inside = annotation.partition("[")
    name = name.rpartition(".")[2]
    if name in ("Any", "object", "Self", "Literal") or len(name) == 1:
        return True
    if name == "None":
        return value is None
    if name == "int":
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63
    if name == "float":
        return isinstance(value, numbers.Real)
    if name == "Callable":
        return callable(value)
    if name in _LISTS:
        if isinstance(value, str | bytes):
            return False
        if name in ("Iterable", "Collection") and not isinstance(value, list | tuple):
            return _is_iterable(value)
        if not (hasattr(value, "__getitem__") and hasattr(value, "__len__")) or isinstance(value, dict):
            return False
        if not _is_iterable(value):
            return False
        return name == "tuple" or all(_fits(one, inside[:-1]) for one in value)  # type: ignore[attr-defined]
    if name == "Mapping":
        return hasattr(value, "keys")
    if name == "NDArray":
        name = "ndarray"
    if name == "PathLike":
        return hasattr(value, "__fspath__")
    return any(name == kind.__name__ for kind in type(value).__mro__)


def _is_iterable(value: object) -> bool:
    """Whether a value can be iterated over: an array of no dimension has the methods, and cannot."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def _alternatives(annotation: str) -> list[str]:
    """The parts of a union, cut at the bars outside any brackets."""
    parts, depth = [""], 0
    for c in annotation:
        depth += (c == "[") - (c == "]")
        if c == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def _shown(value: object) -> str:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "an integer of more than 64 bits"
    if isinstance(value, str) and not _fits(value, "Any"):
        return f"{ascii(value)[:57]}, which has surrogates and so is not text"
    if isinstance(value, int | float | str | bytes | None):
        return clipped(ascii(value), 60)
    if isinstance(value, list | tuple) and value:
        return f"{type(value).__name__} of {type(value[0]).__name__}"
    return type(value).__name__
