"""Lays settings over settings: a file over a method's preset, and `--set key.sub=value` over both. Decides that
mappings are merged key by key, while lists and plain values are replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xmcspark.config.value_types import shown
from xmcspark.config.yaml_text import parse


def merged(below: Any, above: Any) -> Any:
    """`above` laid over `below`. An empty section (`train:` and nothing under it) changes nothing."""
    if isinstance(below, Mapping) and above is None:
        return below
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}


def parse_override(argument: str) -> tuple[str, Any]:
    """(key, value) of `key.sub=value`; the value is YAML. ConfigError if the value is not, ValueError if there
    is no key."""
    key, equals, text = argument.partition("=")
    if not (equals and key.strip()):
        raise ValueError(f"--set {argument}: expected key=value, for example --set train.threshold=0.05")
    key = key.strip()
    return key, parse(text, f"--set {key}")


def put(settings: dict[str, Any], key: str, value: Any) -> str | None:
    """Sets a dotted key in nested mappings and lists; returns the problem if there is no such place. Unknown
    keys are put too: the reader reports them with those of the file."""
    place: Any = settings
    steps = key.split(".")
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        if isinstance(place, list):
            if not (step.isdecimal() and int(step) < len(place)):
                above = ".".join(steps[:at])
                return f"{key}: {above} is a list of {len(place)}, so {step} must be a number below that"
            index: Any = int(step)
        elif isinstance(place, dict):
            index = step
        else:
            return f"{key}: {'.'.join(steps[:at])} is {shown(place)}, which has no keys"
        if last:
            old = place[index] if isinstance(place, list) else place.get(index)
            place[index] = merged(old, value)
        elif isinstance(place, dict):
            place = place.setdefault(index, {})
        else:
            place = place[index]
    return None


def put_all(settings: dict[str, Any], overrides: Sequence[tuple[str, Any]]) -> list[str]:
    """Sets all overrides in order; returns the problems."""
    found = (put(settings, key, value) for key, value in overrides)
    return [problem for problem in found if problem]
