"""Files outside of tables, on any filesystem that Spark can reach (local, s3://, hdfs://), through Hadoop's own
API on the driver. Decides how a file is created only if nobody else created it."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Entry:
    """One file or folder of a listing."""

    uri: str
    name: str
    size: int
    modified: int  # milliseconds
    is_folder: bool


class Filesystem:
    """What the store needs of a filesystem. All paths are absolute URIs, as `qualified` makes them."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._configuration = spark._jsc.hadoopConfiguration()

    def qualified(self, path: str) -> str:
        """An absolute URI; a path without a scheme lies on the cluster's default filesystem."""
        made = self._path(path)
        return str(made.getFileSystem(self._configuration).makeQualified(made).toString())

    def exists(self, uri: str) -> bool:
        fs, path = self._at(uri)
        return bool(fs.exists(path))

    def list(self, uri: str) -> list[Entry]:
        """Entries of a folder by name; none if there is no such folder."""
        fs, path = self._at(uri)
        if not fs.exists(path):
            return []
        entries = [self._entry(status) for status in fs.listStatus(path)]
        return sorted(entries, key=lambda entry: entry.name)

    def walk(self, uri: str) -> Iterator[Entry]:
        """All files at or below a path, by path; hidden ones (`_`, `.` first) left out, as Spark does."""
        fs, path = self._at(uri)
        if not fs.exists(path):
            return
        status = fs.getFileStatus(path)
        if not status.isDirectory():
            yield self._entry(status)
            return
        for entry in self.list(uri):
            if entry.name.startswith(("_", ".")):
                continue
            if entry.is_folder:
                yield from self.walk(entry.uri)
            else:
                yield entry

    def read_text(self, uri: str) -> str:
        """A small file. FileNotFoundError if it is not there."""
        fs, path = self._at(uri)
        if not fs.exists(path):
            raise FileNotFoundError(uri)
        stream = fs.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode("utf-8")
        finally:
            stream.close()

    def write_text(self, uri: str, text: str) -> None:
        """A small file, written over an old one. A reader may see a part of it: end with what makes it whole."""
        fs, path = self._at(uri)
        _write(fs.create(path, True), text)

    def create(self, uri: str, text: str) -> bool:
        """Creates a small file; false, and nothing changed, if somebody else has it already."""
        if local := self.local_path(uri):
            return _create_local(Path(local), text)
        fs, path = self._at(uri)
        try:
            _write(fs.create(path, False), text)
        except Exception as error:  # py4j wraps the Java exception
            if "FileAlreadyExists" in str(error) or "already exists" in str(error):
                return False
            raise
        # Object stores may let two writers through: the one whose text stayed has won.
        return self.read_text(uri) == text

    def delete(self, uri: str) -> None:
        """A file or a whole folder; nothing happens if it is not there."""
        fs, path = self._at(uri)
        fs.delete(path, True)

    def upload(self, local: str | Path, uri: str) -> None:
        """A local file or folder to `uri`, in place of what is there."""
        self.delete(uri)
        if target := self.local_path(uri):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            if Path(local).is_dir():
                shutil.copytree(local, target)
            else:
                shutil.copyfile(local, target)
            return
        fs, path = self._at(uri)
        fs.mkdirs(path.getParent())
        fs.copyFromLocalFile(False, True, self._path(Path(local).absolute().as_uri()), path)

    def download(self, uri: str, local: str | Path) -> None:
        """A file or folder to a local path that does not exist yet."""
        fs, path = self._at(uri)
        fs.copyToLocalFile(False, path, self._path(Path(local).absolute().as_uri()), True)

    def local_path(self, uri: str) -> str | None:
        """The path of a file: URI on this machine; None on other filesystems."""
        parsed = urlparse(uri)
        return unquote(parsed.path) if parsed.scheme in ("", "file") else None

    def _entry(self, status: Any) -> Entry:
        path = status.getPath()
        return Entry(
            str(path.toString()),
            str(path.getName()),
            int(status.getLen()),
            int(status.getModificationTime()),
            bool(status.isDirectory()),
        )

    def _at(self, uri: str) -> tuple[Any, Any]:
        path = self._path(uri)
        return path.getFileSystem(self._configuration), path

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


def joined(uri: str, *names: str) -> str:
    """A path below a URI."""
    return "/".join([uri.rstrip("/"), *names])


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(bytearray(text.encode("utf-8")))
    finally:
        stream.close()


def _create_local(path: Path, text: str) -> bool:
    """Whole or not at all: a complete file gets a second name, which only one can take."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(written, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(written, path)
    except FileExistsError:
        return False
    finally:
        written.unlink()
    return True
