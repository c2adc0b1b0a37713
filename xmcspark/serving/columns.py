"""An open bundle applied to columns of texts: what the SQL functions answer, as Arrow arrays. A null text or label
gets a null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.errors import InputError
from xmcspark.matchers.predictions_arrow import lists_of_predictions
from xmcspark.serving.explain import Step
from xmcspark.serving.predictor import Predictor

# Of each answer, as Spark SQL writes it.
PREDICTED = "array<struct<label:int,key:string,text:string,score:float>>"
WEIGHED = "array<struct<feature:int,gram:string,value:float>>"
EXPLAINED = (
    "array<struct<member:int,level:int,node:int,child:int,is_label:boolean,gram:string,value:float,weight:float,"
    "contribution:float>>"
)
_EXPLAINED = pa.schema(
    [
        *((name, pa.int32()) for name in ("member", "level", "node", "child")),
        ("is_label", pa.bool_()),
        ("gram", pa.string()),
        *((name, pa.float32()) for name in ("value", "weight", "contribution")),
    ]
)


def predicted(model: Predictor, texts: pa.Array, k: int, threads: int = 1) -> pa.Array:
    """The `k` best labels of each text, best first."""
    labels, scores = lists_of_predictions(model.search(_filled(texts), k, threads=threads))
    flat = labels.values
    names = [model.names.column(part).take(flat).cast(pa.string()) for part in ("key", "text")]
    answers = pa.StructArray.from_arrays([flat, *names, scores.values], ["label", "key", "text", "score"])
    return _lists(labels.offsets, answers, texts.is_null())


def weighed(model: Predictor, texts: pa.Array) -> pa.Array:
    """The features of each text with their TF-IDF values."""
    X = model.reader.vectorizer.rows(_filled(texts))
    grams = model.reader.vectorizer.vocabulary.grams().take(pa.array(X.indices)).cast(pa.string())
    features = [pa.array(X.indices), grams, pa.array(X.data)]
    answers = pa.StructArray.from_arrays(features, ["feature", "gram", "value"])
    return _lists(pa.array(X.indptr.astype(np.int32)), answers, texts.is_null())


def explained(model: Predictor, texts: pa.Array, labels: pa.Array) -> pa.Array:
    """Of each text and label (id or key), every term of every matcher on the label's path. The bias of a matcher is a
    term without a gram; the terms of a level add up to its margin. Null for a label that the model does not know."""
    rows: list[tuple] = []
    ends, known = [0], []
    for text, label in zip(texts.to_pylist(), labels.to_pylist(), strict=True):
        try:
            paths = model.explain(text, label) if text is not None and label is not None else None
        except InputError:
            paths = None
        for path in paths or ():
            rows += [row for step in path.steps for row in _rows(path.member, step)]
        known.append(paths is not None)
        ends.append(len(rows))
    columns: Sequence[Sequence] = list(zip(*rows, strict=True)) or [[]] * len(_EXPLAINED)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _EXPLAINED, strict=True)]
    answers = pa.StructArray.from_arrays(arrays, _EXPLAINED.names)
    return _lists(pa.array(ends, pa.int32()), answers, pc.invert(pa.array(known, pa.bool_())))


def _rows(member: int, step: Step) -> list[tuple]:
    place = (member, step.level, step.node, step.child, step.is_label)
    terms = [(*place, t.gram, t.value, t.weight, t.contribution) for t in step.terms]
    return [(*place, None, 1.0, step.bias, step.bias), *terms]


def _filled(texts: pa.Array) -> pa.Array:
    return texts.fill_null("") if texts.null_count else texts


def _lists(offsets: pa.Array, values: pa.Array, null: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, values, mask=null)
