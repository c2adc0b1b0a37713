"""Methods with an encoder beside XR-Linear and frozen embeddings on a dataset, and the directions of papers 3, 4 and 5,
each judged by a paired bootstrap over the test rows.

    .venv/bin/python -m bench.transformers --data DIR --encoder FOLDER --json OUT [--what STUDY] [--curve]
        [--peers pecos]
    .venv/bin/python -m bench.transformers_report OUT ... --into bench/TRANSFORMERS.md

By the library alone: the stages on Spark give the same model. Each model is trained by a process of its own. A stop
loses little: OUT has every model that is done, and --scratch what fine-tuning needs to go on."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import inputs
from bench.augmentation import Task, task_of
from bench.machine import describe
from bench.transformers_ensembles import fused
from bench.transformers_peers import PEERS, peer_row
from bench.transformers_steps import WORK, Asked, part_of
from bench.transformers_studies import STUDIES, Direction
from xmcspark.errors import InputError
from xmcspark.matchers.predictions import Predictions
from xmcspark.quality.comparison import compare
from xmcspark.quality.label_profile import LabelProfile

_COMPARED = ("P", "PSP")
_KS = (1, 3, 5)


def has_curve(asked: Asked) -> bool:
    """Whether it is fine-tuned at all, and by itself."""
    tuned = asked.method.endswith("transformer") and bool(asked.changes.get("encoder.epochs", True))
    return tuned and not asked.tuned_by


def peer_asked(options: argparse.Namespace, changes: dict[str, Any]) -> Asked:
    """What other systems are given: the XR-Transformer of the same kind of rows."""
    wanted = STUDIES[options.what].rows(changes)
    asked = next(one for one in wanted if one.name == "XR-Transformer")
    return replace(asked, rows=options.rows or asked.rows)


def unlike(made: dict[str, Any], asked: Asked) -> str:
    """What a row of the same name was made with that is not asked now; "" if nothing. What came to be asked since it
    was made has its default."""
    before, now = (json.loads(json.dumps(asdict(one))) for one in (Asked(**made), asked))
    return "; ".join(f"{key} {before[key]}, not {now[key]}" for key in now if before[key] != now[key])


class Runner:
    """Models as processes, each once."""

    def __init__(self, data: str, encoder: str, scratch: Path, threads: int, study: Sequence[Asked]) -> None:
        """`study`: all rows there may be, because one may need what another has fine-tuned."""
        self.data, self.encoder, self.scratch, self.threads = data, encoder, scratch, threads
        self.study = {asked.label: asked for asked in study}

    def folder(self, asked: Asked) -> Path:
        name = asked.label.replace(" ", "-") + ("-with-curve" if asked.curve else "")
        return self.scratch / f"{asked.rows or 'all'}" / name

    def is_done(self, asked: Asked) -> bool:
        """InputError if the folder has a row of the same name that was made in another way."""
        place = self.folder(asked) / "facts.json"
        if not place.exists():
            return False
        if told := unlike(json.loads(place.read_text())["asked"], asked):
            raise InputError(f"{place.parent} was made with {told}: remove it, or give another --scratch")
        return True

    def row(self, asked: Asked) -> dict[str, Any]:
        folder = self.folder(asked)
        if not self.is_done(asked):
            tuned = self._tuned_by(asked)
            print(f"training {asked.label}", file=sys.stderr, flush=True)
            order = {
                "asked": asdict(asked),
                "data": self.data,
                "encoder": self.encoder,
                "folder": str(folder),
                "tuned": None if tuned is None else str(tuned),
                "keep": any(self._base_of(other) == asked.label for other in self.study.values()),
            }
            few = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": "false"}
            command = [
                sys.executable,
                "-m",
                "bench.transformers_steps",
                json.dumps({**order, "threads": self.threads}),
            ]
            subprocess.run(command, check=True, env=few)
        found: dict[str, Any] = json.loads((folder / "facts.json").read_text())
        return found

    def _base_of(self, asked: Asked) -> str | None:
        """The label of the row whose fine-tuned encoder it takes."""
        return replace(asked, name=asked.tuned_by).label if asked.tuned_by else None

    def _tuned_by(self, asked: Asked) -> Path | None:
        """The folder of that row, trained first if need be; None if it fine-tunes by itself."""
        label = self._base_of(asked)
        if label is None:
            return None
        base = replace(self.study[label], rows=asked.rows)
        if not (self.folder(base) / WORK).exists():
            (self.folder(base) / "facts.json").unlink(missing_ok=True)
            self.row(base)
        return self.folder(base)

    def predictions(self, asked: Asked) -> Predictions:
        with np.load(self.folder(asked) / "predictions.npz") as saved:
            return Predictions(saved["labels"], saved["scores"])


def beside(
    runner: Runner, peers: list[str], asked: Asked, tasks: Tasks, results: dict[str, Any], file: Path
) -> None:
    """Other systems, each once, on the rows of `asked`."""
    found = results.setdefault("peers", {})
    for peer in peers:
        name = PEERS[peer][0]
        if name not in found:
            print(f"training {name}", file=sys.stderr, flush=True)
            folder = runner.scratch / f"{asked.rows or 'all'}" / peer
            task = tasks.of(asked.rows)
            theirs, row = peer_row(peer, asked, task, runner.encoder, folder, runner.threads)
            if runner.is_done(asked):
                row["differences"] = differences(runner.predictions(asked), theirs, task)
            found[name] = row
            file.write_text(json.dumps(results, indent=1) + "\n")


class Tasks:
    """What models were trained on and are judged by, loaded once for each number of rows."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._of: dict[int, Task] = {}

    def of(self, rows: int) -> Task:
        if rows not in self._of:
            self._of[rows] = part_of(task_of(inputs.load(self._data, None, 0)[1]), rows)
        return self._of[rows]


