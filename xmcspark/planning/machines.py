"""Machines that a run could be on: the instance types of conf/instance-types.yaml, how many tasks a cluster of them
runs at a time, what memory each task has, and what an hour costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xmcspark.config.yaml_text import parse
from xmcspark.errors import ConfigError

DEFAULT_TYPE, DEFAULT_COUNTS = "m6i.4xlarge", (1, 4, 8)  # counts: paper 1, table 4
_DRIVER = 4  # one machine gives a part of this of its vCPU to the driver: one executor of four in conf/spark-emr.conf
_TASK_MEMORY = (
    0.5  # of a vCPU's memory: the rest is the JVM's, the file cache's and the system's, as in that file
)
_FIELDS = ("vcpu", "memory_gb", "ec2", "emr")


@dataclass(frozen=True)
class InstanceType:
    name: str
    vcpu: int
    memory_gb: float
    ec2: float  # dollars an hour
    emr: float  # what EMR adds
    speed: float = 1.0  # of a vCPU, over a core of the machine that costs were measured on


@dataclass(frozen=True)
class Cluster:
    """Machines of one type, or just slots of the machine that was measured."""

    name: str
    slots: int
    speed: float = 1.0
    dollars_per_hour: float | None = None
    task_bytes: int | None = None  # that a task may take


def cluster_of(kind: InstanceType, count: int, threads: int) -> Cluster:
    """So many machines, with tasks of so many threads."""
    cores = kind.vcpu * count - max(1, kind.vcpu // _DRIVER)
    return Cluster(
        name=f"{count} x {kind.name}",
        slots=max(1, cores // threads),
        speed=kind.speed,
        dollars_per_hour=count * (kind.ec2 + kind.emr),
        task_bytes=int(kind.memory_gb / kind.vcpu * threads * _TASK_MEMORY * 2**30),
    )


def load_types(path: Path) -> dict[str, InstanceType]:
    """ConfigError with everything that is wrong with the file."""
    try:
        document = parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigError([f"{path}: the file of instance types cannot be read: {error.strerror}"]) from error
    types = document.get("types") if isinstance(document, dict) else None
    if not isinstance(types, dict) or not types:
        raise ConfigError([f"{path}: expected 'types:' with a line for each instance type"])
    problems = [problem for name, given in types.items() for problem in _problems(path, name, given)]
    if problems:
        raise ConfigError(problems)
    return {name: InstanceType(name, **given) for name, given in types.items()}


def wanted_clusters(
    nodes: Sequence[str], types: Mapping[str, InstanceType], path: Path, threads: int
) -> list[Cluster]:
    """The clusters that `TYPE[:COUNT]` name; without a count, those of paper 1's table."""
    problems: list[str] = []
    clusters = []
    for text in nodes or [DEFAULT_TYPE]:
        name, colon, number = text.partition(":")
        if name not in types:
            problems.append(_unknown(name, types, path))
        if colon and not (number.isdigit() and int(number) > 0):
            problems.append(f"--nodes {text}: {number!r} is not a number of machines; write {name}:4")
        elif name in types:
            counts = [int(number)] if colon else DEFAULT_COUNTS
            clusters += [cluster_of(types[name], count, threads) for count in counts]
    if problems:
        raise ConfigError(problems)
    return clusters


def _unknown(name: str, types: Mapping[str, InstanceType], path: Path) -> str:
    family = name.split(".")[0]
    near = [known for known in types if known.split(".")[0] == family]
    near = near or get_close_matches(name, types, n=5, cutoff=0.5) or sorted(types)[:5]
    return (
        f"--nodes {name}: there is no such instance type in {path}; near it are {', '.join(near)}. Add a line for it "
        "there: vCPU, memory in GB, dollars an hour for EC2 and for EMR"
    )


def _problems(path: Path, name: str, given: Any) -> list[str]:
    if not isinstance(given, dict):
        return [f"{path}: {name}: expected {{{', '.join(f'{one}: ...' for one in _FIELDS)}}}"]
    problems = [f"{path}: {name} lacks {one}" for one in _FIELDS if one not in given]
    problems += [
        f"{path}: {name} has {one!r}, which is not known" for one in given if one not in (*_FIELDS, "speed")
    ]
    for one in (*_FIELDS, "speed"):
        value = given.get(one, 1)
        least = 0 if one in ("ec2", "emr") else 1e-6
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or value < least or (one == "vcpu" and not isinstance(value, int)):
            problems.append(f"{path}: {name}: {one} is {value!r}: expected a number above 0")
    return problems
