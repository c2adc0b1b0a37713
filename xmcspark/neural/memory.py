"""What is said where memory does not suffice: torch's error becomes one that names the settings to lower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from xmcspark.errors import InputError
from xmcspark.neural.settings import EncoderSettings


@contextmanager
def advice_about_memory(advice: Callable[[], str]) -> Iterator[None]:
    """Turns a lack of memory into an InputError with `advice`: what did not fit, and what would."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_lack_of_memory(error):
            raise
        raise InputError(advice()) from error


def smaller_passes(settings: EncoderSettings) -> str:
    """Advice for tasks that pass encoder.batch_size instances forward and backward."""
    size, passes = settings.batch_size, settings.accumulate
    fewer = next((part for part in range(2, size + 1) if size % part == 0), 1)
    remedy = (
        f"set encoder.batch_size to {size // fewer} and encoder.accumulate to {passes * fewer}, which makes the same "
        "steps"
        if size > 1
        else f"set encoder.max_length below {settings.max_length}, or take a smaller encoder.model"
    )
    return (
        f"a forward and backward pass over {size} instances of up to {settings.max_length} tokens does not fit into "
        f"memory: {remedy}; training goes on from the last checkpoint"
    )


def _is_lack_of_memory(error: BaseException) -> bool:
    """Of the CPU or of a GPU."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)
