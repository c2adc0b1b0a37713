"""The systems that can be compared: which environment each lives in, which adapter runs it and which steps it
has. Adding a peer is one line here, one adapter and, if it needs its own environment, one file of pins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
    negatives: str = "tfn"  # tfn, man, tfn+man

    @property
    def script(self) -> Path:
        return ADAPTERS / self.adapter


_PECOS_STEPS = tuple(step for step in STEPS if step != "tfidf_fit_transform")
_TRAIN_STEPS = ("train", "predict_batch", "predict_one_ms")

SYSTEMS = {
    system.name: system
    for system in (
        System("xmcspark", "run_xmcspark.py", None, STEPS),
        System("xmcspark-man", "run_xmcspark.py", None, _TRAIN_STEPS, "tfn+man"),
        System("pecos", "run_pecos.py", "pecos", _PECOS_STEPS),
        System("pecos-man", "run_pecos.py", "pecos", _TRAIN_STEPS, "tfn+man"),
        System("omikuji", "run_omikuji.py", "omikuji", _TRAIN_STEPS),
        System("napkinxc", "run_napkinxc.py", "napkinxc", _TRAIN_STEPS),
        System("sklearn", "run_sklearn.py", "sklearn", TEXT_STEPS),
        System("scipy", "run_product.py", "sklearn", ("pifa",)),
        System("mkl", "run_product.py", "mkl", ("pifa",)),
        System("torch", "run_product.py", "pecos", ("pifa",)),
    )
}
DEFAULT_PEERS = ("pecos", "omikuji", "napkinxc", "sklearn", "scipy", "mkl", "torch")


def chosen(peers: list[str]) -> list[System]:
    """xmcspark and the named peers, in the order they run; an unknown name lists the known ones."""
    unknown = [name for name in peers if name not in SYSTEMS]
    if unknown:
        raise ValueError(f"unknown peer {', '.join(unknown)}: choose from {', '.join(sorted(SYSTEMS))}")
    return [SYSTEMS[name] for name in dict.fromkeys(["xmcspark", *peers])]
