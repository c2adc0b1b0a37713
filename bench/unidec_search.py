"""How well and how fast nearest labels are found: approximate search at its default recall against exact search, on
queries that the index was not tuned on.

    .venv/bin/python -m bench.unidec_search --data DIR [--labels DIR ...] --encoder FOLDER [--json OUT]

Labels are those of all the datasets, queries the test texts of the first; all embedded by the encoder as it is. Seconds
are of one thread, searching alone."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import inputs, machine
from bench.table import text_table
from xmcspark.neural.embed import embed_texts
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.unidec.nearest import ExactLabels, LabelIndex, NearestLabels
from xmcspark.neural.unidec.settings import UnidecSettings

K, ALONE, BATCH = 10, 200, 1024


def embedded(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(vectors of distinct label texts, of training texts to tune the index on, of queries)."""
    encoder = TextEncoder.open(options.encoder, pooling="mean", max_length=options.max_length, dropout=0.0)
    first = inputs.load(options.data, None, 0)[1]
    more = [inputs.load(place, None, 0)[1] for place in options.labels]
    names = sorted({text for data in (first, *more) for text in data.label_texts.to_pylist() if text})
    sample = first.train.texts.to_pylist()[: options.sample]
    queries = first.test.texts.to_pylist()[: options.queries]
    vectors, tuned_on, asked = (embed_texts(encoder, texts) for texts in (names, sample, queries))
    return vectors, tuned_on, asked


def measured(index: LabelIndex, queries: np.ndarray, right: np.ndarray | None) -> dict[str, float]:
    """Recall of the 10 best that are `right` (None: they are its own), and queries a second, alone and in batches."""
    for query in queries[:10]:
        index.search(query[None], K)
    started = time.perf_counter()
    for query in queries[:ALONE]:
        index.search(query[None], K)
    alone = len(queries[:ALONE]) / (time.perf_counter() - started)
    started = time.perf_counter()
    parts = [index.search(queries[at : at + BATCH], K)[0] for at in range(0, len(queries), BATCH)]
    batched = len(queries) / (time.perf_counter() - started)
    found = np.concatenate(parts)
    same = 1.0 if right is None else recall(found, right)
    return {"recall": same, "qps_alone": alone, "qps_batched": batched}


def recall(found: np.ndarray, right: np.ndarray) -> float:
    """The share of the right ones that were found, over all rows."""
    hits = sum(
        len(np.intersect1d(mine, others, assume_unique=True))
        for mine, others in zip(found, right, strict=True)
    )
    return hits / right.size


def results_of(
    vectors: np.ndarray, tuned_on: np.ndarray, queries: np.ndarray, folder: Path
) -> dict[str, Any]:
    exact = ExactLabels(vectors)
    right = exact.search(queries, K)[0]
    settings = UnidecSettings()
    started = time.perf_counter()
    index = NearestLabels.write(folder, vectors, queries=tuned_on, recall=settings.recall)
    seconds = time.perf_counter() - started
    return {
        "labels": len(vectors),
        "width": vectors.shape[1],
        "queries": len(queries),
        "asked_recall": settings.recall,
        "index_s": seconds,
        "index_mb": sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        "walk": index.walk,
        "exact": measured(exact, queries, None),
        "approximate": measured(index, queries, right),
    }


def table(found: dict[str, Any]) -> str:
    shown = [["", f"recall@{K}", "queries/s alone", f"in batches of {BATCH}"]]
    for kind in ("exact", "approximate"):
        one = found[kind]
        shown.append(
            [kind, f"{one['recall']:.4f}", *(f"{one[key]:,.0f}" for key in ("qps_alone", "qps_batched"))]
        )
    return text_table(shown)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a dataset folder: its test texts are asked")
    parser.add_argument(
        "--labels", action="append", default=[], metavar="DIR", help="a dataset with further labels"
    )
    parser.add_argument("--encoder", required=True, help="folder of a pre-trained transformer")
    parser.add_argument("--max-length", type=int, default=48)
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--sample", type=int, default=1024, help="training texts that the index is tuned on")
    parser.add_argument("--json", type=Path, metavar="OUT", help="file for the results")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-") as work:
        found = results_of(*embedded(options), Path(work) / "index")
    print(f"{found['labels']:,} labels, {found['queries']:,} queries of {Path(options.data).name}")
    print(table(found))
    if options.json is not None:
        about = {"machine": machine.describe(), "name": Path(options.data).name}
        options.json.write_text(json.dumps({**about, **found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
