"""What can be known about an encoder before Spark starts, from small files and without loading torch where nothing
special is asked of it: whether texts fit, whether the tokenizer is the model's, whether this machine can train it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xmcspark.errors import ConfigError
from xmcspark.neural.model_folder import length_problem, model_folder, vocabulary_problem
from xmcspark.neural.settings import EncoderSettings

_BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")  # they number places from behind it on


def check_model_files(settings: EncoderSettings) -> None:
    """ConfigError, with the remedy, if the model cannot be found, or what it consists of does not fit together."""
    folder = model_folder(settings.model)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ConfigError([f"{folder / 'config.json'} is not the configuration of a model: copy it again"])
    found = (_length_problem(folder, config, settings.max_length), _vocabulary_problem(folder, config))
    if problems := [problem for problem in found if problem]:
        raise ConfigError(problems)


def check_this_machine(settings: EncoderSettings) -> None:
    """ConfigError if the driver, where it fine-tunes by itself, has not the device or the precision asked for. What
    every machine has is not looked for: loading torch takes seconds."""
    if settings.processes == 1 and (settings.device == "cuda" or settings.precision != "fp32"):
        from xmcspark.neural.device import chosen_device

        chosen_device(settings)


def _length_problem(folder: Path, config: dict[str, Any], max_length: int) -> str | None:
    positions = config.get("max_position_embeddings") or config.get("n_positions")
    if not isinstance(positions, int) or positions <= 0:
        return None
    if config.get("model_type") in _BEHIND_PADDING:
        padding = config.get("pad_token_id")
        positions -= (padding if isinstance(padding, int) else 1) + 1
    return length_problem(folder, max_length, positions)


def _vocabulary_problem(folder: Path, config: dict[str, Any]) -> str | None:
    rows, largest = config.get("vocab_size"), _largest_token(folder / "tokenizer.json")
    if not isinstance(rows, int) or largest is None:
        return None
    return vocabulary_problem(folder, largest, rows)


def _largest_token(path: Path) -> int | None:
    """None if the file does not say: the tokenizer itself will, later."""
    try:
        rules = json.loads(path.read_text(encoding="utf-8"))
        words = rules["model"]["vocab"]
        numbers = words.values() if isinstance(words, dict) else range(len(words))
        return max([*numbers, *(token["id"] for token in rules.get("added_tokens", ()))], default=None)
    except (OSError, ValueError, KeyError, TypeError):
        return None
