"""The stage `encode`: fine-tunes a text encoder and embeds all instances with it. What torch needs goes to a folder
that is worked on by the driver, or by processes on executors (fine_tuning_job.py); then every executor embeds its share
of the instances. Without an encoder it leaves an empty table."""

from __future__ import annotations

import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcspark.config.configuration import Config
from xmcspark.neural.available import require_torch
from xmcspark.neural.embeddings_spark import ENCODER, write_embeddings
from xmcspark.neural.settings import FINE_TUNING_KEYS, LAYOUT_KEYS, SOLVING_KEYS
from xmcspark.neural.work_folder_spark import keep_copy, work_folder
from xmcspark.store.filesystem import joined
from xmcspark.store.progress import tell
from xmcspark.store.session import threads_of_few
from xmcspark.store.side_files import local_copy
from xmcspark.store.stage import Context, EarlyCheck, Stage
from xmcspark.text.features_spark import LOOKUP

if TYPE_CHECKING:
    from xmcspark.neural.encoder import TextEncoder
    from xmcspark.neural.fine_tuning_job import FineTuningJob
    from xmcspark.neural.progress import Progress

log = logging.getLogger(__name__)

# Folder: how fine-tuning went, X-Transformer's cluster matcher, UniDEC's heads and the classifier's label vectors.
OUTCOME = "encode"


def encode(context: Context) -> None:
    for folder in (OUTCOME, ENCODER):
        context.fs.delete(context.folder(folder))
    if not context.config.encoder.enabled:
        context.write_few("embeddings", [])
        context.note(width=0)
        return
    _require_packages(context.config)
    encoder = _pretrained(context)
    with work_folder(context) as work:
        history = _fine_tuned(context, encoder, work)
        _keep(context, work)
    tell("encode", "embedding texts")
    rows = write_embeddings(context)
    parts = [*history.get("levels", ()), *history.get("tasks", ())]
    context.note(
        width=encoder.width,
        rows=rows,
        encoder=context.config.encoder.model,
        encoder_bytes=sum(entry.size for entry in context.fs.walk(context.folder(ENCODER))),
        fine_tuning_seconds=round(sum(part["seconds"] for part in parts), 1),
        **history,
    )


def check_labels(context: Context) -> None:
    """What UniDEC needs of labels, which are known long before texts are tokens."""
    if not context.config.unidec.enabled:
        return
    _require_packages(context.config)
    from xmcspark.neural import training_export_spark as export

    export.check_labels(context.config.unidec, export.read_labels(context))


def _require_packages(config: Config) -> None:
    require_torch(f"method: {config.method}")
    if config.unidec.enabled:
        config.unidec.require_packages()


def _pretrained(context: Context) -> TextEncoder:
    """The encoder to start from: a folder here, a name on the hub, or a folder of any filesystem that Spark reads."""
    from xmcspark.neural.encoder import TextEncoder

    settings = context.config.encoder
    model = str(local_copy(context.fs, settings.model)) if "://" in settings.model else settings.model
    return TextEncoder.open(
        model, pooling=settings.pooling, max_length=settings.max_length, dropout=settings.dropout
    )


def _fine_tuned(context: Context, encoder: TextEncoder, work: Path) -> dict[str, Any]:
    """Has the folder filled, if no earlier attempt did, and worked on; what came of it."""
    from xmcspark.neural.distributed_spark import run_on_executors
    from xmcspark.neural.fine_tuning_job import SETTINGS, run_job

    job = _job(context)
    if not (work / SETTINGS).exists():  # they are written last: a folder that has them is complete
        tell("encode", "texts as tokens")
        _fill(context, job, encoder, work)
    # Also over those of an earlier attempt: how torch works may have changed since, to what fits into memory, say.
    job.save(work)
    tell("encode", "fine-tuning")
    if context.config.encoder.processes > 1:
        return run_on_executors(context, work)
    return run_job(work, report=_told, kept=lambda: keep_copy(context, work))


