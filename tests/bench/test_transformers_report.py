"""The tables of bench.transformers: what they say of results, made up here."""

import json
from dataclasses import asdict
from xml.etree import ElementTree

import pytest

from bench import transformers, transformers_ensembles, transformers_report
from bench.transformers_steps import Asked
from bench.transformers_studies import STUDIES, SUBSET_LENGTH
from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions

METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "R@10")


def row(name, quality, seconds=100.0, curve=None, **asked):
    found = {
        "asked": asdict(Asked(name, **asked)),
        "metrics": {metric: [quality, quality - 0.01, quality + 0.01] for metric in METRICS},
        "seconds": seconds,
        "peak_mb": 1234.4,
    }
    if asked.get("method") != "xr-linear":
        levels = [
            {"level": n, "outputs": 8, "steps": 10, "loss": 0.5, "seconds": seconds / 4} for n in range(2)
        ]
        found |= {"train_s": 0.9 * seconds, "embed_s": 7.0, "search_s": 3.0, "levels": levels}
    return found | ({} if curve is None else {"curve": curve})


def point(moment, seconds, quality):
    return {
        "moment": moment,
        "fine_tuning_s": 0.8 * seconds,
        "seconds": seconds,
        "P@1": [quality, quality - 0.01, quality + 0.01],
    }


def result(*rows, **more):
    machine = {"cpu": "a CPU", "cores": 2}
    by_label = {Asked(**found["asked"]).label: found for found in rows}
    return {"rows": by_label, "machine": machine, "name": "small", "threads": 1, **more}


def direction(seed, *differences):
    claim = {"claim": "costs help", "better": "XR-Transformer", "other": "XR-Transformer without costs"}
    return {**claim, "seed": seed, "differences": dict(zip(("P@1", "PSP@1"), differences, strict=True))}


def cells(table, title):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    (found,) = (line for line in lines if line[0] == title)
    return dict(zip(lines[0], found, strict=True))


@pytest.fixture
def headline():
    return result(
        row("XR-Linear", 0.45, 20.0, method="xr-linear"),
        row("XR-Transformer", 0.5, 400.0, [point("level 0", 150, 0.46), point("level 1", 300, 0.49)]),
        row(
            "X-Transformer",
            0.48,
            800.0,
            [point("step 5", 250, 0.4), point("step 20", 720, 0.48)],
            method="x-transformer",
        ),
        ensembles=[
            {
                "name": "both",
                "seed": 0,
                "members": ["a", "b"],
                "metrics": {name: [0.6, 0, 1] for name in METRICS},
            }
        ],
    )


@pytest.fixture
def ablations():
    short = {"encoder.max_length": SUBSET_LENGTH}
    rows = [
        row("XR-Transformer", 0.4 + 0.01 * seed, changes=short, seed=seed, rows=10_000) for seed in (0, 1, 2)
    ]
    found = [direction(seed, [0.01, 0.002, 0.02], [-0.02, -0.03, -0.01]) for seed in (0, 1)]
    return result(*rows, directions=[*found, direction(2, [0.01, -0.001, 0.02], [-0.02, -0.03, 0.01])])


def test_seconds_are_shown_by_part_and_a_model_without_encoder_has_one(headline):
    table = transformers_report.headline_table(headline)
    ours, linear = cells(table, "XR-Transformer"), cells(table, "XR-Linear")
    assert [ours[f"{part} s"] for part in ("fine-tuning", "ranking", "embedding test", "search", "all")] == [
        *("200", "160", "7", "3", "400")
    ]
    assert (ours["P@1"], ours["PSP@5"], ours["R@10"], ours["peak MB"]) == ("50.00", "50.00", "50.00", "1,234")
    assert (linear["fine-tuning s"], linear["all s"]) == ("", "20")
    assert cells(table, "both (fused)")["P@1"] == "60.00"


