"""Which labels are nearest to a query, by inner product of vectors of equal length: `ExactLabels` compares with all,
block by block; `NearestLabels` walks faiss's graphs (HNSW), some hundred thousand labels each, mapped from files. How
far it walks is measured when the index is made: as far as the recall that was asked for takes on sample queries."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from xmcspark.errors import ConfigError, InputError
from xmcspark.store.arrays import load_arrays, save_arrays

log = logging.getLogger(__name__)

_KIND, _VERSION = "index of labels", 1
_SPARE = 8  # labels looked at beyond those asked for, so that equal scores at the end are ordered by id
_BLOCK = 64 << 20  # bytes of vectors in work at once
_PART = 3 << 29  # bytes of vectors of one graph, which are in memory while it is made
_AT_ONCE = 4  # graphs that are made side by side at most, whatever the number of threads
NEIGHBOURS, BREADTH = 16, 100  # of a label in the graph; labels kept in sight while it is made
WALKS = tuple(2**power for power in range(4, 12))  # labels kept in sight while searching: what is tried
_SAMPLE = 512  # queries that recall is measured on


class LabelIndex(Protocol):
    """What finds labels."""

    @property
    def width(self) -> int: ...

    def __len__(self) -> int: ...

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(ids int64, scores float32), both [queries, k], best first, equal scores by id; -1 and -inf where there are
        fewer labels."""
        ...

    def vector(self, label: int) -> np.ndarray:
        """float32 [width]: of one label; InputError if it is not among those that are searched."""
        ...