def measure(runner: Runner, wanted: list[Asked], file: Path) -> dict[str, Any]:
    """All rows; those that the file has are not measured again."""
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"rows": {}}
    results |= {"machine": describe(), "name": Path(runner.data).name, "threads": runner.threads}
    for asked in wanted:
        done = results["rows"].get(asked.label)
        if done is not None and (told := unlike({**done["asked"], "curve": asked.curve}, asked)):
            raise InputError(f"{file} has a row {asked.label} with {told}: give another --json")
        if done is None or (asked.curve and "curve" not in done):
            results["rows"][asked.label] = runner.row(asked)
            file.write_text(json.dumps(results, indent=1) + "\n")
    return results


def judged(
    runner: Runner, wanted: list[Asked], tasks: Tasks, directions: Sequence[Direction]
) -> list[dict[str, Any]]:
    """Each direction for each seed: the differences with their intervals."""
    found = []
    by_name = {(asked.name, asked.seed): asked for asked in wanted}
    for direction in directions:
        for seed in sorted({asked.seed for asked in wanted}):
            pair = [by_name.get((name, seed)) for name in (direction.better, direction.other)]
            if any(asked is None or not runner.is_done(asked) for asked in pair):
                continue
            ours, theirs = (asked for asked in pair if asked is not None)
            task = tasks.of(ours.rows)
            found_by = differences(runner.predictions(ours), runner.predictions(theirs), task)
            found.append({**asdict(direction), "seed": seed, "differences": found_by})
    return found


def differences(ours: Predictions, theirs: Predictions, task: Task) -> dict[str, list[float]]:
    """Of each metric, ours less theirs: the difference and its interval by a paired bootstrap."""
    profile = LabelProfile.from_training(task.observed.Y)
    rows = compare(ours, theirs, task.truth, profile, ks=_KS, metrics=_COMPARED)
    return {f"{row.metric}@{row.k}": [row.difference, row.low, row.high] for row in rows if row.bin == "all"}


def and_before(found: list[dict[str, Any]], before: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """What was found now, and what was before and cannot be found again: predictions are kept in scratch only."""
    again = {(one[name], one["seed"]) for one in found}
    return [one for one in before if (one[name], one["seed"]) not in again] + found


def verdict(found: list[list[float]], falls: bool = False) -> str:
    """Of one metric over seeds: what the mean difference and its interval say of the claim that it rises, or `falls`.
    Seeds resample the same rows, so the mean of their ends is taken for the end of the mean: a little wide."""
    low, high = (float(np.mean([one[at] for one in found])) for at in (1, 2))
    if low <= 0 <= high:
        return "not resolved"
    return "holds" if (low > 0) != falls else "reversed"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a dataset folder")
    parser.add_argument("--encoder", required=True, help="folder of a pre-trained transformer")
    parser.add_argument("--json", type=Path, required=True, help="file for the results; rows it has are kept")
    parser.add_argument("--what", choices=tuple(STUDIES), default="headline", help="which study")
    parser.add_argument("--only", help="names of rows, comma-separated")
    parser.add_argument("--seeds", help="only these seeds, comma-separated")
    parser.add_argument("--rows", type=int, help="a subset of the training rows for the headline")
    parser.add_argument(
        "--curve",
        action="store_true",
        help="also quality at moments of fine-tuning, which ranks anew for each: of the rows with an encoder that is "
        "fine-tuned",
    )
    parser.add_argument(
        "--peers",
        default="",
        help=f"systems to run beside, as XR-Transformer with seed 0: {', '.join(PEERS)}; comma-separated",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all models"
    )
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/transformers"), help="folder for models")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    peers = [peer for peer in options.peers.split(",") if peer]
    if unknown := [peer for peer in peers if peer not in PEERS]:
        parser.error(f"--peers {', '.join(unknown)}: choose from {', '.join(PEERS)}")
    if peers and options.what.startswith("unidec"):
        parser.error(
            f"--peers {options.peers}: it is run beside XR-Transformer, which {options.what} has not"
        )
    given = (word.partition("=") for word in options.set)
    changes = {key: json.loads(value) for key, _, value in given}
    study = STUDIES[options.what]
    wanted = list(study.rows(changes))
    if options.only:
        wanted = [asked for asked in wanted if asked.name in options.only.split(",")]
    if options.seeds:
        wanted = [asked for asked in wanted if str(asked.seed) in options.seeds.split(",")]
        if not wanted:
            parser.error(f"--seeds {options.seeds}: none of the rows has one of these seeds")
    if options.rows:
        wanted = [replace(asked, rows=options.rows) for asked in wanted]
    if options.curve:
        wanted = [replace(asked, curve=has_curve(asked)) for asked in wanted]
    scratch = options.scratch / Path(options.data).name
    runner = Runner(options.data, options.encoder, scratch, options.threads, list(study.rows(changes)))
    results = measure(runner, wanted, options.json)
    tasks = Tasks(options.data)
    if peers:
        beside(runner, peers, peer_asked(options, changes), tasks, results, options.json)
    found = {
        "directions": judged(runner, wanted, tasks, study.directions),
        "ensembles": fused(wanted, runner.is_done, runner.predictions, tasks.of),
    }
    for kind, name in (("directions", "claim"), ("ensembles", "name")):
        results[kind] = and_before(found[kind], results.get(kind, []), name)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
