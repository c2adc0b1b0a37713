"""PIFA by the general sparse products of scipy, MKL and torch: from X and Y to label features that are sorted
and l2-normalised, exactly what PECOS and xmcspark return."""

import os
import sys
from pathlib import Path

import scipy.sparse as sp
from sklearn.preprocessing import normalize
from stopwatch import run_job


def main(job):
    if not job.wants("pifa"):
        return
    multiply = {"scipy": by_scipy, "mkl": by_mkl, "torch": by_torch}[job.system](job.threads)
    X, Y = job.matrix("X"), job.matrix("Y")
    job.measure("pifa", lambda: pifa(multiply, X, Y))


def pifa(multiply, X, Y):
    Z = multiply(Y.T.tocsr(), X)
    Z.sort_indices()
    return normalize(Z, axis=1, copy=False)


def by_scipy(threads):
    return lambda a, b: a @ b


def by_mkl(threads):
    library = next(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))
    os.environ["MKL_RT"] = str(library)
    from sparse_dot_mkl import dot_product_mkl, mkl_set_num_threads

    mkl_set_num_threads(threads)

    def multiply(a, b):
        product = dot_product_mkl(a, b, reorder_output=True)
        product.has_sorted_indices = True
        return product

    return multiply


def by_torch(threads):
    import torch

    torch.set_num_threads(threads)

    def as_torch(m):
        arrays = (torch.from_numpy(a) for a in (m.indptr, m.indices, m.data))
        return torch.sparse_csr_tensor(*arrays, size=m.shape, check_invariants=False)

    def multiply(a, b):
        product = as_torch(a) @ as_torch(b)
        parts = (product.values(), product.col_indices(), product.crow_indices())
        return sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(product.shape))

    return multiply


run_job(main)
