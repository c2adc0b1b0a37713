"""Training of linear matchers (native/train.h). Arguments are checked by xmcspark.matchers.train."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

from views cimport CsrView, Flags, Floats, Ints, Longs, Seeds, csr_view, flags, floats, ints, longs, seeds


cdef extern from "solve.h" namespace "xmc":
    cdef enum class Loss(int):
        squared_hinge
        hinge
        logistic
    cdef cppclass SolverSettings:
        Loss loss
        float tolerance
        int max_sweeps
        float bias

cdef extern from "train.h" namespace "xmc":
    cdef cppclass Progress:
        int64_t* counters
    cdef cppclass LevelProblem:
        CsrView X, Y, U, W
        Floats relevance, row_weight, row_negative, w_bias
        Longs child_ptr, node_rows_ptr
        Seeds node_seed
        Ints node_rows
        Flags whole
        SolverSettings settings
        float cost_positive, cost_negative, threshold
        int64_t max_weights
    cdef cppclass LevelsTrainer:
        vector[LevelProblem] levels
        void run(int threads, Progress progress) except + nogil
        int64_t weights(int64_t level)
        void write(int64_t level, int64_t* indptr, int32_t* indices, float* data, float* dense,
                   float* bias) except + nogil


LOSSES = {"squared_hinge": 0, "hinge": 1, "logistic": 2}


def train_levels(list problems, *, str loss, float tolerance, int max_sweeps, float bias, float cost_positive,
                 float cost_negative, float threshold, int64_t max_weights, int threads, int64_t[::1] progress):
    """[(indptr, indices, data, dense, bias)] of the matchers of each level, one row a child; `dense`: weights of the dense
    columns, or None.

    `problems`: objects with X, Y, negatives, start (Csr or None), start_bias, relevance, row_weight,
    row_negative, child_ptr, node_seed, node_rows_ptr, node_rows, whole (read only). `progress[0]` counts trained children, `progress[1]` = 1 stops,
    `progress[2]` counts those that stopped at max_sweeps.
    """
    cdef LevelsTrainer trainer
    cdef LevelProblem level
    cdef Progress shared
    shared.counters = &progress[0]
    for problem in problems:
        level.X = csr_view(problem.X)
        level.Y = csr_view(problem.Y)
        level.U = csr_view(problem.negatives)
        level.W = csr_view(problem.start)
        level.w_bias = floats(problem.start_bias)
        level.relevance = floats(problem.relevance)
        level.row_weight = floats(problem.row_weight)
        level.row_negative = floats(problem.row_negative)
        level.child_ptr = longs(problem.child_ptr)
        level.node_seed = seeds(problem.node_seed)
        level.node_rows_ptr = longs(problem.node_rows_ptr)
        level.node_rows = ints(problem.node_rows)
        level.whole = flags(problem.whole)
        level.settings.loss = <Loss> <int> LOSSES[loss]
        level.settings.tolerance = tolerance
        level.settings.max_sweeps = max_sweeps
        level.settings.bias = bias
        level.cost_positive = cost_positive
        level.cost_negative = cost_negative
        level.threshold = threshold
        level.max_weights = max_weights
        trainer.levels.push_back(level)
    with nogil:
        trainer.run(threads, shared)
    return [written(trainer, t, int(problem.child_ptr[len(problem.child_ptr) - 1]), problem.X.width)
            for t, problem in enumerate(problems)]


cdef tuple written(LevelsTrainer& trainer, int64_t t, int64_t children, int64_t width):
    cdef int64_t nnz = trainer.weights(t)
    indptr = np.empty(children + 1, np.int64)
    indices = np.empty(max(nnz, 1), np.int32)
    data = np.empty(max(nnz, 1), np.float32)
    dense = np.empty((max(children, 1), max(width, 1)), np.float32)
    bias = np.empty(max(children, 1), np.float32)
    cdef int64_t[::1] p = indptr
    cdef int32_t[::1] i = indices
    cdef float[::1] d = data, b = bias
    cdef float[:, ::1] block = dense
    with nogil:
        trainer.write(t, &p[0], &i[0], &d[0], &block[0, 0], &b[0])
    return indptr, indices[:nnz], data[:nnz], dense[:children] if width else None, bias[:children]
