"""What UniDEC learns from: targets of instances, and the tokenised texts of instances and of labels, as plain arrays in
a folder that every process maps. Decides, before anything is trained, whether there is enough of it for what the
settings ask."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.targets import select
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.held_out import drawn_rows
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import take_rows
from xmcspark.store.arrays import load_arrays, save_arrays

log = logging.getLogger(__name__)

_KIND, _VERSION = "training set of UniDEC", 1
_TOKENS = "tokens"
_ROWS = 1 << 16  # instances that are looked at together


@dataclass(frozen=True)
class UnidecData:
    """Instances, one a row, and labels, one a column of Y. All of it may be mapped."""

    Y: Csr  # targets, above 0 and at most 1
    tokens: TokenStore  # of the instances
    label_tokens: TokenStore | None = None  # of all labels, by id; None where labels have no texts
    row_weights: np.ndarray | None = None  # float32 [rows]: how much an instance counts
    made: np.ndarray | None = None  # bool [rows]: instances that augmentation made
    row_keys: np.ndarray | None = (
        None  # int64 [rows]: what random choices about a row follow from; None: its number
    )
    # As Y: labels that are never predicted for a row, and so are neither right nor wrong for it; None: there are none.
    excluded: Csr | None = None

    def __post_init__(self) -> None:
        rows, labels = self.Y.shape
        for name, part, count in (
            ("texts of instances", self.tokens, rows),
            ("texts of labels", self.label_tokens, labels),
            ("row weights", self.row_weights, rows),
            ("marks of made instances", self.made, rows),
            ("row keys", self.row_keys, rows),
        ):
            if part is not None and len(part) != count:
                raise InputError(f"Y is {rows} instances x {labels} labels, but there are {len(part)} {name}")
        if self.excluded is not None and self.excluded.shape != self.Y.shape:
            raise InputError(
                f"Y is {rows} instances x {labels} labels, but exclusions are {self.excluded.shape[0]} x "
                f"{self.excluded.shape[1]}"
            )

    def __len__(self) -> int:
        return self.Y.shape[0]

    def arrays(self) -> list[np.ndarray | None]:
        """All of it."""
        Y, labels = self.Y, self.label_tokens
        tokens = [*self.tokens.arrays, *((None,) if labels is None else labels.arrays)]
        excluded = [] if self.excluded is None else [self.excluded.indptr, self.excluded.indices]
        return [Y.indptr, Y.indices, Y.data, *tokens, *(getattr(self, name) for name in _BY_ROW), *excluded]

    @cached_property
    def trained_labels(self) -> np.ndarray:
        """int64, increasing: labels that some instance has. The others cannot be learned, only found by their texts."""
        return self.labels_of(np.arange(len(self)))

    def labels_of(self, rows: np.ndarray) -> np.ndarray:
        """int64, increasing: labels that some of these instances have."""
        seen = np.zeros(self.Y.shape[1], bool)
        for start in range(0, len(rows), _ROWS):
            seen[take_rows(self.Y, rows[start : start + _ROWS]).indices] = True
        return np.flatnonzero(seen)

    def rows_with_labels(self) -> np.ndarray:
        """int64: instances that something can be learned from."""
        return np.flatnonzero(np.diff(self.Y.indptr) > 0)

    def checked(
        self, settings: UnidecSettings, encoder: TextEncoder, epochs: float
    ) -> tuple[UnidecData, list[str]]:
        """What is trained on, and what there is to warn of; ConfigError or InputError, with the remedy, if the settings
        cannot be followed with this data."""
        if not len(self.trained_labels):
            raise InputError("no instance has a label: there is nothing to learn")
        data, warnings = self, []
        if "dual" in settings.heads and len(without := self._without_text(encoder)):
            check_texts(settings, len(self.trained_labels), len(without), f", such as label {without[0]}")
            data = self._leaving_out(without)
            told = f"{len(without)} of {len(self.trained_labels)} labels have no text"
            warnings.append(f"{told}: they are left out, of training and of answers (unidec.without_text)")
        settings.check_labels(len(data.trained_labels))
        warnings += data.warnings(settings, epochs)
        for warning in warnings:
            log.warning("%s", warning)
        return data, warnings

    def warnings(self, settings: UnidecSettings, epochs: float) -> list[str]:
        """What the settings ask for and this data does not have, or what is not worth its while, where training goes
        on all the same."""
        counts = np.diff(self.Y.indptr)
        most, found = int(counts.max(initial=0)), []
        if settings.positives > most:
            found.append(
                f"unidec.positives is {settings.positives}, but no instance has more than {most} labels: all of them "
                "are taken"
            )
        # One that is filled up, as the classifier's by itself, holds what its queries bring.
        filled = "dual" not in settings.heads and settings.classifier_pool_size is not None
        narrow = None if filled else settings.pool_size
        if narrow is not None and narrow < settings.batch_size:
            found.append(
                f"unidec.pool_size makes pools of {narrow} labels for batches of {settings.batch_size} queries: some "
                "queries will have none of their labels in the pool and teach nothing; make pools larger or batches "
                "smaller"
            )
        if 1 < epochs <= settings.refresh_epochs:
            found.append(
                f"encoder.epochs is {epochs:g} and unidec.refresh_epochs {settings.refresh_epochs}: clusters of "
                "queries and hard negatives stay those of the encoder before training; set unidec.refresh_epochs to 1"
            )
        return found

    def _leaving_out(self, labels: np.ndarray) -> UnidecData:
        """As if no instance had these labels."""
        kept = np.ones(self.Y.shape[1], bool)
        kept[labels] = False
        return replace(self, Y=select(self.Y, kept[self.Y.indices]))

    def _without_text(self, encoder: TextEncoder) -> np.ndarray:
        """int64: trained labels whose text is as good as none to the encoder."""
        if self.label_tokens is None:
            raise InputError(f"labels have no texts, which the dual head compares with: {_TEXTS}")
        nothing = np.array(encoder.tokenize([""])[0])
        short = self.trained_labels[self.label_tokens.lengths[self.trained_labels] == len(nothing)]
        ids, offsets = self.label_tokens.arrays
        tokens = ids[offsets[short][:, None] + np.arange(len(nothing))]
        return np.asarray(short[(tokens == nothing).all(axis=1)])

    def held_out(self, share: float, seed: int) -> np.ndarray:
        """bool [rows]: instances that the model is checked on; made ones are always trained on."""
        keys = np.arange(len(self), dtype=np.int64) if self.row_keys is None else self.row_keys
        return drawn_rows(keys, self.made, share, seed)

    def save(self, folder: Path) -> None:
        """Writes all but the tokens: those of instances lie in `instance_tokens(folder)` already, those of labels
        wherever they were made."""
        arrays = {f"Y.{part}": getattr(self.Y, part) for part in ("indptr", "indices", "data")}
        more = {name: getattr(self, name) for name in _BY_ROW}
        arrays |= {name: array for name, array in more.items() if array is not None}
        if self.excluded is not None:
            arrays |= {f"excluded.{part}": getattr(self.excluded, part) for part in ("indptr", "indices")}
        save_arrays(folder, _KIND, _VERSION, {"labels": self.Y.shape[1]}, arrays)

    @staticmethod
    def load(folder: Path, label_tokens: TokenStore | None = None) -> UnidecData:
        """What `save` has written, mapped."""
        header, arrays = load_arrays(folder, _KIND, _VERSION)
        indptr, indices, data = (arrays[f"Y.{part}"] for part in ("indptr", "indices", "data"))
        Y = Csr(indptr, indices, data, (len(indptr) - 1, int(header["labels"])))
        more: dict[str, Any] = {name: arrays.get(name) for name in _BY_ROW}
        if "excluded.indptr" in arrays:
            indices = arrays["excluded.indices"]
            ones = np.ones(len(indices), np.float32)
            more["excluded"] = Csr(arrays["excluded.indptr"], indices, ones, Y.shape)
        return UnidecData(Y, TokenStore.open(instance_tokens(folder)), label_tokens, **more)


_TEXTS = (
    "set unidec.heads to [classifier], which needs none, or give the labels texts (input.labels with a column text, or "
    "ingest.columns.label_text for logs)"
)
_LEAVE_OUT = ", or set unidec.without_text to leave-out, which does without labels that have none"
_BY_ROW = ("row_weights", "made", "row_keys")


def check_texts(settings: UnidecSettings, labels: int, without: int, example: str = "") -> None:
    """That the dual head can be trained where `without` of the labels have no text."""
    if "dual" not in settings.heads or not without:
        return
    if settings.without_text == "refuse" or without == labels:
        remedy = _TEXTS if without == labels else _TEXTS + _LEAVE_OUT
        raise InputError(
            f"{without} of {labels} labels have no text{example}, and the dual head compares with texts: {remedy}"
        )


def instance_tokens(folder: Path) -> Path:
    """Where the tokens of a training set's instances lie."""
    return folder / _TOKENS
