"""The gradients of one step for test_unidec_training, in a process of its own or in the test's."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from small_set import LABELS, texts_and_targets
from tiny_model import open_tiny
from unidec_set import QUICK, SMALL, first_rows, small_heads

from xmcspark.neural.device import CPU
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.processes import open_processes
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.schedule import Rates
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_step import TrainingStep
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.task import UnidecTask


def gradients(model: Path, data: Path, folder: Path) -> dict[str, np.ndarray]:
    """The loss of a step and its gradients, added up over as many processes as the environment says."""
    _, Y = texts_and_targets(96)
    given = UnidecData(Y, TokenStore.open(data / "instances"), TokenStore.open(data / "labels"))
    encoder, heads = open_tiny(model), small_heads(learned=True)
    table = RowTable.create(LABELS, 12, weights=first_rows())
    with open_processes() as processes:
        own, rows = folder / f"process-{processes.rank}", np.arange(96)
        embedder = Embedder(processes=processes)
        parts = (given, SMALL, encoder, heads, table, rows)
        task = UnidecTask("unidec", *parts, 1, 0, own, embedder, first_folder=folder / "process-0")
        settings = replace(QUICK, batch_size=-(-SMALL.batch_size // processes.world))
        step = TrainingStep(encoder, task, settings, Rates(), seed=0, device=CPU, processes=processes)
        found = {"loss": np.array(step._backward(0, task.batch(0)))}
        step._add_gradients()
        of_rows = np.zeros((LABELS, 13), np.float32)
        for ids, moves in zip(*map(processes.gather, table._pending()), strict=True):
            np.add.at(of_rows, ids, moves)
    for number, part in enumerate((encoder, *heads.modules)):
        named = part.named_parameters()
        found |= {f"{number} {name}": w.grad.numpy() for name, w in named if w.grad is not None}
    np.savez(folder / f"gradients-{processes.rank}.npz", table=of_rows, **found)
    return found | {"table": of_rows}


if __name__ == "__main__":
    torch.set_num_threads(1)
    gradients(*map(Path, sys.argv[1:]))
