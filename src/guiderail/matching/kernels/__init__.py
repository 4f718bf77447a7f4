"""Kernels for accelerators. Each module imports its library at once, so import them only when needed."""
