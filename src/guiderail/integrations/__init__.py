"""Bridges to libraries that run models themselves. Each is imported only when asked for."""
