"""What the systems read: one folder with the texts a line each, Y for training and test, and the features X
and label features Z that every system works on, so that the later steps compare like with like."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import scipy.sparse as sp

from xmcspark.corpus.dataset import Dataset, read_dataset
from xmcspark.corpus.synthetic import generate
from xmcspark.errors import InputError


def load(data: str | None, size: str | None, seed: int) -> tuple[str, Dataset]:
    """A name for the data and the data: the folder `data` (or its name in $XMCSPARK_DATA), or generated."""
    if data is not None:
        path = Path(data)
        home = os.environ.get("XMCSPARK_DATA")
        if not path.exists() and home and (Path(home) / data).exists():
            path = Path(home) / data
        return path.name, read_dataset(path)
    n_instances, n_labels = parse_size(size or "50000x10000")
    return f"generated {n_instances} x {n_labels}", generate(n_instances, n_labels, seed)


def parse_size(size: str) -> tuple[int, int]:
    """(instances, labels) from "300000x100000"."""
    parts = size.lower().split("x")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        raise InputError(f"--generate {size}: expected INSTANCESxLABELS, for example 300000x100000")
    return int(parts[0]), int(parts[1])


def write(dataset: Dataset, folder: Path) -> None:
    """Texts and labels, as the adapters' `Job` reads them; X and Xt come from a vectorizer, by `adopt`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, split in (("train", dataset.train), ("test", dataset.test)):
        (folder / f"{name}.txt").write_text(_lines(split.texts), encoding="utf-8")
    sp.save_npz(folder / "Y.npz", dataset.train.Y, compressed=False)
    sp.save_npz(folder / "Yt.npz", dataset.test.Y, compressed=False)


def adopt(features: Path, folder: Path) -> None:
    """Make the X and Xt that a system saved in `features` the ones everybody trains on."""
    for name in ("X.npz", "Xt.npz"):
        os.replace(features / name, folder / name)


def _lines(texts: pa.Array) -> str:
    """One document a line: a line break inside a text becomes a space, which no tokeniser tells apart."""
    return "\n".join(text.replace("\n", " ") for text in texts.to_pylist())
