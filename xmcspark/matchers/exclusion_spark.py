"""Which labels are excluded for which instance: those of the `exclude` table and, if asked for, the label that is
the instance itself."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from xmcspark.store.stage import Context


def with_excluded(context: Context, instances: DataFrame) -> DataFrame:
    """Instances with one more column, `excluded` array<int>: increasing; null or empty where nothing is."""
    given = F.lit(None).cast("array<int>")
    if context.fs.exists(context.run.table("exclude")):
        exclude = context.read("exclude").select("id", F.col("labels").alias("_excluded"))
        instances, given = instances.join(exclude, "id", "left"), F.col("_excluded")
    if context.config.predict.exclude_self:
        own = context.read("labels").select(F.col("key").alias("id"), F.col("id").alias("_own"))
        instances = instances.join(own, "id", "left")
        nothing = F.array().cast("array<int>")
        itself = F.when(F.col("_own").isNotNull(), F.array("_own")).otherwise(nothing)
        given = F.concat(F.coalesce(given, nothing), itself)
    increasing = F.array_sort(F.array_distinct(given))
    return instances.withColumn("excluded", increasing).drop("_excluded", "_own")
