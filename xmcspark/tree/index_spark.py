"""The stage `index`: from training rows to label features, label trees, what each node will be trained on, and the
units that training is cut into."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.errors import ConfigError, InputError
from xmcspark.labels.block_sums_spark import (
    GROUP_ROWS,
    PART_COLUMNS,
    PARTS_PER_BATCH,
    block_size_for,
)
from xmcspark.labels.instance_cap import InstanceCap
from xmcspark.labels.pifa_spark import CAP_KIND, LABEL_ROWS, PifaPlan, label_rows, routed_sums
from xmcspark.sparse.spgemm import exact_grid
from xmcspark.store.arrays import save_arrays
from xmcspark.store.direct_tables import Rows, rows_of_table
from xmcspark.store.direct_writing import Measure, empty_rows_of, entries_of, write_mapped
from xmcspark.store.exchange import common_folder
from xmcspark.store.filesystem import joined
from xmcspark.store.progress import tell
from xmcspark.store.session import arrow_batch, slots_of, task_threads, threads_of_few
from xmcspark.store.side_files import SideFolder, send_made_folder
from xmcspark.store.stage import Context, Stage
from xmcspark.text.feature_space_spark import feature_space
from xmcspark.text.feature_table import FeatureSpace, feature_table
from xmcspark.tree.build import cut_for_sample, tree_over
from xmcspark.tree.build_spark import (
    BUILT,
    SavedClusters,
    TreePlan,
    build_cut,
    collected,
    joined_tree,
    save_cut,
    sub_trees,
    whole_trees,
)
from xmcspark.tree.centres import centre_grid
from xmcspark.tree.given_spark import given_trees
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.node_inputs import NodeInputs, input_hashes
from xmcspark.tree.node_inputs_spark import node_inputs
from xmcspark.tree.paths import LabelPaths
from xmcspark.tree.sampled import BALANCE, SampledCut
from xmcspark.tree.sampled_spark import collected_splits, label_ids, meta_trees, save_ids, walked_clusters
from xmcspark.tree.shape import Shape
from xmcspark.tree.tables_spark import save_columns, tree_labels, tree_nodes
from xmcspark.tree.units import plan_units, save_units, units_of_nodes

log = logging.getLogger(__name__)

_KEPT = "label_features"  # folder of scratch
_CENTRES_PER_BATCH = 16  # payloads of centres, of up to some megabytes each
_SUM_BYTES = 12  # of an entry of label sums
_ENTRY_BYTES = 24  # of Z in the task that clusters: as it came, in order, and what puts it in order


def _summed(column: str) -> Measure:
    return Measure(f"sum({column})", lambda batch: pc.sum(batch.column(column)).as_py() or 0)


_MEASURES = {
    "entries": entries_of("indices"),
    "empty": empty_rows_of("indices"),
    "pairs": _summed("cut_pairs"),
    "labels": _summed("cut_labels"),
    "features": _summed("cut_features"),
    "summed": _summed("summed"),
}


@dataclass(frozen=True)
class _Labels:
    """What the table labels says in all."""

    ids: int  # the largest id + 1
    active: int
    most_positives: int


def index(context: Context) -> None:
    labels = _labels(context)
    if context.config.ensemble.members == 0:
        _no_trees(context, labels)
        return
    _check_sample(context, labels.active)
    space = feature_space(context)
    rows = rows_of_table(context, feature_table(context.config), "train")
    kept = _folder_for_kept(context, labels.active)
    tell("index", "label features")
    entries = _write_label_features(context, rows, labels, space, kept)
    tell("index", f"label trees over {labels.active:,} labels")
    if context.config.x_transformer.enabled:
        trees, built = given_trees(context)
    else:
        trees, built = _built_trees(context, labels, space.size, entries, kept)
    context.fs.delete(context.scratch(_KEPT))
    tell("index", "what each node is trained on")
    with tempfile.TemporaryDirectory(prefix="xmcspark-index-") as work:
        inputs = _node_inputs(context, rows, trees, labels, space.width, Path(work))
        tell("index", "tables of the trees")
        _write_trees(context, trees, inputs, built, space.size, Path(work))


def _no_trees(context: Context, labels: _Labels) -> None:
    """Leaves empty tables, for a method without a tree."""
    for table in ("label_features", "tree_nodes", "tree_labels"):
        context.write_few(table, [])
    context.fs.delete(context.folder("tree"))
    context.fs.write_text(joined(context.folder("tree"), "no-trees"), "")
    context.note(labels=labels.active, trees=[])


def _folder_for_kept(context: Context, labels: int) -> str | None:
    """A new folder for blocks of label features (labels/kept_blocks.py), where all tasks see one disk and a tree is
    built by a task that reads all of them: not from a sample, and not where trees are given."""
    if context.config.x_transformer.enabled or cut_for_sample(labels, context.config.tree) is not None:
        return None
    uri = context.scratch(_KEPT)
    local = context.fs.local_path(uri)
    if local is not None:
        context.fs.delete(uri)
        Path(local).mkdir(parents=True)
    return local


def _labels(context: Context) -> _Labels:
    active = F.col("active")
    row = (
        context.read("labels")
        .agg(
            F.max("id").alias("last"),
            F.count_if(active).alias("active"),
            F.max(F.when(active, F.col("positives"))).alias("most"),
        )
        .first()
    )
    if row is None or not row["active"]:
        raise InputError(
            "the table labels has no active label, so there is nothing to predict: look at the corpus settings "
            "(minimum counts, dates) and at the input"
        )
    return _Labels(int(row["last"]) + 1, int(row["active"]), int(row["most"] or 0))


def _check_sample(context: Context, labels: int) -> None:
    """Refuses a sample that is too small, and, where there is none, a tree that one task could not build."""
    tree, most = context.config.tree, context.config.tree.sample_labels
    cut_for_sample(labels, tree)
    if labels > most and not tree.balanced:
        gigabytes = -(-labels * 200 * _ENTRY_BYTES // 10**9)
        raise ConfigError(
            [
                f"tree.sample_labels is {most}, but there are {labels} active labels, and a tree that is not balanced "
                f"is built from all of them by one task: set tree.sample_labels={labels} and give tasks about "
                f"{gigabytes} GB (at 200 features a label; pifa.max_features bounds them), or tree.balanced=true"
            ]
        )


def _write_label_features(
    context: Context, rows: Rows, labels: _Labels, space: FeatureSpace, kept: str | None
) -> int:
    """Writes Z and returns its number of entries."""
    settings, spark = context.config.pifa, context.spark
    active = context.read("labels").where("active")
    block = block_size_for(labels.ids)
    made = context.noted("augment")
    augmented = context.config.augment.in_pifa or made["observed_share"] == 0  # nothing else is trained on
    # A label may be among the targets of every row that an augmentation made.
    most = labels.most_positives + (int(made["rows"]) if augmented else 0)
    plan = PifaPlan(
        grid=exact_grid(1.0, _largest_value(context, space), most),
        space=space,
        label_ids=labels.ids,
        max_features=settings.max_features,
        cap=_sent_cap(context, active),
        seed=context.config.seed,
        threads=task_threads(context.spark),
        block_size=block,
        group_rows=GROUP_ROWS,
        augmented=augmented,
        kept=kept,
    )
    tasks = min(-(-labels.ids // block), 3 * slots_of(spark))
    with (
        arrow_batch(spark, PARTS_PER_BATCH),
        common_folder(context, "rows") as store,
        routed_sums(context, rows, active, plan := replace(plan, store=store), tasks) as sums,
    ):
        context.rows["label_features"], found = write_mapped(
            context,
            "label_features",
            sums,
            label_rows(plan),
            _MEASURES,
            columns=PART_COLUMNS,
            schema=LABEL_ROWS,
        )
    counts = {name: int(value) for name, value in found.items()}
    if plan.store is not None:  # as many bytes as would have travelled
        context.exchanged.append(_SUM_BYTES * counts["summed"])
    context.note(
        labels=labels.active,
        labels_without_features=counts["empty"],
        label_feature_entries=counts["entries"],
        pifa_pairs_cut=counts["pairs"],
        pifa_labels_cut=counts["labels"],
        pifa_features_cut=counts["features"],
    )
    return counts["entries"]


def _largest_value(context: Context, space: FeatureSpace) -> float:
    """Of X, in magnitude. An embedding has length 1, but for rounding."""
    largest = float(context.noted("vectorize")["largest_value"])
    return max(largest, 1.001) if space.width else largest


def _sent_cap(context: Context, active: DataFrame) -> SideFolder | None:
    """The labels with too many instances, for every task to open; None if there are none."""
    most = context.config.pifa.max_instances
    if most is None:
        return None
    # Few, unless the limit is tiny: each has more than max_instances pairs.
    over = active.where(F.col("positives") > most).select("id", "positives").collect()
    if not over:
        return None
    ids = np.array([row["id"] for row in over], np.int32)
    cap = InstanceCap.of(ids, np.array([row["positives"] for row in over], np.int64), most)
    with tempfile.TemporaryDirectory(prefix="xmcspark-index-") as work:
        save_arrays(Path(work), CAP_KIND, 1, {}, {"labels": cap.labels, "threshold": cap.threshold})
        return send_made_folder(context, Path(work), "cap")


def _built_trees(
    context: Context, labels: _Labels, features: int, entries: int, kept: str | None
) -> tuple[list[LabelTree], DataFrame]:
    """The trees of all members, and the frame of what tasks built, which holds the centres."""
    config, members = context.config, context.config.ensemble.members
    params = replace(config.tree, threads=task_threads(context.spark))
    grid = centre_grid(labels.active)
    plan = TreePlan(params, members, labels.active, features, config.tree.centre_features, grid)
    Z = rows_of_table(context, "label_features")
    sampled = cut_for_sample(labels.active, params)
    if sampled is not None:
        return _built_from_sample(context, Z, plan, sampled, entries)
    cut = build_cut(plan, entries)
    context.note(build_cut=cut, tree_task_bytes=entries * _ENTRY_BYTES)
    built = _scratched(context, whole_trees(Z, _of_few_tasks(context, plan), cut, kept), "trees")
    found, ids = collected(built)
    assert ids is not None  # member 0 returns them
    tops = [found[member, -1] for member in range(members)]
    if cut is not None:
        with tempfile.TemporaryDirectory(prefix="xmcspark-index-") as work:
            save_cut(tops, ids, Path(work))
            clusters = SavedClusters(send_made_folder(context, Path(work), "cut"))
        with arrow_batch(context.spark, PARTS_PER_BATCH):
            below = _scratched(context, sub_trees(Z, plan, cut, clusters), "sub_trees")
        parts, _ = collected(below)
        tops = [joined_tree(top, parts, member) for member, top in enumerate(tops)]
        built = built.unionByName(below)
    return [LabelTree(tree.child_ptr, ids[tree.labels]) for tree in tops], built


def _of_few_tasks(context: Context, plan: TreePlan) -> TreePlan:
    """For the step in which each member has one task."""
    return replace(plan, params=replace(plan.params, threads=threads_of_few(context.spark, plan.members)))


def _built_from_sample(
    context: Context, Z: Rows, plan: TreePlan, cut: SampledCut, entries: int
) -> tuple[list[LabelTree], DataFrame]:
    """As `_built_trees`, upper levels from a sample of the labels (tree/sampled.py)."""
    ids = label_ids(Z)
    with (
        tempfile.TemporaryDirectory(prefix="xmcspark-index-") as work,
        arrow_batch(context.spark, PARTS_PER_BATCH),
    ):
        save_ids(ids, Path(work) / "ids")
        numbers = send_made_folder(context, Path(work) / "ids", "ids")
        built = _scratched(context, meta_trees(Z, _of_few_tasks(context, plan), cut, numbers), "trees")
        splits = collected_splits(built)
        for member, of_member in enumerate(splits):
            of_member.save(Path(work) / "splits" / str(member))
        folder = send_made_folder(context, Path(work) / "splits", "splits")
        clusters = walked_clusters(Z, plan, numbers, splits, folder, slots_of(context.spark))
        below = _scratched(context, sub_trees(Z, plan, cut.level, clusters), "sub_trees")
    parts, _ = collected(below)
    upper = Shape.whole(cut.sizes).child_ptr[: cut.level]
    trees = [
        tree_over(upper, [parts[member, part] for part in range(cut.sub_trees)])
        for member in range(plan.members)
    ]
    context.note(
        build_cut=cut.level,
        tree_sample=round(cut.share, 6),
        tree_task_bytes=int(entries * max(cut.share, BALANCE / cut.sub_trees)) * _ENTRY_BYTES,
        sub_tree_labels=[
            int(f(np.diff(tree.leaf_range(cut.level)))) for tree in trees for f in (np.min, np.max)
        ],
    )
    return [LabelTree(tree.child_ptr, ids[tree.labels]) for tree in trees], built.unionByName(below)


def _node_inputs(
    context: Context, rows: Rows, trees: list[LabelTree], labels: _Labels, width: int, work: Path
) -> list[NodeInputs]:
    for member, tree in enumerate(trees):
        tree.save(work / "tree" / str(member))
        LabelPaths.of(tree).save(work / "paths" / str(member))
    sent = send_made_folder(context, work / "paths", "paths")
    nodes = [sum(tree.level_sizes[:-1]) for tree in trees]
    return node_inputs(context.spark, rows, sent, nodes, labels.ids, width)


def _write_trees(
    context: Context,
    trees: list[LabelTree],
    inputs: list[NodeInputs],
    built: DataFrame,
    features: int,
    work: Path,
) -> None:
    config = context.config
    counts = []
    for member, (tree, seen) in enumerate(zip(trees, inputs, strict=True)):
        units = plan_units(tree, seen.counts, config.tree.sub_trees, config.train.max_rows)
        save_units(units, seen.counts, work / "tree" / str(member) / "units")
        paths, owner = LabelPaths.of(tree), units_of_nodes(tree, units)
        hashes = input_hashes(seen, paths)
        save_columns(work / "columns" / str(member), paths, seen.rows, seen.nnz, hashes, owner)
        counts.append({"levels": tree.level_sizes, "units": len(units)})
    context.fs.upload(work / "tree", context.folder("tree"))
    columns = send_made_folder(context, work / "columns", "columns")
    with arrow_batch(context.spark, _CENTRES_PER_BATCH):
        context.write("tree_nodes", tree_nodes(built, columns, features))
        slots = slots_of(context.spark)
        context.write(
            "tree_labels", tree_labels(context.spark, trees[0].n_labels, len(trees), columns, slots)
        )
    context.note(trees=counts, training_rows=int(inputs[0].rows[0]), training_entries=int(inputs[0].nnz[0]))


def _scratched(context: Context, frame: DataFrame, name: str) -> DataFrame:
    """What tasks built, kept in files: it is read twice, and must not be built twice."""
    uri = context.scratch(name)
    frame.write.mode("overwrite").parquet(uri)
    return context.spark.read.schema(BUILT).parquet(uri)


def _read(config: Config) -> tuple[str, ...]:
    clusters = ("encode/",) if config.x_transformer.enabled else ()
    return (feature_table(config), "labels", *clusters)


STAGE = Stage(
    "index",
    2,
    ("pifa", "augment.in_pifa", "tree", "ensemble.members", "seed", "train.max_rows"),
    reads=("features", "embeddings", "labels", "encode/"),
    reads_of=_read,
    writes=("label_features", "tree_nodes", "tree_labels", "tree/"),
    run=index,
)
