"""The ground floor: texts, nesting, counted work, caches. It does not know constraints."""
