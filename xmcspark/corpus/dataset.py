"""Folders of labelled texts: train.parquet and test.parquet (id, text, labels list<int32>), labels.parquet
(id, text) and, optionally, exclude.parquet (id, labels never to be predicted for that instance). Decides what
such a folder must hold, and reads its label lists as CSR matrices without touching single rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from xmcspark.errors import InputError

_FORMAT = "a dataset is train.parquet and test.parquet (id, text, labels) and labels.parquet (id, text)"


@dataclass(frozen=True)
class Split:
    """The instances of one split, in file order."""

    ids: pa.Array  # string[rows]
    texts: pa.Array  # large_string[rows]
    Y: sp.csr_matrix  # float32[rows, labels], sorted, ones


@dataclass(frozen=True)
class Dataset:
    """A training and a test split over the same labels."""

    train: Split
    test: Split
    label_texts: pa.Array  # large_string[labels], by label id
    exclude: sp.csr_matrix | None  # float32[test rows, labels]: 1 where a label may not be predicted

    @property
    def n_labels(self) -> int:
        return len(self.label_texts)


def read_dataset(path: str | Path) -> Dataset:
    """The dataset in the folder `path`; InputError says which file, column or row is wrong."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: {_FORMAT}")
    label_texts = _read_label_texts(folder / "labels.parquet")
    train = _read_split(folder / "train.parquet", len(label_texts))
    test = _read_split(folder / "test.parquet", len(label_texts))
    exclude = None
    if (folder / "exclude.parquet").exists():
        exclude = _read_exclude(folder / "exclude.parquet", test.ids, len(label_texts))
    return Dataset(train, test, label_texts, exclude)


def write_dataset(dataset: Dataset, path: str | Path) -> None:
    """Write `dataset` as a folder that `read_dataset` reads back; existing files are replaced."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, split in (("train", dataset.train), ("test", dataset.test)):
        table = pa.table({"id": split.ids, "text": split.texts, "labels": _lists_of(split.Y)})
        pq.write_table(table, folder / f"{name}.parquet")
    ids = pa.array(np.arange(dataset.n_labels, dtype=np.int32))
    pq.write_table(pa.table({"id": ids, "text": dataset.label_texts}), folder / "labels.parquet")
    if dataset.exclude is not None:
        table = pa.table({"id": dataset.test.ids, "labels": _lists_of(dataset.exclude)})
        pq.write_table(table, folder / "exclude.parquet")


def _read_split(path: Path, n_labels: int) -> Split:
    columns = _read_columns(path, ("id", "text", "labels"))
    texts = _as_strings(columns["text"], f"{path}, column text")
    ids = _as_strings(columns["id"], f"{path}, column id")
    return Split(ids, texts, _as_matrix(columns["labels"], n_labels, f"{path}, column labels"))


def _read_label_texts(path: Path) -> pa.Array:
    """Texts by label id; the ids must be 0..n-1, in any order."""
    columns = _read_columns(path, ("id", "text"))
    ids = columns["id"]
    if not pa.types.is_integer(ids.type) or ids.null_count:
        raise InputError(f"{path}, column id: label ids must be integers without nulls, not {ids.type}")
    numbers = ids.to_numpy(zero_copy_only=False)
    order = np.argsort(numbers, kind="stable")
    wrong = np.flatnonzero(numbers[order] != np.arange(len(numbers)))
    if len(wrong):
        raise InputError(
            f"{path}, column id: label ids must be 0..{len(numbers) - 1}, each once; {wrong[0]} is missing"
        )
    texts = _as_strings(columns["text"], f"{path}, column text")
    return texts.take(pa.array(order))


def _read_exclude(path: Path, test_ids: pa.Array, n_labels: int) -> sp.csr_matrix:
    """The exclusions lined up with the test rows by id; ids that are not in the test split are ignored."""
    columns = _read_columns(path, ("id", "labels"))
    ids = _as_strings(columns["id"], f"{path}, column id")
    given = _as_matrix(columns["labels"], n_labels, f"{path}, column labels")
    found = pc.index_in(test_ids, value_set=ids)
    row = found.to_numpy(zero_copy_only=False)
    here = np.flatnonzero(~np.isnan(row)) if found.null_count else np.arange(len(row))
    picker = sp.csr_matrix(
        (np.ones(len(here), np.float32), (here, row[here].astype(np.int64))), shape=(len(test_ids), len(ids))
    )
    return (picker @ given).tocsr()


def _read_columns(path: Path, names: tuple[str, ...]) -> dict[str, pa.Array]:
    if not path.exists():
        raise InputError(f"{path} does not exist: {_FORMAT}")
    try:
        # ParquetFile, not read_table: a folder named like a=b must not add a partition column.
        file = pq.ParquetFile(path)
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            has = ", ".join(file.schema_arrow.names)
            raise InputError(f"{path} has no column {', '.join(missing)} (it has {has}): {_FORMAT}")
        table = file.read(columns=list(names))
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    return {name: _one_chunk(table.column(name)) for name in names}


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, with 64-bit offsets so that no amount of text overflows them."""
    kind = column.type
    if pa.types.is_string(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_list(kind):
        column = column.cast(pa.large_list(kind.value_type))
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _as_strings(array: pa.Array, where: str) -> pa.Array:
    if not pa.types.is_large_string(array.type):
        raise InputError(f"{where}: strings are needed, not {array.type}")
    _refuse_nulls(array, where)
    return array


def _refuse_nulls(array: pa.Array, where: str) -> None:
    if array.null_count:
        row = pc.index(array.is_null(), pa.scalar(True)).as_py()
        raise InputError(f"{where}: row {row} is null; drop such rows or fill them")


def _as_matrix(lists: pa.Array, n_labels: int, where: str) -> sp.csr_matrix:
    """Lists of label ids as a matrix of ones; duplicates in a list count once."""
    if not pa.types.is_large_list(lists.type) or not pa.types.is_integer(lists.type.value_type):
        raise InputError(f"{where}: lists of integer label ids are needed, not {lists.type}")
    _refuse_nulls(lists, where)
    offsets = lists.offsets.to_numpy()
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    if values.null_count:
        raise InputError(f"{where}: a list contains a null label id; remove it")
    indices = values.to_numpy()
    indptr = offsets - offsets[0]
    bad = np.flatnonzero((indices < 0) | (indices >= n_labels))
    if len(bad):
        row = int(np.searchsorted(indptr, bad[0], side="right")) - 1
        raise InputError(
            f"{where}, row {row}: label id {indices[bad[0]]} is not in 0..{n_labels - 1}, "
            "the ids of labels.parquet"
        )
    ones = np.ones(len(indices), np.float32)
    Y = sp.csr_matrix((ones, indices.astype(np.int32), indptr), shape=(len(lists), n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1
    return Y


def _lists_of(matrix: sp.csr_matrix) -> pa.Array:
    offsets = pa.array(matrix.indptr.astype(np.int64))
    return pa.LargeListArray.from_arrays(offsets, pa.array(matrix.indices.astype(np.int32)))
