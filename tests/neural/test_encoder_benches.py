"""The benches of memory and latency run, and say what they measured."""

import json
import mmap
import sys
from pathlib import Path

import needs_torch  # noqa: F401
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import encoder_latency, label_memory, unidec_pools, unidec_search
from xmcspark.corpus.dataset import write_dataset
from xmcspark.corpus.synthetic import generate


@pytest.mark.parametrize(("task", "rows"), [(("level",), 64), (("unidec", "--pool", "32"), 256)])
def test_a_step_on_labels_is_measured_with_its_table_apart(task, rows, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).resolve().parents[2])  # where its own processes find the bench
    file = tmp_path / "found.json"
    command = [
        "--labels",
        "500",
        "--rows",
        str(rows),
        "--width",
        "8",
        "--steps",
        "2",
        "--work",
        str(tmp_path),
    ]
    assert label_memory.main(["--task", *task, *command, "--json", str(file)]) == 0
    (found,) = json.loads(file.read_text())["results"]
    assert found["table_mb"] == pytest.approx(500 * (8 + 1 + 2 * 9 + 1) * 4 / 1e6)
    assert found["private_peak_mb"] >= found["private_before_mb"] > 10
    assert "| 500 " in capsys.readouterr().out


def test_private_memory_of_a_step_of_unidec_does_not_follow_the_number_of_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    file = tmp_path / "found.json"
    command = ["--task", "unidec", "--pool", "32", "--rows", "256", "--width", "32", "--steps", "2"]
    labels = ["--labels", "10000", "--labels", "150000"]
    assert label_memory.main([*command, *labels, "--work", str(tmp_path), "--json", str(file)]) == 0
    few, many = json.loads(file.read_text())["results"]
    assert many["table_mb"] > few["table_mb"] + 50
    steps_few, steps_many = (one["private_peak_mb"] - one["private_before_mb"] for one in (few, many))
    assert steps_many < steps_few + 20


def test_memory_that_was_taken_meanwhile_is_seen():
    # A mapping of its own: the allocator may have as much to give from what earlier tests gave back to it.
    with mmap.mmap(-1, 50_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as taken:
        before = label_memory.memory_mb()["private"]
        with label_memory.MemoryNow() as memory:
            for at in range(0, len(taken), mmap.PAGESIZE):
                taken[at] = 1
    assert memory.peaks["private"] > before + 40


def test_a_bundle_with_an_encoder_is_asked_one_by_one_and_in_batches(tmp_path, tiny_folder, capsys):
    write_dataset(generate(60, 12, seed=1), tmp_path / "small")
    file = tmp_path / "found.json"
    command = ["--encoder", str(tiny_folder), "--data", str(tmp_path / "small"), "--max-length", "16"]
    assert encoder_latency.main([*command, "--texts", "6", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["texts"] == 6
    assert found["encoder_p50_ms"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["texts_per_s"] > 0
    assert "| small " in capsys.readouterr().out


def test_a_bundle_without_an_encoder_is_refused(tmp_path, capsys):
    write_dataset(generate(30, 5, seed=1), tmp_path / "small")
    with pytest.raises(SystemExit):
        encoder_latency.main(["--bundle", str(tmp_path), "--data", str(tmp_path / "small")])
    assert "has no encoder" in capsys.readouterr().err


def test_pools_grow_with_what_queries_bring_and_clusters_share_labels(tmp_path, tiny_folder, capsys):
    write_dataset(generate(120, 30, seed=1), tmp_path / "small")
    file = tmp_path / "found.json"
    command = ["--encoder", str(tiny_folder), "--data", str(tmp_path / "small"), "--batch", "16"]
    assert unidec_pools.main([*command, "--json", str(file)]) == 0
    for found in json.loads(file.read_text())["pools"].values():
        by_settings = {(one["beta"], one["eta"]): one for one in found}
        assert by_settings[1, 0]["labels"] < by_settings[1, 3]["labels"] < by_settings[1, 12]["labels"]
        assert by_settings[1, 0]["positives"] <= by_settings[1, 12]["positives"]
        assert by_settings[1, 0]["positives"] < by_settings[5, 0]["positives"]
    assert "| clusters " in capsys.readouterr().out


def test_search_is_judged_on_queries_that_the_index_was_not_tuned_on(
    tmp_path, tiny_folder, capsys, monkeypatch
):
    pytest.importorskip("faiss")
    # Of the libraries, one is in this environment.
    monkeypatch.setattr(unidec_search, "python_of", lambda name: {"ann": sys.executable}[name])
    write_dataset(generate(300, 200, seed=1), tmp_path / "small")
    file = tmp_path / "found.json"
    command = ["--data", str(tmp_path / "small"), "--labels", str(tmp_path / "small"), "--max-length", "16"]
    command += ["--libraries", "faiss", "--repeat", "1"]
    assert unidec_search.main([*command, "--encoder", str(tiny_folder), "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["exact"]["recall"] == 1
    assert 0 < found["approximate"]["recall"] <= 1  # texts that a tiny encoder hardly tells apart
    assert found["approximate"]["qps_alone"] > 0
    beside = found["libraries"]["faiss"]
    assert 0 < beside["recall"] <= 1
    assert beside["file_mb"] > 0
    printed = capsys.readouterr().out
    assert "| approximate " in printed
    assert "| faiss " in printed
    assert unidec_search.recall(np.array([[1, 2], [5, 6]]), np.array([[2, 3], [6, 5]])) == 0.75


def test_a_library_that_is_not_known_is_refused_before_anything_is_embedded(tmp_path, capsys):
    with pytest.raises(SystemExit):
        unidec_search.main(["--data", str(tmp_path), "--encoder", str(tmp_path), "--libraries", "annoy"])
    assert "choose from faiss, hnswlib, usearch" in capsys.readouterr().err
