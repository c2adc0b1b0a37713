"""Sums by label over a cluster: each task adds up its own rows, what belongs to one block of labels is routed to one
task once, and added there. Sums are exact, so the partitions and their order leave no trace. Label features (YᵀX)
and co-occurrence (YᵀY) are such sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from xmcspark.labels.label_sums import LabelledRows, LabelSums
from xmcspark.labels.packed_sums import BlockSums, packed_by_block
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.store.direct_tables import MappedRows
from xmcspark.store.exchange import Delivery, Sender, exchanged
from xmcspark.store.stage import Context

BLOCK_LABELS = 8192  # in a block, unless that makes too many blocks
MOST_BLOCKS = 2048
GROUP_ROWS = 1 << 16  # multiplied at once: more of them share labels, and so are added before they travel
PARTS_PER_BATCH = 512  # payloads of some ten kilobytes each

_IDS, _SUMS, _REFERRED = 0, 1, 2  # kinds of payload
_Part = tuple[int, int, int, bytes | None]
PART_COLUMNS = ("block", "kind", "cut", "payload")
PARTS = "block int, kind int, cut bigint, payload binary"
_PARTS_ARROW = pa.schema(
    [("block", pa.int32()), ("kind", pa.int32()), ("cut", pa.int64()), ("payload", pa.binary())]
)


def block_size_for(label_ids: int) -> int:
    """Labels per block: enough blocks to spread, few enough that payloads are worth their overhead."""
    return max(BLOCK_LABELS, -(-label_ids // MOST_BLOCKS))


def sent_sums(
    sums: LabelSums, block_size: int, cut: Mapping[int, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Sums of some rows as rows of PARTS; `cut`: by block, what was left out of them."""
    found: list[_Part] = [(block, _SUMS, 0, payload) for block, payload in packed_by_block(sums, block_size)]
    found += [(block, _SUMS, count, None) for block, count in (cut or {}).items()]
    yield from _part_rows(found)


def sent_referred(
    payloads: Iterable[tuple[int, bytes]], cut: Mapping[int, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """As `sent_sums`, of `referred_by_block`."""
    found: list[_Part] = [(block, _REFERRED, 0, payload) for block, payload in payloads]
    found += [(block, _REFERRED, count, None) for block, count in (cut or {}).items()]
    yield from _part_rows(found)


def sent_ids(ids: np.ndarray, block_size: int) -> Iterator[pa.RecordBatch]:
    """Labels that are to be there even if no row has them, as rows of PARTS."""
    of = ids // block_size
    yield from _part_rows([(int(block), _IDS, 0, packed(ids[of == block])) for block in np.unique(of)])


@contextmanager
def routed(context: Context, senders: Sequence[Sender], tasks: int) -> Iterator[MappedRows]:
    """Rows of PARTS: all that belongs to a block in one task, block after block."""
    delivery = Delivery("block", tasks, partial(_task_of_block, tasks), "block")
    with exchanged(context, senders, PARTS, delivery) as rows:
        yield rows


def _task_of_block(tasks: int, blocks: np.ndarray) -> np.ndarray:
    return np.asarray(blocks % tasks)


def received(
    batches: Iterable[pa.RecordBatch],
    block_size: int,
    cols: int,
    threads: int,
    rows_of: Callable[[object], LabelledRows] | None = None,
    grid: float | None = None,
) -> Iterator[tuple[np.ndarray, BlockSums, int]]:
    """(ids sent for it, increasing; its sums; what was cut) of one block after the other, from `routed` rows.
    `rows_of`: finds the rows of a payload of `sent_referred`, which are added up on the grid."""
    rows = (row for batch in batches for row in zip(*(batch.column(i) for i in range(4)), strict=True))
    for number, block in groupby(rows, key=lambda row: row[0].as_py()):
        ids, left_out = [np.zeros(0, np.int32)], 0
        sums = BlockSums(number, block_size, cols, threads, grid)
        for _, kind, cut, payload in block:
            left_out += cut.as_py()
            if kind.as_py() == _IDS:
                ids.append(unpacked(payload.as_buffer())[0])
            elif payload.is_valid:
                if kind.as_py() == _REFERRED and rows_of is not None:
                    sums.add_rows(rows_of(payload.as_buffer()))
                else:
                    sums.add(payload.as_buffer())
        yield np.sort(np.concatenate(ids)), sums, left_out


def _part_rows(parts: list[_Part]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(parts), PARTS_PER_BATCH):
        columns = zip(*parts[start : start + PARTS_PER_BATCH], strict=True)
        arrays = [pa.array(c, kind) for c, kind in zip(columns, _PARTS_ARROW.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_PARTS_ARROW)
