"""A text encoder: a pre-trained transformer and its tokenizer, whose last layer is pooled to one vector of length 1 for
each text. Decides how it is opened, pooled, saved, and which combinations of model, tokenizer and settings fit."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xmcspark.errors import ConfigError, InputError
from xmcspark.neural.batch import Batch
from xmcspark.neural.model_folder import length_problem, model_folder, vocabulary_problem
from xmcspark.neural.settings import POOLINGS
from xmcspark.neural.word_vectors import WordVectors

_SETTINGS_FILE = "encoder.json"
_KIND, _VERSION = "text encoder", 1
# What families of models call their shares of values left out.
_DROPOUTS = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "hidden_dropout", "attention_dropout"),
    *(
        "activation_dropout",
        "dropout",
        "embedding_dropout",
        "mlp_dropout",
        "embd_pdrop",
        "attn_pdrop",
        "resid_pdrop",
    ),
)


class TextEncoder(torch.nn.Module):
    """Texts to vectors of length 1. `open` and `load` make one."""

    def __init__(self, model: Any, tokenizer: Any, *, pooling: str, max_length: int, dropout: float) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.pooling, self.max_length, self.dropout = pooling, max_length, dropout
        self.width = int(model.config.hidden_size)  # of a vector
        self.vocabulary_hash = _tokenizer_hash(tokenizer)  # token numbers of another are of no use here
        self.pad = int(_first_known(tokenizer, "pad_token_id", "eos_token_id"))
        # What a text without tokens becomes where the tokenizer adds no special ones: a pass needs something to read.
        self._nothing = [int(_first_known(tokenizer, "bos_token_id", "eos_token_id", "unk_token_id"))]
        alone = self.tokenize([""])[0]
        self._cls = tokenizer.cls_token_id if tokenizer.cls_token_id in alone else None
        self._cls_is_first = self._cls is None or alone[0] == self._cls
        self.eval()

    @staticmethod
    def open(model: str, *, pooling: str, max_length: int, dropout: float) -> TextEncoder:
        """The encoder of a folder or of a name on the hub. ConfigError, with the remedy, for anything that could not be
        trained."""
        if pooling not in POOLINGS:
            raise ConfigError([f"encoder.pooling is {pooling!r}: choose one of {', '.join(POOLINGS)}"])
        folder = model_folder(model)
        with _quiet():
            tokenizer = _opened_tokenizer(folder)
            network = _opened_model(folder, dropout)
        encoder = TextEncoder(network, tokenizer, pooling=pooling, max_length=max_length, dropout=dropout)
        if problems := encoder._problems(folder):
            raise ConfigError(problems)
        return encoder

    @staticmethod
    def load(folder: Path | str) -> TextEncoder:
        """What `save` has written: the same embeddings, bit for bit."""
        path = Path(folder) / _SETTINGS_FILE
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            if (saved["kind"], saved["version"]) != (_KIND, _VERSION):
                raise InputError(f"{path} is of another kind or version: make the encoder again")
            how = {name: saved[name] for name in ("pooling", "max_length", "dropout")}
        except FileNotFoundError as error:
            raise InputError(f"{folder} is not a saved encoder: it has no {_SETTINGS_FILE}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is damaged ({error!r}): copy or make the encoder again") from error
        try:
            encoder = TextEncoder.open(str(folder), **how)
        except ConfigError as error:
            raise InputError(f"{folder} is damaged, copy or make the encoder again: {error}") from error
        if (encoder.width, encoder.vocabulary_hash) != (saved.get("width"), saved.get("vocabulary_hash")):
            raise InputError(f"{folder} holds files of different encoders: copy or make it again")
        return encoder

    def save(self, folder: Path | str) -> None:
        """Writes config.json, model.safetensors, the tokenizer's files and, last, encoder.json with our settings."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SETTINGS_FILE).unlink(missing_ok=True)
        with _quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        text = json.dumps(self._settings(), indent=1, sort_keys=True) + "\n"
        partial = folder / f"{_SETTINGS_FILE}.partial"
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, folder / _SETTINGS_FILE)

    def forward(self, tokens: Batch) -> torch.Tensor:
        """float32 [rows, width], of length 1 (paper 4, eq. 10); in training mode with dropout after that. Tokens may be
        on any device."""
        return torch.nn.functional.dropout(self.unit(tokens), self.dropout, self.training)

    def unit(self, tokens: Batch) -> torch.Tensor:
        """float32 [rows, width], of length 1: for heads that have a dropout of their own."""
        return torch.nn.functional.normalize(self.pooled(tokens), dim=1, eps=1e-12)

    def pooled(self, tokens: Batch) -> torch.Tensor:
        """float32 [rows, width], as pooling leaves them: neither scaled nor dropped."""
        tokens = tokens.to(self.device)
        states = self.model(input_ids=tokens.ids, attention_mask=tokens.mask).last_hidden_state
        hidden: torch.Tensor = states.float()
        if self.pooling == "cls":
            return self._at_cls(hidden, tokens)
        there = tokens.mask.to(hidden.dtype).unsqueeze(2)
        return (hidden * there).sum(dim=1) / there.sum(dim=1)

    def _at_cls(self, hidden: torch.Tensor, tokens: Batch) -> torch.Tensor:
        """The state at the tokenizer's own CLS: a text may hold the word as well, so the outermost one counts."""
        if self._cls_is_first:
            return hidden[:, 0]
        is_cls = (tokens.ids == self._cls) & (tokens.mask == 1)
        last = is_cls.shape[1] - 1 - is_cls.flip(1).to(torch.int64).argmax(dim=1)
        return hidden[torch.arange(len(hidden), device=hidden.device), last]

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        """Token numbers with special tokens, cut to max_length. An empty text is its special tokens alone."""
        if not texts:
            return []
        found = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return [ids or self._nothing for ids in found["input_ids"]]

    def train_words(self, wanted: bool) -> None:
        """Whether training moves the vectors of words, or only what lies above them."""
        words = self.model.get_input_embeddings()
        words.weight.requires_grad_(wanted)
        if WordVectors.fits(words):
            self.model.set_input_embeddings(WordVectors.of(words))

    def embed_one(self, text: str) -> np.ndarray:
        """float32 [width]: a single text, for serving. Nothing is dropped, whatever mode the encoder is in."""
        if self.training:
            self.eval()
            try:
                return self.embed_one(text)
            finally:
                self.train()
        with torch.inference_mode():
            found: np.ndarray = self(Batch.of(self.tokenize([text]), self.pad))[0].cpu().numpy()
        return found

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    def weights_hash(self) -> str:
        """Of all weights: for the identity of checkpoints and caches."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()[:32]

    def identity(self) -> dict[str, Any]:
        """What decides its embeddings: pooling, max_length, tokenizer, weights."""
        kept = {name: value for name, value in self._settings().items() if name not in ("kind", "version")}
        return {**kept, "weights_hash": self.weights_hash()}

    def _settings(self) -> dict[str, Any]:
        names = ("pooling", "max_length", "dropout", "width", "vocabulary_hash")
        return {"kind": _KIND, "version": _VERSION} | {name: getattr(self, name) for name in names}

    def _problems(self, folder: Path) -> list[str]:
        """How model, tokenizer and settings do not fit together."""
        rows = int(self.model.get_input_embeddings().num_embeddings)
        largest = max(self.tokenizer.get_vocab().values(), default=-1)
        positions = _positions(self.model)
        of_files = (
            vocabulary_problem(folder, largest, rows),
            None if positions is None else length_problem(folder, self.max_length, positions),
        )
        problems = [problem for problem in of_files if problem]
        if self.pooling == "cls" and self._cls is None:
            problems.append(
                f"encoder.pooling is cls, and the tokenizer in {folder} puts no CLS token: set encoder.pooling to mean"
            )
        return problems


def _opened_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each kind of tokenizer fails in its own way
        raise ConfigError([f"the tokenizer in {folder} cannot be opened: {_first_line(error)}"]) from error


def _opened_model(folder: Path, dropout: float) -> Any:
    """The network in float32, without a pooling layer of its own, which we would neither train nor use."""
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        for name in _DROPOUTS:
            if isinstance(getattr(config, name, None), float | int):
                setattr(config, name, dropout)
        # Weights that are not in the file are drawn at random: not ours to disturb.
        with torch.random.fork_rng(devices=[]):
            model, info = AutoModel.from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
    except Exception as error:  # each kind of model fails in its own way
        raise ConfigError([f"the model in {folder} cannot be opened: {_first_line(error)}"]) from error
    missing = sorted(info["missing_keys"])
    if "add_pooling_layer" in inspect.signature(type(model).__init__).parameters:
        model.pooler = None
        missing = [name for name in missing if not name.startswith("pooler.")]
    if missing:
        raise ConfigError(
            [
                f"{folder}: model.safetensors lacks {len(missing)} weights that config.json asks for, such as "
                f"{missing[0]}: the files are of different models, copy them again"
            ]
        )
    return model.float()


def _positions(model: Any) -> int | None:
    """How many tokens the model can tell apart by place; None: any number."""
    for name, part in model.named_modules():
        # RoBERTa and its relatives number places from behind the padding token on.
        if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None:
            return int(part.num_embeddings) - int(part.padding_idx) - 1
    for name in ("max_position_embeddings", "n_positions"):
        if isinstance(found := getattr(model.config, name, None), int) and found > 0:
            return found
    return None


def _tokenizer_hash(tokenizer: Any) -> str:
    """Of all that decides which numbers a text becomes, but for where it is cut."""
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules = {name: rule for name, rule in rules.items() if name not in ("truncation", "padding")}
    else:
        rules = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
    return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:32]


def _first_known(tokenizer: Any, *names: str) -> int:
    return next((found for name in names if (found := getattr(tokenizer, name, None)) is not None), 0)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' own log lines and progress bars; as before, afterwards."""
    chatter: Any = import_module("transformers.utils.logging")
    level, bars = chatter.get_verbosity(), chatter.is_progress_bar_enabled()
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    try:
        yield
    finally:
        chatter.set_verbosity(level)
        if bars:
            chatter.enable_progress_bar()
