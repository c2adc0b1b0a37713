"""What tests of serving share: a model trained without Spark and its bundle, and a whole run."""

from pathlib import Path

import pytest
from small_bundle import train_small, write_bundle

CONF = Path(__file__).resolve().parents[2] / "conf"


@pytest.fixture(scope="session")
def trained():
    return train_small()


@pytest.fixture
def bundle(trained, tmp_path):
    """A bundle of one test's own, to be damaged at will."""
    return write_bundle(trained, tmp_path / "bundle")


@pytest.fixture(scope="session")
def cookbook_run(spark, tmp_path_factory):
    """A published run over sample logs: that of docs/cookbook.md, the same each time."""
    from cookbook import SETTINGS

    from xmcspark.config.configuration import load
    from xmcspark.refresh_spark import refresh

    folder = tmp_path_factory.mktemp("cookbook")
    places = [f"run.root={folder / 'runs'}", f"input.logs={folder / 'logs'}"]
    return refresh(spark, load(CONF / "quickstart.yaml", [*SETTINGS, *places]))
