"""Regular expressions of two dialects, Python's ``re`` and ECMA-262, as constraints.

The way of a pattern: ``python_dialect`` / ``ecma_dialect`` (on the common ``parser``) make a tree
(``syntax``); ``lower`` turns it into an expression of the core, after ``atomic``, ``resolve`` and
``eliminate`` have rewritten what the core has no node for; ``charsets`` knows the sets of characters,
``facts`` what can be said of a node without running it.
"""

from guiderail.frontends.regex.constraint import Regex, regex

__all__ = ["Regex", "regex"]
