"""Instances from logs: which queries are one, how days add up, which labels there are."""

from datetime import date

import pytest
from corpus_runs import digests, instances, labels, run_corpus

from xmcspark.corpus import corpus_spark
from xmcspark.corpus.corpus_spark import STAGE
from xmcspark.corpus.interactions_spark import Day
from xmcspark.corpus.relevance_spark import check_formula
from xmcspark.errors import ConfigError, InputError
from xmcspark.store.tables import TABLES

D = [date(2026, 1, day) for day in range(1, 11)]
# query, item, impressions, clicks, purchases, text, day
LOG = [
    ("Red  Shoe", "s1", 9, 2, 0, "old text", D[0]),
    ("red shoe ", "s1", 9, 1, 1, "shoe one", D[3]),
    ("red shoe", "s2", 9, 1, 0, None, D[3]),
    ("red shoe", "s3", 50, 0, 0, "seen, never clicked", D[3]),
    ("blue shoe", "s1", 9, 3, 0, "shoe one", D[4]),
    ("blue shoe", "s2", 9, 1, 0, None, D[4]),
    ("seen only", "s1", 9, 0, 0, None, D[4]),
    ("x" * 40, "s1", 1, 1, 0, None, D[5]),
    ("red shoe", "s2", 9, 4, 0, None, D[8]),
    ("red shoe", "new", 9, 4, 0, "not trained", D[8]),
    ("blue shoe", "s1", 9, 1, 0, None, D[9]),
    ("only new", "new", 9, 4, 0, "not trained", D[9]),
]
SETTINGS = ["input.logs=logs", "corpus.window_days=10", "corpus.test_days=2", "corpus.max_text_chars=30"]


@pytest.fixture
def make_run(spark, make_context, monkeypatch):
    """The corpus of log rows, as if they had been ingested; `filled` are the days that have rows."""

    def make(rows, *overrides, run="test", base=None, partitions=1, filled=D):
        frame = spark.createDataFrame(rows, TABLES["interactions"].schema).repartition(partitions)
        pointers = {day: Day(str(day), "1", "b", len(filled), 1, 0) for day in filled}
        monkeypatch.setattr(corpus_spark, "dates_available", lambda *_: list(filled))
        monkeypatch.setattr(corpus_spark, "days", lambda *_: pointers)
        monkeypatch.setattr(corpus_spark, "read_interactions", lambda *_: frame)
        return run_corpus(make_context, *SETTINGS, *overrides, run=run, base=base)

    return make


def test_queries_become_instances_and_clicked_items_their_labels(make_run):
    context = make_run(LOG)
    found, here = instances(context), labels(context)
    assert found.keys() == {
        ("train", "red shoe"),
        ("train", "blue shoe"),
        ("train", "x" * 30),
        ("test", "red shoe"),
        ("test", "blue shoe"),
    }
    one, two = here["s1"]["id"], here["s2"]["id"]
    assert (one, two) == (0, 1)
    red = found["train", "red shoe"]
    assert dict(zip(red["labels"], red["relevance"], strict=True)) == {one: 2 + 1 + 5, two: 1}
    assert red["text"] == "red shoe"
    assert found["test", "red shoe"]["labels"] == [two], "items first seen in the test days are not trained"
    assert here.keys() == {"s1", "s2"}, "items without a match or outside of training get no id"
    assert here["s1"]["text"] == "shoe one"
    assert (here["s1"]["positives"], here["s2"]["positives"]) == (3, 2)
    assert (here["s2"]["first_seen"], here["s2"]["last_seen"]) == (D[3], D[8])
    notes = context.notes
    assert (notes["texts_cut"], notes["queries_without_matches"], notes["pairs_not_above_0"]) == (1, 1, 2)
    assert (notes["train_rows_dropped"], notes["test_rows_dropped"]) == (1, 1)
    assert (notes["train_rows_untrained"], notes["test_rows_untrained"]) == (0, 1), "one led to no label"
    assert notes["max_relevance"] == 8


def test_the_corpus_of_logs_does_not_depend_on_their_order_and_limits_hold(make_run):
    limits = [
        "corpus.relevance='clicks * exp(-age / 7.0) + purchases / 3'",
        "corpus.max_labels_per_instance=1",
        "corpus.min_query_count=2",
    ]
    one = make_run(LOG, *limits, run="one")
    many = make_run(LOG[::-1], *limits, run="many", partitions=7)
    assert digests(one) == digests(many)
    assert one.notes == many.notes
    found = instances(one)
    assert found.keys() == {("train", "red shoe"), ("train", "blue shoe"), ("test", "blue shoe")}
    assert [len(row["labels"]) for row in found.values()] == [1, 1, 1]
    assert (one.notes["pairs_over_the_limit"], one.notes["queries_too_rare"]) == (2, 1)


def test_labels_of_logs_live_on_in_the_next_run(make_run):
    make_run(LOG, run="monday")
    later = [row for row in LOG if row[1] != "s2"] + [("boot", "a9", 1, 1, 0, "boot", D[2]), LOG[8]]
    context = make_run(later, "corpus.min_label_count=1", run="tuesday", base="monday")
    here = labels(context)
    assert {key: (row["id"], row["active"]) for key, row in here.items()} == {
        "s1": (0, True),
        "s2": (1, False),
        "a9": (2, True),
    }
    assert (here["s2"]["first_seen"], here["s2"]["last_seen"]) == (D[3], D[8])


def test_test_days_without_a_trained_label_are_refused(make_run):
    with pytest.raises(
        InputError, match="none of the 1 instances of the test split has a label that is trained"
    ):
        make_run([row for row in LOG if row[6] < D[8]] + [LOG[-1]])


def test_a_window_without_test_data_is_refused_before_anything_is_read(make_run, make_context):
    with pytest.raises(InputError, match="no logs to evaluate on from 2026-01-19 to 2026-01-20"):
        make_run(LOG, "corpus.window_days=20", "run.date=2026-01-20")
    with pytest.raises(InputError, match="no logs to evaluate on"):
        STAGE.external(make_context(STAGE, *SETTINGS, "corpus.window_days=20", "run.date=2026-01-20"))


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("clicks +", "PARSE_SYNTAX_ERROR"),
        ("klicks + 1", "klicks"),
        ("clicks > 3", "it gives boolean, not a number"),
        ("sum(clicks)", "clicks"),
        ("clicks * rand()", "random numbers"),
        ("explode(array(clicks, 1))", "generators"),
        ("row_number() over (order by clicks)", "window functions"),
    ],
)
def test_a_formula_that_is_no_number_for_each_row_is_refused(spark, formula, problem):
    with pytest.raises(ConfigError, match=r"corpus\.relevance is") as caught:
        check_formula(spark, formula)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("formula", "problem"), [("clicks / purchases", "divides by 0"), ("exp(clicks * 1000)", "too large")]
)
def test_a_formula_that_fails_on_the_data_is_named(make_run, formula, problem):
    with pytest.raises(InputError, match=rf"corpus\.relevance .*{problem}"):
        make_run(LOG, f"corpus.relevance='{formula}'")
