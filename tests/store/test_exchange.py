"""What tasks send arrives whole and in order at the task it is for, through files or through Spark's shuffle."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from xmcspark.config.configuration import load
from xmcspark.store import exchange
from xmcspark.store.direct_tables import FrameRows
from xmcspark.store.exchange import Delivery, Sender, exchanged
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runs import Run
from xmcspark.store.stage import Context, Stage

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test

STAGE = Stage("train", 1, (), (), (), lambda context: None)
SCHEMA = "block int, payload binary"
RECEIVERS = 3


def _sent(text, batches):
    """Each number goes to block number % 7, with a payload that says where it came from."""
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        payloads = pa.array([f"{text}{number}".encode() * 3 for number in numbers], pa.binary())
        yield pa.RecordBatch.from_arrays(
            [pa.array((numbers % 7).astype(np.int32)), payloads], ["block", "payload"]
        )


def _received(batches):
    """One row for each task: its blocks in the order in which they came, and its payloads."""
    blocks, payloads = [], []
    for batch in batches:
        blocks += batch.column("block").to_pylist()
        payloads += [payload.decode() for payload in batch.column("payload").to_pylist()]
    columns = [pa.array([blocks], pa.list_(pa.int32())), pa.array([payloads], pa.list_(pa.string()))]
    yield pa.RecordBatch.from_arrays(columns, ["blocks", "payloads"])


def _receiver(blocks):
    return blocks % RECEIVERS


@pytest.mark.parametrize("through", ["files", "shuffle"])
def test_everything_arrives_once_and_in_order(spark, tmp_path, monkeypatch, through):
    if through == "shuffle":
        monkeypatch.setattr(exchange, "MOST_RECEIVERS", 0)
    context = Context(spark, load(None, []), Run(Filesystem(spark), str(tmp_path), "r"), STAGE)
    senders = [
        Sender(FrameRows(spark.range(0, 100, 1, 4)), ("id",), partial(_sent, "a")),
        Sender(FrameRows(spark.range(0, 5, 1, 8)), ("id",), partial(_sent, "b")),  # tasks that send nothing
    ]
    delivery = Delivery("block", RECEIVERS, _receiver, "block")
    with exchanged(context, senders, SCHEMA, delivery) as rows:
        found = rows.map(
            ("block", "payload"), _received, "blocks array<int>, payloads array<string>"
        ).collect()
    assert len(found) == RECEIVERS
    for row in found:
        assert row.blocks == sorted(row.blocks)
    everything = [payload for row in found for payload in row.payloads]
    assert sorted(everything) == sorted([f"a{n}" * 3 for n in range(100)] + [f"b{n}" * 3 for n in range(5)])
    assert sum(len(set(row.blocks)) for row in found) == 7  # no block in two tasks
    assert not list(Path(tmp_path).rglob("*.arrow"))  # nothing is left behind
    sent = sum(map(len, everything))
    assert sum(context.exchanged) > sent if through == "files" else not context.exchanged
