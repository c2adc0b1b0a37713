"""Augmentation on Spark makes the rows and the model that the local library makes, and says what it did."""

import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from augment_run import LABELS, label_texts, labels_of, make_corpus, run_to

from xmcspark.config.configuration import load
from xmcspark.errors import InputError
from xmcspark.labels.augment_settings import AugmentSettings
from xmcspark.labels.augment_spark import STAGE
from xmcspark.labels.augmented_training import Instances, mixtures
from xmcspark.labels.cooccurrence_spark import CooccurrencePlan, _parts
from xmcspark.labels.soft_targets import gandalf_rows
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.row_hash import text_hashes
from xmcspark.store.stage import read_table


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("augment")
    return folder, make_corpus(folder)


def made_rows(spark, run):
    """{label: {label: target}} of the table augmented."""
    rows = read_table(spark, run, "augmented").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.label: dict(zip(row.labels, row.targets, strict=True)) for row in rows}


def local_rows(Y, **settings):
    ids, targets = gandalf_rows(Y, AugmentSettings(**settings))
    targets = as_csr(targets)
    found = {}
    for at, label in enumerate(ids.tolist()):
        row = slice(targets.indptr[at], targets.indptr[at + 1])
        found[label] = dict(zip(targets.indices[row].tolist(), targets.data[row].tolist(), strict=True))
    return found


def test_cooccurrence_is_that_of_scipy_and_rows_are_those_of_the_local_library(spark, corpus, small_splits):
    folder, rows = corpus
    run, _ = run_to(spark, folder, "augment", "augment.gandalf=true", "augment.validation_share=0")
    Y = labels_of(rows[:-40])
    G = (Y.T @ Y).tocsr()
    G.sort_indices()
    for row in read_table(spark, run, "cooccurrence").collect():
        whole = G[row.label]
        assert row.neighbours == whole.indices.tolist()
        assert row.counts == whole.data.astype(int).tolist()
        own = G[row.label, row.label]
        assert row.probability == (whole.data.astype(np.float64) / own).astype(np.float32).tolist()
    named = {label for label, text in enumerate(label_texts()) if text is not None}
    expected = {label: row for label, row in local_rows(Y).items() if label in named}
    assert made_rows(spark, run) == expected
    notes = run.record("augment").notes
    assert (notes["rows"], notes["labels_with_text"]) == (LABELS - 1, LABELS - 1)
    assert notes["neighbours_cut"] == notes["labels_of_instances_cut"] == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"targets": "self"},
        {"targets": "glas"},
        {"graph": "random-walk", "walk_length": 50},
        {"max_neighbours": 2, "delta": 0.3},
        {"share": 0.5, "sample": "tail"},
    ],
    ids=str,
)
def test_variants_are_those_of_the_local_library(spark, corpus, settings):
    folder, rows = corpus
    overrides = [f"augment.{name}={value}" for name, value in settings.items()]
    name = "-".join(settings)
    told = ("augment.gandalf=true", "augment.validation_share=0", *overrides)
    run, _ = run_to(spark, folder, "augment", *told, run=name)
    expected = local_rows(labels_of(rows[:-40]), **settings)
    expected.pop(LABELS - 2, None)
    assert made_rows(spark, run) == expected


def test_made_rows_are_trained_on_with_their_targets(spark, corpus):
    folder, rows = corpus
    run, _ = run_to(
        spark, folder, "index", "augment.gandalf=true", "augment.validation_share=0", run="trained"
    )
    features = read_table(spark, run, "features").where("split = 'train'").collect()
    made = [row for row in features if row.targets is not None]
    assert len(features) == len(rows) - 40 + LABELS - 1
    assert len(made) == LABELS - 1
    assert all(len(row.targets) == len(row.labels) for row in made)
    (root,) = read_table(spark, run, "tree_nodes").where("node = 0").collect()
    assert root.n_rows == len(features)


@pytest.mark.parametrize(("training", "few"), [("labels", LABELS - 1), ("sample", 200)])
def test_what_is_trained_on_can_be_label_texts_only_or_as_many_rows_as_before(spark, corpus, training, few):
    folder, _ = corpus
    settings = ("augment.gandalf=true", "augment.validation_share=0", f"augment.training={training}")
    run, _ = run_to(spark, folder, "vectorize", *settings, run=training)
    features = read_table(spark, run, "features")
    assert features.where("split = 'test'").count() == 40
    trained = features.where("split = 'train'")
    assert abs(trained.count() - few) <= (0 if training == "labels" else 40)
    assert (trained.where("targets is null").count() == 0) == (training == "labels")
    assert run.record("vectorize").notes["documents"] <= 200


