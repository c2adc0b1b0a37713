"""A folder that fine-tuning works on, with a small training set in it."""

from pathlib import Path
from typing import Any

from small_set import small_set

from xmcspark.matchers.settings import TrainSettings
from xmcspark.neural.fine_tuning_job import PRETRAINED, FineTuningJob
from xmcspark.neural.fine_tuning_ways import TRAINING
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings


def filled_job(work: Path, encoder: Any, **changes: Any) -> Path:
    how = {"enabled": True, "max_length": 16, "dropout": 0.0, "epochs": 2.0, "batch_size": 16}
    job = FineTuningJob(
        EncoderSettings(**{**how, **changes}),
        XrTransformerSettings(enabled=True, branching=4, max_leaf=4, fewest_nodes=1),
        XTransformerSettings(),
        TrainSettings(),
        seed=0,
        threads=1,
        identity="of a test",
    )
    small_set(work / TRAINING, encoder)
    encoder.save(work / PRETRAINED)
    job.save(work)
    return work
