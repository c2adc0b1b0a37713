"""Extreme multi-label classification: from text and clicks to ranked labels."""
