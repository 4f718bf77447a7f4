"""Kernels for accelerators; each module imports its library at once, so import them only where they are
used.
"""
