"""Saved models: the same after loading, mapped rather than read, and refused when damaged."""

import json
import unicodedata

import numpy as np
import pytest

from xmcspark.errors import ConfigError, InputError
from xmcspark.store.arrays import HEADER
from xmcspark.text.tfidf import Tfidf, Vectorizer

TEXTS = ["red running shoes", "blue shoes größe 42", "a waterproof-jacket 👟", ""]
VECTORIZERS = (
    Vectorizer("word", (1, 3), name="words"),
    Vectorizer("char_wb", (3, 4), norm=None),
    Vectorizer("char", (9, 9), max_features=5),
)


@pytest.fixture
def folder(tmp_path):
    Tfidf(VECTORIZERS, normalize="lower", joint_norm="l1").fit(TEXTS).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_loaded_model_is_the_saved_one(folder):
    model = Tfidf(VECTORIZERS, normalize="lower", joint_norm="l1").fit(TEXTS)
    loaded = Tfidf.load(folder, threads=2)
    assert loaded.settings == model.settings
    one, other = model.rows(TEXTS), loaded.rows(TEXTS)
    assert np.array_equal(one.indices, other.indices)
    assert np.array_equal(one.data, other.data)
    assert np.array_equal(loaded.transform_one(TEXTS[1])[1], model.transform_one(TEXTS[1])[1])
    assert [loaded.gram(f) for f in range(loaded.n_features)] == [
        model.gram(f) for f in range(model.n_features)
    ]
    assert loaded.vocabulary.documents == 4


def test_arrays_are_mapped_and_nothing_is_pickled(folder):
    loaded = Tfidf.load(folder)
    assert all(isinstance(_root(array), np.memmap) for array in loaded._ready().arrays.values() if array.size)
    assert {path.suffix for path in folder.iterdir()} == {".json", ".npy"}


def test_the_header_says_which_unicode_the_texts_were_normalized_with(folder):
    assert json.loads((folder / HEADER).read_text())["unicode"] == unicodedata.unidata_version


def _root(array):
    while not isinstance(array, np.memmap) and array.base is not None:
        array = array.base
    return array


def test_a_loaded_model_can_be_saved_over_itself(folder):
    loaded = Tfidf.load(folder)
    expected = loaded.rows(TEXTS).data
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    loaded.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert np.array_equal(loaded.rows(TEXTS).data, expected)


def test_settings_that_are_numbers_of_numpy_are_saved(tmp_path):
    model = Tfidf([Vectorizer(max_features=np.int64(3))]).fit(TEXTS)
    model.save(tmp_path)
    assert Tfidf.load(tmp_path).settings == model.settings


def test_every_missing_file_is_named(folder):
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(InputError, match=path.name):
            Tfidf.load(folder)
        path.write_bytes(content)
    Tfidf.load(folder)


def test_every_truncated_file_is_refused(folder):
    for path in sorted(folder.glob("*.npy")):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(InputError, match=path.name):
            Tfidf.load(folder)
        path.write_bytes(content)


def test_scrambled_arrays_never_crash(folder):
    random = np.random.default_rng(0)
    for path in sorted(folder.glob("lookup.*.npy")):
        content = path.read_bytes()
        for _ in range(5):
            noise = bytearray(content)
            noise[128:] = random.integers(0, 256, len(content) - 128, dtype=np.uint8).tobytes()
            path.write_bytes(bytes(noise))
            model = Tfidf.load(folder)
            X = model.rows([*TEXTS, "x " * 50])
            assert X.nnz == 0 or X.indices.max() < model.n_features
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "other"}, "where a TF-IDF model is expected"),
        ({"version": 99}, "version 99"),
        ({"arrays": None}, "lists no arrays"),
        ({"arrays": {}}, "not a usable"),
        ({"settings": {}}, "settings"),
        ({"documents": None, "arrays": {"x": {"file": "../x.npy"}}}, "file name"),
    ],
)
def test_foreign_headers_are_refused(folder, change, message):
    path = folder / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises((InputError, ConfigError), match=message):
        Tfidf.load(folder)


def test_arrays_of_another_model_are_refused(folder, tmp_path):
    Tfidf(VECTORIZERS).fit(["other words"]).save(tmp_path / "other")
    (folder / "vocabulary.idf.npy").write_bytes((tmp_path / "other" / "vocabulary.idf.npy").read_bytes())
    with pytest.raises(InputError, match=r"vocabulary.idf.npy.*do not belong together"):
        Tfidf.load(folder)


def test_a_header_that_is_no_json_is_refused(folder):
    (folder / HEADER).write_text("{")
    with pytest.raises(InputError, match="JSON"):
        Tfidf.load(folder)
