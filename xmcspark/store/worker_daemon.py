"""The process that Spark forks Python workers from (`spark.python.daemon.module` in conf/spark-local.conf). Decides
that what every stage imports is imported here, once, before the first fork: a worker then starts at once and
shares those pages with the others. What was imported is left out of garbage collection, which Spark asks for after
each task: looking through all of it took longer than starting the task."""

from __future__ import annotations

import gc
import importlib

from pyspark import daemon

for module in ("pandas", "pyarrow.dataset", "pyspark.worker", "pyspark.sql", "xmcspark.flow_spark"):
    importlib.import_module(module)
gc.freeze()

if __name__ == "__main__":
    daemon.manager()
