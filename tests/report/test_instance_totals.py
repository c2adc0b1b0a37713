"""Totals of instances in Arrow are those of a loop over them, however they come in batches."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.report.instance_totals import instance_totals

INSTANCES = st.lists(
    st.tuples(st.sampled_from(["train", "test"]), st.integers(0, 9), st.text(max_size=9) | st.none())
)


@given(INSTANCES, st.integers(1, 5))
def test_totals_are_those_of_a_loop(instances, size):
    batches = [
        pa.RecordBatch.from_pydict(
            {
                "split": pa.array([split for split, _, _ in some]),
                "labels": pa.array([list(range(count)) for _, count, _ in some], pa.list_(pa.int32())),
                "text": pa.array([text for _, _, text in some], pa.string()),
            }
        )
        for first in range(0, len(instances), size)
        for some in [instances[first : first + size]]
    ]
    expected = defaultdict(list)
    for split, labels, text in instances:
        length = len(text or "")
        expected[split, labels.bit_length(), length.bit_length()].append((labels, length))
    found = [row for batch in instance_totals(iter(batches)) for row in batch.to_pylist()]
    assert {(row["split"], row["labels_place"], row["length_place"]) for row in found} == set(expected)
    assert len(found) == len(expected)
    for row in found:
        pairs = expected[row["split"], row["labels_place"], row["length_place"]]
        for name, numbers in zip(("labels", "length"), zip(*pairs, strict=True), strict=True):
            total = (len(numbers), sum(numbers), max(numbers))
            assert (row[f"{name}_count"], row[f"{name}_sum"], row[f"{name}_max"]) == total
