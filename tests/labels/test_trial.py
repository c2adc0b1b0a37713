"""The trial of an augmentation finds out whether label texts help, says so, and is the same in any order."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.config.configuration import from_mapping
from xmcspark.errors import InputError
from xmcspark.labels.trial import Trial, decision, try_augmentation

LABELS, PER_LABEL = 80, 5


def corpus(misleading=False):
    """A label is six of a hundred words. An instance says three of its label's, the label's text all, or, where texts
    mislead, those of another label."""
    rng = np.random.default_rng(11)
    words = [[f"w{word}" for word in rng.choice(100, 6, replace=False)] for _ in range(LABELS)]
    of_row = np.repeat(np.arange(LABELS), PER_LABEL)
    texts = [" ".join(rng.choice(words[label], 3, replace=False)) for label in of_row]
    label_texts = [" ".join(words[(label + misleading) % LABELS]) for label in range(LABELS)]
    rows = len(of_row)
    Y = sp.csr_matrix((np.ones(rows, np.float32), (np.arange(rows), of_row)), (rows, LABELS))
    return texts, Y, label_texts, np.arange(rows, dtype=np.int64) * 7919


def config(**augment):
    words_only = {"vectorizers": [{"analyzer": "word", "ngram_range": [1, 1]}]}
    return from_mapping(
        {"text": words_only, "augment": {"gandalf": "auto", "validation_share": 0.4, **augment}}
    )


@pytest.fixture(scope="module")
def helpful():
    return try_augmentation(*corpus(), config())


def test_label_texts_that_say_what_instances_say_are_used(helpful):
    assert helpful.use
    assert helpful.augmented["P@1"] - helpful.plain["P@1"] == pytest.approx(helpful.gain)
    assert 0 < helpful.low < helpful.gain < helpful.high
    assert helpful.augmented["coverage@5"] > helpful.plain["coverage@5"]
    assert "P@1 is better" in helpful.why
    assert str(helpful.instances) in helpful.why
    assert 0.3 < helpful.instances / (LABELS * PER_LABEL) < 0.5


def test_label_texts_that_mislead_are_not_used():
    trial = try_augmentation(*corpus(misleading=True), config())
    assert not trial.use
    assert trial.high < 0
    assert "significantly worse" in trial.why


def test_the_trial_does_not_depend_on_the_order_of_instances(helpful):
    texts, Y, label_texts, keys = corpus()
    order = np.random.default_rng(0).permutation(len(texts))
    again = try_augmentation(
        [texts[i] for i in order], Y[order], label_texts, keys[order], config(), threads=2
    )
    assert again == helpful


def test_a_trial_travels_as_json(helpful):
    assert Trial(**json.loads(json.dumps(helpful.facts()))) == helpful


def test_label_texts_alone_teach_nothing_of_labels_that_have_none(helpful):
    texts, Y, label_texts, keys = corpus()
    half = [text if label % 2 else None for label, text in enumerate(label_texts)]
    both, alone = (try_augmentation(texts, Y, half, keys, config(training=t)) for t in ("union", "labels"))
    assert both.plain == alone.plain == helpful.plain
    assert alone.augmented["coverage@5"] < 0.6 < both.augmented["coverage@5"]


def test_a_sample_of_the_union_is_trained_on_where_asked(helpful):
    trial = try_augmentation(*corpus(), config(training="sample"))
    assert trial.plain == helpful.plain
    assert trial.plain["P@1"] < trial.augmented["P@1"] < helpful.augmented["P@1"]


def test_words_of_label_texts_only_may_count_too():
    texts, Y, label_texts, keys = corpus()
    drawn = np.random.default_rng(5).integers(12, size=len(texts))
    of_row = zip(texts, Y.indices, drawn, strict=True)
    asked = [f"{text.split()[0]} own{label}x{word}" for text, label, word in of_row]
    own = [" ".join(f"own{label}x{word}" for word in range(12)) for label in range(LABELS)]
    named = [f"{text} {words}" for text, words in zip(label_texts, own, strict=True)]
    apart, together = (
        try_augmentation(asked, Y, named, keys, config(in_vocabulary=flag, in_pifa=flag))
        for flag in (False, True)
    )
    assert apart.plain == together.plain
    assert together.augmented["P@1"] > apart.augmented["P@1"] + 0.1


def test_a_trial_uses_no_more_instances_than_it_may(helpful):
    trial = try_augmentation(*corpus(), config(trial_rows=200))
    assert 50 < trial.instances < 110 < helpful.instances


def test_excluded_labels_are_neither_predicted_nor_true():
    texts, Y, label_texts, keys = corpus()
    nothing_left = try_augmentation(texts, Y, label_texts, keys, config(), excluded=Y)
    assert (nothing_left.use, nothing_left.instances) == (False, 0)
    lure = sp.csr_matrix(np.roll(Y.toarray(), -1, axis=1))  # the label whose text says the instance's words
    misled, led = (
        try_augmentation(*corpus(misleading=True), config(), excluded=never).augmented["P@1"]
        for never in (None, lure)
    )
    assert led > misled


def test_labels_that_only_held_out_instances_have_do_not_count():
    texts, Y, label_texts, keys = corpus()
    first = np.arange(0, len(texts), PER_LABEL)  # one instance a label
    trial = try_augmentation([texts[i] for i in first], Y[first], label_texts, keys[first], config())
    assert trial.instances == 0
    twice = np.concatenate([first, first + 1])
    trial = try_augmentation([texts[i] for i in twice], Y[twice], label_texts, keys[twice], config())
    assert 0 < trial.instances < 0.4 * len(twice)


def test_nothing_to_compare_is_no_reason_to_use_it():
    texts, Y, label_texts, keys = corpus()
    nameless = try_augmentation(texts, Y, [None, " "] * (LABELS // 2), keys, config())
    assert (nameless.use, nameless.plain) == (False, {})
    assert "no label has a text" in nameless.why
    few = try_augmentation(texts[:1], Y[:1], label_texts, keys[:1], config())
    assert not few.use
    assert "too few instances" in few.why
    with pytest.raises(InputError, match="row keys"):
        try_augmentation(texts, Y, label_texts, keys[:3], config())


@pytest.mark.parametrize(
    ("p1", "psp", "half", "use"),
    [
        (0.51, 0.20, 0.02, True),  # P@1 better
        (0.495, 0.35, 0.02, True),  # half a point for the tail
        (0.485, 0.35, 0.02, False),  # a point and a half
        (0.495, 0.35, 0.002, False),  # half a point, but surely worse
        (0.50, 0.30, 0.02, False),  # no change
    ],
)
def test_the_rule_trades_at_most_one_uncertain_point_for_the_tail(p1, psp, half, use):
    plain = {"P@1": 0.5, "PSP@5": 0.3, "coverage@5": 0.3}
    gain = p1 - 0.5
    found, why = decision(plain, {**plain, "P@1": p1, "PSP@5": psp}, gain, gain - half, gain + half, 100)
    assert found is use
    assert f"to {100 * p1:.2f}" in why
