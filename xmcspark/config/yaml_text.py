"""Reads configuration text: YAML with the plain types of YAML 1.2, or JSON.

PyYAML's own rules would turn `no` into false, a date into a date object, `12:30` into 750 and leave `1e-3` a
string. Duplicate keys and aliases are refused: both make a file mean something other than it shows."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from xmcspark.errors import ConfigError

_PLAIN_TYPES = (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", list("-+.")),
)


class _Loader(yaml.SafeLoader):
    """The safe loader with the rules above."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 (PyYAML's name)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "aliases (*name) are not supported: write it out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(None, None, f"the key {key!r} must be text", key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(None, None, f"the key {key} is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_whole_number(self, node: Any) -> int:
        return int(node.value)  # decimal also with leading zeros, unlike YAML 1.1


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole_number)
for _name, _pattern, _first in _PLAIN_TYPES:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), _first)


def parse(text: str, origin: str) -> Any:
    """The value of YAML or JSON text; ConfigError that names `origin`, line and column if it has none."""
    try:
        if text.lstrip().startswith("{"):  # JSON escapes characters in ways that YAML does not read
            return json.loads(text, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError):
        pass
    except ValueError as error:
        raise ConfigError([f"{origin}: {error}"]) from error
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError([f"{origin}{place}: {error.problem}"]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError([f"{origin}: not readable as YAML: {str(error).splitlines()[0]}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{origin}: nested too deeply to be a configuration"]) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key} is there twice")
        found[key] = value
    return found
