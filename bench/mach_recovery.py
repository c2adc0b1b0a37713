"""Recovery of labels from sketches: the exact kernel against the fast one, from 10,000 to a million labels.

    .venv/bin/python -m bench.mach_recovery [--queries 100] [--repeats 5] [--json bench/results/mach-recovery.json]
    .venv/bin/python -m bench.mach_recovery --sweep      recall and time by top_buckets and min_count

Sketches are generated, with the shape that bucket probabilities had for 200 held-out rows of gutenberg-lcsh (linear
learner, logistic loss, B = 2000, R = 6). There the probabilities of a repetition's buckets fall like 1 / sqrt(rank)
from a few percent to the base rate (labels of a row / B), the relevant ones are above that for some rows and hidden in
it for others, and a label's log-odds differ by 0.03 to 0.2 between repetitions. So, for each query:

- every label has a probability, 1 / sqrt(rank) in an order of the query's own, scaled to that base rate;
- 1 + Poisson(1.4) labels are relevant: the first with probability of median 0.06, log-normal (sigma 1.3, at most 0.97),
  the j-th with 1/j of it;
- a bucket has the largest probability of its labels, its log-odds disturbed by normal noise of 0.15.

Nothing is separated: of a query's ten best labels by mean, many are there only because they share the bucket of a
better one in one or two of 32 repetitions, and fast recovery has to find those as well. Recall is the share of exact's
ten best that fast's ten best hold, over all queries.

Milliseconds a query, one thread, calls through Python; the kernels take turns, all queries each. `exact` and `fast`:
medians of single calls, each on a row that was just written, as when it was just computed. `margins`: the same for
margins that have yet to become probabilities (sigmoid): all of them in the exact kernel, those that matter in the fast
one. `batch`: all queries in one call, most of them no longer in the cache; the exact kernel reads its table once for 8
rows."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench import machine
from xmcspark.mach.hashing import BucketHash
from xmcspark.mach.recovery import Recipe, Recovery
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring

TOP_K = 10
LABELS_PER_ROW = 2.4
GROWTH = [(labels, 10_000, 32) for labels in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
BESIDES = [
    (100_000, 1000, 16),
    (100_000, 2000, 8),
    (100_000, 20_000, 32),
    (1_000_000, 20_000, 32),
    (1_000_000, 5000, 16),
]
SWEPT = (5, 10, 20, 30, 50, 100, 200)


@dataclass(frozen=True)
class Measured:
    """One size. Times are milliseconds a query."""

    labels: int
    buckets: int
    repetitions: int
    exact: float
    fast: float
    exact_margins: float
    fast_margins: float
    exact_batch: float
    fast_batch: float
    recall: float
    identical: float  # share of queries whose ten best are the same
    exact_mb: float
    fast_mb: float

    @property
    def ratios(self) -> dict[str, float]:
        pairs = {
            "single": (self.exact, self.fast),
            "margins": (self.exact_margins, self.fast_margins),
            "batch": (self.exact_batch, self.fast_batch),
        }
        return {name: exact / fast for name, (exact, fast) in pairs.items()}


def generated(hashes: list[BucketHash], labels: int, queries: int, seed: int) -> np.ndarray:
    """float32 [queries, R, B]: probabilities of buckets, as above."""
    rng = np.random.default_rng(seed)
    repetitions, buckets = len(hashes), hashes[0].buckets
    P = np.empty((queries, repetitions, buckets), np.float32)
    scale = 0.6 * LABELS_PER_ROW / np.sqrt(labels * buckets)
    known = min(labels, 4 * buckets)  # labels by name; the others only as the floor of a bucket
    rest = max((labels - known) / buckets, 0.02)
    for query in range(queries):
        ids = rng.choice(labels, known, replace=False)
        p = scale / np.sqrt((1 + np.arange(known)) / labels)
        relevant = 1 + rng.poisson(LABELS_PER_ROW - 1)
        first = min(0.97, 0.06 * np.exp(1.3 * rng.standard_normal()))
        p = np.concatenate([p, first / (1 + np.arange(relevant))])
        ids = np.concatenate([ids, rng.choice(labels, relevant, replace=False)])
        # The largest of `rest` labels that come after the known ones, of which u is the share before it.
        u = 1 - rng.random((repetitions, buckets)) ** (1 / rest)
        floor = scale / np.sqrt(known / labels + u * (1 - known / labels) + 1e-9)
        for r, bucket_hash in enumerate(hashes):
            np.maximum.at(floor[r], bucket_hash.of(ids), p)
        odds = np.log(floor / (1 - floor)) + 0.15 * rng.standard_normal(floor.shape)
        P[query] = 1 / (1 + np.exp(-odds))
    return P


def recall(fast: Predictions, exact: Predictions) -> tuple[float, float]:
    """(share of exact's labels that fast has, share of rows where it has all)."""
    shares = [
        len(set(a) & set(b)) / len(b)
        for a, b in zip(fast.labels.tolist(), exact.labels.tolist(), strict=True)
    ]
    return statistics.mean(shares), statistics.mean(share == 1.0 for share in shares)


def _milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def measure(labels: int, buckets: int, repetitions: int, queries: int, repeats: int) -> Measured:
    hashes = [BucketHash(buckets, 1, r) for r in range(repetitions)]
    P = generated(hashes, labels, queries, seed=labels + buckets + repetitions)
    recovery = Recovery(hashes, np.ones(labels, bool))
    exact, fast = recovery.exact(P, top_k=TOP_K), recovery.fast(P, top_k=TOP_K)
    found, identical = recall(fast, exact)
    margins, sigmoid = np.log(P / (1 - P)), Scoring("sigmoid")
    kernels = {"exact": recovery.exact, "fast": recovery.fast}
    times: dict[str, list[float]] = {}
    current = np.empty_like(P[0])
    for _ in range(repeats):
        for name, recover in kernels.items():
            for row in P:
                current[:] = row
                times.setdefault(name, []).append(_milliseconds(lambda f=recover: f(current, top_k=TOP_K)))
            for row in margins:
                current[:] = row
                taken = _milliseconds(lambda f=recover: f(current, top_k=TOP_K, scoring=sigmoid))
                times.setdefault(f"{name} margins", []).append(taken)
            taken = _milliseconds(lambda f=recover: f(P, top_k=TOP_K)) / queries
            times.setdefault(f"{name} batch", []).append(taken)
    return Measured(
        labels,
        buckets,
        repetitions,
        *(
            statistics.median(times[name + how])
            for how in ("", " margins", " batch")
            for name in ("exact", "fast")
        ),
        recall=found,
        identical=identical,
        exact_mb=recovery.exact_bytes / 1e6,
        fast_mb=recovery.fast_bytes / 1e6,
    )


def sweep(labels: int, buckets: int, repetitions: int, queries: int) -> list[dict[str, float]]:
    """Recall and milliseconds by `top_buckets` and `min_count`: what the defaults were chosen by."""
    hashes = [BucketHash(buckets, 1, r) for r in range(repetitions)]
    P = generated(hashes, labels, queries, seed=2)
    recovery = Recovery(hashes, np.ones(labels, bool))
    rows = []
    for aggregate in ("mean", "median", "min"):
        exact = recovery.exact(P, top_k=TOP_K, aggregate=aggregate)
        for top_buckets in SWEPT:
            for min_count in (1, 2):
                how = {"aggregate": aggregate, "top_buckets": top_buckets, "min_count": min_count}
                found = recall(recovery.fast(P, top_k=TOP_K, **how), exact)[0]
                times = [
                    _milliseconds(lambda row=row, how=how: recovery.fast(row, top_k=TOP_K, **how))
                    for row in P
                ]
                rows.append({**how, "recall": found, "milliseconds": statistics.median(times)})
    return rows


def table(rows: list[Measured]) -> str:
    names = ["L", "B", "R"]
    names += [name for how in ("", " margins", " batch") for name in (f"exact{how}", f"fast{how}", "ratio")]
    names += ["recall", "all ten", "table MB", "index MB"]
    lines = ["| " + " | ".join(names) + " |", "| ---: " * len(names) + "|"]
    for m in rows:
        times = ((m.exact, m.fast), (m.exact_margins, m.fast_margins), (m.exact_batch, m.fast_batch))
        cells = [f"{m.labels:,}", f"{m.buckets:,}", str(m.repetitions)]
        for exact, fast in times:
            cells += [f"{exact:.3f}", f"{fast:.3f}", f"{exact / fast:.1f}"]
        cells += [f"{m.recall:.2%}", f"{m.identical:.0%}", f"{m.exact_mb:.0f}", f"{m.fast_mb:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.sweep:
        for labels, buckets, repetitions in (
            (100_000, 10_000, 32),
            (1_000_000, 10_000, 32),
            (30_000, 2000, 16),
        ):
            print(f"L {labels:,}, B {buckets:,}, R {repetitions}")
            for row in sweep(labels, buckets, repetitions, options.queries):
                print(
                    "  "
                    + ", ".join(
                        f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
                    )
                )
        return 0
    rows = []
    for labels, buckets, repetitions in GROWTH + ([] if options.growth_only else BESIDES):
        rows.append(measure(labels, buckets, repetitions, options.queries, options.repeats))
        ratios = ", ".join(f"{name} {ratio:.1f}x" for name, ratio in rows[-1].ratios.items())
        print(f"{labels:,} labels: {ratios}, recall {rows[-1].recall:.2%}", file=sys.stderr)
    print(table(rows))
    if options.json:
        result = {
            "queries": options.queries,
            "repeats": options.repeats,
            "top_k": TOP_K,
            "top_buckets": Recipe().limits(TOP_K)[0],
            "min_count": Recipe().limits(TOP_K)[1],
            "rows": [{**asdict(m), "ratios": m.ratios} for m in rows],
            "machine": machine.describe(),
        }
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench.mach_recovery", description="Exact against fast recovery of labels."
    )
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--growth-only", action="store_true", help="only B = 10,000, R = 32")
    parser.add_argument("--sweep", action="store_true", help="recall by top_buckets and min_count instead")
    parser.add_argument("--json", help="where to write the numbers")
    return parser


if __name__ == "__main__":
    sys.exit(main())
