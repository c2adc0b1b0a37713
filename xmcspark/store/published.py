"""Which run is served: what the newest pointer of `<root>/published` names. Publishing creates the next pointer and
nothing else, so readers see the old model or the new one; of two publishers, one creates it and the other is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xmcspark.errors import ConflictError
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.pointers import create_next, latest, newest_first, numbers


@dataclass(frozen=True)
class Published:
    """One publication."""

    run: str
    published_at: str  # UTC, ISO 8601
    reason: str  # refresh, or rollback
    facts: dict[str, Any] = field(default_factory=dict)  # what the next publication's gates compare with


def history(fs: Filesystem, root: str) -> list[Published]:
    """All publications, oldest first."""
    return [Published(**payload) for _, payload in newest_first(fs, _folder(root))][::-1]


def published(fs: Filesystem, root: str) -> Published | None:
    """The publication that is served now; None before the first."""
    found = latest(fs, _folder(root))
    return None if found is None else Published(**found[1])


def last_number(fs: Filesystem, root: str) -> int:
    """Of the publication to take over from; 0 before the first."""
    return max(numbers(fs, _folder(root)), default=0)


def publish(fs: Filesystem, root: str, publication: Published, after: int) -> int:
    """Makes a publication the current one, taking over from number `after`; ConflictError if somebody else did."""
    try:
        return create_next(fs, _folder(root), vars(publication), after)
    except ConflictError as error:
        winner = published(fs, root)
        raise ConflictError(
            f"run {winner.run if winner else 'unknown'} was published while {publication.run} was about to be: that "
            f"one is served. Check that no two refreshes share {root}, then run publish again"
        ) from error


def _folder(root: str) -> str:
    return joined(root, "published")