def test_gains_are_relative_to_the_anchor(headline):
    assert transformers_report.gains_table(headline) == ""
    headline["rows"]["Parabel, seed 0"] = row("Parabel", 0.4, method="parabel")
    table = transformers_report.gains_table(headline)
    assert cells(table, "XR-Transformer")["P@1"] == "+25.00"
    assert "| Parabel " not in table


def test_pools_and_heads_of_unidec_have_tables(headline):
    assert transformers_report.pools_table(headline) == ""
    assert transformers_report.spaces_table(headline) == ""
    found = row("UniDEC", 0.5, method="unidec", changes={"unidec.batch_size": 64})
    for task in found["levels"]:
        task |= {"pool_labels": 500.4, "pool_positives": 2.5}
    found["spaces"] = {"dual": {name: [0.4, 0.3, 0.5] for name in METRICS}}
    headline["rows"]["UniDEC, seed 0"] = found
    pools = cells(transformers_report.pools_table(headline), "UniDEC")
    assert (pools["queries"], pools["labels"], pools["positives of a query"]) == ("64", "500", "2.50")
    for task in found["levels"]:
        task["classifier_pool_labels"] = 4096.0
    assert cells(transformers_report.pools_table(headline), "UniDEC")["labels"] == "500 / 4,096"
    spaces = cells(transformers_report.spaces_table(headline), "UniDEC, seed 0")
    assert (spaces["searched by"], spaces["P@1"]) == ("its dual head", "40.00")


def test_ablations_are_means_over_seeds(ablations):
    found = cells(transformers_report.ablation_table(ablations), "XR-Transformer")
    assert (found["seeds"], found["P@1"]) == ("3", "41.00")


def test_a_direction_has_a_verdict_for_each_metric(ablations):
    found = cells(transformers_report.directions_table(ablations), "costs help")
    assert found["P@1"] == "holds +1.00 [+0.10, +2.00]"
    assert found["PSP@1"] == "reversed -2.00 [-3.00, -0.33]"
    assert transformers.verdict([[0.01, -0.001, 0.02]]) == "not resolved"


def test_a_claim_may_be_that_a_metric_falls(ablations):
    for found in ablations["directions"]:
        found["falls"] = ("PSP",)
    found = cells(transformers_report.directions_table(ablations), "costs help")
    assert found["P@1"].startswith("holds")
    assert found["PSP@1"].startswith("holds -2.00")


@pytest.mark.parametrize("name", STUDIES)
def test_every_direction_is_about_rows_of_its_study(name):
    rows = list(STUDIES[name].rows({}))
    names = {row.name for row in rows}
    assert len({row.label for row in rows}) == len(rows)
    for direction in STUDIES[name].directions:
        assert {direction.better, direction.other} <= names


def test_the_time_to_the_same_quality_is_that_of_the_first_moment_as_good(headline):
    said = transformers_report.time_to_the_same(headline)
    assert "final P@1 of 48.00 (after 720 s) after 300 s (level 1), 0.42 of the time" in said
    for found in headline["rows"]["XR-Transformer, seed 0"]["curve"]:
        found["P@1"][0] -= 0.02
    assert "did not reach" in transformers_report.time_to_the_same(headline)


def test_without_curves_there_is_no_table_of_moments(headline):
    for found in headline["rows"].values():
        found.pop("curve", None)
    assert transformers_report.curve_table(headline) == ""
    assert transformers_report.time_to_the_same(headline) == ""
    assert "moments" not in transformers_report.section("small", [headline])


