"""Fine-tuning by several processes that TorchDistributor places on executors. They work on one folder where all see it,
else each on a copy of its own that it fetches from the run's filesystem, to which the first brings what going on after
a kill needs, and the outcome."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.ml.torch.distributor import TorchDistributor

from xmcspark.errors import ConfigError
from xmcspark.neural.work_folder_spark import ArrowCopies, fetch_copy, keep_copy, newest_copy, work_uri
from xmcspark.store.stage import Context

log = logging.getLogger(__name__)


def run_on_executors(context: Context, work: Path) -> dict[str, Any]:
    """Has `encoder.processes` processes work on a folder together; what came of it."""
    settings, conf = context.config.encoder, context.spark.conf
    if str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        raise ConfigError(
            [
                f"encoder.processes is {settings.processes}, and they start together, which Spark does not do with "
                "dynamic allocation: add --conf spark.dynamicAllocation.enabled=false and say how many executors there "
                "are (--num-executors), or set encoder.processes to 1"
            ]
        )
    uri = work_uri(context)
    shared = context.fs.local_path(uri)
    keep_copy(context, work)
    local = (context.spark.sparkContext.master or "").startswith("local")
    distributor = TorchDistributor(
        num_processes=settings.processes, local_mode=local, use_gpu=_on_gpus(settings.device, conf)
    )
    history = distributor.run(_work, shared, uri, newest_copy(context.fs, uri))
    if shared is None:
        fetch_copy(context, work)
    return dict(history or {})


def _on_gpus(device: str, conf: Any) -> bool:
    """Whether processes are to see GPUs: where Spark hands them out to tasks, or where they are asked for."""
    return device == "cuda" or (
        device == "auto" and conf.get("spark.task.resource.gpu.amount", None) is not None
    )


def _work(shared: str | None, uri: str, number: int) -> dict[str, Any]:
    """In each process. What it logs (the device, progress every half minute) is shown by the driver."""
    from xmcspark.neural.device import chosen_device
    from xmcspark.neural.fine_tuning_job import LOG_FORMAT, FineTuningJob, run_job
    from xmcspark.neural.processes import local_rank, open_processes

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    with ExitStack() as stack:
        if shared is not None:
            folder, copies = Path(shared), None
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmcspark-encode-")))
            copies = ArrowCopies(uri, number)
            copies.fetch(folder)
        device = chosen_device(FineTuningJob.load(folder).encoder, local_rank())
        processes = stack.enter_context(open_processes(device.torch))

        def kept() -> None:
            if copies is not None and processes.rank == 0:
                copies.keep(folder)

        history = run_job(folder, processes, device=device, kept=kept)
        kept()
    return history
