"""Which Python and YAML values a type hint accepts, and how types and values read in a message. A bool is no
number, and a number must be finite."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
import typing
from typing import Any, Literal, Union

_SIMPLE = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def members_of(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union; the hint itself if it is none."""
    union = typing.get_origin(hint) in (Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def items_of(hint: Any, count: int) -> tuple[Any, ...] | None:
    """The hint of each of `count` items of a tuple or list; None if it cannot have that many."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is list:
        return arguments * count
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[:1] * count
    return arguments if len(arguments) == count else None


def is_sequence(hint: Any) -> bool:
    return typing.get_origin(hint) in (tuple, list)


def fits(value: Any, hint: Any) -> bool:
    """Whether a Python value has the type of a hint."""
    if len(members_of(hint)) > 1:
        return any(fits(value, member) for member in members_of(hint))
    if hint is Any:
        return True
    if hint in (None, type(None)):
        return value is None
    if typing.get_origin(hint) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in typing.get_args(hint))
    if is_sequence(hint):
        if not isinstance(value, (tuple, list)):
            return False
        items = items_of(hint, len(value))
        return items is not None and all(map(fits, value, items))
    if isinstance(value, bool):
        return hint is bool
    if hint is int:
        return isinstance(value, numbers.Integral)
    if hint is float:
        return isinstance(value, numbers.Real) and math.isfinite(value)
    return isinstance(value, hint)


def described(hint: Any) -> str:
    """The type in words, as a user of YAML knows it."""
    if len(members_of(hint)) > 1:
        members = sorted(members_of(hint), key=lambda member: member is type(None))
        if int in members and float in members:  # every whole number is a number
            members.remove(int)
        return " or ".join(described(member) for member in members)
    if hint in (None, type(None)):
        return "null"
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(shown, typing.get_args(hint)))
    if is_sequence(hint):
        arguments = typing.get_args(hint)
        if typing.get_origin(hint) is tuple and Ellipsis not in arguments:
            return f"a list of {len(arguments)}: {', '.join(map(described, arguments))}"
        return f"a list, each {described(arguments[0])}"
    if dataclasses.is_dataclass(hint):
        return "a mapping of settings"
    return _SIMPLE.get(hint, getattr(hint, "__name__", str(hint)))


def shown(value: Any) -> str:
    """A value as a message shows it: YAML's names for constants, long ones cut."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(list(value) if isinstance(value, tuple) else value)  # YAML has lists
    return text if len(text) <= 80 else text[:77] + "..."