def _fill(context: Context, job: FineTuningJob, encoder: TextEncoder, work: Path) -> None:
    from xmcspark.neural import training_export_spark as export
    from xmcspark.neural.fine_tuning_job import PRETRAINED
    from xmcspark.neural.fine_tuning_ways import LABELS, TRAINING

    encoder.save(work / PRETRAINED)
    if job.unidec.enabled:
        export.export_unidec_data(context, encoder, work / TRAINING, work / LABELS)
    else:
        export.export_training_set(context, encoder, work / TRAINING, job.threads)
    if job.x_transformer.enabled and job.x_transformer.indexer == "text-emb":
        export.export_label_texts(context, encoder, work / LABELS)


def _job(context: Context) -> FineTuningJob:
    from xmcspark.neural.fine_tuning_job import FineTuningJob

    config = context.config
    local = (context.spark.sparkContext.master or "").startswith("local")
    on_executors = config.encoder.processes > 1
    threads = (
        threads_of_few(context.spark, config.encoder.processes) if local or on_executors else os.cpu_count()
    )
    return FineTuningJob(
        config.encoder,
        config.xr_transformer,
        config.x_transformer,
        config.train.alone,
        config.seed,
        threads or 1,
        context.key,
        config.unidec,
    )


def _told(progress: Progress) -> None:
    tell("encode", str(progress))


def _keep(context: Context, work: Path) -> None:
    from xmcspark.neural.fine_tuning_job import ENCODER as FINE_TUNED
    from xmcspark.neural.fine_tuning_job import HISTORY
    from xmcspark.neural.fine_tuning_ways import HEAD, UNIDEC

    context.fs.upload(work / FINE_TUNED, context.folder(ENCODER))
    context.fs.upload(work / HISTORY, joined(context.folder(OUTCOME), HISTORY))
    for beside in (HEAD, UNIDEC):
        if (work / beside).exists():
            context.fs.upload(work / beside, joined(context.folder(OUTCOME), beside))


def _deciding_keys(config: Config) -> tuple[str, ...]:
    """Settings that decide the embeddings; none without an encoder."""
    if not config.encoder.enabled:
        return ()
    encoder = tuple(
        f"encoder.{field.name}" for field in fields(config.encoder) if field.name not in LAYOUT_KEYS
    )
    if config.unidec.enabled:
        own = config.unidec.training_keys(checked=config.encoder.validation > 0)
        method = tuple(f"unidec.{name}" for name in ("enabled", *own))
        return (*encoder, *method, "augment.weight", "predict.exclude_self", "seed")
    solved = tuple(f"train.{name}" for name in SOLVING_KEYS)
    if config.x_transformer.enabled:
        method = tuple(f"x_transformer.{name}" for name in ("enabled", *FINE_TUNING_KEYS))
        method += solved if config.x_transformer.bootstrap else ()
    else:
        method = ("xr_transformer", *solved)
    return (*encoder, *method, "augment.weight", "augment.negatives", "augment.in_pifa", "seed")


def _step_rows(context: Context) -> int | None:
    """Instances of a step: smaller passes, more of them or by more processes, make the same model if they add up to as
    many. UniDEC has a setting of its own for it."""
    settings = context.config.encoder
    if not settings.enabled or context.config.unidec.enabled:
        return None
    return settings.batch_size * settings.accumulate * settings.processes


def _written(config: Config) -> tuple[str, ...]:
    return _WRITES if config.encoder.enabled else ("embeddings",)


def _read(config: Config) -> tuple[str, ...]:
    """Exclusions where labels are compared one by one."""
    return _READS if config.unidec.enabled else tuple(name for name in _READS if name != "exclude")


_READS = ("instances", "augmented", "labels", "exclude", f"{LOOKUP}/")
_WRITES = ("embeddings", f"{ENCODER}/", f"{OUTCOME}/")
STAGE = Stage(
    "encode",
    2,
    ("encoder.enabled",),
    reads=_READS,
    writes=_WRITES,
    run=encode,
    reads_of=_read,
    writes_of=_written,
    external=_step_rows,  # not from outside, but no setting either: settings make it together
    more_keys_of=_deciding_keys,
    early_check=EarlyCheck("corpus", check_labels),
)
