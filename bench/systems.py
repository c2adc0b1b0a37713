"""The systems that can be compared: which environment each lives in, which adapter runs it and which steps it
has. Adding a peer is one line here, one adapter and, if it needs its own environment, one file of pins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parent / "adapters"

TEXT_STEPS = ("tfidf_fit", "tfidf_transform", "tfidf_fit_transform", "tfidf_one_ms")
MODEL_STEPS = ("pifa", "tree", "train", "predict_batch", "predict_one_ms")
STEPS = TEXT_STEPS + MODEL_STEPS
# Rows of the table that are sums of measured steps.
SUMS = {
    "tfidf_total": (("tfidf_fit_transform",), ("tfidf_fit", "tfidf_transform")),
    "tree_and_train": (("pifa", "tree", "train"),),
    "text_to_model": (
        ("tfidf_fit_transform", "pifa", "tree", "train"),
        ("tfidf_fit", "tfidf_transform", "pifa", "tree", "train"),
    ),
}


@dataclass(frozen=True)
class System:
    """One contender. `environment` is None for the interpreter that runs the bench itself."""

    name: str
    adapter: str
    environment: str | None
    steps: tuple[str, ...]
    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # step: arguments of the library's call
    beside: str = "xmcspark"  # whose numbers its ratios are to

    @property
    def script(self) -> Path:
        return ADAPTERS / self.adapter


_PECOS_STEPS = tuple(step for step in STEPS if step != "tfidf_fit_transform")
_TRAIN_STEPS = ("train", "predict_batch", "predict_one_ms")


def _ours(name: str, steps: tuple[str, ...], **options: dict[str, Any]) -> System:
    return System(name, "run_xmcspark.py", None, steps, options)


def _pecos(name: str, steps: tuple[str, ...], beside: str = "xmcspark", **options: dict[str, Any]) -> System:
    return System(name, "run_pecos.py", "pecos", steps, options, beside)


SYSTEMS = {
    system.name: system
    for system in (
        _ours("xmcspark", STEPS),
        System(
            "xmcspark-spark",
            "run_spark.py",
            None,
            ("tfidf_fit_transform", "tree", "train", "predict_batch", "predict_one_ms"),
        ),
        System("xmcspark-tables", "run_tables.py", None, ("tfidf_fit_transform", "tree", "train")),
        System(
            "xmcspark-library",
            "run_tables.py",
            None,
            ("tfidf_fit_transform", "tree", "train"),
            {"tables": {"kept": False}},
        ),
        _pecos("pecos", _PECOS_STEPS),
        System("omikuji", "run_omikuji.py", "omikuji", _TRAIN_STEPS),
        System("napkinxc", "run_napkinxc.py", "napkinxc", _TRAIN_STEPS),
        System("sklearn", "run_sklearn.py", "sklearn", TEXT_STEPS),
        System("scipy", "run_product.py", "sklearn", ("pifa",)),
        System("mkl", "run_product.py", "mkl", ("pifa",)),
        System("torch", "run_product.py", "pecos", ("pifa",)),
        _ours("xmcspark-pecos-tree", ("tree", *_TRAIN_STEPS), tree={"shape": "pecos"}),
        # Variants: negatives of the beam besides those of the true parents (with PECOS's tree, so that both draw from
        # 20 of as many parents), and costs by relevance.
        _ours("xmcspark-man", _TRAIN_STEPS, tree={"shape": "pecos"}, train={"negatives": "tfn+man"}),
        _pecos("pecos-man", _TRAIN_STEPS, "xmcspark-man", train={"negative_sampling_scheme": "tfn+man"}),
        _ours("xmcspark-cost", _TRAIN_STEPS, train={"cost_sensitive": True}),
        _pecos("pecos-cost", _TRAIN_STEPS, "xmcspark-cost", train={"rel_mode": "induce", "rel_norm": "l1"}),
        # Variants of the tree (paper 1, table 3): dense centres, SPA, dense on a sample of the labels, both; all
        # with as many leaves as PECOS makes, so that their label-leaf cosines compare.
        _ours("tree-base", ("tree",), tree={"shape": "pecos", "centres": "dense"}),
        _ours("tree-spa", ("tree",), tree={"shape": "pecos", "centres": "spa"}),
        _ours("tree-sampling", ("tree",), tree={"shape": "pecos", "centres": "dense", "sampling": True}),
        _ours("tree-both", ("tree",), tree={"shape": "pecos", "centres": "spa", "sampling": True}),
    )
}
DEFAULT_PEERS = ("pecos", "omikuji", "napkinxc", "sklearn", "scipy", "mkl", "torch")


def chosen(peers: list[str]) -> list[System]:
    """xmcspark and the named peers, in the order they run; an unknown name lists the known ones."""
    unknown = [name for name in peers if name not in SYSTEMS]
    if unknown:
        raise ValueError(f"unknown peer {', '.join(unknown)}: choose from {', '.join(sorted(SYSTEMS))}")
    return [SYSTEMS[name] for name in dict.fromkeys(["xmcspark", *peers])]
