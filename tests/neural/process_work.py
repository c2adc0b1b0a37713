"""What each of the processes does that test_processes starts: everything they tell each other, once. Writes what came
of it to `<folder>/<rank>.npz`; the test compares that with one process. Run as: process_work.py <model> <folder>."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_set import small_set
from tiny_model import open_tiny, some_texts
from toy_task import make_task, weights_of

from xmcspark.neural.checkpoint import Checkpoints
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.fine_tune import fine_tune
from xmcspark.neural.processes import Processes, open_processes
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.x_transformer import XFineTuning
from xmcspark.neural.xr_transformer import XrFineTuning, preliminary_tree

STEP_ROWS = 16
OWN_ROWS = (3, 0)  # of arrays that are gathered, by rank


def exchange(processes: Processes) -> dict[str, np.ndarray]:
    """Every way of telling."""
    rank = processes.rank
    tensors = [torch.full((2, 2), rank + 1.0), torch.arange(3) * (rank + 1), torch.tensor(rank + 0.5)]
    processes.add(tensors)
    copied = [torch.full((2,), float(rank)), torch.tensor(rank)]
    processes.broadcast_tensors(copied)
    rows = OWN_ROWS[rank]
    gathered = processes.gather(np.arange(rows * 2, dtype=np.int64).reshape(rows, 2) + 10 * rank)
    masks = processes.gather(np.full(rank + 1, rank == 0))
    processes.barrier()
    return {
        "added": np.concatenate([tensor.reshape(-1).double().numpy() for tensor in tensors]),
        "told": np.array(processes.broadcast([rank, "from the first"])[0]),
        "copied": np.concatenate([tensor.reshape(-1).double().numpy() for tensor in copied]),
        "gathered": np.concatenate(gathered),
        "gathered_rows": np.array([len(part) for part in gathered]),
        "masks": np.concatenate(masks),
    }


def pool_gradient(x: torch.Tensor, own: slice, processes: Processes) -> np.ndarray:
    """The gradient of x where each process compares its rows with those of all."""
    x = x[own].clone().requires_grad_()
    pool = processes.gather_with_gradient(x * 2)
    (((x @ pool.T) ** 3).sum() + (pool[0] * x).sum()).backward()
    return x.grad.numpy()


def table_after_steps(processes: Processes, folder: Path | None) -> np.ndarray:
    """Rows that both, one or none of the processes gather."""
    table = RowTable.create(6, 3, folder)
    for step in range(3):
        ids = np.array(
            [[0, 1, 2], [2, 4]][processes.rank] if step < 2 else [[5], []][processes.rank], np.int64
        )
        weights, bias = table.gathered(ids)
        (weights * (processes.rank + 1)).sum().add((bias * (step + 1)).sum()).backward()
        table.step(0.1, processes)
    return np.column_stack([table.weights, table.bias])


def trained(model: Path, folder: Path, processes: Processes, **how: Any) -> dict[str, np.ndarray]:
    """All weights after fine-tuning, with the checkpoints where the first process alone sees them."""
    encoder = open_tiny(model)
    task = make_task(folder / f"rank-{processes.rank}", encoder, mapped=True, step_rows=STEP_ROWS, **how)
    settings = EncoderSettings(batch_size=STEP_ROWS // processes.world, checkpoint_every=2)
    checkpoints = Checkpoints(folder / f"seen-by-{processes.rank}", {})
    tuned = fine_tune(encoder, task, settings, seed=1, processes=processes, checkpoints=checkpoints)
    return {
        **weights_of(encoder, task),
        "loss": np.array(tuned.loss),
        "resumed": np.array(tuned.resumed_at or 0),
    }


def killed_and_trained(model: Path, folder: Path, processes: Processes) -> dict[str, np.ndarray]:
    try:
        trained(model, folder, processes, die_at=5)
    except KeyboardInterrupt:
        processes.barrier()
    return trained(model, folder, processes)


def embedded(model: Path, folder: Path, processes: Processes) -> np.ndarray:
    encoder = open_tiny(model)
    tokens = TokenStore.write(folder / f"texts-{processes.rank}", encoder, [some_texts(21)])
    return Embedder(batch=4, processes=processes).embedded(encoder, tokens)


def late_in_a_shared_folder(model: Path, folder: Path, processes: Processes) -> list[int]:
    """Steps of all levels, of XR- and X-Transformer, where the second process looks for what was begun only when the
    first has had the time to begin."""
    folder.mkdir(exist_ok=True)
    data = small_set(folder / f"set-{processes.rank}", open_tiny(model))
    settings = XrTransformerSettings(branching=4, max_leaf=4, fewest_nodes=2)
    encoder = EncoderSettings(epochs=0.5, batch_size=8)
    how: dict[str, Any] = {"seed": 0, "identity": {}, "embedder": Embedder(4, processes=processes)}
    steps = []
    for name in ("xr", "x"):
        if processes.rank:
            time.sleep(1)
        if name == "xr":
            tree = preliminary_tree(data, settings, seed=0, threads=1)
            done = XrFineTuning(data, tree, encoder, settings, folder=folder / name, **how).run(
                open_tiny(model)
            )
        else:
            asked = XTransformerSettings(clusters=4)
            done = XFineTuning(data, encoder, asked, labels=None, folder=folder / name, **how).run(
                open_tiny(model)
            )
        steps += [report.tuned.steps for report in done[-1]]
    return steps


def main(model: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    with open_processes() as processes:
        rank = processes.rank
        x = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 3)))
        found = exchange(processes)
        found["pool_gradient"] = pool_gradient(x, (slice(0, 2), slice(2, 5))[rank], processes)
        found["table"] = table_after_steps(processes, folder / f"table-{rank}")
        found["embedded"] = embedded(model, folder, processes)
        found |= {f"whole.{k}": v for k, v in trained(model, folder / "whole", processes).items()}
        found |= {
            f"killed.{k}": v for k, v in killed_and_trained(model, folder / "killed", processes).items()
        }
        found["late_steps"] = np.array(late_in_a_shared_folder(model, folder / "late", processes))
        np.savez(folder / f"{rank}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
