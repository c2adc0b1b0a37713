"""The vectors of words while they are trained. Every forward pass of a step looks some of them up. torch makes a
gradient as large as the vocabulary for each, or lists of rows that are copied with every further pass. Here all passes
add their rows to the one gradient of the step."""

from __future__ import annotations

from typing import Any

import torch


class WordVectors(torch.nn.Embedding):
    """An embedding whose gradients are added up in place."""

    @staticmethod
    def fits(words: torch.nn.Module) -> bool:
        """Whether these are plain word vectors, which it could stand in for."""
        return type(words) is torch.nn.Embedding and not words.scale_grad_by_freq and words.max_norm is None

    @staticmethod
    def of(words: torch.nn.Embedding) -> WordVectors:
        """With the same weights, not a copy of them: other modules may share them."""
        count, width = words.weight.shape
        made = WordVectors(count, width, padding_idx=words.padding_idx, _weight=words.weight)
        made.weight = words.weight
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not (torch.is_grad_enabled() and self.weight.requires_grad):
            return super().forward(input)
        found: torch.Tensor = _Lookup.apply(self.weight, input, self.padding_idx)  # type: ignore[no-untyped-call]
        return found


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, weight: torch.Tensor, ids: torch.Tensor, padding: int | None) -> torch.Tensor:
        context.save_for_backward(ids)
        context.weight, context.padding = weight, padding
        return torch.nn.functional.embedding(ids, weight)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[None, None, None]:
        (ids,), (gradient,), weight = context.saved_tensors, gradients, context.weight
        ids = ids.reshape(-1)
        rows = gradient.reshape(len(ids), -1).to(weight.dtype)
        if context.padding is not None:
            rows = rows.masked_fill((ids == context.padding)[:, None], 0)
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        # Those of one word first, in their order: threads that add to the same row come in any.
        words, place = ids.unique(return_inverse=True)
        weight.grad[words] += torch.ops.aten.embedding_dense_backward(rows, place, len(words), -1, False)
        return None, None, None
