"""How much of a label's score should come from the nodes above it: rankers of both kinds (train.negatives), beams and
predict.path_weight on rows held out of the training split of a dataset: by TF-IDF alone, beside an encoder as it is, or
under the matcher of an X-Transformer.

    .venv/bin/python -m bench.path_weight --data DIR [--data DIR ...] [--encoder FOLDER | --x-transformer WORK]
        [--rows 20000] [--json OUT]"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench import inputs, machine
from bench.augmentation import Task, task_of
from bench.table import text_table
from xmcspark.config.configuration import default_config
from xmcspark.labels.augmented_training import vectorizer_of
from xmcspark.labels.draws import streams
from xmcspark.labels.features import pifa
from xmcspark.matchers.model import TreeModel
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.train import train_matchers
from xmcspark.quality.comparison import compare
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.sparse.csr import Csr, with_dense
from xmcspark.sparse.rows import take_rows
from xmcspark.text.tfidf import Tfidf
from xmcspark.tree.build import build_tree

if TYPE_CHECKING:
    from xmcspark.neural.text_model import TextModel

NEGATIVES, BEAMS, WEIGHTS = ("tfn", "tfn+man"), (10, 20, 40), (1.0, 0.5, 0.25, 0.125, 0.0625)
_HELD_OUT = 5_000
_SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@10")
_COMPARED = ("P@1", "P@5", "PSP@5")


def split_rows(task: Task, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows to train on, others to predict), by hash."""
    order = np.argsort(streams(7, "rows held out", task.observed.keys), kind="stable")
    held_out = min(_HELD_OUT, len(order) // 5)
    return np.sort(order[held_out : held_out + rows]), np.sort(order[:held_out])


def features_of(
    task: Task, parts: tuple[np.ndarray, np.ndarray], encoder: str | None, threads: int
) -> list[Csr]:
    """X of each part, by a vocabulary of the first."""
    texts = [[task.observed.texts[row] for row in part] for part in parts]
    tfidf = vectorizer_of(default_config().text, threads).fit(texts[0])
    X = [tfidf.rows(some) for some in texts]
    if encoder is None:
        return X
    import torch

    from xmcspark.neural.embed import embed_texts
    from xmcspark.neural.encoder import TextEncoder
    from xmcspark.neural.settings import EncoderSettings

    torch.set_num_threads(threads)
    length = EncoderSettings().max_length
    opened = TextEncoder.open(encoder, pooling="mean", max_length=length, dropout=0.0)
    return [with_dense(rows, embed_texts(opened, some)) for rows, some in zip(X, texts, strict=True)]


class Trained(NamedTuple):
    """Rankers of one kind, and what they took."""

    negatives: str
    model: TreeModel
    seconds: float


def linear_models(X: Csr, Y: Csr, threads: int) -> Iterator[Trained]:
    """Of one tree."""
    config = default_config()
    tree = build_tree(pifa(X, Y, threads=threads), config.tree, threads=threads)
    for negatives in NEGATIVES:
        started = time.perf_counter()
        settings = replace(config.train.alone, negatives=negatives)
        model = train_matchers(X, Y, tree, settings, threads=threads)
        yield Trained(negatives, model, time.perf_counter() - started)


def x_transformer_models(work: Path, tfidf: Tfidf, threads: int) -> Iterator[tuple[Trained, TextModel]]:
    """Under the clusters and the neural matcher that X-Transformer left in a folder; seconds with embedding."""
    from xmcspark.neural.fine_tuning_job import FineTuningJob
    from xmcspark.neural.fine_tuning_ways import TRAINING
    from xmcspark.neural.text_model import TextModelSettings, ranked
    from xmcspark.neural.training_set import TrainingSet

    job, data = FineTuningJob.load(work), TrainingSet.load(work / TRAINING)
    for negatives in NEGATIVES:
        started = time.perf_counter()
        train = replace(job.train, negatives=negatives)
        settings = TextModelSettings(job.encoder, job.xr_transformer, job.x_transformer, train=train)
        model = ranked(data, tfidf, settings, work, seed=job.seed, threads=threads)
        yield Trained(negatives, model.model, time.perf_counter() - started), model


def measured(
    models: Iterable[Trained], X: Csr, truth: Csr, profile: LabelProfile, threads: int
) -> Iterator[dict[str, Any]]:
    """Every combination, each compared with the first: plain rankers, all nodes alike."""
    first = None
    for negatives, model, trained in models:
        for beam in BEAMS:
            for weight in WEIGHTS:
                scored = replace(model, scoring=Scoring(path_weight=weight)).searcher
                started = time.perf_counter()
                found = scored.predict(X, beam=beam, top_k=10, threads=threads)
                asked = {"negatives": negatives, "beam": beam, "path_weight": weight}
                seconds = {"train_s": trained, "predict_s": time.perf_counter() - started}
                first = first or found
                yield {**asked, **seconds, **judged(found, first, truth, profile)}


def of_dataset(task: Task, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One tree of XR-Linear's on a part of the training rows."""
    parts = split_rows(task, options.rows)
    X = features_of(task, parts, options.encoder, options.threads)
    Y = [take_rows(task.observed.Y, part) for part in parts]
    models = linear_models(X[0], Y[0], options.threads)
    return measured(models, X[1], Y[1], LabelProfile.from_training(Y[0]), options.threads)


def of_x_transformer(task: Task, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """X-Transformer on training rows that it was not trained on."""
    from xmcspark.neural.fine_tuning_ways import TRAINING
    from xmcspark.neural.training_set import TrainingSet

    observed = task.observed
    is_trained = np.isin(observed.keys, TrainingSet.load(options.x_transformer / TRAINING).row_keys)
    trained, others = np.flatnonzero(is_trained), np.flatnonzero(~is_trained)
    order = np.argsort(streams(7, "rows held out", observed.keys[others]), kind="stable")
    held_out = np.sort(others[order[:_HELD_OUT]])
    tfidf = vectorizer_of(default_config().text, options.threads).fit(
        [observed.texts[row] for row in trained]
    )
    pairs = list(x_transformer_models(options.x_transformer, tfidf, options.threads))
    X = pairs[0][1].rows([observed.texts[row] for row in held_out])
    truth, profile = (
        take_rows(observed.Y, held_out),
        LabelProfile.from_training(take_rows(observed.Y, trained)),
    )
    return measured((model for model, _ in pairs), X, truth, profile, options.threads)


def judged(found: Predictions, first: Predictions, truth: Csr, profile: LabelProfile) -> dict[str, Any]:
    metrics = evaluate(found, truth, profile, ks=(1, 3, 5, 10), metrics=("P", "PSP", "R"))
    differences = compare(found, first, truth, profile, ks=(1, 5), metrics=("P", "PSP"))
    return {
        "metrics": {f"{row.metric}@{row.k}": row.value for row in metrics if row.bin == "all"},
        "differences": {
            f"{row.metric}@{row.k}": [row.difference, row.low, row.high]
            for row in differences
            if row.bin == "all"
        },
    }


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    against = [f"{name} against the first" for name in _COMPARED]
    shown = [["data", "rankers", "beam", "path weight", *_SHOWN, *against, "train s", "predict s"]]
    for name, rows in results.items():
        for row in rows:
            differences = (row["differences"][metric] for metric in _COMPARED)
            shown.append(
                [
                    name,
                    row["negatives"],
                    str(row["beam"]),
                    f"{row['path_weight']:g}",
                    *(f"{100 * row['metrics'][metric]:.2f}" for metric in _SHOWN),
                    *(
                        f"{100 * d:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"
                        for d, low, high in differences
                    ),
                    f"{row['train_s']:.1f}",
                    f"{row['predict_s']:.2f}",
                ]
            )
    return text_table(shown)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", action="append", required=True, help="a dataset folder; may be repeated")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--encoder", help="folder of a pre-trained transformer")
    beside.add_argument(
        "--x-transformer",
        type=Path,
        metavar="WORK",
        help="folder `work` that bench.transformers keeps of an X-Transformer: measure its rankers",
    )
    parser.add_argument("--rows", type=int, default=20_000, help="training rows, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args(arguments)
    results: dict[str, list[dict[str, Any]]] = {}
    for data in options.data:
        task = task_of(inputs.load(data, None, 0)[1])
        of = of_dataset if options.x_transformer is None else of_x_transformer
        results[Path(data).name] = list(of(task, options))
        if options.json:
            options.json.write_text(
                json.dumps({"machine": machine.describe(), "results": results}, indent=1) + "\n"
            )
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
