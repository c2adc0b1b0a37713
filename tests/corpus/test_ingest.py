"""Dated logs become interactions: each day once, again when its files change, whatever their layout and format."""

import json
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_logs import Shop, click, write_json

from xmcspark.corpus import batch_writer_spark
from xmcspark.corpus.ingest_spark import STAGE
from xmcspark.corpus.interactions_spark import (
    batch_uri,
    days,
    delete_unused_batches,
    interaction_versions,
    make_visible,
    new_batch,
    unused_batches,
)
from xmcspark.corpus.log_source_spark import source_places, unused_sources
from xmcspark.store.runner import run_stage
from xmcspark.store.runs import StageRecord


@pytest.fixture
def shop(make_context, tmp_path):
    return Shop(make_context, tmp_path / "logs")


def test_records_are_added_up_per_day_query_and_item(shop):
    write_json(
        shop.folder / "dt=2026-01-01/a.json",
        [
            click("red shoe", "A", 2, impressions=5),
            click("  red \t shoe ", "A", 1, purchases=1, label_text="Shoe, red"),
            click("red shoe", "A", "3", label_text="Red shoe"),
            click("Red shoe", "B"),
        ],
    )
    write_json(shop.folder / "dt=2026-01-01/deeper/b.json.gz", [click("red shoe", "A", 4.0)])
    write_json(shop.folder / "dt=2026-01-02/a.json", [click("red shoe", 7)])
    notes = shop.ingest()
    assert shop.rows() == [
        ("2026-01-01", "Red shoe", "B", 0, 1, 0, None),
        ("2026-01-01", "red shoe", "A", 5, 10, 1, "Shoe, red"),
        ("2026-01-02", "red shoe", "7", 0, 1, 0, None),
    ]
    assert notes["days"]["2026-01-01"] | {"version": ""} == {
        "version": "",
        "rows": 2,
        "records": 5,
        "quarantined": 0,
    }
    assert shop.rows(date(2026, 1, 2), date(2026, 1, 2)) == [("2026-01-02", "red shoe", "7", 0, 1, 0, None)]


def test_a_day_is_read_once_and_again_only_when_its_files_change(shop):
    for day in ("01", "02"):
        write_json(shop.folder / f"dt=2026-01-{day}/a.json", [click("q", "A")])
    assert shop.ingest()["read"] == 2
    before, listed = _versions(shop), shop.external()
    assert shop.ingest()["read"] == 0
    assert (_versions(shop), shop.external()) == (before, listed)
    write_json(shop.folder / "dt=2026-01-02/late.json", [click("q", "A", 5)])
    assert shop.ingest()["read"] == 1
    assert [row[4] for row in shop.rows()] == [1, 6]
    assert shop.external() != listed
    assert _versions(shop)[date(2026, 1, 1)] == before[date(2026, 1, 1)]
    assert len(unused_batches(shop.fs, shop.place)) == 0  # the first still holds the other day


def test_settings_that_change_the_content_are_another_source_of_the_same_logs(shop):
    write_json(shop.folder / "2026-01-01.json", [{"query": "q", "label_key": "A"}, click("q", "B", 2)])
    shop.ingest()
    assert [row[4] for row in shop.rows()] == [0, 2]
    assert shop.ingest("ingest.max_bad_ratio=0.5")["read"] == 0
    assert shop.ingest("ingest.click_per_record=true")["read"] == 1
    assert [row[4] for row in shop.rows()] == [1, 2]
    assert shop.ingest()["read"] == 0, "what the first settings gave is still there"
    assert [row[4] for row in shop.rows()] == [0, 2]


def test_two_sources_in_one_root_never_mix(shop, tmp_path, make_context):
    other = Shop(make_context, tmp_path / "other logs")
    write_json(shop.folder / "dt=2026-01-01/a.json", [click("q", "A", 1)])
    write_json(other.folder / "dt=2026-01-01/a.json", [click("q", "A", 5)])
    write_json(other.folder / "dt=2026-01-02/a.json", [click("q", "B", 7)])
    names = [shop.ingest()["source"], other.ingest()["source"]]
    assert [name.rpartition("-")[0] for name in names] == ["logs", "other-logs"]
    assert shop.ingest()["read"] == other.ingest()["read"] == 0, "neither takes the other's days away"
    assert [row[4] for row in shop.rows()] == [1]
    assert [row[4] for row in other.rows()] == [5, 7]
    root = shop.context.run.root
    assert [place.rpartition("/")[2] for place in source_places(shop.fs, root)] == sorted(names)
    assert json.loads(shop.fs.read_text(f"{other.place}/source.json"))["folder"] == f"file:{other.folder}"


def test_a_source_that_no_run_has_read_is_known_as_such(shop, make_context):
    write_json(shop.folder / "2026-01-01.json", [click("q", "A")])
    shop.ingest()
    run, fs = shop.context.run, shop.fs
    assert unused_sources(fs, run.root) == [shop.place]
    fs.write_text(f"{run.uri}/run.json", "{}")
    run.finish(StageRecord("ingest", "key", 0.0, notes=shop.context.notes))
    assert unused_sources(fs, run.root) == []


def test_the_stage_is_skipped_until_new_logs_arrive(shop, make_context):
    write_json(shop.folder / "2026-01-01.json", [click("q", "A")])
    context = make_context(STAGE, f"input.logs={shop.folder}")
    outcomes = [run_stage(context.spark, context.config, context.run, None, STAGE) for _ in range(2)]
    assert [outcome.skipped for outcome in outcomes] == [False, True]
    assert outcomes[0].record.rows == {"interactions": 1, "quarantine": 0}
    write_json(shop.folder / "2026-01-02.json", [click("q", "A")])
    assert not run_stage(context.spark, context.config, context.run, None, STAGE).skipped


