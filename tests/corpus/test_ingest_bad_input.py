"""Bad logs: single records go to quarantine with the reason; too many, or files nobody can read, end the job with a
message that names them, and nothing of them becomes visible."""

import gzip
import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_logs import Shop, click, write_json

from xmcspark.errors import InputError

GOOD = [click(f"q{n}", "A") for n in range(40)]


@pytest.fixture
def shop(make_context, tmp_path):
    return Shop(make_context, tmp_path / "logs")


def _refused(shop, *settings, **window):
    with pytest.raises(InputError) as caught:
        shop.ingest(*settings, **window)
    return str(caught.value)


def test_each_unusable_record_is_quarantined_with_its_reason(shop):
    bad = {
        b'{"query": "cut': "malformed record",
        b"[1, 2]": "malformed record",
        b'{"query": "caf\xe9", "label_key": "A", "clicks": 1}': "not UTF-8 text",
        json.dumps(click("x\ufffdy", "A")).encode(): "not UTF-8 text",
        b'{"label_key": "A", "clicks": 1}': "query is missing",
        b'{"query": null, "label_key": "A"}': "query is missing",
        json.dumps(click(" \t ", "A")).encode(): "query is empty",
        json.dumps(click("q", " ")).encode(): "label_key is empty",
        b'{"query": "q", "clicks": 1}': "label_key is missing",
        json.dumps(click("q", "A", -1)).encode(): "clicks is negative",
        json.dumps(click("q", "A", "many")).encode(): "clicks is not a number",
        json.dumps(click("q", "A", purchases="NaN")).encode(): "purchases is not a number",
        json.dumps(click("q", "A", 1.5)).encode(): "clicks is not a whole number up to 10^12",
        json.dumps(
            click("q", "A", impressions=1e300)
        ).encode(): "impressions is not a whole number up to 10^12",
        json.dumps(click("x" * 3000, "A")).encode(): "query is longer than 1000 characters",
        json.dumps(click("q", "A", time="2026-01-02T00:00:00Z")).encode(): "the day is not that of the path",
    }
    records = [click("q", "A", time="2026-01-01 23:59"), b"", b"  "]
    path = write_json(shop.folder / "2026-01-01.json", [*records, *bad, b"[1, 2]"])
    shop.ingest("ingest.max_bad_ratio=1", "ingest.columns.dt=time")
    assert shop.rows() == [("2026-01-01", "q", "A", 0, 1, 0, None)]
    found = shop.quarantine()
    expected = {line.decode("utf-8", "replace")[:2000]: why for line, why in bad.items()}
    # Without the column the day is unknown too, but what is reported is what comes first.
    assert {row.record: row.reason for row in found} == expected
    assert {row.file.rpartition("/")[2] for row in found} == {path.name}
    assert {str(row.dt) for row in found} == {"2026-01-01"}
    assert {row.record: row.records for row in found}["[1, 2]"] == 2
    assert len({row.line for row in found}) == len(bad)
    day = shop.context.notes["days"]["2026-01-01"]
    assert (day["records"], day["quarantined"]) == (18, 17)


def test_too_many_bad_records_refuse_their_day_and_no_other(shop):
    write_json(shop.folder / "2026-01-01.json", GOOD)
    write_json(shop.folder / "2026-01-02.json", [*GOOD, *[click("q", "A", -1)] * 3, b"{"])
    problem = _refused(shop)
    assert "2026-01-02: 4 of 44 records (9.1%) cannot be used" in problem
    assert "ingest.max_bad_ratio (0.05): clicks is negative (3), malformed record (1)" in problem
    assert "2026-01-02.json" in problem
    assert "the logs have query, label_key, clicks" in problem
    assert shop.dates() == [date(2026, 1, 1)]
    shop.ingest("ingest.max_bad_ratio=0.1")
    assert len(shop.rows()) == 80


def test_wrong_columns_name_those_that_exist(shop, tmp_path, make_context):
    write_json(shop.folder / "2026-01-01.json", [{"q": "x", "label_key": "A"}])
    assert "query is missing (1)" in (problem := _refused(shop))
    assert "the logs have q, label_key" in problem

    csv = Shop(make_context, tmp_path / "csv")
    csv.folder.mkdir()
    (csv.folder / "2026-01-01.csv").write_text("q,item\nx,A\n")
    problem = _refused(csv, "ingest.columns.clicks=n")
    assert "ingest.columns.query is 'query'; ingest.columns.label_key is 'label_key'" in problem
    assert "ingest.columns.clicks is 'n', but there is no such column. It has q, item" in problem


def test_logs_without_any_count_are_refused(shop):
    write_json(shop.folder / "2026-01-01.json", [{"query": "x", "label_key": "A", "n": 1}])
    problem = _refused(shop)
    assert "not one impression, click or purchase" in problem
    assert "the logs have query, label_key, n" in problem
    shop.ingest("ingest.columns.clicks=n")
    assert len(shop.rows()) == 1


def test_csv_records_with_other_columns_are_quarantined_and_files_refused(shop):
    (shop.folder).mkdir()
    (shop.folder / "2026-01-01.csv").write_text("query,label_key,clicks\nx,A,1\ny,B\nz,C,1,9\n")
    shop.ingest("ingest.max_bad_ratio=0.7")
    assert [row[1] for row in shop.rows()] == ["x"]
    assert [(row.reason, row.record) for row in shop.quarantine()] == [
        ("malformed record", "y,B"),
        ("malformed record", "z,C,1,9"),
    ]
    (shop.folder / "2026-01-01-b.csv").write_text("label_key,query,clicks\nA,x,1\n")
    problem = _refused(shop)
    assert "its header (" in problem
    assert "give all CSV files of the window the same columns in the same order" in problem


