"""Label features."""
