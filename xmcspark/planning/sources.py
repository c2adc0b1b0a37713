"""Where the statistics of a corpus come from: what the stages of a run noted, or the footers of the Parquet files that
it would read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from xmcspark.config.command_line import is_uri
from xmcspark.config.configuration import Config
from xmcspark.corpus.parquet_footers import Footers, read_footers
from xmcspark.planning.run_folder import RunFolder
from xmcspark.planning.statistics import Fact

# Statistic, by the stage that notes it: the name of the note.
_NOTED = {
    "corpus": {
        "instances": "train_instances",
        "labels": "labels_active",
        "pairs": "train_pairs",
        "test_instances": "test_instances",
        "most_positives": "most_positives",
    },
    "vectorize": {"features": "features"},
    "index": {"label_entries": "label_feature_entries"},
}
_TEXT_OVERHEAD = 5.0  # bytes of a text in a Parquet file beside its own


def of_run(run: RunFolder, stages: Iterable[str] = ("corpus", "vectorize", "index")) -> dict[str, Fact]:
    """What the finished ones among these stages tell; the corpus must be finished."""
    run.need("corpus")
    facts = {}
    for stage in stages:
        for statistic, note in _NOTED[stage].items():
            value = run.notes(stage).get(note)
            if value is not None:
                facts[statistic] = Fact(float(value), f"{stage} of run {run.name}")
    if "vectorize" in stages and (entries := run.notes("vectorize").get("nnz")) is not None:
        rows = facts["instances"].value + run.notes("corpus").get("test_instances", 0)
        facts["row_features"] = Fact(float(entries) / max(1, rows), f"vectorize of run {run.name}")
    days = run.notes("ingest").get("days") or {}
    facts["log_records"] = Fact(float(_records(days)), f"ingest of run {run.name}")
    texts = None if run.local is None else _footers(run.local / "tables" / "instances" / "split=train")
    if texts is not None:
        facts["characters"] = Fact(_characters(texts), f"table instances of run {run.name}")
        facts["row_groups"] = Fact(texts.row_groups, f"table instances of run {run.name}")
    return facts


def of_inputs(config: Config) -> dict[str, Fact]:
    """What the footers of input.train, test and labels tell; nothing of files that are not Parquet on this machine."""
    facts: dict[str, Fact] = {}
    if (train := _footers_of(config.input.train)) is not None:
        facts["instances"] = Fact(train.rows, "footers of input.train")
        facts["pairs"] = Fact(_values(train, "labels"), "footers of input.train")
        facts["characters"] = Fact(_characters(train), "footers of input.train")
        facts["row_groups"] = Fact(train.row_groups, "footers of input.train")
    if (test := _footers_of(config.input.test)) is not None:
        facts["test_instances"] = Fact(test.rows, "footers of input.test")
    if (labels := _footers_of(config.input.labels)) is not None:
        facts["labels"] = Fact(labels.rows, "footers of input.labels")
    return facts


def _records(days: Mapping[str, Any]) -> int:
    return sum(int(day.get("records", 0)) for day in days.values())


def _footers_of(path: str | None) -> Footers | None:
    return None if path is None or is_uri(path) else _footers(Path(path))


def _footers(path: Path) -> Footers | None:
    files = [str(path)] if path.is_file() else sorted(glob(f"{path}/**/*.parquet", recursive=True))
    return read_footers(files)


def _chunks(footers: Footers, column: str) -> Iterable[Any]:
    """The pieces of a column, or of the only one inside it."""
    for file in footers.metadata:
        for at in range(file.num_row_groups):
            group = file.row_group(at)
            for number in range(group.num_columns):
                chunk = group.column(number)
                if chunk.path_in_schema.split(".")[0] == column:
                    yield chunk


def _values(footers: Footers, column: str) -> int:
    """Elements of all lists of a column; where the footers count no nulls, an empty list counts as one."""
    return sum(
        chunk.num_values - ((chunk.statistics.null_count or 0) if chunk.statistics is not None else 0)
        for chunk in _chunks(footers, column)
    )


def _characters(footers: Footers) -> float:
    size: int = sum(chunk.total_uncompressed_size for chunk in _chunks(footers, "text"))
    return max(1.0, size / max(1, footers.rows) - _TEXT_OVERHEAD)
