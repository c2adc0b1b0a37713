"""Hybrid TF-IDF: counting a corpus, and turning documents into rows. Callers pass validated arrays only."""

import numpy as np

from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from views cimport Span


include "text_extern.pxi"


cdef inline Span[const uint8_t] read_uint8(const uint8_t[::1] array) noexcept:
    cdef Span[const uint8_t] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef inline Span[const int32_t] read_int32(const int32_t[::1] array) noexcept:
    cdef Span[const int32_t] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef inline Span[const int64_t] read_int64(const int64_t[::1] array) noexcept:
    cdef Span[const int64_t] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef inline Span[const float] read_float(const float[::1] array) noexcept:
    cdef Span[const float] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef inline Span[int32_t] write_int32(int32_t[::1] array) noexcept:
    cdef Span[int32_t] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef inline Span[int64_t] write_int64(int64_t[::1] array) noexcept:
    cdef Span[int64_t] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef inline Span[float] write_float(float[::1] array) noexcept:
    cdef Span[float] view
    if array.shape[0]:
        view.ptr, view.len = &array[0], array.shape[0]
    return view


cdef Documents documents_of(const int64_t[::1] offsets, const uint8_t[::1] data) noexcept:
    cdef Documents documents
    documents.offsets = read_int64(offsets)
    documents.data = read_uint8(data)
    return documents


ctypedef fused ByteBuffer:
    vector[uint8_t]
    Buffer[uint8_t]


cdef bytes_array(ByteBuffer& values):
    cdef int64_t n = values.size()
    return np.array(<const uint8_t[:n]> values.data()) if n else np.empty(0, np.uint8)


cdef int64_array(vector[int64_t]& values):
    cdef int64_t n = values.size()
    return np.array(<const int64_t[:n]> values.data()) if n else np.empty(0, np.int64)


cdef int32_array(vector[int32_t]& values):
    cdef int64_t n = values.size()
    return np.array(<const int32_t[:n]> values.data()) if n else np.empty(0, np.int32)


cdef slot_array(Buffer[Slot]& slots):
    """Slots as uint64[n, 2]: key, then node in the low and value in the high half."""
    cdef int64_t n = 16 * slots.size()
    if n == 0:
        return np.empty((0, 2), np.uint64)
    return np.array(<const uint8_t[:n]> <const uint8_t*> slots.data()).view(np.uint64).reshape(-1, 2)


cdef TextShape shape_of(shape) except *:
    """shape: (word rule, lower-case or not, [(analyzer, min_n, max_n)])."""
    cdef TextShape made
    made.rule = <WordRule> <int> shape[0]
    made.lower = shape[1]
    for analyzer, min_n, max_n in shape[2]:
        made.add(analyzer, min_n, max_n)
    return made


# ---------------------------------------------------------------------------------------------- bytes


def bad_offset(const int64_t[::1] offsets, const uint8_t[::1] data):
    """The first document whose offsets decrease or leave `data`, or -1. Reads both."""
    return first_bad_offset(documents_of(offsets, data))


def scan(const int64_t[::1] offsets, const uint8_t[::1] data):
    """(documents that are not ASCII, those of them that are not valid UTF-8). Reads both arrays."""
    cdef TextScan found
    cdef Documents documents = documents_of(offsets, data)
    with nogil:
        found.run(documents)
    return int64_array(found.other), int64_array(found.invalid)


def gather(const int64_t[::1] offsets, const uint8_t[::1] data, const int64_t[::1] chosen):
    """The chosen documents as one array of bytes, separated by zero bytes."""
    cdef vector[uint8_t] out
    c_gather(documents_of(offsets, data), read_int64(chosen), out)
    return bytes_array(out)


def splice(const int64_t[::1] offsets, const uint8_t[::1] data, const int64_t[::1] chosen,
           const int64_t[::1] text_offsets, const uint8_t[::1] text_data):
    """(offsets, data) with the chosen documents replaced by the given texts."""
    cdef vector[uint8_t] out
    new_offsets = np.empty(offsets.shape[0], np.int64)
    cdef int64_t[::1] ends = new_offsets
    c_splice(documents_of(offsets, data), read_int64(chosen), documents_of(text_offsets, text_data), out,
             write_int64(ends))
    return new_offsets, bytes_array(out)


# ------------------------------------------------------------------------------------------- weights


def inverse_document_frequency(const int64_t[::1] df, int64_t documents, bint smooth):
    """float32 log(n / df) + 1, with one document that holds every gram added if `smooth`. Reads df."""
    out = np.empty(df.shape[0], np.float32)
    cdef float[::1] idf = out
    cdef int64_t i
    cdef int extra = 1 if smooth else 0
    with nogil:
        for i in range(df.shape[0]):
            idf[i] = <float> (exact_log((<double> documents + extra) / (<double> df[i] + extra)) + 1.0)
    return out


