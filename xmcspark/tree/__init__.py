"""Hierarchical label trees."""
