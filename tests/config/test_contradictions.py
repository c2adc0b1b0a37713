"""What sections say against each other is told all at once, with what to do."""

import pytest

from xmcspark.config.configuration import default_config, load
from xmcspark.config.skeleton import skeleton
from xmcspark.config.yaml_text import parse
from xmcspark.errors import ConfigError


def problems(*overrides):
    with pytest.raises(ConfigError) as refused:
        load(None, list(overrides))
    return refused.value.problems


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (("ensemble.members=0",), "nothing to train"),
        (("method=unidec", "mach.enabled=true"), "a sketch reads TF-IDF only"),
        (
            ("method=unidec", "xr_transformer.enabled=true"),
            "xr_transformer.enabled and unidec.enabled are both true",
        ),
        (
            ("method=x-transformer", "unidec.enabled=true"),
            "x_transformer.enabled and unidec.enabled are both true",
        ),
        (("method=unidec", "encoder.enabled=false"), "unidec.enabled is true but encoder.enabled is false"),
        (
            ("method=unidec", "ensemble.members=1", "ensemble.fusion=average"),
            "average with unidec.enabled: its scores may be negative",
        ),
        (
            ("method=unidec", "ensemble.members=1", "predict.mode=routed"),
            "the index of labels is searched as a whole",
        ),
        (
            ("method=unidec", "unidec.batch_size=6", "encoder.processes=4"),
            "set unidec.batch_size to 8 or more",
        ),
        (("method=unidec", "augment.mixup=mixup"), "a mixture of two texts has no embedding"),
        (("method=unidec", "unidec.heads=[dual]", "unidec.extend=0.5"), "unidec.extend is 0.5"),
        (("method=x-transformer", "train.negatives=tfn"), "set predict.path_weight to 1"),
        (("method=xr-transformer", "train.negatives=tfn"), "set predict.path_weight to 1"),
        (("method=x-transformer", "train.loss=logistic"), "whose margins are no logits"),
        (("method=dismec", "train.negatives=man"), "there are no predicted parents"),
        (
            ("method=mach", "train.negatives=tfn+man"),
            "there are no predicted parents; set train.negatives to",
        ),
        (("method=mach", "predict.mode=routed"), "the sketch is searched as a whole"),
        (
            ("ensemble.members=2", "predict.transform=identity", "predict.combine=sum"),
            "average with predict.transform identity: its scores may be negative",
        ),
        (
            ("method=mach", "ensemble.members=1", "mach.transform=log-sigmoid"),
            "average with mach.transform log-sigmoid: its scores may be negative",
        ),
        (
            ("method=mach", "ensemble.members=1", "mach.aggregate=unbiased"),
            "average with mach.aggregate unbiased: its scores may be negative",
        ),
        (
            ("method=mach", "mach.aggregate=unbiased", "mach.transform=identity"),
            "set mach.transform to sigmoid",
        ),
    ],
)
def test_a_contradiction_is_told(overrides, complaint):
    assert any(complaint in problem for problem in problems(*overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        ("predict.transform=identity", "predict.combine=sum"),  # nothing to average
        ("method=mach", "mach.transform=identity"),
        ("method=mach", "mach.aggregate=unbiased", "mach.transform=l3-hinge"),
        ("method=mach", "predict.transform=identity", "predict.combine=sum"),  # of no tree
        ("method=mach", "ensemble.members=1"),
        ("method=mach", "ensemble.members=1", "ensemble.fusion=rank", "mach.transform=identity"),
    ],
)
def test_what_does_no_harm_is_not_refused(overrides):
    load(None, list(overrides))


def test_all_contradictions_are_told_at_once():
    wrong = (
        "unidec.batch_size=6",
        "encoder.processes=4",
        "xr_transformer.enabled=true",
        "augment.mixup=mixup",
    )
    assert len(problems("method=unidec", *wrong)) == 3


def test_the_preset_has_no_tree_and_one_may_stand_beside():
    preset = default_config("unidec")
    assert (preset.encoder.enabled, preset.unidec.enabled, preset.ensemble.members) == (True, True, 0)
    assert load(None, ["method=unidec", "ensemble.members=1"]).ensemble.fusion == "normalised"


def test_the_skeleton_of_unidec_has_its_settings():
    text = skeleton("unidec")
    assert "\nunidec:\n" in text
    heads = next(line for line in text.splitlines() if line.startswith("  heads:"))
    assert parse(heads.strip(), "skeleton") == {"heads": ["dual", "classifier"]}
