"""Sample logs are written where asked, once, and never over anything else."""

import dataclasses

import pytest

from xmcspark.config.configuration import load
from xmcspark.corpus.sample_spark import ensure_sample_logs
from xmcspark.errors import ConfigError, InputError
from xmcspark.store.filesystem import Filesystem


def _config(folder, *more):
    sizes = ("sample.days=2", "sample.lines_per_day=20", "sample.items=20", "sample.queries=20")
    return load(None, [f"input.logs={folder}", "input.sample=true", *sizes, *more])


def _files(folder):
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*.gz")}


def test_sample_logs_are_written_once_for_the_same_settings(spark, tmp_path):
    folder = tmp_path / "a b" / "logs"
    ensure_sample_logs(spark, _config(folder))
    before = _files(folder)
    assert sorted(before) == [f"dt=2025-01-0{day}/part-00000.json.gz" for day in (1, 2)]
    ensure_sample_logs(spark, _config(folder))
    assert _files(folder) == before
    ensure_sample_logs(spark, _config(folder, "sample.days=1"))
    assert sorted(_files(folder)) == ["dt=2025-01-01/part-00000.json.gz"]


def test_unfinished_sample_logs_are_finished(spark, tmp_path):
    ensure_sample_logs(spark, _config(tmp_path))
    before = sorted(_files(tmp_path))
    Filesystem(spark).write_text(f"{tmp_path}/_sample.json", "unfinished")
    (tmp_path / before[0]).unlink()
    ensure_sample_logs(spark, _config(tmp_path))
    assert sorted(_files(tmp_path)) == before


def test_real_logs_are_never_touched(spark, tmp_path):
    (tmp_path / "2026-01-01.json").write_text("{}")
    with pytest.raises(InputError, match="holds files that are not sample logs"):
        ensure_sample_logs(spark, _config(tmp_path))
    assert (tmp_path / "2026-01-01.json").read_text() == "{}"


def test_nothing_is_written_unless_asked_for(spark, tmp_path):
    config = _config(tmp_path / "logs")
    quiet = dataclasses.replace(config, input=dataclasses.replace(config.input, sample=False))
    ensure_sample_logs(spark, quiet)
    assert not (tmp_path / "logs").exists()
    with pytest.raises(ConfigError, match="sample is true without"):
        load(None, ["input.sample=true"])
