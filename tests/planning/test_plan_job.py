"""`plan` as it is run: what it prints, what it refuses, and that it needs no Spark."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_run import write_run

from jobs import plan
from xmcspark.planning.costs import load_costs

SIZE = ["--instances", "300k", "--labels", "60k", "--pairs", "600k"]


def _run(capsys, *arguments):
    code = plan.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def _json(capsys, tmp_path, *arguments):
    code, _, err = _run(capsys, *arguments, "--json", tmp_path / "plan.json")
    assert (code, err) == (0, "")
    return json.loads((tmp_path / "plan.json").read_text())


def test_a_plan_says_units_schedule_memory_shuffles_hours_and_dollars(capsys):
    code, out, _ = _run(capsys, *SIZE)
    assert code == 0
    for part in (
        "1 > 3 > 40 > 625 > 60,000 labels",
        "units",
        "worst/mean slot",
        "routed rows",
        "PIFA sums",
        "hours",
    ):
        assert part in out
    assert "guessed" in out
    assert "8 x m6i.4xlarge" in out


def test_dollars_are_machines_times_hours_times_price(capsys, tmp_path):
    (found,) = _json(capsys, tmp_path, *SIZE, "--nodes", "m6i.4xlarge:4")["clusters"]
    assert found["hours"] == pytest.approx(sum(found["seconds"].values()) / 3600)
    assert found["dollars"] == pytest.approx(4 * (0.768 + 0.192) * found["hours"])


def test_more_machines_are_never_slower_and_what_is_fixed_stays(capsys, tmp_path):
    nodes = [part for count in (1, 2, 4, 8, 32) for part in ("--nodes", f"m6i.4xlarge:{count}")]
    clusters = _json(capsys, tmp_path, *SIZE, "--test-instances", "30k", *nodes)["clusters"]
    hours = [one["hours"] for one in clusters]
    assert hours == sorted(hours, reverse=True)
    fixed = sum(terms.get("fixed", 0) for stage, terms in load_costs().seconds.items() if stage != "ingest")
    assert hours[-1] * 3600 > fixed


def test_a_larger_corpus_takes_longer_in_every_stage(capsys, tmp_path):
    small = _json(capsys, tmp_path, *SIZE, "--slots", "4")["clusters"][0]
    more = ["--instances", "600k", "--labels", "120k", "--pairs", "1.2M"]
    large = _json(capsys, tmp_path, *more, "--slots", "4")["clusters"][0]
    for stage in ("corpus", "vectorize", "index", "train"):
        assert large["seconds"][stage] > small["seconds"][stage]
        assert large["shuffle_bytes"][stage] > 1.2 * small["shuffle_bytes"][stage]


def test_statistics_come_from_footers_and_flags_come_first(capsys, tmp_path):
    labels = pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32()))
    train = pa.table({"id": ["a", "b", "c", "d"], "text": ["some words here"] * 4, "labels": labels})
    pq.write_table(train, tmp_path / "train.parquet")
    pq.write_table(pa.table({"id": [1, 2, 3], "text": ["x", "y", "z"]}), tmp_path / "labels.parquet")
    settings = [f"--set=input.{name}={tmp_path}/{name}.parquet" for name in ("train", "labels")]
    found = _json(capsys, tmp_path, *settings, "--row-features", "12", "--slots", "2")["statistics"]
    assert [found[name]["value"] for name in ("instances", "labels", "pairs")] == [4, 3, 3]
    assert "input.train" in found["pairs"]["source"]
    assert found["row_groups"]["value"] == 1
    assert found["row_features"] == {"value": 12, "source": "--row-features"}
    assert found["features"]["source"].startswith("guessed")


def test_what_is_counted_is_whole_also_when_it_is_guessed(capsys, tmp_path):
    sizes = ("--instances", "123456", "--labels", "777", "--pairs", "400001")
    found = _json(capsys, tmp_path, *sizes, "--slots", "2")["statistics"]
    means = ("characters", "row_features")
    assert [name for name, fact in found.items() if fact["value"] % 1 and name not in means] == []
    assert found["row_groups"]["value"] >= 1


def test_statistics_come_from_a_run_and_flags_come_first(capsys, tmp_path):
    write_run(
        tmp_path / "night", load_costs(), instances=5000, labels=900, stages=("ingest", "corpus", "vectorize")
    )
    found = _json(capsys, tmp_path, "--run", "night", "--root", tmp_path, "--labels", "1000", "--slots", "2")[
        "statistics"
    ]
    assert found["instances"] == {"value": 5000, "source": "corpus of run night"}
    assert found["labels"]["source"] == "--labels"
    assert found["features"]["source"] == "vectorize of run night"
    assert found["label_entries"]["source"].startswith("guessed")


def test_a_run_without_a_corpus_says_which_stage_to_run(capsys, tmp_path):
    write_run(tmp_path / "night", load_costs(), instances=5000, labels=900, stages=("ingest",))
    code, out, err = _run(capsys, "--run", tmp_path / "night")
    assert (code, out) == (4, "")
    assert "./spark-submit.sh corpus --run night" in err


def test_a_run_that_is_not_there_is_told(capsys, tmp_path):
    code, _, err = _run(capsys, "--run", "nothing", "--root", tmp_path)
    assert code == 4
    assert "there is no run" in err


def test_missing_statistics_are_named_with_what_to_give(capsys):
    code, out, err = _run(capsys, "--labels", "10")
    assert (code, out) == (2, "")
    assert "--instances N --pairs N" in err


def test_everything_wrong_is_told_at_once_and_nothing_is_written(capsys, tmp_path):
    wrong = [
        "--instances",
        "many",
        "--pairs",
        "-3",
        "--slots",
        "0",
        "--nodes",
        "m5.xlarge",
        "--json",
        tmp_path / "p.json",
    ]
    code, _, err = _run(capsys, *wrong)
    assert code == 2
    assert [line.split()[1] for line in err.splitlines()] == ["--slots", "--instances", "--pairs", "--slots"]
    code, _, err = _run(
        capsys, "--nodes", "m99.large", "--set", "train.waves=0", "--json", tmp_path / "p.json"
    )
    assert code == 2
    assert "m99.large" in err
    assert "train.waves" in err
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--instances", "10", "--labels", "5", "--pairs", "51"], "make fewer"),
        (["--instances", "10", "--labels", "5", "--pairs", "20", "--most-positives", "11"], "cannot be more"),
        (["--instances", "0", "--labels", "5", "--pairs", "20"], "at least 1"),
    ],
)
def test_impossible_statistics_are_refused(capsys, given, said):
    code, _, err = _run(capsys, *given)
    assert code == 2
    assert said in err


def test_compare_shows_a_run_beside_its_plan(capsys, tmp_path):
    write_run(tmp_path / "night", load_costs(), instances=50_000, labels=9000)
    code, out, _ = _run(capsys, "--compare", tmp_path / "night", "--json", tmp_path / "c.json")
    assert code == 0
    assert "predicted" in out
    found = {
        (one["what"], one["name"]): one for one in json.loads((tmp_path / "c.json").read_text())["compared"]
    }
    assert found["seconds", "train"]["ratio"] == pytest.approx(1, rel=0.05)
    assert found["shuffle", "index"]["ratio"] == pytest.approx(1, rel=0.05)
    assert found["count", "units"]["ratio"] == 1


def test_calibrate_writes_only_the_file_it_is_given(capsys, tmp_path):
    folder = write_run(tmp_path / "night", load_costs(), instances=50_000, labels=9000)
    before = load_costs()
    code, out, _ = _run(capsys, "--calibrate", folder, "--costs", tmp_path / "costs.json")
    assert code == 0
    assert str(tmp_path / "costs.json") in out
    assert load_costs(tmp_path / "costs.json").measured["runs"] == ["50,000 x 9,000"]
    assert load_costs() == before
    assert _run(capsys, *SIZE, "--costs", tmp_path / "costs.json")[0] == 0


def test_work_too_large_for_the_machines_is_told_with_what_to_change(capsys):
    big = [
        "--instances",
        "250M",
        "--labels",
        "100M",
        "--pairs",
        "2G",
        "--row-features",
        "100",
        "--features",
        "4.2M",
    ]
    _, out, _ = _run(capsys, *big, "--nodes", "m6i.4xlarge:8")
    assert "tree.sub_trees" in out
    assert "pifa.max_features" in out
    assert "TB" in out  # of shuffles


def test_an_uneven_schedule_says_what_would_help(capsys):
    _, out, _ = _run(capsys, *SIZE, "--nodes", "m6i.4xlarge:8")
    assert "node 0 with 300,000 rows" in out  # the root alone: finer units are no help
    assert "train.max_rows" in out
    few = ["--set", "tree.sub_trees=2", "--set", "train.max_rows=1000"]
    assert "tree.sub_trees=240" in _run(capsys, *SIZE, *few, "--nodes", "m6i.4xlarge:4")[1]


def test_a_plan_starts_neither_spark_nor_torch():
    code = "from jobs import plan; import sys; plan.main(sys.argv[1:]); " + (
        "print([m for m in ('pyspark', 'torch', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *SIZE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
