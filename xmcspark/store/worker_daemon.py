"""The process that Spark forks Python workers from (`spark.python.daemon.module` in conf/spark-local.conf). Decides
that what every stage imports is imported here, once, before the first fork: a worker then starts at once and
shares those pages with the others."""

from __future__ import annotations

import importlib

from pyspark import daemon

for module in ("pandas", "pyarrow.dataset", "pyspark.worker", "pyspark.sql", "xmcspark.flow_spark"):
    importlib.import_module(module)

if __name__ == "__main__":
    daemon.manager()
