"""Settings of UniDEC: every default has a source or a reason, contradictions are told, torch is not needed."""

import subprocess
import sys
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from xmcspark.config.configuration import load
from xmcspark.config.setting import declaration_of
from xmcspark.errors import ConfigError
from xmcspark.neural import available
from xmcspark.neural.encode_spark import check_labels
from xmcspark.neural.unidec.settings import UnidecSettings


def test_defaults_are_those_of_the_paper():
    found = UnidecSettings()
    assert (found.positives, found.hard_negatives, found.refresh_epochs) == (3, 6, 5)
    assert (found.dual_share, found.classifier_share, found.share) == (0.5, 0.5, 0.5)
    assert (found.head_learning_rate, found.table_learning_rate) == (2e-4, 1e-3)
    assert (found.pool_size, found.classifier_pool_size) == (None, 4096)
    assert found.mined == 30
    assert [UnidecSettings(refresh_epochs=tau).mined for tau in (1, 7)] == [30, 42]
    assert replace(found, refresh_epochs=1, mined_negatives=40).mined == 40
    assert replace(found, hard_negatives=0, mined_negatives=40).mined == 0


def test_every_setting_says_what_it_means():
    assert all(declaration_of(field) is not None for field in fields(UnidecSettings))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"heads": ()}, "a list of dual, classifier or both"),
        ({"heads": ("dual", "dual")}, "a list of dual, classifier or both"),
        ({"heads": ("tail",)}, "a list of dual, classifier or both"),
        ({"heads": "dual"}, "a list of dual, classifier or both"),
        ({"extend": 0.5, "heads": ("dual",)}, "a dual head is extended by a classifier"),
        ({"space": "dual", "heads": ("classifier",)}, "what is not trained cannot be searched"),
        ({"glas": 0.1, "heads": ("dual",)}, "it is about the classifier"),
        ({"reduction": "pal", "pool_size": 100}, "leave one out"),
        ({"share": 1.5}, "at most"),
        ({"mined_negatives": 5}, "drawn from those"),
    ],
)
def test_contradictions_are_told(changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        replace(UnidecSettings(), **changes)


def test_settings_are_read_without_torch():
    code = "import sys, xmcspark.neural.unidec.settings; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_is_missing_is_known_before_anything_runs(monkeypatch):
    monkeypatch.setattr(available, "find_spec", lambda name: None if name == "faiss" else object())
    asked = UnidecSettings(enabled=True, search="approximate")
    with pytest.raises(
        ConfigError, match=r"unidec.search approximate \(exact needs nothing more\) needs faiss"
    ):
        asked.require_packages()
    auto = replace(asked, search="auto")
    auto.require_packages()
    auto.check_labels(49_999)
    with pytest.raises(
        ConfigError, match=r"unidec.search auto of 50,000 labels \(exact needs nothing more\) needs"
    ):
        auto.check_labels(50_000)


def test_torch_is_asked_for_before_labels_are_looked_at(monkeypatch, tmp_path):
    monkeypatch.setattr(available, "find_spec", lambda name: None if name == "torch" else object())
    config = load(None, ["method=unidec", f"encoder.model={tmp_path}"])
    with pytest.raises(ConfigError, match=r"method: unidec needs torch.*setup --extras neural"):
        check_labels(SimpleNamespace(config=config))


def test_which_settings_decide_what_is_learned():
    keys = UnidecSettings().training_keys(checked=False)
    assert {"heads", "positives", "search", "recall"} <= set(keys)
    assert not {"enabled", "recompute", "texts_at_once", "space"} & set(keys)
    assert set(UnidecSettings().training_keys(checked=True)) - set(keys) == {"space"}


@pytest.mark.parametrize(
    ("head", "change"),
    [
        ("classifier", {"classifier_width": 9}),
        ("classifier", {"classifier_pool_size": 9}),
        ("classifier", {"classifier_loss": "supcon"}),
        ("classifier", {"bce": 0.0}),
        ("classifier", {"classifier_share": 0.1}),
        ("classifier", {"table_learning_rate": 0.1}),
        ("classifier", {"start_from_text": False}),
        ("dual", {"dual_width": 9}),
        ("dual", {"without_text": "leave-out"}),
        ("dual", {"dual_loss": "supcon"}),
        ("dual", {"dual_share": 0.1}),
        ("dual", {"share": 0.1}),
        ("classifier", {"share": 0.1}),
    ],
)
def test_settings_of_a_head_that_is_not_trained_decide_nothing(head, change):
    (other,) = {"dual", "classifier"} - {head}
    without = UnidecSettings(heads=(other,))
    assert without.decisive(checked=False) == replace(without, **change).decisive(checked=False)
    both = UnidecSettings()
    assert both.decisive(checked=False) != replace(both, **change).decisive(checked=False)
    alone = UnidecSettings(heads=(head,))
    decides = "share" not in change  # of both heads
    assert (alone.decisive(checked=False) != replace(alone, **change).decisive(checked=False)) == decides


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 4096),
        ({"pool_size": 5000}, 5000),
        ({"pool_size": 100, "classifier_pool_size": None}, 100),
        ({"classifier_pool_size": None}, None),
        ({"heads": ("dual",)}, None),
    ],
)
def test_what_the_classifiers_pool_is_filled_up_to(changes, expected):
    assert replace(UnidecSettings(), **changes).classifier_pool == expected
