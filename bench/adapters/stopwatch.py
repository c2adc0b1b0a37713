"""What every adapter shares: reading its job, timing its steps and writing its answer. It runs inside each
peer's own interpreter, so it needs nothing but the standard library, numpy and scipy."""

import gc
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

QUICK = 0.5  # CPU seconds: steps below this are run three times, and their medians reported
ONE_BY_ONE = 1000  # rows of the single-query steps
WARM_UP = 50  # rows before those are timed, and texts that every vectorizer sees first


class Job:
    """One system's share of one repeat. The job file says what to run; `finish` writes what came out."""

    def __init__(self, path):
        self.path = Path(path)
        given = json.loads(self.path.read_text())
        self.system = given["system"]
        self.threads = given["threads"]
        self.inputs = Path(given["inputs"])
        self.scratch = Path(given["scratch"])
        self.beam, self.top_k = given["beam"], given["top_k"]
        self.seed = given["seed"]
        self.options = given["options"]  # step: arguments of the library's call
        self.vectorizers = given["vectorizers"]
        self.save_features = given.get("save_features", False)
        self._wanted = set(given["steps"])
        self._steps = []
        self.facts = {}  # model_mb and the like

    def wants(self, *steps):
        return any(step in self._wanted for step in steps)

    def texts(self, split):
        """The documents of "train" or "test"."""
        return self.text_file(split).read_text(encoding="utf-8").split("\n")

    def text_file(self, split):
        return self.inputs / f"{split}.txt"

    def matrix(self, name):
        """X, Xt, Y, Yt or Z, as scipy CSR float32 with sorted indices."""
        return sp.load_npz(self.inputs / f"{name}.npz").tocsr()

    def measure(self, step, run, again=True):
        """`run()`, with its time and peak memory recorded under `step` if that step was asked for."""
        if not self.wants(step):
            return run()
        result, first = _timed(run)
        takes = [first]
        while again and first["cpu_s"] < QUICK and len(takes) < 3:
            result = None
            result, take = _timed(run)
            takes.append(take)
        record = {key: statistics.median(take[key] for take in takes) for key in first}
        record["peak_mb"] = first["peak_mb"]
        self._steps.append({"step": step, "system": self.system, **record})
        return result

    def measure_one_by_one(self, step, run, rows):
        """Latency of `run(row)` over `rows`: the median in wall_s, both percentiles in milliseconds."""
        if not self.wants(step):
            return
        rows = rows[: WARM_UP + ONE_BY_ONE]
        for row in rows[:WARM_UP]:
            run(row)
        times, cpu, start_mb = [], _cpu(), _reset_peak()
        for row in rows[WARM_UP:] or rows:
            start = time.perf_counter()
            run(row)
            times.append(time.perf_counter() - start)
        p50, p99 = np.percentile(times, [50, 99])
        record = {"wall_s": p50, "cpu_s": (_cpu() - cpu) / len(times), "peak_mb": _peak_mb()}
        extra = {"start_mb": start_mb, "p50_ms": p50 * 1e3, "p99_ms": p99 * 1e3}
        self._steps.append({"step": step, "system": self.system, **record, **extra})

    def record(self, step, wall_s, **more):
        """A step that something else timed; its CPU time and memory are not known."""
        if self.wants(step):
            nothing = {"cpu_s": 0.0, "peak_mb": 0.0}
            self._steps.append({"step": step, "system": self.system, "wall_s": wall_s, **nothing, **more})

    def finish(self):
        answer = {"steps": self._steps, "facts": self.facts}
        self.path.with_suffix(".answer").write_text(json.dumps(answer, default=float))


def run_job(main):
    """Run `main(job)` on the job file named on the command line."""
    job = Job(sys.argv[1])
    main(job)
    job.finish()


def folder_mb(path):
    """Size of all files below `path`, in MB."""
    return sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file()) / 1e6


def ranked(scores, top_k):
    """Label ids by falling score from a CSR of predictions: int32[rows, top_k], -1 where there are fewer."""
    scores = scores.tocsr()
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, row))
    place = np.arange(len(order)) - scores.indptr[row]
    kept = place < top_k
    top = np.full((scores.shape[0], top_k), -1, np.int32)
    top[row[kept], place[kept]] = scores.indices[order][kept]
    return top


def _timed(run):
    gc.collect()
    start_mb = _reset_peak()
    cpu, wall = _cpu(), time.perf_counter()
    result = run()
    take = {"wall_s": time.perf_counter() - wall, "cpu_s": _cpu() - cpu}
    return result, {**take, "peak_mb": _peak_mb(), "start_mb": start_mb}


def _cpu():
    """User + system seconds of this process, all threads, and of children it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _reset_peak():
    """Start a new high-water mark where the kernel allows it; returns the memory in use now, in MB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status_mb("VmRSS")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _peak_mb():
    try:
        return _status_mb("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status_mb(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {key}")
