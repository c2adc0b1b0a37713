"""Where a statement ends."""

import pytest

from xmcspark.serving.statements import is_blank, split_statements


@pytest.mark.parametrize(
    ("text", "ended", "rest"),
    [
        ("select 1; select 2;", ["select 1", "select 2"], ""),
        ("select 1", [], "select 1"),
        ("select ';' ; x", ["select ';'"], " x"),
        (r"select 'it\';s'; x", [r"select 'it\';s'"], " x"),
        ('select ";", `a;b`;', ['select ";", `a;b`'], ""),
        ("select 1 -- a; b\n;", ["select 1 -- a; b"], ""),
        ("/* a; */ select 1;", ["/* a; */ select 1"], ""),
        ("select 'not closed;", [], "select 'not closed;"),
        ("/* not closed;", [], "/* not closed;"),
        (" ; -- only a comment\n;", [], ""),
    ],
)
def test_statements_end_at_semicolons_outside_of_texts_names_and_comments(text, ended, rest):
    assert split_statements(text) == (ended, rest)


def test_comments_alone_are_no_statement():
    assert is_blank(" -- nothing\n/* to\nsee */ ")
    assert not is_blank("-- a\nselect 1")
