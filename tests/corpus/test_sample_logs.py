"""The sample logs are the same for the same settings, and look like logs of a shop."""

import gzip
import json
from collections import Counter
from datetime import date, timedelta

import numpy as np
import pytest

from xmcspark.corpus.sample_catalogue import make_catalogue
from xmcspark.corpus.sample_logs import sample_records, write_sample_logs
from xmcspark.corpus.sample_settings import SampleSettings

SMALL = {"days": 8, "lines_per_day": 400, "items": 300, "queries": 500, "bad_lines": 0.02}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Files, and their lines as bytes."""
    files = write_sample_logs(tmp_path_factory.mktemp("sample"), SampleSettings(**SMALL))
    return files, [gzip.decompress(file.read_bytes()).splitlines() for file in files]


@pytest.fixture(scope="module")
def records(sample):
    return [record for lines in sample[1] for line in lines if (record := _usable(line))]


def _usable(line):
    try:
        record = json.loads(line)
    except ValueError:  # UnicodeDecodeError too
        return None
    usable = record["query"].strip() and "item" in record and record["clicks"] >= 0
    return record if usable and isinstance(record["impressions"], int) else None


def test_the_same_settings_give_the_same_bytes_and_another_seed_does_not(sample, tmp_path):
    again = write_sample_logs(tmp_path / "again", SampleSettings(**SMALL))
    other = write_sample_logs(tmp_path / "other", SampleSettings(**SMALL, seed=1))
    assert [f.read_bytes() for f in again] == [f.read_bytes() for f in sample[0]]
    assert all(a.read_bytes() != b.read_bytes() for a, b in zip(again, other, strict=True))


def test_more_days_leave_the_first_ones_as_they_are(sample, tmp_path):
    longer = write_sample_logs(tmp_path, SampleSettings(**{**SMALL, "days": 10}))
    assert [f.read_bytes() for f in longer[:8]] == [f.read_bytes() for f in sample[0]]


def test_each_day_has_its_folder_and_about_as_many_lines_as_asked_for(sample):
    files, lines = sample
    first = date(2025, 1, 1)
    assert [file.parent.name for file in files] == [f"dt={first + timedelta(days=n)}" for n in range(8)]
    assert {len(day) for day in lines} == {400, 480}


def test_the_number_of_records_is_known_beforehand(sample):
    assert sum(map(len, sample[1])) == sample_records(SampleSettings(**SMALL)) > 8 * 400  # there is a weekend


def test_about_the_share_asked_for_is_unusable(sample, records):
    total = sum(map(len, sample[1]))
    assert 0.01 < 1 - len(records) / total < 0.03


def test_queries_are_zipfian_and_some_are_misspelt(records):
    counts = Counter(record["query"].lower() for record in records)
    most = [count for _, count in counts.most_common()]
    assert most[0] > 8 * most[50]
    assert sum(count == 1 for count in most) > 50
    rng = np.random.default_rng([0, SMALL["items"], SMALL["queries"]])
    words = {word for title in make_catalogue(rng, SMALL["items"]).titles for word in title.lower().split()}
    words = {word.strip(",") for word in words}
    unknown = [record for record in records if not set(record["query"].lower().split()) <= words]
    assert 0.03 < len(unknown) / len(records) < 0.08


def test_what_is_clicked_is_what_was_asked_for(records):
    """Each word of a query that is spelt right is in the title of the item."""
    fits = [
        set(r["query"].lower().split()) <= set(r["title"].lower().replace(",", "").split()) for r in records
    ]
    assert np.mean(fits) > 0.9


def test_counts_make_sense(records):
    assert all(r["impressions"] >= r["clicks"] >= r["purchases"] >= 0 for r in records)
    clicks, purchases = (sum(r[name] for r in records) for name in ("clicks", "purchases"))
    assert clicks > len(records) / 2
    assert 0 < purchases < clicks / 4


def test_items_have_one_title_each_and_some_come_later(records):
    titles = {(r["item"], r["title"]) for r in records}
    assert len(titles) == len({item for item, _ in titles}) == len({title for _, title in titles})
    early = {r["item"] for r in records if r["time"] < "2025-01-05"}
    assert {item for item, _ in titles} - early


@pytest.mark.parametrize(
    "changes", [{"items": 1, "queries": 5}, {"items": 20_000, "lines_per_day": 5, "queries": 10}]
)
def test_extreme_sizes_work(tmp_path, changes):
    files = write_sample_logs(tmp_path, SampleSettings(**{**SMALL, "days": 1, **changes}))
    assert len(gzip.decompress(files[0].read_bytes()).splitlines()) > 3


def test_titles_are_unique_however_large_the_catalogue():
    catalogue = make_catalogue(np.random.default_rng(0), 60_000)
    assert len(set(catalogue.titles)) == len(set(catalogue.keys)) == 60_000
