"""The ground floor: texts, nesting, counted work, caches. It knows nothing of constraints."""
