"""Hashes of rows are Spark's, whoever works them out."""

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from xmcspark.sparse.row_hash import instance_hashes, text_hashes

TEXTS = ["", "a", "abcd", "abcdefg", "é" * 9, "x" * 31, "y" * 32, "z" * 77, "🙂 mixed ünïcode text " * 5]
LABELS = [[], [0], [2**31 - 1, 5], [1, 2, 3], [], [7], [8, 9], [-1], [4]]
RELEVANCE = [[float(label % 7) / 4 for label in labels] for labels in LABELS]


def test_hashes_are_those_of_spark(spark):
    schema = "text string, labels array<int>, relevance array<float>"
    frame = spark.createDataFrame(list(zip(TEXTS, LABELS, RELEVANCE, strict=True)), schema)
    rows = frame.select("text", F.xxhash64("text"), F.xxhash64("text", "labels", "relevance")).collect()
    wanted = {row[0]: (row[1], row[2]) for row in rows}
    texts = pa.array(TEXTS)
    both = instance_hashes(
        texts, pa.array(LABELS, pa.list_(pa.int32())), pa.array(RELEVANCE, pa.list_(pa.float32()))
    )
    found = zip(text_hashes(texts).tolist(), both.tolist(), strict=True)
    assert dict(zip(TEXTS, found, strict=True)) == wanted


def test_a_slice_has_the_hashes_of_its_rows():
    texts = pa.array(TEXTS)
    assert np.array_equal(text_hashes(texts[3:6]), text_hashes(texts)[3:6])
    labels = pa.array(LABELS, pa.list_(pa.int32()))
    ones = pa.array([[1.0] * len(row) for row in LABELS], pa.list_(pa.float32()))
    whole = instance_hashes(texts, labels, ones)
    assert np.array_equal(instance_hashes(texts[2:7], labels[2:7], ones[2:7]), whole[2:7])
