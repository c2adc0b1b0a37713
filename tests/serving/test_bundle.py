"""A bundle answers as the model it was made of, and says which file is damaged."""

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from small_bundle import write_bundle

from jobs import verify as verify_job
from xmcspark import load
from xmcspark.errors import InputError
from xmcspark.matchers.scoring import Scoring
from xmcspark.serving.bundle import MANIFEST, read_manifest, verify
from xmcspark.serving.label_names import LabelNames
from xmcspark.serving.predictor import open_bundle

QUERIES = 40


@pytest.mark.parametrize("transform", ["l3-hinge", "l1-hinge"])
def test_answers_are_those_of_the_model_as_it_was_scored(trained, tmp_path, transform):
    data, tfidf, (model, _) = trained
    texts = data.test.texts.to_pylist()[:QUERIES]
    found = load(write_bundle(trained, tmp_path, transform=transform)).search(texts, k=5)
    wanted = model.with_scoring(Scoring(transform).transform).predict(tfidf.transform(texts), top_k=5)
    assert np.array_equal(found.labels, wanted.labels)
    assert np.array_equal(found.scores, wanted.scores)


def test_fewer_answers_of_an_ensemble_are_the_first_of_more(trained, tmp_path):
    texts = trained[0].test.texts.to_pylist()[:QUERIES]
    model = load(write_bundle(trained, tmp_path, members=2))
    assert np.array_equal(model.search(texts, k=3).labels, model.search(texts, k=10).labels[:, :3])


def test_one_text_is_answered_as_among_others(trained, tmp_path):
    texts = trained[0].test.texts.to_pylist()[:QUERIES]
    model = load(write_bundle(trained, tmp_path, members=2))
    assert [model.predict([text], k=4)[0] for text in texts] == model.predict(texts, k=4)


def test_answers_have_names(trained, tmp_path):
    data = trained[0]
    (answers,) = load(write_bundle(trained, tmp_path)).predict([data.test.texts[0].as_py()], k=2)
    assert [answer.key for answer in answers] == [f"k{answer.label}" for answer in answers]
    assert answers[0].text == data.label_texts[answers[0].label].as_py()
    assert answers[0].score >= answers[1].score


def test_one_text_in_place_of_a_list_is_refused(bundle):
    with pytest.raises(InputError, match="single string"):
        load(bundle).predict("red shoes")


def test_texts_are_seen_as_the_vectorizer_learned_them(trained, bundle):
    texts = trained[0].test.texts.to_pylist()[:3]
    seen = load(bundle).tfidf(texts)
    assert (seen != trained[1].transform(texts)).nnz == 0
    assert load(bundle).gram(int(seen.indices[0])) == trained[1].gram(int(seen.indices[0]))[1]


# ---- damage: what `load` and `./spark-submit.sh verify` say of it -------------------------------------------


def _said(capsys, *arguments):
    """(exit code, what verify says)."""
    code = verify_job.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def _change_manifest(folder, **changes):
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**document, **changes}))


def test_a_whole_bundle_is_verified(bundle, capsys):
    assert verify(bundle) == len(read_manifest(bundle)["files"]) > 10
    code, said = _said(capsys, bundle)
    assert code == 0
    assert f"{verify(bundle)} files are whole" in said


def test_verify_names_every_altered_file_which_opening_cannot_see(bundle, capsys):
    for name in ("0.bias.npy", "0.slots.npy"):
        path = bundle / "model" / "0" / name
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    load(bundle)
    code, said = _said(capsys, bundle)
    assert code == 4
    assert "0.bias.npy was altered" in said
    assert "0.slots.npy was altered" in said
    assert said.count("altered") == 2


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_truncated_or_missing_file_is_named_on_opening(bundle, capsys, damage):
    path = bundle / "labels" / "key.bytes.npy"
    if damage == "truncated":
        os.truncate(path, path.stat().st_size - 1)
    else:
        path.unlink()
    with pytest.raises(InputError, match=r"key\.bytes\.npy"):
        load(bundle)
    code, said = _said(capsys, bundle)
    assert code == 4
    assert "key.bytes.npy" in said


