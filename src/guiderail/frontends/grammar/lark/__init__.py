"""Grammars in Lark's notation: read by the ``lark`` package, as its LALR parser with a contextual lexer means them."""

from guiderail.frontends.grammar.lark.reader import Reading, read, read_lark

__all__ = ["Reading", "read", "read_lark"]
