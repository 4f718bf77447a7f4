"""Documents, the resources in them, dialects, and references from one schema to another."""
