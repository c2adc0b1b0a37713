"""Hybrid TF-IDF."""
