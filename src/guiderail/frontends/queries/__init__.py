"""Queries of a given database or service: grammars with the names of a schema."""
