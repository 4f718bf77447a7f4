"""Locks that the child of a fork finds free.

The child has only the thread that forked, so nobody would release a lock that another thread held at that moment. What
the locks of this package guard is whole again after each statement, so the child may take them.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TypeVar

__all__ = ["free_after_fork"]

L = TypeVar("L", bound="threading.Lock | threading.RLock")

_all: weakref.WeakSet[threading.Lock | threading.RLock] = weakref.WeakSet()


def free_after_fork(lock: L) -> L:
    """Returns the lock; the child of a fork finds it free."""
    _all.add(lock)
    return lock


def _free_all() -> None:
    for lock in _all:
        lock._at_fork_reinit()  # type: ignore[union-attr]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