def test_all_missing_files_are_named_at_once(bundle):
    for name in ("key.bytes.npy", "text.bytes.npy"):
        (bundle / "labels" / name).unlink()
    with pytest.raises(InputError, match=r"(?s)key\.bytes\.npy is missing.*text\.bytes\.npy is missing"):
        load(bundle)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 99}, "format version 99"),
        ({"kind": "other"}, "not the manifest"),
        ({"files": {"../outside": {"size": 1, "sha256": ""}}}, "outside the bundle"),
        ({"files": {"/etc/hostname": {"size": 1, "sha256": ""}}}, "outside the bundle"),
        ({"files": {"tfidf/header.json": 7}}, "size and checksum"),
        ({"files": None}, "size and checksum"),
        ({"settings": None}, "settings"),
    ],
)
def test_a_manifest_of_something_else_is_refused(bundle, capsys, change, says):
    _change_manifest(bundle, **change)
    with pytest.raises(InputError, match=says):
        load(bundle)
    code, said = _said(capsys, bundle)
    assert code == 4
    assert says in said


def test_settings_of_another_release_are_refused(bundle):
    _change_manifest(bundle, settings={"transform": "l9-hinge", "combine": "product"})
    with pytest.raises(InputError, match="publish the run again"):
        load(bundle)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_to_outside_is_refused(bundle, tmp_path, capsys, what):
    inside = bundle / "labels" / ("key.bytes.npy" if what == "file" else "")
    outside = tmp_path / "outside"
    inside.rename(outside)
    inside.symlink_to(outside)
    with pytest.raises(InputError, match=r"key\.bytes\.npy is a link to outside"):
        load(bundle)
    code, said = _said(capsys, bundle)
    assert code == 4
    assert "is a link to outside the bundle" in said


def test_links_that_spark_left_for_tasks_are_followed(bundle, tmp_path):
    inside, outside = bundle / "labels" / "key.bytes.npy", tmp_path / "fetched"
    inside.rename(outside)
    inside.symlink_to(outside)
    assert open_bundle(bundle, linked=True).predict(["red"])


def test_a_link_to_the_whole_bundle_is_none_to_outside(bundle, tmp_path):
    (tmp_path / "current").symlink_to(bundle)
    assert load(tmp_path / "current").predict(["red"])


def test_a_folder_that_is_no_bundle_is_refused(tmp_path, capsys):
    code, said = _said(capsys, tmp_path)
    assert code == 4
    assert "not a published bundle" in said


# ---- names --------------------------------------------------------------------------------------------------


def test_names_of_ids_that_have_no_label_are_empty():
    names = LabelNames.of(np.array([2, 0], np.int32), pa.array(["b", "ä"]), pa.array([None, "A"]))
    assert [names.key(label) for label in range(3)] == ["ä", "", "b"]
    assert [names.text(label) for label in range(3)] == ["A", "", ""]
    with pytest.raises(InputError, match="label 3 is not one of 0 to 2"):
        names.key(3)


def test_a_label_is_found_by_its_key():
    keys = [f"{number * 7919 % 1000:x}" for number in range(900)] + ["ä", "日本"]
    order = np.random.default_rng(0).permutation(len(keys)).astype(np.int32)
    names = LabelNames.of(order, pa.array(keys), pa.array(keys))
    assert [names.label(key) for key in keys] == order.tolist()
    for absent in ("", "zzz", "Ä"):
        with pytest.raises(InputError, match="no label has the key"):
            names.label(absent)


def test_further_labels_get_the_ids_after_the_others():
    names = LabelNames.of(np.array([2, 0], np.int32), pa.array(["b", "ä"]), pa.array([None, "A"]))
    more = names.with_more(["new", "日本"], ["New", "Nippon"])
    assert [more.key(label) for label in range(5)] == ["ä", "", "b", "new", "日本"]
    assert (more.text(0), more.text(4)) == ("A", "Nippon")
    assert (more.label("b"), more.label("日本")) == (2, 4)
    with pytest.raises(
        InputError,
        match="'b' is the key of a label already; 'c' is given twice; 'd' has no text; 'e' has no text",
    ):
        names.with_more(["b", "c", "c", "d", "e"], ["B", "C", "C", " ", None])
    for keys, texts in (([17], ["New"]), (["new"], [17])):
        with pytest.raises(InputError, match="17 is of type int: keys and texts are strings"):
            names.with_more(keys, texts)


def test_a_model_without_a_dual_encoder_takes_no_further_labels(bundle):
    with pytest.raises(InputError, match="method: unidec"):
        load(bundle).with_new_labels({"new": "a new one"})


def test_files_that_nobody_listed_and_lists_without_files_are_refused(bundle):
    (bundle / "model" / "extra.npy").touch()
    with pytest.raises(InputError, match=r"extra\.npy is not in the manifest"):
        verify(bundle)
    (bundle / "model" / "extra.npy").unlink()
    _change_manifest(bundle, files={})
    with pytest.raises(InputError, match="lists nothing in model"):
        verify(bundle)
