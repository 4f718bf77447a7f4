"""Queries of a given database or service: grammars whose names are those of a schema."""
