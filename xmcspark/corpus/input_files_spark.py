"""The files a ready corpus is given as: finds them, tells their format, and reads Parquet with the columns it must
have. Decides what a person is told about files that are missing, damaged or of the wrong shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, DecimalType, FractionalType, IntegralType, StringType

from xmcspark.corpus.parquet_footers import Footers, read_footers
from xmcspark.corpus.read_errors_spark import whole_text
from xmcspark.errors import InputError
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.session import slots_of
from xmcspark.store.stage import Context

FORMATS = "Parquet (.parquet, or a folder of it), .json or .json.gz lines, or .txt with one text a line"
_SMALL_BYTES = 4 << 20
_PIECE_BYTES = 128 << 20  # a row group as most writers make it
# What Spark 3.5 and 4 say of a file that is not what it should be, and where they name it.
_DAMAGED = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|CANNOT_READ_FOOTER|Could not read footer|is not a Parquet file|"
    r"UNABLE_TO_INFER_SCHEMA|Unexpected end of input stream|EOFException|not in GZIP format|incorrect header check"
)
_FILE = re.compile(r"((?:[a-z][a-z0-9]*):/[^\s,;'\"]+)")


def found(context: Context, setting: str) -> str | None:
    """URI of what `input.<setting>` names; None if it names nothing, InputError if there is nothing there."""
    path = getattr(context.config.input, setting)
    if path is None:
        return None
    uri = context.fs.qualified(path)
    if not context.fs.exists(uri):
        raise InputError(
            f"input.{setting}: {path} does not exist (looked at {uri}); give an existing file or folder"
        )
    if not any(entry.size for entry in context.fs.walk(uri)):
        raise InputError(f"input.{setting}: {path} holds no data: {FORMATS} is needed")
    return uri


def format_of(fs: Filesystem, uri: str, setting: str) -> str:
    """parquet, json or text, by the file's name; a folder is what its files are."""
    formats = set()
    for entry in fs.walk(uri):
        name = entry.name.lower().removesuffix(".gz")
        if name.endswith((".parquet", ".parq", ".pq")):
            formats.add("parquet")
        elif name.endswith((".json", ".jsonl", ".ndjson")):
            formats.add("json")
        elif name.endswith((".txt", ".raw")):
            formats.add("text")
        else:
            raise InputError(f"input.{setting}: {entry.uri} is of no known format: {FORMATS} is needed")
    if len(formats) != 1:
        raise InputError(
            f"input.{setting}: {uri} mixes {', '.join(sorted(formats))}: give files of one format"
        )
    return formats.pop()


def listing(fs: Filesystem, uri: str) -> list[tuple[str, int, int]]:
    """What tells one state of the files from another without reading them."""
    return [(entry.uri, entry.size, entry.modified) for entry in fs.walk(uri)]


def read_parquet(context: Context, setting: str, uri: str, columns: dict[str, str]) -> DataFrame:
    """A table that has the named columns of the named kinds: text, key, keys, numbers; a "?" at the end allows that the
    column is not there."""
    frame, there = _with_schema(context, setting, uri, list(columns))
    problems = []
    for name, wanted in columns.items():
        if name not in there:
            if not wanted.endswith("?"):
                problems.append(f"there is no column {name} (there are {', '.join(there)})")
            continue
        kind = frame.schema[name].dataType
        if not _is_kind(kind, wanted.rstrip("?")):
            problems.append(f"column {name} is {kind.simpleString()}, expected {_WORDS[wanted.rstrip('?')]}")
    if problems:
        raise InputError(
            f"input.{setting} ({uri}): {'; '.join(problems)}; rename or cast columns, for example with a "
            "query of Spark SQL whose result is written as Parquet"
        )
    return frame


def footers_of(fs: Filesystem, uri: str) -> Footers | None:
    """Of Parquet files on this machine; None elsewhere."""
    files = [fs.local_path(entry.uri) for entry in fs.walk(uri) if entry.size]
    return read_footers([file for file in files if file]) if all(files) else None


def is_small(fs: Filesystem, uris: Iterable[str]) -> bool:
    """Whether one task reads it in no time: then nothing needs to be shuffled."""
    return sum(entry.size for uri in uris for entry in fs.walk(uri)) <= _SMALL_BYTES


def spread(context: Context, uri: str, frame: DataFrame) -> DataFrame:
    """Over all slots, if the files have too few row groups for that: a task reads whole ones, and what is written in
    as few pieces would be read so by all that follows."""
    slots = slots_of(context.spark)
    if is_small(context.fs, [uri]):
        return frame
    footers = footers_of(context.fs, uri)
    pieces = (
        footers.row_groups
        if footers is not None
        else sum(-(-entry.size // _PIECE_BYTES) for entry in context.fs.walk(uri))
    )
    return frame if pieces >= slots else frame.repartition(2 * slots, "id")


def _with_schema(context: Context, setting: str, uri: str, names: list[str]) -> tuple[DataFrame, list[str]]:
    """The table, and the names of all its columns. Spark would start a job to read one footer."""
    footers = footers_of(context.fs, uri)
    if footers is not None:
        there = footers.columns
        types = {name: there[name] for name in names if name in there}
        if types and all(types.values()):
            schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
            return context.spark.read.schema(schema).parquet(uri), list(there)
    with clear_read_errors(f"input.{setting}"):
        frame = context.spark.read.parquet(uri)
    return frame, frame.columns


_WORDS = {
    "text": "string",
    "key": "string or integer",
    "keys": "a list of integers or strings",
    "numbers": "a list of numbers",
}


def _is_kind(kind: DataType, wanted: str) -> bool:
    if wanted == "text":
        return isinstance(kind, StringType)
    if wanted == "key":
        return isinstance(kind, (StringType, IntegralType))
    if not isinstance(kind, ArrayType):
        return False
    if wanted == "keys":
        return _is_kind(kind.elementType, "key")
    return isinstance(kind.elementType, (IntegralType, FractionalType, DecimalType))


@contextmanager
def clear_read_errors(what: str) -> Iterator[None]:
    """Turns Spark's account of a damaged file into one that names the file and the remedy."""
    try:
        yield
    except Exception as error:  # of several classes, and not the same in each release of Spark
        if isinstance(error, InputError) or not _DAMAGED.search(text := whole_text(error)):
            raise
        # Spark 3.5 names what it was writing first.
        named = [found.group(1).rstrip(".:)") for found in _FILE.finditer(text)]
        read = next((name for name in named if "/scratch/" not in name), "a file")
        raise InputError(
            f"{what}: {read} cannot be read: damaged, cut off, or not "
            "of the format its name says; write it again or take it away"
        ) from error
