"""UniDEC from a corpus to a published model on Spark: what is predicted is what the library predicts, on any partitions
and after a kill, and what is served is what was predicted."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import needs_torch  # noqa: F401
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from neural_run import TRAIN, configuration, make_corpus, run_to
from small_set import LABELS, WORDS

import xmcspark
from xmcspark.errors import ConfigError, InputError
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.members import Members, TreeMember
from xmcspark.matchers.model_spark import member_settings
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.unidec.task import UnidecTask
from xmcspark.neural.unidec.text_model import train_unidec
from xmcspark.neural.unidec.vectors_spark import _searched_labels
from xmcspark.serving.functions_spark import register_functions
from xmcspark.serving.verify_spark import verify_run
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runs import Run

SMALL = (
    "encoder.epochs=2.0",
    "encoder.learning_rate=0.0003",
    "unidec.dual_width=16",
    "unidec.classifier_width=12",
    "unidec.batch_size=16",
    "unidec.positives=2",
    "unidec.hard_negatives=2",
    "unidec.refresh_epochs=1",
    "unidec.head_learning_rate=0.003",
    "unidec.table_learning_rate=0.03",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("unidec") / "data"


@pytest.fixture(scope="module")
def corpus(data):
    return make_corpus(data)


def asked(data, model, *overrides, run="run"):
    return configuration(data, model, "unidec", *SMALL, *overrides, run=run)


@pytest.fixture(scope="module")
def published(spark, data, corpus, tiny_folder):
    """A run of all stages."""
    return run_to(spark, asked(data, tiny_folder), "publish")[0]


def predictions_of(run):
    rows = pq.read_table(run.fs.local_path(run.table("predictions"))).sort_by("id")
    return {row["id"]: (row["labels"], row["scores"]) for row in rows.to_pylist()}


def local_model(config, corpus, folder, excluded=None):
    """Trained by the library alone, on the same rows in the same order."""
    rows = sorted(corpus[:TRAIN], key=lambda row: int(text_hashes(pa.array([row[0]]))[0]))
    Y = np.zeros((TRAIN, LABELS), np.float32)
    for at, (_, _, labels) in enumerate(rows):
        Y[at, labels] = 1
    cells = np.zeros_like(Y)
    for at, (name, _, _) in enumerate(rows):
        cells[at, (excluded or {}).get(name, [])] = 1
    return train_unidec(
        [text for _, text, _ in rows],
        as_csr(Y).to_scipy(),
        config.encoder,
        config.unidec,
        folder=folder,
        label_texts=WORDS[:LABELS],
        row_keys=np.array([int(text_hashes(pa.array([name]))[0]) for name, _, _ in rows]),
        excluded=as_csr(cells) if excluded else None,
        seed=config.seed,
    )


def assert_alike(found, expected):
    """Scores agree; labels do wherever scores tell them apart."""
    assert found.keys() == expected.keys()
    for name in expected:
        (labels, scores), (right, values) = found[name], expected[name]
        np.testing.assert_allclose(scores, values, atol=1e-4)
        apart = np.abs(np.diff(values, append=values[-1] - 1)) > 1e-3
        assert set(labels) == set(right) or not apart.all()


def test_predictions_are_those_of_the_library(published, data, corpus, tiny_folder, tmp_path):
    texts = {name: text for name, text, _ in corpus[TRAIN:]}
    found = local_model(asked(data, tiny_folder), corpus, tmp_path).predict(list(texts.values()))
    expected = {name: (found.labels[at].tolist(), found.scores[at].tolist()) for at, name in enumerate(texts)}
    assert_alike(predictions_of(published), expected)


def test_labels_that_are_excluded_are_not_trained_against(spark, data, corpus, tiny_folder, tmp_path):
    names = [name for name, _, _ in corpus[:TRAIN]]
    excluded = {name: [at % LABELS, (at + 7) % LABELS] for at, name in enumerate(names) if at % 3}
    labels = pa.array(excluded.values(), pa.list_(pa.int32()))
    pq.write_table(pa.table({"id": list(excluded), "labels": labels}), data / "never.parquet")
    config = asked(data, tiny_folder, f"input.exclude={data}/never.parquet", run="never")
    run, _ = run_to(spark, config, "predict")
    texts = {name: text for name, text, _ in corpus[TRAIN:]}
    found = local_model(config, corpus, tmp_path, excluded).predict(list(texts.values()))
    expected = {name: (found.labels[at].tolist(), found.scores[at].tolist()) for at, name in enumerate(texts)}
    assert_alike(predictions_of(run), expected)


def test_stages_of_trees_leave_empty_tables(published):
    for table in ("label_features", "tree_nodes", "tree_labels", "matchers", "sub_tree_load"):
        assert pq.read_table(published.fs.local_path(published.table(table))).num_rows == 0
    notes = published.record("train").notes["unidec"]
    assert (notes["labels"], notes["width"], notes["search"]) == (LABELS, 28, "exact")
    (task,) = published.record("encode").notes["tasks"]
    assert task["task"] == "unidec"
    assert task["steps"] == 14
    assert all(task["pools"][head]["positives"] > 2 for head in ("dual", "classifier"))


def bundle_of(run):
    return Path(run.fs.local_path(run.folder("bundle")))


def test_what_is_served_is_what_was_predicted(spark, published, corpus):
    texts = {name: text for name, text, _ in corpus[TRAIN:]}
    model, predicted = xmcspark.load(bundle_of(published)), predictions_of(published)
    for name, text in list(texts.items())[:5]:
        answers = model.predict([text], k=3)[0]
        np.testing.assert_allclose([a.score for a in answers], predicted[name][1][:3], atol=1e-4)
        (path,) = model.explain(text, answers[0].label)
        assert path.score == pytest.approx(answers[0].score, abs=1e-5)
        assert [term.gram for term in path.steps[0].terms] == ["dual head", "classifier head"]
        assert path.margin == pytest.approx(path.score, abs=1e-5)
    assert verify_run(published) > 0
    register_functions(spark, str(bundle_of(published)), k=3)
    rows = spark.createDataFrame(list(texts.items()), "id string, text string")
    found = rows.selectExpr("id", "xmc_predict(text) found", "xmc_explain(text, 3) why").collect()
    for row in found:
        np.testing.assert_allclose([a.score for a in row.found], predicted[row.id][1][:3], atol=1e-4)
        assert [term.gram for term in row.why] == [None, "dual head", "classifier head"]


def test_new_labels_are_found_by_their_texts(published):
    model = xmcspark.load(bundle_of(published))
    more = model.with_new_labels({"sea": "travels of the sea", "war": "history of war"})
    best = more.predict(["travels of the sea"], k=1)[0][0]
    assert (best.key, best.label) == ("sea", LABELS)
    assert best.score == pytest.approx(2, abs=1e-4)  # as of a trained label that both heads find equal
    found = {answer.key: answer for answer in more.predict(["old art"], k=LABELS + 2)[0]}
    assert len(found) == LABELS + 2
    known = [answer for answer in found.values() if answer.label < LABELS]
    assert known == model.predict(["old art"], k=LABELS)[0]
    (path,) = more.explain("old art", "war")
    assert path.score == pytest.approx(found["war"].score, abs=1e-5)
    (step,) = path.steps
    assert [term.gram for term in step.terms] == ["dual head", "dual head in place of the classifier"]
    assert step.terms[0].contribution == step.terms[1].contribution <= 1
    for texts, complaint in (
        ({"0": "cat"}, "already"),
        ({"new": " "}, "no text"),
        ({}, "at least one"),
        (["cat"], "given as key: text"),
    ):
        with pytest.raises(InputError, match=complaint):
            model.with_new_labels(texts)


def test_vectors_of_another_fine_tuning_are_refused(published, data, tiny_folder, tmp_path):
    folder = bundle_of(published) / "model"
    settings = member_settings(asked(data, tiny_folder), published)
    assert len(Members.load(folder, settings)) == 1
    with pytest.raises(InputError, match="not of another"):
        Members.load(folder, replace(settings, unidec="another"))
    shutil.copytree(bundle_of(published), tmp_path / "bundle")
    (tmp_path / "bundle" / "model" / "unidec" / "vectors" / "vectors.npy").unlink()
    with pytest.raises(InputError, match="is missing"):
        xmcspark.load(tmp_path / "bundle")
    (member,) = Members.load(folder, settings).members
    with pytest.raises(InputError, match=r"5 values, and the heads read \[64\]"):
        member.search.search(np.zeros((1, 5), np.float32), 3)
    nothing = SimpleNamespace(fs=published.fs, run=published)
    with pytest.raises(InputError, match="nothing to search"):
        _searched_labels(nothing, np.array([], np.int64))


def test_a_killed_run_on_other_partitions_predicts_the_same(
    spark, data, corpus, published, tiny_folder, monkeypatch
):
    plain, calls = UnidecTask.loss, []

    def dying(self, encoder, rows):
        calls.append(rows)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return plain(self, encoder, rows)

    config = asked(data, tiny_folder, "encoder.checkpoint_every=2", run="killed")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1024")
    monkeypatch.setattr(UnidecTask, "loss", dying)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_to(spark, config, "encode")
        monkeypatch.setattr(UnidecTask, "loss", plain)
        run, _ = run_to(spark, config, "predict")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    (task,) = run.record("encode").notes["tasks"]
    assert task["resumed_at"] == 8
    one, other = (TextEncoder.load(bundle_of(of) / "encoder").weights_hash() for of in (run, published))
    assert one == other
    assert_alike(predictions_of(run), predictions_of(published))
    other_space = asked(data, tiny_folder, "unidec.space=dual", run="killed")
    run, outcomes = run_to(spark, other_space, "predict")
    assert [outcome.skipped for outcome in outcomes] == [True] * 5 + [
        False
    ] * 2  # nothing is fine-tuned for that
    assert run.record("train").notes["unidec"]["heads"] == ["dual"]


def test_a_tree_on_tfidf_stands_beside_it(spark, data, corpus, tiny_folder):
    """With made instances that join when the classifier does, excluded labels and an index."""
    pytest.importorskip("faiss")
    names = [name for name, _, _ in corpus[TRAIN:]]
    excluded = {name: [at % LABELS, (at + 5) % LABELS] for at, name in enumerate(names)}
    labels = pa.array(excluded.values(), pa.list_(pa.int32()))
    pq.write_table(pa.table({"id": names, "labels": labels}), data / "exclude.parquet")
    overrides = (
        "ensemble.members=1",
        "augment.gandalf=true",
        "unidec.extend=0.5",
        "unidec.search=approximate",
    )
    config = asked(data, tiny_folder, *overrides, f"input.exclude={data}/exclude.parquet", run="beside")
    run, _ = run_to(spark, config, "publish")
    first, second = run.record("encode").notes["tasks"]
    assert (first["task"], second["task"]) == ("dual", "unidec")
    # Batches of 16: an epoch over 110 observed instances, then one with 24 made ones.
    assert (first["steps"], second["steps"]) == (7, 9)
    assert run.record("augment").notes["rows"] > 0
    assert run.record("train").notes["unidec"]["search"] == "approximate"
    predicted = predictions_of(run)
    assert not any(set(predicted[name][0]) & set(excluded[name]) for name in names)

    model = xmcspark.load(bundle_of(run))
    tree, nearest = model.members.members
    assert isinstance(tree, TreeMember)
    assert tree.searcher.width == 0
    X = model.reader.rows([text for _, text, _ in corpus[TRAIN:]])
    without = as_csr(np.array([np.isin(np.arange(LABELS), excluded[name]) for name in names], np.float32))
    parts = [member.predict(X, without, beam=4, top_k=10) for member in (tree, nearest)]
    expected = fuse(parts, "normalised", top_k=10)
    rows = {
        name: (expected.labels[at].tolist(), expected.scores[at].tolist()) for at, name in enumerate(names)
    }
    assert_alike(predicted, rows)
    paths = model.explain(corpus[TRAIN][1], predicted[names[0]][0][0])
    assert [path.member for path in paths] == [0, 1]
    assert [term.gram for term in paths[1].steps[0].terms] == ["dual head", "classifier head"]


def test_labels_without_texts_need_the_classifier(spark, data, corpus, tiny_folder):
    bare = data.parent / "bare"
    make_corpus(bare)
    nothing = pa.array([None] * LABELS, pa.string())
    pq.write_table(
        pa.table({"id": pa.array(range(LABELS), pa.int32()), "text": nothing}), bare / "labels.parquet"
    )
    alone = "unidec.heads=[classifier]"
    for config, error, told in (
        (asked(bare, tiny_folder), InputError, r"24 of 24 labels have no text.*heads to \[classifier\]"),
        (
            asked(bare, tiny_folder, "unidec.without_text=leave-out"),
            InputError,
            r"24 of 24 labels have no text.*for logs\)$",
        ),
        (
            asked(bare, tiny_folder, alone, "unidec.hard_negatives=24"),
            ConfigError,
            "only 24 labels have instances",
        ),
    ):
        for _ in range(2):  # also when the corpus is there already
            with pytest.raises(error, match=told):
                run_to(spark, config, "encode")
        run = Run(Filesystem(spark), config.run.root, str(config.run.id))
        assert run.find_record("corpus") is not None
        assert run.find_record("augment") is None, "nothing else was done"
    config = asked(bare, tiny_folder, alone, "unidec.positives=40", "encoder.epochs=1.0")
    run, _ = run_to(spark, config, "predict")
    assert "no instance has more than" in run.record("encode").notes["warnings"][0]
    assert run.record("train").notes["unidec"]["heads"] == ["classifier"]
    assert len(predictions_of(run)) == len(corpus) - TRAIN


def test_labels_without_texts_are_left_out_if_asked_for(spark, corpus, tiny_folder, tmp_path):
    few = tmp_path / "few"
    make_corpus(few)
    texts = pa.array([None if label % 4 == 0 else WORDS[label] for label in range(LABELS)], pa.string())
    pq.write_table(
        pa.table({"id": pa.array(range(LABELS), pa.int32()), "text": texts}), few / "labels.parquet"
    )
    config = asked(few, tiny_folder, "unidec.without_text=leave-out", "unidec.hard_negatives=18")
    with pytest.raises(ConfigError, match="only 18 labels have instances"):
        run_to(spark, config, "encode")
    run = Run(Filesystem(spark), config.run.root, str(config.run.id))
    assert [record.stage for record in run.records()] == ["corpus"], "nothing else was done"
    config = asked(few, tiny_folder, "unidec.without_text=leave-out", "encoder.epochs=1.0")
    run, _ = run_to(spark, config, "predict")
    assert "6 of 24 labels have no text: they are left out" in run.record("encode").notes["warnings"][0]
    assert run.record("train").notes["unidec"]["labels"] == 18
    assert all(label % 4 for labels, _ in predictions_of(run).values() for label in labels)
