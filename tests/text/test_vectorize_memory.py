"""What a task of vectorize holds in memory follows its vocabulary, not its rows."""

import subprocess
import sys

import pytest

# Counts, or transforms, `rows` texts of a bounded vocabulary as a Spark task would, and prints its peak in MiB.
TASK = """
import resource, sys
import numpy as np, pyarrow as pa
from xmcspark.text import Tfidf, features_spark, vocabulary_spark
from xmcspark.text.counts import gram_counts
from xmcspark.text.gram_runs import gram_ranges
from xmcspark.text.settings import TfidfSettings
what, rows, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
vocabulary_spark.MOST_GRAMS = 100_000
words = pa.array([f"word{i}" for i in range(3000)])
settings = TfidfSettings()

def batches():
    random = np.random.default_rng(0)
    for _ in range(rows // 1024):
        drawn = [words.take(pa.array(random.integers(0, 3000, 1024))) for _ in range(6)]
        lists = pa.array([[1, 2]] * 1024, pa.list_(pa.int32()))
        columns = [pa.array(["id"] * 1024), pa.array(["train"] * 1024), joined(drawn), lists, lists]
        columns += [pa.nulls(1024, kind) for kind in (lists.type, pa.string(), pa.float32())]
        yield pa.record_batch(
            [*columns, pa.array(np.arange(1024)), pa.array(np.arange(1024))],
            names=[
                "id", "split", "text", "labels", "relevance", "targets", "partner_text", "mix", "row_hash", "row_key"
            ],
        )

def joined(parts):
    import pyarrow.compute as pc
    return pc.binary_join_element_wise(*parts, " ")

texts = lambda: (batch.select(["text"]) for batch in batches())
if what == "transform":
    model = Tfidf().fit(next(batches()).column("text"))
    model.save(folder)
    place = features_spark.SideFolder(folder, "", ())
    out = features_spark.transforming(place, "v", 1)(batches())
else:
    ranges = gram_ranges(gram_counts(next(batches()).column("text"), settings), 2, 3)
    keys = list(range(len(ranges)))
    out = vocabulary_spark._counting(settings, ranges, keys, 1)(texts())
    if what == "merge":
        out = vocabulary_spark._merging(settings, ranges, rows)(out)
for batch in out:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def peak(what, rows, tmp_path):
    command = [sys.executable, "-c", TASK, what, str(rows), str(tmp_path / "model")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


@pytest.mark.parametrize("what", ["count", "transform"])
def test_peak_memory_is_flat_when_rows_grow_fourfold(what, tmp_path):
    few, many = (peak(what, rows, tmp_path) for rows in (40 * 1024, 160 * 1024))
    # The million grams of 160k texts are 100 MiB, which would show; the allocator may keep some of what was freed.
    assert many - few <= 50
