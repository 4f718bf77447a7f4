"""What holds whenever a schema object does: the objects that it refers to, and those of its ``allOf``."""

from __future__ import annotations

from guiderail.frontends.json_schema.documents.dialects import BRANCH, DYNAMIC, REFERENCE, groups_of
from guiderail.frontends.json_schema.documents.references import Node
from guiderail.frontends.json_schema.keywords.branches import terms_of
from guiderail.frontends.json_schema.normal_form.shape import TRUE, Term
from guiderail.support.work import spend

__all__ = ["conjuncts", "says_something"]


def says_something(node: Node) -> bool:
    """Whether a schema object has keywords besides references and ``allOf``."""
    keywords = node.schema.keys() - {"$ref", "$dynamicRef", "$recursiveRef", "allOf"}
    return groups_of(node.scope.dialect, dict.fromkeys(keywords)) != 0


def conjuncts(node: Node) -> tuple[list[Node], list[Term], bool]:
    """All schema objects that hold whenever a node does: itself, what it refers to, its ``allOf``.

    Returns:
        The schema objects, other terms that hold, and whether an object refers to itself in this way, which adds no
        condition.
    """
    nodes: dict[Node, None] = {}
    others: list[Term] = []
    circular = False
    path: dict[Node, None] = {}  # nodes of which some terms are left,
    left: list[list[Term]] = [[node]]  # and these terms, in reverse; at first, the node itself
    while left:
        if not left[-1]:
            left.pop()
            if path:
                path.popitem()
            continue
        term = left[-1].pop()
        if not isinstance(term, Node):
            if term is not TRUE:
                others.append(term)
        elif term in path:
            circular = True
        elif term not in nodes:
            spend(1)
            nodes[term] = None
            path[term] = None
            left.append(_applied(term))
            left[-1].reverse()
    return list(nodes), others, circular


def _applied(node: Node) -> list[Term]:
    """What a node refers to, and its ``allOf``."""
    groups, schema, scope = node.groups, node.schema, node.scope
    terms: list[Term] = []
    if groups & (REFERENCE | DYNAMIC | BRANCH):
        with scope.document.at(node):
            if groups & REFERENCE:
                terms.append(scope.reference(schema["$ref"], schema))
            if groups & DYNAMIC:
                key = "$dynamicRef" if "$dynamicRef" in schema and scope.dialect != "2019-09" else "$recursiveRef"
                terms.append(scope.dynamic(schema[key], schema))
            if "allOf" in schema:
                terms += terms_of(node, "allOf")
    return terms
