"""Large read-only folders (a TF-IDF model, packed matchers) that every executor opens by memory map. Decides how
they get there: where all tasks see the driver's disk they are used in place; from a shared filesystem each
executor fetches them itself, the first of a name in a session; else the driver serves them file by file."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from xmcspark.store.filesystem import Filesystem
from xmcspark.store.stage import Context


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
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        return SideFolder(str(local_copy(fs, uri)), "", ())
    key = (str(context.applicationId), uri, version)
    if key not in _sent:
        name = uri.rstrip("/").rpartition("/")[2]
        if fs.local_path(uri) is None and name not in _names_taken(context):
            context.addFile(uri, recursive=True)
            _sent[key] = SideFolder(None, name, ())
        else:
            _sent[key] = _served(context, local_copy(fs, uri), " ".join(key))
    return _sent[key]


def send_made_folder(context: Context, folder: Path, name: str) -> SideFolder:
    """A folder that the driver just made, for tasks to open. The folder itself may go at once: it is kept in the run's
    scratch, where executors that join later still find it, under a name that no other has."""
    uri = context.scratch(f"{name}-{uuid.uuid4().hex[:12]}")
    context.fs.upload(folder, uri)
    return send_folder(context.spark, context.fs, uri, context.key)


def local_copy(fs: Filesystem, uri: str) -> Path:
    """A folder of the run as a local folder of the driver: itself, or a copy that lives as long as this process or
    until `remove_copies`."""
    if local := fs.local_path(uri):
        return Path(local)
    copy = _made_folder("copy") / "copy"
    fs.download(uri, copy)
    return copy


def remove_copies() -> None:
    """Deletes what was made here for tasks that now have ended."""
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)


_sent: dict[
    tuple[str, str, str], SideFolder
] = {}  # by application, place and version: where no task sees our disk
_made: list[Path] = []
atexit.register(remove_copies)


def _names_taken(context: SparkContext) -> set[str]:
    """Spark knows a folder by the last part of its path alone: a second of that name would be taken for the first."""
    return {path.rstrip("/").rpartition("/")[2] for path in context.listFiles}


def _served(context: SparkContext, folder: Path, identity: str) -> SideFolder:
    """Files of the driver's disk, served by it under names that no others have."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    files = tuple(sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()))
    links = _made_folder("send")  # Spark names a file after the last part of its path
    for number, file in enumerate(files):
        link = links / f"{name}-{number}"
        link.symlink_to(folder / file)
        context.addFile(f"file://{link}")
    return SideFolder(None, name, files)


def _made_folder(kind: str) -> Path:
    _made.append(Path(tempfile.mkdtemp(prefix=f"xmcspark-{kind}-")))
    return _made[-1]
