"""Compiled kernels, built from `native/`. Internal: they trust their arguments."""
