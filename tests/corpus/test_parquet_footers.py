"""What Parquet footers tell without Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xmcspark.corpus.parquet_footers import read_footers

INT = pa.int32()


def write(path, *groups, kind=INT):
    with pq.ParquetWriter(path, pa.schema([("id", kind)])) as writer:
        for group in groups:
            writer.write_table(pa.table({"id": pa.array(group, kind)}))
    return str(path)


@pytest.mark.parametrize(
    ("groups", "dense"),
    [([[2, 0], [1]], True), ([[1, 2]], False), ([[0, 3]], False), ([[0, 1, None]], False)],
)
def test_numbers_from_0_on_are_dense(tmp_path, groups, dense):
    assert read_footers([write(tmp_path / "a.parquet", *groups)]).is_dense("id") is dense


def test_files_count_together(tmp_path):
    footers = read_footers([write(tmp_path / "a", [0, 3]), write(tmp_path / "b", [1], [2])])
    assert footers.is_dense("id")
    assert footers.row_groups == 3


def test_texts_and_columns_that_are_not_there_have_no_bounds(tmp_path):
    footers = read_footers([write(tmp_path / "a", ["0", "1"], kind=pa.string())])
    assert footers.is_dense("id") is None
    assert footers.is_dense("other") is None


def test_only_plain_types_are_told(tmp_path):
    table = pa.table(
        {
            "id": pa.array(["a"], pa.large_string()),
            "labels": pa.array([[1]], pa.large_list(pa.int64())),
            "odd": pa.array([[[1]]]),
            "unsigned": pa.array([1], pa.uint64()),
        }
    )
    pq.write_table(table, tmp_path / "a")
    told = read_footers([str(tmp_path / "a")]).columns
    assert told == {"id": "string", "labels": "array<bigint>", "odd": None, "unsigned": None}


def test_a_damaged_file_is_left_to_spark(tmp_path):
    whole = write(tmp_path / "a", [0])
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes()[:20])
    assert read_footers([whole, str(tmp_path / "b")]) is None
    assert read_footers([]) is None
