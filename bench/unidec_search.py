"""How well and how fast nearest labels are found: approximate search at its default recall against exact search, on
queries that the index was not tuned on; and the libraries that there are for it, beside each other at that recall.

    .venv/bin/python -m bench.unidec_search --data DIR [--labels DIR ...] --encoder FOLDER
        [--libraries faiss,hnswlib,usearch] [--repeat 3] [--json OUT]

Labels are those of all the datasets, queries the test texts of the first; all embedded by the encoder as it is. Seconds
are of one thread, searching alone. Libraries are in an environment of their own (bench/peers/ann.txt), each run in a
process of its own, and take turns; medians are told."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import inputs, machine
from bench.environments import python_of
from bench.systems import ADAPTERS
from bench.table import text_table
from xmcspark.neural.embed import embed_texts
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.unidec.nearest import BREADTH, NEIGHBOURS, WALKS, ExactLabels, LabelIndex, NearestLabels
from xmcspark.neural.unidec.settings import UnidecSettings

K, ALONE, BATCH = 10, 200, 1024
LIBRARIES = ("faiss", "hnswlib", "usearch")


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


def libraries_beside(
    names: list[str],
    vectors: np.ndarray,
    tuned_on: np.ndarray,
    queries: np.ndarray,
    folder: Path,
    repeat: int,
) -> dict[str, dict[str, float]]:
    """Of each library the medians of its runs: what its graph takes to make and to hold, and how it is searched."""
    python = python_of("ann")
    folder.mkdir()
    arrays = {"labels": vectors, "sample": tuned_on, "queries": queries}
    arrays |= {
        f"of_{name}": ExactLabels(vectors).search(arrays[name], K)[0] for name in ("sample", "queries")
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    order = {"folder": str(folder), "recall": UnidecSettings().recall, "walks": WALKS, "k": K}
    order |= {"neighbours": NEIGHBOURS, "breadth": BREADTH, "alone": ALONE, "batch": BATCH}
    few = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeat):
        for name in names:
            print(f"making and searching a graph of {name}", file=sys.stderr, flush=True)
            found: dict[str, float] = {}
            for what in ("make", "search"):
                job = json.dumps({**order, "library": name})
                command = [str(python), str(ADAPTERS / "run_ann.py"), what, job]
                done = subprocess.run(command, check=True, env=few, stdout=subprocess.PIPE, text=True)
                found |= json.loads(done.stdout)
            runs[name].append(found)
    return {
        name: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for name, found in runs.items()
    }


def libraries_table(found: dict[str, dict[str, float]]) -> str:
    shown = [
        ["", "to make, s", "file MB", "private MB", "walk", f"recall@{K}", "queries/s alone", f"in {BATCH}s"]
    ]
    for name, one in found.items():
        sizes = [f"{one[key]:,.0f}" for key in ("make_s", "file_mb", "private_mb", "walk")]
        speeds = [f"{one[key]:,.0f}" for key in ("qps_alone", "qps_batched")]
        shown.append([name, *sizes, f"{one['recall']:.4f}", *speeds])
    return text_table(shown)


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
    parser.add_argument("--libraries", default="", help=f"comma-separated, of {', '.join(LIBRARIES)}")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each library")
    parser.add_argument("--json", type=Path, metavar="OUT", help="file for the results")
    options = parser.parse_args(arguments)
    names = [name for name in options.libraries.split(",") if name]
    if unknown := [name for name in names if name not in LIBRARIES]:
        parser.error(f"--libraries {', '.join(unknown)}: choose from {', '.join(LIBRARIES)}")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-") as work:
        arrays = embedded(options)
        found = results_of(*arrays, Path(work) / "index")
        if names:
            found["libraries"] = libraries_beside(names, *arrays, Path(work) / "libraries", options.repeat)
    print(f"{found['labels']:,} labels, {found['queries']:,} queries of {Path(options.data).name}")
    print(table(found))
    if names:
        print(libraries_table(found["libraries"]))
    if options.json is not None:
        about = {"machine": machine.describe(), "name": Path(options.data).name}
        options.json.write_text(json.dumps({**about, **found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
