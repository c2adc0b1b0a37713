"""A bundle: everything that answers queries, in one folder that can be copied anywhere. Its manifest lists every file
with size and checksum; sizes are compared when it is opened, checksums by `verify`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from xmcspark.errors import InputError

MANIFEST = "manifest.json"
_KIND = "xmcspark bundle"
_VERSION = 1


def write_manifest(folder: Path, settings: dict[str, Any]) -> str:
    """Seals a folder: lists all its files. `settings` are those of prediction. Returns the manifest's checksum."""
    files = {
        str(path.relative_to(folder)): {"size": path.stat().st_size, "sha256": checksum(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST and not path.name.startswith(".")
    }
    document = {"kind": _KIND, "version": _VERSION, "settings": settings, "files": files}
    (folder / MANIFEST).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return checksum(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, after a look at the size of every file it lists."""
    path = folder / MANIFEST
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} is not a published bundle: it has no {MANIFEST}") from error
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not readable as JSON: copy the bundle again ({error})") from error
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise InputError(f"{path} is not the manifest of an {_KIND}")
    if document.get("version") != _VERSION:
        raise InputError(
            f"{path} has format version {document.get('version')!r} and this release reads {_VERSION}: publish the "
            "run again with this release"
        )
    for name, entry in document["files"].items():
        if _file(folder, name).stat().st_size != entry["size"]:
            raise InputError(
                f"{folder / name} has {_file(folder, name).stat().st_size} bytes where the manifest says "
                f"{entry['size']}: copy the bundle again"
            )
    return document


def verify(folder: Path) -> int:
    """Compares every file with its checksum; the number of files. InputError names the first that differs."""
    files = read_manifest(folder)["files"]
    for name, entry in files.items():
        if checksum(_file(folder, name)) != entry["sha256"]:
            raise InputError(f"{folder / name} was altered: its checksum is not that of the manifest")
    return len(files)


def _file(folder: Path, name: str) -> Path:
    """A listed file, which must lie inside the bundle."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"{folder / MANIFEST} lists {name!r}, which is outside the bundle: do not use it")
    if not path.is_file():
        raise InputError(f"{path} is missing: copy the bundle again")
    return path


def checksum(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
