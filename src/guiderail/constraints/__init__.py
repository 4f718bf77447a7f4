"""What composes: immutable constraints, the programs they lower themselves into, what they say of texts."""
