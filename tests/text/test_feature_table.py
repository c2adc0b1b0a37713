"""Rows of X come out of either table, and weights of both kinds find back to where they belong."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from xmcspark.config.configuration import default_config
from xmcspark.errors import InputError
from xmcspark.sparse.arrow import lists_of_csr
from xmcspark.sparse.csr import as_csr, with_dense
from xmcspark.text.feature_table import FeatureSpace, feature_table


def some_rows(width: int):
    sparse = sp.random(5, 7, 0.4, "csr", np.float32, random_state=3)
    return (
        with_dense(sparse, np.random.default_rng(3).standard_normal((5, width))) if width else as_csr(sparse)
    )


def table_of(X, **changes):
    indices, values = lists_of_csr(X.sparse)
    columns = {"indices": indices, "values": values}
    if X.dense is not None:
        columns["embedding"] = pa.array(X.dense.tolist(), pa.list_(pa.float32()))
    return pa.table({**columns, **changes})


@pytest.mark.parametrize("width", [0, 3])
def test_rows_are_read_as_they_were_written(width):
    X, space = some_rows(width), FeatureSpace(7, width)
    found = space.rows(table_of(X).select(space.columns))
    assert (found.shape, found.width) == ((5, 7 + width), width)
    np.testing.assert_array_equal(found.to_scipy().toarray(), X.to_scipy().toarray())


@pytest.mark.parametrize("width", [0, 3])
def test_weights_in_one_list_are_divided_again(width):
    W = some_rows(width)
    found = FeatureSpace(7, width).divided(W.expanded())
    assert found.width == width
    np.testing.assert_array_equal(found.to_scipy().toarray(), W.to_scipy().toarray())


def test_tables_that_do_not_belong_together_are_refused():
    X = some_rows(3)
    with pytest.raises(InputError, match="there are only 2"):
        FeatureSpace(2, 3).rows(table_of(X))
    with pytest.raises(InputError, match="each should have 4"):
        FeatureSpace(7, 4).rows(table_of(X))
    with pytest.raises(InputError, match="run train again"):
        FeatureSpace(7, 3).divided(X.sparse)


@pytest.mark.parametrize(
    ("method", "table"), [("xr-linear", "features"), ("mach", "features"), ("x-transformer", "embeddings")]
)
def test_methods_with_an_encoder_read_embeddings(method, table):
    assert feature_table(default_config(method)) == table
