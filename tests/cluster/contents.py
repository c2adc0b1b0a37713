"""What a run holds, in a form that two runs can be compared by: every table by its rows, every file of the bundle by
its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from xmcspark.store.digest import table_digest
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runs import Run
from xmcspark.store.stage import read_table
from xmcspark.store.tables import TABLES

MEASURED = ("sub_tree_load",)  # holds seconds, which no two runs share


def contents(spark: Any, root: Path, run: str = "night") -> dict[str, str]:
    """Digests of a run's tables and files, by name."""
    opened = Run(Filesystem(spark), str(root), run)
    found = {
        f"table {name}": str(table_digest(read_table(spark, opened, name)))
        for name in sorted(TABLES)
        if name not in MEASURED and (root / run / "tables" / name).is_dir()
    }
    bundle = root / run / "bundle"
    for path in sorted(bundle.rglob("*")):
        if path.is_file() and not path.name.endswith(".crc"):
            found[f"file {path.relative_to(bundle)}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(found) > 10
    return found
