"""Sets of strings and of numbers, closed under and, or, not: what a schema says about scalars."""
