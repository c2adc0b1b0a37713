"""Keys land in the partition they were made for."""

import pytest

from xmcspark.store.placement import murmur3, partition_keys


def test_our_hash_is_sparks_hash(spark):
    from pyspark.sql import functions as F

    keys = [0, 1, -1, 7, 123456, 2**31 - 1, -(2**31)]
    rows = spark.createDataFrame([(key,) for key in keys], "key int").select("key", F.hash("key").alias("h"))
    assert {row.key: row.h for row in rows.collect()} == dict(zip(keys, murmur3(keys).tolist(), strict=True))


@pytest.mark.parametrize("partitions", [1, 5, 64])
def test_each_partition_gets_its_own_key(spark, partitions):
    from pyspark.sql import functions as F

    keys = partition_keys(partitions)
    frame = spark.createDataFrame([(key,) for key in keys], "key int").repartition(partitions, "key")
    placed = frame.select("key", F.spark_partition_id().alias("p")).collect()
    assert {row.key: row.p for row in placed} == {key: i for i, key in enumerate(keys)}


def test_thousands_of_partitions_have_keys():
    assert len(set(partition_keys(4096))) == 4096
