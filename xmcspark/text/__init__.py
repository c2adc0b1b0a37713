"""Hybrid TF-IDF: from texts to sparse rows."""

from xmcspark.text.settings import Vectorizer
from xmcspark.text.tfidf import Tfidf

__all__ = ["Tfidf", "Vectorizer"]
