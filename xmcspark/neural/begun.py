"""Whose work a folder holds. What a killed run leaves there (levels, clusters, refreshes, first vectors) is gone on
with by the same work alone: same settings, same instances."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xmcspark.errors import InputError

_FILE = "identity.json"


def claim(folder: Path, identity: Mapping[str, Any]) -> None:
    """Makes a folder that of a piece of work (`identity`: JSON values by name), as every process may do; InputError if
    something else was begun there."""
    now, path = json.loads(json.dumps(dict(identity))), folder / _FILE
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if differing := [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]:
            raise InputError(
                f"{folder} was begun with other settings or instances ({', '.join(differing)}): remove it, or give "
                "those it was begun with"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{_FILE}.{uuid.uuid4().hex}"
    partial.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(partial, path)


def content_hash(arrays: Iterable[np.ndarray | None]) -> str:
    """Of types, shapes and values of arrays, in their order; those that are missing count as well."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"none" if array is None else f"{array.dtype.str} {array.shape}".encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:32]
