"""Objects of JSON whose names are unique: ``json.loads`` keeps the last of two members and says nothing."""

from __future__ import annotations

from typing import Any

from guiderail.support.texts import shown

__all__ = ["RepeatedName", "unique_names"]


class RepeatedName(ValueError):
    """Internal: an object has two members of one name that differ."""


def unique_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, for ``json.loads(…, object_pairs_hook=unique_names)``.

    Raises:
        RepeatedName: two members have the same name and different values.
    """
    made = dict(members)
    if len(made) != len(members):
        for name, value in members:
            if value != made[name]:
                raise RepeatedName(f"the name {shown(name)} occurs twice in one object; remove or rename one of them")
    return made
