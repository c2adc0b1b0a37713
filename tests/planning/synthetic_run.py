"""Runs that never ran: their records say what a corpus of such a size takes if work costs what `costs` says."""

import json
from pathlib import Path

from xmcspark.config.configuration import load
from xmcspark.planning.costs import Costs, Guesses, total
from xmcspark.planning.statistics import Fact, completed
from xmcspark.planning.training import planned_training
from xmcspark.planning.work import work_seconds, work_shuffle

ORDER = ("ingest", "corpus", "vectorize", "index", "train", "predict", "evaluate", "publish")

# Not those of the package, which change with every calibration.
COSTS = Costs(
    measured={},
    guesses=Guesses(40.0, 0.9, 0.3, 0.6, 0.73, 0.55, 0.6, 12.0),
    seconds={
        "start": {"fixed": 4.0},
        "ingest": {"fixed": 10.0, "log_records": 8.0},
        "corpus": {"fixed": 12.0, "characters": 0.5, "pairs": 4.0},
        "vectorize": {"fixed": 5.0, "characters": 0.6, "features": 2.0},
        "index": {"fixed": 6.0, "pair_entries": 0.1, "tree_passes": 0.03},
        "train": {"fixed": 4.0, "load": 1.0, "routed_bytes": 0.01, "tasks": 0.15, "weights": 0.3},
        "predict": {"fixed": 1.5, "entries": 3.0},
        "evaluate": {"fixed": 7.0, "pairs": 2.0, "rows": 20.0},
        "publish": {"fixed": 1.0, "weights": 0.05},
    },
    shuffle={
        "corpus": {"pairs": 9.5e6},
        "vectorize": {"features": 13.5e6},
        "index": {"pair_entries": 6.9e6},
        "train": {"routed_bytes": 0.85e6},
        "evaluate": {"labels": 15e6},
    },
)


def write_run(folder, costs, *, instances, labels, slots=2, noise=None, stages=ORDER, per_row=2.0):
    """Writes a run folder; `noise` makes a factor for each number that is measured."""
    config = load(None, [f"run.root={folder.parent}", f"run.id={folder.name}"])
    given = {
        "instances": instances,
        "labels": labels,
        "pairs": int(per_row * instances),
        "test_instances": instances // 10,
    }
    facts = {name: Fact(value, "test") for name, value in given.items()}
    found, _ = completed(facts, config, costs.guesses)
    training = planned_training(config, found, costs.guesses.together)
    schedule = training.schedule(slots)
    work = work_seconds(config, found, training, schedule, costs.guesses)
    sent = work_shuffle(config, found, schedule, costs.guesses)
    factor = noise or (lambda: 1.0)
    seconds = {stage: factor() * total(costs.seconds.get(stage, {}), terms) for stage, terms in work.items()}
    shuffle = {stage: factor() * total(costs.shuffle.get(stage, {}), sent.get(stage, {})) for stage in work}
    notes = _notes(found, training, seconds, costs)
    (folder / "stages").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"base": None, "config": config.resolved()}))
    for stage in stages:
        measured = {"slots": slots, "threads": 1, "shuffle_bytes": int(shuffle[stage])}
        record = {
            "stage": stage,
            "seconds": seconds[stage],
            "notes": notes.get(stage, {}),
            "measured": measured,
        }
        (folder / "stages" / f"{stage}.json").write_text(json.dumps(record))
    summary = [{"stage": stage, "skipped": False, "seconds": seconds[stage]} for stage in stages]
    (folder / "summary.json").write_text(json.dumps({"seconds": sum(seconds.values()), "stages": summary}))
    return Path(folder)


def _notes(found, training, seconds, costs):
    rows = found.instances + found.test_instances
    return {
        "ingest": {"days": {}, "read": 0},
        "corpus": {
            "train_instances": found.instances,
            "test_instances": found.test_instances,
            "train_pairs": found.pairs,
            "labels_active": found.labels,
            "most_positives": found.most_positives,
        },
        "vectorize": {"features": found.features, "nnz": round(rows * found.row_features)},
        "index": {
            "label_feature_entries": found.label_entries,
            "trees": [{"units": len(training.work.units)}],
        },
        "train": {
            "solver_cpu_seconds": costs.seconds["train"]["load"] * training.load / 1e9,
            "unpack_cpu_seconds": 0.0,
            "waves_reused": 0,
        },
    }
