"""`./spark-submit.sh compare`: two runs on the same instances, metric by metric, with a paired test."""

import sys

from xmcspark.quality.compare_spark import run_compare

if __name__ == "__main__":
    sys.exit(run_compare())
