"""Tfidf itself: one pass or two, any source, any thread count, single queries, features and grams."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcspark.errors import ConfigError, InputError
from xmcspark.text import sources
from xmcspark.text.counts import gram_counts
from xmcspark.text.settings import TfidfSettings
from xmcspark.text.tfidf import Tfidf, Vectorizer

WORDS = [
    "red",
    "running",
    "shoes",
    "blau",
    "größe",
    "x",
    "çelik",
    "waterproof-jacket",
    "👟",
    "a" * 70,
    "naïve",
]
VECTORIZERS = (
    Vectorizer("word", (1, 3)),
    Vectorizer("char_wb", (2, 4), sublinear_tf=True),
    Vectorizer("char", (3, 3), max_features=50),
)


def corpus(documents=400, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(documents)]


def assert_same(one, other):
    assert one.shape == other.shape
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1, max_size=9),
    st.integers(1, 4),
)
def test_one_pass_equals_two_and_one_by_one(documents, min_df):
    model = Tfidf([Vectorizer("word", (1, 2), min_df=min_df), Vectorizer("char_wb", (3, 3), min_df=min_df)])
    try:
        X = model.fit_rows(documents)
    except InputError:  # nothing left
        return
    assert_same(model.rows(documents), X)
    assert_same(Tfidf(model.settings.vectorizers).fit(documents).rows(documents), X)
    for row, text in enumerate(documents):
        indices, values = model.transform_one(text)
        part = slice(X.indptr[row], X.indptr[row + 1])
        assert np.array_equal(indices, X.indices[part])
        assert np.array_equal(values, X.data[part])


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_result_does_not_depend_on_threads(threads):
    documents = corpus(9000)  # several tasks for each thread
    one, many = Tfidf(VECTORIZERS), Tfidf(VECTORIZERS, threads=threads)
    X = one.fit_rows(documents)
    assert_same(many.fit_rows(documents), X)
    assert_same(many.rows(documents), X)
    assert np.array_equal(one.vocabulary.data, many.vocabulary.data)
    assert np.array_equal(one.vocabulary.df, many.vocabulary.df)
    for name, array in one._ready().arrays.items():
        assert np.array_equal(array, many._ready().arrays[name]), name


def test_every_source_gives_the_same_matrix(tmp_path):
    documents = corpus(300)
    lines, zipped, parquet = (tmp_path / name for name in ("texts.txt", "texts.txt.gz", "texts.parquet"))
    lines.write_bytes("\n".join(documents).encode())
    zipped.write_bytes(gzip.compress(("\n".join(documents) + "\n").encode()))
    pq.write_table(pa.table({"query": documents}), parquet, row_group_size=70)
    arrow = pa.array(documents)
    padded = pa.array(["before", *documents, "after"])
    expected = Tfidf().fit_rows(documents)
    for source in (
        tuple(documents),
        (text for text in documents),
        [text.encode() for text in documents],
        np.array(documents),
        np.array(documents, object),
        arrow,
        arrow.cast(pa.large_string()),
        arrow.cast(pa.binary()),
        arrow.dictionary_encode(),
        padded.slice(1, 300),
        pa.chunked_array([arrow.slice(0, 100), arrow.slice(100, 0), arrow.slice(100)]),
        lines,
        zipped,
        parquet,
    ):
        model = Tfidf()
        assert_same(model.fit_rows(source, column="query"), expected)
    for path in (lines, parquet):
        assert_same(model.rows(path, column="query"), expected)


def test_pandas_series_are_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    documents = corpus(50)
    assert_same(Tfidf().fit_rows(pandas.Series(documents)), Tfidf().fit_rows(documents))


def test_files_are_read_in_blocks(tmp_path, monkeypatch):
    documents = ["", *corpus(200), "", "last"]
    path = tmp_path / "texts.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(documents).encode())
    expected = Tfidf(VECTORIZERS).fit_rows(documents)
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 97)
    monkeypatch.setattr(sources, "_BLOCK_DOCUMENTS", 7)
    monkeypatch.setattr(sources, "_LIST_DOCUMENTS", 11)
    model = Tfidf(VECTORIZERS)
    assert_same(model.fit_rows(path), expected)
    assert len(list(model.transform_blocks(path))) > 10
    assert_same(model.rows(path), expected)
    assert_same(model.rows(documents), expected)
    assert_same(model.rows(iter(documents)), expected)
    assert_same(Tfidf(VECTORIZERS).fit(path).rows(documents), expected)


def test_features_and_grams_are_inverse():
    model = Tfidf(VECTORIZERS)
    model.fit(corpus())
    names = model.settings.names()
    for feature in range(model.n_features):
        name, gram = model.gram(feature)
        assert model.feature(name, gram) == feature
        assert model.feature(names.index(name), gram) == feature
    assert model.feature("word_1_3", "no such gram") is None
    assert model.feature(0, "red  shoes") is None
    assert model.feature(0, "") is None
    assert model.vocabulary.grams().to_pylist() == [model.gram(f)[1] for f in range(model.n_features)]


def test_unknown_grams_and_empty_documents_are_empty_rows():
    model = Tfidf([Vectorizer("word", (1, 2))])
    model.fit(["red shoes", "blue shoes"])
    X = model.rows(["", "green hat", "red hat", "   \t\n"])
    assert list(np.diff(X.indptr)) == [0, 0, 1, 0]
    assert [len(part) for part in model.transform_one("")] == [0, 0]
    assert model.rows([]).shape == (0, model.n_features)
    assert model.rows(["", ""]).shape == (2, model.n_features)


def test_longer_grams_are_found_though_their_prefix_is_no_feature():
    documents = ["a b c", "a b d", "a b c d"]
    model = Tfidf([Vectorizer("word", (3, 4), max_df=2)])
    X = model.fit_rows(documents)
    assert [model.gram(f)[1] for f in range(model.n_features)] == ["a b c", "a b c d", "a b d", "b c d"]
    assert_same(model.rows(documents), X)


@pytest.mark.parametrize("analyzer", ["word", "char_wb", "char"])
def test_very_long_documents_and_very_long_grams(analyzer):
    text = " ".join(str(i) * (i % 40) for i in range(20_000))
    model = Tfidf([Vectorizer(analyzer, (3, 3))], threads=2)
    assert_same(model.fit_rows([text, "x", text]), model.rows([text, "x", text]))
    assert model.transform_one(text)[0].size == model.rows([text]).nnz
    huge = Tfidf([Vectorizer(analyzer, (1, 10**12))])
    X = huge.fit_rows(["a b c d", "ab " * 30])
    assert_same(huge.rows(["a b c d", "ab " * 30]), X)


def test_a_corpus_of_one_character():
    assert Tfidf().fit_rows(["x"]).shape == (1, 2)  # "x" and " x "


def test_counts_of_parts_add_up_to_a_model():
    documents = corpus(600)
    whole = Tfidf(VECTORIZERS[:2])
    X = whole.fit_rows(documents)
    parts = [gram_counts(part, whole.settings) for part in (documents[:100], [], documents[100:])]
    df: dict[tuple[int, str], int] = {}
    for part in parts:
        for key, count in zip(
            zip(part.vectorizer.tolist(), part.gram.to_pylist(), strict=True), part.df, strict=True
        ):
            df[key] = df.get(key, 0) + int(count)
    rows = sorted(df)
    model = Tfidf.from_vocabulary(
        whole.settings,
        vectorizer=[v for v, _ in rows],
        gram=[g for _, g in rows],
        df=[df[row] for row in rows],
        documents=sum(part.documents for part in parts),
    )
    assert_same(model.rows(documents), X)
    assert sum(int(part.occurrences.sum()) for part in parts) >= sum(df.values())


def test_features_may_come_in_any_order_and_be_retired():
    documents = corpus(200)
    whole = Tfidf(VECTORIZERS[:2])
    X = whole.fit_transform(documents).toarray()
    size = whole.n_features
    order = np.random.default_rng(1).permutation(size + 5)[:size]
    model = Tfidf.from_vocabulary(
        whole.settings,
        vectorizer=whole.vocabulary.vectorizer,
        gram=whole.vocabulary.grams(),
        df=whole.vocabulary.df,
        documents=200,
        feature=order,
        size=size + 5,
    )
    np.testing.assert_allclose(model.transform(documents).toarray()[:, order], X, rtol=1e-6)
    assert model.gram(int(order[3])) == whole.gram(3)
    with pytest.raises(InputError, match="distinct"):
        Tfidf.from_vocabulary(
            TfidfSettings(), vectorizer=[0, 0], gram=["a", "b"], df=[1, 1], documents=1, feature=[0, 0]
        )


def test_a_vocabulary_without_rows_is_refused():
    with pytest.raises(InputError, match="no rows"):
        Tfidf.from_vocabulary(TfidfSettings(), vectorizer=[], gram=[], df=[], documents=0)


@pytest.mark.parametrize("gram", ["", "a  b", " a", "twice"])
def test_unusable_vocabularies_are_refused(gram):
    with pytest.raises(InputError, match="vocabulary"):
        Tfidf.from_vocabulary(
            TfidfSettings(), vectorizer=[0, 0], gram=["twice", gram or "a "], df=[1, 1], documents=1
        )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "empty"),
        (iter([]), "empty"),
        (pa.array([], pa.string()), "empty"),
        (["", "  ", "!?"], "no document holds"),
        ("one string", r"\[text\]"),
        (b"bytes", "single string"),
        (17, "int"),
        (["a", 3], "document 1 is a int"),
        (["a", None], "document 1 is missing"),
        (["a", float("nan")], "document 1 is missing"),
        (pa.array(["a", None, "b"]), "document 1 is missing"),
        (pa.array([[1]]), "Arrow array of list"),
        (["fine", "half \ud800 pair"], "document 1 .* surrogate"),
        ([b"fine", b"caf\xe9"], "document 1 is not valid UTF-8"),
        (pa.array([b"\xed\xa0\x80"]), "document 0 is not valid UTF-8"),
    ],
)
def test_bad_texts_are_refused_with_a_reason(source, message):
    with pytest.raises(InputError, match=message):
        Tfidf([Vectorizer("word", (1, 1))]).fit(source)


def test_document_numbers_in_messages_count_from_the_start_of_the_source(monkeypatch):
    monkeypatch.setattr(sources, "_BLOCK_DOCUMENTS", 3)
    for bad, message in (
        ([b"\xff"], "document 7 is not valid"),
        ([5], "document 7 is a int"),
        ([None], "document 7"),
    ):
        with pytest.raises(InputError, match=message):
            Tfidf().fit(iter(["a"] * 7 + bad))


def test_bad_files_are_refused_with_a_reason(tmp_path):
    model = Tfidf()
    with pytest.raises(InputError, match="does not exist"):
        model.fit(tmp_path / "missing.txt")
    with pytest.raises(InputError, match="folder without"):
        model.fit(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    with pytest.raises(InputError, match="not readable as Parquet"):
        model.fit(tmp_path / "broken.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"no column 'text'.*\['a'\]"):
        model.fit(tmp_path / "other.parquet")
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        model.fit(tmp_path / "empty.txt")


def test_nulls_and_invalid_bytes_can_be_accepted():
    model = Tfidf([Vectorizer("char", (1, 1))], nulls="empty", invalid="replace")
    X = model.fit_rows([b"caf\xe9", None, b"\xff\xfe\x00", "plain"])
    assert list(np.diff(X.indptr)) == [4, 0, 2, 5]
    assert model.feature(0, "\ufffd") is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_df": 3}, "lower min_df"),
        ({"max_df": 0.2}, "raise max_df"),
        ({"min_df": 2, "max_df": 1}, "max_df=1"),
    ],
)
def test_filters_that_leave_nothing_say_so(options, message):
    with pytest.raises(InputError, match=message):
        Tfidf([Vectorizer("word", (1, 1), **options)]).fit(["aa", "bb"])


def test_all_problems_of_the_settings_are_reported_at_once():
    bad = [
        Vectorizer("words", (2, 1), min_df=-1, max_df=1.5, max_features=0),
        Vectorizer(norm="l3", binary=1, min_df=True),
        "word",
    ]
    with pytest.raises(ConfigError) as caught:
        Tfidf(bad, normalize="nfc", joint_norm="max", invalid="ignore", nulls="drop", threads=0)
    assert len(caught.value.problems) == 14
    for key in (
        "[0].analyzer",
        "[0].ngram_range",
        "[0].min_df",
        "[0].max_df",
        "[0].max_features",
        "[1].norm",
    ):
        assert sum(key in problem for problem in caught.value.problems) == 1, key
    with pytest.raises(ConfigError, match="1 to 255"):
        Tfidf([])


def test_an_unfitted_model_says_so():
    with pytest.raises(InputError, match="not been fitted"):
        Tfidf().transform(["a"])
    with pytest.raises(InputError, match="not been fitted"):
        Tfidf().transform_one("a")
    model = Tfidf().fit(["a b"])
    with pytest.raises(InputError, match="feature 99"):
        model.gram(99)
    with pytest.raises(InputError, match="no vectorizer 'nouns'"):
        model.feature("nouns", "a")
    with pytest.raises(InputError, match="expected str"):
        model.transform_one(b"a")
    with pytest.raises(InputError, match="surrogate"):
        model.transform_one("\ud800")
