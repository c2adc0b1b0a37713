"""The vectorize stage gives what the text model gives locally, however the rows lie."""

import numpy as np
import pytest
from instances_table import feature_rows, vocabulary_rows, write_instances
from run_tables import write_table

from xmcspark.errors import ConfigError, InputError, StoreError
from xmcspark.text import Tfidf, vocabulary_spark
from xmcspark.text.features_spark import write_lookup
from xmcspark.text.vectorize_spark import STAGE

WORDS = ["red", "running", "shoes", "größe", "42", "x", "çelik", "waterproof-jacket", "👟", "naïve", "a" * 70]


def corpus(documents, seed=0):
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(WORDS, random.integers(0, 6))) for _ in range(documents)]
    return [f"{text} item{random.integers(0, documents)}" for text in texts]


TRAIN = corpus(300)
TEST = ["red unheard-of thing", "", "漢字", *corpus(20, seed=1)]


def vectorized(make_context, train, test=(), settings=(), partitions=2, seed=None, **names):
    context = make_context(STAGE, *settings, **names)
    write_instances(context, train, test, partitions, seed)
    STAGE.run(context)
    return context


def local(context, train):
    text = context.config.text
    return Tfidf(text.vectorizers, normalize=text.normalize, joint_norm=text.joint_norm).fit(train)


def assert_vocabulary_of(context, model):
    rows, learned = vocabulary_rows(context), model.vocabulary
    assert rows["feature"] == list(range(model.n_features))
    assert rows["gram"] == learned.grams().to_pylist()
    names = model.settings.names()
    assert rows["vectorizer"] == [names[v] for v in learned.vectorizer]
    assert rows["df"] == learned.df.tolist()
    assert rows["idf"] == learned.idf.tolist()  # equal as float32: the same bits
    assert all(rows["active"])


def assert_rows_of(context, model, split, texts):
    X, rows = model.rows(texts), feature_rows(context)
    for i in range(len(texts)):
        row, part = rows[split, i], slice(X.indptr[i], X.indptr[i + 1])
        assert row["indices"] == X.indices[part].tolist()
        assert row["values"] == X.data[part].tolist()
        assert (row["labels"], row["relevance"]) == ([i % 5, 5 + i % 7], [1.0, 0.5])
        assert (row["row_hash"], row["row_key"]) == (i * 31 - 7, row["key_again"])


@pytest.mark.parametrize(("partitions", "seed"), [(1, None), (3, 1), (7, 2)])
def test_vocabulary_and_features_are_those_of_the_local_model(make_context, partitions, seed, monkeypatch):
    monkeypatch.setattr(vocabulary_spark, "_FEWEST_GRAMS", 150)  # several ranges
    monkeypatch.setattr(vocabulary_spark, "_RANGE_GRAMS", 300)
    context = vectorized(make_context, TRAIN, TEST, partitions=partitions, seed=seed)
    model = local(context, TRAIN)
    assert_vocabulary_of(context, model)
    assert_rows_of(context, model, "train", TRAIN)
    assert_rows_of(context, model, "test", TEST)
    X = model.rows(TRAIN + TEST)
    notes = context.notes
    assert (notes["documents"], notes["features"], notes["nnz"]) == (len(TRAIN), model.n_features, X.nnz)
    assert notes["features_of"] == {
        name: int((model.vocabulary.vectorizer == v).sum()) for v, name in enumerate(model.settings.names())
    }
    assert notes["rows_without_features"] == int((np.diff(X.indptr) == 0).sum()) > 0
    assert notes["largest_value"] == X.data.max()
    assert context.rows == {"vocabulary": model.n_features, "features": len(TRAIN) + len(TEST)}
    assert all(size > 0 for size in notes["bytes"].values())
    assert not context.fs.exists(context.scratch("grams"))


