"""Obligations of an object: some member, whichever it is, must exist and have a certain value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, KeyRules, ObjectCell, Obligation, Term
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

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
            ways, able = _open(algebra, o, named, closed)
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


def _open(
    algebra: Algebra, obligation: Obligation, named: dict[str, Term], closed: bool
) -> tuple[list[tuple[Strings, Term]], set[str] | None]:
    """The ways in which an obligation can still be met, and the only names that can meet it; None: others can, too.

    Of a way with many names, two at most are found.
    """
    ways: list[tuple[Strings, Term]] = []
    able: set[str] | None = set()
    for way in obligation.ways:
        keys, term = way
        texts = keys.finite_texts()
        if not closed and (texts is None or not texts <= named.keys()):
            able = None
            ways.append(way)
            continue
        found = 0
        for name in named if texts is None else texts if len(texts) == 1 else sorted(texts):
            known = named.get(name)
            if known is None or (texts is None and not keys.contains(name)):
                continue
            if (known if term is TRUE or term is known else algebra.both(known, term)) is not FALSE:
                if able is not None:
                    able.add(name)
                found += 1
                if found > 1:
                    break
        if found:
            ways.append(way)
    return ways, able


def unmet(algebra: Algebra, obligation: Obligation) -> ObjectCell:
    """The objects that have no member that meets an obligation."""
    named: dict[str, Term] = {}
    rest: list[Term] = []
    rules: list[KeyRules] = []
    for keys, term in obligation.ways:
        if keys.is_all():
            rest.append(algebra.not_term(term))
    for name in sorted({name for keys, _ in obligation.ways for name in keys.finite_texts() or ()}):
        named[name] = algebra.and_terms([algebra.not_term(term) for term in obligation.terms(name)])
    for keys, term in obligation.ways:
        if not keys.is_all() and keys.finite_texts() is None:
            rules.append(KeyRules(((keys, algebra.not_term(term)),), TRUE))
    return ObjectCell(named, algebra.and_terms(rest), rules=tuple(rules))
