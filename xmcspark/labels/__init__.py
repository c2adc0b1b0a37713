"""Label features, co-occurrence and what augmentation makes of label texts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmcspark.labels.augment_settings import AugmentSettings
    from xmcspark.labels.soft_targets import gandalf_rows

# Imported when first used: whoever reads a configuration loads no algorithms.
_HOME = {"AugmentSettings": "augment_settings", "gandalf_rows": "soft_targets"}

__all__ = ["AugmentSettings", "gandalf_rows"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"xmcspark.labels.{_HOME[name]}"), name)
    globals()[name] = value
    return value