@pytest.mark.parametrize("kind", ["gzip", "parquet", "later parquet", "not gzip"])
def test_damaged_files_are_named_and_nothing_of_their_day_is_visible(shop, kind):
    shop.folder.mkdir()
    whole = gzip.compress(b"".join(json.dumps(click(f"q{n}", "A")).encode() + b"\n" for n in range(20_000)))
    if kind == "gzip":
        write_json(shop.folder / "2026-01-01/a.json.gz", GOOD)
        path = shop.folder / "2026-01-01/b.json.gz"
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "not gzip":
        path = write_json(shop.folder / "2026-01-01.json", GOOD).rename(shop.folder / "2026-01-01.json.gz")
    else:
        columns = {"query": ["x"] * 5000, "label_key": [f"A{n}" for n in range(5000)], "clicks": [1] * 5000}
        pq.write_table(pa.table(columns), shop.folder / "2026-01-01-a.parquet")
        path = shop.folder / ("2026-01-01-a.parquet" if kind == "parquet" else "2026-01-01-b.parquet")
        path.write_bytes((shop.folder / "2026-01-01-a.parquet").read_bytes()[:-500])
    problem = _refused(shop)
    assert path.name in problem
    assert "cannot be read" in problem
    assert "write it again or take it away" in problem
    assert shop.dates() == []


def test_a_parquet_file_unlike_the_others_is_named_with_its_columns(shop):
    shop.folder.mkdir()
    columns = {"query": ["x"], "label_key": ["A"], "clicks": [1]}
    pq.write_table(pa.table(columns), shop.folder / "2026-01-01.parquet")
    other = shop.folder / "2026-01-02 b.parquet"
    pq.write_table(pa.table({**columns, "clicks": ["1"]}), other)
    problem = _refused(shop)
    assert "02%20b.parquet: its column clicks holds BINARY, in the other files it is bigint" in problem
    pq.write_table(pa.table({"q": ["x"], "label_key": ["A"], "clicks": [1]}), other)
    problem = _refused(shop)
    assert "2026-01-02: 1 of 1 records (100.0%) cannot be used" in problem
    assert "(the logs have q, label_key, clicks)" in problem


def test_places_without_logs_are_refused(shop):
    assert "there is no such folder; set input.logs" in _refused(shop)
    shop.folder.mkdir()
    assert "there are no log files in it" in _refused(shop)
    write_json(shop.folder / "clicks.json", GOOD)
    problem = _refused(shop)
    assert "1 log files have no date in their path" in problem
    assert "clicks.json" in problem


def test_formats_that_cannot_be_told_are_refused(shop):
    write_json(shop.folder / "2026-01-01/part-0", GOOD)
    assert "set ingest.format" in _refused(shop)
    shop.ingest("ingest.format=json")
    write_json(shop.folder / "2026-01-02.json", GOOD)
    (shop.folder / "2026-01-03.csv").write_text("query,label_key\n")
    (shop.folder / "2026-01-01/part-0").rename(shop.folder / "2026-01-01/part-0.json")
    assert "several formats" in _refused(shop)


@pytest.mark.parametrize("empty", [[], [b"", b" "]], ids=["empty file", "file without records"])
def test_a_day_that_became_empty_stays_as_it_was_unless_that_is_accepted(shop, empty, caplog):
    for day in (1, 2):
        write_json(shop.folder / f"2026-01-0{day}.json", GOOD)
    shop.ingest()
    emptied = write_json(shop.folder / "2026-01-02.json", empty)
    problem = _refused(shop)
    assert "2026-01-02: there are no records any more in the logs" in problem
    assert emptied.name in problem
    assert "of which 40 were ingested before; these stay what is seen" in problem
    assert len(shop.rows()) == 80
    notes = shop.ingest("ingest.empty_day=skip")
    assert notes["days"]["2026-01-02"]["records"] == 0
    assert len(shop.rows()) == 40
    assert "2026-01-02 has no records" in caplog.text
    assert shop.ingest("ingest.empty_day=skip")["read"] == 0
    assert "no records for 2026-01-02" in _refused(shop), "it is a gap from now on"
    write_json(shop.folder / "2026-01-02.json", GOOD[:7])
    shop.ingest()
    assert len(shop.rows()) == 47


def test_an_empty_day_is_an_error_or_is_left_out(shop, caplog):
    write_json(shop.folder / "2026-01-02.json", GOOD)
    write_json(shop.folder / "2026-01-03.json.gz", [b"", b""])
    write_json(shop.folder / "2026-01-04.json", [])
    write_json(shop.folder / "2026-01-05.json", GOOD)
    problem = f"no records for 2026-01-04 in {shop.folder}: wait for the logs"
    assert problem in _refused(shop)  # seen before anything is read
    (shop.folder / "2026-01-04.json").unlink()
    write_json(shop.folder / "2026-01-04.json", GOOD)
    assert "no records for 2026-01-03" in _refused(shop)
    shop.ingest("ingest.empty_day=skip")
    assert sorted({row[0] for row in shop.rows()}) == ["2026-01-02", "2026-01-04", "2026-01-05"]
    assert "2026-01-03 has no records" in caplog.text
    assert "no records for 2026-01-06, 2026-01-07" in _refused(shop, "run.date=2026-01-07", window=4)
