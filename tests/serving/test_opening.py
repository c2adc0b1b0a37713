"""A bundle is open at once whatever its size, in a process that has neither Spark nor torch."""

import json
import subprocess
import sys

from large_bundle import write_large_bundle

# A page is what a memory map reads at least; a fault is a page that was touched for the first time.
_OPEN = """
import json, resource, sys
import xmcspark
lean = "numpy" not in sys.modules
small, large = sys.argv[1:]
answers = xmcspark.load(small).predict(["red running shoes"], k=3)
explained = xmcspark.load(small).explain("red running shoes", answers[0][0].key)
def faults():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt
before = faults()
model = xmcspark.load(large)
print(json.dumps({"faults": faults() - before, "labels": len(model.names), "lean": lean,
                  "loaded": [m for m in ("pyspark", "py4j", "torch", "pandas") if m in sys.modules]}))
"""


def test_opening_reads_next_to_nothing_and_loads_neither_spark_nor_torch(bundle, tmp_path, monkeypatch):
    size = write_large_bundle(tmp_path / "large", monkeypatch)
    arguments = [sys.executable, "-c", _OPEN, str(bundle), str(tmp_path / "large")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert size > 10e9
    assert found["labels"] == 100_000_000
    assert found["faults"] < 3000  # of 4.8 million pages; a bit per feature of working memory is most of it
    assert found["loaded"] == []
    assert found["lean"]  # importing the package alone loads nothing


def test_every_name_of_the_package_is_there():
    import xmcspark

    assert all(getattr(xmcspark, name) is not None for name in xmcspark.__all__)
    assert set(xmcspark.__all__) == set(xmcspark._HOME)
