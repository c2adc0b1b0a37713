"""Which instances a run is trained on: those observed, those an augmentation made, or a part of both. Decides from
which of them the vocabulary is learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.labels.label_sampling import row_stays
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.direct_tables import Rows, SomeRows, rows_of_table, rows_of_tables
from xmcspark.store.stage import Context

_BY = ("id", "split", "targets")


@dataclass(frozen=True)
class TrainedShares:
    """How much of the training instances stays, chosen by hash: of those observed and of those made."""

    observed: float = 1.0
    made: float = 1.0


def vectorized_rows(context: Context) -> Rows:
    """All instances that get a row of features."""
    return _sampled(context, rows_of_tables(context, ("instances", "augmented")))


def vocabulary_rows(context: Context) -> Rows:
    """The instances that the vocabulary is learned from, and idf counted on."""
    shares, both = _shares(context), context.config.augment.in_vocabulary
    if both or shares.observed == 0:  # nothing else is trained on
        return _sampled(context, rows_of_tables(context, ("instances", "augmented"), "train"))
    if shares.observed == 1:
        return rows_of_table(context, "instances", "train")
    return _sampled(context, rows_of_tables(context, ("instances", "augmented"), "train"), made=False)


def _shares(context: Context) -> TrainedShares:
    noted = context.noted("augment")
    return TrainedShares(float(noted["observed_share"]), float(noted["made_share"]))


def _sampled(context: Context, rows: Rows, made: bool = True) -> Rows:
    shares = _shares(context)
    if not made:
        shares = TrainedShares(shares.observed, 0.0)
    if shares == TrainedShares():
        return rows
    return SomeRows(rows, _BY, partial(_stays, shares, context.config.seed))


def _stays(shares: TrainedShares, seed: int, batch: pa.RecordBatch) -> np.ndarray:
    """A flag for each row; those that are not trained on stay."""
    keys = text_hashes(batch.column("id"))
    is_made = pc.is_valid(batch.column("targets")).to_numpy(zero_copy_only=False)
    tested = pc.not_equal(batch.column("split"), "train").to_numpy(zero_copy_only=False)
    observed, new = (row_stays(keys, share, seed) for share in (shares.observed, shares.made))
    return np.asarray(tested | np.where(is_made, new, observed))
