"""Rows a second of the SQL functions over a column of texts, beside the same work in Python without Spark:

    .venv/bin/python -m bench.sql_functions [--bundle DIR] [--rows 100000] [--slots 2] [--json OUT]

Without --bundle, a model of generated queries (20,000 x 5,000) is trained first. Every function runs three times over
cached texts into a sink that keeps nothing; the first time includes the start of Python workers."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import machine
from xmcspark import Tfidf, build_tree, load, pifa, train_matchers
from xmcspark.corpus.synthetic import generate
from xmcspark.serving.bundle import write_manifest
from xmcspark.serving.label_names import LabelNames

REPEATS = 3
EXPLAINED = 100  # one of so many texts is explained: that is for people to look at, not for all rows
QUERIES = {
    "xmc_predict": "SELECT xmc_predict(text) AS said FROM texts",
    "xmc_tfidf": "SELECT xmc_tfidf(text) AS seen FROM texts",
    "xmc_explain": f"SELECT xmc_explain(text, 0) AS why FROM texts WHERE row % {EXPLAINED} = 0",
}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-") as scratch:
        data = generate(20_000, 5_000, seed=1)
        folder = Path(options.bundle) if options.bundle else _trained(data, Path(scratch) / "bundle")
        known = data.test.texts.to_pylist()
        texts = [known[row % len(known)] for row in range(options.rows)]
        seconds = {"python predict": [_python_seconds(folder, texts) for _ in range(REPEATS)]}
        seconds |= _spark_seconds(folder, texts, options.slots)
    rates = {}
    for name, taken in seconds.items():
        rows = options.rows / (EXPLAINED if name == "xmc_explain" else 1)
        rates[name] = {"first": rows / taken[0], "median": rows / statistics.median(taken)}
    print(f"{options.rows} rows, {options.slots} slots{'':16}first      median   rows/s")
    for name, rate in rates.items():
        print(f"{name:<24}{rate['first']:>16,.0f}{rate['median']:>12,.0f}")
    if options.json:
        result = {
            "rows": options.rows,
            "slots": options.slots,
            "rows_per_second": rates,
            "machine": machine.describe(),
        }
        Path(options.json).write_text(json.dumps(result, indent=1))
    return 0


def _trained(data: Any, folder: Path) -> Path:
    tfidf = Tfidf()
    X = tfidf.fit_transform(data.train.texts)
    model = train_matchers(X, data.train.Y, build_tree(pifa(X, data.train.Y)), threads=2)
    tfidf.save(folder / "tfidf")
    model.searcher.save(folder / "model" / "0")
    ids = np.arange(data.n_labels, dtype=np.int32)
    LabelNames.of(ids, pa.array([f"key{label}" for label in ids]), data.label_texts).save(folder / "labels")
    settings = {"members": 1, "fusion": "average", "beam": 10, "top_k": 10}
    write_manifest(folder, {**settings, "transform": "l3-hinge", "combine": "product"})
    return folder


def _python_seconds(folder: Path, texts: list[str]) -> float:
    """One thread, as `Predictor.search` does it: what the functions cannot be faster than, for each slot."""
    model = load(folder)
    started = time.perf_counter()
    model.search(texts, k=10)
    return time.perf_counter() - started


def _spark_seconds(folder: Path, texts: list[str], slots: int) -> dict[str, list[float]]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from xmcspark.serving.functions_spark import register_functions

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{slots}]").config(map=settings)
    spark = builder.config("spark.python.daemon.module", "xmcspark.store.worker_daemon").getOrCreate()
    try:
        frame = (
            spark.createDataFrame(list(enumerate(texts)), "row int, text string").repartition(slots).cache()
        )
        frame.count()
        frame.createOrReplaceTempView("texts")
        register_functions(spark, str(folder))
        return {
            name: [_query_seconds(spark, query) for _ in range(REPEATS)] for name, query in QUERIES.items()
        }
    finally:
        spark.stop()


def _query_seconds(spark: Any, query: str) -> float:
    started = time.perf_counter()
    spark.sql(query).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", metavar="DIR", help="a published bundle (default: one is made)")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=2, help="tasks at a time (default 2)")
    parser.add_argument("--json", metavar="OUT", help="file for the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
