#!/usr/bin/env bash
# Sets everything up if need be and runs the tests; arguments go to pytest. Tiers: -m 'not spark and not cluster' takes
# a minute or two, -m spark needs Java, -m cluster starts a cluster on loopback. XMCSPARK_DATA may name a folder of real datasets
# for the tests that can use them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/spark-submit.sh" setup --extras test
cd "$root"
exec .venv/bin/pytest "$@"
