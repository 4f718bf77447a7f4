"""Obligations of an object: some member, whichever it is, must exist and have a certain value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.frontends.json_schema.shape import FALSE, TRUE, KeyRules, ObjectCell, Obligation, Term
from guiderail.frontends.json_schema.strings import Strings
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.algebra import Algebra

__all__ = ["settled", "unmet"]


def settled(algebra: Algebra, cell: ObjectCell) -> ObjectCell | None:
    """A cell without the obligations that a required member meets, or that only one member can meet."""
    named, required = cell.named, cell.required
    closed = cell.rest is FALSE and not cell.rules
    waiting, changed = list(cell.obligations), True
    while changed:
        changed, kept = False, []
        for o in waiting:
            spend(20 + 2 * len(named) + 20 * len(o.ways))
            if o.is_met(named, required):
                continue
            ways: list[tuple[Strings, Term]] = []
            able: set[str] | None = set()  # the only names that can meet it; None: others can too
            for way in o.ways:
                names = _able(algebra, *way, named, closed)
                if names is None:
                    able = None
                elif able is not None:
                    able.update(names)
                if names is None or names:
                    ways.append(way)
            if not ways:
                return None
            if able is not None and len(able) == 1:
                (name,) = able
                met = algebra.both(named[name], algebra.or_terms(o.terms(name)))
                if met is FALSE:
                    return None
                named, required, changed = {**named, name: met}, required | able, True
            else:
                kept.append(o if len(ways) == len(o.ways) else Obligation(tuple(ways)))
        waiting = kept
    if cell.max is not None and len(required) > cell.max:
        return None
    return ObjectCell(named, cell.rest, required, cell.rules, cell.min, cell.max, tuple(waiting))


def _able(algebra: Algebra, keys: Strings, term: Term, named: dict[str, Term], closed: bool) -> list[str] | None:
    """The only names that can meet an obligation in one way, two at most; None if others can, too."""
    texts = keys.finite_texts()
    if not closed and (texts is None or not texts <= named.keys()):
        return None
    found: list[str] = []
    for name in named if texts is None else texts if len(texts) == 1 else sorted(texts):
        known = named.get(name)
        if known is not None and (texts is not None or name in keys) and algebra.both(known, term) is not FALSE:
            found.append(name)
            if len(found) > 1:
                break
    return found


def unmet(algebra: Algebra, obligation: Obligation) -> ObjectCell:
    """The objects that have no member that meets an obligation."""
    named: dict[str, Term] = {}
    rest: list[Term] = []
    rules: list[KeyRules] = []
    for keys, term in obligation.ways:
        if keys.is_all():
            rest.append(algebra.not_term(term))
    for name in sorted({name for keys, _ in obligation.ways for name in keys.finite_texts() or ()}):
        named[name] = algebra.and_terms(algebra.not_term(term) for term in obligation.terms(name))
    for keys, term in obligation.ways:
        if not keys.is_all() and keys.finite_texts() is None:
            rules.append(KeyRules(((keys, algebra.not_term(term)),), TRUE))
    return ObjectCell(named, algebra.and_terms(rest), rules=tuple(rules))
