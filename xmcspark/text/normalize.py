"""Unicode normalisation of documents, in bulk. ASCII documents need none (native code lower-cases them);
the others are joined, normalised by one call of Python's Unicode functions, and put back."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xmcspark._native.text import gather, scan, splice
from xmcspark.errors import InputError
from xmcspark.text.settings import TfidfSettings
from xmcspark.text.sources import TextBlock, text_blocks


def nfkc(text: str) -> str:
    """NFKC and case folding; folding can undo NFKC (U+0345), so it is applied once more."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _unchanged(text: str) -> str:
    return text


NORMALIZERS: dict[str, Callable[[str], str]] = {"nfkc": nfkc, "lower": str.lower, "none": _unchanged}


def normalized_blocks(
    source: Any, settings: TfidfSettings, *, column: str = "text", first: int = 0
) -> Iterator[TextBlock]:
    """The documents of `source` (see `text_blocks`), normalised; `first` is the number of the first one."""
    for block in text_blocks(source, column=column, nulls=settings.nulls, first=first):
        yield normalized(block, settings.normalize, settings.invalid, first)
        first += len(block)


def normalized(block: TextBlock, how: str, invalid: str, first: int) -> TextBlock:
    """`block` with its non-ASCII documents normalised; ASCII capitals are left to native code.

    `invalid`: what to do with invalid UTF-8, "error" or "replace". `first` is the number of the block's
    first document in the corpus, for messages.
    """
    other, broken = scan(block.offsets, block.data)
    if len(broken) and invalid == "error":
        raise _invalid_utf8(block, int(broken[0]), first)
    if not len(other) or (how == "none" and not len(broken)):
        return block
    offsets, data = _normalized_texts(block, other, NORMALIZERS[how])
    return TextBlock(*splice(block.offsets, block.data, other, offsets, data))


def _normalized_texts(
    block: TextBlock, chosen: np.ndarray, normalize: Callable[[str], str]
) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, data) of the chosen documents after normalisation."""
    # U+0000 neither composes nor reorders nor changes case, and is no context for a final sigma: the
    # documents stay apart.
    joined = normalize(bytes(gather(block.offsets, block.data, chosen)).decode("utf-8", "replace")).encode()
    if joined.count(b"\0") != len(chosen) - 1:  # a document has one of its own
        texts = [normalize(block.document(number).decode("utf-8", "replace")).encode() for number in chosen]
        ends = np.cumsum([len(text) for text in texts])
        return np.concatenate([[0], ends]).astype(np.int64), np.frombuffer(b"".join(texts), np.uint8)
    data = np.frombuffer(joined, np.uint8)
    breaks = np.flatnonzero(data == 0)
    ends = np.append(breaks - np.arange(len(breaks)), len(data) - len(breaks))
    return np.concatenate([[0], ends]).astype(np.int64), data[data != 0]


def _invalid_utf8(block: TextBlock, number: int, first: int) -> InputError:
    try:
        block.document(number).decode()
    except UnicodeDecodeError as error:
        return InputError(
            f"document {first + number} is not valid UTF-8: {error.reason} at byte {error.start}; convert "
            "the text to UTF-8, or set invalid='replace' to read such bytes as U+FFFD"
        )
    return InputError(f"document {first + number} is not valid UTF-8")
