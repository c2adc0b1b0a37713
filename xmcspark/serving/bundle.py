"""A bundle: everything that answers queries, in one folder that can be copied anywhere. Its manifest lists every file
with size and checksum; sizes are compared when it is opened, checksums by `verify`. Nothing outside of the folder is
ever opened on its word."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from xmcspark.errors import InputError

MANIFEST = "manifest.json"
PARTS = ("labels", "model", "tfidf")  # the folders of every bundle; with an encoder there is `encoder` too
_KIND = "xmcspark bundle"
_VERSION = 1


def write_manifest(folder: Path, settings: dict[str, Any]) -> str:
    """Seals a folder: lists all its files. `settings` are those of prediction. Returns the manifest's checksum."""
    files = {
        name: {"size": path.stat().st_size, "sha256": checksum(path)}
        for name, path in files_of(folder).items()
    }
    document = {"kind": _KIND, "version": _VERSION, "settings": settings, "files": files}
    (folder / MANIFEST).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return checksum(folder / MANIFEST)


def read_manifest(folder: Path, linked: bool = False) -> dict[str, Any]:
    """The manifest, after a look at the size of every file it lists; InputError names each that does not fit.
    `linked`: files may be links to elsewhere, as Spark leaves them for tasks; otherwise links must stay inside."""
    document = _document(folder / MANIFEST)
    problems = _size_problems(folder, document["files"], linked)
    if problems:
        raise InputError("\n".join([*problems.values(), f"copy the bundle {folder} again"]))
    return document


def verify(folder: Path) -> int:
    """Compares every file with its checksum; the number of files. InputError names each that differs."""
    files = _document(folder / MANIFEST)["files"]
    problems = _size_problems(folder, files, linked=False)
    for name, entry in files.items():
        if name not in problems and checksum(folder / name) != entry["sha256"]:
            problems[name] = f"{folder / name} was altered: its checksum is not that of the manifest"
    if problems:
        raise InputError(
            "\n".join([*problems.values(), f"{len(problems)} of {len(files)} files are bad: copy it again"])
        )
    return len(files)


def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent} is not a published bundle: it has no {MANIFEST}; of a run whose publish.enabled was false, "
            "./spark-submit.sh publish --run RUN --config FILE makes one and serves it"
        ) from error
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not readable: copy the bundle again ({error})") from error
    return manifest_of(text, str(path))


def manifest_of(text: str, path: str) -> dict[str, Any]:
    """The manifest as it is written, once it is known to be one; `path` is what messages call it."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable as JSON: copy the bundle again ({error})") from error
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise InputError(f"{path} is not the manifest of an {_KIND}")
    if document.get("version") != _VERSION:
        raise InputError(
            f"{path} has format version {document.get('version')!r} and this release reads {_VERSION}: publish the "
            "run again with this release"
        )
    files = document.get("files")
    if not isinstance(files, dict) or not all(_is_entry(entry) for entry in files.values()):
        raise InputError(f"{path} does not list files with size and checksum: copy the bundle again")
    if not isinstance(document.get("settings"), dict):
        raise InputError(f"{path} has no settings of prediction: copy the bundle again")
    return document


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("size"), int)
        and isinstance(entry.get("sha256"), str)
    )


def _size_problems(folder: Path, files: dict[str, dict[str, Any]], linked: bool) -> dict[str, str]:
    """What is wrong with the listed files, by name, as far as that is seen without reading them."""
    inside = os.path.realpath(folder) + os.sep
    problems = {}
    for name, entry in files.items():
        path = folder / name
        if os.path.isabs(name) or ".." in Path(name).parts:
            problems[name] = f"{folder / MANIFEST} lists {name!r}, which is outside the bundle: do not use it"
        elif not linked and not os.path.realpath(path).startswith(inside):
            problems[name] = f"{path} is a link to outside the bundle: do not use it"
        elif not path.is_file():
            problems[name] = f"{path} is missing"
        elif path.stat().st_size != entry["size"]:
            problems[name] = f"{path} has {path.stat().st_size} bytes where the manifest says {entry['size']}"
    for name in files_of(folder).keys() - files.keys():
        problems[name] = f"{folder / name} is not in the manifest: take it away"
    for part in PARTS:
        if not any(name.startswith(f"{part}/") for name in files):
            problems[part] = f"{folder / MANIFEST} lists nothing in {part}"
    return problems


def files_of(folder: Path) -> dict[str, Path]:
    """What belongs into a manifest, by name."""
    return {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST and not path.name.startswith(".")
    }


def checksum(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
