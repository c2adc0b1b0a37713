"""The cluster that all tests of this folder share, and a small corpus for them."""

import json

import pytest
from standalone import Standalone

from xmcspark.corpus.dataset import write_dataset
from xmcspark.corpus.synthetic import generate


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    running = Standalone(tmp_path_factory.mktemp("cluster"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with train, test and labels, large enough that a kill finds training at work."""
    folder = tmp_path_factory.mktemp("corpus")
    write_dataset(generate(6000, 900, seed=3), folder)
    return folder


@pytest.fixture
def configure(corpus, tmp_path):
    """`configure("name")`: a configuration file of a run in a root of its own."""

    def make(name, **changes):
        config = {
            "run": {"root": str(tmp_path / name), "id": "night"},
            "input": {part: str(corpus / f"{part}.parquet") for part in ("train", "test", "labels")},
            "augment": {"gandalf": True, "trial_rows": 1000},
            "tree": {"max_leaf": 20, "branching": 8, "sub_trees": 12},
            "train": {"waves": 4},
            **changes,
        }
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(config))
        return path

    return make
