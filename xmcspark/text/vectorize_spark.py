"""The vectorize stage: learns the vocabulary from the training texts, and turns all texts into sparse rows with it."""

from __future__ import annotations

from xmcspark.errors import InputError
from xmcspark.labels.training_rows_spark import vectorized_rows, vocabulary_rows
from xmcspark.store.progress import tell
from xmcspark.store.stage import Context, Stage
from xmcspark.text.base_vocabulary_spark import base_vocabulary
from xmcspark.text.features_spark import LOOKUP, write_features, write_lookup
from xmcspark.text.vocabulary import NO_DOCUMENTS, df_bounds
from xmcspark.text.vocabulary_spark import write_vocabulary


def vectorize(context: Context) -> None:
    settings = context.config.text
    settings.check()
    training = vocabulary_rows(context)
    documents = training.count()
    if documents == 0:
        raise InputError(f"table instances has no rows of split train: {NO_DOCUMENTS}")
    for vectorizer in settings.vectorizers:
        df_bounds(vectorizer, documents)  # settings that contradict each other for so many documents
    base = base_vocabulary(context)
    learned = write_vocabulary(context, training, documents, base)
    tell(context.stage.name, "building the text model")
    write_lookup(context, learned.features, max(documents, base.documents if base else 0))
    tell(context.stage.name, "turning texts into rows")
    seen = write_features(context, vectorized_rows(context))
    context.note(
        documents=documents,
        features=learned.features,
        features_of={name: new + (base.of(name) if base else 0) for name, new in learned.new.items()},
        features_new=sum(learned.new.values()),
        grams=learned.grams,
        nnz=seen["nnz"],
        rows_without_features=seen["empty"],
        largest_value=seen["largest"],
        bytes={name: _size(context, name) for name in ("vocabulary", "features", LOOKUP)},
    )


def _size(context: Context, name: str) -> int:
    uri = context.folder(LOOKUP) if name == LOOKUP else context.run.table(name)
    return sum(entry.size for entry in context.fs.walk(uri))


STAGE = Stage(
    "vectorize",
    2,
    ("text", "augment.in_vocabulary", "refresh.mode", "seed"),
    reads=("instances", "augmented"),
    writes=("vocabulary", "features", f"{LOOKUP}/"),
    run=vectorize,
)
