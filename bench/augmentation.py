"""What augmentation does to the quality of XR-Linear: each variant of paper 5's tables 1.2, 1.6 and 1.7 and of figure
1.4 beside no augmentation, on the test split of a dataset.

    .venv/bin/python -m bench.augmentation --data DIR [--data DIR ...] [--variants none,gandalf] [--json OUT [--resume]]

By the library alone: the stages on Spark give the same model. Exclusions of the dataset hold. OUT is written after each
variant; with --resume those that it has are not measured again."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import inputs
from bench.machine import describe
from bench.table import text_table
from xmcspark.config.configuration import Config, default_config
from xmcspark.corpus.dataset import Dataset
from xmcspark.labels.augmented_training import (
    Instances,
    Learner,
    label_instances,
    mixtures,
    no_entries,
    no_instances,
    trained_on,
)
from xmcspark.matchers.exclusion import drop_entries
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.row_hash import text_hashes

_KS = (1, 3, 5)
_SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5", "coverage@5")

# Settings of section augment, by name: None for no augmentation.
VARIANTS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "gandalf": {},
    "gandalf weight 1": {"weight": 1.0},
    "gandalf weight 5": {"weight": 5.0},
    "gandalf no negatives": {"negatives": 0.0},
    "gandalf all negatives": {"negatives": 1.0},
    "gandalf with pairs seen once": {"min_count": 1},
    "gandalf not in PIFA": {"in_pifa": False},
    "gandalf in vocabulary": {"in_vocabulary": True},
    "gandalf as in the paper": {"min_count": 1, "in_pifa": False, "weight": 1.0, "negatives": 1.0},
    "delta 0": {"delta": 0.0},
    "delta 0.2": {"delta": 0.2},
    "delta 0.5": {"delta": 0.5},
    "random walk": {"graph": "random-walk"},
    "self-annotation": {"targets": "self"},
    "self-annotation weight 10 no negatives": {"targets": "self", "weight": 10.0, "negatives": 0.0},
    "GLaS targets": {"targets": "glas"},
    "half of the labels": {"share": 0.5},
    "half of the labels tail first": {"share": 0.5, "sample": "tail"},
    "label texts only": {"training": "labels"},
    "union cut to N rows": {"training": "sample"},
    "MixUp": {"gandalf": False, "mixup": "mixup"},
    "Label-MixUp": {"gandalf": False, "mixup": "label-mixup"},
}


@dataclass(frozen=True)
class Task:
    """What is learned from and what is predicted."""

    observed: Instances
    label_texts: list[str | None]
    texts: Sequence[str]
    truth: Csr
    excluded: Csr

    @property
    def named(self) -> np.ndarray:
        return np.array([bool(text and text.strip()) for text in self.label_texts], bool)


def task_of(dataset: Dataset) -> Task:
    train, test = dataset.train, dataset.test
    observed = Instances(train.texts.to_pylist(), as_csr(train.Y), text_hashes(train.ids))
    excluded = as_csr(dataset.exclude) if dataset.exclude is not None else no_entries(test.Y.shape)
    truth = drop_entries(as_csr(test.Y), excluded)
    return Task(observed, dataset.label_texts.to_pylist(), test.texts.to_pylist(), truth, excluded)


def measured(task: Task, config: Config, changes: dict[str, Any] | None, threads: int) -> dict[str, float]:
    """Metrics of one variant, and the seconds it took."""
    started = time.process_time()
    if changes is not None:
        config = replace(config, augment=replace(config.augment, **{"gandalf": True, **changes}))
    learner = Learner(config, task.texts, task.excluded, max(_KS), threads)
    made = no_instances(task.truth.shape[1])
    if config.augment.mixup != "none":
        made = mixtures(task.observed, task.label_texts, task.named, config.augment, config.seed)
    elif changes is not None:
        made = label_instances(
            task.observed, task.label_texts, task.named, config.augment, config.seed, threads
        )
    found = learner.predictions(*trained_on(task.observed, made, config.augment, config.seed))
    seconds = time.process_time() - started
    profile = LabelProfile.from_training(task.observed.Y)
    rows = evaluate(found, task.truth, profile, ks=_KS)
    values = {f"{row.metric}@{row.k}": row.value for row in rows if row.bin == "all"}
    return {name: values[name] for name in _SHOWN} | {"rows made": float(len(made.keys)), "cpu_s": seconds}


def table(results: dict[str, dict[str, float]]) -> str:
    """A row for each variant; in brackets what it changes: points of P, per cent of PSP and coverage."""
    plain = results.get("none")
    rows = [["", *_SHOWN, "rows made", "CPU s"]]
    for name, found in results.items():
        cells = [_cell(metric, found[metric], None if plain is None else plain[metric]) for metric in _SHOWN]
        rows.append([name, *cells, f"{found['rows made']:,.0f}", f"{found['cpu_s']:.1f}"])
    return text_table(rows)


def _cell(metric: str, value: float, plain: float | None) -> str:
    if plain is None or value == plain:
        return f"{100 * value:.2f}"
    if metric.startswith("P@"):
        return f"{100 * value:.2f} ({100 * (value - plain):+.2f})"
    return f"{100 * value:.2f} ({100 * (value / plain - 1):+.1f}%)"


def _missing(data: str, variants: Sequence[str], threads: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Each of these variants with its metrics; the data is read only if there are any."""
    if not variants:
        return
    name, dataset = inputs.load(data, None, 0)
    task, config = task_of(dataset), default_config()
    for variant in variants:
        print(f"{name}: {variant}", file=sys.stderr, flush=True)
        yield variant, measured(task, config, VARIANTS[variant], threads)


def _write(results: dict[str, Any], file: Path) -> None:
    """Whole or not at all: a later --resume reads it."""
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    unfinished.replace(file)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", action="append", required=True, help="a dataset folder; repeatable")
    parser.add_argument(
        "--variants", default=",".join(VARIANTS), help="by name, comma-separated (default all)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--resume", action="store_true", help="keep what the file of --json has")
    options = parser.parse_args(arguments)
    if options.resume and options.json is None:
        parser.error("--resume needs --json OUT: the file with the results so far")
    chosen = options.variants.split(",")
    if unknown := [name for name in chosen if name not in VARIANTS]:
        parser.error(f"unknown variant {', '.join(unknown)}: choose from {', '.join(VARIANTS)}")
    every: dict[str, Any] = {"machine": describe(), "data": {}}
    if options.resume and options.json.exists():
        every = json.loads(options.json.read_text())
    for data in options.data:
        results = every["data"].setdefault(Path(data).name, {})
        for variant, found in _missing(
            data, [name for name in chosen if name not in results], options.threads
        ):
            results[variant] = found
            if options.json is not None:
                _write(every, options.json)
        print(f"## {Path(data).name}\n\n{table({name: results[name] for name in chosen})}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
