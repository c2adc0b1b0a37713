"""The sketch of MACH: hashes of labels, margins of buckets, recovery of labels (native/sketch_*.h).

Arguments are checked by xmcspark.mach.hashing, .repetition and .recovery."""

import numpy as np

from xmcspark.errors import InputError

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from views cimport CsrView, Floats, Ints, Longs, Span, csr_view, floats, ints, longs, read_only

ctypedef fused Bucket:
    int32_t
    uint16_t


cdef extern from "sketch_hash.h" namespace "xmc" nogil:
    cdef cppclass BucketHash:
        BucketHash()
        BucketHash(uint32_t a, uint32_t b, uint32_t buckets)
    void hash_labels(const BucketHash& hash, Ints labels, Span[int32_t] buckets) except +

cdef extern from "search.h" namespace "xmc" nogil:
    cdef enum class Transform(int):
        identity
        sigmoid
        hinge
    cdef cppclass ScoreForm:
        Transform transform
        int power
        cbool log
        cbool exp_at_end

cdef extern from "sketch_transform.h" namespace "xmc" nogil:
    cdef cppclass DenseRows:
        float* first
        int64_t rows, width, stride
    void transform_margins(const DenseRows& margins, const ScoreForm& form, int threads) except +

cdef extern from "sketch_margins.h" namespace "xmc" nogil:
    cdef cppclass BucketWeights[T]:
        Longs indptr
        Span[const T] buckets
        Floats values, bias
    void bucket_margins[T](const BucketWeights[T]& weights, const CsrView& X, int threads,
                           const DenseRows& out) except +

cdef extern from "sketch_score.h" namespace "xmc" nogil:
    cdef enum class Aggregate(int):
        mean
        min
        median
        unbiased
    cdef cppclass ScoreRule:
        ScoreRule()
        ScoreRule(Aggregate aggregate, int64_t repetitions, int64_t buckets) except +
    cdef cppclass BucketScores:
        Floats data
        int64_t repetitions, buckets
    cdef cppclass RankedRows:
        int64_t k
        Span[int32_t] labels
        Span[float] scores
        Span[int32_t] levels

cdef extern from "sketch_exact.h" namespace "xmc" nogil:
    cdef cppclass BucketTable[T]:
        BucketTable(Ints labels, vector[BucketHash] hashes, int threads) except +
        int64_t bytes()
        void recover(const BucketScores& given, const ScoreForm& form, const ScoreRule& rule, int threads,
                     const RankedRows& out) except +

cdef extern from "sketch_fast.h" namespace "xmc" nogil:
    cdef cppclass FastSettings:
        int64_t top_buckets
        int32_t min_count
    cdef cppclass LabelIndex:
        LabelIndex(Ints labels, vector[BucketHash] hashes, int64_t buckets, int threads) except +
        int64_t bytes()
        void recover(const BucketScores& given, const ScoreForm& form, const ScoreRule& rule,
                     const FastSettings& settings, int threads, const RankedRows& out) except +

AGGREGATES = ("mean", "min", "median", "unbiased")


def bucket_of(const int32_t[::1] labels, uint32_t a, uint32_t b, uint32_t buckets):
    """int32: the bucket of each label (each in [0, 2^31 - 1))."""
    out = np.empty(labels.shape[0], np.int32)
    cdef int32_t[::1] to = out
    cdef BucketHash hash_of = BucketHash(a, b, buckets)
    if labels.shape[0]:
        hash_labels(hash_of, ints(labels), Span[int32_t](&to[0], to.shape[0]))
    return out


cdef DenseRows dense_rows(float[:, :] array) except *:
    cdef DenseRows rows
    rows.rows, rows.width = array.shape[0], array.shape[1]
    if rows.width > 1 and array.strides[1] != sizeof(float):
        raise InputError("each row of the array of margins must lie in one piece: give a C-ordered array")
    if rows.rows and rows.width:
        rows.first, rows.stride = &array[0, 0], array.strides[0] // <int64_t> sizeof(float)
    return rows


def margins(X, const int64_t[::1] indptr, const Bucket[::1] buckets, const float[::1] values, const float[::1] bias,
            int threads=1, out=None):
    """float32 [rows of X, B]: bias + X W of one repetition, added in the order of features. X: a Csr; W by feature.

    `out` (written), where given, is the array to fill: rows may lie apart, as in probabilities[:, repetition].
    """
    cdef CsrView view = csr_view(X)
    cdef BucketWeights[Bucket] weights
    if X.shape[1] != indptr.shape[0] - 1:
        raise InputError(f"X has {X.shape[1]} features, the weights are for {indptr.shape[0] - 1}: vectorize X as in "
                         "training")
    if buckets.shape[0] != values.shape[0]:
        raise InputError(f"{buckets.shape[0]} buckets for {values.shape[0]} weights: copy or train the repetition "
                         "again")
    filled = np.empty((X.shape[0], bias.shape[0]), np.float32) if out is None else out
    if filled.shape[0] != X.shape[0] or filled.shape[1] != bias.shape[0]:
        raise InputError(f"out is {filled.shape}, the margins are {(X.shape[0], bias.shape[0])}: they must agree")
    cdef DenseRows rows = dense_rows(filled)
    weights.indptr, weights.values, weights.bias = longs(indptr), floats(values), floats(bias)
    if buckets.shape[0]:
        weights.buckets = read_only(<const Bucket*> &buckets[0], buckets.shape[0])
    if rows.rows and rows.width:
        with nogil:
            bucket_margins(weights, view, threads, rows)
    return filled


