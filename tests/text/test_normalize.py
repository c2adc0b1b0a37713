"""Unicode: what is the same text, what is a word, and that documents are normalised in bulk unharmed."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xmcspark._native.text import bad_offset
from xmcspark.text.normalize import NORMALIZERS, normalized
from xmcspark.text.sources import TextBlock
from xmcspark.text.tfidf import Tfidf, Vectorizer


def words(text, normalize="nfkc"):
    """The words of a text, sorted."""
    model = Tfidf([Vectorizer("word", (1, 1))], normalize=normalize)
    model.fit([text])
    return [model.gram(f)[1] for f in range(model.n_features)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＦＵＬＬ　Ｗｉｄｔｈ", ["full", "width"]),
        ("ﬁne oﬃce", ["fine", "office"]),
        ("Straße STRASSE", ["strasse"]),
        ("İstanbul istanbul", ["istanbul", "i̇stanbul"]),
        ("cafe\u0301 caf\u00e9 CAFÉ", ["caf\u00e9"]),
        ("q\u0308uery", ["q\u0308uery"]),  # no composed form: the mark stays inside the word
        ("हिन्दी किताब", ["किताब", "हिन्दी"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("ΟΔΟΣ οδος", ["οδοσ"]),
        ("10²", ["102"]),
        ("rock'n'roll a_b", ["a_b", "n", "rock", "roll"]),
        ("東京 タワー", ["タワー", "東京"]),
        ("\u0301 \u200d", None),
        ("I ❤️ NY", ["i", "ny", "❤️"]),
        ("👍🏽👍", ["👍", "👍🏽"]),
        ("👩\u200d💻x👨\u200d👩\u200d👧", ["x", "👨\u200d👩\u200d👧", "👩\u200d💻"]),
        ("🇫🇮🇸🇪 🇳", ["🇫🇮", "🇳", "🇸🇪"]),
        ("🏴\U000e0067\U000e0062\U000e007f!", ["🏴\U000e0067\U000e0062\U000e007f"]),
        ("5€ ± 3°", ["3", "5"]),
    ],
)
def test_words_are_those_a_reader_sees(text, expected):
    if expected is None:
        text, expected = f"only {text} this", ["only", "this"]
    assert words(text) == sorted(expected)


def test_other_normalizations_are_those_of_scikit_learn():
    assert words("Ab A BC \u00c9t\u00c9 Stra\u00dfe", "lower") == ["ab", "bc", "stra\u00dfe", "\u00e9t\u00e9"]
    assert words("Ab A BC ab", "none") == ["Ab", "BC", "ab"]


def test_every_character_is_a_word_or_a_space_as_python_has_it():
    planes = (*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE0200))  # what Unicode has assigned
    characters = [chr(c) for c in planes]

    def grams_per_row(vectorizer, texts):
        return np.diff(Tfidf([vectorizer], normalize="none").fit_rows(texts).indptr)

    word = re.compile(r"\w")
    found = grams_per_row(Vectorizer("word", (1, 1)), [c * 2 for c in characters]) == 1
    assert np.array_equal(found, [word.match(c) is not None for c in characters])
    # "-c-": the grams are ' ', '-' and, unless it is a space, the character itself
    found = grams_per_row(Vectorizer("char_wb", (1, 1)), [f"-{c}-" for c in characters]) == 2
    assert np.array_equal(found, [c.isspace() or c == "-" for c in characters])


def block_of(texts):
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return TextBlock(offsets, np.frombuffer(b"".join(encoded), np.uint8))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8),
    st.sampled_from(["nfkc", "lower"]),
)
@example(["ΑΣ", "Α", "\u0301", "e", "\u0301é"], "nfkc")
@example(["ΑΣ", "Σ", "σΣ"], "lower")
@example(["é\0", "\0ß", "x\0"], "nfkc")
def test_documents_are_normalised_as_if_alone(texts, how):
    block = normalized(block_of(texts), how, "error", 0)
    assert bad_offset(block.offsets, block.data) == -1
    result = [block.document(i).decode() for i in range(len(block))]
    assert [text.lower() if text.isascii() else text for text in result] == [
        NORMALIZERS[how](t) for t in texts
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=9), min_size=1, max_size=6))
@example([b"\xe2\x82", b"\x80", b"\xf0\x9f\x98\x80"])
def test_invalid_bytes_are_replaced_as_python_does(texts):
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    block = normalized(TextBlock(offsets, np.frombuffer(b"".join(texts), np.uint8)), "none", "replace", 0)
    assert [block.document(i).decode() for i in range(len(block))] == [
        t.decode("utf-8", "replace") for t in texts
    ]
