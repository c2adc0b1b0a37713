"""Corpora: reading, generating."""
