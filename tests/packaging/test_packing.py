"""What a package holds, when it is refused, and that nobody sees half of one."""

import hashlib
import json
import platform
import subprocess
import tarfile

import pytest

from jobs import package as job
from jobs.submit import ROOT
from xmcspark.config.configuration import load
from xmcspark.errors import InputError, PlatformError
from xmcspark.packaging import package
from xmcspark.packaging.environment import SITE
from xmcspark.packaging.package import Wishes, job_names, local_paths, write_package

OTHER_MACHINE = "x86_64" if platform.machine() == "aarch64" else "aarch64"


def test_a_package_has_every_spark_job_the_configuration_and_the_settings(write):
    out, _ = write()
    assert {path.stem for path in (out / "jobs").iterdir()} == set(job_names(ROOT)) >= {"refresh", "publish"}
    assert json.loads((out / "config.json").read_text())["run"]["root"] == "s3://bucket/runs"
    assert len(list((out / "conf").glob("spark-*.conf"))) == 3


def test_the_manifest_lists_every_file_with_size_and_checksum(write):
    out, manifest = write(at="s3://bucket/x")
    assert json.loads((out / "manifest.json").read_text()) == manifest
    there = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    assert set(manifest["files"]) == set(there) - {"manifest.json"}
    for name, entry in manifest["files"].items():
        content = there[name].read_bytes()
        assert entry == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_the_manifest_says_what_machines_it_needs(write):
    needs = write()[1]["needs"]
    assert needs["machine"] == platform.machine()
    assert needs["at_least"] == {"GLIBC": "2.14", "GLIBCXX": "3.4.29"}


def test_the_same_files_give_the_same_bytes(write):
    first, second = (write(name)[0] / "environment.tar.gz" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_the_archive_has_no_links_and_nobody_owns_its_files(write):
    with tarfile.open(write()[0] / "environment.tar.gz") as archive:
        entries = {entry.name: entry for entry in archive}
    assert all(entry.isfile() and entry.uid == 0 and entry.mtime == 0 for entry in entries.values())
    assert entries["bin/python"].mode == 0o755
    assert not any("template.cpython" in name for name in entries)


def test_compiled_modules_are_used_as_they_come(write, tmp_path):
    with tarfile.open(write()[0] / "environment.tar.gz") as archive:
        archive.extractall(tmp_path / "environment", filter="data")
    site = tmp_path / "environment" / SITE
    (site / "module.py").write_text("answer = 'compiled again'\n")  # never compared with the compiled one
    python = tmp_path / "environment" / "bin" / "python"
    shown = subprocess.run(
        [python, "-c", "import module; print(module.answer)"], capture_output=True, text=True
    )
    assert shown.stdout == "42\n", shown.stderr


def test_a_package_that_fails_half_way_leaves_nothing_and_the_old_one_stays(write, tmp_path, monkeypatch):
    out, before = write()
    monkeypatch.setattr(package, "checksum", lambda path: 1 / 0)
    for name in ("package", "new"):
        with pytest.raises(ZeroDivisionError):
            write(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["package", "site"]
    assert json.loads((out / "manifest.json").read_text()) == before


def test_an_older_package_is_replaced_as_a_whole(write, tmp_path):
    out, _ = write()
    (out / "jobs" / "gone.py").touch()
    write()
    assert not (out / "jobs" / "gone.py").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["package", "site"]


def test_a_folder_that_is_no_package_is_never_replaced(write, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "manifest.json").write_text('{"kind": "holiday pictures"}')
    with pytest.raises(InputError, match="is no package"):
        write()
    assert (tmp_path / "package" / "manifest.json").exists()


def test_a_package_that_needs_a_newer_c_library_is_refused(write, tmp_path):
    with pytest.raises(PlatformError, match=r"need glibc 2\.14.*amazonlinux"):
        write(glibc=(2, 9))
    assert not (tmp_path / "package").exists()
    write(glibc=(2, 14))


def test_another_processor_is_refused_with_the_remedy(tmp_path, capsys):
    assert job.main(["--out", str(tmp_path / "package"), "--platform", OTHER_MACHINE]) == 3
    assert f"run the same command on a {OTHER_MACHINE} machine" in capsys.readouterr().err
    assert not (tmp_path / "package").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--extras", "bench"], "choose from neural"),
        (["--set", "train.treshold=1"], "train.treshold"),
        (["--at", "s3://bucket/x"], "--at needs --config"),
    ],
)
def test_wrong_arguments_end_with_2_and_write_nothing(tmp_path, capsys, arguments, said):
    assert job.main(["--out", str(tmp_path / "package"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_a_configuration_there_is_none_in_the_package(small_environment, tmp_path):
    write_package(ROOT, tmp_path / "package", None, Wishes())
    assert not (tmp_path / "package" / "config.json").exists()


def test_paths_that_only_this_machine_has_are_named():
    config = load(None, ["run.root=/home/me/runs", "input.logs=s3://bucket/logs"])
    assert local_paths(config) == ["run.root: /home/me/runs"]


def test_a_version_that_is_none_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        job.main(["--out", str(tmp_path / "package"), "--glibc", "new"])
    assert "--glibc" in capsys.readouterr().err
