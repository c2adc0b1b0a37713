"""Rows of bench.transformers, trained for real with a tiny encoder: which share a fine-tuned one, what is kept."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import transformers
from bench.transformers_steps import WORK, Asked, configuration, learn
from bench.transformers_studies import PLAIN, STUDIES
from xmcspark.errors import InputError

torch = pytest.importorskip("torch")
from bench.tiny_encoder import save_tiny_encoder  # noqa: E402

CHANGES = {"encoder.max_length": 16, "encoder.epochs": 1.0, "x_transformer.clusters": 4}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "small"
    folder.mkdir()
    random = np.random.default_rng(0)
    words = ["oak", "board", "knife", "lamp", "chair", "desk", "cup", "plate", "fork", "vase"]
    for split, rows in (("train", 120), ("test", 40)):
        drawn = random.integers(0, len(words), (rows, 2))
        texts = [f"{words[a]} {words[b]}" for a, b in drawn]
        labels = [sorted({int(a), int(b)}) for a, b in drawn]
        columns = {"id": [f"{split}{row}" for row in range(rows)], "text": texts}
        columns["labels"] = pa.array(labels, pa.list_(pa.int32()))
        pq.write_table(pa.table(columns), folder / f"{split}.parquet")
    ids = pa.array(range(len(words)), pa.int32())
    pq.write_table(pa.table({"id": ids, "text": words}), folder / "labels.parquet")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), width=16, layers=1)


def test_a_row_whose_rankers_alone_differ_ranks_with_the_encoder_of_another(dataset, encoder, tmp_path):
    base = Asked("X-Transformer", "x-transformer", CHANGES)
    other = Asked("TFN", "x-transformer", {**CHANGES, **PLAIN}, tuned_by=base.name)
    runner = transformers.Runner(str(dataset), str(encoder), tmp_path / "shared", 1, [base, other])
    found = runner.row(other)
    assert runner.is_done(base)
    assert (runner.folder(base) / WORK).exists()  # as long as rows may need it
    assert found["levels"] == runner.row(base)["levels"]
    assert found["train_s"] >= sum(level["seconds"] for level in found["levels"])

    alone = replace(other, tuned_by="")
    anew = transformers.Runner(str(dataset), str(encoder), tmp_path / "alone", 1, [alone])
    assert anew.row(alone)["metrics"] == found["metrics"]
    assert np.array_equal(anew.predictions(alone).labels, runner.predictions(other).labels)
    assert not (anew.folder(alone) / WORK).exists()
    assert not np.array_equal(runner.predictions(base).scores, runner.predictions(other).scores)


def test_what_was_judged_before_stays_if_its_predictions_are_gone():
    before = [{"claim": "a", "seed": 0, "n": 1}, {"claim": "a", "seed": 1, "n": 1}]
    found = [{"claim": "a", "seed": 1, "n": 2}, {"claim": "b", "seed": 0, "n": 2}]
    assert transformers.and_before(found, before, "claim") == [before[0], *found]


@pytest.mark.parametrize("study", list(STUDIES))
def test_every_study_has_rows_that_can_be_configured_and_directions_between_them(study, dataset, tmp_path):
    rows = list(STUDIES[study].rows({}))
    for asked in rows:
        configuration(asked, "an encoder")
    names = {asked.name for asked in rows}
    assert all({direction.better, direction.other} <= names for direction in STUDIES[study].directions)
    file = tmp_path / "found.json"
    command = ["--data", str(dataset), "--encoder", "none", "--json", str(file), "--what", study]
    assert transformers.main([*command, "--only", "none", "--scratch", str(tmp_path)]) == 0
    assert file.exists(), "what was found is written also where there are no peers"


def test_labels_that_no_training_row_has_are_looked_for_by_their_texts(dataset, encoder, tmp_path):
    changes = {"encoder.max_length": 16, "encoder.epochs": 1.0, "unidec.batch_size": 2}
    changes |= {"unidec.hard_negatives": 1, "unidec.heads": ["dual"], "unidec.refresh_epochs": 1}
    asked = Asked("DePSL", "unidec", changes, rows=3, zero_shot=True)
    found = learn(asked, str(dataset), str(encoder), tmp_path, 1)["zero_shot"]
    assert 0 < found["labels"] < 10
    assert found["pairs"] > 0
    assert found["R@10"] == 1, "there are no more than ten labels"


def test_a_row_of_the_same_name_that_was_made_in_another_way_is_refused(dataset, encoder, tmp_path):
    linear = Asked("XR-Linear", "xr-linear")
    runner = transformers.Runner(str(dataset), str(encoder), tmp_path, 1, [linear])
    runner.row(linear)
    assert runner.is_done(linear)
    with pytest.raises(InputError, match=r"changes \{\}, not \{'predict.beam': 3\}.*--scratch"):
        runner.is_done(replace(linear, changes={"predict.beam": 3}))
