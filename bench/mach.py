"""MACH against trees and one-vs-all on a dataset: quality over buckets × repetitions, seconds, bytes and memory; paper
2's tables and its figure.

    .venv/bin/python -m bench.mach --data DIR --json OUT [--buckets 500,1000] [--repetitions 1,2,4,8]
    .venv/bin/python -m bench.mach_report OUT ... --into bench/MACH.md --plot bench/mach-tradeoff.svg

By the library alone: the stages on Spark give the same model. Repetitions are independent, so the first R' of R trained
ones are a sketch of R': a grid costs its largest R. Each training and each evaluation is a process of its own, whose
CPU seconds and peak memory are those reported; one thread. Exclusions of the dataset hold. How margins become scores
and how rankings are fused is chosen on rows held out of the training split.

A stop loses the step at work: trained models stay in --scratch, and OUT has every evaluation that is done."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.mach_steps import Asked, Learned, Place
from bench.machine import describe


@dataclass(frozen=True)
class Grid:
    """What is asked of a dataset."""

    buckets: tuple[int, ...]
    repetitions: tuple[int, ...]
    chosen: tuple[int, int]  # B and R of what is measured once
    mlp: tuple[int, int] | None
    one_vs_all: float  # share of labels that DiSMEC trains

    def asked(self, choices: dict[str, Any]) -> Iterator[Asked]:
        """In the order of measuring: small sketches first, so that a stop leaves a grid."""
        yield from (Asked("xr-linear"), Asked("xr-linear", beam=50), Asked("parabel"))
        for repetitions in self.repetitions:
            for buckets in self.buckets:
                yield Asked(buckets=buckets, repetitions=repetitions)
        sketch = Asked(buckets=self.chosen[0], repetitions=self.chosen[1])
        scored = choices["fusions"][choices["fusion"]]["transform"]
        fused = replace(sketch, fused=True, transform="" if scored == choices["transform"] else scored)
        yield fused
        for aggregate in ("mean", "min", "median"):
            for recovery in ("exact", "fast"):
                yield replace(sketch, aggregate=aggregate, recovery=recovery)
        for asked in (Asked("xr-linear"), sketch, fused):
            yield replace(asked, gandalf=True)
        if self.one_vs_all:
            yield Asked("dismec", label_share=self.one_vs_all)
        if self.mlp:
            yield Asked(learner="mlp", buckets=self.mlp[0], repetitions=self.mlp[1])
            yield Asked(buckets=self.mlp[0], repetitions=self.mlp[1])


class Runner:
    """Steps as processes, each once: what one found stays beside the models."""

    def __init__(self, place: Place, data: str, share: float) -> None:
        self.place, self.data, self.share = place, data, share

    def prepared(self) -> dict[str, Any]:
        return self._run("prepare", "prepare", data=self.data, share=self.share)

    def choices(self, buckets: int) -> dict[str, Any]:
        self.prepared()
        return self._run("choose", f"choose-{buckets}", buckets=buckets)

    def row(self, asked: Asked, choices: dict[str, Any]) -> dict[str, Any]:
        """What a row of the tables says."""
        self.prepared()
        for other in asked.compared:
            self.row(other, choices)
        trained = [self._run("learn", learned.name, what=asdict(learned)) for learned in asked.learned]
        found = self._run("ask", f"{asked.name}.asked", what=asdict(asked), choices=choices)
        return {
            "name": asked.name,
            "asked": asdict(asked),
            "training": trained_in_all(asked.learned, trained),
            **found,
        }

    def _run(self, step: str, name: str, **what: Any) -> dict[str, Any]:
        file = self.place.facts(name)
        if not file.exists():
            print(f"{self.place.folder.name}: {step} {name}", file=sys.stderr, flush=True)
            order = {"step": step, "name": name, "folder": str(self.place.folder), **what}
            alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            subprocess.run(
                [sys.executable, "-m", "bench.mach_steps", json.dumps(order)], check=True, env=alone
            )
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def trained_in_all(learned: list[Learned], trained: list[dict[str, Any]]) -> dict[str, float]:
    """The cost of several trainings, one after the other; what a share of the labels cost counts for all of them."""
    scale = 1 / learned[0].label_share
    return {
        "cpu_s": scale * sum(one["cpu_s"] for one in trained),
        "peak_mb": max(one["peak_mb"] for one in trained),
        "bytes": scale * sum(one["bytes"] for one in trained),
        "weights": scale * sum(one["weights"] for one in trained),
    }


def measure(runner: Runner, grid: Grid, file: Path) -> dict[str, Any]:
    """All rows; those that the file has are not measured again."""
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"rows": []}
    if "data" not in results:
        results |= {"machine": describe(), "name": runner.place.folder.name, "data": runner.prepared()}
    if "choices" not in results:
        results["choices"] = runner.choices(grid.chosen[0])
    known = {row["name"] for row in results["rows"]}
    for asked in grid.asked(results["choices"]):
        if asked.name not in known:
            known.add(asked.name)
            results["rows"].append(runner.row(asked, results["choices"]))
            results["chosen"] = list(grid.chosen)
            _write(results, file)
    return results


def _write(results: dict[str, Any], file: Path) -> None:
    """Whole or not at all: a later run reads it."""
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    unfinished.replace(file)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a dataset folder")
    parser.add_argument("--json", type=Path, required=True, help="file for the results; rows it has are kept")
    parser.add_argument("--buckets", type=_numbers, default=(500, 1000, 2000), help="B, comma-separated")
    parser.add_argument("--repetitions", type=_numbers, default=(1, 2, 4, 8), help="R, comma-separated")
    parser.add_argument("--chosen", type=_numbers, default=(1000, 8), help="B,R of what is measured once")
    parser.add_argument("--mlp", type=_numbers, help="B,R of the neural learner; without: not measured")
    parser.add_argument(
        "--one-vs-all",
        type=float,
        default=1.0,
        help="share of labels that DiSMEC trains; below 1: its cost only",
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the rows, to try this out")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/machbench"), help="folder for models")
    options = parser.parse_args(arguments)
    name = Path(options.data).name + ("" if options.share == 1 else f"-{options.share:g}")
    runner = Runner(Place(options.scratch / name), options.data, options.share)
    grid = Grid(options.buckets, options.repetitions, options.chosen, options.mlp, options.one_vs_all)
    measure(runner, grid, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
