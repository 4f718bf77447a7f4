"""Adapters for libraries that run models themselves. Each is imported only when you use it."""
