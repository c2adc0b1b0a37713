"""The settings in conf/: each with its reason, none that the code sets itself, none of one machine."""

import re

import pytest

from jobs.submit import ROOT
from xmcspark.matchers.task_memory import derived_limit
from xmcspark.packaging.spark_settings import read_settings
from xmcspark.store import session

FILES = sorted((ROOT / "conf").glob("spark-*.conf"))
CLUSTERS = [path for path in FILES if path.name != "spark-local.conf"]


def _name(path):
    return path.name


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_key_stands_below_its_reason(path):
    assert read_settings(path)
    for paragraph in path.read_text().strip().split("\n\n"):
        lines = paragraph.splitlines()
        assert lines[0].startswith("# "), f"no reason for {lines[0]}"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_setting_is_of_one_machine_or_secret(path):
    text = path.read_text()
    assert not re.search(
        r"/(home|root|work|tmp|Users)/|s3://|AKIA|secret|password|token", text, re.IGNORECASE
    )


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_what_the_code_sets_itself_is_not_set_again(path):
    assert not set(read_settings(path)) & set(session._SETTINGS)


@pytest.mark.parametrize("path", CLUSTERS, ids=_name)
def test_clusters_run_the_python_of_the_archive_and_training_knows_its_memory(path):
    settings = read_settings(path)
    pythons = {value for key, value in settings.items() if key.upper().endswith("PYTHON")}
    assert pythons == {"./environment/bin/python"}
    assert settings["spark.python.daemon.module"] == "xmcspark.store.worker_daemon"
    assert derived_limit(settings, None, 0) == 2 << 30


@pytest.mark.parametrize("line", ["executor.memory 4g", "spark.executor.memory", "spark.a 1\nspark.a 2"])
def test_a_line_that_spark_would_drop_is_an_error(tmp_path, line):
    (tmp_path / "spark.conf").write_text(f"# why\n{line}\n")
    with pytest.raises(ValueError, match=r"spark\.conf, line \d"):
        read_settings(tmp_path / "spark.conf")
