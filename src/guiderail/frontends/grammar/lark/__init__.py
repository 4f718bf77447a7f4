"""Grammars in Lark's notation, as its LALR parser with a contextual lexer means them.

What is of the usual form is read by ``quick``, all else by the ``lark`` package (``by_lark``): the same comes out. From
there on ``reader`` makes lexemes of terminals.
"""

from guiderail.frontends.grammar.lark.reader import Reading, read, read_lark

__all__ = ["Reading", "read", "read_lark"]