cdef class Weights:
    """How counts become values: idf per feature, which vectorizer each run of features belongs to, and per
    vectorizer (sublinear, binary, norm); norms are 0 (none), 1, 2."""

    cdef Weighting weighting
    cdef readonly object idf, run_start, run_vectorizer
    cdef readonly int64_t features

    def __init__(self, const float[::1] idf, const int64_t[::1] run_start, const uint8_t[::1] run_vectorizer,
                 vectorizers, int joint):
        cdef int64_t runs = run_vectorizer.shape[0]
        if run_start.shape[0] != runs + 1 or run_start[runs] != idf.shape[0]:
            raise ValueError("runs must cover the features")
        if runs and max(run_vectorizer) >= len(vectorizers):
            raise ValueError("a run names a vectorizer that is not there")
        if run_start[0] != 0 or np.any(np.diff(run_start) < 0):
            raise ValueError("runs must start at 0 and increase")
        self.idf, self.run_start, self.run_vectorizer = idf, run_start, run_vectorizer  # keeps them alive
        self.features = idf.shape[0]
        self.weighting.idf = read_float(idf)
        self.weighting.run_start = read_int64(run_start)
        self.weighting.run_vectorizer = read_uint8(run_vectorizer)
        self.weighting.joint = <Norm> joint
        for sublinear, binary, norm in vectorizers:
            self.weighting.add(sublinear, binary, norm)


# ------------------------------------------------------------------------------------------ counting


cdef class Counter:
    """Counts the grams of a corpus given block by block, and can write the matrix of what it counted."""

    cdef unique_ptr[CorpusCounter] counter
    cdef int threads
    cdef int64_t kept

    def __init__(self, shape, int threads):
        self.counter.reset(new CorpusCounter(shape_of(shape), threads))
        self.threads = threads
        self.kept = 0

    def add(self, const int64_t[::1] offsets, const uint8_t[::1] data, bint keep_rows):
        """Counts one block of normalised documents; `keep_rows` remembers them for `rows`."""
        cdef Documents documents = documents_of(offsets, data)
        with nogil:
            self.counter.get().add(documents, keep_rows)
        if keep_rows:
            self.kept += offsets.shape[0] - 1

    @property
    def documents(self):
        return self.counter.get().documents()

    @property
    def held(self):
        """Distinct grams in memory, counted once for each thread that met them."""
        return self.counter.get().held()

    def merge(self):
        """Ends the counting; needed before what follows."""
        with nogil:
            self.counter.get().merge()

    def counts(self, int v):
        """(document frequency, occurrences) of the grams of vectorizer `v`, in the order of their text."""
        n = self.counter.get().grams(v)
        df = np.empty(n, np.int64)
        occurrences = np.empty(n, np.int64)
        cdef int64_t[::1] df_out = df, occurrences_out = occurrences
        self.counter.get().counts(v, write_int64(df_out), write_int64(occurrences_out))
        return df, occurrences

    def grams(self, int v, const int64_t[::1] positions):
        """(offsets, data) of the text of these grams of vectorizer `v`."""
        cdef Buffer[uint8_t] text
        offsets = np.zeros(positions.shape[0] + 1, np.int64)
        cdef int64_t[::1] ends = offsets[1:]
        self.counter.get().spell(v, read_int64(positions), text, write_int64(ends))
        return offsets, bytes_array(text)

    def rows(self, features, Weights weights):
        """(indptr, indices, data) of the kept documents. features[v][i] is the feature of gram i of
        vectorizer v, or -1. Call once."""
        cdef const int32_t[::1] one
        for v, one in enumerate(features):
            self.counter.get().number(v, read_int32(one))
        indptr = np.empty(self.kept + 1, np.int64)
        cdef int64_t[::1] pointers = indptr
        cdef Span[int64_t] to_pointers = write_int64(pointers)
        self.counter.get().bounds(to_pointers)
        indices = np.empty(pointers[self.kept], np.int32)
        data = np.empty(pointers[self.kept], np.float32)
        cdef int32_t[::1] indices_view = indices
        cdef float[::1] data_view = data
        cdef Span[int32_t] to_indices = write_int32(indices_view)
        cdef Span[float] to_data = write_float(data_view)
        with nogil:
            self.counter.get().write(weights.weighting, weights.features, self.threads, to_pointers, to_indices,
                                     to_data)
        nnz = pointers[self.kept]
        self.kept = 0
        return indptr, indices[:nnz], data[:nnz]


# ------------------------------------------------------------------------------------------- look-up


