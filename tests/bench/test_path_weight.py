"""What bench.path_weight compares, and with what."""

import numpy as np

from bench.path_weight import BEAMS, NEGATIVES, WEIGHTS, linear_models, measured, table
from xmcspark.corpus.synthetic import generate
from xmcspark.quality.label_profile import LabelProfile
from xmcspark.sparse.csr import as_csr
from xmcspark.text import Tfidf


def test_every_combination_is_compared_with_plain_rankers_that_count_all_nodes_alike():
    made = generate(2000, 1500, 0)
    tfidf = Tfidf().fit(made.train.texts)
    X = [tfidf.rows(part.texts) for part in (made.train, made.test)]
    Y = [as_csr(part.Y) for part in (made.train, made.test)]
    models = linear_models(X[0], Y[0], threads=1)
    found = list(measured(models, X[1], Y[1], LabelProfile.from_training(Y[0]), threads=1))
    asked = [(row["negatives"], row["beam"], row["path_weight"]) for row in found]
    assert asked == [(n, b, w) for n in NEGATIVES for b in BEAMS for w in WEIGHTS]
    assert asked[0] == ("tfn", 10, 1.0)
    assert found[0]["differences"]["P@1"] == [0, 0, 0]
    quality = np.array([row["metrics"]["P@1"] for row in found])
    differences = np.array([row["differences"]["P@1"][0] for row in found])
    np.testing.assert_allclose(differences, quality - quality[0], atol=1e-12)
    assert len(set(quality.tolist())) > 3, "weights and beams decide who is first"
    assert len(table({"some": found}).splitlines()) == len(found) + 2
