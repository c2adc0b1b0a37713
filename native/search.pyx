"""Packing of matchers and beam search (native/packed.h, native/search.h).

Arguments are checked by xmcspark.matchers.model and xmcspark.matchers.search."""

import numpy as np

from xmcspark.errors import InputError

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool
from libcpp.vector cimport vector

from views cimport CsrView, Floats, Ints, Longs, csr_view, floats, ints, longs


cdef extern from "span.h" namespace "xmc":
    cdef cppclass LongsOut "xmc::Span<int64_t>":
        LongsOut(int64_t* data, int64_t size)
    cdef cppclass FloatsOut "xmc::Span<float>":
        FloatsOut(float* data, int64_t size)

cdef extern from "packed.h" namespace "xmc":
    cdef cppclass Slot:
        pass
    cdef cppclass PackedEntry:
        pass
    cdef cppclass Slots "xmc::Span<const xmc::Slot>":
        Slots(const Slot* data, int64_t size)
    cdef cppclass SlotsOut "xmc::Span<xmc::Slot>":
        SlotsOut(Slot* data, int64_t size)
    cdef cppclass Entries "xmc::Span<const xmc::PackedEntry>":
        Entries(const PackedEntry* data, int64_t size)
    cdef cppclass EntriesOut "xmc::Span<xmc::PackedEntry>":
        EntriesOut(PackedEntry* data, int64_t size)
    cdef cppclass DenseWeights:
        Floats blocks
        int64_t width
    cdef cppclass PackedLevel:
        Longs child_ptr, slot_ptr, entry_ptr
        Slots slots
        Entries entries
        Floats bias
        DenseWeights dense
    cdef cppclass Packer:
        Packer(const CsrView& W, Longs child_ptr) except +
        void sizes(LongsOut slot_ptr, LongsOut entry_ptr) except +
        void fill(Longs slot_ptr, Longs entry_ptr, SlotsOut slots, EntriesOut entries) except +

cdef extern from "dense_margins.h" namespace "xmc":
    void c_pack_dense "xmc::pack_dense"(const CsrView& W, Longs child_ptr, FloatsOut blocks) except +

cdef extern from "search.h" namespace "xmc":
    cdef enum class Transform(int):
        identity
        sigmoid
        hinge
    cdef cppclass ScoreForm:
        Transform transform
        int power
        bool log
        bool exp_at_end
    cdef cppclass Query:
        Ints features
        Floats values, dense
    cdef cppclass Model:
        vector[PackedLevel] levels
        Ints labels
        ScoreForm form
        float path_weight
    cdef cppclass Searcher:
        void search(const Model& model, const vector[Query]& queries, int64_t beam, int64_t k, int32_t* labels,
                    float* scores) except + nogil

cdef extern from "search_batch.h" namespace "xmc":
    void search_batch(const Model& model, const CsrView& X, int64_t beam, int64_t k, int threads, int32_t* labels,
                      float* scores) except + nogil
    void score_pairs(const Model& model, const CsrView& X, const CsrView& positions, int threads,
                     float* scores) except + nogil


def pack(W, const int64_t[::1] child_ptr):
    """(slot_ptr, entry_ptr, slots [n, 2] int32, entries [nnz, 2] uint32) of the sparse columns of one level; W: a Csr, one
    row a child.

    A slot is (feature, first entry); an entry is (child, bits of the float32 weight).
    """
    cdef int64_t nodes = child_ptr.shape[0] - 1
    cdef CsrView view = csr_view(W)
    cdef Packer* packer = new Packer(view, longs(child_ptr))
    slot_ptr, entry_ptr = np.empty(nodes + 1, np.int64), np.empty(nodes + 1, np.int64)
    cdef int64_t[::1] s = slot_ptr, e = entry_ptr
    cdef int32_t[:, ::1] to_slots
    cdef uint32_t[:, ::1] to_entries
    try:
        packer.sizes(LongsOut(&s[0], nodes + 1), LongsOut(&e[0], nodes + 1))
        slots = np.empty((s[nodes], 2), np.int32)
        entries = np.empty((max(e[nodes], 1), 2), np.uint32)
        to_slots, to_entries = slots, entries
        packer.fill(longs(s), longs(e), SlotsOut(<Slot*> &to_slots[0, 0], s[nodes]),
                    EntriesOut(<PackedEntry*> &to_entries[0, 0], e[nodes]))
    finally:
        del packer
    return slot_ptr, entry_ptr, slots, entries[:e[nodes]]


