"""`./spark-submit.sh fuse`: the predictions of several runs as one ranking, in a run of its own."""

import sys

from xmcspark.matchers.fuse_spark import run_fuse

if __name__ == "__main__":
    sys.exit(run_fuse())
