"""Grammars in Lark's notation, as its LALR parser with a contextual lexer means them.

What is of the usual form is read by ``quick``, all else by the ``lark`` package (``by_lark``): the same comes out, and
the tests hold the two against each other. ``quick`` takes a third of the time (SQL: 15 ms and not 45), and importing
the package another 55 ms; but it takes no imports, no overrides, nothing that llguidance adds, and no faulty grammar.
From there on ``reader`` makes lexemes of terminals.
"""

from guiderail.frontends.grammar.lark.reader import Reading
from guiderail.frontends.grammar.lark.reading import read

__all__ = ["Reading", "read"]
