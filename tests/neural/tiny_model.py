"""A tiny encoder of 2 layers x 64, built from a config without network, and texts it can read. torch is loaded when it
is needed: this file is read where there is none."""

from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

WORDS = [
    *("cat", "dog", "bird", "fish", "tree", "house", "river", "stone", "red"),
    *("green", "blue", "old", "new", "big", "small", "runs", "sings", "sleeps"),
    *("swims", "falls", "and", "of", "the", "in", "on", "history", "poetry"),
    *("letters", "travels", "life", "art", "war", "sea"),
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_tiny_model(folder: Path, tokens: list[str] | None = None, **changes: Any) -> Path:
    """A BERT of 2 layers x 64 with WordPiece, as a folder that `TextEncoder.open` reads."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    tokens = tokens or [*SPECIAL, *WORDS, *"abcxyz", *(f"##{letter}" for letter in ascii_lowercase)]
    shape = {
        "vocab_size": len(tokens),
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": 64,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(BertConfig(**{**shape, **changes}))
        with torch.no_grad():  # as drawn, all texts are nearly alike
            for weight in model.parameters():
                weight.mul_(4 if weight.ndim == 2 else 1)
    model.save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    BertTokenizer(vocab=vocabulary, model_max_length=64).save_pretrained(folder)
    return folder


def open_tiny(folder: Path, pooling: str = "mean", max_length: int = 16, dropout: float = 0.0) -> Any:
    from xmcspark.neural.encoder import TextEncoder

    return TextEncoder.open(str(folder), pooling=pooling, max_length=max_length, dropout=dropout)


def some_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of 1 to 12 words."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 13))) for _ in range(count)]
