"""Costs are recovered from runs whose costs are known, and predict runs that were not looked at."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic_run import COSTS as BEFORE
from synthetic_run import write_run

from xmcspark.errors import InputError, StoreError
from xmcspark.planning.calibrate import calibrated, fitted, observed
from xmcspark.planning.compare import compared
from xmcspark.planning.costs import load_costs, save_costs
from xmcspark.planning.run_folder import open_run

# Another machine: everything slower, and not by the same factor.
TRUE = replace(
    BEFORE,
    seconds={
        stage: {name: cost * (3 if name == "fixed" else 2) for name, cost in terms.items()}
        for stage, terms in BEFORE.seconds.items()
    },
    shuffle={s: {n: 1.5 * c for n, c in t.items()} for s, t in BEFORE.shuffle.items()},
)
SIZES = [(20_000, 4_000), (150_000, 10_000), (300_000, 60_000), (1_000_000, 30_000)]


def _observations(tmp_path, costs, sizes, noise=None):
    runs = []
    for number, (instances, labels) in enumerate(sizes):
        folder = write_run(tmp_path / f"r{number}", costs, instances=instances, labels=labels, noise=noise)
        runs.append(observed(open_run(str(folder), ""), None, BEFORE.guesses))
    return runs


def test_costs_are_recovered_from_runs(tmp_path):
    found = calibrated(_observations(tmp_path, TRUE, SIZES), BEFORE)
    for stage in ("corpus", "index", "train", "predict"):
        assert found.seconds[stage]["fixed"] == pytest.approx(TRUE.seconds[stage]["fixed"], rel=0.1)
    assert found.seconds["train"]["load"] == pytest.approx(TRUE.seconds["train"]["load"], rel=0.05)
    for stage in ("corpus", "vectorize", "index", "train"):
        for name, cost in TRUE.shuffle[stage].items():
            assert found.shuffle[stage][name] == pytest.approx(cost, rel=0.01)
    assert found.seconds["ingest"] == BEFORE.seconds["ingest"]  # no run had logs
    assert found.measured["largest_instances"] == 1_000_000


def test_a_run_that_was_not_calibrated_with_is_predicted_within_30_percent(tmp_path):
    random = np.random.default_rng(1)
    seen = _observations(tmp_path / "seen", TRUE, SIZES[:3], noise=lambda: random.uniform(0.9, 1.1))
    costs = calibrated(seen, BEFORE)
    for instances, labels in ((60_000, 12_000), (600_000, 120_000)):
        folder = write_run(tmp_path / f"new{labels}", TRUE, instances=instances, labels=labels)
        _, found = compared(open_run(str(folder), ""), None, costs)
        ratios = {
            (one.what, one.name): one.ratio
            for one in found
            if one.what in ("seconds", "shuffle") and one.ratio
        }
        assert len(ratios) >= 13
        assert all(0.7 < ratio < 1.3 for ratio in ratios.values()), ratios


def test_noise_does_not_make_work_free():
    cases = [({"fixed": 1.0, "rows": 1.0}, 10.0), ({"fixed": 1.0, "rows": 2.0}, 9.0)]
    assert fitted(cases, {"fixed": 5.0, "rows": 1.0}, 1.0)["rows"] >= 0.2


def test_work_that_was_never_measured_keeps_its_cost():
    assert fitted([], {"rows": 2.0}, 1.0) == {"rows": 2.0}


def test_a_train_stage_that_took_up_old_waves_is_not_measured(tmp_path):
    folder = write_run(tmp_path / "r", TRUE, instances=20_000, labels=4_000)
    record = folder / "stages" / "train.json"
    record.write_text(record.read_text().replace('"waves_reused": 0', '"waves_reused": 2'))
    assert "train" not in observed(open_run(str(folder), ""), None, BEFORE.guesses).seconds


def test_slots_that_a_run_did_not_record_must_be_given(tmp_path):
    folder = write_run(tmp_path / "r", TRUE, instances=20_000, labels=4_000)
    for record in (folder / "stages").iterdir():
        record.write_text(record.read_text().replace('"slots": 2, ', ""))
    run = open_run(str(folder), "")
    with pytest.raises(StoreError, match="--slots"):
        observed(run, None, BEFORE.guesses)
    assert observed(run, 3, BEFORE.guesses).slots == 3


def test_costs_survive_the_file_and_a_damaged_file_is_told(tmp_path):
    path = tmp_path / "costs.json"
    save_costs(TRUE, path)
    assert load_costs(path) == TRUE
    for damaged in (
        "{",
        "[]",
        '{"version": 1}',
        path.read_text().replace("1.5", '"much"').replace(": 3", ": -3"),
    ):
        path.write_text(damaged)
        with pytest.raises(InputError, match="calibrate"):
            load_costs(path)
    with pytest.raises(InputError, match="no such file"):
        load_costs(tmp_path / "nothing.json")
