import json
from pathlib import Path

import pytest

from bench import run
from bench.systems import SYSTEMS, System
from jobs import bench as job
from xmcspark.corpus.synthetic import generate

FAKE = str(Path(__file__).parent / "fake_system.py")
STEPS = ("tfidf_fit", "train", "predict_one_ms")


@pytest.fixture(scope="module")
def fakes():
    """xmcspark and pecos answered by a stand-in; a third system that always dies."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("xmcspark", "pecos", "broken"):
            patch.setitem(SYSTEMS, name, System(name, FAKE, None, STEPS))
        yield [SYSTEMS[name] for name in ("xmcspark", "broken", "pecos")]


@pytest.fixture(scope="module")
def result(fakes, tmp_path_factory):
    plan = run.Plan(fakes, threads=2, repeats=2)
    return run.compare("tiny", generate(60, 8), plan, tmp_path_factory.mktemp("work"))


def test_result_has_the_promised_keys_for_every_step_and_system(result):
    found = {(r["step"], r["system"]) for r in result["steps"]}
    assert found == {(step, system) for step in STEPS for system in ("xmcspark", "pecos")}
    assert all({"wall_s", "cpu_s", "peak_mb"} <= r.keys() for r in result["steps"])
    assert result["quality"]["pecos"]["P@1"] == 1.0
    assert json.loads(json.dumps(result)) == result


def test_single_query_times_are_in_milliseconds_too(result):
    record = next(r for r in result["steps"] if r["step"] == "predict_one_ms")
    assert record["p50_ms"] == pytest.approx(1000 * record["wall_s"])
    assert record["p99_ms"] >= record["p50_ms"]


def test_a_system_that_fails_is_named_and_the_others_go_on(result):
    assert list(result["failures"]) == ["broken"]
    assert "out of luck" in result["failures"]["broken"]


def test_systems_get_the_threads_and_each_repeat_its_seed(result):
    assert result["facts"]["pecos"]["seen"] == [2, 10, 1, {}]


def test_trees_are_judged_on_the_features_all_share(result):
    assert result["trees"]["xmcspark"]["leaves"] == 2
    assert 0 < result["trees"]["xmcspark"]["leaf_cosine"] <= 1
    assert result["data"]["features"] == 8


def test_a_system_that_hangs_is_given_up(fakes, tmp_path):
    plan = run.Plan(fakes[2:], steps=("tfidf_fit",), repeats=1, timeout_s=0.001)
    assert "not done after" in run.compare("tiny", generate(9, 3), plan, tmp_path)["failures"]["pecos"]


def test_job_prints_the_table_and_writes_json(fakes, tmp_path, capsys):
    out = tmp_path / "result.json"
    code = job.main(["--generate", "60x8", "--peers", "pecos", "--repeat", "1", "--json", str(out)])
    assert code == 0
    assert "×)" in capsys.readouterr().out
    assert {"steps", "quality"} <= json.loads(out.read_text()).keys()


def test_job_fails_if_a_system_fails(fakes):
    assert job.main(["--generate", "60x8", "--peers", "broken", "--repeat", "1"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peers", "nobody"], "unknown peer nobody"),
        (["--steps", "trane"], "unknown step trane"),
        (["--threads", "0"], "--threads 0: must be at least 1"),
        (["--generate", "5"], "expected INSTANCESxLABELS"),
        (["--data", "/nowhere"], "not a folder"),
    ],
)
def test_wrong_arguments_exit_2_and_say_why(arguments, message, capsys):
    assert job.main(arguments) == 2
    assert message in capsys.readouterr().err
