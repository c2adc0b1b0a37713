"""A setting is a dataclass field that knows its meaning, its source and its range, so that all three are
written once, beside the default. Decides how settings are checked: all problems at once, each with the key,
the value and what would be right."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xmcspark.config.value_types import described, fits, shown
from xmcspark.errors import ConfigError

_KEY = "xmcspark.setting"
_resolved_hints: Callable[[type], dict[str, Any]] = functools.cache(typing.get_type_hints)


class Rule(NamedTuple):
    """What choices and bounds cannot say about a value. It is asked about values of any type."""

    holds: Callable[[Any], bool]
    expected: str  # in words


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What `setting` was told about a field."""

    meaning: str
    source: str | None = None  # the paper or system the default comes from
    choices: tuple[Any, ...] | None = None
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    rule: Rule | None = None

    @property
    def says_more_than_the_type(self) -> bool:
        return self.choices is not None or self.rule is not None

    def range_problem(self, value: Any) -> str | None:
        """What is wrong with a value of the right type; None if nothing is."""
        if self.rule is not None and not self.rule.holds(value):
            return f"expected {self.rule.expected}"
        if self.choices is not None and value not in self.choices:
            return f"choose one of {', '.join(map(shown, self.choices))}"
        if value is None or isinstance(value, str):
            return None
        if self.minimum is not None and not value >= self.minimum:
            return "it must not be negative" if self.minimum == 0 else f"it must be at least {self.minimum}"
        if self.above is not None and not value > self.above:
            return f"it must be above {self.above}"
        if self.maximum is not None and not value <= self.maximum:
            return f"it must be at most {self.maximum}"
        return None

    def range_text(self) -> str:
        """The range in words; empty if any value of the type will do."""
        if self.choices is not None:
            return "one of " + ", ".join(map(shown, self.choices))
        if self.rule is not None:
            return self.rule.expected
        bounds = (("at least", self.minimum), ("above", self.above), ("at most", self.maximum))
        return ", ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def setting(
    default: Any,
    meaning: str,
    *,
    source: str | None = None,
    choices: Sequence[Any] | None = None,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    rule: Rule | None = None,
) -> Any:
    """A dataclass field with a default and what `config --skeleton` says about it."""
    allowed = None if choices is None else tuple(choices)
    declaration = Declaration(meaning, source, allowed, minimum, above, maximum, rule)
    return dataclasses.field(default=default, metadata={_KEY: declaration})


def declaration_of(field: dataclasses.Field[Any]) -> Declaration | None:
    """What was declared with `setting`; None for a plain field."""
    return field.metadata.get(_KEY)


def hints_of(settings_class: type) -> dict[str, Any]:
    """The resolved type of each field."""
    return _resolved_hints(settings_class)


def problems_of(instance: Any, where: str = "") -> list[str]:
    """What is wrong with a settings instance: types, choices and ranges of all its fields; if these are
    right, what its `contradictions()` finds. `where` is put before each key."""
    hints = hints_of(type(instance))
    prefix = f"{where}." if where else ""
    problems = []
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if problem := field_problem(field, hints[field.name], value):
            problems.append(f"{prefix}{field.name} is {shown(value)}: {problem}")
    if not problems and hasattr(instance, "contradictions"):
        problems = [f"{prefix}{problem}" for problem in instance.contradictions()]
    return problems


def field_problem(field: dataclasses.Field[Any], hint: Any, value: Any) -> str | None:
    """What is wrong with one field's value; None if nothing is."""
    declared = declaration_of(field)
    if declared is not None and declared.says_more_than_the_type:
        return declared.range_problem(value)
    if not fits(value, hint):
        return f"expected {described(hint)}"
    return declared.range_problem(value) if declared is not None else None


def check_settings(instance: Any) -> None:
    """Raises ConfigError with all the problems of an instance: for the end of a `__post_init__`."""
    if problems := problems_of(instance):
        raise ConfigError(problems)
