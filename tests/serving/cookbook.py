"""docs/cookbook.md as a list of questions: each query with the output that the document shows for it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import functions as F

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cookbook.md"
# Of the run that the document asks; it names them too.
SETTINGS = (
    "run.id=cookbook",
    "sample.days=8",
    "sample.lines_per_day=600",
    "sample.items=120",
    "sample.queries=600",
    "sample.bad_lines=0.02",
    "corpus.window_days=8",
    "corpus.test_days=2",
    "tree.branching=4",
    "tree.max_leaf=10",
    "refresh.examples=0",
)
_BLOCK = re.compile(
    r"(?:<!-- differs: (?P<differs>[\w, ]+) -->\n)?```sql\n(?P<query>.*?)```\n\n```\n(?P<output>.*?)```",
    re.DOTALL,
)


class Question(NamedTuple):
    query: str
    differs: list[str]  # columns whose values no two runs share; shown as ~
    output: str


def questions() -> list[Question]:
    return [_question(block) for block in _BLOCK.finditer(DOCUMENT.read_text())]


def _question(block: re.Match[str]) -> Question:
    return Question(
        block["query"], (block["differs"] or "").split(", ") if block["differs"] else [], block["output"]
    )


def answered(spark: Any, question: Question) -> str:
    """What ./spark-submit.sh sql --full-width prints."""
    frame = spark.sql(question.query.strip().removesuffix(";"))
    frame = frame.withColumns({name: F.lit("~") for name in question.differs})
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.show(50, truncate=False)
    return printed.getvalue().rstrip("\n") + "\n"


def rewritten(spark: Any) -> str:
    """The document with the outputs of now."""

    def block(found: re.Match[str]) -> str:
        before, output = found[0].rsplit("```\n\n```\n", 1)[0], answered(spark, _question(found))
        return f"{before}```\n\n```\n{output}```"

    return _BLOCK.sub(block, DOCUMENT.read_text())
