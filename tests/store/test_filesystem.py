"""Files of the store behave the same on the local disk and on a filesystem that Hadoop reaches by another scheme
(viewfs, mounted on a local folder, stands in for s3:// and hdfs://)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from xmcspark.store.filesystem import Filesystem, joined


@pytest.fixture(params=["file", "viewfs"])
def place(request, spark, tmp_path):
    """(filesystem, URI of an empty folder)."""
    if request.param == "file":
        return Filesystem(spark), f"file://{tmp_path}"
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.store.link./data", f"file://{tmp_path}")
    hadoop.setBoolean("fs.viewfs.impl.disable.cache", True)  # another mount for each test
    return Filesystem(spark), "viewfs://store/data"


def test_text_comes_back_as_it_was_written(place):
    fs, uri = place
    fs.write_text(joined(uri, "a", "b.json"), "ü\n")
    fs.write_text(joined(uri, "a", "b.json"), "ö\n")
    assert fs.read_text(joined(uri, "a", "b.json")) == "ö\n"


def test_a_missing_file_is_not_found(place):
    fs, uri = place
    with pytest.raises(FileNotFoundError):
        fs.read_text(joined(uri, "none"))
    assert not fs.exists(joined(uri, "none"))
    assert fs.list(joined(uri, "none")) == []


def test_a_file_is_created_once(place):
    fs, uri = place
    assert fs.create(joined(uri, "p", "1.json"), "first")
    assert not fs.create(joined(uri, "p", "1.json"), "second")
    assert fs.read_text(joined(uri, "p", "1.json")) == "first"
    assert [entry.name for entry in fs.list(joined(uri, "p"))] == ["1.json"]


def test_of_many_that_create_a_file_at_once_one_succeeds(spark, tmp_path):
    fs, uri = Filesystem(spark), f"file://{tmp_path}/n/1.json"
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: fs.create(uri, str(i)), range(16)))
    assert sum(won) == 1
    assert fs.read_text(uri) == str(won.index(True))


def test_walking_finds_files_below_and_leaves_hidden_ones_out(place):
    fs, uri = place
    for name in ("x/1", "x/y/2", "_temporary/3", "x/.4.crc"):
        fs.write_text(joined(uri, name), name)
    assert [entry.uri.rpartition("/")[2] for entry in fs.walk(uri)] == ["1", "2"]
    assert [entry.size for entry in fs.walk(uri)] == [3, 5]


def test_a_folder_goes_up_and_comes_down(place, tmp_path_factory):
    fs, uri = place
    local = tmp_path_factory.mktemp("local")
    (local / "up" / "sub").mkdir(parents=True)
    (local / "up" / "sub" / "f").write_text("1")
    fs.upload(local / "up", joined(uri, "there"))
    fs.upload(local / "up", joined(uri, "there"))  # in place of the first
    fs.download(joined(uri, "there"), local / "down")
    assert (local / "down" / "sub" / "f").read_text() == "1"
    assert [entry.name for entry in fs.list(joined(uri, "there"))] == ["sub"]


def test_only_local_files_have_a_local_path(spark):
    fs = Filesystem(spark)
    assert fs.local_path("file:///a%20b") == "/a b"
    assert fs.local_path("s3://bucket/key") is None
    assert fs.qualified("/a/b").startswith("file:")
