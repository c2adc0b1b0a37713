import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import bench

sys.path.append(str(Path(bench.__file__).parent / "adapters"))
from stopwatch import Job, ranked


@pytest.fixture
def new_job(tmp_path):
    def make(*steps):
        given = {
            "system": "s",
            "threads": 1,
            "inputs": str(tmp_path),
            "scratch": str(tmp_path),
            "beam": 10,
            "top_k": 10,
            "seed": 0,
            "options": {},
            "vectorizers": [],
            "steps": steps,
        }
        (tmp_path / "job.json").write_text(json.dumps(given))
        return Job(tmp_path / "job.json")

    return make


def answer(job):
    job.finish()
    return json.loads(job.path.with_suffix(".answer").read_text())["steps"]


def test_only_the_steps_asked_for_are_recorded(new_job):
    job = new_job("pifa")
    assert job.measure("tree", lambda: 7) == 7
    assert job.measure("pifa", lambda: 8) == 8
    assert [r["step"] for r in answer(job)] == ["pifa"]


def test_sleeping_costs_wall_time_but_no_cpu(new_job):
    job = new_job("pifa")
    job.measure("pifa", lambda: time.sleep(0.1))
    (record,) = answer(job)
    assert record["wall_s"] > 0.09
    assert record["cpu_s"] < 0.05


def test_peak_memory_is_that_of_the_step(new_job):
    job = new_job("tree", "pifa")
    job.measure("tree", lambda: np.ones(20_000_000).sum(), again=False)
    job.measure("pifa", lambda: 1)
    tree, pifa = answer(job)
    assert tree["peak_mb"] > tree["start_mb"] + 140
    assert pifa["peak_mb"] < tree["peak_mb"] - 100


def test_ranked_orders_by_score_then_label_and_pads():
    scores = sp.csr_matrix(np.array([[0, 0.5, 0.9, 0.5], [0, 0, 0, 0], [0.1, 0, 0, 0]]))
    assert ranked(scores, 2).tolist() == [[2, 1], [-1, -1], [0, -1]]
