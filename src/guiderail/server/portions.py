"""Divides what one step of the model reads among the texts that need it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["shared_out"]


def shared_out(whole: int, wanted: Sequence[int]) -> list[int]:
    """Returns each one's share: what it wants, up to a limit that is the same for all and as high as possible.

    Args:
        whole: upper limit of the sum; at least 0.
        wanted: how much each one wants; at least 0.
    """
    shares = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)  # who wants little leaves more to the others
    for place, i in enumerate(order):
        shares[i] = min(wanted[i], whole // (len(order) - place))
        whole -= shares[i]
    return shares
