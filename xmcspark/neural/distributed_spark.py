"""Fine-tuning by several processes that TorchDistributor places on executors. They work on one folder where all see it,
else each on a copy of its own that it fetches from the run's filesystem, to which the first brings the outcome."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

from pyspark.ml.torch.distributor import TorchDistributor

from xmcspark.store.stage import Context

log = logging.getLogger(__name__)


def run_on_executors(context: Context, work: Path) -> dict[str, Any]:
    """Has `encoder.processes` processes work on a folder together; what came of it."""
    settings = context.config.encoder
    uri = context.scratch(f"fine-tuning-{context.key[:16]}")
    shared = context.fs.local_path(uri)
    if shared is None:
        context.fs.delete(uri)
        context.fs.upload(work, uri)
    local = (context.spark.sparkContext.master or "").startswith("local")
    distributor = TorchDistributor(
        num_processes=settings.processes, local_mode=local, use_gpu=settings.device == "cuda"
    )
    history = distributor.run(_work, shared, None if shared else uri)
    if shared is None:
        context.fs.download(uri, work)
    return dict(history or {})


def _work(shared: str | None, uri: str | None) -> dict[str, Any]:
    """In each process."""
    from xmcspark.neural.device import chosen_device
    from xmcspark.neural.fine_tuning_job import FineTuningJob, run_job
    from xmcspark.neural.processes import open_processes

    if shared is not None:
        folder = Path(shared)
    else:
        assert uri is not None
        folder = Path(tempfile.mkdtemp(prefix="xmcspark-encode-"))
        copy_folder(uri, str(folder))
    device = chosen_device(FineTuningJob.load(folder).encoder)
    with open_processes(device.torch) as processes:
        history = run_job(folder, processes)
        if uri is not None and processes.rank == 0:
            copy_folder(str(folder), uri)
    return history


def copy_folder(source: str, target: str) -> None:
    """All files of a folder, by Arrow's own filesystems: these processes have no JVM."""
    from pyarrow import fs

    (from_fs, from_path), (to_fs, to_path) = (
        (fs.LocalFileSystem(), place) if "://" not in place else fs.FileSystem.from_uri(place)
        for place in (source, target)
    )
    fs.copy_files(from_path, to_path, source_filesystem=from_fs, destination_filesystem=to_fs)
