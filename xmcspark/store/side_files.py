"""Large read-only folders (a TF-IDF model, packed matchers) that every executor opens by memory map. Decides how
they get there: where all tasks see the driver's disk they are used in place; from a shared filesystem each
executor fetches them itself; from the driver's disk Spark serves them file by file."""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from xmcspark.store.filesystem import Filesystem


@dataclass(frozen=True)
class SideFolder:
    """A folder that was sent to the executors. Small: it travels with each task."""

    in_place: str | None  # its path, if tasks see the driver's disk
    name: str  # among Spark's files otherwise
    files: tuple[str, ...]  # those that Spark serves one by one, relative to the folder

    def path(self) -> Path:
        """Where it lies on this machine; called by a task."""
        if self.in_place is not None:
            return Path(self.in_place)
        whole = Path(SparkFiles.get(self.name))
        if self.files and not whole.exists():
            self._assemble(whole)
        return whole

    def _assemble(self, whole: Path) -> None:
        """Puts the files that Spark fetched flat into a folder again; tasks of one executor may race for it."""
        made = whole.with_name(f"{self.name}.{uuid.uuid4().hex}")
        for number, file in enumerate(self.files):
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            (made / file).symlink_to(SparkFiles.get(f"{self.name}-{number}"))
        try:
            os.rename(made, whole)
        except OSError:
            if not whole.exists():
                raise


def send_folder(spark: SparkSession, fs: Filesystem, uri: str, version: str) -> SideFolder:
    """Makes a folder of files available to all tasks. `version` tells its contents from earlier ones at the same
    place, such as the key of the stage that wrote it."""
    local, context = fs.local_path(uri), spark.sparkContext
    if local is None:
        context.addFile(uri, recursive=True)
        return SideFolder(None, uri.rstrip("/").rpartition("/")[2], ())
    if (context.master or "").startswith("local"):
        return SideFolder(local, "", ())
    name = hashlib.sha256(f"{uri} {version}".encode()).hexdigest()[:16]
    folder = Path(local)
    files = tuple(sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()))
    links = Path(
        tempfile.mkdtemp(prefix="xmcspark-send-")
    )  # Spark names a file after the last part of its path
    for number, file in enumerate(files):
        link = links / f"{name}-{number}"
        link.symlink_to(folder / file)
        context.addFile(f"file://{link}")
    return SideFolder(None, name, files)


def local_copy(fs: Filesystem, uri: str) -> Path:
    """A folder of the run as a local folder of the driver: itself, or a copy."""
    if local := fs.local_path(uri):
        return Path(local)
    copy = Path(tempfile.mkdtemp(prefix="xmcspark-copy-")) / "copy"
    fs.download(uri, copy)
    return copy
