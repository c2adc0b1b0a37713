"""Runs the comparison: every repeat runs each system once, in a fresh process of its own interpreter, so that
the systems are interleaved and meet the same state of the machine. Decides who runs when, on what and with
which limits; the numbers come from the adapters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import inputs, machine, quality
from bench.environments import python_of
from bench.summary import summarise
from bench.systems import STEPS, SYSTEMS, TEXT_STEPS, System
from xmcspark.corpus.dataset import Dataset

VECTORIZERS = ({"analyzer": "word", "ngrams": (1, 2)}, {"analyzer": "char_wb", "ngrams": (3, 3)})


@dataclass(frozen=True)
class Plan:
    """What to compare and how."""

    systems: list[System]
    steps: tuple[str, ...] = STEPS
    threads: int = 1
    repeats: int = 3
    beam: int = 10
    top_k: int = 10
    seed: int = 0  # repeat r runs with seed + r
    features_from: str = "xmcspark"  # the system whose TF-IDF makes everybody's X
    timeout_s: float = 7200  # of one system in one repeat


class AdapterError(RuntimeError):
    """A system did not get through its steps; the message ends with what it said last."""


def compare(name: str, dataset: Dataset, plan: Plan, work: Path) -> dict[str, Any]:
    """The result, ready for JSON: steps, sums, quality, trees, model sizes, failures, machine."""
    inputs.write(dataset, work / "inputs")
    if any(set(system.steps) & set(plan.steps) - set(TEXT_STEPS) for system in plan.systems):
        _make_features(plan, work)
    answers: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for repeat in range(plan.repeats):
        for system in plan.systems:
            steps = [step for step in plan.steps if step in system.steps]
            if not steps or system.name in failures:
                continue
            print(f"repeat {repeat + 1}/{plan.repeats}: {system.name}", file=sys.stderr, flush=True)
            try:
                answer = _run(system, steps, plan, work, plan.seed + repeat)
            except AdapterError as error:
                failures[system.name] = str(error)
                print(f"{system.name} failed: {error}", file=sys.stderr, flush=True)
                continue
            answers.append(_judged(answer, system, dataset, work))
    return {**summarise(answers), "failures": failures, **_context(name, dataset, plan, work)}


def _make_features(plan: Plan, work: Path) -> None:
    """X, Xt and Z for all systems, outside the timings."""
    system = SYSTEMS[plan.features_from]
    print(f"features for all by {system.name}", file=sys.stderr, flush=True)
    _run(system, ["tfidf_fit", "tfidf_transform"], plan, work, plan.seed, save_features=True)
    inputs.adopt(work / system.name, work / "inputs")
    Z = quality.label_features(*(sp.load_npz(work / "inputs" / f"{name}.npz") for name in "XY"))
    sp.save_npz(work / "inputs" / "Z.npz", Z, compressed=False)


def _run(
    system: System, steps: list[str], plan: Plan, work: Path, seed: int, save_features: bool = False
) -> dict[str, Any]:
    """One system's steps in a process of its own; its answer."""
    scratch = work / system.name
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    job = {
        "system": system.name,
        "steps": steps,
        "threads": plan.threads,
        "inputs": str(work / "inputs"),
        "scratch": str(scratch),
        "beam": plan.beam,
        "top_k": plan.top_k,
        "seed": seed,
        "options": system.options,
        "vectorizers": VECTORIZERS,
        "save_features": save_features,
    }
    path = scratch / "job.json"
    path.write_text(json.dumps(job))
    command = [str(python_of(system.environment)), str(system.script), str(path)]
    os.sync()  # what the system before has left to be written is not this one's to wait for
    try:
        done = subprocess.run(
            command, env=_environ(plan.threads), capture_output=True, text=True, timeout=plan.timeout_s
        )
    except subprocess.TimeoutExpired:
        raise AdapterError(
            f"not done after {plan.timeout_s:.0f} s; give it fewer steps or less data"
        ) from None
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])[-1500:]
        raise AdapterError(f"exit code {done.returncode} from {system.script.name}: {last}")
    answer: dict[str, Any] = json.loads(path.with_suffix(".answer").read_text())
    return {**answer, "system": system.name}


def _environ(threads: int) -> dict[str, str]:
    """This process's environment, with every library held to the same number of threads."""
    limits = ("OMP", "MKL", "OPENBLAS", "RAYON", "NUMEXPR")
    # The adapters of xmcspark import it from here whether or not it is installed.
    root = str(Path(__file__).resolve().parents[1])
    return {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in limits}, "XMCSPARK_ROOT": root}


def _judged(answer: dict[str, Any], system: System, dataset: Dataset, work: Path) -> dict[str, Any]:
    """The answer with its quality, by the same code for every system."""
    scratch = work / system.name
    if (scratch / "top.npy").exists():
        answer["quality"] = quality.precision(np.load(scratch / "top.npy"), dataset.test.Y, dataset.exclude)
    if (scratch / "leaves.npy").exists():
        leaves = np.load(scratch / "leaves.npy")
        Z = sp.load_npz(work / "inputs" / "Z.npz")
        sizes = np.bincount(leaves)
        answer["tree"] = {
            "leaf_cosine": quality.leaf_cosine(leaves, Z),
            "leaves": int((sizes > 0).sum()),
            "largest_leaf": int(sizes.max(initial=0)),
        }
    return answer


def _context(name: str, dataset: Dataset, plan: Plan, work: Path) -> dict[str, Any]:
    features = work / "inputs" / "X.npz"
    X = sp.load_npz(features) if features.exists() else None
    data = {
        "name": name,
        "instances": dataset.train.Y.shape[0],
        "labels": dataset.n_labels,
        "test": dataset.test.Y.shape[0],
        "labels_per_row": dataset.train.Y.nnz / max(dataset.train.Y.shape[0], 1),
        "features": None if X is None else X.shape[1],
        "nnz_per_row": None if X is None else X.nnz / max(X.shape[0], 1),
    }
    settings = {
        "threads": plan.threads,
        "repeats": plan.repeats,
        "beam": plan.beam,
        "seed": plan.seed,
        "features_from": plan.features_from,
    }
    return {
        "data": data,
        "settings": settings,
        "machine": machine.describe(),
        "date": date.today().isoformat(),
    }
