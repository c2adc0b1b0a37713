"""Everything a report shows, as plain values: what `report_spark.py` gathers and the sections draw. A part that a run
does not have is None or empty, and its section is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xmcspark.quality.metric_sums import MetricRow
from xmcspark.report.distribution import Distribution


class Example(NamedTuple):
    """An instance and what was predicted for it."""

    text: str
    answers: list[tuple[str, float, bool]]  # name, score, whether it is a true label; best first
    true_labels: int  # how many it has


class Neighbour(NamedTuple):
    """A label that instances have together with another one."""

    name: str
    together: int  # instances that have both
    probability: float  # that an instance with the other one has this


class Neighbours(NamedTuple):
    """A label and those it occurs with most, the most likely first."""

    name: str
    instances: int  # training instances that have it
    known: int  # neighbours it has in all
    best: list[Neighbour]


class Spread(NamedTuple):
    """Smallest, median and largest of something."""

    low: int
    median: int
    high: int


class Level(NamedTuple):
    """The nodes of one level of a tree."""

    member: int
    level: int
    nodes: int
    children: Spread
    labels: Spread  # below a node
    rows: Spread  # training instances of a node


class UnitLoad(NamedTuple):
    """A line of the table sub_tree_load."""

    member: int
    sub_tree: int
    node: int
    nodes: int
    matchers: int
    wave: int
    rows: int
    nnz: int
    predicted_load: float
    seconds: float


@dataclass(frozen=True)
class StageTime:
    """A finished stage."""

    stage: str
    seconds: float
    skipped: bool  # finished in an earlier attempt, taken over
    rows: Mapping[str, int]  # of each table it wrote
    notes: Mapping[str, Any]
    shuffle_bytes: int | None = None
    slots: int | None = None


@dataclass(frozen=True)
class Profile:
    """What was learned from."""

    train_instances: int
    test_instances: int
    labels: int  # that are trained
    positives_per_label: Distribution
    labels_per_instance: Distribution  # of the training split
    text_length: Distribution  # characters, of the training split
    tail_labels: int  # with fewer than TAIL_BELOW positives
    tail_positives: int  # positives of those

    def to_json(self) -> dict[str, Any]:
        return {
            name: value.to_json() if isinstance(value, Distribution) else value
            for name, value in vars(self).items()
        }

    @staticmethod
    def of_json(document: Mapping[str, Any]) -> Profile:
        """What `to_json` gave; KeyError, TypeError or ValueError if it did not give this."""
        known: dict[str, Any] = {
            name: Distribution.of_json(document[name])
            if isinstance(document[name], Mapping)
            else int(document[name])
            for name in Profile.__dataclass_fields__
        }
        return Profile(**known)


TAIL_BELOW = 10  # positives: as the bin `tail` of the metrics


@dataclass(frozen=True)
class Previous:
    """The run that was published before, as far as it is still known."""

    run: str
    published_at: str | None
    metrics: tuple[MetricRow, ...]
    counts: Mapping[str, int]  # as ReportData.counts
    profile: Profile | None


@dataclass(frozen=True)
class ReportData:
    """One run."""

    run: str
    method: str
    made_at: str  # UTC
    seconds: float  # of the whole refresh
    base: str | None = None  # the run whose label ids it keeps
    publication: int | None = None  # its number; None if it is not published
    refusal: str | None = None  # why it was not published
    facts: Mapping[str, str] = field(default_factory=dict)  # for the head of the page, in order
    metrics: tuple[MetricRow, ...] = ()
    stages: tuple[StageTime, ...] = ()
    levels: tuple[Level, ...] = ()
    units: tuple[UnitLoad, ...] = ()
    profile: Profile | None = None
    counts: Mapping[str, int] = field(default_factory=dict)  # training instances, labels, features
    previous: Previous | None = None
    examples: tuple[Example, ...] = ()
    neighbours: tuple[Neighbours, ...] = ()

    def notes(self, stage: str) -> Mapping[str, Any]:
        """What a stage noted; nothing if it did not run."""
        return next((s.notes for s in self.stages if s.stage == stage), {})

    def slots(self, stage: str) -> int | None:
        """Tasks at a time while a stage ran."""
        return next((s.slots for s in self.stages if s.stage == stage), None)
