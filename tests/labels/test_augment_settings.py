"""Settings of augmentation: what goes together, and what is refused before anything runs."""

import pytest

from xmcspark.errors import ConfigError
from xmcspark.labels import AugmentSettings


@pytest.mark.parametrize("value", [True, False, "auto"])
def test_gandalf_is_on_off_or_to_be_decided(value):
    assert AugmentSettings(gandalf=value).gandalf is value


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gandalf": "yes"}, "true, false or auto"),
        ({"gandalf": 1}, "true, false or auto"),
        ({"delta": 1.0}, "from 0 to below 1"),
        ({"delta": True}, "from 0 to below 1"),
        ({"share": 0.0}, "above 0"),
        ({"targets": "soft"}, "gandalf"),
        ({"max_labels": 0}, "at least 1"),
    ],
)
def test_values_out_of_range_are_refused_with_what_would_be_right(wrong, message):
    with pytest.raises(ConfigError, match=message):
        AugmentSettings(**wrong)


def test_mixtures_and_label_texts_are_alternatives():
    assert AugmentSettings(mixup="mixup").mixup == "mixup"
    with pytest.raises(ConfigError, match=r"augment\.gandalf to false or augment\.mixup to none"):
        AugmentSettings(mixup="label-mixup", gandalf=True)


def test_a_decision_needs_held_out_instances():
    with pytest.raises(ConfigError, match=r"augment\.validation_share") as told:
        AugmentSettings(gandalf="auto", validation_share=0.0)
    assert str(told.value).count("nothing to decide by") == 1
    assert AugmentSettings(gandalf=True, validation_share=0.0).validation_share == 0


def test_glas_needs_counts_that_walks_do_not_have():
    with pytest.raises(ConfigError, match=r"augment\.graph to cooccurrence"):
        AugmentSettings(targets="glas", graph="random-walk")
