"""What a cluster gets that has no xmcspark of its own: one archive with the library, its kernels and what it needs."""
