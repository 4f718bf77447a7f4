"""``xgrammar.config``: how deep grammars may nest, and the version of the serialization format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guiderail.compat._errors import CompatError, integer
from guiderail.compat.xgrammar._serialized import VERSION

__all__ = ["get_max_recursion_depth", "get_serialization_version", "max_recursion_depth", "set_max_recursion_depth"]

_DEPTH = 10_000  # XGrammar's default


def get_max_recursion_depth() -> int:
    """Returns XGrammar's default. guiderail bounds work, not depth: see ``max_work`` of ``guiderail.compile``."""
    return _DEPTH


def set_max_recursion_depth(max_recursion_depth: int) -> None:
    """Accepts only the default.

    Raises:
        CompatError: ``compat-option``: another depth.
    """
    if integer("max_recursion_depth", max_recursion_depth) != _DEPTH:
        raise CompatError(
            "guiderail has no recursion depth to set: it limits steps of work (max_work and max_step_work of "
            "guiderail.compile); leave the depth out",
            code="compat-option",
        )


@contextmanager
def max_recursion_depth(temp_depth: int) -> Iterator[None]:
    """A context manager around :func:`set_max_recursion_depth`."""
    set_max_recursion_depth(temp_depth)
    yield


def get_serialization_version() -> str:
    """Returns the version that ``serialize_json`` writes."""
    return VERSION
