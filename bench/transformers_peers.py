"""Other systems beside bench.transformers: PECOS's XR-Transformer, in an environment of its own, on the same rows,
TF-IDF, encoder, steps, batch size and length; scored by our metrics. Decides what of our settings it is given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench.augmentation import Task
from bench.environments import python_of
from bench.quality import without
from bench.systems import ADAPTERS
from bench.transformers_steps import TOP_K, Asked, configuration, measured
from xmcspark.config.configuration import Config
from xmcspark.labels.augmented_training import vectorizer_of
from xmcspark.matchers.predictions import Predictions
from xmcspark.sparse.distinct import distinct

# By the name on the command line: what tables call it, its environment and its adapter.
PEERS = {"pecos": ("PECOS XR-Transformer", "pecos-xrt", "run_pecos_xrt.py")}
_MOST_EXCLUDED = 50  # labels of a row that are asked for besides, because they may have to go


def peer_row(
    peer: str, asked: Asked, task: Task, encoder: str, folder: Path, threads: int
) -> tuple[Predictions, dict[str, Any]]:
    """Trains and predicts in the peer's interpreter: what it answers, and its seconds, memory and quality."""
    _, environment, adapter = PEERS[peer]
    python = python_of(environment)
    config = configuration(asked, encoder)
    shutil.rmtree(folder, ignore_errors=True)
    write_inputs(task, config, folder / "inputs", threads)
    job = folder / "job.json"
    job.write_text(json.dumps(job_of(task, config, folder, threads, asked.seed)))
    few = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    command = [str(python), str(ADAPTERS / adapter), str(job)]
    subprocess.run(command, check=True, env={**few, "HF_HUB_OFFLINE": "1"})
    answer = json.loads(job.with_suffix(".answer").read_text())
    steps = {step["step"]: step for step in answer["steps"]}
    train, predict = steps["train"], steps["predict_batch"]
    settings = settings_of(config, task)
    del settings["encoder"]  # a place on this machine
    top = np.load(folder / "scratch" / "top.npy")
    found = predictions_of(np.where(top >= 0, live_labels(task)[top], -1), task)
    return found, {
        "asked": {"seed": asked.seed, "rows": asked.rows, **settings},
        "metrics": measured(found, task),
        "train_s": train["wall_s"],
        "predict_s": predict["wall_s"],
        "peak_mb": max(train["peak_mb"], predict["peak_mb"]) * 1.048576,  # it counts in MiB
        **answer["facts"],
    }


def settings_of(config: Config, task: Task) -> dict[str, Any]:
    """What of our settings the peer has, too; the steps are those of all levels."""
    e, xr = config.encoder, config.xr_transformer
    shared = ("batch_size", "accumulate", "max_length", "learning_rate", "weight_decay", "warmup", "clip")
    return {
        **{name: getattr(e, name) for name in (*shared, "dropout", "embed_batch")},
        **{name: getattr(xr, name) for name in ("branching", "max_leaf", "parents", "cost_sensitive")},
        "encoder": e.model,
        "steps": round(e.epochs * len(task.observed.keys) / (e.batch_size * e.accumulate)),
    }


def job_of(task: Task, config: Config, folder: Path, threads: int, seed: int) -> dict[str, Any]:
    """As `Job` of the adapters reads it."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    most = int(np.diff(task.excluded.indptr).max(initial=0))
    return {
        "system": "pecos-xrt",
        "threads": threads,
        "inputs": str(folder / "inputs"),
        "scratch": str(scratch),
        "beam": config.predict.beam,
        "top_k": TOP_K + min(most, _MOST_EXCLUDED),
        "seed": seed,
        "options": {"train": settings_of(config, task)},
        "vectorizers": [],
        "steps": ["train", "predict_batch"],
    }


def write_inputs(task: Task, config: Config, folder: Path, threads: int) -> None:
    """Texts a line each, Y of labels that there are, and the TF-IDF that xmcspark trains on."""
    folder.mkdir(parents=True)
    tfidf = vectorizer_of(config.text, threads).fit(task.observed.texts)
    for name, texts, X in (("train", task.observed.texts, "X"), ("test", task.texts, "Xt")):
        lines = (" ".join(text.splitlines()) for text in texts)
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
        sp.save_npz(folder / f"{X}.npz", tfidf.transform(texts), compressed=False)
    Y = task.observed.Y.to_scipy()[:, live_labels(task)]
    sp.save_npz(folder / "Y.npz", Y, compressed=False)


def live_labels(task: Task) -> np.ndarray:
    """Labels that some training row has, increasing: of a subset not all, and a peer should not have to tell apart
    labels that nothing is known of."""
    return distinct(task.observed.Y.indices)


def predictions_of(top: np.ndarray, task: Task) -> Predictions:
    """Ranked label ids without those excluded; scores only say the order."""
    kept = without(top, task.excluded.to_scipy())[:, :TOP_K].astype(np.int32)
    scores = np.where(kept >= 0, -np.arange(kept.shape[1], dtype=np.float32), -np.inf)
    return Predictions(kept, scores.astype(np.float32))
