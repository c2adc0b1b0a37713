"""The columns of X in a run, from what its stages noted."""

from __future__ import annotations

from xmcspark.store.stage import Context
from xmcspark.text.feature_table import FeatureSpace, feature_table


def feature_space(context: Context, table: str | None = None) -> FeatureSpace:
    """Of a table; by default of the one that `feature_table` names."""
    sparse = int(context.noted("vectorize")["features"])
    if (table or feature_table(context.config)) == "features":
        return FeatureSpace(sparse)
    return FeatureSpace(sparse, int(context.noted("encode")["width"]))
