"""A stand-in for a peer: runs in this interpreter and answers every step in no time, or dies if told to."""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "adapters"))
from stopwatch import run_job


def main(job):
    if job.system == "broken":
        raise RuntimeError("out of luck")
    Y, Yt = job.matrix("Y"), job.matrix("Yt")
    if job.save_features:
        sp.save_npz(job.scratch / "X.npz", Y.astype(np.float32))
        sp.save_npz(job.scratch / "Xt.npz", Yt.astype(np.float32))
    job.measure("tfidf_fit", lambda: len(job.texts("train")))
    job.measure("train", lambda: sum(range(100_000)))
    if job.wants("train"):
        top = np.full((Yt.shape[0], job.top_k), -1, np.int32)
        top[:, 0] = Yt.indices[Yt.indptr[:-1]]
        np.save(job.scratch / "top.npy", top)
        np.save(job.scratch / "leaves.npy", np.arange(Y.shape[1]) % 2)
    job.measure_one_by_one("predict_one_ms", str, list(range(200)))
    job.facts["seen"] = [job.threads, job.beam, job.seed, job.options]


run_job(main)
