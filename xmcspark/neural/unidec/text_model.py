"""UniDEC from texts to a model on one machine, without Spark: encoder, heads and label vectors are trained, and labels
of texts are found by the search of their vectors. The stages on Spark do the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.targets import check_targets
from xmcspark.neural.begun import content_hash
from xmcspark.neural.device import CPU, Device, chosen_device, torch_threads
from xmcspark.neural.embed import embed, embed_texts
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.progress import Report
from xmcspark.neural.settings import EncoderSettings
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_set import embeddings_alone
from xmcspark.neural.unidec.data import UnidecData, instance_tokens
from xmcspark.neural.unidec.member import NearestMember
from xmcspark.neural.unidec.model import UnidecModel
from xmcspark.neural.unidec.search import LabelSearch
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.neural.unidec.train import TaskReport, UnidecTraining
from xmcspark.sparse.csr import Csr

_SAMPLE = 1000  # texts on which an index is tuned


@dataclass(frozen=True)
class UnidecTextModel:
    """Texts to labels by vectors. `reports`: what each task of training came to."""

    model: UnidecModel
    search: LabelSearch
    data: UnidecData
    reports: tuple[TaskReport, ...] = ()
    device: Device = CPU

    def predict(self, texts: Sequence[str], *, top_k: int = 10, excluded: Csr | None = None) -> Predictions:
        """The nearest labels of each text, without those that `excluded` [texts, labels] holds for it."""
        return self.found(embed_texts(self.model.encoder, list(texts), device=self.device), top_k, excluded)

    def found(self, embeddings: np.ndarray, top_k: int, excluded: Csr | None = None) -> Predictions:
        """As `predict`, for the encoder's embeddings of texts."""
        return NearestMember(self.search).predict(embeddings_alone(embeddings), excluded, top_k=top_k)

    def in_space(
        self, space: str, folder: Path, settings: UnidecSettings, *, threads: int = 1
    ) -> UnidecTextModel:
        """The same model searched in another space (dual, classifier, both), written to a folder."""
        search = _search(folder, self.model, self.data, settings, space, self.device, threads)
        return UnidecTextModel(self.model, search, self.data, self.reports, self.device)


def train_unidec(
    texts: Sequence[str],
    Y: Any,
    encoder_settings: EncoderSettings,
    settings: UnidecSettings,
    *,
    folder: Path,
    label_texts: Sequence[str] | None = None,
    row_keys: np.ndarray | None = None,
    row_weights: np.ndarray | None = None,
    made: np.ndarray | None = None,
    excluded: Csr | None = None,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> UnidecTextModel:
    """A model of texts and their labels (targets Y, one row a text). `label_texts`, by label id, are what the dual head
    compares with; without them only the classifier can be trained.

    `folder` keeps what training needs to go on if it is killed: called again with the same arguments, it does.
    `row_keys`, `row_weights`, `made`, `excluded` as `UnidecData` has them."""
    e = encoder_settings
    device = chosen_device(e)
    encoder = TextEncoder.open(e.model, pooling=e.pooling, max_length=e.max_length, dropout=e.dropout)
    tokens = TokenStore.write(instance_tokens(folder), encoder, [texts])
    of_labels = None if label_texts is None else TokenStore.write(folder / "labels", encoder, [label_texts])
    data = UnidecData(check_targets(Y, len(texts)), tokens, of_labels, row_weights, made, row_keys, excluded)
    training = UnidecTraining(
        data,
        e,
        settings,
        seed=seed,
        folder=folder / "state",
        identity={
            "seed": seed,
            "encoder": {**e.decisive(), **encoder.identity()},
            "instances": content_hash(data.arrays()),
        },
        embedder=Embedder(e.embed_batch, device, draft=True),
        held_out=data.held_out(e.validation, seed),
        threads=threads,
        report=report,
    )
    with torch_threads(threads):
        model, reports = training.run(encoder)
        search = _search(folder / "search", model, training.data, settings, settings.space, device, threads)
    return UnidecTextModel(model, search, training.data, tuple(reports), device)


def _search(
    folder: Path,
    model: UnidecModel,
    data: UnidecData,
    settings: UnidecSettings,
    space: str,
    device: Device,
    threads: int,
) -> LabelSearch:
    """Over all labels that some instance has."""
    source = model.source(data.label_tokens, space, Embedder(device=device))
    some = np.linspace(0, len(data) - 1, min(len(data), _SAMPLE)).astype(np.int64)
    sample = embed(model.encoder, data.tokens, some, device=device)
    return LabelSearch.write(folder, source, data.trained_labels, settings, sample=sample, threads=threads)
