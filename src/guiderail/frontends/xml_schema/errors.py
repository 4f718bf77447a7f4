"""Errors about an XML Schema, with their location in it."""

from __future__ import annotations

from guiderail.errors import CompileError, GuiderailError, LimitError

__all__ = ["XmlReadError", "XmlSchemaError", "XmlSchemaLimitError", "at_path"]


class _InSchema(GuiderailError):
    """An error with the component of an XML Schema that is at fault."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        path: str | None = None,
        source: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, code=code, source=source, span=span, place=path)
        self.path = path


class XmlSchemaError(_InSchema, CompileError):
    """An XML Schema cannot be read or enforced.

    Attributes:
        path: the component of the schema at fault, as a path of names (``/purchaseOrder/items/item/@partNum``), or
            None. If the document that declares it is known, ``source`` is its text and ``span`` the tag.
    """

    code = "xml-schema"


class XmlSchemaLimitError(_InSchema, LimitError):
    """The exact meaning of an XML Schema would be larger than a limit allows.

    Attributes:
        path: the component of the schema at fault, as a path of names, or None.
    """

    code = "xml-orders"


def at_path(error: LimitError, path: str) -> LimitError:
    """The error with the component of the schema that was being read, unless it has one."""
    if isinstance(error, XmlSchemaLimitError) or error.source is not None:
        return error
    return XmlSchemaLimitError(error.message, code=error.code, path=path)


class XmlReadError(GuiderailError, ValueError):
    """A document is not XML, or is not valid against the schema.

    Attributes:
        path: the element at fault in the document, or None.
    """

    code = "xml-read"

    def __init__(self, message: str, *, code: str | None = None, path: str | None = None) -> None:
        super().__init__(message, code=code, place=path)
        self.path = path
