"""The whole configuration of a run, composed from the settings of its parts: a new part is one more line in
`Config`. Loading lays a file over the method's preset and `--set` over both, and reports every problem at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xmcspark.config.contradictions import contradictions_of
from xmcspark.config.overrides import merged, parse_override, put_all
from xmcspark.config.presets import METHODS
from xmcspark.config.reading import Reader, section, share_keys, to_plain
from xmcspark.config.sections import EnsembleSettings, InputSettings, RefreshSettings, RunSettings
from xmcspark.config.setting import check_settings, setting
from xmcspark.config.value_types import shown
from xmcspark.config.yaml_text import parse
from xmcspark.corpus.corpus_settings import CorpusSettings
from xmcspark.corpus.ingest_settings import IngestSettings
from xmcspark.corpus.sample_settings import SampleSettings
from xmcspark.errors import ConfigError
from xmcspark.labels.augment_settings import AugmentSettings
from xmcspark.labels.settings import PifaSettings
from xmcspark.mach.settings import MachSettings
from xmcspark.matchers.settings import PredictSettings, TrainJobSettings
from xmcspark.neural.settings import EncoderSettings, XrTransformerSettings, XTransformerSettings
from xmcspark.neural.unidec.settings import UnidecSettings
from xmcspark.quality.settings import EvaluateSettings
from xmcspark.store.publish_settings import PublishSettings
from xmcspark.text.settings import TfidfSettings
from xmcspark.tree.params import TreeSettings


@dataclass(frozen=True)
class Config:
    """Everything that decides what a run computes."""

    method: str = setting(
        "xr-linear", "The preset that the defaults below come from.", choices=tuple(METHODS)
    )
    seed: int = setting(
        0,
        "Every random choice follows from it: the same seed gives the same model.",
        minimum=0,
        maximum=2**63 - 1,
    )
    run: RunSettings = section(RunSettings)
    refresh: RefreshSettings = section(RefreshSettings)
    input: InputSettings = section(InputSettings)
    sample: SampleSettings = section(SampleSettings)
    ingest: IngestSettings = section(IngestSettings)
    corpus: CorpusSettings = section(CorpusSettings)
    augment: AugmentSettings = section(AugmentSettings)
    text: TfidfSettings = section(TfidfSettings)
    encoder: EncoderSettings = section(EncoderSettings)
    xr_transformer: XrTransformerSettings = section(XrTransformerSettings)
    x_transformer: XTransformerSettings = section(XTransformerSettings)
    unidec: UnidecSettings = section(UnidecSettings)
    pifa: PifaSettings = section(PifaSettings)
    tree: TreeSettings = section(TreeSettings, not_keys=("threads",))
    ensemble: EnsembleSettings = section(EnsembleSettings)
    train: TrainJobSettings = section(TrainJobSettings)
    mach: MachSettings = section(MachSettings)
    predict: PredictSettings = section(PredictSettings)
    evaluate: EvaluateSettings = section(EvaluateSettings)
    publish: PublishSettings = section(PublishSettings)

    def __post_init__(self) -> None:
        check_settings(self)
        share_keys(self)

    def contradictions(self) -> list[str]:
        """What no part can see alone."""
        return contradictions_of(self)

    def resolved(self) -> dict[str, Any]:
        """Every key with its value; `from_mapping` of it gives this configuration again."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self) -> str:
        """`resolved` as the one document that travels with a job."""
        return json.dumps(self.resolved(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def default_config(method: str = "xr-linear") -> Config:
    """A method's preset."""
    return from_mapping({"method": method})


def load(
    path: str | Path | None = None,
    overrides: Sequence[str] = (),
    text_of: Callable[[str | Path], str] | None = None,
) -> Config:
    """The configuration of a YAML or JSON file (none: all defaults) with `key.sub=value` overrides laid over it.
    `text_of` reads the file where it is not a local one."""
    problems: list[str] = []
    given: Any = {}
    try:
        given = {} if path is None else parse((text_of or _text_of)(path), str(path))
    except ConfigError as error:
        problems += error.problems
    parsed = []
    for override in overrides:
        try:
            parsed.append(parse_override(override))
        except ConfigError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(str(error))
    return from_mapping(given, parsed, problems)


def from_mapping(
    given: Any, overrides: Sequence[tuple[str, Any]] = (), problems: Sequence[str] = ()
) -> Config:
    """The configuration of nested mappings with dotted overrides; ConfigError with all problems, those already
    known first."""
    reader = Reader(Config)
    reader.problems += problems
    if given is not None and not isinstance(given, dict):
        reader.problems.append(
            f"the configuration is {shown(given)}: expected a mapping such as 'method: xr-linear'"
        )
        given = None
    wanted = dict(overrides).get("method", (given or {}).get("method", "xr-linear"))
    base = _preset(wanted, reader.problems)
    settings = copy.deepcopy(merged(to_plain(base), {**(given or {}), "method": base.method}))
    reader.problems += put_all(settings, [(key, value) for key, value in overrides if key != "method"])
    config = reader.read(settings, base)
    if reader.problems:
        raise ConfigError(reader.problems)
    assert isinstance(config, Config)
    return config


def _preset(method: Any, problems: list[str]) -> Config:
    """A method's defaults; those of xr-linear if there is no such method."""
    if not (isinstance(method, str) and method in METHODS):
        near = get_close_matches(str(method), METHODS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(METHODS)}"
        problems.append(f"method is {shown(method)}: {advice}")
        return Config()
    settings = to_plain(Config(method=method))
    reader = Reader(Config)
    reader.problems += put_all(settings, list(METHODS[method].changes.items()))
    made = reader.read(settings, Config())
    if reader.problems:  # ours, not the user's
        raise AssertionError(f"the preset {method} is wrong: {reader.problems}")
    assert isinstance(made, Config)
    return made


def _text_of(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            [f"{path}: there is no such file; `./spark-submit.sh config --skeleton xr-linear` prints one"]
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8"]) from error
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
