import numpy as np
import pytest

from xmcspark.corpus.synthetic import _spell, generate
from xmcspark.errors import InputError


@pytest.fixture(scope="module")
def corpus():
    return generate(4000, 800, seed=3)


def same(a, b):
    return (
        a.label_texts.equals(b.label_texts)
        and all(
            x.texts.equals(y.texts) and x.ids.equals(y.ids) for x, y in ((a.train, b.train), (a.test, b.test))
        )
        and all((x.Y != y.Y).nnz == 0 for x, y in ((a.train, b.train), (a.test, b.test)))
    )


def test_same_seed_gives_the_same_corpus_and_another_seed_another(corpus):
    assert same(corpus, generate(4000, 800, seed=3))
    assert not same(corpus, generate(4000, 800, seed=4))


def test_queries_have_three_to_eight_words(corpus):
    counts = {len(text.split(" ")) for text in corpus.train.texts.to_pylist()}
    assert counts == set(range(3, 9))


def test_texts_are_words_of_letters_with_single_spaces(corpus):
    texts = corpus.train.texts.to_pylist() + corpus.label_texts.to_pylist()
    assert all(word.isalpha() and word.islower() for text in texts for word in text.split(" "))


def test_rows_have_about_two_labels_and_every_label_a_row(corpus):
    Y = corpus.train.Y
    assert 1.7 < Y.nnz / Y.shape[0] < 2.1
    assert np.diff(Y.indptr).min() >= 1
    assert np.bincount(Y.indices, minlength=800).min() >= 1
    assert set(Y.data) == {1.0}


def test_label_popularity_is_skewed(corpus):
    counts = np.sort(np.bincount(corpus.train.Y.indices, minlength=800))[::-1]
    assert counts[:80].sum() > counts[-400:].sum()
    assert counts[0] > 10 * np.median(counts)


def test_test_split_is_a_tenth_and_at_most_30k():
    assert generate(4000, 800).test.Y.shape == (400, 800)
    assert generate(310_000, 10).test.Y.shape == (30_000, 10)


def test_queries_share_words_with_their_labels(corpus):
    labels = corpus.label_texts.to_pylist()
    Y = corpus.test.Y
    shared = [
        max(len(set(text.split()) & set(labels[label].split())) for label in Y[i].indices)
        for i, text in enumerate(corpus.test.texts.to_pylist())
    ]
    assert np.mean(shared) > 2


@pytest.mark.parametrize(("n_instances", "n_labels"), [(1, 1), (1, 50), (50, 1), (7, 41)])
def test_any_size_works(n_instances, n_labels):
    corpus = generate(n_instances, n_labels)
    assert corpus.train.Y.shape == (n_instances, n_labels)
    assert len(corpus.train.texts) == n_instances
    assert len(corpus.label_texts) == n_labels
    corpus.train.texts.validate(full=True)


@pytest.mark.parametrize(("n_instances", "n_labels"), [(0, 5), (5, 0), (2**31, 5), (5, -1)])
def test_impossible_sizes_are_refused(n_instances, n_labels):
    with pytest.raises(InputError, match="cannot generate"):
        generate(n_instances, n_labels)


def test_no_two_words_are_spelt_alike():
    letters, lengths = _spell(450_000)
    assert len(np.unique(letters.view("S9"))) == 450_000
    assert set(lengths) == {5, 6, 7, 8, 9}
