"""Balanced and unbalanced clustering of label vectors (cluster.h, wide_means.h)."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

from views cimport CsrView, Flags, Ints, Longs, Span, flags, floats, ints, longs, read_only

cdef extern from "cluster.h" namespace "xmc" nogil:
    cdef cppclass LabelRows:
        pass

    cdef cppclass RowStore:
        pass

    LabelRows load_rows(const CsrView&, RowStore&) except +

    cdef cppclass FeatureCompactor:
        LabelRows compact(const LabelRows&, Ints, RowStore&) except +

    cdef cppclass SplitSettings:
        int iterations
        double tolerance
        int threads

    cdef cppclass TreeShape:
        vector[Longs] child_ptr
        vector[int64_t] first
        int root_level, stop

    cdef cppclass TreeSettings:
        SplitSettings split
        uint64_t seed
        Span[const double] keep
        Flags dense

    cdef cppclass LevelStats:
        double seconds
        int64_t splits, passes, centre_length

    cdef cppclass TreeBuilder:
        TreeBuilder(const TreeShape&, const TreeSettings&, Longs, Span[int32_t], Span[int64_t]) except +
        vector[LevelStats] build(const CsrView&) except +


cdef extern from "wide_means.h" namespace "xmc" nogil:
    cdef cppclass WideSettings:
        int clusters, iterations, threads
        double tolerance
        uint64_t seed

    cdef cppclass WideMeans:
        int run(const LabelRows&, const WideSettings&, Span[int32_t]) except +


cdef CsrView view(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data, int64_t cols):
    cdef CsrView z
    z.indptr = longs(indptr)
    z.indices = ints(indices)
    z.data = floats(data)
    z.cols = cols
    return z


def balanced_order(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data, int64_t cols,
                   const int64_t[::1] labels, list child_ptr, const int64_t[::1] first, int root_level, int stop,
                   const double[::1] keep, const uint8_t[::1] dense, int iterations, double tolerance,
                   uint64_t seed, int threads):
    """(order, node_size, stats) of a balanced tree of the given shape over the rows of a CSR matrix.

    Reads everything. `labels` (increasing) names the rows; `child_ptr` has one int64 array per level of clusters
    but the last; `first`, `keep` and `dense` have one value per level of clusters. `order` is the row at each
    leaf position and `node_size` the labels of each node of level `stop`; `stats` is (CPU seconds, splits, passes,
    summed centre length) per level.
    """
    cdef int64_t rows = indptr.shape[0] - 1, levels = first.shape[0]
    cdef TreeShape shape
    cdef TreeSettings settings
    cdef CsrView z = view(indptr, indices, data, cols)
    cdef const int64_t[::1] level
    cdef int64_t nodes = 1
    if len(child_ptr) != levels - 1 or not 0 <= stop < levels or keep.shape[0] != levels or dense.shape[0] != levels:
        raise ValueError("one entry of first, keep and dense per level of clusters is needed")
    for array in child_ptr:
        level = array
        shape.child_ptr.push_back(longs(level))
        if shape.child_ptr.size() == <size_t> stop:
            nodes = level[level.shape[0] - 1]
    for t in range(levels):
        shape.first.push_back(first[t])
    shape.root_level = root_level
    shape.stop = stop
    settings.split.iterations = iterations
    settings.split.tolerance = tolerance
    settings.split.threads = threads
    settings.seed = seed
    settings.keep = read_only[double](&keep[0], levels)
    settings.dense = flags(dense)
    out_order = np.empty(rows, np.int32)
    out_node_size = np.zeros(nodes, np.int64)
    cdef int32_t[::1] order = out_order
    cdef int64_t[::1] node_size = out_node_size
    cdef vector[LevelStats] stats
    cdef TreeBuilder* builder = new TreeBuilder(
        shape, settings, longs(labels), Span[int32_t](&order[0], rows), Span[int64_t](&node_size[0], nodes))
    try:
        with nogil:
            stats = builder.build(z)
    finally:
        del builder
    return out_order, out_node_size, [(s.seconds, s.splits, s.passes, s.centre_length) for s in stats]


def wide_clusters(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data, int64_t cols,
                  int clusters, int iterations, double tolerance, uint64_t seed, int threads):
    """(cluster of each row, number of clusters) by k-means without a size constraint.

    Reads all arrays; 1 <= clusters <= rows. No cluster is empty, so there may be fewer than asked for.
    """
    cdef int64_t rows = indptr.shape[0] - 1
    cdef CsrView z = view(indptr, indices, data, cols)
    cdef RowStore loaded_store, store
    cdef LabelRows loaded, compacted
    cdef FeatureCompactor compactor
    cdef WideSettings settings
    cdef WideMeans means
    cdef int found
    out = np.empty(rows, np.int32)
    cdef int32_t[::1] cluster = out
    cdef const int32_t[::1] every = np.arange(rows, dtype=np.int32)
    cdef Ints members = ints(every)
    settings.clusters = clusters
    settings.iterations = iterations
    settings.tolerance = tolerance
    settings.seed = seed
    settings.threads = threads
    with nogil:
        loaded = load_rows(z, loaded_store)
        compacted = compactor.compact(loaded, members, store)
        found = means.run(compacted, settings, Span[int32_t](&cluster[0], rows))
    return out, found