class ExactLabels:
    """All labels compared, a block of vectors at a time: any number of labels in bounded memory."""

    def __init__(
        self, vectors: np.ndarray, ids: np.ndarray | None = None, device: torch.device | None = None
    ):
        """`vectors`: float32 [labels, width], mapped or not; `ids`: their labels, by default 0, 1, ..."""
        self.vectors, self.device = vectors, device or torch.device("cpu")
        self.ids = _checked_ids(vectors, ids)

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        queries = _checked_queries(queries, self.width)
        kept = min(k + _SPARE, len(self))
        places: np.ndarray = np.zeros((len(queries), 0), np.int64)
        scores: np.ndarray = np.zeros((len(queries), 0), np.float32)
        rows = max(kept, _BLOCK // (4 * max(self.width, len(queries), 1)))
        for start in range(0, len(self), rows):
            block = self.vectors[start : start + rows]
            found, at = torch.topk(self._scores(queries, block), min(kept, len(block)), dim=1)
            places = np.concatenate([places, at.cpu().numpy() + start], axis=1)
            scores = np.concatenate([scores, found.cpu().numpy()], axis=1)
            if scores.shape[1] > kept:
                best = torch.topk(torch.from_numpy(scores), kept, dim=1).indices.numpy()
                places, scores = (np.take_along_axis(part, best, axis=1) for part in (places, scores))
        return _ranked(self.ids[places], scores, k)

    def vector(self, label: int) -> np.ndarray:
        return np.asarray(self.vectors[_place(self.ids, label)])

    def _scores(self, queries: np.ndarray, block: np.ndarray) -> torch.Tensor:
        if self.device.type == "cpu":
            return torch.from_numpy(queries @ block.T)
        there = [torch.from_numpy(np.array(part)).to(self.device) for part in (queries, block)]
        return there[0] @ there[1].T


@dataclass(frozen=True)
class NearestLabels:
    """Approximate search. `write` makes an index in a folder, `open` maps it."""

    parts: Sequence[Any]  # faiss's graphs
    first: np.ndarray  # int64 [parts + 1]: where each begins
    ids: np.ndarray  # int64 [labels]
    width: int
    walk: int  # labels kept in sight while searching
    recall: float  # of the 10 best, on the sample, when it was made
    identity: str  # of the run it is of
    threads: int = 1  # that search

    @staticmethod
    def write(
        folder: Path | str,
        vectors: np.ndarray,
        ids: np.ndarray | None = None,
        *,
        queries: np.ndarray,
        recall: float = 0.98,
        identity: str = "",
        threads: int = 1,
    ) -> NearestLabels:
        """An index over `vectors` (of equal length; a mapped array is read in parts) that finds `recall` of the 10 best
        labels of `queries`, of which up to 512 are tried. Graphs are made side by side by `threads`, each by one of
        them, so that the index is the same for any number."""
        faiss, folder = _faiss(), Path(folder)
        ids = _checked_ids(vectors, ids)
        sample = _checked_queries(queries, vectors.shape[1])[:: max(1, len(queries) // _SAMPLE)][:_SAMPLE]
        if not len(sample):
            raise InputError("an index is tuned on queries: give some, such as those of training")
        folder.mkdir(parents=True, exist_ok=True)
        rows = max(1, _PART // (4 * vectors.shape[1]))
        first = np.append(np.arange(0, len(vectors), rows), len(vectors))

        def make(number: int) -> None:
            faiss.omp_set_num_threads(1)  # several threads on one graph make another one each time
            graph = faiss.IndexHNSWFlat(vectors.shape[1], NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
            graph.hnsw.efConstruction = BREADTH
            graph.add(np.ascontiguousarray(vectors[first[number] : first[number + 1]], np.float32))
            partial = folder / f"part-{number}.partial"
            faiss.write_index(graph, str(partial))
            os.replace(partial, _part(folder, number))  # somebody may have an older one mapped

        with ThreadPoolExecutor(min(threads, _AT_ONCE)) as pool:
            list(pool.map(make, range(len(first) - 1)))
        sizes = [_part(folder, number).stat().st_size for number in range(len(first) - 1)]
        header = {
            "width": int(vectors.shape[1]),
            "identity": identity,
            "bytes": sizes,
            "walk": WALKS[0],
            "recall": 0.0,
        }
        arrays = {"ids": ids, "first": first.astype(np.int64)}
        save_arrays(folder, _KIND, _VERSION, header, arrays)
        tuned = _tuned(NearestLabels.open(folder), vectors, sample, recall)
        save_arrays(folder, _KIND, _VERSION, header | tuned, arrays)
        return NearestLabels.open(folder, threads=threads)

    @staticmethod
    def open(
        folder: Path | str, *, identity: str | None = None, width: int | None = None, threads: int = 1
    ) -> NearestLabels:
        """The index of a folder, searched by `threads`; InputError if it is damaged, of another run, or of vectors of
        another width."""
        faiss, folder = _faiss(), Path(folder)
        header, arrays = load_arrays(folder, _KIND, _VERSION)
        if identity is not None and header["identity"] != identity:
            raise InputError(
                f"{folder} is the index of {header['identity'] or 'an unnamed run'}, not of {identity}: its labels "
                "have other vectors; make the index again from this run"
            )
        if width is not None and header["width"] != width:
            raise InputError(
                f"{folder} holds vectors of {header['width']} values, queries have {width}: index and heads are not of "
                "one model; make the index again"
            )
        parts = []
        for number, size in enumerate(header["bytes"]):
            path = _part(folder, number)
            found = path.stat().st_size if path.exists() else "no"
            if found != size:
                raise InputError(
                    f"{path} has {found} bytes where {size} were written: copy or make the index again"
                )
            try:
                parts.append(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC))
            except (RuntimeError, MemoryError) as error:  # what a damaged size asks for, no machine has
                raise InputError(
                    f"{path} is damaged, or was made by another release of faiss: copy or make the index again "
                    f"(./spark-submit.sh verify tells which files of a bundle are not what was written)"
                ) from error
        kept = {name: header[name] for name in ("width", "walk", "recall", "identity")}
        return NearestLabels(parts, arrays["first"], arrays["ids"], **kept, threads=threads)

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, queries: np.ndarray, k: int, walk: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `LabelIndex` has it; `walk`: labels to keep in sight, by default as many as were found enough."""
        queries, faiss = _checked_queries(queries, self.width), _faiss()
        faiss.omp_set_num_threads(self.threads)
        how = faiss.SearchParametersHNSW(efSearch=max(walk or self.walk, 2 * k))
        ids: list[np.ndarray] = [np.zeros((len(queries), 0), np.int64)]
        scores: list[np.ndarray] = [np.zeros((len(queries), 0), np.float32)]
        for part, start in zip(self.parts, self.first, strict=False):
            found, place = part.search(queries, min(k + _SPARE, part.ntotal), params=how)
            ids.append(self.ids[place + start])
            scores.append(np.where(place < 0, -np.inf, found).astype(np.float32))
        return _ranked(np.concatenate(ids, axis=1), np.concatenate(scores, axis=1), k)

    def vector(self, label: int) -> np.ndarray:
        place = _place(self.ids, label)
        part = int(np.searchsorted(self.first, place, side="right")) - 1
        return np.asarray(self.parts[part].reconstruct(int(place - self.first[part])))


@dataclass(frozen=True)
class JoinedLabels:
    """Two indexes of different labels, searched as one."""

    indexes: tuple[LabelIndex, LabelIndex]

    def __post_init__(self) -> None:
        first, second = (index.width for index in self.indexes)
        if first != second:
            raise InputError(
                f"labels with vectors of {first} and of {second} values cannot be searched together: make both by the "
                "same heads"
            )

    @property
    def width(self) -> int:
        return self.indexes[0].width

    def __len__(self) -> int:
        return sum(len(index) for index in self.indexes)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        found = [index.search(queries, min(k, len(index))) for index in self.indexes]
        ids, scores = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        return _ranked(ids, scores, k)

    def vector(self, label: int) -> np.ndarray:
        try:
            return self.indexes[1].vector(label)
        except InputError:
            return self.indexes[0].vector(label)


def _tuned(index: NearestLabels, vectors: np.ndarray, sample: np.ndarray, recall: float) -> dict[str, Any]:
    """The shortest walk that finds enough of the sample's 10 best labels, and how much it finds."""
    k = min(10, len(index))
    best, _ = ExactLabels(vectors, index.ids).search(sample, k)
    found = 0.0
    for walk in WALKS:
        labels, _ = index.search(sample, k, walk=walk)
        found = float(
            np.mean([np.isin(right, mine).mean() for right, mine in zip(best, labels, strict=True)])
        )
        if found >= recall:
            return {"walk": walk, "recall": found}
    log.warning(
        "an index of %d labels finds %.3f of the best 10, not %.3f: use exact search",
        len(index),
        found,
        recall,
    )
    return {"walk": WALKS[-1], "recall": found}


def _place(ids: np.ndarray, label: int) -> int:
    """Where a label is among ids in any order."""
    found = np.flatnonzero(ids == label)
    if not len(found):
        raise InputError(f"label {label} is not in the model: it had no training instances, or is not active")
    return int(found[0])


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number}.faiss"


def _faiss() -> Any:
    """The library, when it is needed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the code that wraps it
            return import_module("faiss")
    except ImportError as error:
        raise ConfigError(
            [
                "unidec.search is approximate (or auto, with many labels), which needs faiss: pip install "
                "'xmcspark[neural]' on the driver and in the environment of the executors; or set unidec.search to "
                "exact"
            ]
        ) from error


def _ranked(ids: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The best k of a few, equal scores by id; filled up where there are fewer."""
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    ids, scores = (np.take_along_axis(part, order, axis=1) for part in (ids, scores))
    ids[np.isneginf(scores)] = -1
    if missing := k - scores.shape[1]:
        ids = np.pad(ids, ((0, 0), (0, missing)), constant_values=-1)
        scores = np.pad(scores, ((0, 0), (0, missing)), constant_values=-np.inf)
    return ids, scores


def _checked_ids(vectors: np.ndarray, ids: np.ndarray | None) -> np.ndarray:
    if vectors.ndim != 2 or vectors.dtype != np.float32 or not len(vectors):
        raise InputError(
            f"labels to search need float32 vectors, one row each: found {vectors.dtype} of shape {vectors.shape}"
        )
    if ids is None:
        return np.arange(len(vectors), dtype=np.int64)
    if len(ids) != len(vectors):
        raise InputError(f"{len(ids)} ids were given for {len(vectors)} label vectors: one each is needed")
    return np.asarray(ids, np.int64)


def _checked_queries(queries: np.ndarray, width: int) -> np.ndarray:
    if queries.ndim != 2 or queries.shape[1] != width:
        raise InputError(
            f"queries have shape {queries.shape}, labels have vectors of {width} values: both must be made by the same "
            "heads"
        )
    return np.ascontiguousarray(queries, np.float32)
