"""Small frames hold what they were given."""

from xmcspark.store.small_frames import small_frame


def test_rows_come_back_with_their_types(spark):
    rows = [(2**31 - 1, -(2**62), 0.1 + 0.2, 'a "quoted" text, with ö'), (0, 1, 1e-300, None)]
    frame = small_frame(spark, rows, "a int, b bigint, c double, d string")
    assert [kind for _, kind in frame.dtypes] == ["int", "bigint", "double", "string"]
    assert sorted(map(tuple, frame.collect()), reverse=True) == rows


def test_no_rows_are_no_rows(spark):
    assert small_frame(spark, [], "a int").count() == 0
