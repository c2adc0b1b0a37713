"""X-Transformer's fine-tuning (paper 3): labels are clustered by one of three representations, and the encoder with a
linear head learns which clusters fit a text. That is XR-Transformer's first level, with as many outputs as clusters;
ranking within clusters is left to the linear matchers."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.labels.features import pifa
from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.neural.begun import claim
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_set import TrainingSet, embeddings_alone
from xmcspark.neural.xr_transformer import LevelReport, XrFineTuning, head_matchers
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.distinct import distinct
from xmcspark.tree.build import build_tree
from xmcspark.tree.label_tree import LabelTree

log = logging.getLogger(__name__)

_LABELS_A_CLUSTER = 64  # about what paper 3, table 2 has

# One level of clusters, all of them outputs of every row, each as important (paper 3, eq. 3).
_ONE_LEVEL = XrTransformerSettings(down_to="clusters", cost_sensitive=False)


def cluster_count(labels: int) -> int:
    """K: the power of 2 that gives about 64 labels a cluster, at least 2."""
    return 1 << max(1, round(math.log2(max(labels, 1) / _LABELS_A_CLUSTER)))


def label_clusters(
    Z: Any, live: np.ndarray, settings: XTransformerSettings, *, seed: int, threads: int
) -> LabelTree:
    """A root with K clusters of the live labels, by 2-means, again and again. Z: what each of them looks like."""
    clusters = settings.clusters or cluster_count(len(live))
    if clusters > len(live):
        raise InputError(
            f"x_transformer.clusters is {clusters} with {len(live)} labels: there must be no more clusters than labels"
        )
    tree = build_tree(Z, shape=(clusters,), seed=seed, threads=threads)
    return LabelTree(tree.child_ptr, live[tree.labels].astype(np.int32))


@dataclass(frozen=True)
class ClusterMatcher:
    """The clusters, and the head that finds them for an embedding."""

    tree: LabelTree
    matchers: Matchers

    def model(self, features: int) -> TreeModel:
        """As the first level of a tree whose rows have so many columns, the embedding last."""
        W = self.matchers.weights
        nothing = np.zeros(W.shape[0] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
        weights = Csr(*nothing, (W.shape[0], features), W.dense)
        return TreeModel(self.tree.upper(1), (Matchers(weights, self.matchers.bias),), features)


class XFineTuning:
    """Fine-tunes an encoder and the head of a cluster matcher. `labels`: tokens of the labels' texts by label id, for
    `indexer: text-emb`. The rest is as `XrFineTuning` has it."""

    def __init__(
        self,
        data: TrainingSet,
        encoder_settings: EncoderSettings,
        settings: XTransformerSettings,
        *,
        labels: TokenStore | None,
        seed: int,
        folder: Path,
        identity: Mapping[str, Any],
        embedder: Embedder | None = None,
        threads: int = 1,
        **how: Any,
    ) -> None:
        self.data, self.encoder_settings, self.settings, self.labels = (
            data,
            encoder_settings,
            settings,
            labels,
        )
        self.embedder = embedder or Embedder(encoder_settings.embed_batch)
        self.seed, self.folder, self.threads = seed, folder, threads
        self.identity = dict(identity)
        more = {"identity": self.identity, "embedder": self.embedder, "threads": threads, "seed": seed}
        self.how = {**how, **more}
        self.live = distinct(data.Y.indices)
        if len(self.live) < 2:
            raise InputError(
                f"the training instances have {len(self.live)} labels: there is nothing to tell apart"
            )
        if settings.indexer == "text-emb" and labels is None:
            raise InputError("x_transformer.indexer is text-emb, but labels have no texts: use pifa-tfidf")

    def run(self, encoder: TextEncoder) -> tuple[TextEncoder, ClusterMatcher, list[LevelReport]]:
        """The fine-tuned encoder and cluster matcher; labels that are clustered twice get half the steps each time."""
        claim(self.folder, self.identity)
        rounds = 2 if self.settings.recluster else 1
        of_round = replace(self.encoder_settings, epochs=self.encoder_settings.epochs / rounds)
        reports: list[LevelReport] = []
        indexer = self.settings.indexer
        for number in range(rounds):
            folder = self.folder / f"round-{number}"
            tree = self._clusters(folder, indexer, encoder)
            level = replace(_ONE_LEVEL, bootstrap=self.settings.bootstrap)
            tuning = XrFineTuning(self.data, tree, of_round, level, folder=folder, **self.how)
            encoder, done = tuning.run(encoder)
            reports += done
            indexer = "pifa-neural"
        return encoder, ClusterMatcher(tree, head_matchers(tuning.head)), reports

    def _clusters(self, folder: Path, indexer: str, encoder: TextEncoder) -> LabelTree:
        """As an earlier attempt left them: that one's encoder was another by then."""
        place = folder / "clusters"
        if self.embedder.processes.all_have((place / "header.json").exists()):
            return LabelTree.load(place)
        Z = self._label_features(indexer, encoder)
        tree = label_clusters(Z, self.live, self.settings, seed=self.seed, threads=self.threads)
        if self.embedder.processes.rank == 0:
            tree.save(place)
        self.embedder.processes.barrier()
        return tree

    def _label_features(self, indexer: str, encoder: TextEncoder) -> Any:
        # Of instances that are held out only where a label has no others: rankers need every label in some cluster.
        held_out = self.data.held_out(self.encoder_settings.validation, self.seed)
        Y = self.data.describing(held_out)
        if indexer == "pifa-tfidf":
            return pifa(self.data.X, Y, threads=self.threads)[self.live]
        if indexer == "pifa-neural":
            E = self.embedder.embedded(encoder, self.data.tokens)
            return pifa(embeddings_alone(E).expanded(), Y, threads=self.threads)[self.live]
        assert self.labels is not None
        return sp.csr_matrix(self.embedder.embedded(encoder, self.labels, rows=self.live))
