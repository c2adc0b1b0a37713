"""The kernels that the tests run on are the ones meant, all of them from one build."""

import importlib
import os
from pathlib import Path

import pytest

import xmcspark
from xmcspark._native import cpu

NATIVE = Path(__file__).resolve().parents[1] / "native"
KERNELS = sorted(source.stem for source in NATIVE.glob("*.pyx"))


def test_kernels_are_checked_exactly_if_the_environment_says_so():
    assert cpu.checked == (os.environ.get("XMCSPARK_EXPECT_CHECKED", "0") == "1")


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_built_beside_the_package(name):
    kernel = importlib.import_module(f"xmcspark._native.{name}")
    assert Path(kernel.__file__).parent == Path(xmcspark.__file__).parent / "_native"


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_stub_for_type_checkers(name):
    assert (Path(xmcspark.__file__).parent / "_native" / f"{name}.pyi").exists()
