"""What `plan` takes on its command line, and what does not go together. All that is wrong is told at once."""

from __future__ import annotations

import argparse
import math

from xmcspark.config.command_line import add_options
from xmcspark.errors import ConfigError
from xmcspark.planning.statistics import MEANINGS, Fact

_SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9}
_USAGE = """./spark-submit.sh plan --config FILE [--run RUN | --instances N --labels N --pairs N ...]
           [--nodes TYPE[:COUNT] ... | --slots N]
       ./spark-submit.sh plan --compare RUN
       ./spark-submit.sh plan --calibrate RUN [RUN ...]"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="spark-submit.sh plan",
        usage=_USAGE,
        description="What a run will take, before it runs. See docs/plan.md.",
        allow_abbrev=False,
    )
    add_options(made)
    for name, meaning in MEANINGS.items():
        made.add_argument(_flag(name), metavar="N", help=f"{meaning}; 250k, 2.5M, 1G will do")
    made.add_argument(
        "--nodes",
        metavar="TYPE[:COUNT]",
        action="append",
        default=[],
        help="machines of conf/instance-types.yaml; without a count 1, 4 and 8 of them; repeatable",
    )
    made.add_argument(
        "--slots", metavar="N", help="in place of --nodes: tasks at a time, on the measured machine"
    )
    made.add_argument(
        "--compare", metavar="RUN", help="what was planned for a finished run, and what it took"
    )
    made.add_argument("--calibrate", metavar="RUN", nargs="+", help="fit the costs to finished runs")
    made.add_argument(
        "--costs", metavar="FILE", help="costs to plan with, or to write; default those of the package"
    )
    made.add_argument("--json", metavar="FILE", help="write the plan there as well")
    return made


def checked(options: argparse.Namespace) -> tuple[dict[str, Fact], int | None]:
    """(statistics given as flags, --slots). ConfigError with all that is wrong."""
    problems = _contradictions(options)
    facts, slots = {}, None
    for name in MEANINGS:
        text = getattr(options, name)
        if text is not None:
            value = _number(text)
            if value is None:
                problems.append(f"{_flag(name)} {text}: expected a number such as 250000, 250k or 2.5e5")
            else:
                facts[name] = Fact(value, _flag(name))
    if options.slots is not None:
        if options.slots.isdigit() and int(options.slots) > 0:
            slots = int(options.slots)
        else:
            problems.append(f"--slots {options.slots}: expected a whole number of tasks, 1 or more")
    if problems:
        raise ConfigError(problems)
    return facts, slots


def _contradictions(options: argparse.Namespace) -> list[str]:
    flags = [_flag(name) for name in MEANINGS if getattr(options, name) is not None]
    planning = [*flags, *(["--run"] if options.run else []), *(["--nodes"] if options.nodes else [])]
    problems = [
        f"--{name} takes everything from its runs: leave out {', '.join(planning)}"
        for name in ("compare", "calibrate")
        if getattr(options, name) and planning
    ]
    if options.compare and options.calibrate:
        problems.append("--compare and --calibrate are two jobs: give one of them")
    if options.slots is not None and options.nodes:
        problems.append("--slots and --nodes both say how many tasks run at a time: give one of them")
    return problems


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(text: str) -> float | None:
    factor = _SUFFIXES.get(text[-1:], 1.0)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
