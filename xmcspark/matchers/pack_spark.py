"""The model folder, `bundle/model/<member>`: units as training left them packed, or packed by tasks from the table
matchers where it did not; the driver puts the parts together in order, from file to file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.matchers.packed_model import in_leaf_order, packed_unit, save_packed
from xmcspark.matchers.packed_parts import NAMES, LevelPart, part_bytes, taken
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
from xmcspark.tree.units import Unit, node_starts

_WEIGHTS_PER_TASK = 8 << 20
_COPYING_THREADS = 4
_PART_BYTES = 4 << 20
_PARTS = "place int, level int, name int, data binary"
_PARTS_ARROW = pa.schema(
    [("place", pa.int32()), ("level", pa.int32()), ("name", pa.int32()), ("data", pa.binary())]
)
_ROWS_PER_BATCH = 4096
_COLUMNS = ("place", "node", "child", "bias", "features", "weights")


def write_model(
    context: Context,
    forest: Forest,
    units: list[list[Unit]],
    weights: dict[tuple[int, int], int],
    parts: dict[tuple[int, int], list[LevelPart]],
) -> None:
    """Every member. `weights`: of each unit of each member; `parts`: those units that lie packed already, the rest
    comes from the table matchers."""
    uri = context.folder("bundle/model")
    delete_trees(context)
    parts = taken(parts)
    for member, of_member in enumerate(units):
        tell("train", f"packing member {member + 1} of {len(units)}")
        context.spark.sparkContext.setJobGroup("train pack", f"train: pack member {member}")
        whole = _Part(member, of_member, forest.tree(member).depth)
        packed = {unit: found for (of, unit), found in parts.items() if of == member}
        _write_member(context, forest, whole, weights, packed, joined(uri, str(member)))


def delete_trees(context: Context) -> None:
    """What an earlier attempt of this run, perhaps with other settings, left of trees: all that is in the bundle is
    published with it."""
    for entry in context.fs.list(context.folder("bundle/model")):
        if entry.name.isdigit():
            context.fs.delete(entry.uri)


def write_upper_levels(
    context: Context,
    forest: Forest,
    units: list[list[Unit]],
    weights: dict[tuple[int, int], int],
    levels: int,
    uri: str,
) -> None:
    """The first levels of every member that has more, packed as a model of the nodes below them."""
    context.fs.delete(uri)
    context.spark.sparkContext.setJobGroup("train pack", f"train: pack {levels} levels for search")
    for member, of_member in enumerate(units):
        if forest.tree(member).depth > levels:
            inside = [unit for unit in of_member if unit.level < levels]
            part = _Part(member, inside, levels)
            _write_member(context, forest, part, weights, {}, joined(uri, str(member)))


@dataclass(frozen=True)
class _Part:
    """What is packed: the first levels of a member, which are all of them in the end."""

    member: int
    units: list[Unit]  # that have nodes there
    levels: int


def _write_member(
    context: Context,
    forest: Forest,
    part: _Part,
    weights: dict[tuple[int, int], int],
    packed: dict[int, list[LevelPart]],
    uri: str,
) -> None:
    tree, member = forest.tree(part.member), part.member
    with tempfile.TemporaryDirectory(prefix="xmcspark-model-") as folder:
        scratch = Path(folder)
        missing = [unit for unit in part.units if unit.unit not in packed]
        packed = {**packed, **_packed_now(context, forest, replace(part, units=missing), weights, scratch)}
        parts = [level for unit in in_leaf_order(tree, part.units) for level in packed[unit.unit]]
        scoring = Scoring.for_loss(forest.settings[member].loss)
        local = context.fs.local_path(uri)
        whole = Path(local) if local is not None else scratch / "model"
        space = forest.space
        save_packed(
            whole,
            tree.upper(part.levels),
            parts,
            space.size,
            scoring,
            width=space.width,
            threads=_COPYING_THREADS,
        )
        if local is None:
            context.fs.upload(whole, uri)


def _packed_now(
    context: Context, forest: Forest, part: _Part, weights: dict[tuple[int, int], int], scratch: Path
) -> dict[int, list[LevelPart]]:
    """Units of the table matchers, packed by tasks and fetched into a file of the driver."""
    if not part.units:
        return {}
    sizes = [weights.get((part.member, unit.unit), 0) + unit.matchers for unit in part.units]
    rows = _packed(context, forest, part, in_runs(sizes, _WEIGHTS_PER_TASK))
    found: dict[tuple[int, int], list[int]] = {}  # bytes of each array of a level of a place, in order
    path = scratch / "parts"
    with open(path, "wb") as stream:
        for place, level, name, data in _streamed(
            context, rows, context.scratch(f"packed-{part.member}"), scratch
        ):
            found.setdefault((place, level), [0] * len(NAMES))[name] += stream.write(data)
    parts: dict[int, list[LevelPart]] = {unit.unit: [] for unit in part.units}
    first = 0
    for (place, level), bytes_of in found.items():
        parts[part.units[place].unit].append(LevelPart(level, str(path), first, tuple(bytes_of)))
        first += sum(bytes_of)
    return parts


def _packed(context: Context, forest: Forest, part: _Part, runs: list[int]) -> DataFrame:
    """The rows of the units of each run packed, in order of units, a task for each run."""
    spark, tasks, pack = context.spark, runs[-1] + 1, partial(_pack, forest, part)
    end = int(node_starts(forest.tree(part.member))[part.levels])  # nodes from there on are further down
    if folder := context.fs.local_path(context.run.table("matchers")):
        read = partial(_read_units, folder, part, end, runs, pack)
        return spark.range(0, tasks, 1, tasks).mapInArrow(read, _PARTS)
    keys = partition_keys(tasks)
    places = [
        (unit.unit, keys[run], place) for place, (unit, run) in enumerate(zip(part.units, runs, strict=True))
    ]
    where = F.broadcast(small_frame(spark, places, "sub_tree int, task int, place int"))
    rows = read_table(spark, context.run, "matchers")
    rows = rows.where((F.col("member") == part.member) & (F.col("node") < end))
    placed = rows.join(where, "sub_tree").repartition(tasks, F.col("task")).sortWithinPartitions("place")
    return placed.select(*_COLUMNS).mapInArrow(pack, _PARTS)


def _read_units(
    folder: str, part: _Part, end: int, runs: list[int], pack: ArrowFunction, tasks: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What Spark would bring together, read by the task itself where it sees the files."""
    units = [unit.unit for unit in part.units]
    for number in (number for batch in tasks for number in batch.column(0).to_pylist()):
        place_of = {
            unit: place for place, (unit, run) in enumerate(zip(units, runs, strict=True)) if run == number
        }
        wanted = (ds.field("member") == part.member) & ds.field("sub_tree").isin(list(place_of))
        wanted &= ds.field("node") < end
        rows = ds.dataset(folder, format="parquet").to_table([*_COLUMNS[1:], "sub_tree"], filter=wanted)
        place = pa.array([place_of[unit] for unit in rows["sub_tree"].to_pylist()], pa.int32())
        rows = rows.append_column("place", place).select(_COLUMNS)
        order = np.argsort(place.to_numpy(), kind="stable")
        yield from pack(iter(rows.take(pa.array(order)).to_batches(max_chunksize=_ROWS_PER_BATCH)))


def _streamed(
    context: Context, parts: DataFrame, uri: str, scratch: Path
) -> Iterator[tuple[int, int, int, bytes]]:
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


def _pack(forest: Forest, part: _Part, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tree = forest.tree(part.member)
    for place, table in _by_place(batches):
        space = forest.space
        W = space.divided(csr_of_lists(table["features"], table["weights"], space.size, "matchers"))
        nodes, children, bias = (table[name].to_numpy() for name in ("node", "child", "bias"))
        unit = part.units[place]
        for level, found in packed_unit(tree, unit, nodes, children, bias, W, part.levels):
            for name, data in enumerate(part_bytes(found)):
                yield from _parts(place, level, name, data)


def _parts(place: int, level: int, name: int, data: memoryview) -> Iterator[pa.RecordBatch]:
    for first in range(0, max(1, len(data)), _PART_BYTES):
        columns = [[place], [level], [name], [bytes(data[first : first + _PART_BYTES])]]
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
