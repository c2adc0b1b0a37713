"""With normalize="lower" and no joint norm the matrix is scikit-learn's, column by column."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from xmcspark.errors import InputError
from xmcspark.text.tfidf import Tfidf, Vectorizer

SPACES = " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000"
LETTERS = "abAB_1é\u0301ßİΣσ中文👍🏽\u200d\ufe0f½²₅-.,'\x00" + SPACES
texts = st.lists(st.text(alphabet=st.sampled_from(LETTERS), max_size=25), min_size=1, max_size=8)
any_texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=6)
analyzers = st.sampled_from(["word", "char_wb", "char"])
ranges = st.tuples(st.integers(1, 6), st.integers(0, 4)).map(lambda r: (r[0], r[0] + r[1]))

CORPUS = [
    "The quick brown fox jumps over the lazy dog",
    "the dog, the DOG and the fox",
    "a b c  dd\t\tee\n",
    "",
    "Überraschung! naïve café—déjà vu ΣΑΣ İstanbul",
    "x",
    "lazy lazy lazy brown bread 中文 字 quick brown fox",
]


def reference(corpus, lowercase=True, **options):
    """(matrix, grams) as scikit-learn has them; None where it refuses the corpus."""
    vectorizer = TfidfVectorizer(lowercase=lowercase, **options)
    try:
        matrix = vectorizer.fit_transform(corpus)
    except ValueError:
        return None
    return vectorizer, matrix, list(vectorizer.get_feature_names_out())


def ours(options, normalize="lower", threads=1):
    return Tfidf([Vectorizer(**options)], normalize=normalize, joint_norm=None, threads=threads)


def assert_equal(matrix, expected):
    expected = sp.csr_matrix(expected)
    expected.sort_indices()
    assert matrix.shape == expected.shape
    assert np.array_equal(matrix.indptr, expected.indptr)
    assert np.array_equal(matrix.indices, expected.indices)
    np.testing.assert_allclose(matrix.data, expected.data, rtol=1e-6)


def assert_agrees(corpus, options, normalize="lower", new=()):
    expected = reference(corpus, lowercase=normalize == "lower", **options)
    model = ours(options, normalize)
    if expected is None:
        with pytest.raises(InputError):
            model.fit(corpus)
        return
    vectorizer, matrix, grams = expected
    assert_equal(model.fit_transform(corpus), matrix)
    assert [model.gram(f)[1] for f in range(model.n_features)] == grams
    assert_equal(model.transform(corpus), matrix)
    if new:
        assert_equal(model.transform(list(new)), vectorizer.transform(new))


@pytest.mark.parametrize("analyzer", ["word", "char_wb", "char"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2), (2, 2), (1, 4), (3, 3), (2, 5), (7, 9)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sublinear_tf": True},
        {"smooth_idf": False, "norm": "l1"},
        {"use_idf": False, "norm": None},
        {"binary": True},
        {"min_df": 2},
        {"min_df": 0.25, "max_df": 0.5},
        {"max_df": 3, "sublinear_tf": True, "norm": None},
    ],
    ids=str,
)
def test_matrix_is_that_of_scikit_learn(analyzer, ngram_range, options):
    assert_agrees(
        CORPUS, {"analyzer": analyzer, "ngram_range": ngram_range, **options}, new=["the fox", "", "öffnen x"]
    )


@settings(max_examples=120, deadline=None)
@given(texts, texts, analyzers, ranges, st.sampled_from(["lower", "none"]))
def test_any_text_gives_the_matrix_of_scikit_learn(corpus, new, analyzer, ngram_range, normalize):
    assert_agrees(corpus, {"analyzer": analyzer, "ngram_range": ngram_range}, normalize, new)


@settings(max_examples=80, deadline=None)
@given(any_texts, analyzers, st.sampled_from([(1, 2), (3, 3)]))
def test_every_character_is_classed_as_scikit_learn_does(corpus, analyzer, ngram_range):
    assert_agrees(corpus, {"analyzer": analyzer, "ngram_range": ngram_range})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text("abc ", max_size=30), min_size=2, max_size=10),
    analyzers,
    st.sampled_from([1, 2, 3, 0.0, 0.1, 0.3, 0.5]),
    st.sampled_from([1, 2, 5, 0.4, 0.7, 1.0]),
)
def test_df_bounds_keep_the_same_grams(corpus, analyzer, min_df, max_df):
    assert_agrees(corpus, {"analyzer": analyzer, "ngram_range": (1, 3), "min_df": min_df, "max_df": max_df})


def test_max_features_keeps_the_most_frequent_grams():
    corpus = ["a1 b1 b1 c1 c1 c1", "d1 d1 d1 d1 e1", "f1 b1"]  # no ties among the first three
    options = {"analyzer": "word", "ngram_range": (1, 1), "max_features": 3}
    assert_agrees([*corpus, "b1"], options)


def test_ties_of_max_features_go_to_the_first_gram():
    model = Tfidf([Vectorizer("word", (1, 1), max_features=2)], normalize="lower")
    model.fit(["dd cc bb aa"])
    assert [model.gram(f)[1] for f in range(2)] == ["aa", "bb"]


def test_vectorizers_stand_side_by_side():
    parts = [
        {"analyzer": "word", "ngram_range": (1, 2)},
        {"analyzer": "char_wb", "ngram_range": (3, 3), "sublinear_tf": True},
        {"analyzer": "word", "ngram_range": (2, 3), "min_df": 2, "norm": "l1"},
        {"analyzer": "char", "ngram_range": (2, 4), "norm": None},
    ]
    model = Tfidf([Vectorizer(**p) for p in parts], normalize="lower", joint_norm=None)
    expected = sp.hstack([TfidfVectorizer(**p).fit_transform(CORPUS) for p in parts])
    assert_equal(model.fit_transform(CORPUS), expected)


@pytest.mark.parametrize(("joint", "size"), [("l2", lambda row: np.sqrt((row**2).sum())), ("l1", np.sum)])
def test_joint_norm_scales_whole_rows(joint, size):
    separate = Tfidf(joint_norm=None).fit_transform(CORPUS).toarray()
    together = Tfidf(joint_norm=joint).fit_transform(CORPUS).toarray()
    for row, scaled in zip(separate, together, strict=True):
        np.testing.assert_allclose(scaled, row / size(row) if row.any() else row, rtol=1e-6)
