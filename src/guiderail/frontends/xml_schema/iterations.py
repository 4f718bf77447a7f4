"""Repetitions whose iterations run into each other, such as ``(b{2,3}, c?){1,2}``.

With look-ahead, it reads ``bbbb`` as twice two. Some validators do not look ahead: they give each iteration as much as
it can take, three here, and miss the fourth. So every iteration but the last is written to its end: with something
after the inner repetition, or with as many items as that may take. No iteration is empty unless all
are, since not every validator counts it.

Of ``(a?, b+){2}``, a validator without look-ahead reads all of ``bb`` as one iteration, and misses the second. So where
several are required, each but the first begins with what cannot belong to the one before it.
"""

from __future__ import annotations

from guiderail.frontends.xml_schema.model import All, Choice, Element, Key, Particle, Repeat, Seq

__all__ = ["read_alike"]


def read_alike(item: Particle, least: int, most: int | None) -> Particle | None:
    """A form of ``Repeat(item, least, most)`` that all validators read alike; None if the plain form is one."""
    if (most is not None and most < 2) or _of_elements(item):
        return None
    if not _firsts(item) & _open_ends(item, 1 if least > 1 else 2):
        if least < 2 or not _firsts(item) & _more(item):
            return None
        apart = _apart(item, least, most)
        if apart is not None:
            return apart
    ended, may_be_empty = _ended(item), _nullable(item)
    found: Particle = item
    if ended is not None:
        more = None if most is None else most - 1
        found = Seq((Repeat(ended, max(least - 1, 0), more), Repeat(item, 1, 1, some=True) if may_be_empty else item))
    elif least > 1:
        return _apart(item, least, most)
    return found if least and not may_be_empty else Repeat(found, 0, 1)


def _apart(item: Particle, least: int, most: int | None) -> Particle | None:
    """The repetitions in which each iteration but the first begins with what could not continue the one before it."""
    clash = _firsts(item) & _more(item)
    begun = _begun(item, clash) if clash else None
    if begun is None:
        return None
    may_be_empty = _nullable(item)
    first = Repeat(item, 1, 1, some=True) if may_be_empty else item
    found = Seq((first, Repeat(begun, least - 1, None if most is None else most - 1)))
    return Repeat(found, 0, 1) if may_be_empty else found


def _more(p: Particle) -> set[Key]:
    """Elements that may follow a particle that could have ended."""
    if isinstance(p, Element):
        return set()
    if isinstance(p, Repeat):
        found = _more(p.item)
        return found | _firsts(p.item) if p.most is None or p.most > max(p.least, 1) else found
    if isinstance(p, All):
        return _firsts(p)
    found = set()
    for at, item in reversed([*enumerate(p.items)]):
        found |= _more(item)
        if isinstance(p, Seq):
            if not _nullable(item):
                break
            found |= _firsts(item) if at else set()
    return found


def _begun(p: Particle, keys: set[Key]) -> Particle | None:
    """The part of a particle that begins with none of these elements; None: there is none, or none is known."""
    if isinstance(p, Element):
        return None if p.key in keys else p
    if isinstance(p, All):
        return None
    if isinstance(p, Repeat):
        one = _begun(p.item, keys)
        if one is None or p.some or p.most == 1:
            return one
        return Seq((one, Repeat(p.item, max(p.least - 1, 0), None if p.most is None else p.most - 1)))
    ways = []
    for at, item in enumerate(p.items):
        way = _begun(item, keys)
        if way is not None:
            ways.append(Seq((way, *p.items[at + 1 :])) if isinstance(p, Seq) else way)
        if isinstance(p, Seq) and not _nullable(item):
            break
    return Choice(tuple(ways)) if len(ways) > 1 else ways[0] if ways else None


def _of_elements(p: Particle) -> bool:
    """A choice among repeated elements: each iteration is of one element, which all validators read in every way."""
    if not isinstance(p, Choice) or _nullable(p):
        return False
    return all(isinstance(item.item if isinstance(item, Repeat) else item, Element) for item in p.items)


def _nullable(p: Particle) -> bool:
    if isinstance(p, Element):
        return False
    if isinstance(p, Repeat):
        return not p.some and (p.least == 0 or _nullable(p.item))
    if isinstance(p, All):
        return all(least == 0 for _, least, _ in p.items)
    return (any if isinstance(p, Choice) else all)(map(_nullable, p.items))


def _firsts(p: Particle) -> set[Key]:
    if isinstance(p, Element):
        return {p.key}
    if isinstance(p, Repeat):
        return _firsts(p.item)
    if isinstance(p, All):
        return {key for item, _, _ in p.items for key in _firsts(item)}
    found: set[Key] = set()
    for item in p.items:
        found |= _firsts(item)
        if isinstance(p, Seq) and not _nullable(item):
            break
    return found


def _open_ends(p: Particle, least: int) -> set[Key]:
    """Elements of bounded repetitions at the end that could take one more, and begin at ``least`` or above."""
    if isinstance(p, Element | All):
        return set()
    if isinstance(p, Repeat):
        found = _open_ends(p.item, least)
        return found | _firsts(p.item) if p.most is not None and least <= p.least < p.most else found
    found = set()
    for item in reversed(p.items):
        found |= _open_ends(item, least)
        if isinstance(p, Seq) and not _nullable(item):
            break
    return found


def _ended(p: Particle) -> Particle | None:
    """The part of a particle that ends where nothing more of it could follow; None: no such part is known."""
    if isinstance(p, Element):
        return p
    if isinstance(p, Repeat):
        return None if p.most is None or _nullable(p.item) else Repeat(p.item, p.most, p.most)
    if isinstance(p, All):
        return None
    if isinstance(p, Choice):
        ways = [way for item in p.items if (way := _ended(item)) is not None]
        return Choice(tuple(ways)) if ways else None
    if not p.items:
        return None
    *before, last = p.items
    if not _nullable(last):
        way = _ended(last)
        return None if way is None else Seq((*before, way))
    found = []
    if isinstance(last, Repeat) and last.most is not None and not _nullable(last.item):
        found.append(Seq((*before, Repeat(last.item, last.most, last.most))))
    way = _ended(Seq(tuple(before)))
    return Choice((*found, way)) if found and way is not None else found[0] if found else way