def test_what_people_wrote_stays_and_one_dataset_is_one_section(headline, ablations, tmp_path):
    files = [tmp_path / "headline.json", tmp_path / "ablations.json"]
    for file, found in zip(files, (headline, ablations), strict=True):
        file.write_text(json.dumps(found))
    into, plot = tmp_path / "T.md", tmp_path / "plot.svg"
    into.write_text(f"# Findings\n\n{transformers_report.MARK}\n\nold\n")
    command = [*map(str, files), "--into", str(into), "--plot", str(plot)]
    transformers_report.main(command)
    text = into.read_text()
    assert text.startswith("# Findings\n")
    assert text.count("## small\n") == 1
    assert "\nold\n" not in text
    assert "### Headline: all training rows" in text
    assert "### Ablations: 10,000 training rows" in text
    titled = transformers_report.section("small", [{"title": "As it was", **headline}])
    assert "### As it was: all training rows" in titled
    transformers_report.main(command)
    assert into.read_text() == text
    titles = [found.text for found in ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}title")]
    assert "XR-Transformer level 1: 49.00 for 300.0" in titles
    assert "XR-Linear: 45.00 for 20.0" in titles


def test_a_figure_of_ablations_alone_is_refused(ablations, tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps(ablations))
    with pytest.raises(SystemExit):
        transformers_report.main(
            [
                str(tmp_path / "a.json"),
                "--into",
                str(tmp_path / "a.md"),
                "--plot",
                str(tmp_path / "a.svg"),
            ]
        )
    assert "none of the results is a headline" in capsys.readouterr().err


def test_ensembles_are_made_of_what_was_trained():
    names = ("XR-Transformer", "XR-Linear", "X-Transformer", "X-Transformer text-emb")
    wanted = [Asked(name, seed=seed) for seed in (0, 1) for name in names]
    found = transformers_ensembles.members_of(wanted)
    assert [(name, seed, len(members)) for name, seed, members in found] == [
        ("X-Transformer over seeds", None, 2),
        ("XR-Transformer over seeds", None, 2),
        *(("XR-Transformer and XR-Linear", seed, 2) for seed in (0, 1)),
        *(("XR-Transformer and X-Transformer", seed, 2) for seed in (0, 1)),
    ]


def test_an_ensemble_waits_for_all_of_its_members():
    wanted = [Asked("XR-Transformer"), Asked("XR-Linear")]

    def unread(asked) -> Predictions:
        raise AssertionError(f"{asked.label} is not done")

    assert transformers_ensembles.fused(wanted, lambda asked: asked.name == "XR-Linear", unread, unread) == []


def test_only_what_is_fine_tuned_has_a_curve():
    asked = {found.name: transformers.has_curve(found) for found in STUDIES["headline"].rows({})}
    assert {name for name, has in asked.items() if has} == {
        "XR-Transformer",
        "X-Transformer",
        "XR-Transformer Gandalf",
    }


def test_a_row_without_the_curve_asked_for_is_measured_again(tmp_path):
    class Runner:
        data, threads, asked = "small", 1, []

        def row(self, asked):
            self.asked.append(asked.curve)
            return {"asked": asdict(asked), **({"curve": []} if asked.curve else {})}

    runner, file = Runner(), tmp_path / "found.json"
    for curve in (False, False, True, True, False):
        transformers.measure(runner, [Asked("XR-Transformer", curve=curve)], file)
    assert runner.asked == [False, True]
    with pytest.raises(InputError, match=r"has a row XR-Transformer, seed 0 with rows 0, not 10: .*--json"):
        transformers.measure(runner, [Asked("XR-Transformer", rows=10)], file)


def test_a_section_says_how_and_when_its_rows_were_trained(headline):
    for found, changes in zip(headline["rows"].values(), ({}, {"a": 1, "b": 2}, {"b": 2}), strict=True):
        found["asked"]["changes"] = changes
        found["date"] = "2026-01-02"
    text = transformers_report.section("small", [headline])
    assert "1 thread, a CPU, 2 cores. b 2. Measured 2026-01-02." in text


def test_what_we_gain_over_a_peer_has_an_interval(headline):
    differences = {"P@1": [0.01, -0.002, 0.022]}
    peer = {**row("theirs", 0.49), "train_s": 10.0, "predict_s": 1.0, "differences": differences}
    text = transformers_report.section("small", [{**headline, "peers": {"PECOS": peer}}])
    assert "- XR-Transformer - PECOS, in points: P@1 +1.00 [-0.20, +2.20]." in text
