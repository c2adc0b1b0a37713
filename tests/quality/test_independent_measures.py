"""Our metrics beside those of others: the formulas of pyxclib written with whole matrices, and napkinXC itself where it
is installed (in this environment, or in that of the bench: ./spark-submit.sh bench --peers napkinxc makes it)."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import slow_reference as slow
from matrix_reference import matrix_measures

from xmcspark import LabelProfile, Tfidf, build_tree, evaluate, pifa, search, train_matchers
from xmcspark.corpus.dataset import read_dataset
from xmcspark.quality.propensity import inverse_propensity, label_counts

ROOT = Path(__file__).resolve().parents[2]
K, CLOSE = 8, 1e-6
TRAINED_ROWS, TESTED_ROWS = 20_000, 2_000

# What napkinXC says: run by the Python that has it.
_NAPKINXC = """
import json, sys
from napkinxc import metrics
from scipy.sparse import load_npz
given = json.load(open(sys.argv[1] + "/given.json"))
true, said, k = given["true"], given["said"], given["k"]
inverse = metrics.Jain_et_al_inverse_propensity(load_npz(sys.argv[1] + "/train.npz"))
found = {
    "P": metrics.precision_at_k(true, said, k),
    "R": metrics.recall_at_k(true, said, k),
    "nDCG": metrics.ndcg_at_k(true, said, k),
    "PSP": metrics.psprecision_at_k(true, said, inverse, k),
    "PSnDCG": metrics.psndcg_at_k(true, said, inverse, k),
    "coverage": metrics.coverage_at_k(true, said, k),
}
for name, measure in (("macro-F1", metrics.macro_f1_measure), ("micro-F1", metrics.micro_f1_measure)):
    found[name] = [measure(true, [row[:j] for row in said]) for j in range(1, k + 1)]
print(json.dumps({name: list(map(float, values)) for name, values in found.items()}))
"""


def random_problem(seed, rows=200, n_labels=60):
    """A true label and a prediction for every row, and one row with the last label: napkinXC counts 0 for the recall of
    rows without labels, and has labels up to the largest it sees."""
    predictions, Y = slow.random_case(seed, rows, n_labels, K, empty_rows=False, relevance=False)
    Y = Y.tolil()
    Y[0, n_labels - 1] = 1
    rng = np.random.default_rng(seed)
    Y_train = sp.random(500, n_labels, 0.05, format="csr", random_state=rng, dtype=np.float32)
    Y_train.data[:] = 1
    return predictions, sp.csr_matrix(Y), Y_train


def ours(predictions, Y, Y_train):
    rows = evaluate(predictions, Y, LabelProfile.from_training(Y_train), ks=range(1, K + 1), bootstrap=0)
    found = {}
    for row in rows:
        if row.bin == "all":
            found.setdefault(row.metric, []).append(row.value)
    return found


def napkinxc_python():
    """The interpreter that has napkinXC; None if there is none here."""
    if importlib.util.find_spec("napkinxc"):
        return sys.executable
    place = Path(os.environ.get("XMCSPARK_BENCH_ENVS", ROOT / ".venv-bench")) / "napkinxc" / "bin" / "python"
    return str(place) if place.exists() else None


needs_napkinxc = pytest.mark.skipif(
    napkinxc_python() is None,
    reason="napkinXC is not installed: ./spark-submit.sh bench --peers napkinxc makes an environment that has it",
)


def napkinxc_measures(predictions, Y, Y_train, folder):
    lists = list(slow.lists(predictions, Y))
    given = {"true": [sorted(true) for _, true in lists], "said": [said[:K] for said, _ in lists], "k": K}
    (folder / "given.json").write_text(json.dumps(given))
    sp.save_npz(folder / "train.npz", Y_train)
    command = [napkinxc_python(), "-c", _NAPKINXC, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check_formulas(predictions, Y, Y_train):
    found = ours(predictions, Y, Y_train)
    inverse = inverse_propensity(label_counts(Y_train), Y_train.shape[0])
    others = matrix_measures(predictions, Y, inverse, K)
    assert len(others) == 8
    for metric, values in others.items():
        assert found[metric] == pytest.approx(values, abs=CLOSE), metric
    for k in (1, 5):
        assert found["PSP"][k - 1] == pytest.approx(slow.psp(predictions, Y, inverse, k), abs=CLOSE)
        assert found["PSnDCG"][k - 1] == pytest.approx(slow.psndcg(predictions, Y, inverse, k), abs=CLOSE)


def check_napkinxc(predictions, Y, Y_train, folder):
    found, theirs = ours(predictions, Y, Y_train), napkinxc_measures(predictions, Y, Y_train, folder)
    assert len(theirs) == 8
    for metric, values in theirs.items():
        assert found[metric] == pytest.approx(values, abs=CLOSE), metric


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_pyxclibs_formulas(seed):
    check_formulas(*random_problem(seed))


@needs_napkinxc
def test_metrics_are_those_of_napkinxc(tmp_path):
    check_napkinxc(*random_problem(0), tmp_path)


def test_propensities_are_those_of_the_published_formula():
    counts, n = np.array([0, 1, 7, 300]), 1000
    expected = slow.inverse_propensity(counts, n, 0.55, 1.5)
    assert inverse_propensity(counts, n) == pytest.approx(expected, rel=1e-12)


def datasets():
    root = os.environ.get("XMCSPARK_DATA")
    return sorted(path.parent for path in Path(root).glob("*/train.parquet")) if root else []


def real_problem(folder):
    """Predictions of a model that was trained on some of the data, for test instances that have labels."""
    data = read_dataset(folder)
    tfidf = Tfidf(threads=2)
    X, Y = tfidf.fit_transform(data.train.texts[:TRAINED_ROWS]), data.train.Y[:TRAINED_ROWS]
    model = train_matchers(X, Y, build_tree(pifa(X, Y), threads=2), threads=2)
    rows = np.flatnonzero(np.diff(data.test.Y.indptr))[:TESTED_ROWS]
    found = search(model, tfidf.transform(data.test.texts.take(pa.array(rows))), top_k=K, threads=2)
    truth = data.test.Y[rows]
    true = np.unique(truth.indices)
    seen = np.concatenate([np.setdiff1d(found.labels[found.labels >= 0], true), true])  # the last one is true
    place = np.full(data.n_labels + 1, -1)
    place[seen] = np.arange(len(seen))
    return type(found)(place[found.labels], found.scores), truth[:, seen], sp.csr_matrix(Y)[:, seen]


@pytest.mark.skipif(not datasets(), reason="set XMCSPARK_DATA to a folder of datasets to run this")
@pytest.mark.parametrize("folder", datasets(), ids=lambda folder: folder.name)
def test_metrics_of_real_predictions_are_those_of_others(folder, tmp_path):
    predictions, Y, Y_train = real_problem(folder)
    check_formulas(predictions, Y, Y_train)
    if napkinxc_python() is not None:
        check_napkinxc(predictions, Y, Y_train, tmp_path)
