"""Turns nested mappings into settings dataclasses and back. Decides that every problem is reported: a value that
cannot be used is replaced by the default while the rest is checked."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from xmcspark.config.setting import field_problem, hints_of
from xmcspark.config.value_types import described, fits, is_sequence, items_of, members_of, shown
from xmcspark.errors import ConfigError

_NOT_KEYS = "xmcspark.not_keys"


def section(settings_class: type, not_keys: tuple[str, ...] = ()) -> Any:
    """A field that holds a part's settings. `not_keys` are fields of them that no configuration may set: what
    is decided at run time, such as the number of threads."""
    return dataclasses.field(default_factory=settings_class, metadata={_NOT_KEYS: not_keys})


def keys_of(
    settings: Any, hidden: tuple[str, ...] = ()
) -> Iterator[tuple[dataclasses.Field[Any], tuple[str, ...]]]:
    """The fields of settings (a class or an instance) that are keys of a configuration, and for each section what
    is hidden in it. A section's field that is named like a plain key beside the section, such as `seed`, takes
    that key's value."""
    fields = [field for field in dataclasses.fields(settings) if field.name not in hidden]
    hints = hints_of(settings if isinstance(settings, type) else type(settings))
    shared = tuple(field.name for field in fields if not dataclasses.is_dataclass(hints[field.name]))
    for field in fields:
        inside = (*shared, *field.metadata.get(_NOT_KEYS, ())) if field.name not in shared else ()
        yield field, inside


def share_keys(settings: Any) -> None:
    """Gives the sections of a frozen instance the values of the keys they share with it."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    sections = {name: value for name, value in values.items() if dataclasses.is_dataclass(value)}
    for name, part in sections.items():
        shared = {field.name for field in dataclasses.fields(part)} & (values.keys() - sections.keys())
        changes = {key: values[key] for key in shared}
        object.__setattr__(settings, name, dataclasses.replace(part, **changes))  # type: ignore[type-var]


def to_plain(value: Any, hidden: tuple[str, ...] = ()) -> Any:
    """Settings as mappings, lists and plain values, as YAML and JSON have them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name), inside)
            for field, inside in keys_of(value, hidden)
        }
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value


class Reader:
    """Reads one configuration, collecting problems."""

    def __init__(self, root: type) -> None:
        self.problems: list[str] = []
        self.known = list(_paths(root))

    def read(self, given: Any, base: Any, where: str = "", hidden: tuple[str, ...] = ()) -> Any:
        """`base` with the settings of a mapping."""
        if not isinstance(given, Mapping):
            self.problems.append(
                f"{where or 'the configuration'} is {shown(given)}: expected a mapping of settings"
            )
            return base
        prefix = f"{where}." if where else ""
        hints, values, known = hints_of(type(base)), {}, set()
        before = len(self.problems)
        for field, inside in keys_of(base, hidden):
            known.add(field.name)
            if field.name not in given:
                continue
            path, value = prefix + field.name, given[field.name]
            if dataclasses.is_dataclass(hints[field.name]):
                values[field.name] = self.read(value, getattr(base, field.name), path, inside)
                continue
            count = len(self.problems)
            value = self._converted(value, hints[field.name], path)
            if count == len(self.problems):
                if problem := field_problem(field, hints[field.name], value):
                    self.problems.append(f"{path} is {shown(value)}: {problem}")
                else:
                    values[field.name] = value
        self.problems += [self._unknown(prefix, key, sorted(known)) for key in given if key not in known]
        return self._made(base, values, where, before)

    def _made(self, base: Any, values: dict[str, Any], where: str, before: int) -> Any:
        """The instance, with what it finds wrong itself, by its constructor or its `check()`."""
        try:
            made = dataclasses.replace(base, **values)
            if hasattr(made, "check"):
                made.check()
        except ConfigError as error:
            reported = set(self.problems[before:])
            found = [_placed(problem, where) for problem in error.problems]
            self.problems += [problem for problem in found if problem not in reported]
            return base
        return made

    def _converted(self, value: Any, hint: Any, where: str) -> Any:
        """A YAML value as the hint's type, where that loses nothing: lists to tuples, 1 to 1.0, mappings to
        settings. A value that does not fit is reported, or left for `field_problem` to report."""
        if len(members_of(hint)) > 1:
            of_list = isinstance(value, list)
            candidates = [
                m for m in members_of(hint) if (is_sequence(m) if of_list else dataclasses.is_dataclass(m))
            ]
            take = candidates and isinstance(value, (list, Mapping))
            return self._converted(value, candidates[0], where) if take else value
        if is_sequence(hint) and isinstance(value, list):
            items = items_of(hint, len(value))
            if items is None:
                return value
            pairs = enumerate(zip(value, items, strict=True))
            return tuple(self._converted(item, of, f"{where}[{at}]") for at, (item, of) in pairs)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.read(value, hint(), where)
        if hint is float and fits(value, float):
            return float(value)
        if hint is int and isinstance(value, float) and value.is_integer():
            self.problems.append(f"{where} is {value!r}: expected {described(int)}; write {int(value)}")
        return value

    def _unknown(self, prefix: str, key: str, known: list[str]) -> str:
        """Says what was probably meant: the same key in another section, or one spelt almost like it."""
        elsewhere = [path for path in self.known if path.rpartition(".")[2] == key]
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        others = [path for path in self.known if path != prefix.rstrip(".")]
        near_paths = difflib.get_close_matches(prefix + key, others, n=1, cutoff=0.75)
        if elsewhere:
            return f"{prefix}{key}: unknown key, did you mean {' or '.join(elsewhere)}?"
        if near or near_paths:
            return f"{prefix}{key}: unknown key, did you mean {prefix + near[0] if near else near_paths[0]}?"
        return f"{prefix}{key}: unknown key; {prefix.rstrip('.') or 'the top level'} has {', '.join(known)}"


def _paths(settings_class: type, prefix: str = "", hidden: tuple[str, ...] = ()) -> Iterator[str]:
    """Every dotted key."""
    hints = hints_of(settings_class)
    for field, inside in keys_of(settings_class, hidden):
        yield prefix + field.name
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _paths(hints[field.name], f"{prefix}{field.name}.", inside)


def _placed(problem: str, where: str) -> str:
    """A part's own message with the part's name before it."""
    return f"{where}.{problem}" if where else problem
