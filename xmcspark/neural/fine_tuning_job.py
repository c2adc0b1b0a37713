"""Fine-tuning as a job of its own on a folder: settings, the encoder to start from and the training set in, the
fine-tuned encoder out. The same folder is worked on by the Spark driver, by processes that TorchDistributor places on
executors, and by torchrun:

    torchrun --nproc-per-node 2 -m xmcspark.neural.fine_tuning_job FOLDER"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xmcspark.errors import InputError
from xmcspark.matchers.settings import TrainSettings
from xmcspark.neural.device import Device, chosen_device, torch_threads
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.fine_tuning_ways import Work, fine_tuned
from xmcspark.neural.keeper import Keeper
from xmcspark.neural.processes import ONE_PROCESS, Processes, local_rank, open_processes
from xmcspark.neural.progress import Report
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings
from xmcspark.neural.unidec.settings import UnidecSettings

log = logging.getLogger(__name__)

SETTINGS, PRETRAINED = "job.json", "pretrained"  # beside what the ways read (fine_tuning_ways.py)
ENCODER, HISTORY = "encoder", "history.json"
LOG_FORMAT = "%(asctime)s %(message)s"  # of processes of their own


@dataclass(frozen=True)
class FineTuningJob:
    """What a folder asks for."""

    encoder: EncoderSettings
    xr_transformer: XrTransformerSettings
    x_transformer: XTransformerSettings
    train: TrainSettings
    seed: int
    threads: int
    identity: str  # of settings and instances: what was begun for another is not gone on with
    unidec: UnidecSettings = UnidecSettings()

    def save(self, folder: Path) -> None:
        """Whole or not at all: a folder with settings is complete."""
        partial = folder / f"{SETTINGS}.partial"
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(partial, folder / SETTINGS)

    @staticmethod
    def load(folder: Path) -> FineTuningJob:
        try:
            plain = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(
                f"{folder} is no folder of a fine-tuning job: it has no {SETTINGS}; the stage encode makes one"
            ) from error
        return FineTuningJob(
            EncoderSettings(**plain["encoder"]),
            XrTransformerSettings(**_with_tuples(plain["xr_transformer"], "shape", "shares")),
            XTransformerSettings(**plain["x_transformer"]),
            TrainSettings(**plain["train"]),
            int(plain["seed"]),
            int(plain["threads"]),
            str(plain["identity"]),
            UnidecSettings(**_with_tuples(plain.get("unidec", {}), "heads")),  # an older job has none
        )


def run_job(
    folder: Path,
    processes: Processes = ONE_PROCESS,
    *,
    device: Device | None = None,
    report: Report | None = None,
    kept: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Does what a folder asks for; what came of it, as JSON values. The first process writes the outcome. `kept` is
    called whenever a level or task starts, and every ten minutes or so, with all in the folder that going on from there
    needs."""
    job = FineTuningJob.load(folder)
    device = device or chosen_device(job.encoder, processes.local_rank)
    work = Work(
        folder, job, Embedder(job.encoder.embed_batch, device, processes, draft=True), report, Keeper(kept)
    )
    with torch_threads(job.threads):
        described = device.described
        log.info("encode: torch works on %s, processes: %d", described, processes.world)
        outcome = fine_tuned(work, TextEncoder.load(folder / PRETRAINED))
    history = {**outcome.history, "device": described, "processes": processes.world}
    if processes.rank == 0:
        outcome.encoder.save(folder / ENCODER)
        outcome.save()
        (folder / HISTORY).write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")
    processes.barrier()
    return history


def _with_tuples(plain: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """JSON has lists only."""
    return {
        key: tuple(value) if key in names and value is not None else value for key, value in plain.items()
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    folder = Path(arguments[0])
    device = chosen_device(FineTuningJob.load(folder).encoder, local_rank())
    with open_processes(device.torch) as processes:
        run_job(folder, processes, device=device)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
