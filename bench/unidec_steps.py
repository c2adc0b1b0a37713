"""UniDEC for bench.transformers: trained by the library, searched in the space asked for and, if it has two heads, in
that of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.augmentation import Task
from bench.spent_seconds import SpentSeconds
from xmcspark.config.configuration import Config
from xmcspark.labels.augmented_training import Instances
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.targets import rows_of, select
from xmcspark.neural.embed import embed_texts
from xmcspark.neural.progress import Report
from xmcspark.neural.unidec.nearest import ExactLabels
from xmcspark.neural.unidec.task import PoolSizes
from xmcspark.neural.unidec.text_model import UnidecTextModel, train_unidec
from xmcspark.sparse.rows import stacked_rows

Judge = Callable[[Predictions], dict[str, list[float]]]


def learned(
    task: Task,
    config: Config,
    instances: tuple[Instances, Instances],
    folder: Path,
    *,
    spent: SpentSeconds,
    threads: int,
    report: Report,
    top_k: int,
    judge: Judge,
    unseen: bool,
) -> tuple[Predictions, dict[str, Any]]:
    """What it answers for the test rows, and what that took; `unseen`: also how labels are found that no training row
    had."""
    observed, made = instances
    rows = len(observed.keys) + len(made.keys)
    weights = is_made = None
    if len(made.keys):
        is_made = np.arange(rows) >= len(observed.keys)
        weights = np.where(is_made, config.augment.weights[0], 1).astype(np.float32)
    model = train_unidec(
        [*observed.texts, *made.texts],
        stacked_rows([observed.Y, made.Y]).to_scipy(),
        config.encoder,
        config.unidec,
        folder=folder / "work",
        label_texts=[text or "" for text in task.label_texts],
        row_keys=np.concatenate([observed.keys, made.keys]),
        row_weights=weights,
        made=is_made,
        seed=config.seed,
        threads=threads,
        report=report,
    )
    trained = spent.now()
    embeddings = embed_texts(model.model.encoder, list(task.texts))
    embedded = spent.now()
    found = model.found(embeddings, top_k, task.excluded)
    facts = {
        "train_s": trained,
        "embed_s": embedded - trained,
        "search_s": spent.now() - embedded,
        "levels": [_told(report) for report in model.reports],
        "spaces": _by_space(model, config, embeddings, task, folder, threads, top_k, judge),
        "zero_shot": zero_shot(model, embeddings, task, top_k) if unseen else {},
    }
    return found, facts


def _told(report: Any) -> dict[str, Any]:
    first, *others = report.pools.values() or [PoolSizes()]  # of the dual head, where there is one
    pools = {"pool_labels": first.average_labels, "pool_positives": first.average_positives}
    if others:
        pools["classifier_pool_labels"] = others[0].average_labels
    return {"level": report.task, **pools, **asdict(report.tuned)}


def zero_shot(model: UnidecTextModel, embeddings: np.ndarray, task: Task, top_k: int) -> dict[str, float]:
    """How many of the labels that test rows have and no training row had are among the first `top_k` when all labels
    are searched by their texts; nothing if all were trained, or there is no dual head."""
    labels = task.truth.shape[1]
    unseen = np.ones(labels, bool)
    unseen[model.data.trained_labels] = False
    wanted = select(task.truth, unseen[task.truth.indices])
    if model.model.heads.dual is None or not wanted.nnz:
        return {}
    source = model.model.source(model.data.label_tokens, "dual")
    found, _ = ExactLabels(source.of(np.arange(labels))).search(source.space.queries(embeddings), top_k)
    hits = np.isin(rows_of(wanted) * labels + wanted.indices, np.arange(len(found))[:, None] * labels + found)
    return {"labels": int(unseen.sum()), "pairs": wanted.nnz, f"R@{top_k}": float(hits.mean())}


def _by_space(
    model: UnidecTextModel,
    config: Config,
    embeddings: np.ndarray,
    task: Task,
    folder: Path,
    threads: int,
    top_k: int,
    judge: Judge,
) -> dict[str, dict[str, list[float]]]:
    """Quality by each head of a model that has two."""
    if len(config.unidec.heads) == 1:
        return {}
    found = {}
    for space in config.unidec.heads:
        other = model.in_space(space, folder / "work" / space, config.unidec, threads=threads)
        found[space] = judge(other.found(embeddings, top_k, task.excluded))
    return found
