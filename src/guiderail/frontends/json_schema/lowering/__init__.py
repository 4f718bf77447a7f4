"""From the normal form to expressions of the core, in a notation."""
