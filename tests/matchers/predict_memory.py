"""Predicts a number of blocks of rows as a task does, in a process of its own, and prints the peak of its memory:
`python predict_memory.py FOLDER MODE BLOCKS`. MODE `save` makes the model."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from random_model import random_model
from small_problem import even_tree

from xmcspark.matchers import routed_spark
from xmcspark.matchers.members import MemberSettings
from xmcspark.matchers.model_spark import SentModel
from xmcspark.matchers.predict_spark import predicted
from xmcspark.matchers.scoring import Scoring
from xmcspark.store.placement import partition_keys
from xmcspark.store.side_files import SideFolder
from xmcspark.text.feature_table import FeatureSpace

FEATURES, ROWS, ROW_FEATURES, LEAVES = 2000, 4096, 40, 50


def blocks(count: int) -> Iterator[pa.RecordBatch]:
    """Batches of rows, each made when it is asked for: about 1.3 MB."""
    rng = np.random.default_rng(0)
    for block in range(count):
        starts = rng.integers(0, FEATURES // ROW_FEATURES, (ROWS, ROW_FEATURES))
        indices = (starts + np.arange(ROW_FEATURES) * (FEATURES // ROW_FEATURES)).astype(np.int32)
        offsets = pa.array(np.arange(0, ROWS * ROW_FEATURES + 1, ROW_FEATURES, dtype=np.int32))
        names = pa.array([f"test/{block}-{row}" for row in range(ROWS)])
        excluded = pa.ListArray.from_arrays(
            pa.array(np.arange(ROWS + 1, dtype=np.int32)),
            pa.array(rng.integers(0, 500, ROWS).astype(np.int32)),
        )
        columns = {
            "id": names,
            "split": names,
            "row": names,
            "row_key": pa.array(rng.integers(-(2**60), 2**60, ROWS)),
            "indices": pa.ListArray.from_arrays(offsets, pa.array(indices.ravel())),
            "values": pa.ListArray.from_arrays(
                offsets, pa.array(rng.random(indices.size).astype(np.float32))
            ),
            "excluded": excluded,
        }
        yield pa.RecordBatch.from_pydict(columns)


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def main(folder: str, mode: str, count: int) -> None:
    if mode == "save":
        random_model(even_tree(500, (LEAVES,)), FEATURES).searcher.save(Path(folder) / "0")
        return
    model = SentModel(SideFolder(folder, "", ()), "1", MemberSettings(1, "average", Scoring()), 5, 5, 1)
    if mode == "replicated":
        found = predicted(blocks(count), model, FeatureSpace(FEATURES))
    else:
        shards = routed_spark.Shards((0, LEAVES), tuple(partition_keys(4)), tuple(partition_keys(3)))
        packed = routed_spark._route(blocks(count), model, FeatureSpace(FEATURES), shards)
        found = routed_spark._score(packed, model, FeatureSpace(FEATURES), shards)
    assert sum(batch.num_rows for batch in found) > 0
    print(peak_bytes())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
