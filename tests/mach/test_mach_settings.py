"""What cannot be trained is refused by the settings, or as soon as the labels are counted."""

import pytest

from xmcspark._native import sketch
from xmcspark.errors import ConfigError
from xmcspark.mach.settings import AGGREGATES, MachSettings


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("buckets", 1),
        ("repetitions", 0),
        ("learner", "tree"),
        ("aggregate", "max"),
        ("delta", 0),
        ("delta", 1),
        ("learning_rate", 0),
        ("hashed_features", -1),
        ("hashed_features", 1),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=f"^{key} is"):
        MachSettings(**{key: value})


def test_a_label_cannot_be_found_more_often_than_there_are_repetitions():
    with pytest.raises(ConfigError, match="lower min_count"):
        MachSettings(repetitions=3, min_count=4)
    MachSettings(repetitions=3, min_count=3)


def test_there_must_be_fewer_buckets_than_labels_and_no_more_asked_for():
    settings = MachSettings(buckets=10)
    settings.check_labels(11, top_k=11)
    with pytest.raises(ConfigError) as refused:
        settings.check_labels(10, top_k=11)
    assert [problem.split(" is ")[0] for problem in refused.value.problems] == [
        "mach.buckets",
        "predict.top_k",
    ]


def test_the_aggregates_are_those_of_the_kernel():
    assert set(AGGREGATES) == set(sketch.AGGREGATES)
