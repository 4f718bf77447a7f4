"""Introspection of a class's members, with type variables filled in."""

from __future__ import annotations

import dataclasses
import inspect
import operator
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.sizes import Sizes

__all__ = [
    "annotated_type",
    "annotation_of",
    "docstring",
    "filled",
    "hints_of",
    "is_hidden",
    "is_of_pydantic_1",
    "is_pydantic",
    "is_struct",
    "is_typed_dict",
    "origin_of",
    "resolved",
    "variables_of",
]


def origin_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """The generic and its arguments; ``(kind, ())`` if it has none."""
    origin = typing.get_origin(kind)
    return (kind, ()) if origin is None else (origin, typing.get_args(kind))


def filled(kind: Any, known: Mapping[Any, Any]) -> Any:
    """A type with its type variables replaced."""
    if isinstance(kind, TypeVar):
        return known.get(kind, kind)
    parameters = getattr(kind, "__parameters__", ())
    if not known or not parameters or (isinstance(kind, type) and typing.get_origin(kind) is None):
        return kind
    for one in parameters:
        if not isinstance(one, TypeVar):
            raise unsupported(f"{kind}", f"{one} stands for several types; name them")
    return kind[tuple(known.get(one, one) for one in parameters)]


def variable(one: TypeVar) -> Any:
    """What an unspecified type variable stands for: its default, constraints or bound; otherwise Any."""
    default = getattr(one, "__default__", None)
    if default is not None and not _is_no_default(default):
        return default
    if one.__constraints__:
        return typing.Union[one.__constraints__]  # noqa: UP007  # made of a tuple
    return Any if one.__bound__ is None else one.__bound__


def _is_no_default(value: Any) -> bool:
    return type(value).__name__ in ("NoDefaultType", "NoDefault")


def variables_of(kind: type[Any], args: tuple[Any, ...]) -> dict[type[Any], dict[Any, Any]]:
    """For a class and its bases: what the type variables of each stand for."""
    parameters: tuple[Any, ...] = getattr(kind, "__parameters__", ())
    known: dict[type[Any], dict[Any, Any]] = {kind: dict(zip(parameters, args, strict=False))}
    queue = [kind]
    while queue:
        one = queue.pop()
        for base in one.__dict__.get("__orig_bases__", ()):
            origin, given = origin_of(base)
            if isinstance(origin, type) and origin not in known and getattr(origin, "__parameters__", None):
                filled_args = [filled(arg, known[one]) for arg in given]
                known[origin] = dict(zip(origin.__parameters__, filled_args, strict=False))  # type: ignore[attr-defined]
                queue.append(origin)
    return known


def hints_of(kind: type[Any], args: tuple[Any, ...], names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a class and its bases, forward references resolved, type variables filled in."""
    known = variables_of(kind, args)
    hints: dict[str, Any] = {}
    if is_typed_dict(kind):  # its bases are gone from the MRO
        everything = {variable: type_ for one in known.values() for variable, type_ in one.items()}
        return {name: filled(hint, everything) for name, hint in resolved(kind, names).items()}
    for one in reversed(kind.__mro__):
        own = inspect.get_annotations(one) if one is not object else {}
        if own:
            all_of_it = resolved(one, names)
            hints |= {name: filled(all_of_it[name], known.get(one, {})) for name in own}
    return hints


def resolved(thing: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """``typing.get_type_hints`` with extras, and a clear error."""
    local = dict(names)
    if isinstance(thing, type):
        local.setdefault(thing.__name__, thing)
    try:
        for one in getattr(thing, "__mro__", (thing,)):
            for hint in (getattr(one, "__annotations__", None) or {}).values():
                Sizes().pay(hint)  # get_type_hints walks them, too
        return typing.get_type_hints(thing, localns=local, include_extras=True)
    except NameError as error:
        raise unsupported(
            getattr(thing, "__qualname__", repr(thing)),
            f"an annotation uses the name {error.name!r}, which is not known there; pass "
            f"namespace={{{error.name!r}: …}}",
            "type-forward-reference",
        ) from error
    except (TypeError, SyntaxError) as error:
        if "InitVar" in str(error):  # not a type for Python 3.10
            return inspect.get_annotations(thing, locals=local, eval_str=True)
        raise unsupported(
            getattr(thing, "__qualname__", repr(thing)), f"its annotations cannot be read ({error})"
        ) from error


def annotated_type(inner: Any, metadata: Sequence[Any]) -> Any:
    """``Annotated[inner, *metadata]``: Python 3.10 has no syntax for it."""
    return operator.getitem(typing.Annotated, (inner, *metadata))


def annotation_of(hint: Any) -> tuple[Any, bool | None]:
    """The type without ``Required``, ``ReadOnly``, ``Final``, ``ClassVar`` …; and what these say of presence."""
    required: bool | None = None
    while True:
        origin, args = origin_of(hint)
        name = getattr(origin, "__name__", None) or getattr(origin, "_name", None)
        module = getattr(origin, "__module__", "")
        if module not in ("typing", "typing_extensions") or len(args) != 1:
            if args and (origin is typing.Annotated or name == "Annotated"):
                inner, presence = annotation_of(args[0])
                if inner is not args[0]:
                    return annotated_type(inner, args[1:]), presence
            return hint, required
        if name in ("Required", "NotRequired"):
            required = name == "Required"
        elif name not in ("ReadOnly", "Final"):
            return hint, required
        hint = args[0]


def is_hidden(metadata: Iterable[Any]) -> bool:
    """Whether pydantic's ``SkipJsonSchema`` says that this is not to be written, if it can be left out."""
    return any(
        type(item).__name__ == "SkipJsonSchema" and type(item).__module__.startswith("pydantic.") for item in metadata
    )


def is_typed_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def is_struct(kind: Any) -> bool:
    """Whether it is a ``msgspec.Struct``."""
    return isinstance(kind, type) and hasattr(kind, "__struct_config__") and hasattr(kind, "__struct_fields__")


def is_pydantic(kind: Any) -> str | None:
    """``"model"``, ``"dataclass"`` or None; pydantic is not imported for it."""
    if not isinstance(kind, type) or "pydantic" not in sys.modules:
        return None
    if any(base.__module__.startswith("pydantic.") and base.__name__ == "BaseModel" for base in kind.__mro__):
        return "model"
    if dataclasses.is_dataclass(kind) and "__pydantic_fields__" in kind.__dict__:
        return "dataclass"
    return None


def is_of_pydantic_1(kind: type[Any]) -> bool:
    """Whether a model, or a class derived from one of its types, is of pydantic 1 or ``pydantic.v1``."""
    if any(base.__module__.startswith("pydantic.v1.") for base in kind.__mro__):
        return True
    return is_pydantic(kind) == "model" and not hasattr(kind, "model_validate")


def docstring(kind: Any) -> str | None:
    """The class's or function's own docstring, without those that Python and pydantic make up."""
    text = kind.__dict__.get("__doc__") if isinstance(kind, type) else getattr(kind, "__doc__", None)
    if not isinstance(text, str) or not text.strip():
        return None
    if isinstance(kind, type) and text.startswith(f"{kind.__name__}("):
        return None
    if isinstance(kind, types.BuiltinFunctionType):
        return None
    return inspect.cleandoc(text)
