"""xmcspark's main job as a user runs it: spark-submit from start to end, JVM start included, over Parquet files. Its
stages are reported as the steps they correspond to; what counts against the peers is `text_to_model`, the wall time
of the whole command less that of prediction, evaluation and publishing."""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from stopwatch import folder_mb, run_job

ROOT = Path(os.environ.get("XMCSPARK_ROOT", "."))
# A stage of the run and the step of the bench that is the same work (index is label features and tree together).
STEP_OF = {"vectorize": "tfidf_fit_transform", "index": "tree", "train": "train", "predict": "predict_batch"}
ORDER = ("ingest", "corpus", "augment", "vectorize", "index", "train", "predict", "evaluate", "publish")
AFTER_MODEL = ("predict", "evaluate", "publish")


def main(job):
    folder = job.scratch / "corpus"
    folder.mkdir()
    for split, name in (("train", "Y"), ("test", "Yt")):
        write_split(folder / f"{split}.parquet", job.texts(split), job.matrix(name))
    write_labels(folder / "labels.parquet", job.matrix("Y").shape[1])
    wall, cpu = time.perf_counter(), children_cpu()
    with WorkerMemory(job.scratch / "runs" / "bench" / "stages") as memory:
        run_refresh(job, folder)
    wall, cpu = time.perf_counter() - wall, children_cpu() - cpu
    job.facts["worker_peak_mb"] = memory.peaks
    report(job, wall, cpu)


def write_split(path, texts, Y):
    """Instances named by their row, in groups that Spark reads in parallel."""
    labels = pa.ListArray.from_arrays(
        pa.array(Y.indptr.astype(np.int32)), pa.array(Y.indices.astype(np.int32))
    )
    ids = pa.array([str(row) for row in range(len(texts))])
    pq.write_table(pa.table({"id": ids, "text": texts, "labels": labels}), path, row_group_size=1 << 16)


def write_labels(path, count):
    ids = pa.array(np.arange(count, dtype=np.int32))
    pq.write_table(pa.table({"id": ids, "text": [f"label {label}" for label in range(count)]}), path)


def run_refresh(job, folder):
    vectorizers = [{"analyzer": v["analyzer"], "ngram_range": list(v["ngrams"])} for v in job.vectorizers]
    config = {
        "seed": job.seed,
        "run": {"root": str(job.scratch / "runs"), "id": "bench"},
        "input": {name: str(folder / f"{name}.parquet") for name in ("train", "test", "labels")},
        "text": {"vectorizers": vectorizers},
        "predict": {"beam": job.beam, "top_k": job.top_k},
    }
    path = job.scratch / "refresh.json"
    path.write_text(json.dumps(config))
    master = ["--", "--master", f"local[{job.threads}]"]
    command = [sys.executable, "-m", "jobs.submit", "refresh", "--config", str(path), *master]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"refresh failed ({done.returncode}): {done.stderr[-2000:]}")
    print(done.stderr[-3000:], done.stdout, file=sys.stderr)


def report(job, wall, cpu):
    run = job.scratch / "runs" / "bench"
    stages = {stage["stage"]: stage for stage in json.loads((run / "summary.json").read_text())["stages"]}
    for stage, step in STEP_OF.items():
        job.record(step, wall_s=stages[stage]["seconds"])
    model_wall = wall - sum(stages[stage]["seconds"] for stage in AFTER_MODEL)
    outside = wall - sum(stage["seconds"] for stage in stages.values())
    job.facts["sums"] = [{"step": "text_to_model", "wall_s": model_wall, "cpu_s": cpu, "peak_mb": 0.0}]
    job.facts["start_s"] = outside  # JVM, interpreters and all else that is not in a stage
    job.facts["model_mb"] = folder_mb(run / "bundle" / "model")
    job.facts["stages"] = {name: stage["seconds"] for name, stage in stages.items()}
    table = pq.read_table(run / "tables" / "predictions", columns=["id", "labels"])
    top = np.full((table.num_rows, job.top_k), -1, np.int32)
    for row, labels in zip(table["id"].to_pylist(), table["labels"].to_pylist(), strict=True):
        top[int(row), : len(labels)] = labels
    np.save(job.scratch / "top.npy", top)
    query_bundle(job, run / "bundle")


def query_bundle(job, bundle):
    if not job.wants("predict_one_ms"):
        return
    script = Path(__file__).with_name("bundle_queries.py")
    command = [sys.executable, str(script), str(bundle), str(job.text_file("test")), str(job.top_k)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    job.facts["bundle"] = found
    job.record("predict_one_ms", wall_s=found["p50_ms"] / 1e3, p50_ms=found["p50_ms"], p99_ms=found["p99_ms"])


class WorkerMemory:
    """The largest resident memory of a Python worker in each stage, looked at twice a second."""

    def __init__(self, stages):
        self._stages, self._stop, self.peaks = stages, threading.Event(), {}
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.5):
            stage = next((name for name in ORDER if not (self._stages / f"{name}.json").exists()), "end")
            now = max(map(resident_mb, worker_pids()), default=0.0)
            self.peaks[stage] = max(self.peaks.get(stage, 0.0), now)


def worker_pids():
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"worker_daemon" in (entry / "cmdline").read_bytes():
                yield entry
        except OSError:
            continue


def resident_mb(process):
    try:
        return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run_job(main)
