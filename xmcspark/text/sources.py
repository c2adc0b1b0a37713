"""Where texts come from: lists, iterators, numpy and pandas arrays, Arrow arrays, files. All become blocks
of UTF-8 bytes with offsets, Arrow buffers in place; files and iterators in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xmcspark._native.text import bad_offset
from xmcspark.errors import InputError

_BLOCK_BYTES = 1 << 24  # of text held at a time from a file or an iterator
_BLOCK_DOCUMENTS = 1 << 17
_LIST_DOCUMENTS = 1 << 20  # a list is in memory already: fewer, larger blocks


@dataclass(frozen=True)
class TextBlock:
    """Consecutive documents: document i is data[offsets[i]:offsets[i + 1]], UTF-8 not yet checked."""

    offsets: np.ndarray  # int64[documents + 1]
    data: np.ndarray  # uint8

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def document(self, number: int) -> bytes:
        return bytes(self.data[self.offsets[number] : self.offsets[number + 1]])


def text_blocks(
    source: Any, *, column: str = "text", nulls: str = "error", first: int = 0
) -> Iterator[TextBlock]:
    """The documents of `source`, block by block.

    `source`: an iterable of str or bytes; a numpy, pandas or (chunked) Arrow array; or a `Path` to a file
    with one document a line (also compressed: .gz, .bz2, .zst) or to Parquet with the texts in `column`.
    `nulls`: missing texts are an "error" or "empty". `first`: number of the first document, for messages.
    """
    for array in _arrays(source, column):
        block = array if isinstance(array, TextBlock) else _block_of(array, first, nulls)
        first += len(block)
        if len(block):
            yield block


def _arrays(source: Any, column: str) -> Iterator[pa.Array | TextBlock]:
    if isinstance(source, (str, bytes)):
        raise InputError(
            "texts are given as a single string: pass [text] for one document, or "
            "pathlib.Path(name) for a file"
        )
    if isinstance(source, os.PathLike):
        yield from _file_arrays(Path(source), column)
    elif isinstance(source, pa.ChunkedArray):
        yield from source.chunks
    elif isinstance(source, pa.Array):
        yield source
    elif isinstance(source, np.ndarray) or hasattr(source, "to_numpy"):
        yield _from_objects(source, 0)
    elif isinstance(source, (list, tuple)):
        for at in range(0, len(source), _LIST_DOCUMENTS):
            yield _from_objects(source[at : at + _LIST_DOCUMENTS], at)
    elif isinstance(source, Iterable):
        yield from _iterator_arrays(source)
    else:
        raise InputError(
            f"texts are a {type(source).__name__}: expected an iterable of strings, an array or a Path"
        )


def _iterator_arrays(source: Iterable[Any]) -> Iterator[pa.Array]:
    first, size, held = 0, 0, []
    for text in source:
        held.append(text)
        size += len(text) if isinstance(text, (str, bytes)) else 0
        if size >= _BLOCK_BYTES or len(held) >= _BLOCK_DOCUMENTS:
            yield _from_objects(held, first)
            first, size, held = first + len(held), 0, []
    if held:
        yield _from_objects(held, first)


def _from_objects(texts: Any, first: int) -> pa.Array:
    """Python objects as Arrow bytes; says which one is not a text."""
    if isinstance(texts, np.ndarray):
        texts = texts.ravel().tolist()
    try:
        array = pa.array(texts, pa.large_binary(), from_pandas=True)  # takes str and bytes
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    except (pa.ArrowException, UnicodeError, ValueError, TypeError):
        listed = list(texts)  # to find the culprit
    for number, text in enumerate(listed):
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"document {first + number} holds half of a surrogate pair at character {error.start}, "
                    "which no UTF-8 text can: decode it with errors='replace', or as UTF-16"
                ) from error
        elif not (isinstance(text, bytes) or text is None or text != text):
            raise InputError(
                f"document {first + number} is a {type(text).__name__}: expected str or bytes; "
                "convert it with str(...)"
            )
    return pa.array([t if isinstance(t, (str, bytes)) else None for t in listed], pa.large_binary())


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _block_of(array: pa.Array, first: int, nulls: str) -> TextBlock:
    if not _is_text(array.type):
        try:
            array = array.cast(pa.large_string())  # dictionary-encoded and view types
        except pa.ArrowException as error:
            raise InputError(
                f"texts are an Arrow array of {array.type}: expected string or binary"
            ) from error
    if array.null_count:
        if nulls == "error":
            missing = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(
                f"document {first + missing} is missing (null); drop such rows, or set nulls='empty' to read "
                "them as empty documents"
            )
        array = array.fill_null(b"" if "binary" in str(array.type) else "")
    wide = "large" in str(array.type)
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array):
        return TextBlock(np.zeros(1, np.int64), np.empty(0, np.uint8))
    offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32, len(array) + 1 + array.offset)
    offsets = np.ascontiguousarray(offsets[array.offset :], np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    if (bad := bad_offset(offsets, data)) >= 0:
        raise InputError(f"document {first + bad} of a malformed Arrow array: its offsets leave its data")
    return TextBlock(offsets, data)


def _file_arrays(path: Path, column: str) -> Iterator[pa.Array | TextBlock]:
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.suffix == ".parquet" or path.is_dir():
        yield from _parquet_arrays(path, column)
    else:
        with pa.input_stream(str(path), compression="detect") as stream:
            yield from _line_blocks(stream)


def _parquet_arrays(path: Path, column: str) -> Iterator[pa.Array]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} is a folder without .parquet files")
    for name in files:
        try:
            parquet = pq.ParquetFile(name)
        except pa.ArrowException as error:
            raise InputError(f"{name} is not readable as Parquet: {error}") from error
        if column not in parquet.schema_arrow.names:
            raise InputError(f"{name} has no column {column!r}: its columns are {parquet.schema_arrow.names}")
        for batch in parquet.iter_batches(batch_size=_BLOCK_DOCUMENTS, columns=[column]):
            yield batch.column(0)


def _line_blocks(stream: Any) -> Iterator[TextBlock]:
    held: list[bytes] = []  # the start of a line whose end has not been read yet
    begun = False
    while read := stream.read(_BLOCK_BYTES):
        if not begun and read.startswith(b"\xef\xbb\xbf"):
            read = read[3:]  # byte order mark
        begun = True
        end = read.rfind(b"\n") + 1
        if end:
            yield _lines(b"".join([*held, read[:end]]))
            held = []
        held.append(read[end:])
    if rest := b"".join(held):
        yield _lines(rest + b"\n")


def _lines(text: bytes) -> TextBlock:
    """The lines of a text that ends in a newline, without their newlines (and carriage returns)."""
    data = np.frombuffer(text, np.uint8)
    is_end = data == 10
    ends = np.flatnonzero(is_end)
    removed = is_end
    before = np.arange(len(ends))  # bytes removed before each end
    returns = data[np.maximum(ends - 1, 0)] == 13
    if returns.any():
        removed = is_end.copy()
        removed[ends[returns] - 1] = True
        before = before + np.cumsum(returns)
    return TextBlock(np.concatenate([np.zeros(1, np.int64), ends - before]), data[~removed])
