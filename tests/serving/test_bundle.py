"""A bundle answers as the model it was made of, and says which file is damaged."""

import json
import os

import numpy as np
import pyarrow as pa
import pytest

from xmcspark.corpus.synthetic import generate
from xmcspark.errors import InputError
from xmcspark.labels.features import pifa
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.train import train_matchers
from xmcspark.serving.bundle import MANIFEST, read_manifest, verify, write_manifest
from xmcspark.serving.label_names import LabelNames
from xmcspark.serving.predictor import load
from xmcspark.text import Tfidf
from xmcspark.tree.build import build_tree

QUERIES = 40


@pytest.fixture(scope="module")
def trained():
    data = generate(600, 80, seed=2)
    tfidf = Tfidf()
    X = tfidf.fit_transform(data.train.texts)
    models = [train_matchers(X, data.train.Y, build_tree(pifa(X, data.train.Y), seed=s)) for s in range(2)]
    return data, tfidf, models


def _bundle(trained, folder, members=1, transform="l3-hinge"):
    data, tfidf, models = trained
    tfidf.save(folder / "tfidf")
    for number, model in enumerate(models[:members]):
        model.searcher.save(folder / "model" / str(number))
    keys = pa.array([f"k{label}" for label in range(80)])
    LabelNames.of(np.arange(80, dtype=np.int32), keys, data.label_texts).save(folder / "labels")
    settings = {"members": members, "fusion": "average", "beam": 10, "top_k": 10}
    write_manifest(folder, {**settings, "transform": transform, "combine": "product"})
    return folder


@pytest.mark.parametrize("transform", ["l3-hinge", "l1-hinge"])
def test_answers_are_those_of_the_model_as_it_was_scored(trained, tmp_path, transform):
    data, tfidf, (model, _) = trained
    texts = data.test.texts.to_pylist()[:QUERIES]
    found = load(_bundle(trained, tmp_path, transform=transform)).search(texts, k=5)
    wanted = model.with_scoring(Scoring(transform).transform).predict(tfidf.transform(texts), top_k=5)
    assert np.array_equal(found.labels, wanted.labels)
    assert np.array_equal(found.scores, wanted.scores)


def test_fewer_answers_of_an_ensemble_are_the_first_of_more(trained, tmp_path):
    texts = trained[0].test.texts.to_pylist()[:QUERIES]
    model = load(_bundle(trained, tmp_path, members=2))
    assert np.array_equal(model.search(texts, k=3).labels, model.search(texts, k=10).labels[:, :3])


def test_answers_have_names(trained, tmp_path):
    data = trained[0]
    (answers,) = load(_bundle(trained, tmp_path)).predict([data.test.texts[0].as_py()], k=2)
    assert [answer.key for answer in answers] == [f"k{answer.label}" for answer in answers]
    assert answers[0].text == data.label_texts[answers[0].label].as_py()
    assert answers[0].score >= answers[1].score


def test_a_whole_bundle_is_verified(trained, tmp_path):
    folder = _bundle(trained, tmp_path)
    assert verify(folder) == len(read_manifest(folder)["files"]) > 10


def test_an_altered_file_is_named_by_verify(trained, tmp_path):
    folder = _bundle(trained, tmp_path)
    path = folder / "model" / "0" / "0.bias.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"0\.bias\.npy was altered"):
        verify(folder)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_truncated_or_missing_file_is_named_on_opening(trained, tmp_path, damage):
    folder = _bundle(trained, tmp_path)
    path = folder / "labels" / "key.bytes.npy"
    if damage == "truncated":
        os.truncate(path, path.stat().st_size - 1)
    else:
        path.unlink()
    with pytest.raises(InputError, match=r"key\.bytes\.npy"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 99}, "format version 99"),
        ({"kind": "other"}, "not the manifest"),
        ({"files": {"../outside": {"size": 1, "sha256": ""}}}, "outside the bundle"),
    ],
)
def test_a_manifest_of_something_else_is_refused(trained, tmp_path, change, says):
    folder = _bundle(trained, tmp_path)
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**document, **change}))
    with pytest.raises(InputError, match=says):
        load(folder)


def test_names_of_ids_that_have_no_label_are_empty():
    names = LabelNames.of(np.array([2, 0], np.int32), pa.array(["b", "ä"]), pa.array([None, "A"]))
    assert [names.key(label) for label in range(3)] == ["ä", "", "b"]
    assert [names.text(label) for label in range(3)] == ["A", "", ""]
    with pytest.raises(InputError, match="label 3 is not one of 0 to 2"):
        names.key(3)
