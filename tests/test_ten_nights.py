"""Ten nights in a row by the scheduler's command lines, with what goes wrong in real life: a late day, a killed run, a
model that the gates refuse, a rollback, a back-fill. After each the published history is what it should be.

Some ten minutes: run with XMCSPARK_NIGHTS=1."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import time
from datetime import date, timedelta
from pathlib import Path

import pytest

from xmcspark.corpus.sample_logs import write_sample_logs
from xmcspark.corpus.sample_settings import SampleSettings

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.environ.get("XMCSPARK_NIGHTS", "0") == "0", reason="set XMCSPARK_NIGHTS=1: minutes"
    ),
]
ROOT = Path(__file__).parents[1]
FIRST, WINDOW = date(2026, 3, 1), 14
SETTINGS = {
    "ingest": {"columns": {"label_key": "item", "label_text": "title"}},
    "corpus": {"window_days": WINDOW, "test_days": 2},
    # A day or two of so small a shop differ more than the default allows.
    "publish": {"require": {"max_precision_drop": 0.15}},
}


class Shop:
    """Logs that arrive day by day, and the scheduler of a team."""

    def __init__(self, folder):
        self.folder, self.logs, self.root = folder, folder / "logs", folder / "runs"
        sizes = {"lines_per_day": 400, "items": 150, "queries": 600, "bad_lines": 0.005}
        write_sample_logs(folder / "made", SampleSettings(first_day=str(FIRST), days=WINDOW + 10, **sizes))
        self.logs.mkdir()
        self.config = folder / "shop.json"
        where = {"run": {"root": str(self.root)}, "input": {"logs": str(self.logs)}}
        self.config.write_text(json.dumps(SETTINGS | where))

    def day(self, night):
        return FIRST + timedelta(days=WINDOW - 2 + night)

    def arrive(self, day):
        made = self.folder / "made" / f"dt={day}"
        shutil.copytree(made, self.logs / made.name, dirs_exist_ok=True)

    def spoil(self, day):
        """Every query with an item of somebody else, as after a bug in the logging."""
        for file in (self.logs / f"dt={day}").iterdir():
            records = []
            for line in gzip.decompress(file.read_bytes()).splitlines():
                try:
                    records.append(json.loads(line))
                except ValueError:
                    continue
            items = [(record.get("item"), record.get("title")) for record in records]
            random.Random(0).shuffle(items)
            for record, (item, title) in zip(records, items, strict=True):
                record["item"], record["title"] = item, title
            file.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))

    def command(self, job, *options):
        master = ["--", "--master", "local[2]"]
        return [str(ROOT / "spark-submit.sh"), job, "--config", str(self.config), *options, *master]

    def run(self, job, *options):
        """(exit code, what it said)"""
        done = subprocess.run(self.command(job, *options), capture_output=True, text=True, check=False)
        return done.returncode, done.stderr + done.stdout

    def kill_when(self, text, *options):
        """Starts a refresh and kills it, and all it started, when its log says `text`."""
        log = self.folder / "killed.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.command("refresh", *options), stdout=out, stderr=out, start_new_session=True
            )
            deadline = time.monotonic() + 600
            while text not in log.read_text() and time.monotonic() < deadline:
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def history(self):
        files = sorted((self.root / "published").glob("*.json"), key=lambda file: int(file.stem))
        return [json.loads(file.read_text())["run"] for file in files]

    def summary(self, run):
        return json.loads((self.root / run / "summary.json").read_text())


def test_ten_nights(tmp_path):
    shop = Shop(tmp_path)
    for before in range(WINDOW - 1):
        shop.arrive(FIRST + timedelta(days=before))
    served = []

    def night(number, *options, arrives=True):
        day = shop.day(number)
        if arrives:
            shop.arrive(day)
        code, said = shop.run("refresh", "--date", str(day), "--run", str(day), *options)
        return code, said, str(day)

    def published(number, *options):
        code, said, run = night(number, *options)
        assert code == 0, said
        served.append(run)
        assert shop.history() == served

    published(1)
    published(2)

    # Night 3: the logs are late. Nothing is published; when they are there, the same command goes through.
    code, said, late = night(3, arrives=False)
    assert code == 4, said
    assert late in said
    assert shop.history() == served
    published(3)

    # Night 4: killed in training. The same command goes on where it was.
    shop.arrive(shop.day(4))
    shop.kill_when("train: started", "--date", str(shop.day(4)), "--run", str(shop.day(4)))
    assert shop.history() == served
    kept = (shop.root / str(shop.day(4)) / "stages" / "vectorize.json").read_text()
    published(4)
    assert (shop.root / str(shop.day(4)) / "stages" / "vectorize.json").read_text() == kept

    # Night 5: two days of broken logs make a model that is worse. The gate keeps it away from customers.
    published(5)
    shop.arrive(shop.day(6))
    for number in (5, 6):
        shop.spoil(shop.day(number))
    code, said, refused = night(6, arrives=False)
    assert code == 6, said
    assert "P@1 fell" in said
    assert shop.history() == served

    # Night 7: the logs are mended. Both days are read again, and the new night is published.
    for number in (5, 6):
        shop.arrive(shop.day(number))
    published(7)

    # Somebody does not like what they see: back to the night before.
    code, said = shop.run("publish", "--run", served[-2])
    assert code == 0, said
    served.append(served[-2])
    assert shop.history() == served

    # Night 8 builds on what is served, which is the older run.
    published(8)
    assert json.loads((shop.root / str(shop.day(8)) / "run.json").read_text())["base"] == served[-2]

    # A back-fill of the refused night, with the mended logs: made, measured, and not served.
    filled = f"{refused}-again"
    code, said = shop.run("refresh", "--date", refused, "--run", filled)
    assert code == 6, said
    assert shop.history() == served
    code, said = shop.run("refresh", "--date", refused, "--run", filled, "--set", "publish.enabled=false")
    assert code == 0, said
    assert shop.history() == served
    assert shop.summary(filled)

    published(9)
    published(10)
    code, said = shop.run("prune", "--set", "run.keep=2", "--set", "run.keep_days=0")
    assert code == 0, said
    left = {folder.name for folder in shop.root.iterdir() if (folder / "run.json").exists()}
    assert served[-1] in left
    assert served[-2] in left
    assert str(shop.day(1)) not in left
