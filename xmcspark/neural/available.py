"""Whether torch and transformers are installed. Everything outside of the torch stage that may need them asks here,
without loading them."""

from __future__ import annotations

from importlib.util import find_spec

from xmcspark.errors import ConfigError

NEEDED = ("torch", "transformers", "safetensors")


def torch_is_there() -> bool:
    """Whether the torch stage can run in this environment."""
    return not _missing()


def require_torch(what: str, *also: str) -> None:
    """ConfigError, with what to install, unless the torch stage can run, with `also` these packages. `what` needs it:
    "method: xr-transformer"."""
    if missing := _missing(also):
        raise ConfigError(
            [
                f"{what} needs {' and '.join(missing)}, which this environment lacks: ./spark-submit.sh setup --extras "
                "neural in a clone, else pip install 'xmcspark[neural]', on the driver and in the environment of the "
                "executors"
            ]
        )


def _missing(also: tuple[str, ...] = ()) -> list[str]:
    return [name for name in (*NEEDED, *also) if find_spec(name) is None]
