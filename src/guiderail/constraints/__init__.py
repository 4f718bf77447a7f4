"""What composes: immutable constraints, the programs they lower themselves into, and how their texts are read."""
