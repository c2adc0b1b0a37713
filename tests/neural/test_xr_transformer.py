"""Fine-tuning goes down the tree, learns, and goes on where it was killed."""

import gc
import weakref

import needs_torch  # noqa: F401
import numpy as np
import pytest
from small_set import LABELS, small_set

from xmcspark.errors import InputError
from xmcspark.neural import xr_transformer
from xmcspark.neural.embed import embed
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings
from xmcspark.neural.xr_transformer import XrFineTuning, level_steps, preliminary_shape, preliminary_tree

QUICK = {
    "batch_size": 16,
    "learning_rate": 1e-3,
    "head_learning_rate": 1e-2,
    "max_length": 16,
    "dropout": 0.0,
}


def fine_tuning(data, folder, epochs: float = 6.0, encoder=None, **changes) -> XrFineTuning:
    small = {"branching": 4, "max_leaf": 4, "fewest_nodes": 2, "parents": 3}
    settings = XrTransformerSettings(enabled=True, **{**small, **changes})
    tree = preliminary_tree(data, settings, seed=0, threads=1)
    asked = EncoderSettings(enabled=True, epochs=epochs, **{**QUICK, **(encoder or {})})
    return XrFineTuning(data, tree, asked, settings, seed=0, folder=folder, identity={"of": "test"})


