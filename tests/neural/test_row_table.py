"""Gathered rows are trained as a dense layer with Adam trains them, and what is not gathered is not touched."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from xmcspark.errors import InputError  # noqa: E402
from xmcspark.neural.row_table import RowTable  # noqa: E402

ROWS, WIDTH = 12, 5


@pytest.fixture(params=["memory", "files"])
def place(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "table"


def start(rng):
    return rng.standard_normal((ROWS, WIDTH)).astype(np.float32), rng.standard_normal(ROWS).astype(np.float32)


def loss_of(margins, targets):
    return torch.nn.functional.binary_cross_entropy_with_logits(margins, targets)


def state(table: RowTable) -> list[np.ndarray]:
    return [np.array(array) for array in table._arrays.values()]


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_rows_of_every_step_move_as_a_dense_layer_with_adamw(place, decay):
    rng = np.random.default_rng(0)
    weights, bias = start(rng)
    table = RowTable.create(ROWS, WIDTH, place, weights=weights, bias=bias, decay=decay)
    dense = torch.nn.Linear(WIDTH, ROWS)
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(weights))
        dense.bias.copy_(torch.from_numpy(bias))
    groups = [
        {"params": [dense.weight], "weight_decay": decay},
        {"params": [dense.bias], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups)
    ids = np.array([7, 2, 3])
    for step in range(8):
        x = torch.from_numpy(rng.standard_normal((6, WIDTH)).astype(np.float32))
        targets = torch.from_numpy((rng.random((6, len(ids))) < 0.5).astype(np.float32))
        rate = 0.1 / (step + 1)
        for group in adam.param_groups:
            group["lr"] = rate
        gathered, own_bias = table.gathered(ids)
        loss_of(x @ gathered.T + own_bias, targets).backward()
        adam.zero_grad()
        loss_of(dense(x)[:, ids], targets).backward()
        # The same gradient (issue 8), then the same step.
        np.testing.assert_allclose(gathered.grad, dense.weight.grad[ids], atol=1e-7)
        np.testing.assert_allclose(own_bias.grad, dense.bias.grad[ids], atol=1e-7)
        table.step(rate)
        adam.step()
    np.testing.assert_allclose(table.weights[ids], dense.weight.detach()[ids], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(table.bias[ids], dense.bias.detach()[ids], rtol=1e-5, atol=1e-6)
    others = np.setdiff1d(np.arange(ROWS), ids)
    assert (table.weights[others] == weights[others]).all(), "rows that nobody gathered stay, decay or not"


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_decay_pulls_as_much_whatever_the_size_of_gradients(place, scale):
    """Adam divides gradients by their size: what decays with them would hardly be felt where they are large."""
    ones, rng = np.ones((ROWS, WIDTH), np.float32), np.random.default_rng(6)
    tables = [
        RowTable.create(ROWS, WIDTH, where, weights=ones, decay=decay)
        for where, decay in ((None, 0.0), (place, 0.5))
    ]
    gradient = torch.from_numpy(rng.standard_normal((1, WIDTH)).astype(np.float32)) * scale
    for table in tables:
        weights, _ = table.gathered(np.array([4]))
        (weights * gradient).sum().backward()
        table.step(0.1)
    np.testing.assert_allclose(tables[1].weights[4], tables[0].weights[4] - 0.1 * 0.5, rtol=1e-5)


def test_a_row_moves_by_the_number_of_its_own_updates(place):
    """A first update is a first update, however late it comes."""
    rng = np.random.default_rng(1)
    table = RowTable.create(ROWS, WIDTH, place)
    gradient = torch.from_numpy(rng.standard_normal((1, WIDTH)).astype(np.float32))

    def update(row):
        weights, _ = table.gathered(np.array([row]))
        (weights * gradient).sum().backward()
        table.step(0.01)

    update(0)
    early = np.array(table.weights[0])
    for _ in range(5):
        update(1)
    update(2)
    assert (table.weights[2] == early).all()


def test_gradients_of_several_gatherings_add_up(place):
    """As the forward passes of one step gather rows, each its own; `scale` takes back what the loss was scaled by."""
    rng = np.random.default_rng(2)
    weights, bias = start(rng)
    x = torch.from_numpy(rng.standard_normal((4, WIDTH)).astype(np.float32))

    def moved(where, passes, factor):
        table = RowTable.create(ROWS, WIDTH, where, weights=weights, bias=bias)
        for rows, ids in passes:
            w, b = table.gathered(np.array(ids))
            (((x[rows] @ w.T + b) ** 2).sum() * factor).backward()
        table.step(0.1, scale=1 / factor)
        return table

    at_once = moved(None, [(slice(0, 4), [1, 4, 5])], 1)
    in_parts = moved(place, [(slice(0, 2), [4, 1, 5]), (slice(2, 4), [1, 5]), (slice(2, 4), [4])], 8)
    np.testing.assert_allclose(in_parts.weights, at_once.weights, atol=1e-6)
    np.testing.assert_allclose(in_parts.bias, at_once.bias, atol=1e-6)
    assert not np.allclose(at_once.weights, weights)


def test_looking_at_rows_moves_nothing(place):
    rng = np.random.default_rng(3)
    weights, bias = start(rng)
    table = RowTable.create(ROWS, WIDTH, place, weights=weights, bias=bias)
    with torch.no_grad():
        seen, _ = table.gathered(np.array([0, 1]))
    assert not seen.requires_grad
    table.gathered(np.array([2]))  # not used by any loss
    before = state(table)
    table.step(0.1)
    assert all((a == b).all() for a, b in zip(before, state(table), strict=True))
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0] = 1


def test_a_table_in_files_is_found_again_and_copied(tmp_path):
    rng = np.random.default_rng(4)
    weights, bias = start(rng)
    table = RowTable.create(ROWS, WIDTH, tmp_path / "t", weights=weights, bias=bias, decay=0.5)
    w, b = table.gathered(np.array([3]))
    (w.sum() + b.sum()).backward()
    table.step(0.1)
    again = RowTable.open(tmp_path / "t")
    assert again.decay == 0.5
    assert all((a == b).all() for a, b in zip(state(table), state(again), strict=True))
    assert (table.private_bytes, table.mapped_bytes) == (0, 4 * ROWS * (WIDTH + 1 + 2 * (WIDTH + 1) + 1))


def test_a_copy_brings_back_everything_or_what_is_served(place, tmp_path):
    rng = np.random.default_rng(5)
    table = RowTable.create(ROWS, WIDTH, place, weights=start(rng)[0])

    def update():
        w, b = table.gathered(np.array([1, 2]))
        (w.sum() + (b**2).sum()).backward()
        table.step(0.1)

    update()
    kept = state(table)
    table.copy_to(tmp_path / "copy")
    table.copy_to(tmp_path / "finished", finished=True)
    update()
    table.copy_from(tmp_path / "copy")
    assert all((a == b).all() for a, b in zip(kept, state(table), strict=True))
    other = RowTable.create(ROWS, WIDTH)
    other.copy_from(tmp_path / "finished")
    assert (other.weights == table.weights).all()
    assert (other.bias == table.bias).all()
    assert sorted(path.name for path in (tmp_path / "finished").iterdir()) == ["bias.npy", "weights.npy"]
    with pytest.raises(InputError, match="the table needs"):
        RowTable.create(ROWS + 1, WIDTH).copy_from(tmp_path / "copy")


def test_creating_a_table_again_starts_anew(tmp_path):
    RowTable.create(ROWS, WIDTH, tmp_path, weights=np.ones((ROWS, WIDTH), np.float32))
    assert (RowTable.create(ROWS, WIDTH, tmp_path).weights == 0).all()


@pytest.mark.parametrize(
    ("ids", "message"), [([1, 1], "gathered once each"), ([ROWS], "were asked of"), ([-1], "were asked of")]
)
def test_rows_that_are_not_there_or_twice_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        RowTable.create(ROWS, WIDTH).gathered(np.array(ids))


def test_a_start_of_another_shape_is_refused():
    with pytest.raises(InputError, match="weights to start from have shape"):
        RowTable.create(ROWS, WIDTH, weights=np.zeros((WIDTH, ROWS), np.float32))
    with pytest.raises(InputError, match="there must be one of each"):
        RowTable.create(0, WIDTH)


def anonymous() -> int:
    """Bytes of memory of this process that are not mapped files."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def test_private_memory_of_a_step_does_not_follow_the_number_of_rows(tmp_path):
    def taken(rows: int) -> int:
        table = RowTable.create(rows, 128, tmp_path / str(rows))
        before = anonymous()
        rng = np.random.default_rng(0)
        for _ in range(3):
            w, b = table.gathered(np.unique(rng.integers(0, rows, 500)))
            (w.sum() + b.sum()).backward()
            table.step(0.1)
        return anonymous() - before

    taken(1000)  # what the first step of a process allocates for good
    small, large = taken(1000), taken(200_000)  # 300 MB in files
    assert large < small + (8 << 20)


def test_copying_a_table_in_files_loads_nothing(tmp_path):
    table = RowTable.create(40_000, 128, tmp_path / "table")  # 60 MB
    before = anonymous()
    table.copy_to(tmp_path / "copy")
    table.copy_from(tmp_path / "copy")
    assert anonymous() - before < (30 << 20), "a block at a time"
