"""Whether label co-occurrence stays in bounded memory as the data grows: the jobs `corpus` and `augment` on generated
data, each with the largest memory that its processes had.

    .venv/bin/python -m bench.cooccurrence_memory --generate 250000x50000 --generate 1000000x200000 [--json OUT]

Without the trial, which is one task over a bounded sample. --labels-per-row makes more pairs of the same rows."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from bench import inputs, machine
from bench.process_memory import PeakMemory
from bench.table import text_table
from xmcspark.corpus.dataset import write_dataset
from xmcspark.corpus.synthetic import Shape, generate

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("corpus", "augment")
KINDS: dict[str, Callable[[str], bool]] = {
    "a Python worker": lambda command: "worker_daemon" in command,
    "the driver's JVM": lambda command: "org.apache.spark.deploy.SparkSubmit" in command,
}


def measured(size: str, labels_per_row: float, threads: int, work: Path) -> dict[str, Any]:
    """Seconds, peaks and what came out, of one size."""
    instances, labels = inputs.parse_size(size)
    dataset = generate(instances, labels, 0, Shape(extra_labels=labels_per_row - 1))
    entries = dataset.train.Y.nnz
    write_dataset(dataset, work / "corpus")
    del dataset
    config = work / "config.json"
    config.write_text(json.dumps(_settings(work)))
    jobs = {stage: _run(stage, config, threads) for stage in STAGES}
    records = {
        stage: json.loads((work / "runs" / "bench" / "stages" / f"{stage}.json").read_text())
        for stage in STAGES
    }
    return {
        "size": size,
        "labels_per_row": entries / instances,
        "cooccurrence_entries": records["augment"]["notes"]["entries"],
        "exchanged_bytes": records["augment"]["measured"].get("shuffle_bytes"),
        "rows_made": records["augment"]["notes"]["rows"],
        "seconds": {stage: record["seconds"] for stage, record in records.items()},
        "cpu_s": {stage: cpu for stage, (_, cpu) in jobs.items()},
        "peak_mb": {stage: peaks for stage, (peaks, _) in jobs.items()},
    }


def _settings(work: Path) -> dict[str, Any]:
    return {
        "run": {"root": str(work / "runs"), "id": "bench"},
        "input": {name: str(work / "corpus" / f"{name}.parquet") for name in ("train", "test", "labels")},
        "augment": {"gandalf": True, "validation_share": 0},
    }


def _run(stage: str, config: Path, threads: int) -> tuple[dict[str, float], float]:
    """Runs the job of a stage: the peaks of its processes, and their CPU seconds, Spark's start included."""
    command = [sys.executable, "-m", "jobs.submit", stage, "--config", str(config)]
    command += ["--", "--master", f"local[{threads}]"]
    before = _children_cpu()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        with PeakMemory(process.pid, KINDS) as memory:
            process.wait()
        if process.returncode:
            output.seek(0)
            sys.exit(f"{stage} failed ({process.returncode}): {output.read().decode()[-3000:]}")
    return memory.peaks, _children_cpu() - before


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(results: list[dict[str, Any]]) -> str:
    rows = [
        ["rows x labels", "labels a row", "entries of G", "exchanged", "s", "CPU s of the job"]
        + [f"peak MB of {kind}" for kind in KINDS]
    ]
    for found in results:
        peaks = found["peak_mb"]["augment"]
        rows.append(
            [
                found["size"],
                f"{found['labels_per_row']:.1f}",
                f"{found['cooccurrence_entries']:,}",
                f"{(found['exchanged_bytes'] or 0) / 1e6:,.0f} MB",
                f"{found['seconds']['augment']:.1f}",
                f"{found['cpu_s']['augment']:.1f}",
                *(f"{peaks[kind]:,.0f}" for kind in KINDS),
            ]
        )
    return text_table(rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--generate", action="append", required=True, metavar="NxL", help="repeatable")
    parser.add_argument(
        "--labels-per-row",
        action="append",
        type=float,
        metavar="MEAN",
        help="labels drawn for a row, at most 6; those drawn twice count once; repeatable (default 2)",
    )
    parser.add_argument("--threads", type=int, default=2, help="tasks at a time")
    parser.add_argument("--work", metavar="DIR", help="where temporary files go (default: the system's)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="file for the results")
    options = parser.parse_args(arguments)
    results = []
    for labels_per_row in options.labels_per_row or [2.0]:
        for size in options.generate:
            print(f"{size}, {labels_per_row:g} labels a row", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="xmcspark-bench-", dir=options.work) as work:
                results.append(measured(size, labels_per_row, options.threads, Path(work)))
    print(table(results))
    if options.json is not None:
        context = {
            "machine": machine.describe(),
            "date": date.today().isoformat(),
            "threads": options.threads,
        }
        options.json.write_text(json.dumps({**context, "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
