"""The widest instruction set and the plainest give the same bits, from text to predictions."""

import json
import os
import subprocess
import sys

import pytest

from xmcspark._native import cpu

# Prints the instruction set in use and a digest of every array along the way.
PIPELINE = """
import hashlib, json, sys
import numpy as np
from xmcspark._native import cpu
from xmcspark.corpus.synthetic import generate
from xmcspark.labels.features import pifa
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import with_dense
from xmcspark.text.tfidf import Tfidf
from xmcspark.tree.build import build_tree

def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

made = generate(1500, 400, seed=2)
tfidf = Tfidf()
X, Y = tfidf.fit_transform(made.train.texts), made.train.Y
Z = pifa(X, Y)
tree = build_tree(Z, branching=4, max_leaf=30)
found = {"isa": cpu.isa(), "X": digest(X.indices, X.data), "Z": digest(Z.indices, Z.data), "tree": digest(tree.labels)}
for loss in ("squared_hinge", "hinge", "logistic"):
    model = train_matchers(X, Y, tree, loss=loss)
    found[loss] = digest(*(part for m in model.matchers for part in (m.weights.indices, m.weights.data, m.bias)))
soft = Y.copy()
soft.data[::3] = 0.4
wide = build_tree(Z, branching=4, max_leaf=96)
for name, how in {"man": {"negatives": "tfn+man"}, "cost": {"cost_sensitive": True}}.items():
    other = train_matchers(X, soft, wide, **how)
    again = train_matchers(X, Y, wide, start=other)
    parts = [part for m in (*other.matchers, *again.matchers) for part in (m.weights.indices, m.weights.data, m.bias)]
    found[name] = digest(*parts)
best = model.with_scoring("sigmoid").predict(tfidf.transform(made.test.texts))
found["predictions"] = digest(best.labels, best.scores)
for width in (7, 40):
    block = with_dense(X, np.random.default_rng(width).normal(size=(X.shape[0], width)).astype(np.float32))
    for loss in ("squared_hinge", "hinge", "logistic"):
        dense = train_matchers(block, soft, wide, loss=loss, negatives="tfn+man", max_sweeps=20)
        dense = train_matchers(block, Y, wide, loss=loss, start=dense, max_sweeps=20)
        best = dense.predict(block)
        parts = [part for m in dense.matchers for part in (m.weights.data, m.weights.dense, m.bias)]
        found[f"{loss}, {width} dense columns"] = digest(*parts, best.labels, best.scores)
print(json.dumps(found))
"""


def run_pipeline(isa: str | None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "XMCSPARK_ISA"}
    if isa is not None:
        environment["XMCSPARK_ISA"] = isa
    done = subprocess.run(
        [sys.executable, "-c", PIPELINE], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def widest() -> dict[str, str]:
    return run_pipeline(None)


@pytest.mark.parametrize("narrow", ["generic", "avx2"])
def test_a_narrower_instruction_set_gives_the_same_bits(widest, narrow):
    order = ["generic", "avx2", "avx512"]
    if order.index(widest["isa"]) <= order.index(narrow):
        pytest.skip(f"this CPU has nothing wider than {widest['isa']}")
    found = run_pipeline(narrow)
    assert found.pop("isa") == narrow
    assert found == {name: value for name, value in widest.items() if name != "isa"}


def test_this_process_uses_a_known_instruction_set():
    assert cpu.isa() in ("generic", "avx2", "avx512")
