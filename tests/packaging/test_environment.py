"""What of this environment is packed: the library and what it requires, nothing of tests, tools and Spark."""

import re
from importlib.metadata import PackageNotFoundError, distribution

import pytest

from xmcspark.errors import PlatformError
from xmcspark.packaging import environment
from xmcspark.packaging.environment import SITE, environment_files, interpreter_files


@pytest.fixture(scope="module")
def packed():
    return environment_files([])


def test_the_library_comes_with_all_its_kernels(packed):
    files, _ = packed
    kernels = {
        name for place in files if (name := place.name).endswith(".so") and "xmcspark/_native" in str(place)
    }
    declared = {place.stem for place in files if place.suffix == ".pyi" and "xmcspark/_native" in str(place)}
    assert {name.split(".")[0] for name in kernels} == declared
    assert SITE / "xmcspark" / "store" / "worker_daemon.py" in files
    assert any(
        place.name == "METADATA" and "xmcspark-" in str(place) for place in files
    )  # a run notes the version


def test_what_the_library_imports_is_there_and_what_the_cluster_has_is_not(packed):
    _, versions = packed
    assert {"numpy", "scipy", "pyarrow", "pandas", "PyYAML", "xmcspark"} <= set(versions)
    assert not {"pyspark", "py4j", "pytest", "mypy", "ruff", "scikit-learn", "Cython", "torch"} & set(
        versions
    )


def test_nothing_of_this_machine_or_of_tests_is_packed(packed):
    files, _ = packed
    unwanted = re.compile(r"/tests/|__pycache__|__editable__|direct_url|RECORD$|/include/|flight")
    assert [str(place) for place in files if unwanted.search(str(place))] == []
    assert all(path.is_file() and not path.is_symlink() for path in files.values())
    assert not any(place.is_absolute() or ".." in place.parts for place in files)


def test_an_extra_that_is_not_installed_is_refused_with_the_remedy(monkeypatch):
    def without_torch(name):
        if name == "torch":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(environment, "distribution", without_torch)
    with pytest.raises(
        PlatformError, match=r"torch is not installed here: \./spark-submit\.sh setup --extras neural"
    ):
        environment_files(["neural"])


def test_a_checked_build_is_not_packed(monkeypatch):
    monkeypatch.setattr(environment.cpu, "checked", True)
    with pytest.raises(PlatformError, match="XMCSPARK_DEBUG"):
        environment_files([])


def test_an_interpreter_comes_with_its_library_and_without_its_packages():
    places = {str(place) for place in interpreter_files()}
    version = environment.PYTHON
    assert {f"base/bin/python{version}", f"base/lib/python{version}/os.py"} <= places
    assert not any("site-packages/" in place or "/test/" in place for place in places)
