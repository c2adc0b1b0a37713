"""The largest memory that the processes of a command had, by kind. The kernel keeps the high-water mark of each:
looking now and then misses only what a process took in its last moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from bench.watching import Watching

_EVERY_S = 0.1


class PeakMemory(Watching):
    """Watches a process and all below it while it is entered. A kind has a name and says which command lines are its
    own; `peaks`: of each kind, MB of the process that had most."""

    def __init__(self, pid: int, kinds: Mapping[str, Callable[[str], bool]]) -> None:
        super().__init__(_EVERY_S)
        self._pid, self._kinds = pid, kinds
        self.peaks = dict.fromkeys(kinds, 0.0)

    def look(self) -> None:
        for process in _below(self._pid):
            command, peak = _command(process), _peak_mb(process)
            for kind, is_of in self._kinds.items():
                if is_of(command):
                    self.peaks[kind] = max(self.peaks[kind], peak)


def _below(pid: int) -> list[Path]:
    """A process and those that it started, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (words := _words(entry / "status")):
            children.setdefault(int(words[words.index("PPid:") + 1]), []).append(int(entry.name))
    found = [pid]
    for one in found:  # grows as it goes
        found += children.get(one, [])
    return [Path("/proc") / str(one) for one in found]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").split()
    except OSError:  # it has ended
        return []


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _peak_mb(process: Path) -> float:
    words = _words(process / "status")
    return int(words[words.index("VmHWM:") + 1]) * 1024 / 1e6 if "VmHWM:" in words else 0.0
