"""Serving: the bundle a published run consists of, and predictions from it."""
