"""What a stage took of the session: tasks at a time, and the bytes that its shuffles wrote, as Spark's own pages count
them, and those that went through files in their place. Recorded with the stage, so that `plan` can be calibrated from
runs and compared with them."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import SparkSession

from xmcspark.store.session import slots_of, task_threads

log = logging.getLogger(__name__)

_WAIT_MILLISECONDS = 5000  # for Spark's own count of what just ended


class Meter:
    """Counts from when it is made."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._last = max(_shuffled(spark) or (), default=-1)

    def read(self, exchanged: int = 0) -> dict[str, int]:
        """For the stage's record. `exchanged`: bytes that went through files instead (store/exchange.py)."""
        found = {"slots": slots_of(self._spark), "threads": task_threads(self._spark)}
        shuffled = _shuffled(self._spark)
        if shuffled is not None:
            since = sum(size for stage, size in shuffled.items() if stage > self._last)
            found["shuffle_bytes"] = since + exchanged
        return found


def _shuffled(spark: SparkSession) -> dict[int, int] | None:
    """Bytes written by the shuffle of each of Spark's stages; None if this release of Spark does not tell: what is only
    measured must never be what fails."""
    context: Any = spark.sparkContext
    try:
        scala, gateway = context._jsc.sc(), context._gateway
        scala.listenerBus().waitUntilEmpty(_WAIT_MILLISECONDS)
        no_quantiles, any_status = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
        stages = scala.statusStore().stageList(None, False, False, no_quantiles, any_status)
        found: dict[int, int] = {}
        for at in range(stages.size()):
            stage = stages.apply(at)
            number = int(stage.stageId())
            found[number] = found.get(number, 0) + int(stage.shuffleWriteBytes())  # all attempts
        return found
    except Exception as error:
        log.debug("shuffle bytes are not known: %s", error)
        return None