def test_each_level_is_learned_from_the_root_down(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    tuning = fine_tuning(data, tmp_path / "work", epochs=24.0)
    _, reports = tuning.run(tiny_encoder)
    assert [report.outputs for report in reports] == list(tuning.tree.level_sizes[1:])
    assert reports[-1].outputs == LABELS
    assert all(report.tuned.steps == steps for report, steps in zip(reports, tuning.steps, strict=True))


def test_fine_tuned_embeddings_tell_labels_apart_better(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)

    def alike(E: np.ndarray) -> float:
        """How much more alike embeddings of rows with a label in common are than those of others."""
        Y = data.Y.to_scipy().toarray()
        common, cosine = (Y @ Y.T) > 0, E @ E.T
        np.fill_diagonal(common, False)
        return float(cosine[common].mean() - cosine[~common].mean())

    before = alike(embed(tiny_encoder, data.tokens))
    encoder, _ = fine_tuning(data, tmp_path / "work", epochs=24.0).run(tiny_encoder)
    assert alike(embed(encoder, data.tokens)) > before + 0.02


def test_a_killed_run_ends_as_one_that_was_not(tmp_path, make_tiny, monkeypatch):
    data = small_set(tmp_path / "set", make_tiny())
    whole, expected = fine_tuning(data, tmp_path / "whole", encoder={"checkpoint_every": 3}).run(make_tiny())
    killed = fine_tuning(data, tmp_path / "killed", encoder={"checkpoint_every": 3})
    calls = []

    from xmcspark.neural.level_task import LevelTask

    plain = LevelTask.loss

    def dying(self, encoder, rows):
        calls.append(self.level.number)
        if len(calls) == sum(killed.steps[:1]) + 5:
            raise KeyboardInterrupt
        return plain(self, encoder, rows)

    monkeypatch.setattr(LevelTask, "loss", dying)
    with pytest.raises(KeyboardInterrupt):
        killed.run(make_tiny())
    began = len(calls)
    resumed, reports = fine_tuning(data, tmp_path / "killed", encoder={"checkpoint_every": 3}).run(
        make_tiny()
    )
    assert 0 not in calls[began:]  # the first level was not repeated, but what it came to is still known

    def facts(report):
        return report.level, report.outputs, report.tuned.steps, report.tuned.loss, report.tuned.first_loss

    assert [facts(report) for report in reports] == [facts(report) for report in expected]
    assert all(report.tuned.seconds > 0 for report in reports)
    np.testing.assert_array_equal(embed(resumed, data.tokens), embed(whole, data.tokens))


def test_work_that_was_begun_for_something_else_is_refused(tmp_path, make_tiny):
    data = small_set(tmp_path / "set", make_tiny())
    fine_tuning(data, tmp_path / "work").run(make_tiny())
    other = fine_tuning(data, tmp_path / "work")
    other.identity = {"of": "another"}
    with pytest.raises(InputError, match="was begun with other settings or instances"):
        other.run(make_tiny())


@pytest.mark.parametrize(
    "changes",
    [
        {"shortlist": "head"},
        {"bootstrap": False},
        {"glas": 0.1},
        {"cost_sensitive": False},
        {"down_to": "clusters"},
        {"shape": (3, 9)},
    ],
    ids=str,
)
def test_variants_run_to_their_end(tmp_path, tiny_encoder, changes):
    data = small_set(tmp_path / "set", tiny_encoder)
    tuning = fine_tuning(data, tmp_path / "work", epochs=2.0, **changes)
    _, reports = tuning.run(tiny_encoder)
    assert len(reports) == len(tuning.levels)
    assert all(np.isfinite(report.tuned.loss) for report in reports)


def test_bootstrapped_heads_start_where_the_solver_ends(tmp_path, tiny_encoder):
    """The first loss of a level is smaller from solved weights than from nothing (paper 4, eq. 11)."""
    data = small_set(tmp_path / "set", tiny_encoder)
    tuning = fine_tuning(data, tmp_path / "work", epochs=0.0)
    _, start = tuning._begun(tiny_encoder)
    below = tuning._next(tiny_encoder, tuning.levels[0], start)
    assert below.weights is not None
    assert below.weights.shape == (tuning.levels[1].outputs, tiny_encoder.width)
    E = embed(tiny_encoder, data.tokens)
    margins = E @ below.weights.T + below.bias
    Y = tuning.levels[1].Y.to_scipy().toarray() > 0
    assert margins[Y].mean() > margins[~Y].mean() + 0.2  # without a start both are 0


def test_the_first_level_starts_from_solved_weights_unless_told_otherwise(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    _, start = fine_tuning(data, tmp_path / "solved", epochs=0.0)._begun(tiny_encoder)
    _, cold = fine_tuning(data, tmp_path / "cold", epochs=0.0, bootstrap_root=False)._begun(tiny_encoder)
    assert cold.weights is None
    assert start.weights is not None
    E, Y = (
        embed(tiny_encoder, data.tokens),
        fine_tuning(data, tmp_path / "x").levels[0].Y.to_scipy().toarray(),
    )
    margins = E @ start.weights.T + start.bias
    assert margins[Y > 0].mean() > margins[Y == 0].mean() + 0.2


def test_levels_of_a_few_nodes_are_left_out_as_in_the_paper():
    settings = XrTransformerSettings()
    assert preliminary_shape(3_956, settings) == (16, 248)  # table 7, Eurlex-4K: 16, 256
    assert preliminary_shape(30_938, settings) == (121, 1934)  # Wiki10-31K: 128, 2048
    assert preliminary_shape(100, settings) == ()
    assert preliminary_shape(100, XrTransformerSettings(fewest_nodes=1)) == (7,)
    assert preliminary_shape(100, XrTransformerSettings(shape=(2, 8))) == (2, 8)


def test_a_head_is_trained_without_its_start_in_memory(tmp_path, tiny_encoder, monkeypatch):
    """Else private memory would follow the number of outputs."""
    made, solved, train = [], XrFineTuning._bootstrapped, xr_transformer.fine_tune

    def noted(*given):
        start = solved(*given)
        made.append(weakref.ref(start.weights))
        return start

    def checked(*given, **how):
        gc.collect()
        assert made
        assert all(weights() is None for weights in made)
        return train(*given, **how)

    monkeypatch.setattr(XrFineTuning, "_bootstrapped", noted)
    monkeypatch.setattr(xr_transformer, "fine_tune", checked)
    fine_tuning(small_set(tmp_path / "set", tiny_encoder), tmp_path / "work", epochs=1.0).run(tiny_encoder)
    assert len(made) > 1


def test_instances_that_are_held_out_are_checked_not_trained(tmp_path, tiny_encoder):
    data = small_set(tmp_path / "set", tiny_encoder)
    tuning = fine_tuning(data, tmp_path / "work", epochs=3.0, encoder={"validation": 0.25})
    assert 0 < tuning.held_out.sum() < 60
    _, reports = tuning.run(tiny_encoder)
    assert all(0 <= report.tuned.validation <= 1 for report in reports)


def test_steps_are_shared_out_among_levels():
    assert level_steps(100, 4, None) == [25, 25, 25, 25]
    assert level_steps(100, 2, (1.0, 3.0)) == [25, 75]
    with pytest.raises(InputError, match=r"shares has 3 values for the 2 levels"):
        level_steps(10, 2, (1, 1, 1))
