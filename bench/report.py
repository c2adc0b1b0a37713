"""Turns results of the bench into bench/RESULTS.md: `python -m bench.report A.json ... > bench/RESULTS.md`.
Decides what a reader sees first: the machine and the date, then per dataset CPU time, wall time, memory and
quality, each peer with its ratio to xmcspark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.table import (
    bundle_table,
    growth_table,
    marginal_table,
    quality_table,
    spark_table,
    steps_table,
    tree_levels_table,
)

_LEGEND = """Written by `python -m bench.report`; do not edit. Medians over the repeats of a run, systems
interleaved, each in its own process and environment. In brackets: how many times xmcspark's number (above 1,
xmcspark is better). From `pifa` on, all systems work on the same X and Y, trees on the same Z. omikuji and
napkinxc cluster inside `train`; scikit-learn has no threads for TF-IDF. Sums: `tfidf_total` = fit and
transform (in one pass where a system can), `tree_and_train` = pifa + tree + train, `text_to_model` = all of
these. The variants `-man` train with TFN + MAN negatives, `-cost` with costs by relevance; their ratios are
to xmcspark's variant. Single queries: median per query. Peak memory is that of the whole process in the step,
inputs included."""


_GROWTH = """CPU seconds of xmcspark on generated data of growing size; in brackets: what doubling instances
and labels costs, from the size to its left."""

_MARGINAL = """What more data costs, from text to model. `xmcspark` is the sum of the library's steps, each measured by
itself on inputs that are in memory, several times where it is short; `xmcspark-library` is the library in one go, as
somebody without Spark would run it, from the corpus in Parquet to a saved model; `xmcspark-tables` writes the tables
that the job leaves as well; `xmcspark-spark` is the job. The last columns divide by what the others take more."""


def render(results: list[dict[str, Any]]) -> str:
    """The whole of RESULTS.md."""
    parts = ["# Results of the bench", _LEGEND]
    parts += [_section(result) for result in results]
    if marginal := marginal_table(results):
        parts += ["## What Spark costs", _MARGINAL, marginal]
    growing = growth_table(results)
    if growing:
        parts += ["## Growth", _GROWTH, growing]
    return "\n\n".join(parts) + "\n"


def _section(result: dict[str, Any]) -> str:
    data, settings, machine = result["data"], result["settings"], result["machine"]
    title = f"## {data['name']}, {settings['threads']} thread{'s' if settings['threads'] > 1 else ''}"
    size = f"{data['instances']:,} × {data['labels']:,} labels ({data['labels_per_row']:.2f} a row), "
    if data["features"]:
        size += f"{data['features']:,} features ({data['nnz_per_row']:.0f} a row), "
    facts = (
        f"{size}{data['test']:,} test rows; beam {settings['beam']}, {settings['repeats']} repeats, "
        f"X by {settings['features_from']}. {result['date']}, {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, {machine['system']}, Python {machine['python']}."
    )
    tables = [steps_table(result, key) for key in ("cpu_s", "wall_s", "peak_mb")]
    tables += filter(
        None,
        (quality_table(result), spark_table(result), bundle_table(result), tree_levels_table(result)),
    )
    failed = [f"Failed: {name}: {reason.splitlines()[-1]}" for name, reason in result["failures"].items()]
    return "\n\n".join([title, facts, *tables, *failed])


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python -m bench.report RESULT.json ... > bench/RESULTS.md", file=sys.stderr)
        return 2
    sys.stdout.write(render([json.loads(Path(path).read_text()) for path in paths]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
