"""What was begun is kept where the run lies, whatever filesystem that is, by the driver or by processes on executors: a
kill at any time leaves a whole copy to go on from."""

import logging
from types import SimpleNamespace

import needs_torch  # noqa: F401
import pytest
from filled_job import filled_job

from xmcspark.neural import device as device_module
from xmcspark.neural import fine_tuning_job
from xmcspark.neural.distributed_spark import _work
from xmcspark.neural.level_task import LevelTask
from xmcspark.neural.work_folder_spark import _arrow_place, keep_copy, newest_copy, work_folder
from xmcspark.store.filesystem import Filesystem


class Elsewhere(Filesystem):
    """This disk as if it were another filesystem."""

    def local_path(self, uri):
        return None


@pytest.fixture
def context(spark, tmp_path):
    where = (tmp_path / "scratch").as_uri()
    return SimpleNamespace(fs=Elsewhere(spark), key="k" * 32, scratch=lambda name: f"{where}/{name}")


@pytest.fixture
def copies(tmp_path):
    return tmp_path / "scratch" / ("fine-tuning-" + "k" * 16)


def names(copies):
    return sorted(path.name for path in copies.iterdir() if not path.name.startswith("."))


def test_a_killed_run_finds_the_newest_copy_that_is_whole(context, copies, monkeypatch):
    mark, made = Elsewhere.write_text, []

    def dying(fs, uri, text):
        made.append(uri)
        if len(made) == 3:
            raise KeyboardInterrupt
        mark(fs, uri, text)

    def killed():
        with work_folder(context) as work:
            for number in range(3):
                (work / "state").mkdir(exist_ok=True)
                (work / "state" / "level").write_text(str(number))
                keep_copy(context, work)
                assert names(copies) == [f"copy-00000{number}", f"copy-00000{number}.whole"]

    monkeypatch.setattr(Elsewhere, "write_text", dying)
    with pytest.raises(KeyboardInterrupt):
        killed()
    monkeypatch.undo()
    with work_folder(context) as again:
        assert (again / "state" / "level").read_text() == "1"
        keep_copy(context, again)
        assert names(copies) == ["copy-000002", "copy-000002.whole"]
    assert not copies.exists()


@pytest.fixture
def begun(context, tmp_path, tiny_encoder):
    """The first copy of a job."""
    keep_copy(context, filled_job(tmp_path / "filled", tiny_encoder))
    return context.scratch("fine-tuning-" + "k" * 16)


def test_processes_bring_what_they_began_and_the_outcome_to_the_run(
    begun, context, copies, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    plain, calls = LevelTask.loss, []

    def dying(task, encoder, rows):
        calls.append(task.level.number)
        if calls[-1] == 1:
            raise KeyboardInterrupt
        return plain(task, encoder, rows)

    monkeypatch.setattr(LevelTask, "loss", dying)
    with pytest.raises(KeyboardInterrupt):
        _work(None, begun, 0)
    monkeypatch.setattr(LevelTask, "loss", plain)
    number = newest_copy(context.fs, begun)
    assert number == 2, "one when each level began"
    with caplog.at_level(logging.INFO):
        _work(None, begun, number)
    assert "going on at level 2" in caplog.text
    assert "torch works on cpu" in caplog.text
    assert (copies / f"copy-{newest_copy(context.fs, begun):06d}" / "encoder").is_dir()
    assert len(names(copies)) == 2
    assert list((tmp_path / "temporary").iterdir()) == []


def test_each_process_opens_the_gpu_of_its_rank(begun, copies, monkeypatch):
    """Before they meet: those that meet on one GPU wait for each other for ever."""
    asked = []

    def chosen(settings, local_rank=0):
        asked.append(local_rank)
        raise KeyboardInterrupt

    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(device_module, "chosen_device", chosen)
    monkeypatch.setattr(fine_tuning_job, "chosen_device", chosen)
    with pytest.raises(KeyboardInterrupt):
        _work(None, begun, 0)
    with pytest.raises(KeyboardInterrupt):
        fine_tuning_job.main([str(copies / "copy-000000")])
    assert asked == [3, 3]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_arrow_finds_what_hadoop_calls_otherwise(scheme, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "xmcspark.neural.work_folder_spark.arrow",
        SimpleNamespace(FileSystem=SimpleNamespace(from_uri=lambda uri: (asked.append(uri), "path"))),
    )
    _arrow_place(f"{scheme}://bucket/runs/s3a://x")
    assert asked == ["s3://bucket/runs/s3a://x"]