def pack_dense(W, const int64_t[::1] child_ptr):
    """The weights of the dense columns of one level, in the blocks of native/dense_margins.h; None if there are none."""
    if W.dense is None:
        return None
    cdef CsrView view = csr_view(W)
    blocks = np.empty(max(W.dense.size, 1), np.float32)
    cdef float[::1] to_blocks = blocks
    cdef int64_t size = W.dense.size
    c_pack_dense(view, longs(child_ptr), FloatsOut(&to_blocks[0], size))
    return blocks[:size]


cdef class PackedModel:
    """A packed tree, ready for search. Keeps its arrays alive; they may be memory-mapped."""

    cdef Model model
    cdef Searcher one
    cdef object arrays

    def __init__(self, list levels, int64_t width, const int32_t[::1] labels, str transform, int power, bint log,
                 bint exp_at_end, float path_weight=1):
        """`levels`: (child_ptr, slot_ptr, entry_ptr, slots, entries, bias, blocks of dense weights or None) of each;
        `width`: number of dense columns."""
        cdef PackedLevel level
        cdef const int32_t[:, ::1] slots
        cdef const uint32_t[:, ::1] entries
        self.arrays = (levels, labels)
        for child_ptr, slot_ptr, entry_ptr, level_slots, level_entries, bias, dense in levels:
            slots, entries = level_slots, level_entries
            level.child_ptr, level.slot_ptr, level.entry_ptr = longs(child_ptr), longs(slot_ptr), longs(entry_ptr)
            level.slots = Slots(<const Slot*> &slots[0, 0], slots.shape[0])
            level.entries = Entries(<const PackedEntry*> (&entries[0, 0] if entries.shape[0] else NULL),
                                    entries.shape[0])
            level.bias = floats(bias)
            level.dense.blocks = floats(dense) if width else Floats()
            level.dense.width = width
            self.model.levels.push_back(level)
        self.model.labels = ints(labels)
        self.model.form.transform = <Transform> <int> {"identity": 0, "sigmoid": 1, "hinge": 2}[transform]
        self.model.form.power = power
        self.model.form.log = log
        self.model.form.exp_at_end = exp_at_end
        self.model.path_weight = path_weight

    def search(self, X, int64_t beam, int64_t k, int threads):
        """(labels, scores), both [rows of X, k]; X: a Csr."""
        cdef CsrView view = csr_view(X)
        cdef int64_t rows = X.shape[0]
        labels, scores = np.empty((rows, k), np.int32), np.empty((rows, k), np.float32)
        cdef int32_t[:, ::1] to_labels = labels
        cdef float[:, ::1] to_scores = scores
        if rows:
            with nogil:
                search_batch(self.model, view, beam, k, threads, &to_labels[0, 0], &to_scores[0, 0])
        return labels, scores

    def search_one(self, const int32_t[::1] features, const float[::1] values, const float[::1] dense, int64_t cols,
                   int64_t beam, int64_t k):
        """(labels [k], scores [k]) of one query: `features` are below `cols`, `dense` has the model's width and may be empty
        otherwise. Not for several threads at once."""
        cdef int64_t previous = -1, p
        if features.shape[0] != values.shape[0]:
            raise InputError(f"a query has {features.shape[0]} features but {values.shape[0]} values")
        for p in range(features.shape[0]):
            if features[p] <= previous or features[p] >= cols or not isfinite(values[p]):
                raise InputError(f"a query needs increasing features below {cols} and finite values")
            previous = features[p]
        for p in range(dense.shape[0]):
            if not isfinite(dense[p]):
                raise InputError("a query needs finite values")
        cdef vector[Query] queries
        queries.resize(1)
        queries[0].features, queries[0].values, queries[0].dense = ints(features), floats(values), floats(dense)
        labels, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        cdef int32_t[::1] to_labels = labels
        cdef float[::1] to_scores = scores
        self.one.search(self.model, queries, beam, k, &to_labels[0], &to_scores[0])
        return labels, scores

    def score_pairs(self, X, positions, int threads):
        """The score of each entry of `positions` (a Csr: rows of X x leaf positions), in its order."""
        cdef CsrView view = csr_view(X), wanted = csr_view(positions)
        scores = np.empty(max(positions.nnz, 1), np.float32)
        cdef float[::1] to_scores = scores
        with nogil:
            score_pairs(self.model, view, wanted, threads, &to_scores[0])
        return scores[:positions.nnz]
