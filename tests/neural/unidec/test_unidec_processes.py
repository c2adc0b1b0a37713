"""Two processes on the loopback: the loss and the gradients of one, and a run that is killed goes on with what the
first process has kept."""

import shutil
from pathlib import Path

import needs_torch  # noqa: F401
import numpy as np
import pytest
from tiny_model import open_tiny
from training_process import GOES_ON_AT, KINDS, all_of_it, trained, training_set
from two_processes import run_two
from unidec_set import unidec_set

from xmcspark.neural.processes import ONE_PROCESS


@pytest.fixture(scope="module")
def data(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unidec-data")
    unidec_set(folder, open_tiny(tiny_folder))
    return folder


@pytest.fixture(scope="module")
def alone(tiny_folder, data, tmp_path_factory):
    """(folder, what one process found)."""
    folder = tmp_path_factory.mktemp("one")
    return folder, all_of_it(tiny_folder, data, folder)


@pytest.fixture(scope="module")
def together(tiny_folder, data, alone, tmp_path_factory):
    """(folder, what each of two processes found), with the clusters and negatives of the one: texts that are embedded
    in other company might shift by a rounding error. They lie where the first process keeps them."""
    folder = tmp_path_factory.mktemp("two")
    for kind in KINDS:
        place = Path(kind, "process-0", "unidec-refresh-0")
        shutil.copytree(alone[0] / place, folder / place)
    here = Path(__file__).parent
    run_two(
        here / "training_process.py", tiny_folder, data, folder, path=(here, here.parent, here.parents[2])
    )
    return folder, [dict(np.load(folder / f"process-{rank}.npz")) for rank in (0, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_have_the_loss_and_the_gradients_of_one(kind, alone, together):
    first, second = together[1]
    names = [name for name in alone[1] if name.startswith(f"{kind}: ")]
    assert len(names) > 10
    for name in names:
        gradient = alone[1][name]
        size = max(1e-3, np.abs(gradient).max())
        np.testing.assert_allclose(first[name] / size, gradient / size, atol=1e-3, err_msg=name)
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_a_killed_run_goes_on_where_only_what_the_first_process_kept_is_left(together):
    for found in together[1]:
        assert int(found["resumed at"]) == GOES_ON_AT
        for name, weight in found.items():
            if name.startswith("whole: "):
                again = found[name.replace("whole: ", "resumed: ")]
                np.testing.assert_array_equal(again, weight, err_msg=name)


def test_one_process_goes_on_with_what_two_began(together, tiny_folder, data):
    folder, (found, _) = together
    weights, at = trained(tiny_folder, training_set(data), folder / "for-one-process", ONE_PROCESS)
    assert at == GOES_ON_AT
    for name, weight in weights.items():
        np.testing.assert_allclose(weight, found[f"whole: {name}"], atol=5e-3, err_msg=name)
