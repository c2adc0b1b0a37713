"""Arrays below, tables above: algorithms know nothing of Spark, and serving loads neither Spark nor torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "xmcspark"
MODULES = sorted(PACKAGE.rglob("*.py"))


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def _may_use_spark(path: Path) -> bool:
    return path.name.endswith("_spark.py") or path.parent.name == "store"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if not _may_use_spark(p)], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_only_stages_and_the_store_know_spark(path):
    used = _imports(path)
    assert not any(name.split(".")[0] in ("pyspark", "py4j") for name in used)
    assert not any(name.endswith("_spark") for name in used)


def test_the_library_and_serving_load_neither_spark_nor_torch():
    code = "import xmcspark, xmcspark.serving.predictor, xmcspark.config.skeleton, sys; " + (
        "print([m for m in ('pyspark', 'torch', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
