"""`./spark-submit.sh sql`: questions to a run. Its tables are views with comments; see docs/cookbook.md."""

import sys

from xmcspark.serving.sql_spark import run_sql

if __name__ == "__main__":
    sys.exit(run_sql())
