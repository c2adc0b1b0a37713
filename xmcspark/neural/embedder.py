"""Embeddings of all rows while several processes fine-tune together: each embeds its share, and all get all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmcspark.neural.device import CPU, Device
from xmcspark.neural.embed import embed
from xmcspark.neural.encoder import TextEncoder
from xmcspark.neural.processes import ONE_PROCESS, Processes
from xmcspark.neural.progress import EmbeddingProgress
from xmcspark.neural.tokens import TokenStore


@dataclass(frozen=True)
class Embedder:
    """How texts are embedded, and by how many."""

    batch: int = 64
    device: Device = CPU
    processes: Processes = ONE_PROCESS
    draft: bool = (
        False  # as precisely as training, for shortlists, starts and clusters that only training sees
    )

    def progress(self, tokens: TokenStore, rows: np.ndarray) -> EmbeddingProgress:
        """Of this process's share of `rows`, for those who embed them part by part."""
        rank, world = self.processes.rank, self.processes.world
        own = rows[rank::world]
        return EmbeddingProgress(len(own), int(tokens.lengths[own].sum()), quiet=rank > 0)

    def embedded(
        self,
        encoder: TextEncoder,
        tokens: TokenStore,
        rows: np.ndarray | None = None,
        progress: EmbeddingProgress | None = None,
    ) -> np.ndarray:
        """float32 [rows, width]: of the given rows, or of all, in every process."""
        wanted = np.arange(len(tokens)) if rows is None else rows
        rank, world = self.processes.rank, self.processes.world
        own = embed(
            encoder,
            tokens,
            wanted[rank::world],
            batch=self.batch,
            device=self.device,
            draft=self.draft,
            progress=progress or self.progress(tokens, wanted),
        )
        if world == 1:
            return own
        found = np.empty((len(wanted), encoder.width), np.float32)
        for number, part in enumerate(self.processes.gather(own)):
            found[number::world] = part
        return found
