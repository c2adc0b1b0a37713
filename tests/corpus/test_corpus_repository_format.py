"""Lines of the repository's files: what they mean, and the reason where they mean nothing."""

import pyarrow as pa
import pytest

from xmcspark.corpus.repository_format import (
    HEADER,
    filter_pair,
    is_bag_of_words,
    json_record,
    label_file_names,
    parsed_batches,
    raw_text,
    sparse_labels,
)


def parsed(parse, *batches, invalid="error", header=False):
    made = [pa.record_batch({"value": pa.array(batch, pa.binary())}) for batch in batches]
    return [row for batch in parsed_batches(made, parse, invalid, header) for row in batch.to_pylist()]


def test_lines_are_numbered_through_all_batches_without_the_header():
    rows = parsed(sparse_labels, [b"3 9", b"1:1 4:0.5"], [], [b"", b"7"], header=True)
    assert [row["line"] for row in rows] == [HEADER, 0, 1, 2]
    assert [row["refs"] for row in rows] == [[3, 9], [1, 4], [], [7]]
    assert [row["relevance"] for row in rows[1:]] == [[1, 0.5], [], [1]]


def test_labels_may_be_given_by_number_alone():
    assert sparse_labels("3,14,15").refs == [3, 14, 15]


def test_a_record_is_its_title_and_content():
    record = json_record(
        '{"uid": 7, "title": "a b", "content": "c", "target_ind": [2, 5], "target_rel": [1, 0.5]}'
    )
    assert (record.id, record.text, record.refs, record.relevance) == ("7", "a b c", [2, 5], [1, 0.5])
    assert json_record('{"uid": "B00", "title": "", "content": "c"}').text == "c"
    assert json_record('{"uid": "B00"}').text is None


@pytest.mark.parametrize(
    ("parse", "line", "reason"),
    [
        (json_record, b'{"uid": 1, "title"', "Expecting"),
        (json_record, b"[1]", "not a JSON object"),
        (json_record, b'{"title": "x"}', "uid is missing"),
        (json_record, b'{"uid": 1, "title": 5}', "not a string"),
        (json_record, b'{"uid": 1, "target_ind": [1.5]}', "target_ind is not a list of integers"),
        (json_record, b'{"uid": 1, "target_ind": [-1]}', "not a label number"),
        (json_record, b'{"uid": 1, "target_ind": [1], "target_rel": [NaN]}', "not finite"),
        (json_record, b"[" * 100_000, "nested too deeply"),
        (sparse_labels, b"1:1 x:1", "'x' is not a label number"),
        (sparse_labels, b"1:1 2:y", "could not convert"),
        (sparse_labels, b"99999999999:1", "not a label number"),
        (filter_pair, b"1 2 3", "too many values"),
        (raw_text, b"caf\xe9", "not valid UTF-8 at byte 3"),
    ],
)
def test_a_bad_line_says_where_and_why(parse, line, reason):
    good = {json_record: b'{"uid": 0}', sparse_labels: b"1:1", filter_pair: b"0 0", raw_text: b"x"}[parse]
    first, second = parsed(parse, [good, line])
    assert first["problem"] is None
    assert second["problem"].startswith("line 2: ")
    assert reason in second["problem"]


def test_bytes_that_are_not_text_can_be_replaced():
    assert parsed(raw_text, [b"\xef\xbb\xbfcaf\xe9\r"], invalid="replace")[0]["text"] == "caf\ufffd"


@pytest.mark.parametrize(
    ("lines", "features"),
    [
        (["14146 101938 30938", "446 1:0.02 5:0.3", "3,5 7:1"], True),
        (["3 9", "1:0.5 2:0.25", "2:1"], True),
        (["1:0.5 2:0.25"], True),
        (["3 9", "a text"], False),
        (["1:1 scale model", "2:1"], False),
        ([], False),
    ],
)
def test_features_are_told_from_texts(lines, features):
    assert is_bag_of_words(lines) is features


def test_label_files_are_looked_for_beside_texts():
    assert "trn_X_Y.txt" in label_file_names("trn_X.txt")
    assert "trn_Y.txt" in label_file_names("trn_X.txt")
    assert "Y.trn.txt.gz" in label_file_names("X.trn.txt.gz")
