"""Grammars: Lark, GBNF, EBNF and production rules, read into one form and lowered by one pipeline."""
