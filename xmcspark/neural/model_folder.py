"""Where the files of a pre-trained model lie: in a folder, or by a name in the hub's local cache, which is filled where
there is a network. Decides from the files alone whether a model can be used, and what to do about one that cannot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from xmcspark.errors import ConfigError

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_FILES: dict[str, Any] = {  # of a model on the hub that are wanted: never pickled weights, nothing in folders
    "allow_patterns": ["*.json", "*.safetensors", "*.txt", "*.model"],
    "ignore_patterns": ["*/*"],
}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")
_SECONDS = 5.0  # to wait for the hub's first answer


def model_folder(model: str) -> Path:
    """The folder with a model's files; ConfigError, with the remedy, if it cannot be used."""
    folder = Path(model).expanduser()
    if not folder.exists():
        folder = _of_the_hub(model)
    _check(folder)
    return folder


def _of_the_hub(model: str) -> Path:
    if _is_a_path(model):
        raise ConfigError(
            [f"encoder.model is {model}, and there is no such folder: give the folder of a transformer"]
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    try:
        found = Path(snapshot_download(model, local_files_only=True, **_FILES))
        if is_offline() or any(found.glob("*.safetensors")):  # else only the tokenizer was ever asked for
            return found
    except HFValidationError as error:
        raise ConfigError([f"encoder.model is {model!r}: neither a folder nor a name on the hub"]) from error
    except OSError:
        pass  # not cached
    if is_offline():
        raise ConfigError([_not_cached(model, "the environment says offline")])
    try:
        return Path(snapshot_download(model, etag_timeout=_SECONDS, **_FILES))
    except RepositoryNotFoundError as error:
        raise ConfigError(
            [f"encoder.model is {model!r}: no such folder, and the hub has no such model"]
        ) from error
    except (OSError, HfHubHTTPError) as error:
        raise ConfigError([_not_cached(model, "the hub cannot be reached")]) from error


def is_offline() -> bool:
    """Whether the environment forbids to ask the hub."""
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in _OFFLINE)


def _is_a_path(model: str) -> bool:
    return model.startswith(("/", ".", "~")) or model.count("/") > 1 or model.endswith("/")


def _not_cached(model: str, why: str) -> str:
    return (
        f"encoder.model is {model!r}: no folder of that name, not in the hub's local cache, and {why}. Give a folder "
        "with the model (README.md has the command for a small one), or fill the cache on a machine with network, by: "
        f"hf download {model}; then copy ~/.cache/huggingface/hub here, to the same place or to where HF_HUB_CACHE "
        "points"
    )


def _check(folder: Path) -> None:
    """From the names of files and config.json, before anything large is read."""
    try:
        names = set(os.listdir(folder))
        text = (folder / "config.json").read_text(encoding="utf-8") if "config.json" in names else None
        config = None if text is None else json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError([f"encoder.model is {folder}, which cannot be read: {error}"]) from error
    if text is None:
        raise ConfigError(
            [
                f"{folder} is not the folder of a transformer: it has no config.json. Give the folder that "
                "save_pretrained wrote, with config.json, model.safetensors and the tokenizer's files"
            ]
        )
    problems = [_weights_problem(folder, names), _tokenizer_problem(folder, names)]
    if isinstance(config, dict) and config.get("is_encoder_decoder"):
        problems.append(
            f"{folder} holds a model with encoder and decoder: give an encoder, such as BERT, RoBERTa, MPNet or XLNet"
        )
    if found := [problem for problem in problems if problem]:
        raise ConfigError(found)


def vocabulary_problem(folder: Path, largest: int, rows: int) -> str | None:
    """Of a tokenizer whose largest number is `largest` and a model with vectors of `rows` tokens."""
    if largest < rows:
        return None
    return (
        f"{folder}: the tokenizer numbers tokens up to {largest}, the model knows {rows}: they do not belong together; "
        "copy the tokenizer that the model was trained with"
    )


def length_problem(folder: Path, max_length: int, positions: int) -> str | None:
    """Of a model that tells `positions` places of tokens apart."""
    if max_length <= positions:
        return None
    return (
        f"encoder.max_length is {max_length}, and the model in {folder} reads {positions} tokens: set "
        f"encoder.max_length to {positions} or less"
    )


def _weights_problem(folder: Path, names: set[str]) -> str | None:
    weights = sorted(name for name in names if name.endswith(".safetensors") and not name.startswith("."))
    if weights:
        damaged = next((name for name in weights if not _is_whole(folder / name)), None)
        told = f"{folder}: {damaged} is cut short or no file of weights: copy the model again"
        return None if damaged is None else told
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in names):
        return (
            f"{folder} has pickled weights only, which can run code when they are read. Where you trust them, convert: "
            f"python -c \"from transformers import AutoModel; AutoModel.from_pretrained('{folder}')"
            f".save_pretrained('{folder}')\", which writes model.safetensors"
        )
    return f"{folder} has no model.safetensors: copy the model's weights there"


def _is_whole(path: Path) -> bool:
    """Whether a safetensors file has the bytes that its header tells of; only the header is read."""
    try:
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            size = os.fstat(stream.fileno()).st_size
            if not 0 < length <= size - 8:
                return False
            header = json.loads(stream.read(length))
        ends = (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        return bool(8 + length + max(ends, default=0) == size)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return False


def _tokenizer_problem(folder: Path, names: set[str]) -> str | None:
    if names.intersection(_TOKENIZER_FILES):
        return None
    return (
        f"{folder} has no tokenizer (one of {', '.join(_TOKENIZER_FILES)}): copy the files of the tokenizer that "
        "the model was trained with, or write them with its save_pretrained"
    )