def transform(float[:, :] margins, str transform, int power, bint log, bint exp_at_end, int threads=1):
    """margins (read and written): each as a score, as Scoring.kernel_form says and the search computes it."""
    cdef DenseRows rows = dense_rows(margins)
    cdef ScoreForm form = score_form((transform, power, log, exp_at_end))
    if rows.rows and rows.width:
        with nogil:
            transform_margins(rows, form, threads)


cdef ScoreForm score_form(tuple kernel_form) except *:
    cdef ScoreForm form
    transform, form.power, form.log, form.exp_at_end = kernel_form
    form.transform = <Transform> <int> {"identity": 0, "sigmoid": 1, "hinge": 2}[transform]
    return form


cdef vector[BucketHash] hashes_of(list parameters, uint32_t buckets) except *:
    cdef vector[BucketHash] hashes
    for a, b in parameters:
        hashes.push_back(BucketHash(a, b, buckets))
    return hashes


cdef class _Recovered:
    """Rows of scores on their way in, ranked labels on their way out."""

    cdef BucketScores given
    cdef ScoreForm form
    cdef ScoreRule rule
    cdef RankedRows out
    cdef readonly object labels, scores, levels

    def __init__(self, const float[:, :, ::1] given, tuple form, str aggregate, int64_t k):
        cdef int64_t rows = given.shape[0]
        self.given.repetitions, self.given.buckets = given.shape[1], given.shape[2]
        self.form = score_form(form)
        self.rule = ScoreRule(<Aggregate> <int> AGGREGATES.index(aggregate), given.shape[1], given.shape[2])
        self.labels = np.empty((rows, k), np.int32)
        self.scores = np.empty((rows, k), np.float32)
        self.levels = np.empty((rows, k), np.int32)
        cdef int32_t[:, ::1] to_labels = self.labels, to_levels = self.levels
        cdef float[:, ::1] to_scores = self.scores
        self.out.k = k
        if rows:
            self.given.data = Floats(&given[0, 0, 0], given.size)
            self.out.labels = Span[int32_t](&to_labels[0, 0], rows * k)
            self.out.levels = Span[int32_t](&to_levels[0, 0], rows * k)
            self.out.scores = Span[float](&to_scores[0, 0], rows * k)

    cdef tuple arrays(self):
        return self.labels, self.scores, self.levels


cdef class ExactRecovery:
    """The buckets of all labels, and the best labels of rows by them. Keeps `labels` (increasing) alive."""

    cdef unique_ptr[BucketTable[uint16_t]] narrow
    cdef unique_ptr[BucketTable[int32_t]] wide
    cdef object labels

    def __init__(self, const int32_t[::1] labels, list parameters, int64_t buckets, int threads):
        cdef vector[BucketHash] hashes = hashes_of(parameters, buckets)
        self.labels = labels
        if buckets <= 65536:
            self.narrow.reset(new BucketTable[uint16_t](ints(labels), hashes, threads))
        else:
            self.wide.reset(new BucketTable[int32_t](ints(labels), hashes, threads))

    @property
    def n_bytes(self):
        return self.narrow.get().bytes() if self.narrow.get() != NULL else self.wide.get().bytes()

    def recover(self, const float[:, :, ::1] given, tuple form, str aggregate, int64_t k, int threads):
        """(labels, scores, levels), each [rows, k]. Levels are 0, and -1 where there are fewer than k labels."""
        cdef _Recovered found = _Recovered(given, form, aggregate, k)
        if given.shape[0]:
            with nogil:
                if self.narrow.get() != NULL:
                    self.narrow.get().recover(found.given, found.form, found.rule, threads, found.out)
                else:
                    self.wide.get().recover(found.given, found.form, found.rule, threads, found.out)
        return found.arrays()


cdef class FastRecovery:
    """From each bucket to its labels, and the best labels of rows by their best buckets. Keeps `labels` alive."""

    cdef unique_ptr[LabelIndex] index
    cdef object labels

    def __init__(self, const int32_t[::1] labels, list parameters, int64_t buckets, int threads):
        self.labels = labels
        self.index.reset(new LabelIndex(ints(labels), hashes_of(parameters, buckets), buckets, threads))

    @property
    def n_bytes(self):
        return self.index.get().bytes()

    def recover(self, const float[:, :, ::1] given, tuple form, str aggregate, int64_t k, int threads,
                int64_t top_buckets, int32_t min_count):
        """(labels, scores, levels), each [rows, k]. A level is in how many repetitions a label was found, up to
        min_count; -1 where there are fewer than k labels."""
        cdef _Recovered found = _Recovered(given, form, aggregate, k)
        cdef FastSettings settings
        settings.top_buckets, settings.min_count = top_buckets, min_count
        if given.shape[0]:
            with nogil:
                self.index.get().recover(found.given, found.form, found.rule, settings, threads, found.out)
        return found.arrays()
