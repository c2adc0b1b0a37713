"""Folders of arrays: the same after loading, mapped read-only, whole or refused with the file's name."""

import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.store.arrays import HEADER, load_arrays, save_arrays

ARRAYS = {
    "whole": np.arange(-3, 9).reshape(3, 4),
    "part.0": np.linspace(0, 1, 7, dtype=np.float32),
    "empty": np.zeros((0, 2), np.int32),
    "sliced": np.arange(10, dtype=np.uint8)[::2],
}


@pytest.fixture
def folder(tmp_path):
    save_arrays(tmp_path / "deep" / "thing", "thing", 3, {"colour": "größe"}, ARRAYS)
    return tmp_path / "deep" / "thing"


def change_header(folder, **changes):
    path = folder / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_loaded_arrays_are_the_saved_ones(folder):
    header, arrays = load_arrays(folder, "thing", 3)
    assert header["colour"] == "größe"
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)


def test_arrays_are_mapped_and_cannot_be_written(folder):
    for array in load_arrays(folder, "thing", 3)[1].values():
        assert isinstance(array.base, np.memmap)
        assert not array.flags.writeable
    array = load_arrays(folder, "thing", 3)[1]["whole"]
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_the_header_cannot_hide_kind_version_or_arrays(tmp_path):
    save_arrays(tmp_path, "thing", 3, {"kind": "other", "version": 9, "arrays": {}}, ARRAYS)
    assert load_arrays(tmp_path, "thing", 3)[1].keys() == ARRAYS.keys()


def test_numbers_of_numpy_in_the_header_are_kept(tmp_path):
    save_arrays(tmp_path, "thing", 3, {"count": np.int64(5), "share": np.float32(0.5)}, {})
    header, _ = load_arrays(tmp_path, "thing", 3)
    assert (header["count"], header["share"]) == (5, 0.5)


def test_a_header_that_cannot_be_kept_leaves_the_folder_as_it_was(folder):
    with pytest.raises(TypeError, match="set cannot be kept"):
        save_arrays(folder, "thing", 3, {"x": set()}, {})
    assert load_arrays(folder, "thing", 3)[1].keys() == ARRAYS.keys()


def test_mapped_arrays_can_be_saved_over_themselves(folder):
    header, arrays = load_arrays(folder, "thing", 3)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    save_arrays(folder, "thing", 3, header, arrays)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert np.array_equal(arrays["whole"], ARRAYS["whole"])


def test_arrays_that_are_open_keep_their_values_when_others_are_saved(folder):
    arrays = load_arrays(folder, "thing", 3)[1]
    save_arrays(folder, "thing", 3, {}, {name: array * 0 for name, array in ARRAYS.items()})
    assert np.array_equal(arrays["whole"], ARRAYS["whole"])


@pytest.mark.parametrize("saves", range(len(ARRAYS) + 1))
def test_an_interrupted_save_leaves_nothing_that_loads(folder, monkeypatch, saves):
    """`saves` files are in place when the machine stops: all but the last of them are arrays."""
    real, count = os.replace, iter(range(saves))

    def stops(source, target):
        if next(count, None) is None:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", stops)
    with pytest.raises(KeyboardInterrupt):
        save_arrays(folder, "thing", 3, {}, {name: array * 0 for name, array in ARRAYS.items()})
    with pytest.raises(InputError, match=f"not a saved thing: it has no {HEADER}"):
        load_arrays(folder, "thing", 3)


def test_every_missing_file_is_named(folder):
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(InputError, match=path.name):
            load_arrays(folder, "thing", 3)
        path.write_bytes(content)
    load_arrays(folder, "thing", 3)


def test_every_truncated_file_is_named(folder):
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for length in (0, 5, 60, len(content) - 10):
            path.write_bytes(content[:length])
            with pytest.raises(InputError, match=path.name):
                load_arrays(folder, "thing", 3)
        path.write_bytes(content)
    load_arrays(folder, "thing", 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 127), st.binary(min_size=1, max_size=20))
def test_noise_in_the_head_of_a_file_is_refused_or_harmless(folder, at, noise):
    path = folder / "whole.npy"
    content = path.read_bytes()
    path.write_bytes(content[:at] + noise + content[at + len(noise) :])
    try:
        array = load_arrays(folder, "thing", 3)[1]["whole"]
        assert (array.dtype, array.shape) == (ARRAYS["whole"].dtype, (3, 4))
    except InputError:
        pass
    finally:
        path.write_bytes(content)


def test_pickled_and_zipped_arrays_are_refused(folder):
    path = folder / "whole.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"whole\.npy is damaged"):
        load_arrays(folder, "thing", 3)
    with open(path, "wb") as stream:
        np.savez(stream, whole=ARRAYS["whole"])
    with pytest.raises(InputError, match=r"whole\.npy is damaged"):
        load_arrays(folder, "thing", 3)


@pytest.mark.parametrize("other", [np.arange(12.0).reshape(3, 4), np.arange(12)])
def test_an_array_of_another_type_or_shape_is_refused(folder, other):
    np.save(folder / "whole.npy", other)
    with pytest.raises(InputError, match=r"whole\.npy.*do not belong together"):
        load_arrays(folder, "thing", 3)


@pytest.mark.parametrize(
    "file", ["../x.npy", "/etc/x.npy", "a/b.npy", "..", "", None, 5, "x.npz", "x.npy\n", ["whole.npy"]]
)
def test_files_outside_the_folder_are_never_opened(folder, file):
    np.save(folder.parent / "x.npy", ARRAYS["whole"])
    change_header(folder, arrays={"x": {"file": file, "dtype": "<i8", "shape": [3, 4]}})
    with pytest.raises(InputError, match=r"header\.json: array 'x' has no usable file name"):
        load_arrays(folder, "thing", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "tree"}, "describes a tree, where a thing is expected"),
        ({"kind": None}, "another kind, where a thing is expected"),
        ({"version": 2}, "version 2 and this release reads 3: make it again"),
        ({"version": None}, "version None"),
        ({"arrays": None}, "lists no arrays"),
        ({"arrays": [1]}, "lists no arrays"),
        ({"arrays": {"x": 1}}, "no usable file name"),
        ({"arrays": {"x": {"file": "whole.npy"}}}, "do not belong together"),
        ({"arrays": {"x": {"file": "whole.npy", "shape": 5}}}, "do not belong together"),
    ],
)
def test_foreign_headers_are_refused(folder, changes, message):
    change_header(folder, **changes)
    with pytest.raises(InputError, match=message) as caught:
        load_arrays(folder, "thing", 3)
    assert HEADER in str(caught.value)


@pytest.mark.parametrize("text", [b"{", b"", b"\xff{}", b"[" * 100_000])
def test_a_header_that_is_no_json_is_refused(folder, text):
    (folder / HEADER).write_bytes(text)
    with pytest.raises(InputError, match=r"header\.json is not readable as JSON"):
        load_arrays(folder, "thing", 3)


@pytest.mark.parametrize("text", ["[]", "5", "null", '"thing"'])
def test_a_header_that_is_no_mapping_is_refused(folder, text):
    (folder / HEADER).write_text(text)
    with pytest.raises(InputError, match="where a thing is expected"):
        load_arrays(folder, "thing", 3)
