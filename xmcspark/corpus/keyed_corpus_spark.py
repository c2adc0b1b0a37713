"""A corpus whose labels still go by the references its source uses: what every kind of source hands over, so that
label ids, instances and notes are made in one way for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class KeyedCorpus:
    """Checked and cleaned. A reference is what rows call a label by: its key, or its number in the label table."""

    # Written down, those with labels: split, id, text, refs array<int, bigint or string> (each once), relevance
    # array<float> (above 0).
    rows: DataFrame
    labels: DataFrame  # ref, key string, place bigint (orders new ids, before the key), text, first_seen, last_seen;
    # and `copy`: 1, 2.. for labels of the same key, 1 where there can be but one
    origin: str  # logs or corpus
    rare_labels_get_ids: bool  # also those that are too rare to train
    text_is_id: bool = False
    notes: dict[str, Any] = field(default_factory=dict)  # what was cut, dropped or replaced
    refuse_repeated_ids: Callable[[], None] | None = None  # where ids were given, and may be
    place: str = ""  # how to call the input that the labels come from
