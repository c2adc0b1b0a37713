"""Peers of bench.transformers get the same rows, features and steps, and are scored as we are."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_transformers_report import cells

import bench
from bench import transformers, transformers_peers, transformers_report
from bench.augmentation import task_of
from bench.transformers_peers import PEERS, peer_row, predictions_of
from bench.transformers_steps import TOP_K, Asked, part_of
from xmcspark.corpus.dataset import Dataset, write_dataset
from xmcspark.corpus.synthetic import generate
from xmcspark.sparse.csr import as_csr

FAKE = Path(__file__).with_name("fake_transformer_peer.py")


@pytest.fixture
def fake_peer(monkeypatch):
    monkeypatch.setitem(PEERS, "pecos", ("PECOS XR-Transformer", None, str(FAKE)))


@pytest.fixture
def data():
    made = generate(80, 30, seed=1)
    exclude = made.test.Y.copy()  # nothing that is true may be predicted
    return Dataset(made.train, made.test, made.label_texts, exclude)


def test_every_peer_has_its_adapter_and_exact_pins():
    folder = Path(bench.__file__).parent
    for _, environment, adapter in PEERS.values():
        assert (folder / "adapters" / adapter).exists()
        lines = (folder / "peers" / f"{environment}.txt").read_text().splitlines()
        packages = [package for line in lines for package in line.split("#")[0].split()]
        assert packages
        assert all("==" in package for package in packages)


def test_a_peer_has_our_settings_and_as_many_steps(fake_peer, tmp_path, data):
    asked = Asked("XR-Transformer", changes={"encoder.epochs": 2.0, "encoder.batch_size": 16}, rows=0)
    task = task_of(data)
    _, found = peer_row("pecos", asked, task, "an encoder", tmp_path / "peer", 1)
    assert found["seen"]["steps"] == 10  # 2 epochs of 80 rows in batches of 16
    assert found["seen"]["encoder"] == "an encoder"
    assert (found["seen"]["batch_size"], found["seen"]["max_length"]) == (16, 128)
    assert found["top_k"] == TOP_K + np.diff(data.exclude.indptr).max()
    assert found["train_s"] >= 0
    assert found["peak_mb"] > 1


def test_a_peer_is_not_asked_about_labels_that_no_training_row_has(fake_peer, tmp_path):
    task = part_of(task_of(generate(80, 30, seed=1)), 20)
    counts = np.bincount(task.observed.Y.indices, minlength=30)
    assert (counts == 0).any()
    predictions, _ = peer_row("pecos", Asked("XR-Transformer", rows=20), task, "none", tmp_path / "peer", 1)
    assert predictions.labels[0].tolist() == np.argsort(-counts, kind="stable")[:TOP_K].tolist()


def test_excluded_labels_of_a_peer_are_taken_out(data):
    task = task_of(data)
    top = np.tile(np.arange(20, dtype=np.int32), (data.test.Y.shape[0], 1))
    found = predictions_of(top, task)
    banned = as_csr(data.exclude).to_scipy().toarray() > 0
    assert found.labels.shape[1] == TOP_K
    for row, labels in enumerate(found.labels):
        wanted = [label for label in range(20) if not banned[row, label]][:TOP_K]
        assert labels.tolist() == wanted
        assert (np.diff(found.scores[row]) < 0).all()


def test_peers_are_run_once_and_shown(fake_peer, tmp_path, monkeypatch, capsys):
    write_dataset(generate(80, 30, seed=1), tmp_path / "small")
    file = tmp_path / "found.json"
    command = ["--data", str(tmp_path / "small"), "--encoder", "none", "--json", str(file), "--only", "none"]
    command += ["--scratch", str(tmp_path / "scratch"), "--threads", "1", "--rows", "50", "--peers", "pecos"]
    assert transformers.main(command) == 0
    found = json.loads(file.read_text())
    peer = found["peers"]["PECOS XR-Transformer"]
    assert peer["asked"]["rows"] == 50
    shown = cells(transformers_report.peers_table(found), "PECOS XR-Transformer")
    assert shown["P@1"] == f"{100 * peer['metrics']['P@1'][0]:.2f}"
    monkeypatch.setattr(transformers_peers, "peer_row", None)
    assert transformers.main(command) == 0
    assert capsys.readouterr().err.count("training PECOS") == 1


def test_an_unknown_peer_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        transformers.main(
            ["--data", "d", "--encoder", "e", "--json", str(tmp_path / "f"), "--peers", "nobody"]
        )
    assert "--peers nobody: choose from pecos" in capsys.readouterr().err
