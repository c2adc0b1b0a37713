"""The bundle of a run: verified wherever it lies, and used by SQL functions from a filesystem that is not local."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from xmcspark.config.configuration import load
from xmcspark.errors import InputError, StoreError
from xmcspark.serving.bundle import read_manifest
from xmcspark.serving.functions_spark import register_functions
from xmcspark.serving.verify_spark import verify_run
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.publish import STAGE as PUBLISH
from xmcspark.store.published import published
from xmcspark.store.runner import run_stage
from xmcspark.store.runs import Run


@pytest.fixture
def copied(cookbook_run, tmp_path):
    """The run and what was published, to be damaged at will."""
    shutil.copytree(cookbook_run.fs.local_path(cookbook_run.root), tmp_path / "runs")
    return Run(cookbook_run.fs, str(tmp_path / "runs"), cookbook_run.id)


@pytest.fixture
def far_away(monkeypatch):
    """Nothing is on a local disk, as far as the store can tell."""
    monkeypatch.setattr(Filesystem, "local_path", lambda self, uri: None)


def test_a_published_run_is_verified(cookbook_run):
    assert verify_run(cookbook_run) > 30


def test_a_run_on_another_filesystem_is_verified_by_a_copy(cookbook_run, far_away):
    assert verify_run(cookbook_run) > 30


def test_a_manifest_that_is_not_the_published_one_is_found(copied, tmp_path):
    path = tmp_path / "runs" / copied.id / "bundle" / "manifest.json"
    document = json.loads(path.read_text())
    document["settings"]["beam"] = 1
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="not the one that was published"):
        verify_run(copied)


def test_a_run_without_a_bundle_cannot_be_verified(copied):
    copied.fs.delete(copied.folder("bundle/manifest.json"))
    with pytest.raises(StoreError, match="has no sealed bundle"):
        verify_run(copied)


def test_functions_of_a_bundle_on_another_filesystem_answer_the_same(spark, cookbook_run, far_away):
    session = spark.newSession()
    register_functions(session, cookbook_run.folder("bundle"), k=1)
    (row,) = session.sql("SELECT xmc_predict('frying pan velnelli') AS said").collect()
    assert [answer.key for answer in row.said] == ["A000005"]


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_than_one_label_is_refused(spark, cookbook_run, k):
    with pytest.raises(InputError, match="at least 1"):
        register_functions(spark.newSession(), cookbook_run.folder("bundle"), k=k)


def test_functions_of_what_is_no_bundle_are_refused(spark, tmp_path):
    with pytest.raises(InputError, match="not a published bundle"):
        register_functions(spark.newSession(), str(tmp_path))


@pytest.fixture
def unpublished(copied):
    """The run before it was published; what its manifest had, and the day it is of."""
    bundle = Path(copied.fs.local_path(copied.folder("bundle")))
    evaluated, day = read_manifest(bundle)["settings"], published(copied.fs, copied.root).facts["date"]
    copied.fs.delete(f"{copied.root}/published")
    copied.forget("publish")
    (bundle / "manifest.json").unlink()
    return copied, evaluated, day


def test_a_model_is_served_as_it_was_evaluated_whatever_publish_is_given(spark, unpublished):
    """An experiment that is published later, by a command with another configuration than it was made with."""
    run, evaluated, day = unpublished
    other = ["method=mach", "mach.aggregate=min", "predict.beam=3", "predict.top_k=7", "run.date=2031-01-01"]
    config = load(None, [f"run.root={run.root}", f"run.id={run.id}", *other])
    run_stage(spark, config, run, None, PUBLISH)
    assert read_manifest(Path(run.fs.local_path(run.folder("bundle"))))["settings"] == evaluated
    assert published(run.fs, run.root).facts["date"] == day


def test_what_an_earlier_release_predicted_is_predicted_again_before_it_is_served(spark, unpublished):
    run, *_ = unpublished
    record = run.record("predict")
    run.finish(replace(record, notes={k: v for k, v in record.notes.items() if k != "asked"}))
    config = load(None, [f"run.root={run.root}", f"run.id={run.id}"])
    with pytest.raises(
        StoreError, match=r"predicted by an earlier release.*run predict, evaluate, then publish"
    ):
        run_stage(spark, config, run, None, PUBLISH)
    assert published(run.fs, run.root) is None
