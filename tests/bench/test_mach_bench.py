"""The bench of MACH: what it puts together, goes on with and shows."""

import json
from dataclasses import asdict
from xml.etree import ElementTree

import numpy as np
import pytest

from bench import mach, mach_report
from bench.mach_steps import Asked, Learned, Place, agreement
from bench.tradeoff_plot import Line, Panel, Spot, drawn

CHOICES = {
    "buckets": 20,
    "repetitions": 4,
    "rows": 100,
    "transforms": {
        "sigmoid": {"P@1": 0.4, "P@3": 0.3, "P@5": 0.2},
        "log-l3-hinge": {"P@1": 0.5, "P@3": 0.3, "P@5": 0.2},
    },
    "transform": "log-l3-hinge",
    "xr-linear": {"P@1": 0.4, "P@3": 0.3, "P@5": 0.2},
    "fusions": {
        "average": {"transform": "sigmoid", "P@1": 0.6, "P@3": 0.3, "P@5": 0.2},
        "rank": {"transform": "log-l3-hinge", "P@1": 0.5, "P@3": 0.3, "P@5": 0.2},
    },
    "fusion": "average",
}
GRID = mach.Grid((10, 20), (1, 2), (20, 2), None, 0.5)


class FakeRunner:
    """Answers at once; stops at the row `stop`."""

    def __init__(self, folder, stop=None):
        self.place, self.stop, self.asked = Place(folder / "small"), stop, []

    def prepared(self):
        return {"rows": 100, "test rows": 50, "labels": 60, "features": 9}

    def choices(self, buckets):
        return CHOICES

    def row(self, asked, choices):
        self.asked.append(asked.name)
        if len(self.asked) == self.stop:
            raise KeyboardInterrupt
        quality = 0.1 + 0.001 * asked.buckets + 0.01 * asked.repetitions
        names = ("P@1", "P@3", "P@5", "PSP@5", "R@100", "wR@100")
        trained = [
            {"cpu_s": 2.0, "peak_mb": 5.0 + one.repetition, "bytes": 3e6, "weights": 7}
            for one in asked.learned
        ]
        found = {} if asked.label_share < 1 else {"metrics": {name: [quality, 0, 1] for name in names}}
        if asked.recovery == "fast":
            found |= {"top-10 agreement": 0.995, "top-10 identical": 0.9}
        cost = {} if asked.fused else {"cpu_s": 1.5, "peak_mb": 8.0}
        return {
            "name": asked.name,
            "asked": asdict(asked),
            "training": mach.trained_in_all(asked.learned, trained),
            "predicting": cost,
            **found,
        }


@pytest.fixture
def result(tmp_path):
    return mach.measure(FakeRunner(tmp_path), GRID, tmp_path / "found.json")


