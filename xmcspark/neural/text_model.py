"""X-Transformer and XR-Transformer from texts to a model on one machine, without Spark: the encoder is fine-tuned,
texts become TF-IDF and embeddings, and the linear matchers are trained on both. The stages on Spark do the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.config.configuration import Config
from xmcspark.labels.features import pifa
from xmcspark.matchers.model import TreeModel
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.targets import check_targets
from xmcspark.matchers.train import train_matchers
from xmcspark.neural.begun import content_hash
from xmcspark.neural.device import CPU, Device, chosen_device, torch_threads
from xmcspark.neural.embed import embed, embed_texts
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.fine_tuning_job import ENCODER, PRETRAINED, FineTuningJob, run_job
from xmcspark.neural.fine_tuning_ways import HEAD, LABELS, TRAINING
from xmcspark.neural.progress import Report
from xmcspark.neural.settings import (
    FINE_TUNING_KEYS,
    SOLVING_KEYS,
    EncoderSettings,
    XrTransformerSettings,
    XTransformerSettings,
)
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_set import TrainingSet, tokens_folder
from xmcspark.sparse.csr import Csr, with_dense
from xmcspark.text.tfidf import Tfidf
from xmcspark.tree.build import build_tree
from xmcspark.tree.label_tree import LabelTree
from xmcspark.tree.params import TreeParams


@dataclass(frozen=True)
class TextModelSettings:
    """How a model of texts is trained; the method is the one of the two sections that is enabled."""

    encoder: EncoderSettings
    xr_transformer: XrTransformerSettings = field(default_factory=lambda: XrTransformerSettings(enabled=True))
    x_transformer: XTransformerSettings = field(default_factory=XTransformerSettings)
    tree: TreeParams = field(default_factory=TreeParams)
    train: TrainSettings = field(default_factory=TrainSettings)
    scoring: Scoring | None = None  # None: as suits the loss

    @staticmethod
    def of(config: Config) -> TextModelSettings:
        """Those of a configured run."""
        tuned = config.encoder, config.xr_transformer, config.x_transformer
        return TextModelSettings(*tuned, config.tree, config.train.alone, config.predict.scoring)


@dataclass(frozen=True)
class TextModel:
    """Texts to labels, by what their words and what their embeddings say."""

    tfidf: Tfidf
    encoder: TextEncoder
    model: TreeModel
    device: Device = CPU

    def rows(self, texts: Sequence[str]) -> Csr:
        """Texts as the matchers see them (paper 4, eq. 10)."""
        return with_dense(self.tfidf.rows(texts), embed_texts(self.encoder, list(texts), device=self.device))

    def predict(
        self, texts: Sequence[str], *, beam: int = 10, top_k: int = 10, threads: int = 1
    ) -> Predictions:
        return self.model.predict(self.rows(texts), beam=beam, top_k=top_k, threads=threads)


def train_text_model(
    texts: Sequence[str],
    Y: Any,
    settings: TextModelSettings,
    *,
    folder: Path,
    tfidf: Tfidf | None = None,
    label_texts: Sequence[str] | None = None,
    relevance: np.ndarray | None = None,
    row_keys: np.ndarray | None = None,
    row_weights: np.ndarray | None = None,
    made: np.ndarray | None = None,
    silent: np.ndarray | None = None,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> TextModel:
    """A model of texts and their labels (targets Y, one row a text).

    `folder` keeps what fine-tuning needs to go on if it is killed: called again with the same arguments, it does.
    `tfidf`: fitted already; else fitted to these texts. `label_texts`: by label id, for x_transformer.indexer:
    text-emb. `relevance`: of each entry of Y. `row_keys`, `row_weights`, `made`, `silent` as `TrainingSet` has
    them."""
    tfidf = tfidf or Tfidf().fit(texts)
    Y = check_targets(Y, len(texts))
    s = settings
    job = FineTuningJob(s.encoder, s.xr_transformer, s.x_transformer, s.train, seed, threads, identity="")
    keys = np.arange(len(texts), dtype=np.int64) if row_keys is None else row_keys
    of_rows = {
        "row_keys": keys,
        "relevance": relevance,
        "row_weights": row_weights,
        "made": made,
        "silent": silent,
    }
    data = _exported(folder, job, texts, tfidf.rows(texts), Y, label_texts, of_rows)
    run_job(folder, report=report)
    return ranked(data, tfidf, settings, folder, seed=seed, threads=threads)


def _exported(
    folder: Path,
    job: FineTuningJob,
    texts: Sequence[str],
    X: Csr,
    Y: Csr,
    label_texts: Sequence[str] | None,
    of_rows: dict[str, Any],
) -> TrainingSet:
    """Fills the folder that fine-tuning works on."""
    e = job.encoder
    encoder = TextEncoder.open(e.model, pooling=e.pooling, max_length=e.max_length, dropout=e.dropout)
    encoder.save(folder / PRETRAINED)
    tokens = TokenStore.write(tokens_folder(folder / TRAINING), encoder, [texts])
    data = TrainingSet(X, Y, tokens, **of_rows)
    data.save(folder / TRAINING)
    arrays = data.arrays()
    if label_texts is not None:
        arrays += TokenStore.write(folder / LABELS, encoder, [label_texts]).arrays
    replace(job, identity=_identity(job, encoder, arrays)).save(folder)
    return data


def _identity(job: FineTuningJob, encoder: TextEncoder, arrays: list[np.ndarray | None]) -> str:
    """Of all that decides what is learned."""
    e = job.encoder
    decisive = {
        "encoder": {**e.decisive(), **encoder.identity(), "step": e.batch_size * e.accumulate},
        "xr_transformer": asdict(job.xr_transformer),
        "x_transformer": {name: getattr(job.x_transformer, name) for name in ("enabled", *FINE_TUNING_KEYS)},
        "train": {name: getattr(job.train, name) for name in SOLVING_KEYS},
        "seed": job.seed,
    }
    settings = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    return f"settings {settings[:16]}, instances {content_hash(arrays)}"


def ranked(
    data: TrainingSet,
    tfidf: Tfidf,
    settings: TextModelSettings,
    folder: Path,
    *,
    seed: int = 0,
    threads: int = 1,
) -> TextModel:
    """The model whose encoder was fine-tuned in a folder: the tree and its matchers on TF-IDF and embeddings."""
    encoder, device = TextEncoder.load(folder / ENCODER), chosen_device(settings.encoder)
    with torch_threads(threads):
        E = embed(encoder, data.tokens, batch=settings.encoder.embed_batch, device=device)
    X = data.with_embeddings(E)
    weights = data.row_weights
    how: dict[str, Any] = {
        "row_keys": data.row_keys,
        "row_weights": None if weights is None else weights[:, 0],
        "row_negatives": None if weights is None else weights[:, 1] / weights[:, 0],
        "relevance": data.costs if settings.train.cost_sensitive else None,
        "threads": threads,
    }
    train = replace(settings.train, seed=seed)
    if settings.x_transformer.enabled:
        tree = LabelTree.load(folder / HEAD / "tree")
        if settings.x_transformer.matching == "neural":
            how["given"] = TreeModel.load(folder / HEAD / "matcher").matchers
        how["inputs"] = settings.x_transformer.ranker_input
    else:
        Z = pifa(X, data.describing(), threads=threads)
        tree = build_tree(Z, settings.tree, seed=seed, threads=threads)
    model = train_matchers(X, data.Y, tree, train, **how)
    if settings.scoring is not None:
        model = replace(model, scoring=settings.scoring)
    return TextModel(tfidf, encoder, model, device)
