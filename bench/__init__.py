"""Comparison with the peers: each system in its own environment and process, on the same data and threads."""
