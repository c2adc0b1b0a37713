"""Every answer in docs/cookbook.md is what the run gives. XMCSPARK_REWRITE_DOCS=1 writes them into the document."""

import os

import pytest
from cookbook import DOCUMENT, SETTINGS, answered, questions, rewritten

from xmcspark.serving.views_spark import register_run


@pytest.fixture(scope="module")
def session(spark, cookbook_run):
    register_run(spark, cookbook_run)
    if os.environ.get("XMCSPARK_REWRITE_DOCS"):
        DOCUMENT.write_text(rewritten(spark))
    return spark


@pytest.mark.parametrize("number", range(len(questions())))
def test_the_document_shows_what_the_run_answers(session, number):
    question = questions()[number]
    assert answered(session, question) == question.output


def test_there_are_ten_questions_and_the_run_they_are_put_to():
    text = DOCUMENT.read_text()
    assert len(questions()) >= 10
    assert all(
        f"--set {setting}" in text for setting in SETTINGS if not setting.startswith(("run.", "refresh."))
    )
