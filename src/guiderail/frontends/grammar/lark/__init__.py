"""Grammars in Lark's notation, with the meaning of its LALR parser with a contextual lexer.

``quick`` reads grammars of the usual form, the ``lark`` package all others (``by_lark``). The results are the same, and
the tests compare them. ``quick`` takes a third of the time (SQL: 15 ms instead of 45), and importing the package takes
another 55 ms. But ``quick`` reads no imports, no overrides, nothing that llguidance adds, and no faulty grammar. Then
``reader`` makes lexemes from terminals.
"""

from guiderail.frontends.grammar.lark.reader import Reading
from guiderail.frontends.grammar.lark.reading import read

__all__ = ["Reading", "read"]
