"""Single queries from a bundle in a fresh process, text to answer: `python bundle_queries.py BUNDLE TEXTS K`. Prints
milliseconds as JSON: of opening, of queries while the files are read from disk for the first time, and after that."""

import json
import os
import sys
import time
from pathlib import Path

COLD, WARM = 200, 2000


def main(bundle, texts, k):
    queries = Path(texts).read_text(encoding="utf-8").split("\n")[: COLD + WARM]
    forget(Path(bundle))
    import xmcspark

    _ = xmcspark.load  # its modules are loaded, the model is not
    start = time.perf_counter()
    model = xmcspark.load(bundle)
    found = {"open_ms": 1e3 * (time.perf_counter() - start)}
    cold = timed(model, queries[:COLD], int(k))
    warm = timed(model, queries[COLD:] or queries, int(k))
    found |= {"first_ms": cold[0], "cold_p50_ms": quantile(cold, 0.5), "cold_p99_ms": quantile(cold, 0.99)}
    found |= {"p50_ms": quantile(warm, 0.5), "p99_ms": quantile(warm, 0.99)}
    print(json.dumps(found))


def forget(folder):
    """Takes the files out of the page cache."""
    os.sync()
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def timed(model, queries, k):
    times = []
    for query in queries:
        start = time.perf_counter()
        model.predict([query], k=k)
        times.append(1e3 * (time.perf_counter() - start))
    return times


def quantile(times, share):
    return sorted(times)[min(int(share * len(times)), len(times) - 1)]


if __name__ == "__main__":
    main(*sys.argv[1:])
