"""Counted grams on their way from where they were counted to where they are summed up. Decides how the grams of all
vectorizers are cut into ranges, how a run of them is packed into bytes, and how runs are added up in memory that
follows the distinct grams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.text.counts import GramCounts

_SCHEMA = pa.schema([("gram", pa.large_string()), ("df", pa.int64()), ("occurrences", pa.int64())])
_MERGE_AT = 1 << 19  # grams held before they are added up for the first time


@dataclass(frozen=True)
class GramRun:
    """Grams of one vectorizer in the order of their bytes, each once."""

    gram: pa.Array  # large_string
    df: np.ndarray  # int64
    occurrences: np.ndarray  # int64

    def __len__(self) -> int:
        return len(self.df)

    def __getitem__(self, part: slice) -> GramRun:
        return GramRun(self.gram[part], self.df[part], self.occurrences[part])

    def where(self, kept: np.ndarray) -> GramRun:
        """The grams at which the mask `kept` is true."""
        return GramRun(self.gram.filter(pa.array(kept)), self.df[kept], self.occurrences[kept])

    def chunks(self, grams: int, most_bytes: int) -> Iterator[GramRun]:
        """The run in pieces of at most `grams`, and of fewer where grams are so long that `most_bytes` is passed."""
        start = 0
        while start < len(self):
            stop = min(start + grams, len(self))
            while stop - start > 1 and self.gram[start:stop].nbytes > most_bytes:
                stop = start + (stop - start) // 2
            yield self[start:stop]
            start = stop

    def packed(self) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA) as stream:
            stream.write_batch(
                pa.record_batch(
                    [self.gram, pa.array(self.df), pa.array(self.occurrences)],
                    schema=_SCHEMA,
                )
            )
        return bytes(sink.getvalue())

    @staticmethod
    def unpacked(data: bytes | pa.Buffer) -> GramRun:
        """The run that `packed` wrote; shares the memory of `data`."""
        with pa.ipc.open_stream(data) as stream:
            batch = stream.read_next_batch()
        return GramRun(batch.column(0), batch.column(1).to_numpy(), batch.column(2).to_numpy())


def names_only(gram: pa.Array) -> GramRun:
    """Distinct grams in any order, as a run that counts nothing."""
    gram = gram.cast(pa.large_string())
    none = np.zeros(len(gram), np.int64)
    return GramRun(gram.take(pc.sort_indices(gram)), none, none)


# -------------------------------------------------------------------------------------------- ranges


@dataclass(frozen=True)
class GramRanges:
    """All grams cut into ranges, numbered in the order of vectorizer, then gram. The cuts balance the work; what
    becomes of a gram does not depend on them."""

    vectorizer: tuple[int, ...]  # of each range
    start: tuple[str, ...]  # its least possible gram

    def __len__(self) -> int:
        return len(self.vectorizer)

    def cut(self, vectorizer: int, run: GramRun) -> Iterator[tuple[int, GramRun]]:
        """(range, its part of the run), empty parts left out."""
        ranges = [r for r, of in enumerate(self.vectorizer) if of == vectorizer]
        starts = [bisect_left(_Spelled(run.gram), self.start[r]) for r in ranges[1:]]
        for r, begin, end in zip(ranges, [0, *starts], [*starts, len(run)], strict=True):
            if begin < end:
                yield r, run[begin:end]

    def cut_counts(self, counts: GramCounts) -> Iterator[tuple[int, GramRun]]:
        """The same for all vectorizers of a counted part of the corpus."""
        bounds = np.searchsorted(counts.vectorizer, np.arange(max(self.vectorizer) + 2))
        whole = GramRun(counts.gram, counts.df, counts.occurrences)
        for v, (begin, end) in enumerate(pairwise(bounds)):
            yield from self.cut(v, whole[int(begin) : int(end)])


class _Spelled:
    """Grams as Python's text, one at a time: code points order as UTF-8 bytes do."""

    def __init__(self, gram: pa.Array) -> None:
        self._gram = gram

    def __len__(self) -> int:
        return len(self._gram)

    def __getitem__(self, at: int) -> str:
        text: str = self._gram[at].as_py()
        return text


def expected_grams(sample: GramCounts, documents: int) -> int:
    """About how many distinct grams all documents hold, seldom too few: new ones keep coming as fast as in the sample,
    where those met once are the news (Good and Turing)."""
    once = int(np.count_nonzero(sample.df == 1))
    return len(sample.df) + once * max(0, documents - sample.documents) // max(1, sample.documents)


def gram_ranges(sample: GramCounts, vectorizers: int, ranges: int) -> GramRanges:
    """About `ranges` ranges, at least one a vectorizer, that get about as many of the grams to come."""
    of, start = [], []
    rare = sample.df == 1  # grams to come are spread like those met once so far
    share = ranges / max(1, int(np.count_nonzero(rare)))
    for v in range(vectorizers):
        own = np.flatnonzero(rare & (sample.vectorizer == v))
        parts = max(1, round(len(own) * share))
        at = own[np.arange(1, parts) * len(own) // parts]
        starts = ["", *sorted(set(sample.gram.take(pa.array(at)).to_pylist()) - {""})]
        of += [v] * len(starts)
        start += starts
    return GramRanges(tuple(of), tuple(start))


# ------------------------------------------------------------------------------------------- merging


class RunMerger:
    """Adds up runs of one range. Holds at most about twice the distinct grams, whatever it is given."""

    def __init__(self) -> None:
        self._runs: list[GramRun] = []
        self._known: list[pa.Array] = []
        self._held, self._merge_at = 0, _MERGE_AT

    def add(self, run: GramRun) -> None:
        self._runs.append(run)
        self._held += len(run)
        if self._held >= self._merge_at:
            self._runs = [merged(self._runs)]
            self._held = len(self._runs[0])
            self._merge_at = max(_MERGE_AT, 2 * self._held)

    def add_known(self, run: GramRun) -> None:
        """Grams that have a feature already."""
        self._known.append(run.gram)

    def total(self) -> GramRun:
        return merged(self._runs)

    def is_new(self, run: GramRun) -> np.ndarray:
        """Mask of the grams of `run` without a feature."""
        if not self._known:
            return np.ones(len(run), bool)
        found = pc.is_in(run.gram, value_set=pa.concat_arrays(self._known))
        new: np.ndarray = ~found.to_numpy(zero_copy_only=False)
        return new


def merged(runs: list[GramRun]) -> GramRun:
    """The sum of runs. Sums are of integers: their order does not matter."""
    if not runs:
        return names_only(pa.array([], pa.large_string()))
    if len(runs) == 1:
        return runs[0]
    gram = pa.concat_arrays([run.gram for run in runs])
    order = pc.sort_indices(gram)  # fast on runs that are sorted each; hashing them is 5 times slower
    gram, at = gram.take(order), order.to_numpy()
    new = np.ones(len(gram), bool)
    new[1:] = pc.not_equal(gram[1:], gram[:-1]).to_numpy(zero_copy_only=False)
    first = np.flatnonzero(new)
    if not len(first):
        return GramRun(gram, np.empty(0, np.int64), np.empty(0, np.int64))
    return GramRun(
        gram.filter(pa.array(new)),
        np.add.reduceat(np.concatenate([run.df for run in runs])[at], first),
        np.add.reduceat(np.concatenate([run.occurrences for run in runs])[at], first),
    )
