"""How many positives a query of UniDEC has in its batch, and how large pools of labels are, against β and η (paper 5,
figure 2.2b). Queries are clustered and negatives mined once, by the encoder as it is; pools are drawn as in training.

    .venv/bin/python -m bench.unidec_pools --data DIR --encoder FOLDER [--rows 10000] [--batch 256] [--json OUT]"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import inputs, machine
from bench.augmentation import task_of
from bench.table import text_table
from bench.transformers_steps import part_of
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.unidec.data import UnidecData
from xmcspark.neural.unidec.heads import DualHead, Heads
from xmcspark.neural.unidec.label_pool import PoolSampler
from xmcspark.neural.unidec.query_batches import query_batches
from xmcspark.neural.unidec.refresh import Refresh, Refresher
from xmcspark.neural.unidec.settings import UnidecSettings

POSITIVES, NEGATIVES = (1, 2, 3, 5), (0, 3, 6, 12)


def refreshed(data: UnidecData, encoder: TextEncoder, batch: int, threads: int, work: Path) -> Refresh:
    """Batches and negatives of the first epochs, with the default τ."""
    settings = UnidecSettings(batch_size=batch, hard_negatives=max(NEGATIVES))
    head = DualHead(encoder.width, settings.dual_width, 0.0, settings.temperature, False, 0)
    trained = (data.rows_with_labels(), data.trained_labels)
    heads, scratch = Heads(head), work / "scratch"
    refresher = Refresher(data, *trained, heads, None, settings, Embedder(), 0, threads, scratch)
    refresher.write(work / "refresh", encoder, 0)
    return Refresh.open(work / "refresh")


def pools(data: UnidecData, found: Refresh, batch: int, order: np.ndarray) -> list[dict[str, Any]]:
    """Means over an epoch's batches, for each β and η."""
    batches = query_batches(order, batch, seed=0, epoch=0)
    results = []
    for positives in POSITIVES:
        for negatives in NEGATIVES:
            sampler = PoolSampler(positives, negatives, None, 0)
            drawn = [sampler.pool(data.Y, rows, step, found.mined) for step, rows in enumerate(batches)]
            results.append(
                {
                    "beta": positives,
                    "eta": negatives,
                    "positives": float(np.mean([pool.average_positives for pool in drawn])),
                    "labels": float(np.mean([len(pool.labels) for pool in drawn])),
                }
            )
    return results


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """A row for each β and kind of batch; a cell: positives of a query / labels of the pool."""
    shown = [["batches", "β", *(f"η = {negatives}" for negatives in NEGATIVES)]]
    for kind, found in results.items():
        for positives in POSITIVES:
            cells = [
                f"{one['positives']:.2f} / {one['labels']:,.0f}" for one in found if one["beta"] == positives
            ]
            shown.append([kind, str(positives), *cells])
    return text_table(shown)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a dataset folder")
    parser.add_argument("--encoder", required=True, help="folder of a pre-trained transformer")
    parser.add_argument("--rows", type=int, default=0, help="a subset of the training rows; 0: all")
    parser.add_argument("--batch", type=int, default=256, help="queries of a batch")
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args(arguments)
    task = part_of(task_of(inputs.load(options.data, None, 0)[1]), options.rows)
    encoder = TextEncoder.open(options.encoder, pooling="mean", max_length=options.max_length, dropout=0.0)
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-") as folder:
        work = Path(folder)
        labels = TokenStore.write(work / "labels", encoder, [[text or "" for text in task.label_texts]])
        tokens = TokenStore.write(work / "instances", encoder, [task.observed.texts])
        data = UnidecData(task.observed.Y, tokens, labels)
        found = refreshed(data, encoder, options.batch, options.threads, work)
        at_random = np.random.default_rng(0).permutation(found.order)
        orders = {"clusters": np.array(found.order), "random": at_random}
        results = {kind: pools(data, found, options.batch, order) for kind, order in orders.items()}
    print(table(results))
    if options.json is not None:
        about = {"name": Path(options.data).name, "rows": len(data), "batch": options.batch}
        text = json.dumps({"machine": machine.describe(), **about, "pools": results}, indent=1)
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
