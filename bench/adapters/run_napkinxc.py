"""napkinxc: a probabilistic label tree of 16-way hierarchical k-means (inside `train`), squared hinge by
LIBLINEAR with C 1 as the others use, beam search of the same width."""

import numpy as np
from napkinxc.models import PLT
from stopwatch import folder_mb, run_job


def main(job):
    if not job.wants("train", "predict_batch", "predict_one_ms"):
        return
    loss = {"loss": "l2", "liblinear_c": 1.0, "weights_threshold": 0.1}
    search = {"tree_search_type": "beam", "beam_search_width": job.beam}
    other = {"seed": job.seed + 1, "threads": job.threads}  # its seed 0 means the clock
    model = PLT(str(job.scratch / "model"), arity=16, max_leaves=100, **loss, **search, **other)
    train(job, model)
    model.load()
    predict(job, model)


def train(job, model):
    X, Y = job.matrix("X"), job.matrix("Y")
    job.measure("train", lambda: model.fit(X, Y), again=False)
    job.facts["model_mb"] = folder_mb(job.scratch / "model")
    job.facts["train_includes"] = ["pifa", "tree"]


def predict(job, model):
    Xt = job.matrix("Xt")
    found = job.measure("predict_batch", lambda: model.predict(Xt, top_k=job.top_k))
    top = np.full((Xt.shape[0], job.top_k), -1, np.int32)
    for i, labels in enumerate(found):
        best = labels[: job.top_k]  # its beam search returns all it has seen, best first
        top[i, : len(best)] = best
    np.save(job.scratch / "top.npy", top)
    rows = [Xt[i] for i in range(min(Xt.shape[0], 2000))]
    model.set_params(threads=1)
    job.measure_one_by_one("predict_one_ms", lambda row: model.predict(row, top_k=job.top_k), rows)


run_job(main)
