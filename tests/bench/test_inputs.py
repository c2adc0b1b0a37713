import pyarrow as pa
import pytest
import scipy.sparse as sp

from bench import inputs
from xmcspark.corpus.dataset import Dataset, Split, write_dataset
from xmcspark.corpus.synthetic import generate
from xmcspark.errors import InputError


def test_sizes_are_instances_by_labels():
    assert inputs.parse_size("300000x100000") == (300_000, 100_000)


@pytest.mark.parametrize("size", ["", "10", "10x", "10x5x2", "tenxfive", "-1x5"])
def test_other_sizes_are_refused_with_an_example(size):
    with pytest.raises(InputError, match="for example 300000x100000"):
        inputs.parse_size(size)


def test_line_breaks_do_not_make_documents(tmp_path):
    texts = pa.array(["a\nb", "", "c\r\u2028d"], pa.large_string())
    split = Split(pa.array(["1", "2", "3"]), texts, sp.csr_matrix((3, 2), dtype="f4"))
    inputs.write(Dataset(split, split, pa.array(["x", "y"]), None), tmp_path)
    assert (tmp_path / "train.txt").read_bytes().decode().split("\n") == ["a b", "", "c\r\u2028d"]


def test_a_name_is_looked_up_in_the_data_folder(tmp_path, monkeypatch):
    write_dataset(generate(20, 5), tmp_path / "small")
    monkeypatch.setenv("XMCSPARK_DATA", str(tmp_path))
    name, dataset = inputs.load("small", None, 0)
    assert name == "small"
    assert dataset.train.Y.shape == (20, 5)
