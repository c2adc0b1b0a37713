"""What a unit of work costs: the one file of calibrated numbers (costs.json, shipped with the package), which says what
machine and runs they were measured on. `plan --calibrate` writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from xmcspark.errors import InputError

SHIPPED = Path(__file__).with_name("costs.json")
_VERSION = 1
Terms = Mapping[str, float]  # by kind of work: how much of it, or what one of it costs
ByStage = Mapping[str, Terms]


@dataclass(frozen=True)
class Guesses:
    """What stands in for statistics that are not known, and for what only training will tell."""

    characters: float  # of a text
    features_per_gram: float  # features of a row over its grams counted with repeats
    vocabulary: float  # features over a power of the entries of X
    zipf: float  # frequency of labels falls with this power of the rank
    label_growth: float  # features of a label grow with this power of its instances
    together: float  # how many labels of a row share a cluster: planning/label_spread.py
    weights: float  # of the model, over the entries that all levels train on, less what labels have in common
    weight_bytes: float  # of the model's files, for each weight


@dataclass(frozen=True)
class Costs:
    """Seconds and shuffled bytes of a run are sums over stages of cost times work (planning/work.py)."""

    measured: Mapping[str, Any]  # machine, date, runs
    guesses: Guesses
    seconds: ByStage
    shuffle: ByStage  # bytes

    def to_json(self) -> str:
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=1) + "\n"


def total(costs: Terms, work: Terms) -> float:
    """What the work of a stage costs."""
    return math.fsum(costs.get(name, 0.0) * amount for name, amount in work.items())


def load_costs(path: Path = SHIPPED) -> Costs:
    """InputError if it is not there or damaged."""
    remedy = f"write one with plan --calibrate RUN --costs {path}, or leave --costs out"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file of costs: {remedy}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as costs ({error}): {remedy}") from error
    if not isinstance(document, dict) or document.pop("version", None) != _VERSION:
        raise InputError(f"{path} is not a file of costs of this release: {remedy}")
    try:
        guesses = Guesses(**{one.name: _checked(document["guesses"][one.name]) for one in fields(Guesses)})
        seconds, shuffle = (_by_stage(document[name]) for name in ("seconds", "shuffle"))
        return Costs(document["measured"], guesses, seconds, shuffle)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}): {remedy}") from error


def save_costs(costs: Costs, path: Path = SHIPPED) -> None:
    """Replaces the file as a whole."""
    new = path.with_name(path.name + ".new")
    new.write_text(costs.to_json(), encoding="utf-8")
    new.replace(path)


def _by_stage(plain: Any) -> dict[str, dict[str, float]]:
    return {stage: {name: _checked(value) for name, value in terms.items()} for stage, terms in plain.items()}


def _checked(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{value!r} is not a cost")
    return number
