"""Whether Gandalf helps on this data, found out on held-out instances. It can hurt: where what an entity is related to
differs from what occurs together with it, its postulate (paper 5, 1.3.1) fails. Decides by which rule the augmentation
is used, and says why in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.labels.augmented_training import (
    Instances,
    Learner,
    label_instances,
    no_entries,
    no_instances,
    trained_on,
)
from xmcspark.labels.draws import streams, uniform
from xmcspark.matchers.exclusion import drop_entries, holds
from xmcspark.matchers.predictions import Predictions
from xmcspark.matchers.targets import nonzero, pattern, select
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.quality.metrics import evaluate
from xmcspark.quality.propensity import label_counts
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows

if TYPE_CHECKING:
    from xmcspark.config.configuration import Config

MOST_LOST = 0.01  # of P@1, for a better PSP@5
_NORMAL_95 = 1.959963984540054
_TOP = 5


@dataclass(frozen=True)
class Trial:
    """What was found, and what follows from it."""

    instances: int  # held out
    plain: dict[
        str, float
    ]  # P@1, P@5, PSP@5 and coverage@5 without it, in 0..1; empty if nothing was compared
    augmented: dict[str, float]  # the same with it
    gain: float  # of P@1 by the augmentation
    low: float  # its 95% interval, paired over instances
    high: float
    use: bool
    why: str

    def facts(self) -> dict[str, Any]:
        """For JSON; `Trial(**facts)` is the same again."""
        return asdict(self)


def try_augmentation(
    texts: Sequence[str],
    Y: Any,
    label_texts: Sequence[str | None],
    row_keys: np.ndarray,
    config: Config,
    *,
    excluded: Any = None,
    threads: int = 1,
) -> Trial:
    """Trains with and without the augmentation on most instances and compares on the others.

    The augmentation is used if its P@1 is not significantly worse (the 95% interval of the paired difference reaches
    0) and either P@1 is better, or PSP@5 is better and P@1 loses no more than 1 point.

    Y and `excluded` (never predicted, never true): instances x labels; `label_texts`: of each column, None where there
    is none. Held out are `augment.validation_share` of the instances by hash of seed and key; of more than
    `augment.trial_rows` instances that many are used. Labels that only held-out instances have do not count: a run
    has a positive for each label it trains, and there the augmentation would win without merit. The order of rows does
    not matter. One tree is trained, whatever the ensemble. If nothing can be compared, the augmentation is not used.
    """
    positives = as_csr(Y, "Y", rows=len(texts), cols=len(label_texts))
    if len(row_keys) != len(texts):
        raise InputError(f"there are {len(row_keys)} row keys for {len(texts)} texts: one each is needed")
    observed = Instances(texts, pattern(nonzero(positives)), np.asarray(row_keys, np.int64))
    chosen = _chosen(observed.keys, config.augment.trial_rows, config.seed)
    drawn = uniform(streams(config.seed, "validation", observed.keys[chosen]))
    held = drawn < config.augment.validation_share
    fit = observed.take(chosen[~held])
    known = label_counts(fit.Y) > 0
    out, truth, never = _judged(observed, chosen[held], known, excluded)
    named = np.array([bool(text and text.strip()) for text in label_texts], bool)
    if not named.any() or not len(out.keys):
        reason = "there are too few instances" if named.any() else "no label has a text"
        return Trial(len(out.keys), {}, {}, 0.0, 0.0, 0.0, False, f"{reason}, so nothing could be compared")
    learner = Learner(config, out.texts, never, _TOP, threads)
    made = label_instances(fit, label_texts, named & known, config.augment, config.seed, threads)
    plain = learner.predictions(fit, no_instances(len(label_texts)))
    augmented = learner.predictions(*trained_on(fit, made, config.augment, config.seed))
    return _compared(plain, augmented, truth, fit.Y, config)


def _judged(
    observed: Instances, rows: np.ndarray, known: np.ndarray, excluded: Any
) -> tuple[Instances, Csr, Csr]:
    """(held-out instances, their true labels, those excluded for them), of instances that have a true label left."""
    out = observed.take(rows)
    never = no_entries(out.Y.shape)
    if excluded is not None:
        never = take_rows(as_csr(excluded, "excluded", rows=observed.Y.shape[0], cols=len(known)), rows)
    truth = drop_entries(select(out.Y, known[out.Y.indices]), never)
    left = np.flatnonzero(np.diff(truth.indptr))
    return out.take(left), take_rows(truth, left), take_rows(never, left)


def decision(
    plain: dict[str, float], augmented: dict[str, float], gain: float, low: float, high: float, instances: int
) -> tuple[bool, str]:
    """The rule of `try_augmentation`, and the sentence that says what it came to."""
    better_tail = augmented["PSP@5"] > plain["PSP@5"]
    if high < 0:
        use, reason = False, "P@1 is significantly worse"
    elif gain > 0:
        use, reason = True, "P@1 is better"
    elif better_tail and gain >= -MOST_LOST:
        use, reason = True, "PSP@5 is better, and P@1 no more than 1 point worse"
    elif better_tail:
        use, reason = False, "PSP@5 is better, but P@1 more than 1 point worse"
    else:
        use, reason = False, "neither P@1 nor PSP@5 is better"
    changes = [
        f"{name} from {100 * plain[name]:.2f} to {100 * augmented[name]:.2f}"
        for name in ("P@1", "PSP@5", "coverage@5")
    ]
    return use, (
        f"{reason}: on {instances} held-out instances {', '.join(changes)}; P@1 changes by {100 * gain:+.2f}, 95% "
        f"interval {100 * low:+.2f} to {100 * high:+.2f}"
    )


def _compared(plain: Predictions, augmented: Predictions, truth: Csr, fit: Csr, config: Config) -> Trial:
    weights = config.evaluate
    profile = LabelProfile.from_counts(
        label_counts(fit), fit.shape[0], weights.propensity, A=weights.propensity_a, B=weights.propensity_b
    )
    gain, low, high = _paired_gain(_first_hits(plain, truth), _first_hits(augmented, truth))
    both = _qualities(plain, truth, profile), _qualities(augmented, truth, profile)
    use, why = decision(*both, gain, low, high, truth.shape[0])
    return Trial(truth.shape[0], *both, gain, low, high, use, why)


def _chosen(row_keys: np.ndarray, most: int, seed: int) -> np.ndarray:
    """The rows of the trial, in the order of their keys."""
    order = np.argsort(row_keys, kind="stable")
    if len(order) <= most:
        return order
    drawn = uniform(streams(seed, "trial", row_keys[order]))
    return order[np.sort(np.argsort(drawn, kind="stable")[:most])]


def _first_hits(predictions: Predictions, truth: Csr) -> np.ndarray:
    """int64: 1 for each row whose best label is true."""
    return holds(truth, predictions.labels[:, :1])[:, 0].astype(np.int64)


def _paired_gain(before: np.ndarray, after: np.ndarray) -> tuple[float, float, float]:
    """Mean difference and its 95% interval (normal approximation over rows)."""
    changes = after - before
    n = len(changes)
    gain = int(changes.sum()) / n
    half = _NORMAL_95 * math.sqrt(max(0.0, int((changes * changes).sum()) / n - gain * gain) / n)
    return gain, gain - half, gain + half


def _qualities(predictions: Predictions, truth: Csr, profile: LabelProfile) -> dict[str, float]:
    rows = evaluate(predictions, truth, profile, ks=(1, _TOP), metrics=("P", "PSP", "coverage"))
    found = {f"{row.metric}@{row.k}": row.value for row in rows if row.bin == "all"}
    return {name: found[name] for name in ("P@1", "P@5", "PSP@5", "coverage@5")}
