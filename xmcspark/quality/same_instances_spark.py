"""Several runs on the same instances, for jobs that compare or fuse them. Decides which instances are the same: those
with the same id and the same true labels, by the labels' keys, so that runs may number their labels differently."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.errors import InputError
from xmcspark.matchers.exclusion import drop_entries
from xmcspark.matchers.scoring import negative_by
from xmcspark.quality.evaluate_spark import STAGE, predicted_instances
from xmcspark.quality.measure_spark import ANY_LABEL
from xmcspark.quality.renumbering import common_numbers, renumbered, renumbered_rows
from xmcspark.serving.run_choice_spark import runs_of, why_no_choice
from xmcspark.sparse.arrow import csr_of_lists, lists_of_csr, parts_of_lists
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.runs import Run
from xmcspark.store.side_files import SideFolder, send_made_folder
from xmcspark.store.stage import Context

COLUMNS = ("labels", "relevance", "predicted", "scores")
_SIDE = "id string, labels array<int>, relevance array<float>, predicted array<int>, scores array<float>"
_NUMBERS = "numbers.npy"


def named_run(spark: SparkSession, root: str, name: str, option: str) -> Run:
    """A run of the same root by its id, or of another by its path."""
    fs = Filesystem(spark)
    place, _, id = name.rstrip("/").rpartition("/")
    place = fs.qualified(place or root)
    if id not in (known := runs_of(fs, place)):
        raise InputError(
            f"{option} {name}: {why_no_choice(fs, place, id)}; the runs there are {', '.join(known) or 'none'}"
        )
    return Run(fs, place, id)


def excludes_self(run: Run) -> bool:
    """A run's own rule about labels that are the instance itself, as it was when it last predicted."""
    noted = run.record("predict").notes.get("exclude_self")
    return bool(_opened_settings(run).get("predict", {}).get("exclude_self") if noted is None else noted)


def negative_scores(run: Run) -> str | None:
    """The setting by which the scores that a run predicted may be negative; None if they are not."""
    noted = run.record("predict").notes.get("scoring")
    if noted is None:
        settings = _opened_settings(run)
        parts = ("ensemble", "predict", "mach", "unidec")
        ensemble, predict, mach, unidec = (settings.get(name, {}) for name in parts)
        sketch = [mach.get("transform"), mach.get("aggregate")] if mach.get("enabled") else None
        noted = {"trees": ensemble.get("members", 1), "transform": predict.get("transform"), "sketch": sketch}
        noted["vectors"] = unidec.get("enabled", False)
    of_sketch = (str(noted["sketch"][0]), str(noted["sketch"][1])) if noted["sketch"] else None
    return negative_by(
        int(noted["trees"]), str(noted["transform"]), of_sketch, bool(noted.get("vectors", False))
    )


def _opened_settings(run: Run) -> dict[str, Any]:
    """The settings that a run was opened with: all that is known of predictions of an earlier release."""
    settings: dict[str, Any] = json.loads(run.fs.read_text(joined(run.uri, "run.json"))).get("config", {})
    return settings


def reading_context(spark: SparkSession, config: Config, run: Run, job: str) -> Context:
    """A run as it is: it is read as evaluate reads it, and nothing is written."""
    own = replace(config, predict=replace(config.predict, exclude_self=excludes_self(run)))
    return Context(
        spark, own, run, replace(STAGE, name=job, writes=(), writes_of=None), key=run.record("predict").key
    )


def numbers_in(known: DataFrame, n_known: int, labels: DataFrame) -> tuple[np.ndarray | None, int]:
    """The number, in the label table `known`, of each label of another one (None: its own), and how many come after
    those known because only the other table has them."""
    own = known.select("key", F.col("id").alias("own"))
    pairs = labels.select("key", F.col("id").alias("other")).join(own, "key", "left")
    parts = pairs.select("other", "own").mapInArrow(_packed, "other binary, own binary").collect()
    packed = [(np.frombuffer(part.other, np.int32), np.frombuffer(part.own, np.int32)) for part in parts]
    return common_numbers(packed, n_known)


