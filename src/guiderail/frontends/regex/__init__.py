"""Regular expressions in two dialects, Python's ``re`` and ECMA-262, as constraints.

``python_dialect`` and ``ecma_dialect`` (both on ``parser``) parse a pattern into a tree (``syntax``). ``atomic``,
``resolve`` and ``eliminate`` rewrite what the core has no node for, and ``lower`` turns the tree into an expression of
the core. ``charsets`` has the character sets, ``facts`` the properties of a node that need no matching.
"""

from guiderail.frontends.regex.constraint import Regex, regex

__all__ = ["Regex", "regex"]
