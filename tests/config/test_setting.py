"""Settings declared with `setting` check themselves: types, choices, ranges and contradictions, all at once."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest

from xmcspark.config.setting import Rule, check_settings, problems_of, setting
from xmcspark.errors import ConfigError
from xmcspark.matchers.scoring import TRANSFORMS, Scoring
from xmcspark.matchers.settings import PredictSettings, TrainSettings


@dataclass(frozen=True)
class Example:
    share: float = setting(0.5, "A share.", minimum=0, maximum=1)
    count: int | None = setting(None, "How many.", minimum=1)
    kind: str = setting("a", "Which.", choices=("a", "b"))
    sizes: tuple[int, ...] = setting((1,), "Sizes.")
    bounds: tuple[int, int] = setting((1, 2), "From and to.")
    mode: Literal["x", "y"] = setting("x", "Mode.")
    on: bool = setting(True, "Whether.")
    even: int = setting(2, "Even.", rule=Rule(lambda value: value in (2, 4), "an even number below 5"))

    def contradictions(self):
        return ["kind=b with on=false"] if self.kind == "b" and not self.on else []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": -1}, "share is -1: it must not be negative"),
        ({"share": 1.5}, "share is 1.5: it must be at most 1"),
        ({"share": float("nan")}, "share is nan: expected a number"),
        ({"share": float("inf")}, "share is inf: expected a number"),
        ({"share": True}, "share is true: expected a number"),
        ({"share": None}, "share is null: expected a number"),
        ({"count": 0}, "count is 0: it must be at least 1"),
        ({"count": 1.0}, "count is 1.0: expected a whole number or null"),
        ({"kind": "c"}, "kind is 'c': choose one of 'a', 'b'"),
        ({"kind": ["a"]}, "kind is ['a']: choose one of 'a', 'b'"),
        ({"sizes": (1, "2")}, "sizes is [1, '2']: expected a list, each a whole number"),
        ({"bounds": (1,)}, "bounds is [1]: expected a list of 2: a whole number, a whole number"),
        ({"mode": "z"}, "mode is 'z': expected one of 'x', 'y'"),
        ({"on": 1}, "on is 1: expected true or false"),
        ({"even": 3}, "even is 3: expected an even number below 5"),
        ({"even": "2"}, "even is '2': expected an even number below 5"),
        ({"kind": "b", "on": False}, "kind=b with on=false"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(change, message):
    assert problems_of(replace(Example(), **change)) == [message]
    assert problems_of(replace(Example(), **change), "part") == [f"part.{message}"]


@pytest.mark.parametrize(
    "change",
    [{"share": 1}, {"share": np.float32(0.25)}, {"count": np.int64(3)}, {"sizes": ()}, {"bounds": [3, 4]}],
)
def test_values_that_lose_nothing_are_accepted(change):
    assert problems_of(replace(Example(), **change)) == []


def test_all_problems_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        check_settings(Example(share=2, count=-1, on="no"))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "change",
    [{"loss": "l1"}, {"cost_positive": 0}, {"cost_negative": -1.0}, {"bias": -1}, {"tolerance": 0}, {"max_sweeps": 0},
     {"threshold": -0.1}, {"max_weights": -1}, {"negatives": "all"}, {"man_beam": 0}, {"cost_sensitive": 1},
     {"alpha": 0}, {"seed": -1}, {"max_sweeps": 1.5}, {"threshold": "0.1"}],
)  # fmt: skip
def test_training_refuses_what_it_cannot_do(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        TrainSettings(**change)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_products_of_scores_of_either_sign_are_refused(transform):
    Scoring(transform, "sum")
    if transform == "identity" or transform.startswith("log-"):
        with pytest.raises(ConfigError, match="use combine=sum"):
            PredictSettings(transform, "product")
    else:
        assert PredictSettings(transform, "product").kernel_form == Scoring(transform).kernel_form
