"""A constraint over a vocabulary: guides, matchers, bitmasks, and the token automaton."""
