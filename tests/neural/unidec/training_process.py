"""What one process, and each of two, does for test_unidec_processes: the gradients of one step of several kinds, and a
run that is killed and goes on. As a program: training_process.py <model> <data> <folder>."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_set import LABELS, texts_and_targets
from tiny_model import open_tiny
from unidec_set import QUICK, SMALL, first_rows, small_heads

from xmcspark.labels.cooccurrence import counted_neighbours
from xmcspark.neural.device import CPU
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.processes import Processes, open_processes
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.schedule import Rates
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_step import TrainingStep
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.model import UnidecModel
from xmcspark.neural.unidec.task import UnidecTask
from xmcspark.neural.unidec.train import UnidecTraining
from xmcspark.sparse.csr import as_csr

ROWS = 96
KINDS = {
    "both heads": SMALL,
    "a wider pool for the classifier": replace(SMALL, positives=1, pool_size=17, classifier_pool_size=22),
    "all labels and GLaS": replace(SMALL, reduction="pal", glas=0.3),
}
RUN = replace(SMALL, refresh_epochs=5)  # one refresh for all steps
DIES_AT, GOES_ON_AT = 7, 4


class KilledError(Exception):
    pass


def training_set(folder: Path) -> UnidecData:
    """Instances of different weights, some with labels that are excluded."""
    _, Y = texts_and_targets(ROWS)
    rng = np.random.default_rng(3)
    tokens, labels = (TokenStore.open(folder / name) for name in ("instances", "labels"))
    never = (rng.random((ROWS, LABELS)) < 0.1) & (Y.to_scipy().toarray() == 0)
    weights = rng.choice(np.array([0.5, 1, 2], np.float32), ROWS)
    return UnidecData(Y, tokens, labels, weights, excluded=as_csr(never.astype(np.float32)))


def gradients(kind: str, model: Path, data: UnidecData, folder: Path, processes: Processes) -> dict[str, Any]:
    """The loss of a step and its gradients, added up over all processes."""
    settings, encoder, heads = KINDS[kind], open_tiny(model), small_heads(learned=True)
    table = RowTable.create(LABELS, 12, weights=first_rows())
    own, first = (folder / f"process-{rank}" for rank in (processes.rank, 0))
    more = {"embedder": Embedder(processes=processes), "first_folder": first}
    more["graph"] = counted_neighbours(data.Y, 100)[0]
    task = UnidecTask("unidec", data, settings, encoder, heads, table, np.arange(ROWS), 1, 0, own, **more)
    share = replace(QUICK, batch_size=-(-settings.batch_size // processes.world))
    step = TrainingStep(encoder, task, share, Rates(), seed=0, device=CPU, processes=processes)
    found = {"loss": np.array(step._backward(0, task.batch(0)))}
    step._add_gradients()
    of_rows = np.zeros((LABELS, 13), np.float32)
    for ids, moves in zip(*map(processes.gather, table._pending()), strict=True):
        np.add.at(of_rows, ids, moves)
    for number, part in enumerate((encoder, *heads.modules)):
        named = part.named_parameters()
        found |= {f"{number} {name}": w.grad.numpy() for name, w in named if w.grad is not None}
    return {f"{kind}: {name}": array for name, array in (found | {"table": of_rows}).items()}


def trained(model: Path, data: UnidecData, folder: Path, processes: Processes, dies_at: int = -1) -> Any:
    """Weights of a run of two epochs, and the step it went on at, if it was killed before."""
    batch = UnidecTask.batch

    def dying(task: UnidecTask, step: int) -> np.ndarray:
        if step == dies_at:
            raise KilledError
        return batch(task, step)

    settings = replace(QUICK, epochs=2.0, checkpoint_every=GOES_ON_AT)
    how = {"seed": 0, "identity": {"of": "test"}, "embedder": Embedder(processes=processes)}
    UnidecTask.batch = dying  # type: ignore[method-assign]
    try:
        found, (report,) = UnidecTraining(data, settings, RUN, folder=folder, **how).run(open_tiny(model))
    finally:
        UnidecTask.batch = batch  # type: ignore[method-assign]
    return _weights(found), report.tuned.resumed_at


def _weights(model: UnidecModel) -> dict[str, np.ndarray]:
    found = dict(model.encoder.model.state_dict())
    for number, head in enumerate(model.heads.modules):
        found |= {f"head {number} {name}": weight for name, weight in head.state_dict().items()}
    arrays = {name: weight.detach().numpy().copy() for name, weight in found.items()}
    return arrays | {"table": np.array(model.table)}


def killed_and_gone_on_with(model: Path, data: UnidecData, folder: Path, processes: Processes) -> Any:
    """Weights of a whole run, and of one that goes on without what the second process had kept."""
    whole, _ = trained(model, data, folder / "whole", processes)
    try:
        trained(model, data, folder / "killed", processes, dies_at=DIES_AT)
    except KilledError:
        processes.barrier()
    if processes.rank == 0:
        shutil.copytree(folder / "killed", folder / "for-one-process")
        shutil.rmtree(folder / "killed" / "process-1")
    processes.barrier()
    resumed, at = trained(model, data, folder / "killed", processes)
    return {f"whole: {name}": w for name, w in whole.items()} | {
        **{f"resumed: {name}": w for name, w in resumed.items()},
        "resumed at": np.array(-1 if at is None else at),
    }


def all_of_it(model: Path, data: Path, folder: Path) -> dict[str, np.ndarray]:
    """In as many processes as the environment says."""
    given, found = training_set(data), {}
    with open_processes() as processes:
        for kind in KINDS:
            found |= gradients(kind, model, given, folder / kind, processes)
        if processes.world > 1:
            found |= killed_and_gone_on_with(model, given, folder, processes)
    np.savez(folder / f"process-{processes.rank}.npz", **found)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    all_of_it(*map(Path, sys.argv[1:]))
