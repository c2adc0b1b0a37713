"""What a repetition is expected to take has all that is large in it."""

from dataclasses import replace

from xmcspark.mach.repetition import Part
from xmcspark.mach.settings import MachSettings
from xmcspark.mach.task_memory import repetition_bytes

ROWS, NNZ, TARGETS = 1_000_000, 40_000_000, 3_000_000
PART = Part(0, 0, 20_000, 10_000_000, 500_000)
MLP = MachSettings(learner="mlp", batch_size=256, hidden=64)


def _bytes(settings, part=PART):
    return repetition_bytes(part, settings, ROWS, NNZ, TARGETS, threads=1)


def test_hashed_inputs_are_held_beside_those_that_came():
    hashed = replace(PART, hashed_features=PART.features)
    for settings in (MachSettings(), MLP):
        assert _bytes(settings, hashed) - _bytes(settings) >= 8 * NNZ


def test_a_batch_of_the_network_has_a_number_for_each_bucket_several_times():
    more = _bytes(replace(MLP, batch_size=4 * 256)) - _bytes(MLP)
    assert more >= 4 * 5 * 3 * 256 * PART.buckets
    assert _bytes(replace(MLP, batch_size=2 * ROWS)) == _bytes(replace(MLP, batch_size=ROWS))
