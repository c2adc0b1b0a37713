"""The tables tree_nodes and tree_labels, written by tasks from the trees' arrays: a range of nodes or labels each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.sparse.arrow import lists_of_csr
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.packing import unpacked
from xmcspark.store.arrays import load_arrays, save_arrays
from xmcspark.store.side_files import SideFolder
from xmcspark.store.tables import TABLES
from xmcspark.tree.build_spark import CENTRES
from xmcspark.tree.paths import LabelPaths
from xmcspark.tree.readable import level_table, position_table

_KIND = "node columns"
_CHUNK_LABELS = 1 << 16  # in one task's piece of tree_labels
_LEVELS = "paths"  # folder of a member's LabelPaths beside its columns


def save_columns(
    folder: Path,
    paths: LabelPaths,
    n_rows: np.ndarray,
    nnz: np.ndarray,
    hashes: np.ndarray,
    units: np.ndarray,
) -> None:
    """What the tables say of each node beyond its place in the tree, for tasks to open."""
    columns = {"n_rows": n_rows, "nnz": nnz, "input_hash": hashes, "sub_tree": units}
    save_arrays(folder, _KIND, 1, {}, columns)
    paths.save(folder / _LEVELS)


def tree_nodes(built: DataFrame, columns: SideFolder, features: int) -> DataFrame:
    """tree_nodes from the centres that tasks built (`xmcspark.tree.build_spark`). `columns` holds member m's
    `save_columns` in folder m."""
    rows = built.where(F.col("kind") == CENTRES).select("member", "payload")
    return rows.mapInArrow(partial(_nodes, columns, features), _schema("tree_nodes"))


def tree_labels(spark: SparkSession, labels: int, members: int, columns: SideFolder, tasks: int) -> DataFrame:
    """tree_labels of trees over so many labels."""
    chunks = -(-labels // _CHUNK_LABELS)
    pieces = spark.range(0, members * chunks, 1, max(1, min(tasks, members * chunks)))
    return pieces.mapInArrow(partial(_labels, columns, labels, chunks), _schema("tree_labels"))


def _nodes(columns: SideFolder, features: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for member, payload in zip(batch.column(0), batch.column(1), strict=True):
            where, indptr, indices, values = unpacked(payload.as_buffer())
            level, start = (int(number) for number in where)
            folder = columns.path() / str(member.as_py())
            paths, node = LabelPaths.load(folder / _LEVELS), load_arrays(folder, _KIND, 1)[1]
            count = len(indptr) - 1
            table = level_table(paths.child_ptr, level, start, start + count)
            here = slice(paths.starts[level] + start, paths.starts[level] + start + count)
            centres = lists_of_csr(Csr(indptr, indices, values, (count, features)))
            found = {name: table[name].combine_chunks() for name in table.column_names}
            found |= {name: pa.array(array[here]) for name, array in node.items()}
            found |= {"centre_indices": centres[0], "centre_values": centres[1]}
            yield _batch("tree_nodes", member.as_py(), count, found)


def _labels(
    columns: SideFolder, labels: int, chunks: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for piece in batch.column(0).to_pylist():
            member, chunk = divmod(piece, chunks)
            start, stop = chunk * _CHUNK_LABELS, min((chunk + 1) * _CHUNK_LABELS, labels)
            folder = columns.path() / str(member)
            paths, node = LabelPaths.load(folder / _LEVELS), load_arrays(folder, _KIND, 1)[1]
            table = position_table(paths.child_ptr, paths.labels, start, stop)
            found = {name: table[name].combine_chunks() for name in table.column_names}
            found["sub_tree"] = pa.array(node["sub_tree"][found["node"].to_numpy()])
            yield _batch("tree_labels", member, stop - start, found)


def _batch(table: str, member: int, rows: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    columns["member"] = pa.array(np.full(rows, member, np.int32))
    names = TABLES[table].names
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names)


def _schema(table: str) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in TABLES[table].columns)
