"""Whether fine-tuning on labels stays in bounded memory as labels grow: steps of a level of labels, or of pools of
labels, with a tiny encoder on generated instances, each number of labels in a process of its own, with the most private
memory that it had.

    .venv/bin/python -m bench.label_memory [--task level|unidec] [--labels 10000 --labels 1000000 ...]
        [--pool 256 --pool 1024 ...] [--json OUT]

Private is what no file backs (RssAnon). The head's weights and moments lie in mapped files: their bytes, and how much
of them was in memory at most, are reported apart, because the kernel takes those pages back when it needs them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import machine
from bench.table import text_table
from bench.tiny_encoder import save_tiny_encoder
from bench.watching import Watching

LABELS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
_EVERY_S = 0.002
_KINDS = {"private": ("RssAnon",), "mapped": ("RssFile", "RssShmem")}


class MemoryNow(Watching):
    """The most memory of each kind that this process had while it was entered."""

    def __init__(self) -> None:
        super().__init__(_EVERY_S)
        self.peaks = dict.fromkeys(_KINDS, 0.0)

    def look(self) -> None:
        for kind, value in memory_mb().items():
            self.peaks[kind] = max(self.peaks[kind], value)


def memory_mb() -> dict[str, float]:
    """Of this process, by kind."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    kilobytes = {line[0].rstrip(":"): int(line[1]) for line in lines if len(line) == 3 and line[2] == "kB"}
    return {kind: sum(kilobytes[name] for name in names) * 1024 / 1e6 for kind, names in _KINDS.items()}


def measured(
    task: str, labels: int, pool: int | None, rows: int, width: int, steps: int, work: str
) -> dict[str, Any]:
    """One number of labels, in this process."""
    import torch

    from bench.memory_tasks import TASKS
    from xmcspark.neural.encoder import TextEncoder
    from xmcspark.neural.fine_tune import fine_tune

    torch.set_num_threads(1)
    folder = save_tiny_encoder(Path(work, "encoder"), width)
    encoder = TextEncoder.open(str(folder), pooling="mean", max_length=32, dropout=0.1)
    made, settings = TASKS[task](encoder, (rows, labels), steps, pool, Path(work))
    before = memory_mb()
    started = time.perf_counter()
    with MemoryNow() as memory:
        done = fine_tune(encoder, made, settings, seed=0)
    return {
        "labels": labels,
        "pool": pool,
        "private_before_mb": before["private"],
        "private_peak_mb": memory.peaks["private"],
        "table_mb": sum(table.mapped_bytes for table in made.tables) / 1e6,
        "mapped_in_memory_mb": memory.peaks["mapped"] - before["mapped"],
        "step_ms": 1e3 * (time.perf_counter() - started) / done.steps,
    }


def table(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            "labels",
            "pool",
            "private MB",
            "of that, steps",
            "head in files, MB",
            "of that in memory",
            "ms a step",
        ]
    ]
    rows += [
        [
            f"{found['labels']:,}",
            "" if found["pool"] is None else f"{found['pool']:,}",
            f"{found['private_peak_mb']:,.0f}",
            f"{found['private_peak_mb'] - found['private_before_mb']:,.0f}",
            f"{found['table_mb']:,.0f}",
            f"{found['mapped_in_memory_mb']:,.0f}",
            f"{found['step_ms']:.0f}",
        ]
        for found in results
    ]
    return text_table(rows)


def in_own_process(labels: int, pool: int | None, options: argparse.Namespace) -> dict[str, Any]:
    order = {"task": options.task, "labels": labels, "pool": pool}
    order |= {"rows": options.rows, "width": options.width, "steps": options.steps}
    # What is given back is gone at once: what is counted is what is needed.
    few: Mapping[str, str] = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_TRIM_THRESHOLD_": "65536"}
    with tempfile.TemporaryDirectory(prefix="xmcspark-bench-", dir=options.work) as work:
        command = [sys.executable, "-m", "bench.label_memory", "--one", json.dumps({**order, "work": work})]
        done = subprocess.run(command, check=True, env=few, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--labels", type=int, action="append", help=f"repeatable (default {' '.join(map(str, LABELS))})"
    )
    parser.add_argument("--task", choices=("level", "unidec"), default="level", help="what is a step")
    parser.add_argument("--pool", type=int, action="append", help="labels of a pool of unidec; repeatable")
    parser.add_argument("--rows", type=int, default=4096, help="instances")
    parser.add_argument("--width", type=int, default=64, help="of the embedding, a multiple of 4")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--work", metavar="DIR", help="where temporary files go (default: the system's)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="file for the results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        print(json.dumps(measured(**json.loads(options.one))))
        return 0
    if options.pool and options.task != "unidec":
        parser.error("--pool: only unidec has pools of labels")
    results = [
        in_own_process(labels, pool, options)
        for pool in options.pool or [None]
        for labels in options.labels or LABELS
    ]
    print(table(results))
    if options.json is not None:
        asked = {"task": options.task, "rows": options.rows, "width": options.width, "steps": options.steps}
        context = {"machine": machine.describe(), **asked}
        options.json.write_text(json.dumps({**context, "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