def send_numbers(context: Context, numbers: np.ndarray | None, name: str = "numbers") -> SideFolder | None:
    if numbers is None:
        return None
    with tempfile.TemporaryDirectory(prefix="xmcspark-numbers-") as place:
        np.save(Path(place, _NUMBERS), numbers)
        return send_made_folder(context, Path(place), name)


def opened_numbers(folder: SideFolder | None) -> np.ndarray | None:
    return None if folder is None else _opened(str(folder.path()))


@lru_cache(maxsize=8)
def _opened(folder: str) -> np.ndarray:
    numbers: np.ndarray = np.load(Path(folder, _NUMBERS), mmap_mode="r")
    return numbers


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Numbers of labels, some thousand to a string: 8 bytes a label pass through the driver."""
    for batch in batches:
        columns = (batch.column(name).fill_null(-1).to_numpy().astype(np.int32) for name in ("other", "own"))
        strings = [pa.array([column.tobytes()], pa.binary()) for column in columns]
        yield pa.RecordBatch.from_arrays(strings, ["other", "own"])


def side(context: Context, split: str, numbers: SideFolder | None, prefix: str = "") -> DataFrame:
    """The instances of a run: their true labels without those excluded, and their predictions."""
    function = partial(_numbered, numbers, context.run.id)
    frame = predicted_instances(context, split).mapInArrow(function, _SIDE)
    return frame.select("id", *(F.col(name).alias(f"{prefix}{name}") for name in COLUMNS))


def _numbered(
    folder: SideFolder | None, run: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    numbers = opened_numbers(folder)
    for batch in batches:
        truth = csr_of_lists(batch.column("labels"), batch.column("relevance"), ANY_LABEL, "instances")
        left = drop_entries(truth, csr_of_lists(batch.column("excluded"), None, ANY_LABEL, "exclude"))
        indptr, ranked, scores = parts_of_lists(
            batch.column("predicted"), batch.column("scores"), "predictions"
        )
        offsets = pa.array(indptr.astype(np.int32))
        predicted = (pa.array(renumbered(ranked, numbers, run)), pa.array(scores))
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("id"),
                *lists_of_csr(renumbered_rows(left, numbers, run)),
                *(pa.ListArray.from_arrays(offsets, values) for values in predicted),
            ],
            ["id", *COLUMNS],
        )


def is_same(prefix: str) -> Column:
    """Whether a side has the instance as the first side, which has no prefix, has it."""
    return F.col("labels") == F.col(f"{prefix}labels")


def counted(sides: DataFrame, prefixes: Sequence[str]) -> list[tuple[int, dict[str, int]]]:
    """Of each side but the first: instances that are the same as the first's, and how many are not, by reason."""
    ours = F.col("labels").isNotNull()
    conditions = {}
    for prefix in prefixes:
        theirs = F.col(f"{prefix}labels").isNotNull()
        conditions[prefix] = {
            "the same": is_same(prefix),
            "only in the run": ours & ~theirs,
            "only in the other": theirs & ~ours,
            "with other true labels": ours & theirs & ~is_same(prefix),
        }
    wanted = [
        F.count_if(condition).alias(f"{prefix}{why}")
        for prefix, of_side in conditions.items()
        for why, condition in of_side.items()
    ]
    row = sides.agg(*wanted).collect()[0]
    found = []
    for prefix, of_side in conditions.items():
        counts = {why: int(row[f"{prefix}{why}"]) for why in of_side}
        found.append((counts.pop("the same"), counts))
    return found


def check_instances(
    runs: tuple[Run, Run], split: str, n: int, left_out: dict[str, int], verb: str, remedy: str = ""
) -> None:
    """That two runs have all instances in common. `verb`: what is done with them; `remedy`: what else would help."""
    ids = " and ".join(run.id for run in runs)
    reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
    if not n:
        raise InputError(
            f"runs {ids} have no instance of split {split} in common"
            + (f" ({reasons})" if reasons else "")
            + f": {verb} runs that were made from the same corpus"
        )
    if reasons:
        raise InputError(
            f"runs {ids} differ in {sum(left_out.values()):,} instances of split {split} ({reasons}): {verb} runs that "
            f"were made from the same corpus{remedy}"
        )
