"""How fast a bundle with an encoder answers (paper 4, table 10): milliseconds a text at batch 1, and texts a second in
batches, on one thread; and what of it is the encoder's.

    .venv/bin/python -m bench.encoder_latency --bundle BUNDLE --data DIR [--json OUT]
    .venv/bin/python -m bench.encoder_latency --encoder FOLDER --data DIR [--rows 1000] [--json OUT]

The second form makes a bundle first, of some training rows and the encoder as it is: fine-tuning changes no time."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import inputs, machine
from bench.table import text_table
from xmcspark.corpus.dataset import Dataset

K, WARM_UP, BATCH = 10, 10, 256


def made_bundle(dataset: Dataset, encoder: str, rows: int, max_length: int, folder: Path) -> Path:
    """A bundle of XR-Transformer's last step: TF-IDF and the embeddings of an encoder that was not fine-tuned."""
    import pyarrow as pa

    from xmcspark.config.configuration import from_mapping
    from xmcspark.matchers.members import MemberSettings
    from xmcspark.neural.text_model import TextModelSettings, train_text_model
    from xmcspark.serving.bundle import write_manifest
    from xmcspark.serving.label_names import LabelNames
    from xmcspark.serving.text_reader import ENCODER

    changes = [("encoder.model", encoder), ("encoder.epochs", 0.0), ("encoder.max_length", max_length)]
    config = from_mapping({"method": "xr-transformer"}, changes)
    texts, Y = dataset.train.texts.to_pylist()[:rows], dataset.train.Y[:rows]
    model = train_text_model(texts, Y, TextModelSettings.of(config), folder=folder / "work")
    bundle = folder / "bundle"
    model.tfidf.save(bundle / "tfidf")
    model.encoder.save(bundle / ENCODER)
    model.model.searcher.save(bundle / "model" / "0")
    labels = np.arange(Y.shape[1], dtype=np.int32)
    LabelNames.of(labels, pa.array([str(label) for label in labels]), dataset.label_texts).save(
        bundle / "labels"
    )
    members = MemberSettings(1, "average", config.predict.scoring)
    write_manifest(bundle, {**members.to_plain(), "beam": config.predict.beam, "top_k": K})
    return bundle


def measured(bundle: Path, texts: Sequence[str]) -> dict[str, Any]:
    """Of a bundle, in this process, on one thread."""
    import torch

    import xmcspark
    from xmcspark.neural.encoder import TextEncoder
    from xmcspark.serving.text_reader import ENCODER

    torch.set_num_threads(1)
    model = xmcspark.load(bundle)
    encoder = TextEncoder.load(bundle / ENCODER)
    alone = _milliseconds(lambda text: model.predict([text], k=K), texts)
    embedding = _milliseconds(encoder.embed_one, texts)
    started = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        model.predict(list(texts[start : start + BATCH]), k=K)
    return {
        "texts": len(texts),
        "p50_ms": float(np.percentile(alone, 50)),
        "p99_ms": float(np.percentile(alone, 99)),
        "encoder_p50_ms": float(np.percentile(embedding, 50)),
        "texts_per_s": len(texts) / (time.perf_counter() - started),
    }


def _milliseconds(answer: Callable[[str], Any], texts: Sequence[str]) -> list[float]:
    for text in texts[:WARM_UP]:
        answer(text)
    times = []
    for text in texts:
        started = time.perf_counter()
        answer(text)
        times.append(1e3 * (time.perf_counter() - started))
    return times


def table(name: str, found: dict[str, Any]) -> str:
    return text_table(
        [
            ["", "batch 1, ms", "p99", "of that, encoder", f"batches of {BATCH}, texts/s"],
            [
                name,
                *(f"{found[key]:.2f}" for key in ("p50_ms", "p99_ms", "encoder_p50_ms")),
                f"{found['texts_per_s']:,.0f}",
            ],
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--bundle", type=Path, help="of a published run whose method has an encoder")
    given.add_argument("--encoder", help="folder of a pre-trained transformer, to make a bundle with")
    parser.add_argument("--data", required=True, help="a dataset folder: its test texts are asked")
    parser.add_argument("--rows", type=int, default=1000, help="training rows of a bundle that is made")
    parser.add_argument(
        "--max-length", type=int, default=128, help="tokens of a text, of a bundle that is made"
    )
    parser.add_argument("--texts", type=int, default=500, help="texts that are asked")
    parser.add_argument("--json", type=Path, metavar="OUT", help="file for the results")
    options = parser.parse_args(arguments)
    name, dataset = inputs.load(options.data, None, 0)
    texts = dataset.test.texts.to_pylist()[: options.texts]
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-") as work:
        bundle = options.bundle or made_bundle(
            dataset, options.encoder, options.rows, options.max_length, Path(work)
        )
        if not (bundle / "encoder").is_dir():
            parser.error(f"{bundle} has no encoder: give the bundle of a run whose method has one")
        found = measured(bundle, texts)
    print(table(name, found))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"machine": machine.describe(), "name": name, **found}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
