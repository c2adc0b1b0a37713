"""Undated logs in a folder that grows: each file is read exactly once, whatever happens in between."""

from datetime import date

import pytest
from raw_logs import Shop, click, write_json

from xmcspark.errors import InputError, StoreError

UNDATED = ("ingest.layout=undated", "ingest.columns.dt=time", "ingest.empty_day=skip")


@pytest.fixture
def shop(make_context, tmp_path):
    return Shop(make_context, tmp_path / "lo[g]s")


def _at(day, query, clicks=1):
    return click(query, "A", clicks, time=f"2026-01-{day:02}T12:00:00Z", label_text=f"text {clicks}")


def test_new_files_are_added_to_the_days_they_belong_to(shop):
    write_json(shop.folder / "a.json", [_at(1, "x"), _at(1, "x", 2), _at(2, "y")])
    write_json(shop.folder / "deep/b.json.gz", [_at(2, "y", 3)])
    assert shop.ingest(*UNDATED)["read"] == 2
    first = [
        ("2026-01-01", "x", "A", 0, 3, 0, "text 2"),
        ("2026-01-02", "y", "A", 0, 4, 0, "text 3"),
    ]
    assert shop.rows() == first
    listed = shop.external()
    assert shop.ingest(*UNDATED)["read"] == 0
    assert (shop.rows(), shop.external()) == (first, listed)
    write_json(shop.folder / "c.json", [_at(2, "y", 5), _at(3, "z"), b"{", {**_at(3, "z"), "time": "soon"}])
    assert shop.external() != listed
    assert shop.ingest(*UNDATED, "ingest.max_bad_ratio=0.5")["read"] == 2
    assert shop.rows() == [
        first[0],
        ("2026-01-02", "y", "A", 0, 9, 0, "text 5"),
        ("2026-01-03", "z", "A", 0, 1, 0, "text 1"),
    ]
    assert shop.context.notes["days"]["2026-01-02"]["records"] == 3


def test_a_batch_that_is_repeated_after_a_kill_counts_once(shop, monkeypatch):
    from xmcspark.corpus import streaming_spark

    write_json(shop.folder / "a.json", [_at(1, "x")])
    shop.ingest(*UNDATED)
    write_json(shop.folder / "b.json", [_at(1, "x", 10)])
    whole = streaming_spark.write_batch

    def killed(*arguments):
        whole(*arguments)
        raise RuntimeError("after the data, before the stream noted it")

    monkeypatch.setattr(streaming_spark, "write_batch", killed)
    with pytest.raises(Exception, match="before the stream noted it"):
        shop.ingest(*UNDATED)
    assert [row[4] for row in shop.rows()] == [1]
    monkeypatch.setattr(streaming_spark, "write_batch", whole)
    shop.ingest(*UNDATED)
    assert [row[4] for row in shop.rows()] == [11]


def test_a_batch_with_too_many_bad_records_is_refused_and_read_again(shop):
    path = write_json(shop.folder / "a.json", [_at(1, "x"), b"{", {"query": "x"}])
    with pytest.raises(
        InputError, match=r"2 of 3 records \(66\.7%\) cannot be used.*Correct a file in its place"
    ):
        shop.ingest(*UNDATED)
    assert shop.dates() == []
    write_json(path, [_at(1, "x")])
    shop.ingest(*UNDATED)
    assert [row[4] for row in shop.rows(date(2026, 1, 1), date(2026, 1, 1))] == [1]


def test_lost_progress_is_noticed(shop):
    write_json(shop.folder / "a.json", [_at(1, "x")])
    shop.ingest(*UNDATED)
    fs, place = shop.fs, shop.place
    fs.delete(f"{place}/stream/checkpoint")
    with pytest.raises(StoreError, match="the stream's progress is gone"):
        shop.ingest(*UNDATED)
