"""Imported first by tests that cannot be read without torch: they are then skipped, and say why."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: ./spark-submit.sh setup --extras test,neural")
pytest.importorskip(
    "transformers", reason="transformers is not installed: ./spark-submit.sh setup --extras test,neural"
)
