"""Observed and made instances trained on together, by the library alone: what the stages augment to predict do on
Spark. The trial of an augmentation and the bench are made of this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from xmcspark.labels.augment_settings import AugmentSettings
from xmcspark.labels.draws import streams
from xmcspark.labels.features import pifa
from xmcspark.labels.label_sampling import row_stays
from xmcspark.labels.mixup import label_partners, mixed_rows, mixed_targets, mixing_shares, mixup_partners
from xmcspark.labels.soft_targets import label_rows
from xmcspark.matchers.exclusion import search_without
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.targets import select
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import stacked_rows, take_rows
from xmcspark.text.settings import TfidfSettings
from xmcspark.text.tfidf import Tfidf
from xmcspark.tree.build import build_tree

if TYPE_CHECKING:
    from xmcspark.config.configuration import Config


@dataclass(frozen=True)
class Instances:
    """Some training instances."""

    texts: Sequence[str]
    Y: Csr
    keys: np.ndarray  # int64
    partners: Sequence[str] | None = None  # second texts, mixed in
    shares: np.ndarray | None = None  # of the first ones

    def take(self, rows: np.ndarray) -> Instances:
        return Instances([self.texts[row] for row in rows], take_rows(self.Y, rows), self.keys[rows])


def no_entries(shape: tuple[int, int]) -> Csr:
    return Csr(np.zeros(shape[0] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), shape)


def no_instances(labels: int) -> Instances:
    return Instances([], no_entries((0, labels)), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Learner:
    """Trains as a run would, one tree whatever the ensemble, and predicts `texts`."""

    config: Config
    texts: Sequence[str]
    excluded: Csr
    top_k: int
    threads: int

    def predictions(self, observed: Instances, made: Instances) -> Predictions:
        """Of a model of these instances. Those that were made count in vocabulary and label features if the settings
        say so, or if there are no others."""
        config, alone = self.config, not len(observed.keys)
        both = config.augment.in_vocabulary or alone
        tfidf = vectorizer_of(self.config.text, self.threads).fit(
            [*observed.texts, *made.texts] if both else observed.texts
        )
        rows = tfidf.rows(observed.texts), _made_rows(tfidf, made)
        X, Y = stacked_rows(rows), stacked_rows([observed.Y, made.Y])
        described = (X, Y) if config.augment.in_pifa or alone else (rows[0], observed.Y)
        Z = pifa(*described, threads=self.threads, max_features=config.pifa.max_features)
        tree = build_tree(Z, replace(config.tree, threads=self.threads))
        sizes = [len(observed.keys), len(made.keys)]
        model = train_matchers(
            X,
            Y,
            tree,
            config.train.alone,
            row_keys=np.concatenate([observed.keys, made.keys]),
            row_weights=np.repeat([1.0, config.augment.weight], sizes),
            row_negatives=np.repeat([1.0, config.augment.negatives], sizes),
            threads=self.threads,
        )
        return search_without(
            replace(model, scoring=config.predict.scoring).searcher,
            tfidf.rows(self.texts),
            self.excluded,
            beam=config.predict.beam,
            top_k=self.top_k,
            threads=self.threads,
        )


def vectorizer_of(settings: TfidfSettings, threads: int = 1) -> Tfidf:
    """The vectorizer that a configuration asks for."""
    options = {field.name: getattr(settings, field.name) for field in fields(TfidfSettings)}
    return Tfidf(options.pop("vectorizers"), **options, threads=threads)


def _made_rows(tfidf: Tfidf, made: Instances) -> Csr:
    X = tfidf.rows(made.texts)
    if made.partners is None or made.shares is None:
        return X
    return mixed_rows(X, tfidf.rows(made.partners), made.shares)


def label_instances(
    observed: Instances,
    label_texts: Sequence[str | None],
    named: np.ndarray,
    augment: AugmentSettings,
    seed: int,
    threads: int,
) -> Instances:
    """The texts of labels, of those that are `named`, with soft targets from the observed instances."""
    soft = label_rows(observed.Y, observed.keys, augment, seed, threads)
    rows = np.flatnonzero(named[soft.labels])
    return Instances(
        [str(label_texts[label]) for label in soft.labels[rows]],
        take_rows(soft.to_csr(len(named)), rows),
        streams(0, "label text", soft.labels[rows]).view(np.int64),
    )


def mixtures(
    observed: Instances,
    label_texts: Sequence[str | None],
    named: np.ndarray,
    augment: AugmentSettings,
    seed: int,
) -> Instances:
    """Each instance mixed with another, or with the text of one of its labels, as `augment.mixup` says."""
    keys = observed.keys
    if augment.mixup == "mixup":
        partner = mixup_partners(keys, seed)
        other = take_rows(observed.Y, partner)
        texts = [observed.texts[row] for row in partner]
        rows = np.arange(len(keys))
    else:
        label = label_partners(select(observed.Y, named[observed.Y.indices]), keys, seed)
        rows = np.flatnonzero(label >= 0)
        texts = [str(label_texts[one]) for one in label[rows]]
        ones = np.ones(len(rows), np.float32)
        other = Csr(
            np.arange(len(rows) + 1, dtype=np.int64), label[rows], ones, (len(rows), observed.Y.shape[1])
        )
    shares = mixing_shares(keys[rows], augment.mixup_alpha, seed)
    own = observed.take(rows)
    made_keys = streams(0, augment.mixup, keys[rows]).view(np.int64)
    return Instances(own.texts, mixed_targets(own.Y, other, shares), made_keys, texts, shares)


def trained_on(
    observed: Instances, made: Instances, augment: AugmentSettings, seed: int
) -> tuple[Instances, Instances]:
    """What stays of both, as `augment.training` says."""
    if augment.training == "labels":
        return observed.take(np.zeros(0, np.int64)), made
    if augment.training == "union":
        return observed, made
    share = len(observed.keys) / (len(observed.keys) + len(made.keys))
    own, labels = (rows.take(np.flatnonzero(row_stays(rows.keys, share, seed))) for rows in (observed, made))
    return own, labels
