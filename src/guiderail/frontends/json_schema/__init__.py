"""JSON Schema as a constraint: every keyword, exactly."""
