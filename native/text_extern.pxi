# The C++ side of text.pyx: what native/text_*.h offer to it.

cdef extern from "text_table.h" namespace "xmc" nogil:
    cdef cppclass Buffer[T]:
        T* data()
        size_t size()
    cdef cppclass Slot:
        pass
    cdef cppclass SlotView:
        SlotView()
        SlotView(const uint8_t*, int64_t)
    cdef cppclass StringView:
        Span[const int64_t] start
        Span[const uint8_t] bytes
    cdef cppclass StringTable:
        Buffer[Slot]& slots()
        vector[uint8_t]& bytes()
        vector[int64_t]& starts()
    cdef cppclass PairTable:
        Buffer[Slot]& slots()
    const uint32_t kNone

cdef extern from "text_reader.h" namespace "xmc" nogil:
    cdef enum class WordRule(int):
        pairs
        unicode
    cdef enum class Analyzer(int):
        word
        char_wb
        chars
    cdef cppclass VectorizerShape:
        Analyzer analyzer
    cdef cppclass TextShape:
        vector[VectorizerShape] vectorizers
        WordRule rule
        cbool lower
        void add(int, int64_t, int64_t)

cdef extern from "text_rows.h" namespace "xmc" nogil:
    cdef enum class Norm(int):
        none
    cdef cppclass Weighting:
        Span[const float] idf
        Span[const int64_t] run_start
        Span[const uint8_t] run_vectorizer
        Norm joint
        void add(cbool, cbool, int)

cdef extern from "text_count.h" namespace "xmc" nogil:
    cdef cppclass Documents:
        Documents()
        Span[const int64_t] offsets
        Span[const uint8_t] data
    cdef cppclass CorpusCounter:
        CorpusCounter(const TextShape&, int) except +
        void add(const Documents&, cbool) except +
        int64_t documents()
        int64_t held()
        void merge() except +
        int64_t grams(int)
        void counts(int, Span[int64_t], Span[int64_t]) except +
        void spell(int, Span[const int64_t], Buffer[uint8_t]&, Span[int64_t]) except +
        void bounds(Span[int64_t]) except +
        void number(int, Span[const int32_t]) except +
        void write(const Weighting&, int64_t, int, Span[int64_t], Span[int32_t], Span[float]) except +

cdef extern from "text_lookup.h" namespace "xmc" nogil:
    cdef cppclass FrozenTables "xmc::FrozenDictionary::Tables":
        Span[const int32_t] unigram
        vector[SlotView] levels
        SlotView slots
        StringView strings
    cdef cppclass FrozenDictionary:
        FrozenDictionary()
        uint32_t feature(int, Analyzer, const uint8_t*, int64_t)
        StringView words
        SlotView word_slots
        vector[FrozenTables] tables
    cdef cppclass BuilderTables "xmc::LookupBuilder::Tables":
        vector[int32_t] unigram
        vector[PairTable] levels
        StringTable strings
    cdef cppclass LookupBuilder:
        LookupBuilder(const TextShape&)
        void add(Span[const uint8_t], Span[const int32_t], const Documents&) except +
        StringTable words
        vector[BuilderTables] tables
    cdef cppclass Transformer:
        Transformer(const TextShape&, FrozenDictionary&, const Weighting&, int64_t)
        int64_t run(const Documents&, int) except +
        void write(Span[int64_t], Span[int32_t], Span[float], int) except +
    cdef cppclass SingleReader:
        SingleReader(const TextShape&, FrozenDictionary&, int64_t) except +
        int64_t read(const uint8_t*, int64_t, const Weighting&) except +
        void write(const Weighting&, int32_t*, float*) except +

cdef extern from "text_bytes.h" namespace "xmc" nogil:
    cdef cppclass TextScan:
        vector[int64_t] other
        vector[int64_t] invalid
        void run(const Documents&) except +
    int64_t first_bad_offset(const Documents&)
    void c_gather "xmc::gather" (const Documents&, Span[const int64_t], vector[uint8_t]&) except +
    void c_splice "xmc::splice" (const Documents&, Span[const int64_t], const Documents&, vector[uint8_t]&,
                                 Span[int64_t]) except +

cdef extern from "fmath.h" namespace "xmc" nogil:
    double exact_log(double)
