"""What one process of bench.mach does: it makes the matrices of a dataset, chooses by rows held out, trains one model,
or predicts the test split with what was trained. Decides what is measured: CPU seconds and peak memory of the call
alone, by one thread, with its inputs in memory.

    .venv/bin/python -m bench.mach_steps JSON"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import inputs
from bench.augmentation import task_of
from xmcspark.config.configuration import default_config
from xmcspark.corpus.dataset import Dataset, Split, _read_exclude
from xmcspark.labels.augmented_training import Instances, label_instances, no_entries
from xmcspark.labels.features import pifa
from xmcspark.mach.linear import train_linear
from xmcspark.mach.model import Sketch
from xmcspark.mach.repetition import LinearRepetition, MlpRepetition, Part, load_repetition
from xmcspark.mach.settings import MachSettings
from xmcspark.mach.targets import live_labels
from xmcspark.matchers.ensemble import fuse
from xmcspark.matchers.exclusion import drop_entries, search_without
from xmcspark.matchers.peak_memory import PeakMemory
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.presets import Ensemble, preset, train_preset
from xmcspark.matchers.search import Searcher
from xmcspark.matchers.settings import TrainSettings
from xmcspark.matchers.train import train_matchers
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import stacked_rows, take_rows
from xmcspark.text.tfidf import Tfidf
from xmcspark.tree.build import build_tree

TOP_K = 100
_KS = (1, 3, 5, TOP_K)
_METRICS = ("P", "PSP", "R", "wR")
_KEPT = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", f"R@{TOP_K}", f"wR@{TOP_K}")
_HELD_OUT, _MOST_TRIED = 4000, 20_000  # rows for choices: to evaluate on, and at most to train on
_TRIED_REPETITIONS = 4
_TRANSFORMS = ("sigmoid", "l1-hinge", "l3-hinge", "log-sigmoid", "log-l2-hinge", "log-l3-hinge")
_FUSIONS = ("average", "normalised", "rank")
PROBABILITIES = "sigmoid"
_MLP_TRANSFORM = "log-sigmoid"  # its margins are log-odds
_SEED = 0


@dataclass(frozen=True)
class Learned:
    """Something that is trained by one process: a preset's model, or one repetition."""

    preset: str = ""  # "": a repetition
    learner: str = "linear"
    buckets: int = 0
    repetition: int = 0
    gandalf: bool = False
    label_share: float = 1.0  # of the labels; below 1 to know the cost only

    @property
    def name(self) -> str:
        what = self.preset or f"{self.learner}-{self.buckets}-{self.repetition}"
        return what + "-gandalf" * self.gandalf + ("" if self.label_share == 1 else f"-{self.label_share:g}")


