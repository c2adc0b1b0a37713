"""A folder belongs to the work that was begun in it."""

import numpy as np
import pytest

from xmcspark.errors import InputError
from xmcspark.neural.begun import claim, content_hash


def test_a_folder_is_of_the_work_that_was_begun_in_it(tmp_path):
    claim(tmp_path / "work", {"shape": (4, 16), "seed": 0})
    claim(tmp_path / "work", {"seed": 0, "shape": [4, 16]})
    with pytest.raises(InputError, match=r"other settings or instances \(more, seed\): remove it"):
        claim(tmp_path / "work", {"shape": (4, 16), "seed": 1, "more": 2})


def test_a_hash_tells_values_types_and_places_apart():
    one = np.arange(6, dtype=np.int32)
    found = [
        content_hash(arrays)
        for arrays in (
            [one],
            [one.reshape(2, 3)],
            [one.astype(np.float32)],
            [one + 1],
            [one, None],
            [None, one],
            [one[:0], one],
            [],
        )
    ]
    assert len(set(found)) == len(found)
    assert content_hash([one.reshape(2, 3).T]) == content_hash([np.array([[0, 3], [1, 4], [2, 5]], np.int32)])
