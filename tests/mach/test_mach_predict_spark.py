"""A sketch on Spark predicts what it predicts alone, with the memory that there is."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from prediction_run import N_LABELS, N_ROWS, table_rows, write_features, write_labels
from random_model import random_rows

from xmcspark.errors import ConfigError
from xmcspark.mach import recovery_memory
from xmcspark.mach.model import Sketch
from xmcspark.mach.repetition import LinearRepetition, Part
from xmcspark.matchers.model import Matchers
from xmcspark.matchers.predict_spark import STAGE
from xmcspark.sparse.csr import as_csr

SMALL = ("method=mach", "mach.buckets=12", "mach.repetitions=3")


def repetition(number, features):
    rng = np.random.default_rng(number)
    W = sp.random(12, features, 0.3, format="csr", random_state=rng, dtype=np.float32)
    matchers = Matchers(as_csr(W), rng.normal(-1, 0.2, 12).astype(np.float32))
    return LinearRepetition.of(Part(number, 0, 12, N_LABELS, features), matchers)


def prepared(make_context, *overrides):
    context = make_context(STAGE, *SMALL, *overrides)
    features = random_rows(N_ROWS).shape[1]
    sketch = Sketch(
        [repetition(number, features) for number in range(3)], np.ones(N_LABELS, bool), context.config.mach
    )
    sketch.save(Path(context.fs.local_path(context.run.folder("bundle/model"))) / "mach")
    write_features(context)
    write_labels(context)
    return context, sketch


@pytest.mark.parametrize("recovery", ["fast", "exact"])
def test_labels_that_do_not_fit_are_recovered_in_ranges(make_context, monkeypatch, recovery):
    context, sketch = prepared(make_context, f"mach.recovery={recovery}", "predict.node_memory_mb=1")
    monkeypatch.setattr(recovery_memory, "_FEWEST", 10)
    monkeypatch.setattr(recovery_memory, "_LABEL", 1 << 20)
    STAGE.run(context)
    assert context.notes["labels_at_once"] == 10
    found = {row.id: (row.labels, row.scores) for row in table_rows(context, "predictions")}
    expected = sketch.predict(as_csr(random_rows(N_ROWS)), top_k=10)
    assert found == {
        f"i{row}": (expected.labels[row].tolist(), expected.scores[row].tolist()) for row in range(N_ROWS)
    }


def test_labels_that_fit_or_were_asked_for_in_ranges_are_left_at_that(make_context, monkeypatch):
    context, _ = prepared(make_context)
    STAGE.run(context)
    assert "labels_at_once" not in context.notes
    scoring = {"trees": 0, "transform": "l3-hinge", "sketch": ["sigmoid", "mean"], "vectors": False}
    assert context.notes["scoring"] == scoring
    assert context.notes["exclude_self"] is False
    monkeypatch.setattr(recovery_memory, "_LABEL", 1 << 20)
    asked, _ = prepared(make_context, "mach.labels_at_once=20", "predict.node_memory_mb=1")
    STAGE.run(asked)
    assert "labels_at_once" not in asked.notes


def test_more_labels_than_there_are_cannot_be_asked_for(make_context):
    context, _ = prepared(make_context, f"predict.top_k={N_LABELS + 1}")
    with pytest.raises(ConfigError, match=f"predict.top_k is {N_LABELS + 1} with {N_LABELS} labels"):
        STAGE.run(context)
