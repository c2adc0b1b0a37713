"""An encoder built from a config, without network and without training: for measurements of what lies around it."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase
from typing import Any

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def save_tiny_encoder(folder: Path, width: int = 64, layers: int = 2) -> Path:
    """A BERT that reads texts letter by letter, as a folder that `TextEncoder.open` reads."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokens = [*_SPECIAL, *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
    shape: dict[str, Any] = {
        "vocab_size": len(tokens),
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 128,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(BertConfig(**shape)).save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    BertTokenizer(vocab=vocabulary, model_max_length=128).save_pretrained(folder)
    return folder
