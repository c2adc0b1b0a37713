"""A published model as functions of Spark SQL: `xmc_predict(text)`, `xmc_tfidf(text)`, `xmc_explain(text, label)`. They
work on Arrow columns, in the kernels that serve single queries; a worker process maps the bundle into memory once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql import SparkSession, functions

from xmcspark.errors import InputError
from xmcspark.serving.bundle import MANIFEST, manifest_of, read_manifest
from xmcspark.serving.columns import EXPLAINED, PREDICTED, WEIGHED, explained, predicted, weighed
from xmcspark.serving.predictor import Predictor, open_bundle
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.session import task_threads
from xmcspark.store.side_files import SideFolder, send_folder

F: Any = functions  # which of its functions there are depends on the release
FUNCTIONS = ("xmc_predict", "xmc_tfidf", "xmc_explain")


@dataclass(frozen=True)
class SentBundle:
    """Where tasks find the bundle. Small: it travels with each of them."""

    folder: SideFolder
    version: str

    def opened(self) -> Predictor:
        return _opened(str(self.folder.path()), self.version)


@lru_cache(maxsize=2)
def _opened(folder: str, version: str) -> Predictor:
    return open_bundle(Path(folder), linked=True)


def register_functions(spark: SparkSession, bundle: str, k: int | None = None) -> tuple[str, ...]:
    """Registers the functions of a published bundle, which may lie on any filesystem, in this session; their names.
    `k`: labels that xmc_predict gives; by default as many as the run predicted."""
    sent, settings = _send(spark, bundle)
    threads, most = task_threads(spark), settings.get("top_k") if k is None else k
    if not isinstance(most, int) or most < 1:
        raise InputError(f"k is {most}: it must be at least 1")
    spark.udf.register(
        "xmc_predict", _of_one(lambda texts: predicted(sent.opened(), texts, most, threads), PREDICTED)
    )
    spark.udf.register("xmc_tfidf", _of_one(lambda texts: weighed(sent.opened(), texts), WEIGHED))
    spark.udf.register(
        "xmc_explain", _of_two(lambda texts, to: explained(sent.opened(), texts, to), EXPLAINED)
    )
    return FUNCTIONS


def _send(spark: SparkSession, bundle: str) -> tuple[SentBundle, dict[str, Any]]:
    fs = Filesystem(spark)
    uri = fs.qualified(bundle)
    try:
        text = fs.read_text(joined(uri, MANIFEST))
    except FileNotFoundError as error:
        raise InputError(f"{uri} is not a published bundle: it has no {MANIFEST}") from error
    local = fs.local_path(uri)  # elsewhere tasks look at the sizes
    document = manifest_of(text, joined(uri, MANIFEST)) if local is None else read_manifest(Path(local))
    version = hashlib.sha256(text.encode()).hexdigest()
    return SentBundle(send_folder(spark, fs, uri, version), version), document["settings"]


# Arrow functions came with Spark 4.1; before that columns pass through pandas, whose lists are slower.


def _of_one(function: Callable[[pa.Array], pa.Array], answer: str) -> Any:
    if hasattr(F, "arrow_udf"):

        def in_arrow(texts: pa.Array) -> pa.Array:
            return function(texts)

        return F.arrow_udf(in_arrow, answer)

    def in_pandas(texts: pd.Series) -> pd.Series:
        return pd.Series(function(_strings(texts)).to_pylist())

    return F.pandas_udf(in_pandas, answer)


def _of_two(function: Callable[[pa.Array, pa.Array], pa.Array], answer: str) -> Any:
    if hasattr(F, "arrow_udf"):

        def in_arrow(texts: pa.Array, labels: pa.Array) -> pa.Array:
            return function(texts, labels)

        return F.arrow_udf(in_arrow, answer)

    def in_pandas(texts: pd.Series, labels: pd.Series) -> pd.Series:
        return pd.Series(function(_strings(texts), pa.Array.from_pandas(labels)).to_pylist())

    return F.pandas_udf(in_pandas, answer)


def _strings(texts: pd.Series) -> pa.Array:
    return pa.Array.from_pandas(texts, type=pa.string())
