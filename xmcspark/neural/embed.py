"""Embeddings of many texts, in batches of like length, in float32 but for drafts, which only training sees.

Which texts share a batch does not change what is computed, but how matrix products are blocked and so their last bits:
a text's embedding is the same to about 1e-6 in any company, and the same bits in the same one (same texts, same
`batch`, one kind of machine and number of threads)."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch

from xmcspark.neural.batch import Batch
from xmcspark.neural.device import CPU, Device
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.memory import advice_about_memory
from xmcspark.neural.progress import EmbeddingProgress
from xmcspark.neural.tokens import TokenStore


def embed(
    encoder: TextEncoder,
    tokens: TokenStore,
    rows: np.ndarray | None = None,
    *,
    batch: int = 64,
    device: Device = CPU,
    draft: bool = False,
    progress: EmbeddingProgress | None = None,
) -> np.ndarray:
    """float32 [rows, width]: embeddings of `rows` (None: all) in their order. `draft`: by matrix products as precise as
    those of training. `progress`: of more than these rows, if they are a part of what is embedded."""
    rows = np.arange(len(tokens)) if rows is None else np.asarray(rows, np.int64)
    out = np.empty((len(rows), encoder.width), np.float32)
    # The longest first: what does not fit into memory fails at once.
    lengths = tokens.lengths[rows]
    order = np.argsort(-lengths, kind="stable")
    progress = progress or EmbeddingProgress(len(rows), int(lengths.sum()))
    with _Inference(encoder, device, draft) as inference:
        for start in range(0, len(order), batch):
            group = order[start : start + batch]
            out[group] = inference(tokens.batch(rows[group]))
            progress.add(len(group), int(lengths[group].sum()))
    return out


def embed_texts(
    encoder: TextEncoder, texts: list[str], *, batch: int = 64, device: Device = CPU
) -> np.ndarray:
    """float32 [texts, width]: as `embed`, of texts in memory (one Arrow batch, say)."""
    tokenised = encoder.tokenize(texts)
    order = np.argsort([-len(row) for row in tokenised], kind="stable")
    out = np.empty((len(texts), encoder.width), np.float32)
    with _Inference(encoder, device) as inference:
        for start in range(0, len(order), batch):
            group = order[start : start + batch]
            out[group] = inference(Batch.of([tokenised[row] for row in group], encoder.pad))
    return out


class _Inference:
    """An encoder on a device, without gradients and dropout; in the mode it was in, afterwards."""

    def __init__(self, encoder: TextEncoder, device: Device, draft: bool = False) -> None:
        self._encoder, self._device, self._training = encoder, device, encoder.training
        self._products = device.autocast if draft else nullcontext

    def __enter__(self) -> _Inference:
        # Both walk through all modules, which a single text would wait for.
        if self._encoder.device != self._device.torch:
            self._encoder.to(self._device.torch)
        if self._training:
            self._encoder.eval()
        return self

    def __call__(self, tokens: Batch) -> np.ndarray:
        with (
            advice_about_memory(lambda: _advice(*tokens.ids.shape)),
            torch.inference_mode(),
            self._products(),
        ):
            found: np.ndarray = self._encoder(tokens).cpu().numpy()
        return found

    def __exit__(self, *_: object) -> None:
        if self._training:
            self._encoder.train()


def _advice(texts: int, length: int) -> str:
    remedy = (
        f"set encoder.embed_batch to {texts // 2}"
        if texts > 1
        else f"set encoder.max_length below {length}, or take a smaller encoder.model"
    )
    return f"a forward pass over {texts} texts of up to {length} tokens does not fit into memory: {remedy}"
