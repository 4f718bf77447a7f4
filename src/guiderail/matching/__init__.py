"""A constraint over a vocabulary: guides, matchers, bitmasks, the closed form."""