def test_without_logs_there_is_nothing_to_do(make_context):
    context = make_context(STAGE)
    STAGE.run(context)
    assert STAGE.external(context) is None
    assert context.notes == {"days": {}, "read": 0}


def test_files_are_known_by_any_name_they_can_have(shop):
    write_json(shop.folder / "v20250101/31.01.2026 a b%20ü.json", [click("q", "A")])
    write_json(shop.folder / "v20250101/30.01.2026#?[x]+.json", [click("q", "B")])
    shop.ingest('ingest.layout="v*/DD.MM.YYYY"')
    assert [row[0:3:2] for row in shop.rows()] == [("2026-01-30", "B"), ("2026-01-31", "A")]


def test_csv_and_parquet_give_what_json_gives(shop, tmp_path, make_context):
    (shop.folder / "dt=2026-01-01").mkdir(parents=True)
    (shop.folder / "dt=2026-01-01/a.csv").write_text(
        'item;search;n;text\nA;"x; ""y""";2;Über\nA;"x; ""y""";;\nB;z;1;\n', encoding="utf-8"
    )
    names = ("columns.query=search", "columns.label_key=item", "columns.clicks=n", "columns.label_text=text")
    settings = [f"ingest.{name}" for name in names]
    shop.ingest(*settings, 'ingest.delimiter=";"')
    expected = [("2026-01-01", 'x; "y"', "A", 0, 2, 0, "Über"), ("2026-01-01", "z", "B", 0, 1, 0, None)]
    assert shop.rows() == expected

    other = Shop(make_context, tmp_path / "parquet")
    (other.folder / "2026-01-01").mkdir(parents=True)
    table = pa.table(
        {
            "item": ["A", "A", "B"],
            "search": ['x; "y"', 'x; "y"', "z"],
            "n": [2, None, 1],
            "text": ["Über", None, ""],
        }
    )
    pq.write_table(table, other.folder / "2026-01-01/part.parquet")
    other.ingest(*settings)
    assert other.rows() == expected


def test_only_the_window_up_to_the_date_is_read(shop):
    for day in range(1, 6):
        write_json(shop.folder / f"dt=2026-01-0{day}/a.json", [click("q", "A", day)])
    shop.ingest("run.date=2026-01-04", window=2)
    assert shop.dates() == [date(2026, 1, 3), date(2026, 1, 4)]
    assert list(shop.context.notes["days"]) == ["2026-01-03", "2026-01-04"]


def test_days_ingested_before_stay_when_their_logs_are_gone(shop):
    files = [
        write_json(shop.folder / f"dt=2026-01-0{day}/a.json", [click("q", "A", day)]) for day in (1, 2, 3)
    ]
    shop.ingest()
    files[1].unlink()
    shop.ingest()
    assert [row[4] for row in shop.rows()] == [1, 2, 3]


def test_the_answer_does_not_depend_on_files_or_slots(shop, tmp_path, make_context, spark, monkeypatch):
    records = [
        click(f"q{n % 7}", f"i{n % 5}", n % 3, label_text=f"t{n % 11}", impressions=n) for n in range(200)
    ]
    other = Shop(make_context, tmp_path / "other")
    write_json(shop.folder / "2026-01-01.json", records)
    for part in range(6):
        write_json(other.folder / f"2026-01-01/{part}.json", records[::-1][part::6])
    shop.ingest()
    rows = shop.rows()
    monkeypatch.setattr(batch_writer_spark, "slots_of", lambda spark: 5)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "500")
    try:
        other.ingest()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert other.rows() == rows
    assert len(rows) == 35


def test_what_no_pointer_names_is_not_there(shop):
    write_json(shop.folder / "2026-01-01.json", [click("q", "A")])
    shop.ingest()
    fs, place = shop.fs, shop.place
    day = days(fs, place, date(2026, 1, 1), date(2026, 1, 1))[date(2026, 1, 1)]
    for batch in ("killed", new_batch()):
        fs.write_text(
            batch_uri(place, batch) + "/kind=interactions/dt=2026-01-01/part.parquet", "half of a file"
        )
    assert len(shop.rows()) == 1
    assert len(unused_batches(fs, place)) == 2
    assert delete_unused_batches(fs, place, days_old=1) == 0
    assert delete_unused_batches(fs, place, days_old=0) == 2
    assert unused_batches(fs, place) == []
    make_visible(fs, place, day)  # somebody else ingested the same
    assert len(shop.rows()) == 1


def test_the_age_of_a_batch_is_in_its_name_and_not_when_its_folder_was_made(shop):
    write_json(shop.folder / "2026-01-01.json", [click("q", "A")])
    shop.ingest()
    ago = datetime.now(UTC) - timedelta(days=2)
    fs, old = shop.fs, f"{ago:%Y%m%dT%H%M%S}-abc"
    for batch in (old, new_batch()):
        fs.write_text(batch_uri(shop.place, batch) + "/part", "written just now")
    assert delete_unused_batches(fs, shop.place, days_old=1) == 1
    assert not fs.exists(batch_uri(shop.place, old))


def _versions(shop):
    return interaction_versions(shop.fs, shop.place, date(2026, 1, 1), date(2026, 1, 31))
