"""MACH (paper 2): labels hashed into buckets, a small classifier for each hash, labels recovered from the sketch."""
