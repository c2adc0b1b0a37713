"""A fitted model as a folder: `tfidf.json` and one `.npy` file per array. Nothing is pickled; opening maps
the arrays into memory and reads none of them."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.errors import InputError

MODEL_FILE = "tfidf.json"
_FORMAT = "xmcspark-tfidf"
_VERSION = 1
_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]+\.npy")


def save_arrays(folder: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes the arrays, then the header that makes them a model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL_FILE).unlink(missing_ok=True)
    listed = {}
    for name, array in arrays.items():
        _write(folder / f"{name}.npy", array)
        listed[name] = {"file": f"{name}.npy", "dtype": array.dtype.str, "shape": list(array.shape)}
    full = {"format": _FORMAT, "version": _VERSION, "unicode": unicodedata.unidata_version, **header}
    partial = folder / f"{MODEL_FILE}.partial"
    partial.write_text(json.dumps({**full, "arrays": listed}, indent=1, sort_keys=True) + "\n")
    os.replace(partial, folder / MODEL_FILE)


def _write(path: Path, array: np.ndarray) -> None:
    # A new file in place of the old one: somebody, perhaps this process, may have the old one mapped.
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as stream:
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    os.replace(partial, path)


def load_arrays(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays mapped into memory) of a saved model; InputError if it is not one, or is damaged."""
    path = folder / MODEL_FILE
    try:
        header = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{folder} is not a saved TF-IDF model: it has no {MODEL_FILE}") from error
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InputError(f"{path} does not describe a TF-IDF model: expected format {_FORMAT!r}")
    if header.get("version") != _VERSION:
        raise InputError(
            f"{path} has format version {header.get('version')!r} and this release reads {_VERSION}: "
            "fit the model again"
        )
    listed = header.get("arrays")
    if not isinstance(listed, dict):
        raise InputError(f"{path} lists no arrays")
    return header, {name: _mapped(folder, name, entry) for name, entry in listed.items()}


def _mapped(folder: Path, name: str, entry: Any) -> np.ndarray:
    if not isinstance(entry, dict) or not _FILE_NAME.fullmatch(str(entry.get("file"))):
        raise InputError(f"{folder / MODEL_FILE}: array {name!r} has no usable file name")
    path = folder / entry["file"]
    empty = 0 in entry.get("shape", [])  # nothing to map
    try:
        array = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: the model is incomplete, copy or save it again") from error
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if array.dtype.str != entry.get("dtype") or list(array.shape) != entry.get("shape"):
        raise InputError(
            f"{path} holds {array.dtype.str}{list(array.shape)} where {MODEL_FILE} says "
            f"{entry.get('dtype')}{entry.get('shape')}: the files are not of the same model"
        )
    return np.asarray(array)