def test_auto_tries_and_says_why(spark, corpus):
    folder, _ = corpus
    run, _ = run_to(
        spark, folder, "augment", "augment.gandalf=auto", "augment.validation_share=0.3", run="auto"
    )
    notes = run.record("augment").notes
    assert "held-out instances" in notes["trial"]["why"]
    assert (notes["rows"] > 0) == notes["trial"]["use"]


def test_what_decides_auto_is_part_of_the_stages_key():
    """A run with other propensities asks again; more memory for a task, or no decision, changes nothing."""
    decide = {"text", "tree", "train.loss", "predict.beam", "evaluate.propensity", "evaluate.propensity_a"}
    for gandalf, matter in (("auto", decide), ("true", set())):
        keys = STAGE.deciding_keys(load(None, ["run.root=/r", f"augment.gandalf={gandalf}"]))
        assert decide.intersection(keys) == matter
        assert not {"train", "predict", "train.task_memory_mb", "train.waves"}.intersection(keys)


def test_tables_that_do_not_belong_together_are_refused_before_native_code_reads_them():
    plan = CooccurrencePlan(label_ids=4, max_labels=9, max_neighbours=9, seed=0, threads=1, block_size=8)
    labels = pa.array([[0, 3], [1, 4]], pa.list_(pa.int32()))
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), labels], names=["id", "labels"])
    with pytest.raises(InputError, match=r"names label 4, but labels ends at 3: .* again from corpus on"):
        list(_parts(plan, iter([batch])))


@pytest.mark.parametrize("mixup", ["mixup", "label-mixup"])
def test_mixtures_are_those_of_the_local_library(spark, corpus, mixup):
    folder, rows = corpus
    run, config = run_to(spark, folder, "vectorize", f"augment.mixup={mixup}", run=mixup)
    ids, texts, _ = zip(*rows[:-40], strict=True)
    observed = Instances(texts, as_csr(labels_of(rows[:-40])), text_hashes(pa.array(ids)))
    named = np.array([text is not None for text in label_texts()])
    local = mixtures(observed, label_texts(), named, config.augment, config.seed)
    expected = {
        (text, partner, share): dict(zip(Y.indices.tolist(), Y.data.tolist(), strict=True))
        for text, partner, share, Y in zip(
            local.texts, local.partners, local.shares.tolist(), local.Y.to_scipy(), strict=True
        )
    }
    made = read_table(spark, run, "augmented").collect()
    found = {
        (row.text, row.partner_text, row.mix): dict(zip(row.labels, row.targets, strict=True)) for row in made
    }
    assert found == expected
    assert len(made) == len(local.texts)
    features = read_table(spark, run, "features")
    assert features.where("targets is not null").count() == len(made)


def test_instances_that_are_labels_are_warned_of(spark, tmp_path, caplog):
    make_corpus(tmp_path)
    table = pq.read_table(tmp_path / "test.parquet")
    renamed = table.set_column(0, "id", pa.array([str(i) for i in range(table.num_rows)]))
    pq.write_table(renamed, tmp_path / "test.parquet")
    with caplog.at_level(logging.WARNING):
        run_to(spark, tmp_path, "augment", "augment.gandalf=true", "augment.validation_share=0")
    assert "40 of 40 test instances have the id of a label" in caplog.text
    assert "predict.exclude_self=true" in caplog.text


def test_labels_without_texts_are_refused_with_the_remedy(spark, tmp_path):
    make_corpus(tmp_path)
    table = pa.table({"id": pa.array(range(LABELS), pa.int32()), "text": pa.nulls(LABELS, pa.string())})
    pq.write_table(table, tmp_path / "labels.parquet")
    with pytest.raises(InputError, match=r"no label of this corpus has one: .* augment.gandalf to false"):
        run_to(spark, tmp_path, "augment", "augment.gandalf=true")


def test_an_instance_with_very_many_labels_does_no_harm(spark, tmp_path):
    many = 12_000
    ids = pa.array(range(many), pa.int32())
    texts = pa.array([f"label number {i}" for i in range(many)])
    pq.write_table(pa.table({"id": ids, "text": texts}), tmp_path / "labels.parquet")
    rows = pa.array([list(range(many)), [1, 2], [2, 3]], pa.list_(pa.int32()))
    for split in ("train", "test"):
        names = pa.array([f"{split}{i}" for i in range(3)])
        table = pa.table({"id": names, "text": pa.array(["all", "one two", "two three"]), "labels": rows})
        pq.write_table(table, tmp_path / f"{split}.parquet")
    run, _ = run_to(
        spark,
        tmp_path,
        "augment",
        "augment.gandalf=true",
        "augment.validation_share=0",
        "augment.max_labels=50",
        "corpus.max_labels_per_instance=0",
    )
    notes = run.record("augment").notes
    assert notes["labels_of_instances_cut"] == many - 50
    assert read_table(spark, run, "cooccurrence").count() <= 53