def row_of(table, title):
    """The cells of a row by column."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    (found,) = (line for line in lines if line[0] == title)
    return dict(zip(lines[0], found, strict=True))


def test_what_was_measured_before_an_interruption_is_kept(tmp_path):
    file, first = tmp_path / "found.json", FakeRunner(tmp_path, stop=6)
    with pytest.raises(KeyboardInterrupt):
        mach.measure(first, GRID, file)
    kept = [row["name"] for row in json.loads(file.read_text())["rows"]]
    assert kept == first.asked[:5]
    second = FakeRunner(tmp_path)
    rows = mach.measure(second, GRID, file)["rows"]
    assert second.asked[0] == first.asked[5]
    assert [row["name"] for row in rows] == kept + second.asked
    assert len({row["name"] for row in rows}) == len(rows)


def test_a_sketch_of_fewer_repetitions_is_a_prefix_and_costs_their_sum():
    two, four = (Asked(buckets=10, repetitions=r).learned for r in (2, 4))
    assert four[:2] == two
    facts = [{"cpu_s": 1.0, "peak_mb": peak, "bytes": 10, "weights": 2} for peak in (3.0, 9.0, 4.0, 5.0)]
    assert mach.trained_in_all(four, facts) == {"cpu_s": 4.0, "peak_mb": 9.0, "bytes": 40, "weights": 8}


def test_a_share_of_the_labels_counts_for_all_of_them(result):
    found = row_of(mach_report.main_table(result), "DiSMEC")
    assert (found["train CPU s"], found["MB"], found["P@1"], found["peak MB train"]) == (
        "≈ 4.0",
        "≈ 6.0",
        "",
        "",
    )
    assert "its quality was not measured" in mach_report.section(result)


def test_names_of_models_tell_all_of_them_apart():
    models = [
        Learned("xr-linear"),
        Learned("xr-linear", gandalf=True),
        Learned("dismec"),
        Learned("dismec", label_share=0.5),
        *(
            Learned(buckets=b, repetition=r, learner=k)
            for b in (1, 11)
            for r in (1, 11)
            for k in ("linear", "mlp")
        ),
    ]
    assert len({model.name for model in models}) == len(models)


def test_the_ensemble_averages_probabilities_and_is_shown_beside_its_members(result):
    (fused,) = (
        mach_report.asked_of(row)
        for row in result["rows"]
        if row["asked"]["fused"] and not row["asked"]["gandalf"]
    )
    assert [member.transform for member in fused.members] == ["", "sigmoid"]
    table = mach_report.variants_table(result)
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        "XR-Linear",
        "XR-Linear Gandalf",
        "MACH B 20 R 2",
        "MACH B 20 R 2 Gandalf",
        "MACH B 20 R 2 + XR-Linear",
        "MACH B 20 R 2 + XR-Linear Gandalf",
    ]
    assert row_of(table, "MACH B 20 R 2 + XR-Linear")["train CPU s"] == "6.0"


def test_dense_bytes_are_those_of_all_weights_and_biases(result):
    table = mach_report.main_table(result)
    big = result | {"data": result["data"] | {"features": 249_999}}
    found = mach_report.main_table(big)
    assert row_of(found, "MACH B 20 R 2")["dense MB"] == "40"
    assert row_of(found, "DiSMEC")["dense MB"] == "60"
    assert row_of(table, "XR-Linear")["dense MB"] == ""


def test_the_grid_is_whole_and_without_variants(result):
    names = [line.split("|")[1].strip() for line in mach_report.main_table(result).splitlines()[2:]]
    assert names == [
        "XR-Linear",
        "XR-Linear beam 50",
        "Parabel",
        "DiSMEC",
        *(f"MACH B {b} R {r}" for b in (10, 20) for r in (1, 2)),
    ]
    recovery = mach_report.recovery_table(result)
    assert recovery.count("99.50%") == 3
    assert len(recovery.splitlines()) == 2 + 6


def test_what_people_wrote_above_the_tables_stays(result, tmp_path):
    file, into, plot = tmp_path / "found.json", tmp_path / "MACH.md", tmp_path / "plot.svg"
    file.write_text(json.dumps(result))
    into.write_text(f"# Findings\n\n{mach_report.MARK}\n\nold tables\n")
    mach_report.main([str(file), "--into", str(into), "--plot", str(plot)])
    text = into.read_text()
    assert text.startswith("# Findings\n")
    assert "old tables" not in text
    assert text.count("## small") == 1
    mach_report.main([str(file), "--into", str(into), "--plot", str(plot)])
    assert into.read_text() == text
    titles = [found.text for found in ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("B 20 R 2: 14.00") for title in titles)
    assert not any("R 1:" in title for title in titles)


@pytest.mark.parametrize("spots", [[(1, 50)], [(0.001, 0.1), (5000, 99)], [(3, 20), (3, 20)]])
def test_every_spot_is_inside_the_figure(spots):
    line = Line("B 1", tuple(Spot(cost, quality, "R 2") for cost, quality in spots))
    root = ElementTree.fromstring(drawn("title", [[Panel("a & b", "MB", "P@1", (line,), ())]]))
    width, height = float(root.get("width")), float(root.get("height"))
    circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == len(spots)
    assert all(0 < float(c.get("cx")) < width and 0 < float(c.get("cy")) < height for c in circles)


def test_agreement_looks_at_labels_not_at_their_order():
    found = np.array([[3, 1, 2], [1, 2, 9], [4, 5, 6], [1, -1, -1]])
    wanted = np.array([[1, 2, 3], [1, 2, 3], [-1, -1, -1], [1, 2, -1]])
    np.testing.assert_allclose(agreement(found, wanted), [1, 2 / 3, 1, 1 / 2])
