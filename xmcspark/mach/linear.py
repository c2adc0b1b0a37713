"""The linear learner: a repetition's buckets as B one-vs-all problems over all rows, solved by the matchers' solver as
the children of one root."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xmcspark.mach.repetition import LinearRepetition, Part
from xmcspark.mach.targets import bucket_relevance, bucket_targets
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import check_relevance, check_targets, pattern
from xmcspark.matchers.train import train_matchers
from xmcspark.matchers.trainer import Report
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree


def train_linear(
    X: Any,
    Y: Any,
    part: Part,
    settings: TrainSettings | None = None,
    *,
    relevance: Any = None,
    row_keys: Any = None,
    row_weights: Any = None,
    row_negatives: Any = None,
    threads: int = 1,
    report: Report | None = None,
) -> LinearRepetition:
    """Repetition `part` of a sketch, trained on X [rows, features] and targets Y [rows, labels].

    The other arguments are those of `train_matchers`; repetition r uses the seed r more. Relevance of a bucket is the
    sum of its labels'. Buckets without positive rows get matchers that say no.
    """
    settings = settings or TrainSettings()
    X = as_csr(X, "X", cols=part.features)
    Y = check_targets(as_csr(Y, "Y", cols=part.labels), X.shape[0])
    if relevance is not None or settings.cost_sensitive:
        of_labels = pattern(Y) if relevance is None else check_relevance(relevance, Y)
        relevance = bucket_relevance(of_labels, part.bucket_hash)
    model = train_matchers(
        part.inputs(X),
        bucket_targets(Y, part.bucket_hash),
        LabelTree.root_only(part.buckets),
        replace(settings, seed=(settings.seed + part.repetition) % 2**63, negatives="tfn"),
        relevance=relevance,
        row_keys=row_keys,
        row_weights=row_weights,
        row_negatives=row_negatives,
        threads=threads,
        report=report,
    )
    return LinearRepetition.of(part, model.matchers[0])
