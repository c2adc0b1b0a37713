"""A bundle as large as one likes, that takes no room on the disk: its arrays are holes in their files, but for what
must be there for them to fit together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from xmcspark.serving import bundle
from xmcspark.store.arrays import HEADER, save_arrays
from xmcspark.text import Tfidf

LEAVES, LABELS, SLOTS, ENTRIES, FEATURES = 2_000_000, 100_000_000, 300_000_000, 1_000_000_000, 30_000_000


def write_large_bundle(folder: Path, monkeypatch) -> int:
    """Writes it; the bytes it seems to hold."""
    _write_tfidf(folder / "tfidf")
    _write_model(folder / "model" / "0")
    _write_names(folder / "labels")
    settings = {"members": 1, "fusion": "average", "beam": 10, "top_k": 10}
    with monkeypatch.context() as patched:
        patched.setattr(bundle, "checksum", lambda path: "")  # nobody reads gigabytes of nothing
        bundle.write_manifest(folder, {**settings, "transform": "l3-hinge", "combine": "product"})
    return sum(path.stat().st_size for path in folder.rglob("*.npy"))


def _write_model(folder: Path) -> None:
    small = {
        "tree.0": np.array([0, LEAVES]),
        "0.slot_ptr": np.array([0, 1]),
        "0.entry_ptr": np.array([0, 1]),
        "0.slots": np.array([[-1, 0]], np.int32),
        "0.entries": np.zeros((1, 2), np.uint32),
    }
    header = {"n_features": FEATURES, "depth": 2, "scoring": {"transform": "l3-hinge", "combine": "product"}}
    save_arrays(folder, "packed tree model", 1, header, small)
    pointers = {"tree.1": LABELS, "1.slot_ptr": SLOTS, "1.entry_ptr": ENTRIES}
    _add_holes(folder, {name: ("<i8", (LEAVES + 1,), last) for name, last in pointers.items()})
    _add_holes(folder, {"0.bias": ("<f4", (LEAVES,), 0), "1.bias": ("<f4", (LABELS,), 0)})
    _add_holes(folder, {"tree.labels": ("<i4", (LABELS,), 0), "1.slots": ("<i4", (SLOTS, 2), 0)})
    _add_holes(folder, {"1.entries": ("<u4", (ENTRIES, 2), 0)})


def _write_tfidf(folder: Path) -> None:
    Tfidf().fit(["red shoes", "blue shoes"]).save(folder)
    header = json.loads((folder / HEADER).read_text())
    header["runs"] = [[0, 0], [FEATURES - 1, 1]]
    (folder / HEADER).write_text(json.dumps(header))
    for name, kind in {"vectorizer": "|u1", "df": "<i8", "idf": "<f4"}.items():
        _add_holes(folder, {f"vocabulary.{name}": (kind, (FEATURES,), 0)})
    _add_holes(folder, {"vocabulary.offsets": ("<i8", (FEATURES + 1,), 9 * FEATURES)})
    _add_holes(folder, {"vocabulary.data": ("|u1", (9 * FEATURES,), 0)})
    for name, entry in header["arrays"].items():
        if name.endswith(".slots"):
            _add_holes(folder, {name: (entry["dtype"], (1 << 25, *entry["shape"][1:]), 0)})


def _write_names(folder: Path) -> None:
    save_arrays(folder, "label names", 2, {"labels": LABELS}, {})
    for part in ("key", "text"):
        _add_holes(folder, {f"{part}.offsets": ("<i8", (LABELS + 1,), 20 * LABELS)})
        _add_holes(folder, {f"{part}.bytes": ("|u1", (20 * LABELS,), 0)})
    _add_holes(folder, {"key.order": ("<i4", (LABELS,), 0)})


def _add_holes(folder: Path, arrays: dict[str, tuple[str, tuple[int, ...], int]]) -> None:
    """Arrays of zeros but for their last value, listed in the header."""
    header = json.loads((folder / HEADER).read_text())
    for name, (dtype, shape, last) in arrays.items():
        made = open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
        if last:
            made[-1] = last
        header["arrays"][name] = {"file": f"{name}.npy", "dtype": made.dtype.str, "shape": list(shape)}
    (folder / HEADER).write_text(json.dumps(header))