def test_the_saved_text_model_is_byte_for_byte_the_local_one(make_context, tmp_path):
    context = vectorized(make_context, TRAIN, partitions=3, seed=4)
    local(context, TRAIN).save(tmp_path / "local")
    saved = tmp_path / "runs" / "test" / "bundle" / "tfidf"
    files = sorted(path.name for path in (tmp_path / "local").iterdir())
    assert sorted(path.name for path in saved.iterdir()) == files
    for name in files:
        assert (saved / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name


TIED = [f"a{i:03} b{i % 40:02} c{i % 7}" for i in range(120)]


@pytest.mark.parametrize(
    "options",
    [
        # All b and c words, then ties among 120 a words; ties in every range and piece.
        "{analyzer: word, ngram_range: [1, 1], max_features: 100}",
        "{analyzer: word, ngram_range: [1, 2], min_df: 0.02, max_df: 17}",
        "{analyzer: word, ngram_range: [1, 2], min_df: 2, max_df: 0.1, max_features: 30}",
    ],
)
def test_df_bounds_and_max_features_choose_as_locally(make_context, monkeypatch, options):
    monkeypatch.setattr(vocabulary_spark, "_FEWEST_GRAMS", 20)
    monkeypatch.setattr(vocabulary_spark, "_RANGE_GRAMS", 60)
    setting = f"text.vectorizers=[{options}, {{analyzer: char, ngram_range: [2, 2], max_features: 25}}]"
    context = vectorized(make_context, TIED, settings=[setting], partitions=3, seed=0)
    assert_vocabulary_of(context, local(context, TIED))


def test_empty_partitions_and_more_partitions_than_rows_do_no_harm(make_context):
    context = vectorized(make_context, TRAIN[:3], TEST[:1], partitions=7, seed=3)
    model = local(context, TRAIN[:3])
    assert_vocabulary_of(context, model)
    assert_rows_of(context, model, "train", TRAIN[:3])


# ------------------------------------------------------------------------------------------- append


def test_append_keeps_the_base_and_numbers_new_grams_after_it(make_context):
    first = vectorized(make_context, TRAIN[:100], run="one")
    second = vectorized(
        make_context, TRAIN[50:], TEST, ["refresh.mode=append"], run="two", base="one", partitions=3, seed=5
    )
    old, new = vocabulary_rows(first), vocabulary_rows(second)
    size = len(old["feature"])
    assert {column: values[:size] for column, values in new.items()} == old
    assert new["feature"] == list(range(len(new["feature"])))
    known = set(zip(old["vectorizer"], old["gram"], strict=True))
    expected = [row for row in learned_rows(local(second, TRAIN[50:])) if row[:2] not in known]
    found = zip(*(new[c][size:] for c in ("vectorizer", "gram", "df", "idf")), strict=True)
    assert list(found) == expected
    assert second.notes["features_new"] == len(expected) > 0
    assert_rows_of_both(first, second, new)


def learned_rows(model):
    """(vectorizer, gram, df, idf) of each feature."""
    learned, names = model.vocabulary, model.settings.names()
    columns = learned.grams().to_pylist(), learned.df.tolist(), learned.idf.tolist()
    return list(zip([names[v] for v in learned.vectorizer], *columns, strict=True))


def assert_rows_of_both(first, second, vocabulary):
    """Rows of the second run hold old and new features; a text of old grams only has the row it had."""
    names = second.config.text.names()
    model = Tfidf.from_vocabulary(
        second.config.text,
        vectorizer=[names.index(name) for name in vocabulary["vectorizer"]],
        documents=250,
        **{column: vocabulary[column] for column in ("gram", "df", "idf")},
    )
    assert_rows_of(second, model, "train", TRAIN[50:])
    before, after = feature_rows(first)["train", 50], feature_rows(second)["train", 0]
    assert (before["indices"], before["values"]) == (after["indices"], after["values"])


def test_append_fills_max_features_up(make_context):
    vectorizer = "text.vectorizers=[{{analyzer: word, ngram_range: [1, 1], max_features: {}}}]"
    vectorized(make_context, TIED[:60], settings=[vectorizer.format(20)], run="one")
    more = [vectorizer.format(30), "refresh.mode=append"]
    second = vectorized(make_context, TIED, settings=more, run="two", base="one")
    assert second.notes["features_of"] == {"word_1_1": 30}


def test_append_refuses_a_base_whose_features_mean_something_else(make_context):
    vectorized(make_context, TRAIN[:5], run="one")
    with pytest.raises(ConfigError, match=r"text.normalize is 'lower', but base run one has 'nfkc'.*full"):
        vectorized(
            make_context,
            TRAIN,
            settings=["refresh.mode=append", "text.normalize=lower"],
            run="two",
            base="one",
        )
    with pytest.raises(StoreError, match="base run none has no text model"):
        vectorized(make_context, TRAIN, settings=["refresh.mode=append"], run="two", base="none")


def test_a_full_refresh_does_not_look_at_the_base(make_context):
    context = vectorized(make_context, TRAIN[:20], run="two", base="none")
    assert_vocabulary_of(context, local(context, TRAIN[:20]))


# ----------------------------------------------------------------------------------------- bad input


def test_a_corpus_without_training_rows_is_refused(make_context):
    with pytest.raises(InputError, match=r"no rows of split train.*at least one document"):
        vectorized(make_context, [], ["only a test"])


def test_a_vocabulary_that_ends_empty_says_why(make_context):
    few = "text.vectorizers=[{analyzer: word, min_df: 3}]"
    with pytest.raises(InputError, match="leave none of 9 grams: lower min_df"):
        vectorized(make_context, ["one two", "three four", "five six"], settings=[few])
    with pytest.raises(InputError, match="no document holds a gram of any vectorizer"):
        vectorized(make_context, ["", " "])


def test_a_vocabulary_without_a_feature_in_use_is_refused(make_context):
    context = make_context(STAGE)
    write_table(context, "vocabulary", [(0, context.config.text.names()[0], "red", 1, 1.0, False)])
    with pytest.raises(InputError, match="the vocabulary has no rows"):
        write_lookup(context, 1, 1)


def test_bounds_that_exclude_each_other_are_refused_before_counting(make_context):
    impossible = "text.vectorizers=[{analyzer: word, min_df: 3, max_df: 0.5}]"
    with pytest.raises(InputError, match=r"max_df=0\.5 is fewer of the 4 documents than min_df=3"):
        vectorized(make_context, ["a b"] * 4, settings=[impossible])
