"""A filled folder is worked on by one process, or by those that torchrun starts: the same steps, as good a model. What
was begun is kept elsewhere when levels begin and, in long ones, after a checkpoint now and then."""

import json
import os
import socket
import subprocess
import sys

import needs_torch  # noqa: F401
import numpy as np
import pytest
from filled_job import filled_job

from xmcspark.neural import keeper as keeper_module
from xmcspark.neural.embed import embed
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.fine_tuning_job import ENCODER, HISTORY, run_job
from xmcspark.neural.fine_tuning_ways import TRAINING
from xmcspark.neural.keeper import Keeper
from xmcspark.neural.training_set import TrainingSet


def by_torchrun(work):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2"]
    command += ["--rdzv-backend=static", "--master-addr=127.0.0.1", f"--master-port={port}"]
    command += ["-m", "xmcspark.neural.fine_tuning_job", str(work)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_torchrun_works_on_a_folder_with_several_processes(tmp_path, tiny_encoder):
    alone = filled_job(tmp_path / "alone", tiny_encoder)
    together = filled_job(tmp_path / "together", tiny_encoder, batch_size=8)
    run_job(alone)
    for _ in range(3):
        done = by_torchrun(together)
        if "address already in use" not in done.stderr.lower():  # somebody else took the port meanwhile
            break
    assert done.returncode == 0, done.stderr
    histories = [json.loads((work / HISTORY).read_text()) for work in (alone, together)]
    assert [history["processes"] for history in histories] == [1, 2]
    steps = [[level["steps"] for level in history["levels"]] for history in histories]
    assert steps[0] == steps[1]
    tokens = TrainingSet.load(alone / TRAINING).tokens
    sides = [embed(TextEncoder.load(work / ENCODER), tokens) for work in (alone, together)]
    assert np.abs(sides[0] - sides[1]).max() < 0.002, "sums in another order, nothing else"
    assert np.abs(sides[0] - embed(tiny_encoder, tokens)).max() > 0.02


def test_what_was_begun_is_kept_when_levels_begin_and_after_checkpoints_that_are_due(
    tmp_path, tiny_encoder, monkeypatch
):
    """A driver that is lost with its disk goes on from there."""
    work, seen = filled_job(tmp_path / "work", tiny_encoder, checkpoint_every=2), []

    def kept():
        seen.append(sorted(path.name for path in (work / "state").glob("checkpoints/*/step-*")))

    monkeypatch.setattr(Keeper.__init__, "__defaults__", (None, 0.0))
    run_job(work, kept=kept)
    assert seen[0] == [], "a level begins"
    assert ["step-00000002"] in seen
    assert ["step-00000004"] in seen


@pytest.mark.parametrize(("due", "times"), [(True, 2), (False, 1)])
def test_checkpoints_are_copied_now_and_then_only(due, times, monkeypatch):
    now, copies = 0.0, []
    monkeypatch.setattr(keeper_module.time, "monotonic", lambda: now)
    keeper = Keeper(lambda: copies.append(now), seconds=60)
    now += 30
    keeper.keep()
    now += 61 if due else 59
    keeper.keep_if_due()
    assert len(copies) == times
