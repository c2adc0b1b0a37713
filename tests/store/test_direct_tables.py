"""Tables of lists are the same whether tasks write their files or Spark does, and however they are read."""

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from xmcspark.config.configuration import load
from xmcspark.store.digest import table_digest
from xmcspark.store.direct_tables import rows_of_table
from xmcspark.store.direct_writing import Measure, empty_rows_of, entries_of, write_mapped
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runs import Run
from xmcspark.store.stage import Context, Stage, read_table
from xmcspark.store.tables import TABLES

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test

STAGE = Stage("vectorize", 1, (), (), ("features", "label_features"), lambda context: None)
NAMES = TABLES["features"].names


def _made(batches):
    """Rows of features from numbers."""
    for batch in batches:
        numbers = batch.column(0).to_pylist()
        rows = {
            "id": [str(n) for n in numbers],
            "split": ["test" if n % 5 == 0 else "train" for n in numbers],
            "indices": [list(range(n % 4)) for n in numbers],
            "values": [[0.5 * n] * (n % 4) for n in numbers],
            "labels": [[n] for n in numbers],
            "targets": [None if n % 3 else [0.5] for n in numbers],
            "relevance": [[1.0] for n in numbers],
            "row_key": numbers,
            "row_hash": numbers,
        }
        lists = {
            "indices": pa.int32(),
            "values": pa.float32(),
            "labels": pa.int32(),
            "targets": pa.float32(),
            "relevance": pa.float32(),
        }
        columns = [
            pa.array(
                rows[n],
                pa.list_(lists[n]) if n in lists else pa.int64() if n.startswith("row") else pa.string(),
            )
            for n in NAMES
        ]
        yield pa.RecordBatch.from_arrays(columns, names=NAMES)


def _counted(batches):
    for batch in batches:
        total = pc.sum(batch.column("row_key")).as_py() or 0
        yield pa.RecordBatch.from_pydict({"rows": pa.array([batch.num_rows]), "total": pa.array([total])})


MEASURES = {
    "entries": entries_of("indices"),
    "empty": empty_rows_of("indices"),
    "largest": Measure("max(row_key)", lambda batch: pc.max(batch.column("row_key")).as_py(), largest=True),
}


@pytest.fixture(params=["file", "viewfs"])
def context(request, spark, tmp_path):
    root = str(tmp_path)
    if request.param == "viewfs":
        hadoop = spark._jsc.hadoopConfiguration()
        hadoop.set("fs.viewfs.mounttable.tables.link./data", f"file://{tmp_path}")
        hadoop.setBoolean("fs.viewfs.impl.disable.cache", True)
        root = "viewfs://tables/data"
    return Context(spark, load(None, []), Run(Filesystem(spark), root, "r"), STAGE)


def _write(context, partitions=3):
    return write_mapped(context, "features", context.spark.range(0, 100, 1, partitions), _made, MEASURES)


def test_what_is_written_is_what_was_made(context):
    rows, found = _write(context)
    assert rows == 100
    assert found == {"entries": 150, "empty": 25, "largest": 99}
    table = read_table(context.spark, context.run, "features")
    assert table.count() == 100
    assert table.where("split = 'test'").count() == 20
    assert table.where("id = '7'").first().indices == [0, 1, 2]


def test_one_split_is_read_without_the_other(context):
    _write(context)
    found = rows_of_table(context, "features", "train").map(
        ("row_key",), _counted, "rows bigint, total bigint"
    )
    parts = found.collect()
    assert (sum(p.rows for p in parts), sum(p.total for p in parts)) == (
        80,
        sum(n for n in range(100) if n % 5),
    )


def test_all_rows_can_be_had_in_one_task(context):
    _write(context, partitions=4)
    rows = rows_of_table(context, "features")
    assert (
        rows.map(
            ("row_key", "split"), _counted, "rows bigint, total bigint", together=True
        ).rdd.getNumPartitions()
        == 1
    )


def test_files_of_an_attempt_that_failed_are_not_part_of_the_table(spark, tmp_path):
    context = Context(spark, load(None, []), Run(Filesystem(spark), str(tmp_path), "r"), STAGE)
    _write(context)
    before = table_digest(read_table(spark, context.run, "features"))

    def fails(batches):
        for number, batch in enumerate(_made(batches)):
            yield batch
            if batch.column("row_key")[0].as_py() == 0:
                raise ValueError(number)

    with pytest.raises(Exception, match="ValueError"):
        write_mapped(context, "features", spark.range(0, 100, 1, 3), fails)
    folder = tmp_path / "r" / "tables" / "features"
    assert not [path for path in folder.rglob("*.parquet") if "_writing" not in str(path)]
    _write(context, partitions=7)
    assert table_digest(read_table(spark, context.run, "features")) == before
    assert not list(folder.glob("_writing-*"))


def test_the_table_does_not_depend_on_who_writes_it(spark, tmp_path):
    digests = set()
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.both.link./data", f"file://{tmp_path}")
    for number, root in enumerate((str(tmp_path / "a"), "viewfs://both/data/b")):
        context = Context(spark, load(None, []), Run(Filesystem(spark), root, "r"), STAGE)
        _write(context, partitions=2 + number)
        digests.add(table_digest(read_table(spark, context.run, "features")))
    assert len(digests) == 1
