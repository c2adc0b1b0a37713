"""What fine-tuning reads, from tables to a folder on the driver's disk: texts as tokens, targets and, for methods that
read them, TF-IDF rows of the training instances, in the order of their keys, whatever the partitions were. In the
driver's memory are their texts and sparse rows. Label texts that cannot be used are refused before any other work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.labels.training_rows_spark import vectorized_rows
from xmcspark.matchers.targets import select
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.tokens import PORTION, TokenStore
from xmcspark.neural.training_set import TrainingSet, tokens_folder
from xmcspark.neural.unidec.data import UnidecData, check_texts, instance_tokens
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.sparse.arrow import csr_of_lists, csr_of_targets
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.side_files import local_copy
from xmcspark.store.stage import Context
from xmcspark.text.features_spark import LOOKUP
from xmcspark.text.tfidf import Tfidf

_READ = ("id", "split", "text", "labels", "targets", "relevance", "row_hash")
_ROWS = "row_key bigint, row_hash bigint, text string, labels array<int>, targets array<float>, relevance array<float>"
_NAMES = ("row_key", "row_hash", "text", "labels", "targets", "relevance")
_TEXTS = "texts"


def export_training_set(context: Context, encoder: TextEncoder, folder: Path, threads: int) -> TrainingSet:
    """Writes the training set of a run into a folder."""
    rows = _training_rows(context)
    tokens = TokenStore.write(tokens_folder(folder), encoder, _portions(rows["text"]))
    X = Tfidf.load(local_copy(context.fs, context.folder(LOOKUP)), threads=threads).rows(
        rows["text"].combine_chunks()
    )
    labels = read_labels(context)
    Y, kept = _targets(rows, labels)
    costs = csr_of_lists(rows["labels"], rows["relevance"], labels.size, "labels")
    data = TrainingSet(
        X=X,
        Y=select(Y, kept),
        tokens=tokens,
        row_keys=rows["row_key"].to_numpy(),
        relevance=select(costs, kept).data,
        row_weights=_row_weights(context, _made(rows)),
        made=_made(rows),
        silent=None if context.config.augment.in_pifa else _made(rows),
    )
    data.save(folder)
    return data


def export_unidec_data(
    context: Context, encoder: TextEncoder, folder: Path, labels_folder: Path
) -> UnidecData:
    """Writes what UniDEC learns from: instances into one folder, label texts, where they are used, into another. Rows
    that augmentation made are marked, and count `augment.weight`."""
    settings, labels = context.config.unidec, read_labels(context)
    check_labels(settings, labels)
    label_tokens = None
    if "dual" in settings.heads or (settings.start_from_text and any(labels.by_id())):
        label_tokens = write_label_tokens(labels, encoder, labels_folder)
    rows = _training_rows(context)
    Y, kept = _targets(rows, labels)
    weights = _row_weights(context, _made(rows))
    data = UnidecData(
        Y=select(Y, kept),
        tokens=TokenStore.write(instance_tokens(folder), encoder, _portions(rows["text"])),
        label_tokens=label_tokens,
        row_weights=None if weights is None else np.ascontiguousarray(weights[:, 0]),
        made=_made(rows),
        row_keys=rows["row_key"].to_numpy(),
        excluded=_excluded(context, rows["row_key"].to_numpy(), labels),
    )
    data.save(folder)
    return data


def _excluded(context: Context, row_keys: np.ndarray, labels: LabelColumns) -> Csr | None:
    """Labels that are never predicted for training rows, which are in the order of their keys; None if there are
    none."""
    given = ds.dataset(local_copy(context.fs, context.run.table("exclude")), format="parquet").to_table()
    lists = given["labels"].combine_chunks()
    counts = pc.list_value_length(lists).to_numpy()
    keys, ids = text_hashes(given["id"].combine_chunks()).repeat(counts), lists.flatten().to_numpy()
    if context.config.predict.exclude_self:
        itself = text_hashes(labels.keys.combine_chunks())
        keys, ids = np.concatenate([keys, itself]), np.concatenate([ids, labels.ids])
    row = np.minimum(np.searchsorted(row_keys, keys), len(row_keys) - 1)
    there = row_keys[row] == keys
    if not there.any():
        return None
    cells = np.ones(int(there.sum()), np.float32), (row[there], ids[there])
    return as_csr(sp.csr_matrix(cells, shape=(len(row_keys), labels.size)).sign())


def _targets(rows: pa.Table, labels: LabelColumns) -> tuple[Csr, np.ndarray]:
    """(Y of all labels, which of its entries are of active ones)."""
    Y = csr_of_targets(rows["labels"], rows["targets"], labels.size)
    kept = labels.live()[Y.indices]
    if not kept.any():
        raise InputError("no training instance has a label that is active: there is nothing to fine-tune on")
    return Y, kept


def check_labels(settings: UnidecSettings, labels: LabelColumns) -> None:
    """That there are enough for UniDEC, of those with a text where the dual head is to be trained."""
    count = int(labels.active.sum())
    if "dual" in settings.heads:
        texts = labels.texts.combine_chunks().filter(pa.array(labels.active)).fill_null("")
        without = int(pc.sum(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)).as_py() or 0)
        check_texts(settings, count, without)
        count -= without
    settings.check_labels(count)


def _training_rows(context: Context) -> pa.Table:
    """In the order of training. Executors write them, the driver reads what they wrote."""
    uri = context.scratch(_TEXTS)
    vectorized_rows(context).map(_READ, _of_training, _ROWS).write.mode("overwrite").parquet(uri)
    table = pq.read_table(local_copy(context.fs, uri), columns=list(_NAMES))
    context.fs.delete(uri)
    if not table.num_rows:
        raise InputError("there are no training instances: nothing to fine-tune the encoder on")
    order = np.lexsort((table["row_hash"].to_numpy(), table["row_key"].to_numpy()))
    return table.take(order)


def _of_training(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.filter(pc.equal(batch.column("split"), "train"))
        columns = {"row_key": pa.array(text_hashes(rows.column("id")), pa.int64())}
        columns |= {name: rows.column(name) for name in _NAMES if name != "row_key"}
        yield pa.RecordBatch.from_pydict(columns)


def _portions(texts: pa.ChunkedArray) -> Iterator[list[str]]:
    for start in range(0, len(texts), PORTION):
        yield [text or "" for text in texts[start : start + PORTION].to_pylist()]


class LabelColumns(NamedTuple):
    """The table labels, as far as training needs it, in any order."""

    ids: np.ndarray
    active: np.ndarray  # bool
    texts: pa.ChunkedArray
    keys: pa.ChunkedArray

    @property
    def size(self) -> int:
        return int(self.ids.max(initial=-1)) + 1

    def live(self) -> np.ndarray:
        """bool by label id: whether it is active."""
        live = np.zeros(self.size, bool)
        live[self.ids[self.active]] = True
        return live

    def by_id(self) -> list[str]:
        """Texts; empty ones where there are none."""
        texts = [""] * self.size
        for label, text in zip(self.ids.tolist(), self.texts.to_pylist(), strict=True):
            texts[label] = text or ""
        return texts


def read_labels(context: Context) -> LabelColumns:
    files = local_copy(context.fs, context.run.table("labels"))
    table = ds.dataset(files, format="parquet").to_table(columns=["id", "active", "text", "key"])
    active = table["active"].to_numpy(zero_copy_only=False)
    return LabelColumns(table["id"].to_numpy(), active, table["text"], table["key"])


def export_label_texts(context: Context, encoder: TextEncoder, folder: Path) -> None:
    """Tokens of the labels' texts, by label id, for X-Transformer's clusters."""
    labels = read_labels(context)
    if not any(labels.by_id()):
        raise InputError(
            "x_transformer.indexer is text-emb, and no label of this corpus has a text: give them (input.labels with a "
            "column text, or ingest.columns.label_text for logs), or use pifa-tfidf"
        )
    write_label_tokens(labels, encoder, folder)


def write_label_tokens(labels: LabelColumns, encoder: TextEncoder, folder: Path) -> TokenStore:
    """By label id; labels without text have the tokens of an empty one."""
    return TokenStore.write(folder, encoder, [labels.by_id()])


def _made(rows: pa.Table) -> np.ndarray | None:
    """bool: which of them augmentation made, whose targets are its own; None if it made none."""
    made: np.ndarray = pc.is_valid(rows["targets"]).to_numpy()
    return made if made.any() else None


def _row_weights(context: Context, made: np.ndarray | None) -> np.ndarray | None:
    weights = context.config.augment.weights
    if weights == (1.0, 1.0) or made is None:
        return None
    return np.where(made[:, None], np.array(weights, np.float32), np.float32(1))
