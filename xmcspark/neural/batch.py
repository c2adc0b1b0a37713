"""Tokenised texts of one forward pass, padded to the longest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Batch:
    """Tokens [rows, longest] and which of them are there (1) or padding (0), both int64."""

    ids: torch.Tensor
    mask: torch.Tensor

    @staticmethod
    def of(rows: Sequence[np.ndarray | list[int]], pad: int) -> Batch:
        """The given token numbers, padded on the right."""
        longest = max((len(row) for row in rows), default=0) or 1  # a pass needs a column
        ids = np.full((len(rows), longest), pad, np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        return Batch(torch.from_numpy(ids), torch.from_numpy(mask))

    def to(self, device: torch.device) -> Batch:
        return Batch(self.ids.to(device), self.mask.to(device))

    def __len__(self) -> int:
        return len(self.ids)
