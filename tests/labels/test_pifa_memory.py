"""What a task of PIFA holds in memory follows the labels and features of its block, not the instances."""

import subprocess
import sys

import pytest

# Sums the features of `groups` groups of instances as the tasks on both sides of the shuffle do, and prints its peak.
TASK = """
import resource, sys
from dataclasses import replace
import numpy as np, pyarrow as pa
from xmcspark.labels import packed_sums, pifa_spark
from xmcspark.text.feature_table import FeatureSpace
packed_sums._HELD_ENTRIES = packed_sums._HELD_ROWS = 1 << 18
plan = pifa_spark.PifaPlan(2.0**-20, FeatureSpace(5000), 200, None, None, 0, 1, 200, 1 << 12, store=sys.argv[2] or None)

def batches():
    random = np.random.default_rng(0)
    rows, width = 1 << 12, 30
    for _ in range(int(sys.argv[1])):
        offsets = pa.array(np.arange(0, rows * width + 1, width, dtype=np.int32))
        columns = np.sort(random.integers(0, 166, (rows, width)) + 166 * np.arange(width), axis=1).astype(np.int32)
        drawn = random.integers(0, 200, rows).astype(np.int32)
        labels = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), drawn)
        yield pa.record_batch(
            [pa.ListArray.from_arrays(offsets, columns.ravel()),
             pa.ListArray.from_arrays(offsets, np.ones(rows * width, np.float32)), labels,
             pa.nulls(rows, pa.list_(pa.float32())), pa.array(np.arange(rows))],
            names=["indices", "values", "labels", "targets", "row_key"])

ids = pa.record_batch([pa.array(np.arange(200, dtype=np.int32))], names=["id"])
def parts():
    yield from pifa_spark._wanted(plan, iter([ids]))
    yield from pifa_spark._parts(plan, batches())

assert sum(batch.num_rows for batch in pifa_spark._blocks(plan, parts())) == 200
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.parametrize("referred", [False, True])
def test_peak_memory_is_flat_when_instances_grow_fourfold(tmp_path, referred):
    folder = str(tmp_path) if referred else ""
    few, many = (
        int(
            subprocess.run(
                [sys.executable, "-c", TASK, groups, folder], capture_output=True, text=True, check=True
            ).stdout
        )
        for groups in ("16", "64")
    )
    # Sums that are not added up on the way take 140 MB more; the allocator may keep some of what was freed.
    assert many - few <= 60
