"""The model folder, `bundle/model/<member>`, from the table matchers: tasks pack units, the driver puts the parts
together in order, and holds one of them at a time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.matchers.packed_model import NAMES, ModelFiles, in_leaf_order, packed_unit
from xmcspark.matchers.schedule import in_runs
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.wave_spark import Forest
from xmcspark.sparse.arrow import csr_of_lists
from xmcspark.store.direct_tables import ArrowFunction
from xmcspark.store.filesystem import joined
from xmcspark.store.placement import partition_keys
from xmcspark.store.progress import tell
from xmcspark.store.small_frames import small_frame
from xmcspark.store.stage import Context, read_table
from xmcspark.tree.units import Unit

_WEIGHTS_PER_TASK = 8 << 20
_PART_BYTES = 4 << 20
_PARTS = "level int, name int, last boolean, data binary"
_PARTS_ARROW = pa.schema(
    [("level", pa.int32()), ("name", pa.int32()), ("last", pa.bool_()), ("data", pa.binary())]
)
_ROWS_PER_BATCH = 4096
_COLUMNS = ("place", "node", "child", "bias", "features", "weights")


def write_model(
    context: Context, forest: Forest, units: list[list[Unit]], weights: dict[tuple[int, int], int]
) -> None:
    """Packs every member from the rows of table matchers. `weights`: of each unit of each member."""
    uri = context.folder("bundle/model")
    context.fs.delete(uri)
    for member, of_member in enumerate(units):
        tell("train", f"packing member {member + 1} of {len(units)}")
        context.spark.sparkContext.setJobGroup("train pack", f"train: pack member {member}")
        with tempfile.TemporaryDirectory(prefix="xmcspark-model-") as scratch:
            _write_member(
                context, forest, member, of_member, weights, Path(scratch), joined(uri, str(member))
            )


def _write_member(
    context: Context,
    forest: Forest,
    member: int,
    units: list[Unit],
    weights: dict[tuple[int, int], int],
    scratch: Path,
    uri: str,
) -> None:
    tree = forest.tree(member)
    ordered = in_leaf_order(tree, units)
    runs = in_runs(
        [weights.get((member, unit.unit), 0) + unit.matchers for unit in ordered], _WEIGHTS_PER_TASK
    )
    packed = _packed(context, member, ordered, runs, partial(_pack, forest, member, ordered))
    files = ModelFiles(scratch / "parts", tree)
    for level, name, last, data in _streamed(context, packed, context.scratch(f"packed-{member}"), scratch):
        files.append(level, NAMES[name], data, last)
    scoring = Scoring.for_loss(forest.settings[member].loss)
    local = context.fs.local_path(uri)
    folder = Path(local) if local is not None else scratch / "model"
    files.finish(folder, forest.features, scoring)
    if local is None:
        context.fs.upload(folder, uri)
        shutil.rmtree(folder)


def _packed(
    context: Context, member: int, units: list[Unit], runs: list[int], pack: ArrowFunction
) -> DataFrame:
    """`pack` over the rows of the units of each run, in order of units, a task for each run."""
    spark, tasks = context.spark, runs[-1] + 1
    if folder := context.fs.local_path(context.run.table("matchers")):
        read = partial(_read_units, folder, member, [unit.unit for unit in units], runs, pack)
        return spark.range(0, tasks, 1, tasks).mapInArrow(read, _PARTS)
    keys = partition_keys(tasks)
    places = [
        (unit.unit, keys[run], place) for place, (unit, run) in enumerate(zip(units, runs, strict=True))
    ]
    where = F.broadcast(small_frame(spark, places, "sub_tree int, task int, place int"))
    rows = read_table(spark, context.run, "matchers").where(F.col("member") == member)
    placed = rows.join(where, "sub_tree").repartition(tasks, F.col("task")).sortWithinPartitions("place")
    return placed.select(*_COLUMNS).mapInArrow(pack, _PARTS)


def _read_units(
    folder: str,
    member: int,
    units: list[int],
    runs: list[int],
    pack: ArrowFunction,
    tasks: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What Spark would bring together, read by the task itself where it sees the files."""
    for number in (number for batch in tasks for number in batch.column(0).to_pylist()):
        place_of = {
            unit: place for place, (unit, run) in enumerate(zip(units, runs, strict=True)) if run == number
        }
        wanted = (ds.field("member") == member) & ds.field("sub_tree").isin(list(place_of))
        rows = ds.dataset(folder, format="parquet").to_table([*_COLUMNS[1:], "sub_tree"], filter=wanted)
        place = pa.array([place_of[unit] for unit in rows["sub_tree"].to_pylist()], pa.int32())
        rows = rows.append_column("place", place).select(_COLUMNS)
        order = np.argsort(place.to_numpy(), kind="stable")
        yield from pack(iter(rows.take(pa.array(order)).to_batches(max_chunksize=_ROWS_PER_BATCH)))


def _streamed(
    context: Context, parts: DataFrame, uri: str, scratch: Path
) -> Iterator[tuple[int, int, bool, bytes]]:
    """Rows of `parts` in the order of partitions, through files: `toLocalIterator` would pickle every byte, and run one
    task after the other."""
    # Nothing repeats in what is packed: looking for it would cost more than it saves.
    plain = {"compression": "uncompressed", "parquet.enable.dictionary": "false"}
    parts.write.mode("overwrite").options(**plain).parquet(uri)
    for entry in sorted(context.fs.walk(uri), key=lambda entry: entry.name):
        local = context.fs.local_path(entry.uri)
        path = Path(local) if local is not None else scratch / entry.name
        if local is None:
            context.fs.download(entry.uri, path)
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(batch_size=4):
                yield from zip(*(batch.column(f.name).to_pylist() for f in _PARTS_ARROW), strict=True)
        if local is None:
            path.unlink()
    context.fs.delete(uri)


def _pack(
    forest: Forest, member: int, units: list[Unit], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    tree = forest.tree(member)
    for place, table in _by_place(batches):
        W = csr_of_lists(table["features"], table["weights"], forest.features, "matchers")
        nodes, children, bias = (table[name].to_numpy() for name in ("node", "child", "bias"))
        for level, part in packed_unit(tree, units[place], nodes, children, bias, W):
            arrays = [part.slot_ptr[1:], part.entry_ptr[1:], part.slots, part.entries, part.bias]
            for name, array in enumerate(arrays):
                yield from _parts(level, name, np.ascontiguousarray(array))


def _parts(level: int, name: int, array: np.ndarray) -> Iterator[pa.RecordBatch]:
    data = array.reshape(-1).view(np.uint8)
    for first in range(0, max(1, len(data)), _PART_BYTES):
        part = data[first : first + _PART_BYTES]
        columns = [[level], [name], [first + _PART_BYTES >= len(data)], [part.tobytes()]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, _PARTS_ARROW, strict=True)], schema=_PARTS_ARROW
        )


def _by_place(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """(place, its rows) one after the other, from batches in order of place."""
    now: int | None = None
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        places = batch.column("place").to_numpy()
        bounds = np.flatnonzero(np.diff(places, prepend=places[:1] - 1))
        for first, last in zip(bounds, [*bounds[1:], len(places)], strict=True):
            if places[first] != now:
                if now is not None:
                    yield now, pa.Table.from_batches(held)
                now, held = int(places[first]), []
            held.append(batch.slice(first, last - first))
    if now is not None:
        yield now, pa.Table.from_batches(held)
