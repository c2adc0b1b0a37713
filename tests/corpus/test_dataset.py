import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.corpus.dataset import Dataset, Split, read_dataset, write_dataset
from xmcspark.errors import InputError

LISTS = pa.list_(pa.int32())


def write(folder, **changes):
    """A good dataset of 3 labels, with some of its files replaced (None: left out)."""
    files = {
        "train": {"id": ["a", "b"], "text": ["x", "y z"], "labels": pa.array([[0, 2], [1]], LISTS)},
        "test": {"id": ["c", "d"], "text": ["z", ""], "labels": pa.array([[2], []], LISTS)},
        "labels": {"id": pa.array([0, 1, 2], pa.int32()), "text": ["l0", "l1", "l2"]},
        **changes,
    }
    for name, columns in files.items():
        if columns is not None:
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def test_a_folder_is_read_as_texts_and_csr(tmp_path):
    dataset = read_dataset(write(tmp_path))
    assert dataset.train.texts.to_pylist() == ["x", "y z"]
    assert dataset.train.ids.to_pylist() == ["a", "b"]
    assert dataset.train.Y.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert dataset.test.Y.toarray().tolist() == [[0, 0, 1], [0, 0, 0]]
    assert dataset.train.Y.dtype == np.float32
    assert dataset.label_texts.to_pylist() == ["l0", "l1", "l2"]
    assert dataset.exclude is None


def test_label_texts_are_in_the_order_of_their_ids(tmp_path):
    labels = {"id": pa.array([2, 0, 1], pa.int64()), "text": ["l2", "l0", "l1"]}
    assert read_dataset(write(tmp_path, labels=labels)).label_texts.to_pylist() == ["l0", "l1", "l2"]


def test_exclusions_follow_the_ids_of_the_test_rows(tmp_path):
    exclude = {"id": ["d", "elsewhere"], "labels": pa.array([[1], [0]], LISTS)}
    dataset = read_dataset(write(tmp_path, exclude=exclude))
    assert dataset.exclude.toarray().tolist() == [[0, 0, 0], [0, 1, 0]]


def test_unsorted_and_repeated_labels_become_sorted_ones(tmp_path):
    train = {"id": ["a"], "text": ["x"], "labels": pa.array([[2, 0, 2]], LISTS)}
    Y = read_dataset(write(tmp_path, train=train)).train.Y
    assert Y.indices.tolist() == [0, 2]
    assert Y.data.tolist() == [1, 1]


@pytest.mark.parametrize("missing", ["train", "test", "labels"])
def test_a_missing_file_is_named(tmp_path, missing):
    with pytest.raises(InputError, match=rf"{missing}\.parquet does not exist"):
        read_dataset(write(tmp_path, **{missing: None}))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere is not a folder"):
        read_dataset(tmp_path / "nowhere")


def test_a_file_that_is_not_parquet_is_named(tmp_path):
    (write(tmp_path) / "test.parquet").write_bytes(b"not parquet, whatever its name says")
    with pytest.raises(InputError, match=r"test\.parquet cannot be read as Parquet"):
        read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"id": ["a"], "text": ["x"]}}, "has no column labels"),
        ({"train": {"id": ["a"], "text": [None], "labels": pa.array([[0]], LISTS)}}, "strings are needed"),
        (
            {"train": {"id": ["a", "b"], "text": ["x", None], "labels": pa.array([[0], [1]], LISTS)}},
            "column text: row 1 is null",
        ),
        ({"train": {"id": ["a"], "text": ["x"], "labels": pa.array([None], LISTS)}}, "row 0 is null"),
        ({"train": {"id": ["a"], "text": ["x"], "labels": pa.array([[None]], LISTS)}}, "null label id"),
        ({"train": {"id": ["a"], "text": ["x"], "labels": pa.array([["0"]])}}, "lists of integer label ids"),
        ({"train": {"id": ["a"], "text": ["x"], "labels": pa.array([0])}}, "lists of integer label ids"),
        (
            {"train": {"id": ["a", "b"], "text": ["x", "y"], "labels": pa.array([[0], [1, 3]], LISTS)}},
            "row 1: label id 3 is not in 0..2",
        ),
        ({"test": {"id": ["a"], "text": ["x"], "labels": pa.array([[-1]], LISTS)}}, "label id -1"),
        ({"labels": {"id": pa.array([0, 1, 3]), "text": ["a", "b", "c"]}}, "2 is missing"),
        ({"labels": {"id": pa.array([0, 0, 1]), "text": ["a", "b", "c"]}}, "each once"),
        ({"labels": {"id": ["0", "1", "2"], "text": ["a", "b", "c"]}}, "must be integers"),
    ],
)
def test_bad_content_is_refused_with_its_place(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_dataset(write(tmp_path, **changes))


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(max_size=5), st.sets(st.integers(0, 8))), max_size=6),
    excluded=st.booleans(),
)
def test_what_is_written_is_read_back(tmp_path_factory, rows, excluded):
    texts = pa.array([text for text, _ in rows], pa.large_string())
    ids = pa.array([str(i) for i in range(len(rows))], pa.large_string())
    Y = sp.lil_matrix((len(rows), 9), dtype=np.float32)
    for i, (_, labels) in enumerate(rows):
        Y[i, list(labels)] = 1
    split = Split(ids, texts, Y.tocsr())
    labels = pa.array([f"label {i}" for i in range(9)], pa.large_string())
    folder = tmp_path_factory.mktemp("data")
    write_dataset(Dataset(split, split, labels, split.Y if excluded else None), folder)
    back = read_dataset(folder)
    assert back.train.texts.equals(texts)
    assert back.test.ids.equals(ids)
    assert back.label_texts.equals(labels)
    assert (back.train.Y != split.Y).nnz == 0
    assert (back.exclude is None) != excluded
    if excluded:
        assert (back.exclude != split.Y).nnz == 0
