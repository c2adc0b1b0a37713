"""`./spark-submit.sh plan`: prints what a run will take before it runs: units, schedule, memory, shuffles, hours and
dollars. Runs without Spark. With --compare it puts a finished run beside its plan, with --calibrate it fits the costs
to runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from jobs.submit import ROOT
from xmcspark.config.configuration import Config, from_mapping, load
from xmcspark.config.overrides import parse_override
from xmcspark.errors import ConfigError, InputError, StoreError
from xmcspark.planning.calibrate import calibrated, observed
from xmcspark.planning.compare import compared
from xmcspark.planning.costs import SHIPPED, Costs, load_costs, save_costs
from xmcspark.planning.machines import Cluster, load_types, wanted_clusters
from xmcspark.planning.options import checked, parser
from xmcspark.planning.plan import THREADS, make_plan
from xmcspark.planning.run_folder import RunFolder, open_run
from xmcspark.planning.sources import of_inputs, of_run
from xmcspark.planning.statistics import Fact, completed
from xmcspark.planning.tables import compare_text, compare_values, plan_text, plan_values

TYPES = ROOT / "conf" / "instance-types.yaml"


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        flags, slots = checked(options)
        if options.calibrate:
            text, values = _calibrate(options, slots)
        elif options.compare:
            text, values = _compare(options, slots)
        else:
            text, values = _plan(options, flags, slots)
        if options.json:
            _write_json(Path(options.json), values)
    except (ConfigError, InputError, StoreError) as error:
        for line in str(error).splitlines():
            print(f"plan: {line}", file=sys.stderr)
        return error.exit_code
    print(text)
    return 0


def _plan(
    options: argparse.Namespace, flags: dict[str, Fact], slots: int | None
) -> tuple[str, dict[str, Any]]:
    costs = _costs(options)
    problems: list[str] = []
    clusters: list[Cluster] = []
    try:  # what is wrong with machines and with the settings is told together
        clusters = [Cluster(f"{slots} slots", slots)] if slots else _clusters(options)
    except ConfigError as error:
        problems += error.problems
    try:
        config, run = _settings(options)
        known = of_run(run) if run is not None else of_inputs(config)
        statistics, facts = completed({**known, **flags}, config, costs.guesses)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error
    if problems:
        raise ConfigError(problems)
    plan = make_plan(config, statistics, facts, clusters, costs)
    return plan_text(plan, costs), plan_values(plan, costs)


def _compare(options: argparse.Namespace, slots: int | None) -> tuple[str, dict[str, Any]]:
    run = open_run(options.compare, _root(options))
    _, found = compared(run, slots, _costs(options))
    return compare_text(found, run.name), compare_values(found, run.name)


def _calibrate(options: argparse.Namespace, slots: int | None) -> tuple[str, dict[str, Any]]:
    """Writes the costs, and shows each run beside them."""
    path = Path(options.costs) if options.costs else SHIPPED
    before = load_costs(path) if path.exists() else load_costs()
    runs = [open_run(given, _root(options)) for given in options.calibrate]
    costs = calibrated([observed(run, slots, before.guesses) for run in runs], before)
    save_costs(costs, path)
    shown = [(run.name, compared(run, slots, costs)[1]) for run in runs]
    text = "\n\n".join(compare_text(found, name) for name, found in shown)
    return f"{text}\n\nwritten: {path}", json.loads(costs.to_json())


def _clusters(options: argparse.Namespace) -> list[Cluster]:
    return wanted_clusters(options.nodes, load_types(TYPES), TYPES, THREADS)


def _costs(options: argparse.Namespace) -> Costs:
    return load_costs(Path(options.costs)) if options.costs else load_costs()


def _settings(options: argparse.Namespace) -> tuple[Config, RunFolder | None]:
    """The configuration to plan for: that given, else that of the run."""
    run = None if options.run is None else open_run(options.run, _root(options))
    if options.config is None and run is not None:
        return from_mapping(run.settings, [parse_override(text) for text in options.set]), run
    return load(options.config, options.set), run


def _root(options: argparse.Namespace) -> str:
    """Where runs are that are named by their id."""
    root: str = options.root or load(options.config, options.set).run.root
    return root


def _write_json(path: Path, values: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"--json {path}: cannot be written: {error.strerror}"]) from error


if __name__ == "__main__":
    sys.exit(main())
