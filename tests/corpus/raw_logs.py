"""Raw logs for the tests of ingest: writes records as files, and says what a root's interactions are."""

import gzip
import json
from datetime import date
from pathlib import Path

from xmcspark.corpus.ingest_spark import STAGE
from xmcspark.corpus.interactions_spark import dates_available, read_interactions, read_quarantine
from xmcspark.corpus.log_source_spark import log_source

ALL = (date(2000, 1, 1), date(2099, 1, 1))


def click(query, item, clicks=1, **more):
    return {"query": query, "label_key": item, "clicks": clicks, **more}


def write_json(path, records):
    """Records as JSON lines; those that are bytes as they are."""
    lines = b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(lines, mtime=0) if path.name.endswith(".gz") else lines)
    return path


class Shop:
    """A folder of logs and a root that it is ingested into."""

    def __init__(self, make_context, folder):
        self._make, self.folder = make_context, folder
        self.context = None

    def ingest(self, *settings, window=30):
        self.context = self._make(
            STAGE,
            f"input.logs={self.folder}",
            f"corpus.window_days={window}",
            "corpus.test_days=0",
            *settings,
        )
        STAGE.run(self.context)
        return self.context.notes

    @property
    def fs(self):
        return self.context.fs

    @property
    def place(self):
        """Where what was ingested last lies."""
        return log_source(self.fs, self.context.config).place(self.fs, self.context.run.root)

    def dates(self):
        return dates_available(self.fs, self.place)

    def external(self):
        return STAGE.external(self.context)

    def rows(self, first=ALL[0], last=ALL[1]):
        """(day, query, item, impressions, clicks, purchases, text), in order."""
        frame = read_interactions(self.context.spark, self.fs, self.place, first, last)
        names = ("dt", "query", "label_key", "impressions", "clicks", "purchases", "label_text")
        return sorted((tuple([str(r.dt)] + [r[n] for n in names[1:]]) for r in frame.collect()), key=str)

    def quarantine(self):
        frame = read_quarantine(self.context.spark, self.fs, self.place, *ALL)
        return sorted(frame.collect(), key=lambda r: (r.reason, r.record))
