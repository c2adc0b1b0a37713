"""The bench of transformers measures moments of fine-tuning as if it had ended there."""

import sys
from pathlib import Path

import needs_torch  # noqa: F401
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.transformers_steps import Asked, learn
from xmcspark.corpus.dataset import write_dataset
from xmcspark.corpus.synthetic import generate

QUICK = {
    "encoder.max_length": 16,
    "encoder.epochs": 4.0,
    "encoder.batch_size": 8,
    "encoder.checkpoint_every": 1,
    "encoder.learning_rate": 1e-3,
}


@pytest.mark.parametrize(
    ("method", "changes", "moments"),
    [
        (
            "xr-transformer",
            {"xr_transformer.max_leaf": 4, "xr_transformer.fewest_nodes": 2},
            ["level 0, step 20", "level 1, step 20"],
        ),
        ("x-transformer", {"x_transformer.clusters": 4}, [f"round 0, level 0, step {n}" for n in (14, 40)]),
    ],
)
def test_the_last_moment_is_the_model_and_those_before_it_are_earlier(
    tmp_path, tiny_folder, monkeypatch, method, changes, moments
):
    # A report for each step, so that no third is missed.
    monkeypatch.setattr("xmcspark.neural.progress._REPORT_SECONDS", 0.0)
    write_dataset(generate(80, 20, seed=1), tmp_path / "small")
    asked = Asked("any", method, {**QUICK, **changes}, curve=True)
    found = learn(asked, str(tmp_path / "small"), str(tiny_folder), tmp_path / "model", 1)
    curve = found["curve"]
    names = [point["moment"] for point in curve]
    assert [names[0], names[-1]] == moments
    assert len(names) == (3 if method == "x-transformer" else 2)
    assert curve[-1]["P@1"] == found["metrics"]["P@1"]
    seconds = [point["fine_tuning_s"] for point in curve]
    assert seconds == sorted(seconds)
    assert 0 < seconds[0] < seconds[-1] < found["train_s"]
    assert all(point["seconds"] > point["fine_tuning_s"] for point in curve)
    parts = sum(found[part] for part in ("train_s", "embed_s", "search_s"))
    assert (
        parts <= found["seconds"] < parts + sum(point["seconds"] - point["fine_tuning_s"] for point in curve)
    ), "what the curve took is not counted"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["predictions.npz"]
