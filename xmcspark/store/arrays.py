"""A folder of arrays that belong together: a JSON header and one `.npy` file per array. Nothing is pickled;
opening maps the arrays into memory and reads none of them. The header is written last, so a folder with a header
is complete."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib.format import open_memmap, write_array_header_1_0

from xmcspark.errors import InputError

HEADER = "header.json"
# What numpy raises for a file that is cut off, is no .npy file or holds Python objects; the last three for
# noise where the header should be.
_DAMAGE = (ValueError, OSError, EOFError, OverflowError, TypeError, SyntaxError, TokenError)
_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]+\.npy")


@dataclass(frozen=True)
class ArrayInParts:
    """An array that lies elsewhere in parts, and is never in memory as a whole."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    copy_to: Callable[[IO[bytes]], None]  # writes its bytes, in order


def save_arrays(
    folder: Path,
    kind: str,
    version: int,
    header: dict[str, Any],
    arrays: Mapping[str, np.ndarray | ArrayInParts],
    threads: int = 1,
) -> None:
    """Writes the arrays, then the header that makes them a whole of the given kind."""
    listed = {
        name: {"file": f"{name}.npy", "dtype": array.dtype.str, "shape": array.shape}
        for name, array in arrays.items()
    }
    whole = {**header, "kind": kind, "version": version, "arrays": listed}
    text = json.dumps(whole, indent=1, sort_keys=True, default=_python_number) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HEADER).unlink(missing_ok=True)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda name: _write(folder / f"{name}.npy", arrays[name]), arrays))
    partial = folder / f"{HEADER}.partial"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, folder / HEADER)


def _python_number(value: Any) -> Any:
    if isinstance(value, np.generic):  # settings may be numpy's numbers, which JSON does not know
        return value.item()
    raise TypeError(
        f"{type(value).__name__} cannot be kept in {HEADER}: use text, numbers, lists and mappings"
    )


def _write(path: Path, array: np.ndarray | ArrayInParts) -> None:
    # A new file in place of the old one: somebody, perhaps this process, may have the old one mapped.
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as stream:
        if isinstance(array, ArrayInParts):
            shown = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
            write_array_header_1_0(stream, shown)
            array.copy_to(stream)
        else:
            np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    os.replace(partial, path)


def load_arrays(
    folder: Path, kind: str, version: int, *, earlier: Collection[int] = ()
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays mapped into memory); InputError if the folder holds something else, or is damaged. `earlier`:
    versions of its format that are read as well."""
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} is not a saved {kind}: it has no {HEADER}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else None
        raise InputError(f"{path} describes a {found or 'thing of another kind'}, where a {kind} is expected")
    if header.get("version") not in (version, *earlier):
        raise InputError(
            f"{path} has format version {header.get('version')!r} and this release reads {version}: make it again"
        )
    listed = header.get("arrays")
    if not isinstance(listed, dict):
        raise InputError(f"{path} lists no arrays")
    return header, {name: _mapped(folder, name, entry) for name, entry in listed.items()}


def _mapped(folder: Path, name: str, entry: Any) -> np.ndarray:
    if not isinstance(entry, dict) or not _FILE_NAME.fullmatch(str(entry.get("file"))):
        raise InputError(f"{folder / HEADER}: array {name!r} has no usable file name")
    path = folder / entry["file"]
    try:
        array = open_memmap(path, mode="r")
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: {folder} is incomplete, copy or save it again") from error
    except _DAMAGE as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if array.dtype.str != entry.get("dtype") or list(array.shape) != entry.get("shape"):
        raise InputError(
            f"{path} holds {array.dtype.str}{list(array.shape)} where {HEADER} says "
            f"{entry.get('dtype')}{entry.get('shape')}: the files do not belong together"
        )
    return np.asarray(array)
