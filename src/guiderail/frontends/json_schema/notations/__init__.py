"""Other notations of the same values: one lowering each, over the same normal form (after Koo, Liu & He 2024,
§5.1–5.2).

A notation other than JSON is a subclass of ``Lowering``. Shapes, recursion, and counting of items and members are the
same; only the punctuation around them differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guiderail import _core
    from guiderail.frontends.json_schema.documents.references import Document
    from guiderail.frontends.json_schema.lowering.lower import Lowering

__all__ = ["lowering_of"]


def lowering_of(builder: _core.Builder, document: Document) -> Lowering:
    """The lowering for the notation that the options of a document name, ``"yaml"`` or ``"python"``.

    Raises:
        CompileError: an option has no meaning in this notation.
    """
    if document.options.notation == "yaml":
        from guiderail.frontends.json_schema.notations.yaml import YamlLowering

        return YamlLowering(builder, document)
    from guiderail.frontends.json_schema.notations.python import PythonLowering

    return PythonLowering(builder, document)
