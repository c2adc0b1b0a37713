"""Two processes on the loopback train what one trains on the same batches, and stay alike."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from process_work import OWN_ROWS, embedded, pool_gradient, trained  # noqa: E402
from two_processes import VARIABLES, run_two  # noqa: E402

from xmcspark.errors import ConfigError  # noqa: E402
from xmcspark.neural.processes import ONE_PROCESS, open_processes  # noqa: E402
from xmcspark.neural.row_table import RowTable  # noqa: E402
from xmcspark.neural.training_step import shares  # noqa: E402


@pytest.fixture(scope="module")
def both(tiny_folder, tmp_path_factory) -> list[dict[str, np.ndarray]]:
    """What two processes came to, by rank."""
    folder = tmp_path_factory.mktemp("processes")
    run_two(Path(__file__).with_name("process_work.py"), tiny_folder, folder)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in (0, 1)]


def test_what_is_told_is_the_same_everywhere(both):
    for name in ("added", "told", "copied", "gathered", "masks", "table", "embedded"):
        assert (both[0][name] == both[1][name]).all(), name


def test_a_process_that_comes_late_to_a_shared_folder_does_not_go_on_with_what_the_first_began(both):
    """Else they wait for each other at different places, for ever."""
    assert both[0]["late_steps"].tolist() == both[1]["late_steps"].tolist()
    assert (both[0]["late_steps"] > 0).all()


def test_sums_gatherings_and_broadcasts_are_what_they_are_called(both):
    found = both[0]
    assert found["added"].tolist() == [3, 3, 3, 3, 0, 3, 6, 2]
    assert found["copied"].tolist() == [0, 0, 0]
    assert int(found["told"]) == 0
    assert found["gathered_rows"].tolist() == list(OWN_ROWS)
    assert found["gathered"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["masks"].tolist() == [True, False, False]


def test_rows_gathered_with_gradient_get_that_of_the_sum_of_all_losses(both):
    """As if one process had made the losses of both. Its first row takes part in both losses."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 3))).requires_grad_()
    pool = x * 2
    loss = sum(
        ((x[own] @ pool.T) ** 3).sum() + (pool[0] * x[own]).sum() for own in (slice(0, 2), slice(2, 5))
    )
    loss.backward()
    found = np.concatenate([part["pool_gradient"] for part in both])
    np.testing.assert_allclose(found, x.grad, rtol=1e-12)
    alone = pool_gradient(x.detach(), slice(0, 5), ONE_PROCESS)
    np.testing.assert_allclose(alone, x.grad, rtol=1e-12)


def test_gradients_of_gathered_rows_add_up_over_processes(both):
    table = RowTable.create(6, 3)
    for step in range(3):
        parts = [([0, 1, 2], 1), ([2, 4], 2)] if step < 2 else [([5], 1)]
        for ids, factor in parts:
            weights, bias = table.gathered(np.array(ids))
            (weights * factor).sum().add((bias * (step + 1)).sum()).backward()
        table.step(0.1)
    assert (both[0]["table"] == np.column_stack([table.weights, table.bias])).all()
    assert (both[0]["table"][3] == 0).all()


def test_embeddings_do_not_depend_on_the_number_of_processes(both, tiny_folder, tmp_path):
    alone = embedded(tiny_folder, tmp_path, ONE_PROCESS)
    np.testing.assert_allclose(both[0]["embedded"], alone, atol=2e-6)


def test_two_processes_train_what_one_trains(both, tiny_folder, tmp_path):
    alone = trained(tiny_folder, tmp_path, ONE_PROCESS)
    for name, expected in alone.items():
        np.testing.assert_allclose(both[0][f"whole.{name}"], expected, atol=3e-4, err_msg=name)
        assert (both[0][f"whole.{name}"] == both[1][f"whole.{name}"]).all(), "replicas stay alike"


def test_two_processes_go_on_after_a_kill_from_what_the_first_one_kept(both):
    for name in [key.removeprefix("whole.") for key in both[0] if key.startswith("whole.")]:
        if name == "resumed":
            continue
        for found in both:
            assert (found[f"killed.{name}"] == found[f"whole.{name}"]).all(), name
    assert [int(found["killed.resumed"]) for found in both] == [4, 4]


def test_without_an_environment_there_is_one_process_and_nothing_distributed(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert open_processes() is ONE_PROCESS
    monkeypatch.setenv("WORLD_SIZE", "1")
    with open_processes() as processes:
        assert (processes.rank, processes.world) == (0, 1)
        assert processes.broadcast("x") == "x"
        array = np.arange(3)
        assert processes.gather(array)[0] is array


def test_half_an_environment_is_refused(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        ConfigError, match="RANK, MASTER_ADDR, MASTER_PORT is not set: start the processes with"
    ):
        open_processes()


@pytest.mark.parametrize(
    ("rows", "size", "world"), [(64, 16, 2), (10, 16, 1), (33, 8, 3), (1, 4, 2), (5, 1, 2)]
)
def test_a_batch_is_cut_into_passes_that_cover_it_once(rows, size, world):
    passes = [shares(rows, size, rank, world) for rank in range(world)]
    assert len({len(own) for own in passes}) == 1, "all have as many"
    counted = [(part, weight) for own in passes for part, weight in own if weight]
    covered = sorted(place for part, _ in counted for place in range(part.start, part.stop))
    assert covered == list(range(rows))
    assert sum(weight for _, weight in counted) == pytest.approx(1)
    assert all(0 < part.stop - part.start <= size for own in passes for part, _ in own)
