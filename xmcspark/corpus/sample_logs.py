"""Seeded logs of a shop that does not exist: what people typed, saw, clicked and bought, day by day, as gzipped
JSON lines. Decides what makes them like real ones: Zipfian queries made of the words of titles, misspellings, items
that come later, and lines that no program can use. The same settings give the same bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from xmcspark.corpus.sample_catalogue import Catalogue, make_catalogue
from xmcspark.corpus.sample_settings import SampleSettings

_QUERY_ZIPF = 0.85
_WEEKEND = 1.2  # as many records as on other days
_CLICKED, _BOUGHT = (
    0.65,
    0.12,
)  # chances of a click when an item caught the eye, and of buying what was clicked
_CAPITALISED = 0.1
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class _Queries:
    """What people look for, most frequent first, and the items that fit (CSR) with their cumulative weights."""

    texts: list[str]
    popularity: np.ndarray  # cumulative
    starts: np.ndarray
    items: np.ndarray
    weights: np.ndarray  # cumulative over all, so that one search finds an item of any query


def write_sample_logs(folder: str | Path, settings: SampleSettings) -> list[Path]:
    """Writes `dt=<day>/part-00000.json.gz` for each day and returns the files."""
    rng = np.random.default_rng([settings.seed, settings.items, settings.queries])
    catalogue = make_catalogue(rng, settings.items)
    queries = _make_queries(rng, catalogue, settings.queries)
    first = date.fromisoformat(settings.first_day)
    written = []
    for number in range(settings.days):
        day = first + timedelta(days=number)
        path = Path(folder) / f"dt={day.isoformat()}" / "part-00000.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = b"".join(_lines(settings, catalogue, queries, number, day))
        path.write_bytes(gzip.compress(lines, mtime=0))  # no time in it: the same bytes each time
        written.append(path)
    return written


def sample_records(settings: SampleSettings) -> int:
    """Lines of all days."""
    first = date.fromisoformat(settings.first_day)
    days = (first + timedelta(days=number) for number in range(settings.days))
    return sum(_records_of(settings, day) for day in days)


def _records_of(settings: SampleSettings, day: date) -> int:
    return round(settings.lines_per_day * (_WEEKEND if day.weekday() >= 5 else 1))


def _make_queries(rng: np.random.Generator, catalogue: Catalogue, wanted: int) -> _Queries:
    """People have an item in mind and say some of what it is; all items of which that is true fit."""
    seen: dict[str, np.ndarray] = {}
    for _ in range(20):  # common things are said again and again: try for a while, then be content
        thought_of = catalogue.draw(rng, wanted)
        said = rng.random((wanted, 3)) < (0.45, 0.4, 0.5)
        order = rng.random(wanted)
        for item, which, turn in zip(thought_of, said, order, strict=True):
            text = catalogue.words(int(item), which, float(turn))
            if text not in seen:
                seen[text] = catalogue.fitting(int(item), which)
            if len(seen) == wanted:
                break
        if len(seen) == wanted:
            break
    texts = list(seen)
    sizes = [len(items) for items in seen.values()]
    items = np.concatenate(list(seen.values()))
    popularity = np.cumsum((np.arange(len(texts)) + 2.7) ** -_QUERY_ZIPF)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return _Queries(texts, popularity, starts, items, np.cumsum(catalogue.popularity[items]))


def _lines(
    settings: SampleSettings, catalogue: Catalogue, queries: _Queries, number: int, day: date
) -> Iterator[bytes]:
    rng = np.random.default_rng([settings.seed, 1 + number])
    chances = (settings.misspelt, _CAPITALISED, settings.bad_lines)
    count = _records_of(settings, day)
    query, item = _drawn(rng, catalogue, queries, count, number)
    clicks = rng.random(count) < _CLICKED
    bought = clicks & (rng.random(count) < _BOUGHT)
    seen = 1 + rng.poisson(1.5, count)
    slips, capitals, broken = (rng.random(count) < chance for chance in chances)
    seconds = np.sort(rng.integers(0, 86_400, count))
    drawn = (query, item, seen, clicks.astype(int), bought.astype(int), slips, capitals, broken, seconds)
    for q, i, shown, clicked, purchased, slip, capital, spoilt, at in zip(
        *(d.tolist() for d in drawn), strict=True
    ):
        text = _misspelt(rng, queries.texts[q]) if slip else queries.texts[q]
        record = {
            "time": f"{day}T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z",
            "query": text.capitalize() if capital else text,
            "item": catalogue.keys[i],
            "title": catalogue.titles[i],
            "impressions": shown,
            "clicks": clicked,
            "purchases": purchased,
        }
        yield (_spoilt(rng, record) if spoilt else _json(record)) + b"\n"


def _drawn(
    rng: np.random.Generator, catalogue: Catalogue, queries: _Queries, count: int, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Queries, and for each an item that fits; one that is not sold yet gives way to the best that is."""
    query = np.searchsorted(queries.popularity, rng.random(count) * queries.popularity[-1], side="right")
    before = np.concatenate([[0.0], queries.weights])
    low, high = before[queries.starts[query]], before[queries.starts[query + 1]]
    place = np.searchsorted(queries.weights, low + rng.random(count) * (high - low), side="right")
    place = np.clip(place, queries.starts[query], queries.starts[query + 1] - 1)
    item = queries.items[place]
    for at in np.flatnonzero(catalogue.first_day[item] > number):
        fitting = queries.items[queries.starts[query[at]] : queries.starts[query[at] + 1]]
        sold = fitting[catalogue.first_day[fitting] <= number]
        if len(sold):
            item[at] = sold[np.argmax(catalogue.popularity[sold])]
    return query, item


def _misspelt(rng: np.random.Generator, text: str) -> str:
    """One slip of the fingers: two letters swapped, one left out, doubled or replaced. Never the first of all."""
    if len(text) < 4:
        return text
    at = int(rng.integers(1, len(text) - 1))
    letter = _LETTERS[int(rng.integers(len(_LETTERS)))]
    slips = (
        text[:at] + text[at + 1] + text[at] + text[at + 2 :],
        text[:at] + text[at + 1 :],
        text[:at] + text[at] + text[at:],
        text[:at] + letter + text[at + 1 :],
    )
    return slips[int(rng.integers(len(slips)))]


def _spoilt(rng: np.random.Generator, record: dict[str, object]) -> bytes:
    """A line as broken loggers write it."""
    whole = _json(record)
    ways = (
        whole[: int(rng.integers(1, len(whole)))],  # cut off
        _json({**record, "query": " "}),
        _json({**record, "clicks": -1}),
        _json({**record, "impressions": "many"}),
        _json({name: value for name, value in record.items() if name != "item"}),
        _json({**record, "query": "caf?"}).replace(b"caf?", b"caf\xe9"),  # Latin-1
    )
    return ways[int(rng.integers(len(ways)))]


def _json(record: dict[str, object]) -> bytes:
    return _ENCODER.encode(record).encode()
