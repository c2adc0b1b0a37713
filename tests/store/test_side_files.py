"""Folders sent to executors: each is found under a name of its own, and nothing is left behind."""

from pathlib import Path

import pytest
from pyspark import SparkFiles

from xmcspark.store import side_files
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.side_files import local_copy, remove_copies, send_folder, send_made_folder
from xmcspark.store.stage import Stage


class Cluster:
    """Stands in for a session whose tasks do not see the driver's disk, and for its executor."""

    def __init__(self, folder):
        self.sparkContext = self
        self.master, self.applicationId = "spark://host:7077", str(folder)
        self.listFiles, self._fetched = [], Path(folder)

    def addFile(self, path, recursive=False):  # noqa: N802  Spark's name
        name = path.rpartition("/")[2]
        assert name not in [known.rpartition("/")[2] for known in self.listFiles], f"{name} is taken"
        self.listFiles.append(path)
        target = self._fetched / name
        if recursive:
            target.mkdir()
            (target / "weights").write_text(f"fetched from {path}")
        else:
            target.write_bytes(Path(path.removeprefix("file://")).read_bytes())


class Remote:
    """A filesystem without local paths; `contents` is what its folders hold now."""

    contents = "old"

    def local_path(self, uri):
        return None

    def download(self, uri, target):
        (target / "0").mkdir(parents=True)
        (target / "0" / "weights").write_text(f"{self.contents} {uri}")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(SparkFiles, "get", lambda name: str(tmp_path / name))
    yield Cluster(tmp_path)
    remove_copies()


def test_two_models_of_one_name_do_not_read_each_others_files(cluster):
    fs = Remote()
    first, again, other = (
        send_folder(cluster, fs, f"s3://b/{run}/bundle/model", "v1") for run in ("a", "a", "b")
    )
    assert first == again
    assert (first.path() / "weights").read_text() == "fetched from s3://b/a/bundle/model"
    assert (other.path() / "0" / "weights").read_text() == "old s3://b/b/bundle/model"


def test_a_folder_that_was_written_again_is_sent_again(cluster):
    fs = Remote()
    sent = [send_folder(cluster, fs, "s3://b/a/model", "v1")]
    fs.contents = "new"
    sent.append(send_folder(cluster, fs, "s3://b/a/model", "v2"))
    assert len({folder.path() for folder in sent}) == 2
    assert (sent[1].path() / "0" / "weights").read_text() == "new s3://b/a/model"


def test_a_name_among_the_users_own_files_is_not_used(cluster):
    cluster.listFiles.append("s3://elsewhere/model")
    assert send_folder(cluster, Remote(), "s3://b/a/model", "v1").path().name != "model"


def test_copies_of_folders_elsewhere_go_when_the_job_ends(spark, tmp_path):
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.copies.link./data", f"file://{tmp_path}")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("1")
    fs, uri = Filesystem(spark), "viewfs://copies/data/model"
    copies = [local_copy(fs, uri), send_folder(spark, fs, uri, "v1").path()]
    assert [(copy / "weights").read_text() for copy in copies] == ["1", "1"]
    remove_copies()
    assert not any(copy.parent.exists() for copy in copies)
    assert side_files._made == []


def test_what_the_driver_made_is_there_after_its_folder_is_gone(make_context, tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (made / "profile").write_text("x")
    context = make_context(Stage("evaluate", 1, (), (), (), lambda context: None))
    sent = [send_made_folder(context, made, "profile") for _ in range(2)]
    (made / "profile").unlink()
    assert [(folder.path() / "profile").read_text() for folder in sent] == ["x", "x"]
    assert len({folder.path().name for folder in sent}) == 2, "a process keeps what it opened by its path"
