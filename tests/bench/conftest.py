"""The bench and the jobs are not in the installed package: tests find them from the repository root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
