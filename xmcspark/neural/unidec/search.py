"""Inference (paper 5, section 2.3.4): labels of texts by the search of their vectors. A folder holds the heads, what is
searched and how; with the encoder beside it, it answers single texts without Spark, and embeddings of many on Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xmcspark.errors import InputError
from xmcspark.neural.unidec.heads import Heads
from xmcspark.neural.unidec.nearest import ExactLabels, JoinedLabels, LabelIndex, NearestLabels
from xmcspark.neural.unidec.refresh import opened_index
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.neural.unidec.vectors import LabelSource, LabelVectors, SearchSpace

FILE, VECTORS = "search.json", "vectors"
_HEADS, _INDEX = "heads", "index"
_KIND, _VERSION = "search of UniDEC", 1


@dataclass(frozen=True)
class LabelSearch:
    """Finds labels by the encoder's embeddings of texts."""

    space: SearchSpace
    index: LabelIndex
    identity: str  # of the run it is of

    @staticmethod
    def write(
        folder: Path | str,
        source: LabelSource,
        labels: np.ndarray,
        settings: UnidecSettings,
        *,
        sample: np.ndarray,
        identity: str = "",
        threads: int = 1,
    ) -> LabelSearch:
        """A search over some labels: those that were trained, or any that have a text (dual head). `sample`: embeddings
        of queries, on which an index is tuned. The file that makes it whole is written last."""
        folder = Path(folder)
        (folder / FILE).unlink(missing_ok=True)
        made = source.write(folder / VECTORS, np.asarray(labels, np.int64), identity)
        return LabelSearch.over(folder, made, source.space, settings, sample=sample, threads=threads)

    @staticmethod
    def over(
        folder: Path | str,
        made: LabelVectors,
        space: SearchSpace,
        settings: UnidecSettings,
        *,
        sample: np.ndarray,
        threads: int = 1,
    ) -> LabelSearch:
        """As `write`, over vectors that lie in `folder / VECTORS` already; no `sample` is needed where all labels are
        compared (`UnidecSettings.searches_all`)."""
        folder, identity = Path(folder), made.identity
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).unlink(missing_ok=True)
        space.heads.save(folder / _HEADS)
        queries = space.queries(sample)
        index = opened_index(
            settings, made.vectors, made.ids, queries, folder / _INDEX, threads=threads, identity=identity
        )
        exact = isinstance(index, ExactLabels)
        if not exact:  # it has the vectors in its own order
            shutil.rmtree(folder / VECTORS)
        how = {
            "kind": _KIND,
            "version": _VERSION,
            "space": space.space,
            "exact": exact,
            "identity": identity,
        }
        (folder / FILE).write_text(json.dumps(how, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return LabelSearch.open(folder)

    @staticmethod
    def open(folder: Path | str, *, identity: str | None = None) -> LabelSearch:
        """What `write` made, with vectors mapped; InputError if it is of another run or damaged."""
        folder = Path(folder)
        try:
            how = json.loads((folder / FILE).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{folder} holds no finished {_KIND}: it has no {FILE}") from error
        except ValueError as error:
            raise InputError(f"{folder / FILE} is damaged: {error}") from error
        if not isinstance(how, dict) or (how.get("kind"), how.get("version")) != (_KIND, _VERSION):
            raise InputError(f"{folder / FILE} is of another kind or version: make it again")
        space = SearchSpace(Heads.load(folder / _HEADS), how["space"])
        wanted = how["identity"] if identity is None else identity
        index: LabelIndex
        if how["exact"]:
            made = LabelVectors.open(folder / VECTORS, identity=wanted)
            index = ExactLabels(made.vectors, made.ids)
            if index.width != space.width:
                raise InputError(
                    f"{folder} holds label vectors of {index.width} values and heads of {space.width}: its files are "
                    "of different models; make it again"
                )
        else:
            index = NearestLabels.open(folder / _INDEX, identity=wanted, width=space.width)
        return LabelSearch(space, index, wanted)

    def search(self, embeddings: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(labels int64, scores float32), both [rows, k], best first, of the encoder's embeddings; -1 and -inf where
        there are fewer labels. With both heads a score is the sum of two cosines."""
        return self.index.search(self._queries(embeddings), k)

    def similarities(self, embedding: np.ndarray, label: int) -> dict[str, float]:
        """What each head adds to a label's score for one text, by the head's name; InputError if it is not searched."""
        return self.space.similarities(self._queries(embedding[None])[0], self.index.vector(label))

    def with_labels(self, ids: np.ndarray, embeddings: np.ndarray) -> LabelSearch:
        """One that finds further labels as well, by the embeddings of their texts. Nothing is trained or written."""
        new = ExactLabels(self.space.new_labels(np.ascontiguousarray(embeddings, np.float32)), ids)
        return replace(self, index=JoinedLabels((self.index, new)))

    def _queries(self, embeddings: np.ndarray) -> np.ndarray:
        inputs = {head.linear.in_features for head in self.space.used.values()}
        if inputs != {embeddings.shape[1]}:
            raise InputError(
                f"texts have embeddings of {embeddings.shape[1]} values, and the heads read {sorted(inputs)}: encoder "
                "and index are of different models; copy the bundle again, or run encode and train again"
            )
        return self.space.queries(np.ascontiguousarray(embeddings, np.float32))