@dataclass(frozen=True)
class Asked:
    """A row of the tables: what predicts the test split."""

    preset: str = ""  # "": a sketch, unless fused
    beam: int = 10
    learner: str = "linear"
    buckets: int = 0
    repetitions: int = 0
    gandalf: bool = False
    aggregate: str = "mean"
    recovery: str = "exact"
    transform: str = ""  # of a sketch's margins; "": the one that was chosen
    label_share: float = 1.0
    fused: bool = False  # sketch and xr-linear

    @property
    def name(self) -> str:
        """Of the row: what differs from the defaults."""
        default = Asked()
        return ", ".join(
            f"{field.name} {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        )

    @property
    def members(self) -> list[Asked]:
        """What is fused."""
        return [Asked("xr-linear", gandalf=self.gandalf), replace(self, fused=False)] if self.fused else []

    @property
    def compared(self) -> list[Asked]:
        """Those whose predictions are looked at."""
        return self.members + ([replace(self, recovery="exact")] if self.recovery == "fast" else [])

    @property
    def learned(self) -> list[Learned]:
        if self.fused:
            return [one for member in self.members for one in member.learned]
        if self.preset:
            return [Learned(self.preset, gandalf=self.gandalf, label_share=self.label_share)]
        shared: dict[str, Any] = {"learner": self.learner, "buckets": self.buckets, "gandalf": self.gandalf}
        return [Learned(repetition=number, **shared) for number in range(self.repetitions)]


@dataclass(frozen=True)
class Place:
    """Where a dataset's matrices, models and predictions are."""

    folder: Path

    def save(self, name: str, matrix: Csr) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        arrays = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
        np.savez(self.folder / f"{name}.npz", shape=np.array(matrix.shape), **arrays)

    def load(self, name: str) -> Csr:
        with np.load(self.folder / f"{name}.npz") as a:
            return Csr(a["indptr"], a["indices"], a["data"], (int(a["shape"][0]), int(a["shape"][1])))

    def model(self, learned: Learned) -> Path:
        return self.folder / learned.name

    def predictions(self, asked: Asked) -> Path:
        return self.folder / f"{asked.name}.predictions.npz"

    def facts(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def prepare(place: Place, data: str, share: float) -> dict[str, Any]:
    """The matrices that all are trained and evaluated on."""
    _, dataset = inputs.load(data, None, 0)
    dataset = _part(dataset, share)
    task, config = task_of(dataset), default_config()
    observed = task.observed
    made = label_instances(observed, task.label_texts, task.named, config.augment, config.seed, 1)
    tfidf = Tfidf()
    place.save("X", tfidf.fit_rows(observed.texts))
    for name, matrix in (("Y", observed.Y), ("X-made", tfidf.rows(made.texts)), ("Y-made", made.Y)):
        place.save(name, matrix)
    for name, matrix in (
        ("X-test", tfidf.rows(task.texts)),
        ("truth", task.truth),
        ("excluded", task.excluded),
    ):
        place.save(name, matrix)
    np.save(place.folder / "keys.npy", np.concatenate([observed.keys, made.keys]))
    _prepare_trial(place, data, dataset, observed)
    return {
        "rows": len(observed.keys),
        "made rows": len(made.keys),
        "test rows": task.truth.shape[0],
        "labels": task.truth.shape[1],
        "live labels": int(live_labels(observed.Y).sum()),
        "features": tfidf.n_features,
        "share": share,
    }


def _part(dataset: Dataset, share: float) -> Dataset:
    """The first of its rows, of both splits."""
    if share >= 1:
        return dataset

    def first(split: Split) -> Split:
        rows = int(share * len(split.ids))
        return Split(split.ids[:rows], split.texts[:rows], split.Y[:rows])

    test = first(dataset.test)
    exclude = None if dataset.exclude is None else dataset.exclude[: len(test.ids)]
    return replace(dataset, train=first(dataset.train), test=test, exclude=exclude)


def _prepare_trial(place: Place, data: str, dataset: Dataset, observed: Instances) -> None:
    """Some training rows, and others to choose by."""
    order = np.argsort(observed.keys.view(np.uint64), kind="stable")
    held = min(_HELD_OUT, len(order) // 5)
    valid, train = np.sort(order[:held]), np.sort(order[held : held + _MOST_TRIED])
    tfidf = Tfidf().fit([observed.texts[row] for row in train])
    truth, path = take_rows(observed.Y, valid), Path(data) / "exclude.parquet"
    excluded = no_entries(truth.shape)
    if path.exists():
        excluded = as_csr(_read_exclude(path, dataset.train.ids.take(valid), truth.shape[1]))
    for name, rows in (("X-trial", train), ("X-valid", valid)):
        place.save(name, tfidf.rows([observed.texts[row] for row in rows]))
    for name, matrix in (("Y-trial", take_rows(observed.Y, train)), ("truth-valid", truth)):
        place.save(name, matrix)
    place.save("excluded-valid", excluded)


def learn(place: Place, learned: Learned) -> dict[str, Any]:
    """Trains and saves a model; what that cost."""
    X, Y, given = _training_rows(place, learned.gandalf)
    if learned.label_share < 1:
        Y = _some_labels(Y, learned.label_share)
    peak, started = PeakMemory(), time.process_time()
    if learned.preset:
        model = _preset(learned, X, Y, given)
    else:
        repetition = _repetition(learned, X, Y, given)
    cost = {"cpu_s": time.process_time() - started, "peak_mb": peak.bytes() / 1e6}
    folder = place.model(learned)
    if not learned.preset:
        repetition.save(folder)
        weights = (
            repetition.n_weights if isinstance(repetition, LinearRepetition) else repetition.n_bytes // 4
        )
        return {**cost, "bytes": _folder_bytes(folder), "weights": weights}
    for number, member in enumerate(model.members):
        member.searcher.save(folder / str(number))
    return {
        **cost,
        "bytes": _folder_bytes(folder),
        "weights": sum(member.n_weights for member in model.members),
        "labels": Y.shape[1],
    }


def _training_rows(place: Place, gandalf: bool) -> tuple[Csr, Csr, dict[str, Any]]:
    """X, Y and what else training is given."""
    X, Y, keys = place.load("X"), place.load("Y"), np.load(place.folder / "keys.npy")
    if not gandalf:
        return X, Y, {"row_keys": keys[: X.shape[0]]}
    augment, sizes = default_config().augment, [X.shape[0], len(keys) - X.shape[0]]
    given = {
        "row_keys": keys,
        "row_weights": np.repeat([1.0, augment.weight], sizes).astype(np.float32),
        "row_negatives": np.repeat([1.0, augment.negatives], sizes).astype(np.float32),
    }
    return stacked_rows([X, place.load("X-made")]), stacked_rows([Y, place.load("Y-made")]), given


def _some_labels(Y: Csr, share: float) -> Csr:
    some = np.sort(np.random.default_rng(_SEED).permutation(Y.shape[1])[: int(share * Y.shape[1])])
    return as_csr(Y.to_scipy()[:, some].tocsr())


def _preset(learned: Learned, X: Csr, Y: Csr, given: dict[str, Any]) -> Ensemble:
    if not learned.gandalf:
        return train_preset(learned.preset, X, Y, seed=_SEED)
    chosen = preset(learned.preset)
    if chosen.tree is None or chosen.trees != 1:
        raise ValueError(f"{learned.preset} with label texts is not measured here")
    tree = build_tree(pifa(X, Y), chosen.tree, seed=_SEED)
    model = train_matchers(X, Y, tree, chosen.train, **given)
    return Ensemble((replace(model, scoring=chosen.scoring),))


def _repetition(learned: Learned, X: Csr, Y: Csr, given: dict[str, Any]) -> LinearRepetition | MlpRepetition:
    part = Part(learned.repetition, _SEED, learned.buckets, Y.shape[1], X.shape[1])
    if learned.learner == "linear":
        return train_linear(X, Y, part, TrainSettings(), **given)
    from xmcspark.mach.mlp import train_mlp

    return train_mlp(X, Y, part, MachSettings(learner="mlp"), **given)


def choose(place: Place, buckets: int) -> dict[str, Any]:
    """The transform of margins and the fusion that are best on rows held out, by the mean of P@1, P@3 and P@5."""
    X, Y, V, truth, excluded = (
        place.load(name) for name in ("X-trial", "Y-trial", "X-valid", "truth-valid", "excluded-valid")
    )
    parts = [Part(r, _SEED, buckets, Y.shape[1], X.shape[1]) for r in range(_TRIED_REPETITIONS)]
    repetitions = [train_linear(X, Y, part) for part in parts]
    live, truth = live_labels(Y), drop_entries(truth, excluded)

    def asked(transform: str) -> Predictions:
        settings = MachSettings(
            buckets=buckets, repetitions=len(parts), recovery="exact", transform=transform
        )
        return Sketch(repetitions, live, settings).predict(V, excluded=excluded, top_k=TOP_K)

    sketches = {transform: asked(transform) for transform in _TRANSFORMS}
    transforms = {name: _precision(found, truth) for name, found in sketches.items()}
    transform = max(transforms, key=lambda name: transforms[name]["mean"])
    tree = train_preset("xr-linear", X, Y, seed=_SEED).members[0]
    found = search_without(tree.searcher, V, excluded, beam=10, top_k=TOP_K)
    fusions: dict[str, dict[str, Any]] = {}
    for name in _FUSIONS:
        scored = PROBABILITIES if name == "average" else transform  # negative scores cannot be averaged
        fusions[name] = {
            "transform": scored,
            **_precision(fuse([found, sketches[scored]], name, top_k=TOP_K), truth),
        }
    return {
        "buckets": buckets,
        "repetitions": len(parts),
        "rows": X.shape[0],
        "transforms": transforms,
        "transform": transform,
        "xr-linear": _precision(found, truth),
        "fusions": fusions,
        "fusion": max(fusions, key=lambda name: fusions[name]["mean"]),
    }


def _precision(found: Predictions, truth: Csr) -> dict[str, float]:
    rows = evaluate(found, truth, ks=(1, 3, 5), metrics=("P",), bootstrap=0)
    values = {f"P@{row.k}": row.value for row in rows if row.bin == "all"}
    return {**values, "mean": sum(values.values()) / len(values)}


def ask(place: Place, asked: Asked, choices: dict[str, Any]) -> dict[str, Any]:
    """Predicts the test split; quality, and what that cost."""
    if asked.label_share < 1:
        return {}
    truth, Y = place.load("truth"), place.load("Y")
    live, profile = live_labels(Y), LabelProfile.from_training(Y)
    del Y
    cost: dict[str, float] = {}
    if asked.fused:
        members = [_read_predictions(place, member) for member in asked.members]
        found = fuse(members, choices["fusion"], top_k=TOP_K)
    else:
        V, excluded = place.load("X-test"), place.load("excluded")
        peak, started = PeakMemory(), time.process_time()
        found = _predicted(place, asked, V, excluded, live, asked.transform or choices["transform"])
        cost = {"cpu_s": time.process_time() - started, "peak_mb": peak.bytes() / 1e6}
    np.savez(place.predictions(asked), labels=found.labels, scores=found.scores)
    rows = evaluate(found, truth, profile, ks=_KS, metrics=_METRICS, bootstrap=0)
    found_at = {f"{row.metric}@{row.k}": [row.value, row.low, row.high] for row in rows if row.bin == "all"}
    return {
        "metrics": {name: found_at[name] for name in _KEPT},
        "predicting": cost,
        **_agreement(place, asked, found),
    }


def _predicted(
    place: Place, asked: Asked, V: Csr, excluded: Csr, live: np.ndarray, transform: str
) -> Predictions:
    if asked.preset:
        folder = place.model(asked.learned[0])
        members = [Searcher.load(path) for path in sorted(folder.iterdir()) if path.is_dir()]
        found = [search_without(member, V, excluded, beam=asked.beam, top_k=TOP_K) for member in members]
        return found[0] if len(found) == 1 else fuse(found, preset(asked.preset).fusion, top_k=TOP_K)
    repetitions = [load_repetition(place.model(learned)) for learned in asked.learned]
    settings = MachSettings(
        buckets=asked.buckets,
        repetitions=asked.repetitions,
        min_count=min(MachSettings().min_count, asked.repetitions),
        aggregate=asked.aggregate,
        recovery=asked.recovery,
        transform=_MLP_TRANSFORM if asked.learner == "mlp" else transform,
    )
    return Sketch(repetitions, live, settings).predict(V, excluded=excluded, top_k=TOP_K)


def _agreement(place: Place, asked: Asked, found: Predictions) -> dict[str, float]:
    """Of fast recovery: the share of exact's ten best that are among its ten best."""
    if asked.recovery != "fast":
        return {}
    exact = _read_predictions(place, replace(asked, recovery="exact"))
    same = agreement(found.labels[:, :10], exact.labels[:, :10])
    return {"top-10 agreement": float(same.mean()), "top-10 identical": float((same == 1).mean())}


def agreement(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Share of each row's labels in `wanted` (-1 for none) that the row has in `found`; 1 where none are wanted."""
    held = (wanted[:, :, None] == found[:, None, :]).any(axis=2) & (wanted >= 0)
    there = (wanted >= 0).sum(axis=1)
    shares: np.ndarray = np.where(there > 0, held.sum(axis=1) / np.maximum(there, 1), 1.0)
    return shares


def _read_predictions(place: Place, asked: Asked) -> Predictions:
    with np.load(place.predictions(asked)) as arrays:
        return Predictions(arrays["labels"], arrays["scores"])


def _folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> int:
    (given,) = sys.argv[1:] if arguments is None else arguments
    order = json.loads(given)
    place = Place(Path(order["folder"]))
    if order["step"] == "prepare":
        found = prepare(place, order["data"], order["share"])
    elif order["step"] == "choose":
        found = choose(place, order["buckets"])
    elif order["step"] == "learn":
        found = learn(place, Learned(**order["what"]))
    else:
        found = ask(place, Asked(**order["what"]), order["choices"])
    file = place.facts(order["name"])
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_text(json.dumps(found, default=float) + "\n")
    unfinished.replace(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
