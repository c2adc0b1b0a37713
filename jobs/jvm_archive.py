"""The classes that Spark loads, kept in a form the JVM maps instead of reading and checking them anew (class data
sharing): it saves about a third of the CPU seconds of a small refresh. The first refresh on a machine leaves them
behind as it ends; later jobs use them. A JVM that finds an archive of another Java or Spark goes on without it.

XMCSPARK_JVM_ARCHIVE=0 turns this off."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def archive_options(folder: Path, java: Path, spark: Path, make: bool) -> str:
    """Options for the JVM. `make`: leave an archive behind if there is none."""
    if os.environ.get("XMCSPARK_JVM_ARCHIVE", "1") == "0":
        return ""
    real = java.resolve()
    identity = f"{real} {real.stat().st_mtime_ns} {spark.resolve()}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    archive = folder / f"spark-{digest}.jsa"
    if re.search(r"[\s:\"']", str(archive)):
        return ""  # Spark and the JVM cut options at such characters
    for made in folder.glob(f"{archive.name}.of-*"):
        if not _is_alive(int(made.suffix.removeprefix(".of-"))):
            with contextlib.suppress(OSError):  # another job was faster, or the folder is not ours
                os.replace(made, archive)
    if archive.exists():
        return f"{_QUIET} -XX:SharedArchiveFile={archive}"
    if not make or not os.access(folder, os.W_OK):
        return ""
    # This process becomes the JVM, so its number tells when the archive is whole.
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}.of-{os.getpid()}"


def _is_alive(process: int) -> bool:
    if process == os.getpid():  # of an earlier process with this number, as in containers
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
