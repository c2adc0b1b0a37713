"""omikuji: one 16-way tree, so that it is the model the others train; its clustering and label features are
inside `train`, and so is reading its text format (1-3% of the time). Predicts row by row: it has no batch."""

import numpy as np
import omikuji
from stopwatch import folder_mb, run_job


def main(job):
    if not job.wants("train", "predict_batch", "predict_one_ms"):
        return
    data = job.scratch / "train.svm"
    write_text_format(job.matrix("X"), job.matrix("Y"), data)
    parameters = omikuji.Model.default_hyper_param()
    parameters.n_trees, parameters.cluster_k, parameters.cluster_balanced = 1, 16, True
    trained = job.measure(
        "train",
        lambda: omikuji.Model.train_on_data(str(data), parameters, n_threads=job.threads),
        again=False,
    )
    data.unlink()
    trained.save(str(job.scratch / "model"))
    job.facts["model_mb"] = folder_mb(job.scratch / "model")
    job.facts["train_includes"] = ["pifa", "tree"]
    del trained
    predict(job)


def predict(job):
    loaded = omikuji.Model.load(str(job.scratch / "model"))
    loaded.init_prediction_thread_pool(1)
    Xt = job.matrix("Xt")
    cuts = Xt.indptr[1:-1]
    splits = zip(np.split(Xt.indices, cuts), np.split(Xt.data, cuts), strict=True)
    rows = [list(zip(i.tolist(), v.tolist(), strict=True)) for i, v in splits]

    def one(row):
        return loaded.predict(row, beam_size=job.beam, top_k=job.top_k)

    found = job.measure("predict_batch", lambda: [one(row) for row in rows])
    top = np.full((len(rows), job.top_k), -1, np.int32)
    for i, pairs in enumerate(found):
        top[i, : len(pairs)] = [label for label, _ in pairs]
    np.save(job.scratch / "top.npy", top)
    job.measure_one_by_one("predict_one_ms", one, rows)


def write_text_format(X, Y, path):
    """The XMC repository's text format. Rows without features get one of value 0: omikuji refuses them."""
    with open(path, "w", encoding="ascii") as out:
        out.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for i in range(X.shape[0]):
            labels = Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()
            here = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[here].tolist(), X.data[here].tolist(), strict=True)
            features = " ".join(f"{f}:{v:.7g}" for f, v in pairs) or "0:0"
            out.write(f"{','.join(map(str, labels))} {features}\n")


run_job(main)
