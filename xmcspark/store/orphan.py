"""Ends a job whose JVM is gone. Spark starts the job's Python from its JVM; while torch works, Python asks the JVM
nothing, so one that is killed would go unnoticed, and a second attempt would meet the first in the same folders."""

from __future__ import annotations

import logging
import os
import threading
import time

from xmcspark.errors import TransientError
from xmcspark.store.side_files import remove_copies

log = logging.getLogger(__name__)

_STARTED_BY_JVM = "PYSPARK_GATEWAY_PORT"  # which spark-submit sets for the Python it starts
_EVERY_S = 2.0


def end_with_the_jvm(every_s: float = _EVERY_S) -> None:
    """From now on this process ends when the one that started it does, if that is Spark's JVM; else nothing changes:
    what a shell starts may outlive it."""
    if _STARTED_BY_JVM in os.environ:
        threading.Thread(target=_watch, args=(os.getppid(), every_s), daemon=True, name="jvm watch").start()


def _watch(parent: int, every_s: float) -> None:
    while os.getppid() == parent:
        time.sleep(every_s)
    log.error("Spark's JVM is gone: run the same command again to go on")
    remove_copies()
    os._exit(TransientError.exit_code)  # whatever the other threads are at
