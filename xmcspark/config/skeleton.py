"""A configuration file to start from: every key with its default, what it means, what it may be and where the
default comes from. It loads back to the defaults it shows."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from xmcspark.config.configuration import Config, default_config
from xmcspark.config.presets import METHODS
from xmcspark.config.reading import keys_of, to_plain
from xmcspark.config.setting import declaration_of, hints_of
from xmcspark.config.value_types import members_of

_WIDTH = 100
_CONSTANTS = ("true", "false", "null")  # words that YAML does not read as text


def skeleton(method: str = "xr-linear") -> str:
    """The commented YAML of a method's defaults; ConfigError if there is no such method."""
    config = default_config(method)
    preset = METHODS[method]
    lines = [*_comment(f"{method}: {preset.meaning} ({preset.source})"), ""]
    lines += _section(config, "", "", (), _changed(config))
    return "\n".join(lines).rstrip() + "\n"


def _changed(config: Config) -> dict[str, str]:
    preset = METHODS[config.method]
    return dict.fromkeys(preset.changes, preset.source)


def _section(
    settings: Any, prefix: str, indent: str, hidden: tuple[str, ...], changed: dict[str, str]
) -> Iterator[str]:
    hints = hints_of(type(settings))
    for field, inside in keys_of(settings, hidden):
        value, path = getattr(settings, field.name), prefix + field.name
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield ""
            yield from _comment(_first_sentence(value), indent)
            yield f"{indent}{field.name}:"
            yield from _section(value, f"{path}.", indent + "  ", inside, changed)
            continue
        meaning = explanation(field, hints[field.name], changed.get(path))
        yield from _comment(meaning, indent)
        yield from _entry(field.name, value, indent)


def _entry(name: str, value: Any, indent: str) -> Iterator[str]:
    """One key; a list of settings as YAML items, the keys explained at the first."""
    if not (isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0])):
        yield f"{indent}{name}: {_plain(to_plain(value))}"
        return
    yield f"{indent}{name}:"
    for at, item in enumerate(value):
        hints = hints_of(type(item))
        yield f"{indent}  -"
        for field, _ in keys_of(item):
            if at == 0:
                yield from _comment(explanation(field, hints[field.name]), f"{indent}    ")
            yield from _entry(field.name, getattr(item, field.name), f"{indent}    ")


def explanation(field: dataclasses.Field[Any], hint: Any, preset_source: str | None = None) -> str:
    """Meaning, range and source of one key."""
    declared = declaration_of(field)
    if declared is None:
        raise TypeError(f"{field.name} says nothing about itself: declare it with `setting`")
    parts = [declared.meaning]
    allowed = declared.range_text()
    if allowed and type(None) in members_of(hint) and declared.choices is None:
        allowed += ", or null"
    parts += [f"{allowed[0].upper()}{allowed[1:]}."] if allowed else []
    source = preset_source or declared.source
    return " ".join(parts) + (f" [{source}]" if source else "")


def _first_sentence(settings: Any) -> str:
    doc = type(settings).__doc__ or ""
    made_by_dataclass = doc.startswith(f"{type(settings).__name__}(")
    return "" if made_by_dataclass else " ".join(doc.split("\n\n")[0].split())


def _comment(text: str, indent: str = "") -> list[str]:
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}# {line}" for line in lines]


def _plain(value: Any) -> str:
    """A value as YAML on one line: bare words bare, everything else as in JSON."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w-]*", value) and value.lower() not in _CONSTANTS:
        return value
    return json.dumps(value, ensure_ascii=False)
