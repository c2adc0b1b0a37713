"""What torch reads from the environment is set before it is loaded, unless somebody has set it."""

import os
import subprocess
import sys

import needs_torch  # noqa: F401
import pytest

SET = {"OMP_WAIT_POLICY": "PASSIVE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128"}
CODE = """
import sys, os
import xmcspark.neural.encoder
assert "torch" in sys.modules
print({name: os.environ.get(name) for name in sys.argv[1:]})
"""


@pytest.mark.parametrize("given", [{}, dict.fromkeys(SET, "7")])
def test_opening_an_encoder_sets_it(given):
    environment = {name: value for name, value in os.environ.items() if name not in SET} | given
    done = subprocess.run(
        [sys.executable, "-c", CODE, *SET], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(SET | given)
