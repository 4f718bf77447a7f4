"""Names, and the prefixes under which a document writes them: all are declared at its root."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["VERSIONS", "XML", "XSD", "XSI", "Prefixes", "split_name"]

XML = "http://www.w3.org/XML/1998/namespace"
XSD = "http://www.w3.org/2001/XMLSchema"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
VERSIONS = "http://www.w3.org/2007/XMLSchema-versioning"


def split_name(name: str) -> tuple[str, str]:
    """Namespace (empty: none) and local part of ``{namespace}local``."""
    if name.startswith("{"):
        namespace, _, local = name[1:].partition("}")
        return namespace, local
    return "", name


class Prefixes:
    """Prefixes of the namespaces of a document.

    The namespace of the root is the default one, unless elements of no namespace may occur below it.
    """

    def __init__(
        self,
        root: str,
        elements: Iterable[str],
        attributes: Iterable[str],
        values: Iterable[str],
        preferred: Iterable[tuple[str, str]],
    ) -> None:
        """Arguments are namespaces: of the root, of elements, of attributes, of values that are names; and pairs
        ``(prefix, namespace)`` that the schema itself uses."""
        elements, attributes, values = set(elements), set(attributes) - {""}, set(values)
        self.default = root if "" not in elements | values else ""
        wanted = (elements | attributes | values) - {"", XML}
        if self.default not in attributes:
            wanted.discard(self.default)
        wish: dict[str, str] = {XSI: "xsi"}
        for prefix, namespace in preferred:
            if prefix and prefix not in ("xml", "xsi") and namespace not in wish:
                wish[namespace] = prefix
        self._of: dict[str, str] = {XML: "xml"}
        taken = {"xml", "xsi"}
        number = 0
        for namespace in sorted(wanted, key=lambda n: (n == XSI, n)):
            prefix = wish.get(namespace, "")
            while not prefix or (prefix in taken and namespace != XSI):
                number += 1
                prefix = f"ns{number}"
            self._of[namespace] = prefix
            taken.add(prefix)

    def declarations(self) -> list[tuple[str, str]]:
        """Attribute names and values that the root has: ``("xmlns:a", "urn:a")``."""
        found = [("xmlns", self.default)] if self.default else []
        return found + [(f"xmlns:{prefix}", name) for name, prefix in self._of.items() if name != XML]

    def declared(self) -> list[str]:
        """The prefixes that a value may use."""
        return list(self._of.values())

    def element(self, name: str) -> str:
        """The tag of an element ``{namespace}local``."""
        return self.qname(*split_name(name))

    def attribute(self, name: str) -> str:
        """The name of an attribute; the default namespace is not for attributes."""
        namespace, local = split_name(name)
        return f"{self._of[namespace]}:{local}" if namespace else local

    def qname(self, namespace: str, local: str) -> str:
        """A value that is a name."""
        if namespace == self.default:
            return local
        return f"{self._of[namespace]}:{local}"
