"""The vocabulary that a run takes over from its base (`refresh.mode: append`): feature numbers, df and idf stay as
they are, so that what was learned from them stays valid. Decides when a base cannot be continued."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.errors import ConfigError, StoreError
from xmcspark.store.arrays import HEADER
from xmcspark.store.filesystem import joined
from xmcspark.store.runs import Run
from xmcspark.store.stage import Context, read_table
from xmcspark.text.settings import TfidfSettings

_MAY_CHANGE = ("min_df", "max_df", "max_features")  # they choose among new grams only


@dataclass(frozen=True)
class BaseVocabulary:
    """Frozen rows, and what has to be known of them."""

    rows: DataFrame
    features: int  # numbers given out so far
    per_vectorizer: dict[str, int]  # rows by name of the vectorizer
    documents: int  # that its lookup was made for

    def of(self, name: str) -> int:
        return self.per_vectorizer.get(name, 0)


def base_vocabulary(context: Context) -> BaseVocabulary | None:
    """What to continue; None for a run that learns its vocabulary anew."""
    if context.base is None or context.config.refresh.mode != "append":
        return None
    header = _header(context.base)
    _check_settings(context.config.text, header["settings"], context.base.id)
    rows = read_table(context.spark, context.base, "vocabulary")
    counts = rows.groupBy("vectorizer").agg(F.count(F.lit(1)).alias("rows"), F.max("feature").alias("last"))
    found = counts.collect()  # a row for each vectorizer
    features = max((row["last"] + 1 for row in found), default=0)
    return BaseVocabulary(
        rows, features, {row["vectorizer"]: row["rows"] for row in found}, int(header["documents"])
    )


def _header(base: Run) -> dict[str, Any]:
    uri = joined(base.folder("bundle/tfidf"), HEADER)
    try:
        header: dict[str, Any] = json.loads(base.fs.read_text(uri))
        if not isinstance(header["settings"], dict) or not isinstance(header["documents"], int):
            raise ValueError("no settings")
    except FileNotFoundError as error:
        raise StoreError(
            f"base run {base.id} has no text model ({uri}): finish its vectorize stage, choose another run.base, or "
            "set refresh.mode to full"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{uri} of base run {base.id} is damaged: choose another run.base, or set refresh.mode to full"
        ) from error
    return header


def _check_settings(now: TfidfSettings, then: dict[str, Any], base: str) -> None:
    """Settings that decide what a feature is must be those of the base."""
    ours, theirs = _deciding(now.to_dict()), _deciding(then)
    if ours != theirs:
        changed = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
        raise ConfigError(
            [
                f"text.{key} is {ours.get(key)!r}, but base run {base} has {theirs.get(key)!r}: its features cannot be "
                "kept; set it back, or set refresh.mode to full"
                for key in changed
            ]
        )


def _deciding(settings: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(settings))  # lists, as JSON has them, for tuples
    return {
        **plain,
        "vectorizers": [
            {key: value for key, value in vectorizer.items() if key not in _MAY_CHANGE}
            for vectorizer in plain["vectorizers"]
        ],
    }