def build_lookup(shape, const uint8_t[::1] vectorizers, const int32_t[::1] features, const int64_t[::1] offsets,
                 const uint8_t[::1] data):
    """The flat arrays, by name, of a `Lookup` that gives features[i] to gram i of vectorizer vectorizers[i]."""
    cdef TextShape made = shape_of(shape)
    cdef unique_ptr[LookupBuilder] builder
    builder.reset(new LookupBuilder(made))
    cdef Documents grams = documents_of(offsets, data)
    cdef Span[const uint8_t] of = read_uint8(vectorizers)
    cdef Span[const int32_t] to = read_int32(features)
    with nogil:
        builder.get().add(of, to, grams)
    arrays = {
        "words.starts": int64_array(builder.get().words.starts()),
        "words.bytes": bytes_array(builder.get().words.bytes()),
        "words.slots": slot_array(builder.get().words.slots()),
    }
    cdef BuilderTables* tables
    for v in range(len(shape[2])):
        tables = &builder.get().tables[v]
        arrays[f"{v}.unigrams"] = int32_array(tables.unigram)
        arrays[f"{v}.starts"] = int64_array(tables.strings.starts())
        arrays[f"{v}.bytes"] = bytes_array(tables.strings.bytes())
        arrays[f"{v}.slots"] = slot_array(tables.strings.slots())
        for level in range(<int64_t> tables.levels.size()):
            arrays[f"{v}.words{level + 2}"] = slot_array(tables.levels[level].slots())
    return arrays


cdef SlotView slots_of(arrays, name) except *:
    cdef const uint8_t[::1] view = np.asarray(arrays[name]).reshape(-1).view(np.uint8)
    n = view.shape[0] // 16
    if n & (n - 1) or view.shape[0] % 16:
        raise ValueError(f"{name} has {n} slots, which is not a power of two")
    if n == 0:
        return SlotView()
    return SlotView(&view[0], n)


cdef StringView strings_of(arrays, prefix) except *:
    cdef StringView made
    cdef const int64_t[::1] starts = arrays[f"{prefix}.starts"]
    cdef const uint8_t[::1] text = arrays[f"{prefix}.bytes"]
    made.start = read_int64(starts)
    made.bytes = read_uint8(text)
    return made


cdef class Lookup:
    """Turns documents into rows with the arrays of `build_lookup`, which may be memory-mapped."""

    cdef readonly dict arrays
    cdef readonly Weights weights
    cdef TextShape shape
    cdef FrozenDictionary dictionary
    cdef unique_ptr[SingleReader] single

    def __init__(self, shape, dict arrays, Weights weights):
        self.arrays, self.weights = arrays, weights
        self.shape = shape_of(shape)
        self.dictionary.words = strings_of(arrays, "words")
        self.dictionary.word_slots = slots_of(arrays, "words.slots")
        cdef FrozenTables* tables
        self.dictionary.tables.resize(len(shape[2]))
        cdef const int32_t[::1] unigrams
        for v in range(len(shape[2])):
            tables = &self.dictionary.tables[v]
            unigrams = arrays[f"{v}.unigrams"]
            tables.unigram = read_int32(unigrams)
            tables.strings = strings_of(arrays, v)
            tables.slots = slots_of(arrays, f"{v}.slots")
            level = 2
            while f"{v}.words{level}" in arrays:
                tables.levels.push_back(slots_of(arrays, f"{v}.words{level}"))
                level += 1
        self.single.reset(new SingleReader(self.shape, self.dictionary, weights.features))

    def rows(self, const int64_t[::1] offsets, const uint8_t[::1] data, int threads):
        """(indptr, indices, data) of normalised documents. Reads both arrays."""
        cdef Documents documents = documents_of(offsets, data)
        cdef unique_ptr[Transformer] transformer
        transformer.reset(
            new Transformer(self.shape, self.dictionary, self.weights.weighting, self.weights.features))
        cdef int64_t nnz
        with nogil:
            nnz = transformer.get().run(documents, threads)
        indptr = np.empty(offsets.shape[0], np.int64)
        indices = np.empty(nnz, np.int32)
        values = np.empty(nnz, np.float32)
        cdef int64_t[::1] pointers = indptr
        cdef int32_t[::1] indices_view = indices
        cdef float[::1] values_view = values
        cdef Span[int64_t] to_pointers = write_int64(pointers)
        cdef Span[int32_t] to_indices = write_int32(indices_view)
        cdef Span[float] to_values = write_float(values_view)
        with nogil:
            transformer.get().write(to_pointers, to_indices, to_values, threads)
        return indptr, indices, values

    def row(self, str text not None):
        """(indices, values) of one normalised text. Holds the GIL: it uses buffers of this object."""
        cdef Py_ssize_t n = 0
        cdef const char* utf8 = PyUnicode_AsUTF8AndSize(text, &n)
        cdef int64_t count = self.single.get().read(<const uint8_t*> utf8, n, self.weights.weighting)
        indices = np.empty(count, np.int32)
        values = np.empty(count, np.float32)
        cdef int32_t[::1] indices_view = indices
        cdef float[::1] values_view = values
        self.single.get().write(self.weights.weighting, &indices_view[0] if count else NULL,
                                &values_view[0] if count else NULL)
        return indices, values

    def feature(self, int v, str gram not None):
        """The feature of a gram of vectorizer `v`, or -1."""
        padded = gram.encode() + bytes(16)
        cdef const uint8_t[::1] view = padded
        cdef Analyzer analyzer = self.shape.vectorizers[v].analyzer
        cdef uint32_t found = self.dictionary.feature(v, analyzer, &view[0], len(padded) - 16)
        return -1 if found == kNone else found
