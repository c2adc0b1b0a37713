"""What recovery takes is known before it is made, and labels are cut so that it fits."""

import numpy as np
import pytest

from xmcspark.mach.hashing import BucketHash
from xmcspark.mach.recovery import Recovery
from xmcspark.mach.recovery_memory import labels_that_fit, recovery_bytes
from xmcspark.mach.settings import MachSettings

FAST, EXACT = MachSettings(), MachSettings(recovery="exact")


@pytest.mark.parametrize(("labels", "buckets", "repetitions"), [(50_000, 300, 4), (1_100_000, 70_000, 2)])
def test_the_estimate_is_what_recovery_holds(labels, buckets, repetitions):
    recovery = Recovery([BucketHash(buckets, 0, r) for r in range(repetitions)], np.ones(labels, bool))
    for settings, held in ((FAST, recovery.fast_bytes), (EXACT, recovery.exact_bytes)):
        expected = recovery_bytes(settings, labels, buckets, repetitions)
        assert held <= expected <= held + 10 * labels


@pytest.mark.parametrize("settings", [FAST, EXACT])
def test_ranges_are_as_large_as_fit(settings):
    whole = recovery_bytes(settings, 50_000_000, 1000, 32)
    assert labels_that_fit(settings, 50_000_000, 1000, 32, whole) == 0
    at_once = labels_that_fit(settings, 50_000_000, 1000, 32, whole / 7.5)
    assert at_once == 50_000_000 // 8
    assert recovery_bytes(settings, at_once, 1000, 32) <= whole / 7.5
    assert labels_that_fit(settings, 50_000_000, 1000, 32, 1) == 1 << 16
    assert labels_that_fit(settings, 50_000, 1000, 32, 1) == 0  # too few to cut
