"""What a stage took of the session is recorded with it."""

from xmcspark.store.measured import Meter


def test_bytes_of_shuffles_count_from_when_the_meter_was_made(spark):
    spark.range(1000).repartition(3).collect()
    meter = Meter(spark)
    quiet = meter.read()
    assert (quiet["slots"], quiet["threads"], quiet["shuffle_bytes"]) == (2, 1, 0)
    spark.range(1000).repartition(3).collect()
    assert 1000 < meter.read()["shuffle_bytes"] < 100_000


def test_a_session_that_does_not_tell_is_no_error():
    class Silent:
        def __getattr__(self, name):
            raise AttributeError(name)

    class Session:
        sparkContext = Silent()  # noqa: N815  Spark's name

    assert Meter(Session())._last == -1
